//! A device and what is loaded on it.

use crate::driver::{DeviceMemory, Function, GpuContext};
use crate::kernels::{EmbeddedModule, LoadedKernels, LoadedModule};
use crate::operators::Operation;
use crate::select::{PlanRequest, Store};
use crate::settings::{DeviceChoice, device_choice};
use crate::tensor::{Element, HostMemory, Memory, Tensor};
use crate::{Error, Plan, Stream, TensorDesc};
use std::sync::Arc;

/// A device: the CPU, or a GPU with its loaded kernels. Cheap to clone; `Send + Sync`.
///
/// Any number of threads may share one, each with its own [`Stream`].
#[derive(Clone, Debug)]
pub struct Context(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    device: Device,
    info: DeviceInfo,
    store: Store,
}

#[derive(Debug)]
enum Device {
    Cpu,
    /// Not there: its candidates can be judged, nothing runs.
    Described,
    Gpu {
        context: GpuContext,
        kernels: LoadedKernels,
    },
}

impl DeviceInfo {
    /// A GPU of so many multiprocessors.
    pub fn of_gpu(name: String, compute_capability: (u32, u32), n_units: usize, memory_bytes: u64) -> Self {
        // 1.7 GHz, 128 lanes, 2 operations; memory at a share of 30 GB/s a multiprocessor. Orders of magnitude for
        // sorting candidates, not promises.
        let (bytes_per_us, flops_per_us) = (30e3 * n_units as f64, 0.435e6 * n_units as f64);
        let kind = DeviceKind::Gpu;
        DeviceInfo { kind, name, compute_capability, n_units, memory_bytes, bytes_per_us, flops_per_us }
    }

    /// The GPU that the kernels for Hopper were measured on.
    pub fn h200() -> Self {
        DeviceInfo::of_gpu("NVIDIA H200".to_owned(), (9, 0), 132, 150_000_000_000)
    }
}

/// CPU or GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DeviceKind {
    /// The host's processor.
    Cpu,
    /// An NVIDIA GPU.
    Gpu,
}

/// What estimates and messages need to know of a device.
#[derive(Clone, Debug)]
pub struct DeviceInfo {
    /// CPU or GPU.
    pub kind: DeviceKind,
    /// The device's name, with the ordinal for a GPU.
    pub name: String,
    /// Major and minor compute capability; (0, 0) for the CPU.
    pub compute_capability: (u32, u32),
    /// Multiprocessors of a GPU, threads of the CPU's pool.
    pub n_units: usize,
    /// Memory of a GPU; 0 for the CPU.
    pub memory_bytes: u64,
    /// Memory traffic that a plain kernel reaches.
    pub bytes_per_us: f64,
    /// Scalar f32 operations that plain code reaches.
    pub flops_per_us: f64,
}

impl Context {
    /// The device that `OXIDNN_DEVICE` names (`cpu`, `gpu`, `gpu:<ordinal>`); else the first GPU; else the CPU.
    ///
    /// A machine whose kernels are missing from this binary gets the CPU: [`Context::gpu`] tells why.
    ///
    /// # Errors
    /// `BadSetting` for an unreadable variable; `NoDevice` when a GPU is asked for and not there.
    pub fn best() -> Result<Self, Error> {
        match device_choice()? {
            DeviceChoice::Best => Self::gpu(0).or_else(|_| Ok(Self::cpu())),
            DeviceChoice::Cpu => Ok(Self::cpu()),
            DeviceChoice::Gpu(ordinal) => Self::gpu(ordinal),
        }
    }

    /// The CPU. Work is spread over rayon's pool.
    pub fn cpu() -> Self {
        let n_units = rayon::current_num_threads();
        // Rates of one ordinary core; only the order of estimates depends on them.
        let (bytes_per_us, flops_per_us) = (8e3 * (n_units as f64).min(4.0), 2e3 * n_units as f64);
        Context(Arc::new(Inner {
            device: Device::Cpu,
            info: DeviceInfo {
                kind: DeviceKind::Cpu,
                name: format!("CPU ({n_units} threads)"),
                compute_capability: (0, 0),
                n_units,
                memory_bytes: 0,
                bytes_per_us,
                flops_per_us,
            },
            store: Store::default(),
        }))
    }

    /// A device that is not there, to judge candidates and their estimates for it; what would run answers `NoDevice`.
    pub fn described(info: DeviceInfo) -> Self {
        Context(Arc::new(Inner { device: Device::Described, info, store: Store::default() }))
    }

    /// What a described device answers to all that would run.
    pub(crate) fn check_present(&self) -> Result<(), Error> {
        match self.0.device {
            Device::Described => Err(Error::NoDevice { reason: format!("{} is only described", self.0.info.name) }),
            Device::Cpu | Device::Gpu { .. } => Ok(()),
        }
    }

    /// The GPU with this ordinal, through its primary context, which other CUDA libraries share.
    ///
    /// # Errors
    /// `NoDevice` without a driver or such a GPU, `StaleKernels` when this binary carries no kernels, `Driver`.
    pub fn gpu(ordinal: usize) -> Result<Self, Error> {
        Self::from_gpu_context(GpuContext::primary(ordinal)?)
    }

