//! Launching unit kernels.

use bytemuck::Pod;
use oxidnn::Context;
use oxidnn::driver::{DeviceMemory, GpuContext, GpuStream, Module};
use oxidnn::launch::{KernelArg, LaunchConfig, launch_with_args};
use std::sync::OnceLock;

/// A GPU with the unit kernels loaded.
pub struct Unit {
    pub gpu: GpuContext,
    pub stream: GpuStream,
    modules: Vec<Module>,
}

static UNIT: OnceLock<Option<Unit>> = OnceLock::new();

/// The first GPU; or None, after saying so, without one.
pub fn unit(test: &str) -> Option<&'static Unit> {
    loaded(&oxidnn_tests::gpu(test)?)
}

/// [`unit`] for kernels that need Hopper.
pub fn hopper_unit(test: &str) -> Option<&'static Unit> {
    loaded(&oxidnn_tests::hopper(test)?)
}

/// The GPU with its kernels, which are loaded when they are first asked for.
fn loaded(context: &Context) -> Option<&'static Unit> {
    let unit = UNIT.get_or_init(|| {
        let gpu = context.gpu_context()?.clone();
        // Kernels of an architecture with an `a` run on that one only.
        let hopper = gpu.compute_capability() == (9, 0);
        let modules = oxidnn::embedded_modules()
            .iter()
            .filter(|module| module.name == "unit" && (module.arch == 80 || hopper))
            .map(|module| Module::load(&gpu, module.ptx().unwrap()).unwrap())
            .collect();
        let stream = GpuStream::new(&gpu).unwrap();
        Some(Unit { gpu, stream, modules })
    });
    unit.as_ref()
}

impl Unit {
    /// Device memory with these values.
    pub fn upload<T: Pod>(&self, values: &[T]) -> Buffer<'_> {
        let bytes = bytemuck::cast_slice(values);
        let memory = DeviceMemory::alloc(&self.gpu, bytes.len()).unwrap();
        memory.span().write(&self.stream, bytes).unwrap();
        Buffer { memory, unit: self }
    }

    /// Zeroed device memory for `len` values.
    pub fn zeros<T: Pod>(&self, len: usize) -> Buffer<'_> {
        Buffer { memory: DeviceMemory::alloc(&self.gpu, len * size_of::<T>()).unwrap(), unit: self }
    }

    /// Runs a kernel to its end.
    pub fn run(&self, kernel: &str, grid: u32, block: u32, args: &[KernelArg]) {
        self.run_with(
            kernel,
            &LaunchConfig { grid: [grid, 1, 1], block: [block, 1, 1], ..LaunchConfig::default() },
            args,
        );
    }

    /// Runs a kernel to its end with dynamic shared memory.
    pub fn run_shared(&self, kernel: &str, block: u32, shared_bytes: usize, args: &[KernelArg]) {
        let shared_bytes = shared_bytes as u32;
        self.run_with(kernel, &LaunchConfig { block: [block, 1, 1], shared_bytes, ..LaunchConfig::default() }, args);
    }

    /// Runs a kernel to its end.
    pub fn run_with(&self, kernel: &str, config: &LaunchConfig, args: &[KernelArg]) {
        self.start(kernel, config, args);
        self.stream.synchronize().unwrap_or_else(|e| panic!("{kernel}: {e}"));
    }

    /// Queues a kernel.
    pub fn start(&self, kernel: &str, config: &LaunchConfig, args: &[KernelArg]) {
        let function = self.modules.iter().find_map(|module| module.function(kernel).ok());
        let function = function.unwrap_or_else(|| panic!("no kernel {kernel}"));
        if config.shared_bytes > 40_000 {
            function.allow_dynamic_shared(config.shared_bytes as usize).unwrap();
        }
        // SAFETY: each caller gives the arguments that its kernel's documentation asks for.
        unsafe { launch_with_args(&function, config, &self.stream, args) }.unwrap_or_else(|e| panic!("{kernel}: {e}"));
    }
}

/// Device memory of a test.
pub struct Buffer<'a> {
    memory: DeviceMemory,
    unit: &'a Unit,
}

impl Buffer<'_> {
    /// Its address as a kernel argument.
    pub fn arg(&self) -> KernelArg {
        KernelArg::U64(self.address())
    }

    /// Its address.
    pub fn address(&self) -> u64 {
        self.memory.span().address()
    }

    /// Its content.
    pub fn read<T: Pod>(&self) -> Vec<T> {
        let mut values = vec![T::zeroed(); self.memory.len_bytes() / size_of::<T>()];
        self.memory.span().read(&self.unit.stream, bytemuck::cast_slice_mut(&mut values)).unwrap();
        values
    }
}

/// A number as a kernel argument.
pub fn n(value: impl TryInto<u32>) -> KernelArg {
    KernelArg::U32(value.try_into().unwrap_or_else(|_| panic!("an argument of 32 bits")))
}

/// Numbers that look random and are the same each time.
pub fn random(seed: u32) -> impl Iterator<Item = u32> {
    let mut state = u64::from(seed) * 2 + 1;
    std::iter::repeat_with(move || {
        // Steele and Vigna's constant for 64-bit linear congruential generators.
        state = state.wrapping_mul(0xd134_2543_de82_ef95).wrapping_add(1);
        (state >> 32) as u32
    })
}

/// Fails with the first difference and how many there are.
pub fn assert_same<T: PartialEq + std::fmt::Debug>(what: &str, got: &[T], expected: &[T]) {
    assert_eq!(got.len(), expected.len(), "{what}: number of results");
    let wrong = got.iter().zip(expected).filter(|(got, expected)| got != expected).count();
    if let Some(at) = got.iter().zip(expected).position(|(got, expected)| got != expected) {
        panic!("{what}: {wrong} of {} wrong, the first at {at}: {:?}, expected {:?}", got.len(), got[at], expected[at]);
    }
}
