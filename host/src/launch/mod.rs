//! Launching kernels.

mod channels;
pub mod cpu_gemm;
mod kernel;
mod step;

pub(crate) use channels::{ACCESS_BYTES, Aligned, ChannelLayout};
pub(crate) use kernel::{
    KernelLaunch, KernelRow, channels_innermost, covering_grid, div_ceil, grid_param, kernel_for, kernel_rows,
    launch_on, linear_grid, scales_only, spatial_param, store_params, tag,
};
pub(crate) use step::{StepKernel, lies_alike, list_config, step_kernel, step_kernels};

use crate::Error;
use crate::driver::{DriverError, Function, GpuStream};
use cuda_loader::driver::{
    CUlaunchAttribute, CUlaunchConfig, LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, LAUNCH_ATTRIBUTE_COOPERATIVE,
    LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
};
use std::ffi::c_void;

/// How many threads, and what they share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchConfig {
    /// Blocks.
    pub grid: [u32; 3],
    /// Threads of a block.
    pub block: [u32; 3],
    /// Dynamic shared memory of a block.
    pub shared_bytes: u32,
    /// Blocks of a cluster (Hopper).
    pub cluster: Option<[u32; 3]>,
    /// Whether the kernel may start before its predecessor has ended; it must then wait for it itself (Hopper).
    /// Those of portable modules do, so they may whatever stands here, but for `evenly`.
    pub programmatic: bool,
    /// Whether it is launched when what was before is done, though it could wait by itself: on an H200 some kernels
    /// with few blocks, and those behind some, take longer when they are launched early.
    pub evenly: bool,
    /// Whether all blocks are to be resident together, since each waits for all others; a launch of more than there is
    /// room for fails. Such a kernel is launched when what was before is done.
    pub cooperative: bool,
}

impl Default for LaunchConfig {
    fn default() -> Self {
        LaunchConfig {
            grid: [1; 3],
            block: [1; 3],
            shared_bytes: 0,
            cluster: None,
            programmatic: false,
            evenly: false,
            cooperative: false,
        }
    }
}

impl LaunchConfig {
    /// The limits of every GPU; those of a kernel and device are the driver's to check.
    fn check(&self) -> Result<(), DriverError> {
        const GRID: [u32; 3] = [i32::MAX as u32, 65_535, 65_535];
        let threads = self.block.iter().map(|&n| u64::from(n)).product::<u64>();
        if self.grid.iter().zip(GRID).any(|(&n, most)| n == 0 || n > most) {
            return Err(DriverError::invalid(format!("expected a grid of 1 to {GRID:?}, given {:?}", self.grid)));
        }
        if threads == 0 || threads > 1024 {
            return Err(DriverError::invalid(format!("expected 1 to 1024 threads a block, given {:?}", self.block)));
        }
        Ok(())
    }

    /// What the driver is told beside extents, and how many there are.
    fn attributes(&self, function: &Function) -> ([CUlaunchAttribute; 2], usize) {
        let mut attributes = [CUlaunchAttribute { id: 0, pad: [0; 4], value: [0; 16] }; 2];
        let mut n_attributes = 0;
        if let Some(cluster) = self.cluster {
            attributes[n_attributes].id = LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
            attributes[n_attributes].value[..3].copy_from_slice(&cluster);
            n_attributes += 1;
        }
        if self.cooperative {
            attributes[n_attributes].id = LAUNCH_ATTRIBUTE_COOPERATIVE;
            attributes[n_attributes].value[0] = 1;
            n_attributes += 1;
        } else if self.programmatic || function.waits() && !self.evenly {
            attributes[n_attributes].id = LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
            attributes[n_attributes].value[0] = 1;
            n_attributes += 1;
        }
        (attributes, n_attributes)
    }

    /// As the driver takes it, good for as long as `attributes` are.
    fn raw(
        &self,
        (attributes, n): &([CUlaunchAttribute; 2], usize),
        stream: *mut c_void,
    ) -> Result<CUlaunchConfig, DriverError> {
        self.check()?;
        Ok(CUlaunchConfig {
            grid_x: self.grid[0],
            grid_y: self.grid[1],
            grid_z: self.grid[2],
            block_x: self.block[0],
            block_y: self.block[1],
            block_z: self.block[2],
            shared_bytes: self.shared_bytes,
            stream,
            attributes: attributes.as_ptr(),
            n_attributes: *n as u32,
        })
    }
}

