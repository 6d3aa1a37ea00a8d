//! The library, its handle and its workspace.

use crate::peers::libraries::{load, preload};
use crate::peers::{check, functions};
use anyhow::{Context as _, Result};
use oxidnn::DType;
use oxidnn::driver::{DeviceMemory, GpuContext, GpuStream};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A handle, a descriptor or device memory.
pub(super) type P = *mut c_void;

/// What a find reports of one algorithm: the three passes' structures have one form.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(super) struct Performance {
    pub(super) algorithm: c_int,
    pub(super) status: c_int,
    pub(super) milliseconds: f32,
    pub(super) workspace_bytes: usize,
    pub(super) determinism: c_int,
    pub(super) math: c_int,
    reserved: [c_int; 3],
}

functions! {
    /// `cudnn_graph.h`, `cudnn_ops.h` and `cudnn_cnn.h` of version 9, as far as needed.
    Functions {
        version = "cudnnGetVersion"() -> usize;
        error_string = "cudnnGetErrorString"(c_int) -> *const c_char;
        last_error = "cudnnGetLastErrorString"(*mut c_char, usize) -> ();
        create = "cudnnCreate"(*mut P) -> c_int;
        destroy = "cudnnDestroy"(P) -> c_int;
        set_stream = "cudnnSetStream"(P, P) -> c_int;

        backend_create = "cudnnBackendCreateDescriptor"(c_int, *mut P) -> c_int;
        backend_destroy = "cudnnBackendDestroyDescriptor"(P) -> c_int;
        backend_finalize = "cudnnBackendFinalize"(P) -> c_int;
        backend_set = "cudnnBackendSetAttribute"(P, c_int, c_int, i64, *const c_void) -> c_int;
        backend_get = "cudnnBackendGetAttribute"(P, c_int, c_int, i64, *mut i64, *mut c_void) -> c_int;
        backend_execute = "cudnnBackendExecute"(P, P, P) -> c_int;

        tensor_create = "cudnnCreateTensorDescriptor"(*mut P) -> c_int;
        tensor_set = "cudnnSetTensorNdDescriptor"(P, c_int, c_int, *const c_int, *const c_int) -> c_int;
        tensor_destroy = "cudnnDestroyTensorDescriptor"(P) -> c_int;
        filter_create = "cudnnCreateFilterDescriptor"(*mut P) -> c_int;
        filter_set = "cudnnSetFilterNdDescriptor"(P, c_int, c_int, c_int, *const c_int) -> c_int;
        filter_destroy = "cudnnDestroyFilterDescriptor"(P) -> c_int;
        conv_create = "cudnnCreateConvolutionDescriptor"(*mut P) -> c_int;
        conv_set = "cudnnSetConvolutionNdDescriptor"(P, c_int, *const c_int, *const c_int, *const c_int, c_int, c_int) -> c_int;
        conv_set_groups = "cudnnSetConvolutionGroupCount"(P, c_int) -> c_int;
        conv_set_math = "cudnnSetConvolutionMathType"(P, c_int) -> c_int;
        conv_destroy = "cudnnDestroyConvolutionDescriptor"(P) -> c_int;

        workspace_fprop = "cudnnGetConvolutionForwardWorkspaceSize"(P, P, P, P, P, c_int, *mut usize) -> c_int;
        workspace_dgrad = "cudnnGetConvolutionBackwardDataWorkspaceSize"(P, P, P, P, P, c_int, *mut usize) -> c_int;
        workspace_wgrad = "cudnnGetConvolutionBackwardFilterWorkspaceSize"(P, P, P, P, P, c_int, *mut usize) -> c_int;
        find_fprop = "cudnnFindConvolutionForwardAlgorithmEx"(P, P, P, P, P, P, P, P, c_int, *mut c_int, *mut Performance, P, usize) -> c_int;
        find_dgrad = "cudnnFindConvolutionBackwardDataAlgorithmEx"(P, P, P, P, P, P, P, P, c_int, *mut c_int, *mut Performance, P, usize) -> c_int;
        find_wgrad = "cudnnFindConvolutionBackwardFilterAlgorithmEx"(P, P, P, P, P, P, P, P, c_int, *mut c_int, *mut Performance, P, usize) -> c_int;
        softmax_forward = "cudnnSoftmaxForward"(P, c_int, c_int, *const f32, P, P, *const f32, P, P) -> c_int;
        softmax_backward = "cudnnSoftmaxBackward"(P, c_int, c_int, *const f32, P, P, P, P, *const f32, P, P) -> c_int;
        pool_create = "cudnnCreatePoolingDescriptor"(*mut P) -> c_int;
        pool_set = "cudnnSetPoolingNdDescriptor"(P, c_int, c_int, c_int, *const c_int, *const c_int, *const c_int) -> c_int;
        pool_destroy = "cudnnDestroyPoolingDescriptor"(P) -> c_int;
        pool_forward = "cudnnPoolingForward"(P, P, *const f32, P, P, *const f32, P, P) -> c_int;
        pool_backward = "cudnnPoolingBackward"(P, P, *const f32, P, P, P, P, P, P, *const f32, P, P) -> c_int;
        activation_create = "cudnnCreateActivationDescriptor"(*mut P) -> c_int;
        activation_set = "cudnnSetActivationDescriptor"(P, c_int, c_int, f64) -> c_int;
        activation_destroy = "cudnnDestroyActivationDescriptor"(P) -> c_int;
        activation_forward = "cudnnActivationForward"(P, P, *const f32, P, P, *const f32, P, P) -> c_int;
        activation_backward = "cudnnActivationBackward"(P, P, *const f32, P, P, P, P, P, P, *const f32, P, P) -> c_int;
        transform = "cudnnTransformTensor"(P, *const f32, P, P, *const f32, P, P) -> c_int;
        batch_training = "cudnnBatchNormalizationForwardTraining"(P, c_int, *const f32, *const f32, P, P, P, P, P, P, P, f64, P, P, f64, P, P) -> c_int;
        batch_inference = "cudnnBatchNormalizationForwardInference"(P, c_int, *const f32, *const f32, P, P, P, P, P, P, P, P, P, f64) -> c_int;
        batch_backward = "cudnnBatchNormalizationBackward"(P, c_int, *const f32, *const f32, *const f32, *const f32, P, P, P, P, P, P, P, P, P, P, f64, P, P) -> c_int;

        fprop = "cudnnConvolutionForward"(P, *const f32, P, P, P, P, P, c_int, P, usize, *const f32, P, P) -> c_int;
        dgrad = "cudnnConvolutionBackwardData"(P, *const f32, P, P, P, P, P, c_int, P, usize, *const f32, P, P) -> c_int;
        wgrad = "cudnnConvolutionBackwardFilter"(P, *const f32, P, P, P, P, P, c_int, P, usize, *const f32, P, P) -> c_int;
    }
}

