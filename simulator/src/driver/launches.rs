//! Launches: the checks of a driver, then the run.

use super::device::{
    MOST_SHARED_BYTES, MOST_THREADS, REGISTERS, RESERVED_SHARED_BYTES, SM_BLOCKS, SM_SHARED_BYTES, SM_THREADS,
};
use super::errors::{
    COOPERATIVE_LAUNCH_TOO_LARGE, INVALID_CLUSTER_SIZE, INVALID_VALUE, LAUNCH_OUT_OF_RESOURCES, NOT_SUPPORTED, code_of,
};
use super::graphs::Recorded;
use super::modules::Function;
use super::{Outcome, api, driver, put, settings, streams};
use crate::exec::{Launch, run};
use std::ffi::{c_int, c_void};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// `CUlaunchAttribute`.
#[repr(C)]
pub struct Attribute {
    id: u32,
    pad: u32,
    value: [u32; 16],
}

/// `CUlaunchConfig`.
#[repr(C)]
pub struct Config {
    grid: [u32; 3],
    block: [u32; 3],
    shared_bytes: u32,
    stream: *mut c_void,
    attributes: *const Attribute,
    n_attributes: u32,
}

/// A launch that was checked.
pub(super) struct Prepared {
    function: Arc<Function>,
    params: Vec<u8>,
    grid: [u32; 3],
    block: [u32; 3],
    cluster: Option<[u32; 3]>,
    shared_bytes: usize,
}

fn refuse<T>(code: u32, function: &Function, reason: &str) -> Outcome<T> {
    eprintln!("cuda-simulator: launch of {}: {reason}", function.kernel.name);
    Err(code)
}

/// Ids of the launch attributes that mean something here.
const COOPERATIVE: u32 = 2;
const CLUSTER_DIMENSION: u32 = 4;

/// The value of an attribute that a launch has.
///
/// # Safety
/// There are as many attributes as the launch says.
unsafe fn attribute_of(config: &Config, id: u32) -> Option<[u32; 16]> {
    // SAFETY: the caller's promise.
    let attribute = |i| unsafe { &*config.attributes.add(i) };
    (0..config.n_attributes as usize).map(attribute).find(|attribute| attribute.id == id).map(|found| found.value)
}

/// The cluster that a launch asks for.
///
/// # Safety
/// As [`attribute_of`].
unsafe fn cluster_of(config: &Config) -> Option<[u32; 3]> {
    // SAFETY: the caller's promise.
    let [x, y, z, ..] = unsafe { attribute_of(config, CLUSTER_DIMENSION) }?;
    Some([x, y, z])
}

impl Prepared {
    /// Checks a launch as a driver does.
    ///
    /// # Safety
    /// As `cuLaunchKernelEx`.
    unsafe fn new(
        config: &Config,
        function: *mut c_void,
        params: *mut *mut c_void,
        extra: *mut *mut c_void,
    ) -> Outcome<Self> {
        let function = driver().functions.get(function)?;
        let kernel = Arc::clone(&function.kernel);
        let (grid, block) = (config.grid, config.block);
        // SAFETY: the caller's promise.
        let cluster = unsafe { cluster_of(config) };
        if grid.contains(&0) || block.contains(&0) || grid[0] > i32::MAX as u32 || grid[1].max(grid[2]) > 65_535 {
            return refuse(INVALID_VALUE, &function, &format!("a grid of {grid:?} blocks of {block:?} threads"));
        }
        let threads = block.iter().map(|&n| u64::from(n)).product::<u64>();
        let most = kernel.max_threads.unwrap_or(MOST_THREADS.into()).min(MOST_THREADS.into());
        if threads > most || block[2] > 64 {
            return refuse(INVALID_VALUE, &function, &format!("{threads} threads in a block, at most {most}"));
        }
        if kernel.required_threads.is_some_and(|required| required != block) {
            let required = kernel.required_threads;
            return refuse(INVALID_VALUE, &function, &format!("blocks of {block:?} threads, .reqntid {required:?}"));
        }
        let shared_bytes = config.shared_bytes as usize;
        let most = function.most_dynamic_shared.load(Ordering::Relaxed) as usize;
        if shared_bytes > most || shared_bytes + kernel.shared_bytes > MOST_SHARED_BYTES {
            return refuse(INVALID_VALUE, &function, &format!("{shared_bytes} bytes of shared memory, at most {most}"));
        }
        let cluster = match (cluster, kernel.required_cluster) {
            (Some(given), Some(required)) if given != required => {
                let reason = format!("a cluster of {given:?} blocks, .reqnctapercluster {required:?}");
                return refuse(INVALID_CLUSTER_SIZE, &function, &reason);
            }
            (given, required) => given.or(required),
        };
        if let Some(cluster) = cluster {
            let fits = (0..3).all(|i| cluster[i] > 0 && grid[i].is_multiple_of(cluster[i]));
            if !fits || cluster.iter().product::<u32>() > 8 {
                let reason = format!("clusters of {cluster:?} blocks in a grid of {grid:?}");
                return refuse(INVALID_CLUSTER_SIZE, &function, &reason);
            }
        }
        // SAFETY: the caller's promise.
        if unsafe { attribute_of(config, COOPERATIVE) }.is_some_and(|[wanted, ..]| wanted != 0) {
            let room = occupancy(&function, threads as u32, shared_bytes) * u64::from(settings::sms());
            let blocks = grid.iter().map(|&n| u64::from(n)).product::<u64>();
            if blocks > room {
                let reason = format!("{blocks} blocks that are to be resident together, {room} have room");
                return refuse(COOPERATIVE_LAUNCH_TOO_LARGE, &function, &reason);
            }
        }
        // SAFETY: the caller's promise.
        let params = unsafe { gather(&function, params, extra) }?;
        Ok(Prepared { function, params, grid, block, cluster, shared_bytes })
    }

