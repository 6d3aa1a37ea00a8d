//! Driver functions that `cust` does not bind, with the types of `cuda.h` (13.0).

use crate::resolve::forward;
use std::ffi::{c_char, c_int, c_uint, c_void};

/// `CUtensorMap`: 128 opaque bytes that describe a tensor to the TMA unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(128))]
pub struct CUtensorMap(pub [u64; 16]);

/// `CUlaunchAttribute`: an id and up to 64 bytes of value.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct CUlaunchAttribute {
    /// `CUlaunchAttributeID`.
    pub id: c_uint,
    /// Unused.
    pub pad: [u8; 4],
    /// The value, as 32-bit words.
    pub value: [u32; 16],
}

/// All blocks are resident together, or the launch fails: one word of value.
pub const LAUNCH_ATTRIBUTE_COOPERATIVE: c_uint = 2;
/// Cluster extents: three words of value.
pub const LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION: c_uint = 4;
/// Start before the predecessor has ended: one word of value.
pub const LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION: c_uint = 6;

/// `CUlaunchConfig`.
#[derive(Debug)]
#[repr(C)]
pub struct CUlaunchConfig {
    /// Blocks along x.
    pub grid_x: c_uint,
    /// Blocks along y.
    pub grid_y: c_uint,
    /// Blocks along z.
    pub grid_z: c_uint,
    /// Threads along x.
    pub block_x: c_uint,
    /// Threads along y.
    pub block_y: c_uint,
    /// Threads along z.
    pub block_z: c_uint,
    /// Dynamic shared memory.
    pub shared_bytes: c_uint,
    /// The stream.
    pub stream: *mut c_void,
    /// Attributes.
    pub attributes: *const CUlaunchAttribute,
    /// How many.
    pub n_attributes: c_uint,
}

forward! {
    typed
    /// Launches a kernel with attributes. CUDA 11.8.
    fn launch_kernel_ex = "cuLaunchKernelEx"(config: *const CUlaunchConfig, function: *mut c_void, params: *mut *mut c_void, extra: *mut *mut c_void);
    /// Describes a strided tensor and a box of it to the TMA unit. CUDA 12.0.
    fn tensor_map_encode_tiled = "cuTensorMapEncodeTiled"(map: *mut CUtensorMap, data_type: c_uint, rank: c_uint, address: u64, global_dim: *const u64, global_strides: *const u64, box_dim: *const u32, element_strides: *const u32, interleave: c_uint, swizzle: c_uint, l2_promotion: c_uint, oob_fill: c_uint);
    /// Describes a tensor for im2col access to the TMA unit. CUDA 12.0.
    fn tensor_map_encode_im2col = "cuTensorMapEncodeIm2col"(map: *mut CUtensorMap, data_type: c_uint, rank: c_uint, address: u64, global_dim: *const u64, global_strides: *const u64, lower_corner: *const c_int, upper_corner: *const c_int, channels_per_pixel: u32, pixels_per_column: u32, element_strides: *const u32, interleave: c_uint, swizzle: c_uint, l2_promotion: c_uint, oob_fill: c_uint);
    /// Sets an attribute of a function.
    fn func_set_attribute = "cuFuncSetAttribute"(function: *mut c_void, attribute: c_uint, value: c_int);
    /// Creates a stream with flags; 1 is non-blocking.
    fn stream_create = "cuStreamCreate"(stream: *mut *mut c_void, flags: c_uint);
    /// Begins to record a stream's work instead of doing it.
    fn stream_begin_capture = "cuStreamBeginCapture_v2"(stream: *mut c_void, mode: c_uint);
    /// Ends recording.
    fn stream_end_capture = "cuStreamEndCapture"(stream: *mut c_void, graph: *mut *mut c_void);
    /// Whether a stream records: 0 no, 1 yes, 2 spoilt.
    fn stream_is_capturing = "cuStreamIsCapturing"(stream: *mut c_void, status: *mut c_uint);
    /// Makes a recorded graph executable. CUDA 12.0.
    fn graph_instantiate = "cuGraphInstantiateWithFlags"(exec: *mut *mut c_void, graph: *mut c_void, flags: u64);
    /// Queues an executable graph.
    fn graph_launch = "cuGraphLaunch"(exec: *mut c_void, stream: *mut c_void);
    /// Frees an executable graph.
    fn graph_exec_destroy = "cuGraphExecDestroy"(exec: *mut c_void);
    /// Frees a graph.
    fn graph_destroy = "cuGraphDestroy"(graph: *mut c_void);
    /// Copies within the device.
    fn memcpy_device_to_device_async = "cuMemcpyDtoDAsync_v2"(to: u64, from: u64, bytes: usize, stream: *mut c_void);
    /// Fills bytes.
    fn memset_async = "cuMemsetD8Async"(at: u64, value: u8, count: usize, stream: *mut c_void);
    /// Asks about an address.
    fn pointer_get_attribute = "cuPointerGetAttribute"(data: *mut c_void, attribute: c_uint, address: u64);
    /// Loads a module with options.
    fn module_load_data_ex = "cuModuleLoadDataEx"(module: *mut *mut c_void, image: *const c_void, n_options: c_uint, options: *mut c_uint, values: *mut *mut c_void);
    /// The name of an error code.
    fn get_error_name = "cuGetErrorName"(code: c_uint, name: *mut *const c_char);
    /// The device of the current context.
    fn ctx_get_device = "cuCtxGetDevice"(device: *mut c_int);
    /// The most blocks of a function that an SM can hold at once.
    fn occupancy_max_active_blocks = "cuOccupancyMaxActiveBlocksPerMultiprocessor"(blocks: *mut c_int, function: *mut c_void, block_size: c_int, shared_bytes: usize);
    /// The most clusters of a launch that the device can hold at once. CUDA 11.8.
    fn occupancy_max_active_clusters = "cuOccupancyMaxActiveClusters"(clusters: *mut c_int, function: *mut c_void, config: *const CUlaunchConfig);
}