/// cuDNN with a handle.
pub(crate) struct Library {
    pub(super) functions: Functions,
    pub(super) handle: P,
    place: String,
}

// SAFETY: a handle may be used by any thread, though not by two at once; who shares it sees to that.
unsafe impl Send for Library {}
// SAFETY: as above.
unsafe impl Sync for Library {}

/// The library with a workspace of its own, at work on one stream.
pub(crate) struct Cudnn {
    library: Arc<Library>,
    pub(super) workspace: DeviceMemory,
}

impl Deref for Cudnn {
    type Target = Arc<Library>;

    fn deref(&self) -> &Arc<Library> {
        &self.library
    }
}

/// "Unlimited" in practice: more than any algorithm of the suites asks for, a sixteenth of an H200's memory.
const WORKSPACE_BYTES: usize = 8 << 30;

impl Cudnn {
    /// Finds the library and sets its handle to work on the stream. The context is current on this thread.
    pub(crate) fn new(context: &GpuContext, stream: &GpuStream, path: Option<&Path>) -> Result<Self> {
        let library = Library::new(path)?;
        let (free, _) = context.memory_info()?;
        let workspace = DeviceMemory::alloc(context, WORKSPACE_BYTES.min(free / 4))?;
        // The caller keeps the stream longer than the handle.
        library.set_stream(stream)?;
        Ok(Cudnn { library: Arc::new(library), workspace })
    }