    /// Runs the kernel to its end.
    pub fn run(&self) -> Outcome {
        let number = driver().launches.fetch_add(1, Ordering::Relaxed);
        let kernel = &self.function.kernel;
        let cluster = self.cluster.unwrap_or([1; 3]);
        let threads: u32 = self.block.iter().product();
        let per_sm = occupancy(&self.function, threads, self.shared_bytes);
        if per_sm == 0 {
            return refuse(LAUNCH_OUT_OF_RESOURCES, &self.function, "a block does not fit a multiprocessor");
        }
        let resident = per_sm * u64::from(settings::sms()) / cluster.iter().map(|&n| u64::from(n)).product::<u64>();
        let start = Instant::now();
        let launch = Launch {
            kernel: Arc::clone(kernel),
            params: self.params.clone(),
            grid: self.grid,
            block: self.block,
            cluster,
            explicit_cluster: self.cluster.is_some(),
            dynamic_shared: self.shared_bytes,
            memory: driver().table(),
            sms: settings::sms(),
            resident: resident.max(1) as usize,
            // Launches of one program differ, so that it sees several orders.
            seed: settings::seed().wrapping_mul(0x2545_F491_4F6C_DD1D).wrapping_add(number),
            deadline: start + settings::timeout(),
            checks_fences: settings::fences() != 0,
        };
        let outcome = run(&launch);
        if settings::trace() != 0 {
            let (grid, block, ms) = (self.grid, self.block, start.elapsed().as_secs_f64() * 1e3);
            let executed = outcome.as_ref().map_or(0, |&executed| executed);
            eprintln!(
                "cuda-simulator: {} grid {grid:?} block {block:?} {executed} instructions {ms:.2} ms",
                kernel.name
            );
        }
        outcome.map(drop).map_err(|fault| {
            let code = code_of(fault.kind);
            eprintln!("cuda-simulator: {:?}: {}", fault.kind, fault.reason);
            driver().broken.store(code, Ordering::Relaxed);
            code
        })
    }
}

/// The parameters as they lie in memory.
///
/// # Safety
/// As `cuLaunchKernelEx`.
unsafe fn gather(function: &Function, params: *mut *mut c_void, extra: *mut *mut c_void) -> Outcome<Vec<u8>> {
    let kernel = &function.kernel;
    let mut bytes = vec![0; kernel.param_bytes];
    if !params.is_null() {
        for (i, param) in kernel.params.iter().enumerate() {
            // SAFETY: the caller gives a pointer for each parameter of the kernel, each good for its size.
            unsafe {
                let from = *params.add(i);
                if from.is_null() {
                    return refuse(INVALID_VALUE, function, &format!("parameter {i} is null"));
                }
                bytes[param.offset..].as_mut_ptr().copy_from(from.cast(), param.bytes);
            }
        }
    } else if !extra.is_null() {
        // Pairs of a number and a value up to 0: 1 is a buffer with all parameters, 2 its size.
        let (mut buffer, mut size) = (std::ptr::null(), 0);
        for i in (0..).step_by(2) {
            // SAFETY: the list ends with 0.
            let (number, value) = unsafe { (*extra.add(i) as usize, extra.add(i + 1)) };
            match number {
                0 => break,
                // SAFETY: a value follows each number.
                1 => buffer = unsafe { *value }.cast_const().cast::<u8>(),
                // SAFETY: the value is the address of a size.
                2 => size = unsafe { *(*value).cast::<usize>() },
                _ => return Err(INVALID_VALUE),
            }
        }
        if buffer.is_null() || size > bytes.len() {
            return refuse(INVALID_VALUE, function, &format!("{size} bytes of parameters of {}", bytes.len()));
        }
        // SAFETY: the buffer has the size that the caller gave with it.
        unsafe { bytes.as_mut_ptr().copy_from(buffer, size) };
    } else if !kernel.params.is_empty() {
        return refuse(INVALID_VALUE, function, "no parameters are given");
    }
    Ok(bytes)
}