    pub(crate) fn from_gpu_context(context: GpuContext) -> Result<Self, Error> {
        crate::kernels::kernels_state().map_err(|reason| Error::StaleKernels {
            expected: "PTX embedded in this binary".to_owned(),
            found: reason.to_owned(),
        })?;
        let (major, minor) = context.compute_capability();
        if major < 8 {
            return Err(Error::NoDevice {
                reason: format!(
                    "{} has compute capability {major}.{minor}, the kernels need at least 8.0",
                    context.name()
                ),
            });
        }
        let name = format!("{} (gpu:{})", context.name(), context.ordinal());
        let info = DeviceInfo::of_gpu(name, (major, minor), context.sm_count(), context.total_bytes());
        let device = Device::Gpu { context, kernels: LoadedKernels::default() };
        Ok(Context(Arc::new(Inner { device, info, store: Store::default() })))
    }

    /// Every device of this machine: the GPUs, then the CPU.
    pub fn all() -> Vec<Self> {
        let n_gpus = GpuContext::count().unwrap_or(0);
        (0..n_gpus).filter_map(|ordinal| Self::gpu(ordinal).ok()).chain([Self::cpu()]).collect()
    }

    /// What the device is.
    pub fn info(&self) -> &DeviceInfo {
        &self.0.info
    }

    /// Whether the device is a GPU.
    pub fn is_gpu(&self) -> bool {
        self.0.info.kind == DeviceKind::Gpu
    }

    /// The driver's context, for a GPU.
    pub fn gpu_context(&self) -> Option<&GpuContext> {
        match &self.0.device {
            Device::Cpu | Device::Described => None,
            Device::Gpu { context, .. } => Some(context),
        }
    }

    /// A new stream. On the CPU, work is done when the call that asked for it returns.
    ///
    /// # Errors
    /// `Driver`.
    pub fn stream(&self) -> Result<Stream, Error> {
        Stream::new(self)
    }

    /// Uninitialized-free memory: a tensor of zeros.
    ///
    /// # Errors
    /// `OutOfMemory`, `Driver`.
    pub fn tensor(&self, desc: &TensorDesc) -> Result<Tensor, Error> {
        Tensor::zeros(self, desc)
    }

    /// A tensor with `values` given in row-major order of its indices, whatever its strides, converted to its type.
    ///
    /// # Errors
    /// `BadDescriptor` when the number of values is not that of the elements, `OutOfMemory`, `Driver`.
    pub fn tensor_from<T: Element>(&self, desc: &TensorDesc, values: &[T]) -> Result<Tensor, Error> {
        Tensor::from_values(self, desc, values)
    }

    /// Chooses algorithms for a problem.
    ///
    /// # Errors
    /// `Unsupported` with every algorithm's reason; `StaleKernels`, `OutOfMemory` (policy `Find`), `Driver`.
    pub fn plan<P: Operation>(&self, problem: &P, request: impl Into<PlanRequest>) -> Result<Plan, Error> {
        crate::select::plan(self, problem, &request.into())
    }

    pub(crate) fn alloc(&self, bytes: u64) -> Result<Memory, Error> {
        let out_of_memory = || Error::OutOfMemory { bytes, device: self.0.info.name.clone() };
        self.check_present()?;
        match &self.0.device {
            Device::Cpu | Device::Described => HostMemory::zeroed(bytes).map(Memory::Host).ok_or_else(out_of_memory),
            Device::Gpu { context, .. } => {
                let size = usize::try_from(bytes).map_err(|_| out_of_memory())?;
                match DeviceMemory::alloc(context, size) {
                    Ok(memory) => Ok(Memory::Device(memory)),
                    Err(e) if e.is_out_of_memory() => Err(out_of_memory()),
                    Err(e) => Err(e.into()),
                }
            }
        }
    }

    pub(crate) fn function(&self, symbol: &'static str) -> Result<Function, Error> {
        match &self.0.device {
            Device::Gpu { context, kernels } => kernels.function(context, symbol),
            Device::Cpu | Device::Described => {
                let given = &self.0.info.name;
                Err(Error::NoDevice { reason: format!("the kernel {symbol} needs a GPU, given {given}") })
            }
        }
    }

    /// What was loaded so far of the kernels, oldest first, with what from and how long that took; none on the CPU.
    pub fn loaded_modules(&self) -> Vec<LoadedModule> {
        match &self.0.device {
            Device::Gpu { kernels, .. } => kernels.loads(),
            Device::Cpu | Device::Described => Vec::new(),
        }
    }

    /// Why the driver refused a module's machine code that is for its device, once it has been tried: an older driver
    /// does, and compiles PTX instead.
    pub fn cubin_refusal(&self, module: &EmbeddedModule) -> Option<String> {
        match &self.0.device {
            Device::Gpu { kernels, .. } => kernels.refusal(module),
            Device::Cpu | Device::Described => None,
        }
    }

    /// Loads every kernel that runs on the device, which otherwise happens when one is first needed.
    ///
    /// # Errors
    /// `StaleKernels`, `Driver`.
    pub fn load_all_modules(&self) -> Result<(), Error> {
        match &self.0.device {
            Device::Gpu { context, kernels } => kernels.load_all(context),
            Device::Cpu => Ok(()),
            Device::Described => self.check_present(),
        }
    }

    pub(crate) fn store(&self) -> &Store {
        &self.0.store
    }

    /// Whether both handles share memory: the same GPU context, or both the CPU.
    pub fn shares_memory_with(&self, other: &Context) -> bool {
        match (&self.0.device, &other.0.device) {
            (Device::Cpu, Device::Cpu) => true,
            (Device::Gpu { context: a, .. }, Device::Gpu { context: b, .. }) => a.raw() == b.raw(),
            _ => false,
        }
    }
}