    pub(super) fn workspace_address(&self) -> P {
        self.workspace.span().address() as P
    }
}

impl Library {
    /// Finds the library and makes a handle. A context is current on this thread.
    pub(crate) fn new(path: Option<&Path>) -> Result<Self> {
        let named = path.map(Path::to_path_buf).or_else(|| std::env::var_os("OXIDNN_CUDNN").map(PathBuf::from));
        let cudnn = load(&["libcudnn.so.9"], named.as_deref(), None)?;
        // It loads these when it needs them, by their bare names, and may not find them itself.
        let newest = preload(
            &["libcublasLt.so.13", "libcublas.so.13", "libnvrtc-builtins.so.13.0", "libnvrtc.so.13"],
            cudnn.folder.as_deref(),
        );
        if newest.is_empty() {
            preload(&["libcublasLt.so.12", "libcublas.so.12", "libnvrtc.so.12"], cudnn.folder.as_deref());
        }
        // SAFETY: the functions have these types by the headers of version 9, which the file's name promises; the
        // library stays loaded with `self`.
        let functions = unsafe { Functions::load(cudnn.library) }?;
        let place = cudnn.folder.as_ref().map_or("the loader's path".to_owned(), |folder| folder.display().to_string());
        Self::with_handle(functions, place)
    }

    /// The same library with another handle. A context is current on this thread.
    pub(super) fn another(&self) -> Result<Self> {
        Self::with_handle(self.functions, self.place.clone())
    }

    fn with_handle(functions: Functions, place: String) -> Result<Self> {
        let mut handle = std::ptr::null_mut();
        // SAFETY: `handle` is a place for a handle.
        let status = unsafe { (functions.create)(&mut handle) };
        let library = Library { functions, handle, place };
        library.check("cudnnCreate", status).with_context(|| library.place.clone())?;
        Ok(library)
    }

    /// What is queued from now on goes to this stream, which is alive until then.
    pub(super) fn set_stream(&self, stream: &GpuStream) -> Result<()> {
        // SAFETY: both are alive.
        self.check("cudnnSetStream", unsafe { (self.functions.set_stream)(self.handle, stream.raw()) })
    }

    /// The library's name and version.
    pub(crate) fn name(&self) -> String {
        // SAFETY: the function has no precondition.
        let version = unsafe { (self.functions.version)() };
        format!("cuDNN {}.{}.{}", version / 10_000, version / 100 % 100, version % 100)
    }

    /// Where it was found.
    pub(crate) fn place(&self) -> &str {
        &self.place
    }

    /// Turns a status other than 0 into an error with what the library has to say.
    pub(super) fn check(&self, call: &str, status: c_int) -> Result<()> {
        if status == 0 {
            return Ok(());
        }
        let mut text = [0u8; 512];
        // SAFETY: the first returns a static string; the second writes at most so many bytes, zero included.
        let name = unsafe {
            (self.functions.last_error)(text.as_mut_ptr().cast(), text.len());
            CStr::from_ptr((self.functions.error_string)(status)).to_string_lossy()
        };
        let said = CStr::from_bytes_until_nul(&text).map(CStr::to_string_lossy).unwrap_or_default();
        let said: String = said.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(160).collect();
        check(&format!("{call}: {name} {said}"), status)
    }

    /// `cudnnDataType_t`.
    pub(super) fn data_type(dtype: DType) -> c_int {
        match dtype {
            DType::F32 => 0,
            DType::F64 => 1,
            DType::F16 => 2,
            DType::BF16 => 9,
            DType::I8 => 3,
            DType::I32 => 4,
            DType::U8 => 6,
            DType::I64 => 10,
            DType::Bool => 11,
            DType::F8E4M3 => 12,
            DType::F8E5M2 => 13,
        }
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        if !self.handle.is_null() {
            // SAFETY: nobody uses the handle any more. A failure at this point is no news.
            let _ = unsafe { (self.functions.destroy)(self.handle) };
        }
    }
}