/// Blocks of a kernel that a multiprocessor holds.
fn occupancy(function: &Function, threads: u32, shared_bytes: usize) -> u64 {
    let kernel = &function.kernel;
    let warps = u64::from(threads.div_ceil(32));
    let shared = (kernel.shared_bytes + shared_bytes + RESERVED_SHARED_BYTES) as u64;
    let registers = function.registers() * 32 * warps;
    let limits =
        [SM_BLOCKS, SM_THREADS / (32 * warps).max(1), SM_SHARED_BYTES as u64 / shared, REGISTERS / registers.max(1)];
    limits.into_iter().min().unwrap_or(0)
}

/// # Safety
/// As `cuLaunchKernelEx`.
unsafe fn launch(config: &Config, function: *mut c_void, params: *mut *mut c_void, extra: *mut *mut c_void) -> Outcome {
    // SAFETY: the caller's promise.
    let prepared = Arc::new(unsafe { Prepared::new(config, function, params, extra) }?);
    if streams::record(config.stream, || Ok(Recorded::Launch(Arc::clone(&prepared))))? {
        return Ok(());
    }
    prepared.run()
}

api! {
    fn cuLaunchKernelEx(
        config: *const Config,
        function: *mut c_void,
        params: *mut *mut c_void,
        extra: *mut *mut c_void,
    ) {
        if config.is_null() {
            return Err(INVALID_VALUE);
        }
        // SAFETY: the caller's promise is this call's.
        unsafe { launch(&*config, function, params, extra) }
    }

    fn cuLaunchKernel(
        function: *mut c_void,
        grid_x: u32,
        grid_y: u32,
        grid_z: u32,
        block_x: u32,
        block_y: u32,
        block_z: u32,
        shared_bytes: u32,
        stream: *mut c_void,
        params: *mut *mut c_void,
        extra: *mut *mut c_void,
    ) {
        let config = Config {
            grid: [grid_x, grid_y, grid_z],
            block: [block_x, block_y, block_z],
            shared_bytes,
            stream,
            attributes: std::ptr::null(),
            n_attributes: 0,
        };
        // SAFETY: the caller's promise is this call's.
        unsafe { launch(&config, function, params, extra) }
    }

    fn cuLaunchCooperativeKernel(function: *mut c_void) {
        let _ = function;
        Err(NOT_SUPPORTED)
    }

    fn cuOccupancyMaxActiveClusters(clusters: *mut c_int, function: *mut c_void, config: *const Config) {
        let function = driver().functions.get(function)?;
        if config.is_null() {
            return Err(INVALID_VALUE);
        }
        // SAFETY: the caller's promise is this call's.
        let config = unsafe { &*config };
        // SAFETY: the caller's promise is this call's.
        let cluster = unsafe { cluster_of(config) }.or(function.kernel.required_cluster).unwrap_or([1; 3]);
        let blocks = occupancy(&function, config.block.iter().product(), config.shared_bytes as usize);
        let size = cluster.iter().map(|&n| u64::from(n)).product::<u64>().max(1);
        // SAFETY: the caller gives a place for the result.
        unsafe { put(clusters, (blocks * u64::from(settings::sms()) / size) as c_int) }
    }

    fn cuOccupancyMaxActiveBlocksPerMultiprocessor(
        blocks: *mut c_int,
        function: *mut c_void,
        block_size: c_int,
        shared_bytes: usize,
    ) {
        let function = driver().functions.get(function)?;
        if block_size <= 0 {
            return Err(INVALID_VALUE);
        }
        let found = occupancy(&function, block_size as u32, shared_bytes) as c_int;
        // SAFETY: the caller gives a place for the result.
        unsafe { put(blocks, found) }
    }
}
