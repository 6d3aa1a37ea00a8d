//! The driver functions that `cust` links against, each forwarding to the driver found at run time.
//!
//! Signatures follow `cuda.h`; every pointer, opaque handle and callback is `P`, since all travel alike. The list
//! is what the linker names when `cust` is linked without a driver library.

use crate::resolve::forward;
use std::ffi::{c_char, c_void};

/// A pointer, an opaque handle or a callback.
type P = *mut c_void;

forward! {
    export
    fn cuArray3DCreate_v2(a: P, b: P);
    fn cuArray3DGetDescriptor_v2(a: P, b: P);
    fn cuArrayDestroy(a: P);
    fn cuCtxCreate_v2(a: P, b: u32, c: i32);
    fn cuCtxDestroy_v2(a: P);
    fn cuCtxGetApiVersion(a: P, b: P);
    fn cuCtxGetCacheConfig(a: P);
    fn cuCtxGetCurrent(a: P);
    fn cuCtxGetDevice(a: P);
    fn cuCtxGetFlags(a: P);
    fn cuCtxGetLimit(a: P, b: u32);
    fn cuCtxGetSharedMemConfig(a: P);
    fn cuCtxGetStreamPriorityRange(a: P, b: P);
    fn cuCtxPopCurrent_v2(a: P);
    fn cuCtxPushCurrent_v2(a: P);
    fn cuCtxSetCacheConfig(a: u32);
    fn cuCtxSetCurrent(a: P);
    fn cuCtxSetLimit(a: u32, b: usize);
    fn cuCtxSetSharedMemConfig(a: u32);
    fn cuCtxSynchronize();
    fn cuDestroyExternalMemory(a: P);
    fn cuDeviceGet(a: P, b: i32);
    fn cuDeviceGetAttribute(a: P, b: u32, c: i32);
    fn cuDeviceGetCount(a: P);
    fn cuDeviceGetName(a: P, b: i32, c: i32);
    fn cuDevicePrimaryCtxRelease_v2(a: i32);
    fn cuDevicePrimaryCtxReset_v2(a: i32);
    fn cuDevicePrimaryCtxRetain(a: P, b: i32);
    fn cuDevicePrimaryCtxSetFlags_v2(a: i32, b: u32);
    fn cuDeviceTotalMem_v2(a: P, b: i32);
    fn cuDriverGetVersion(a: P);
    fn cuEventCreate(a: P, b: u32);
    fn cuEventDestroy_v2(a: P);
    fn cuEventElapsedTime(a: P, b: P, c: P);
    fn cuEventQuery(a: P);
    fn cuEventRecord(a: P, b: P);
    fn cuEventSynchronize(a: P);
    fn cuExternalMemoryGetMappedBuffer(a: P, b: P, c: P);
    fn cuFuncGetAttribute(a: P, b: u32, c: P);
    fn cuFuncSetCacheConfig(a: P, b: u32);
    fn cuFuncSetSharedMemConfig(a: P, b: u32);
    fn cuGraphAddKernelNode(a: P, b: P, c: P, d: usize, e: P);
    fn cuGraphCreate(a: P, b: u32);
    fn cuGraphDebugDotPrint(a: P, b: P, c: u32);
    fn cuGraphDestroy(a: P);
    fn cuGraphGetEdges(a: P, b: P, c: P, d: P);
    fn cuGraphGetNodes(a: P, b: P, c: P);
    fn cuGraphKernelNodeGetParams(a: P, b: P);
    fn cuGraphNodeGetType(a: P, b: P);
    fn cuImportExternalMemory(a: P, b: P);
    fn cuInit(a: u32);
    fn cuLaunchHostFunc(a: P, b: P, c: P);
    fn cuLaunchKernel(a: P, b: u32, c: u32, d: u32, e: u32, f: u32, g: u32, h: u32, i: P, j: P, k: P);
    fn cuLinkAddData_v2(a: P, b: u32, c: P, d: usize, e: P, f: u32, g: P, h: P);
    fn cuLinkComplete(a: P, b: P, c: P);
    fn cuLinkCreate_v2(a: u32, b: P, c: P, d: P);
    fn cuLinkDestroy(a: P);
    fn cuMemAdvise(a: u64, b: usize, c: u32, d: i32);
    fn cuMemAllocAsync(a: P, b: usize, c: P);
    fn cuMemAllocHost_v2(a: P, b: usize);
    fn cuMemAllocManaged(a: P, b: usize, c: u32);
    fn cuMemAlloc_v2(a: P, b: usize);
    fn cuMemFreeAsync(a: u64, b: P);
    fn cuMemFreeHost(a: P);
    fn cuMemFree_v2(a: u64);
    fn cuMemGetInfo_v2(a: P, b: P);
    fn cuMemPrefetchAsync(a: u64, b: usize, c: i32, d: P);
    fn cuMemcpy2D_v2(a: P);
    fn cuMemcpyAtoH_v2(a: P, b: P, c: usize, d: usize);
    fn cuMemcpyDtoDAsync_v2(a: u64, b: u64, c: usize, d: P);
    fn cuMemcpyDtoD_v2(a: u64, b: u64, c: usize);
    fn cuMemcpyDtoHAsync_v2(a: P, b: u64, c: usize, d: P);
    fn cuMemcpyDtoH_v2(a: P, b: u64, c: usize);
    fn cuMemcpyHtoA_v2(a: P, b: usize, c: P, d: usize);
    fn cuMemcpyHtoDAsync_v2(a: u64, b: P, c: usize, d: P);
    fn cuMemcpyHtoD_v2(a: u64, b: P, c: usize);
    fn cuMemsetD16Async(a: u64, b: u16, c: usize, d: P);
    fn cuMemsetD16_v2(a: u64, b: u16, c: usize);
    fn cuMemsetD32Async(a: u64, b: u32, c: usize, d: P);
    fn cuMemsetD32_v2(a: u64, b: u32, c: usize);
    fn cuMemsetD8Async(a: u64, b: u8, c: usize, d: P);
    fn cuMemsetD8_v2(a: u64, b: u8, c: usize);
    fn cuModuleGetFunction(a: P, b: P, c: P);
    fn cuModuleGetGlobal_v2(a: P, b: P, c: P, d: P);
    fn cuModuleLoad(a: P, b: P);
    fn cuModuleLoadData(a: P, b: P);
    fn cuModuleLoadDataEx(a: P, b: P, c: u32, d: P, e: P);
    fn cuModuleUnload(a: P);
    fn cuOccupancyAvailableDynamicSMemPerBlock(a: P, b: P, c: i32, d: i32);
    fn cuOccupancyMaxActiveBlocksPerMultiprocessor(a: P, b: P, c: i32, d: usize);
    fn cuOccupancyMaxPotentialBlockSize(a: P, b: P, c: P, d: P, e: usize, f: i32);
    fn cuStreamCreateWithPriority(a: P, b: u32, c: i32);
    fn cuStreamDestroy_v2(a: P);
    fn cuStreamGetFlags(a: P, b: P);
    fn cuStreamGetPriority(a: P, b: P);
    fn cuStreamSynchronize(a: P);
    fn cuStreamWaitEvent(a: P, b: P, c: u32);
    fn cuSurfObjectCreate(a: P, b: P);
    fn cuSurfObjectDestroy(a: u64);
    fn cuSurfObjectGetResourceDesc(a: P, b: u64);
    fn cuTexObjectCreate(a: P, b: P, c: P, d: P);
    fn cuTexObjectDestroy(a: u64);
    fn cuTexObjectGetResourceDesc(a: P, b: u64);
    fn cuTexObjectGetResourceViewDesc(a: P, b: u64);
}

/// The text for an error code; a fixed one where there is no driver to ask, so that `cust` can print its errors.
///
/// # Safety
/// `text` points to a place for a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGetErrorString(code: u32, text: *mut *const c_char) -> u32 {
    type Function = unsafe extern "C" fn(u32, *mut *const c_char) -> u32;
    if let Some(address) = crate::resolve::address(c"cuGetErrorString") {
        // SAFETY: the driver exports this function with the signature of `cuda.h`.
        let function: Function = unsafe { std::mem::transmute(address) };
        // SAFETY: the caller's promise is the driver's.
        return unsafe { function(code, text) };
    }
    // SAFETY: the caller promises a place for a pointer; the string is static.
    unsafe { *text = c"no CUDA driver on this machine".as_ptr() };
    0
}
