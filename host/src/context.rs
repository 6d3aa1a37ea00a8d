//! A device and what is loaded on it.

use crate::driver::{DeviceMemory, Function, GpuContext};
use crate::kernels::{EmbeddedModule, LoadedKernels, LoadedModule};
use crate::launch::{LaunchConfig, max_active_clusters};
use crate::operators::Operation;
use crate::ops::conv::ConvProvider;
use crate::select::{PlanRequest, Store, scope};
use crate::settings::{DeviceChoice, device_choice};
use crate::tensor::{Element, HostMemory, Memory, Tensor};
use crate::{Error, Plan, Stream, TensorDesc};
use std::sync::{Arc, OnceLock};

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
    conv_provider: OnceLock<Arc<dyn ConvProvider>>,
    /// Clusters of so many blocks that are at work at once, where it was asked.
    clusters: [OnceLock<u64>; MAX_CLUSTER + 1],
}

/// Blocks of a cluster that every device with clusters has.
const PORTABLE_CLUSTER: u32 = 8;

/// The most blocks of a cluster.
const MAX_CLUSTER: usize = 16;

macro_rules! symbol {
    (($symbol:ident) $(,)?) => {
        stringify!($symbol)
    };
}

/// A small kernel, of which is only asked how many clusters of it there is room for.
const PROBE: &str = kernel_abi::conv_pad_kernels!(symbol);

impl Inner {
    fn new(device: Device, info: DeviceInfo) -> Self {
        Inner { device, info, store: Store::default(), conv_provider: OnceLock::new(), clusters: Default::default() }
    }
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
        let calibrated = compute_capability == (9, 0);
        DeviceInfo {
            kind,
            name,
            compute_capability,
            n_units,
            cluster_units: n_units,
            memory_bytes,
            bytes_per_us,
            flops_per_us,
            calibrated,
        }
    }

    /// The GPU that the kernels for Hopper were measured on.
    pub fn h200() -> Self {
        let described = DeviceInfo::of_gpu("NVIDIA H200".to_owned(), (9, 0), 132, 150_000_000_000);
        // 36 clusters of 3 were seen to run at a time and 40 not, 28 of 4 and 32 not.
        DeviceInfo { cluster_units: 117, ..described }
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
    /// Multiprocessors on which clusters of more than two blocks find room at once, a block on each: they lie within
    /// groups of multiprocessors. The driver of a GPU that is there knows it better.
    pub cluster_units: usize,
    /// Memory of a GPU; 0 for the CPU.
    pub memory_bytes: u64,
    /// Memory traffic that a plain kernel reaches.
    pub bytes_per_us: f64,
    /// Scalar f32 operations that plain code reaches.
    pub flops_per_us: f64,
    /// Whether estimates are corrected by the times that candidates took, on an H200, or on an H100 where the name says so.
    pub calibrated: bool,
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
        let info = DeviceInfo {
            kind: DeviceKind::Cpu,
            name: format!("CPU ({n_units} threads)"),
            compute_capability: (0, 0),
            n_units,
            cluster_units: 0,
            memory_bytes: 0,
            bytes_per_us,
            flops_per_us,
            calibrated: false,
        };
        Context(Arc::new(Inner::new(Device::Cpu, info)))
    }

    /// A device that is not there, to judge candidates and their estimates for it; what would run answers `NoDevice`.
    pub fn described(info: DeviceInfo) -> Self {
        Context(Arc::new(Inner::new(Device::Described, info)))
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
        Ok(Context(Arc::new(Inner::new(device, info))))
    }

    /// Every device of this machine: the GPUs, then the CPU.
    pub fn all() -> Vec<Self> {
        let n_gpus = GpuContext::count().unwrap_or(0);
        (0..n_gpus).filter_map(|ordinal| Self::gpu(ordinal).ok()).chain([Self::cpu()]).collect()
    }

    /// The other GPUs of this machine that are of the same kind, with the same driver: what is measured on one is valid
    /// for all. None for the CPU.
    pub fn alike(&self) -> Vec<Self> {
        let Some(own) = self.gpu_context() else { return Vec::new() };
        let n_gpus = GpuContext::count().unwrap_or(0);
        let others = (0..n_gpus).filter(|&ordinal| ordinal != own.ordinal());
        others
            .filter_map(|ordinal| Self::gpu(ordinal).ok())
            .filter(|other| scope::of(other) == scope::of(self))
            .collect()
    }

    /// Whether both handles are of one context.
    pub(crate) fn is_same(&self, other: &Context) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
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

    /// Puts a provider's algorithms beside the crate's own, for every plan of this context from now on.
    ///
    /// # Errors
    /// `Provider` where the context has one already.
    pub fn provide_convolutions(&self, provider: Arc<dyn ConvProvider>) -> Result<(), Error> {
        self.0.conv_provider.set(provider).map_err(|surplus| {
            let known = self.0.conv_provider.get();
            Error::Provider { algorithm: "", reason: format!("expected one provider, given {known:?} and {surplus:?}") }
        })
    }

    pub(crate) fn conv_provider(&self) -> Option<&dyn ConvProvider> {
        self.0.conv_provider.get().map(|provider| &**provider)
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

    /// Clusters of so many blocks, up to 8, that are at work at once with a block on each multiprocessor. The driver is
    /// asked once for each number.
    pub(crate) fn active_clusters(&self, blocks: u32) -> u64 {
        let info = self.info();
        let units = if blocks > 2 { info.cluster_units } else { info.n_units } as u64;
        let described = (units / u64::from(blocks)).max(1);
        match self.0.clusters.get(blocks as usize) {
            Some(known) if blocks > 1 => *known.get_or_init(|| self.ask_for_clusters(blocks).unwrap_or(described)),
            _ => described,
        }
    }

    /// The driver's answer, where there is one.
    fn ask_for_clusters(&self, blocks: u32) -> Option<u64> {
        /// More than half of what a multiprocessor has, so that there is one block on each.
        const SHARED_BYTES: u32 = 160 * 1024;
        let function = self.function(PROBE).ok()?;
        function.allow_dynamic_shared(SHARED_BYTES as usize).ok()?;
        function.allow_large_clusters().ok()?;
        let config = LaunchConfig {
            grid: [self.info().n_units as u32 * blocks, 1, 1],
            block: [32, 1, 1],
            shared_bytes: SHARED_BYTES,
            cluster: Some([blocks, 1, 1]),
            ..LaunchConfig::default()
        };
        // Of more than eight, none means that the device has no such clusters.
        let clusters = max_active_clusters(&function, &config).ok();
        clusters.filter(|&clusters| clusters > 0 || blocks > PORTABLE_CLUSTER).map(u64::from)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clusters_find_room_on_groups_of_multiprocessors() {
        let context = Context::described(DeviceInfo::h200());
        assert_eq!([1, 2, 3, 4, 8, 16].map(|blocks| context.active_clusters(blocks)), [132, 66, 39, 29, 14, 7]);
        for context in Context::all().iter().filter(|context| context.info().compute_capability == (9, 0)) {
            for blocks in 1..=8 {
                let clusters = context.active_clusters(blocks);
                assert!((1..=context.info().n_units as u64 / u64::from(blocks)).contains(&clusters), "{blocks}");
            }
        }
    }
}