/// Bytes of what a kernel reads from which on the memory is faster where the second-level cache is asked to give that up
/// last of all: it does not hold such a tensor anyway.
pub(crate) const BEYOND_CACHE_BYTES: i64 = 64 << 20;

/// Whether the memory is at least as much in the way as so many products are, with so many elements read or written.
pub(crate) fn memory_counts(products: f64, elements: f64) -> bool {
    /// Products that the tensor cores do while an element is read or written, with some to spare.
    const PER_ELEMENT: f64 = 400.0;
    products <= PER_ELEMENT * elements
}

/// What dynamic shared memory begins at a multiple of. So much a block has less of it, where its kernel has up to as much of
/// its own.
pub(crate) const DYNAMIC_SHARED_ALIGN: i64 = 1024;

/// A launch-parameter struct of `kernel-abi`: what a kernel takes by value.
///
/// Kernel and struct are paired by the operator's kernel list, and the fingerprint that is compared when a module is
/// loaded guards the layout.
pub trait KernelParams: Copy + Send + Sync + 'static {}

impl<T: Copy + Send + Sync + 'static> KernelParams for T {}

/// Queues a kernel that takes one struct by value. Neither allocates nor synchronizes.
pub(crate) fn launch<P: KernelParams>(
    function: &Function,
    config: &LaunchConfig,
    stream: &GpuStream,
    params: &P,
) -> Result<(), Error> {
    let mut pointers = [(&raw const *params).cast::<c_void>().cast_mut()];
    launch_raw(function, config, stream, &mut pointers)
        .map_err(|source| Error::Launch { kernel: function.name().to_owned(), source })
}

/// An argument of a kernel that takes scalars.
#[derive(Clone, Copy, Debug)]
pub enum KernelArg {
    /// 32 bits.
    U32(u32),
    /// 64 bits: sizes and device addresses.
    U64(u64),
    /// A tensor map by value.
    Map(crate::driver::TensorMap),
}

/// Queues a kernel that takes scalars: for unit tests of single instructions.
///
/// # Errors
/// From the driver.
///
/// # Safety
/// The arguments are those of the kernel, and its addresses are good.
pub unsafe fn launch_with_args(
    function: &Function,
    config: &LaunchConfig,
    stream: &GpuStream,
    args: &[KernelArg],
) -> Result<(), DriverError> {
    let mut pointers: Vec<*mut c_void> = args
        .iter()
        .map(|arg| match arg {
            KernelArg::U32(value) => (&raw const *value).cast::<c_void>().cast_mut(),
            KernelArg::U64(value) => (&raw const *value).cast::<c_void>().cast_mut(),
            KernelArg::Map(map) => (&raw const *map).cast::<c_void>().cast_mut(),
        })
        .collect();
    launch_raw(function, config, stream, &mut pointers)
}

fn launch_raw(
    function: &Function,
    config: &LaunchConfig,
    stream: &GpuStream,
    pointers: &mut [*mut c_void],
) -> Result<(), DriverError> {
    let attributes = config.attributes(function);
    let raw = config.raw(&attributes, stream.raw())?;
    let _bound = function.context().bind()?;
    // SAFETY: function and stream are alive; each pointer leads to a parameter of the kernel's type, by the kernel
    // list or by the promise of `launch_with_args`; attributes are as many as said.
    let status = unsafe {
        cuda_loader::driver::launch_kernel_ex(&raw, function.raw(), pointers.as_mut_ptr(), std::ptr::null_mut())
    };
    if status == 0 { Ok(()) } else { Err(DriverError::new(format!("cuLaunchKernelEx of {}", function.name()), status)) }
}

/// How many clusters of a launch the device can hold at once.
pub(crate) fn max_active_clusters(function: &Function, config: &LaunchConfig) -> Result<u32, DriverError> {
    let attributes = config.attributes(function);
    let raw = config.raw(&attributes, std::ptr::null_mut())?;
    let _bound = function.context().bind()?;
    let mut clusters = 0;
    // SAFETY: the function is alive, `clusters` a place for an int; attributes are as many as said.
    let status = unsafe { cuda_loader::driver::occupancy_max_active_clusters(&mut clusters, function.raw(), &raw) };
    if status != 0 {
        return Err(DriverError::new(format!("cuOccupancyMaxActiveClusters of {}", function.name()), status));
    }
    Ok(clusters.max(0) as u32)
}
