//! A convolution's descriptors in the older interface, and the call that runs it.

use super::library::{Library, P};
use anyhow::{Result, bail};
use oxidnn::ops::conv::{ConvAxis, ConvMode, ConvPass, ConvProblem};
use oxidnn::{DType, Math, TensorDesc};
use std::ffi::c_int;
use std::sync::Arc;

/// `cudnnMathType_t`.
pub(super) const DEFAULT_MATH: c_int = 0;
pub(super) const TENSOR_OP_MATH: c_int = 1;
/// Multiply-adds in f32 and nothing else: the default allows TF32.
pub(super) const FMA_MATH: c_int = 3;
/// `CUDNN_CROSS_CORRELATION`; a convolution is 0.
const CROSS_CORRELATION: c_int = 1;
/// `CUDNN_DATA_FLOAT`, the type of sums.
const SUMS: c_int = 0;
/// `cudnnTensorFormat_t`.
const NCHW: c_int = 0;
const NHWC: c_int = 1;

/// The algorithms of a pass in the order of their numbers.
pub(super) fn algorithm_names(pass: ConvPass) -> &'static [&'static str] {
    match pass {
        ConvPass::Fprop => &[
            "implicit_gemm",
            "implicit_precomp_gemm",
            "gemm",
            "direct",
            "fft",
            "fft_tiling",
            "winograd",
            "winograd_nonfused",
        ],
        ConvPass::Dgrad => &["algo_0", "algo_1", "fft", "fft_tiling", "winograd", "winograd_nonfused"],
        ConvPass::Wgrad => &["algo_0", "algo_1", "fft", "algo_3", "winograd", "winograd_nonfused", "fft_tiling"],
    }
}

/// The math of a problem's descriptors.
pub(super) fn math_of(problem: &ConvProblem) -> c_int {
    match (problem.x().dtype(), problem.math()) {
        (DType::F32, Math::Full | Math::Winograd4x4) => FMA_MATH,
        (DType::F32, Math::Tf32) => DEFAULT_MATH,
        _ => TENSOR_OP_MATH,
    }
}

/// Descriptors of one problem.
pub(super) struct Described {
    pub(super) library: Arc<Library>,
    pub(super) x: P,
    pub(super) w: P,
    pub(super) y: P,
    pub(super) conv: P,
}

/// Makes one descriptor, or says why not.
pub(super) fn created(cudnn: &Library, create: unsafe extern "C" fn(*mut P) -> c_int) -> Result<P> {
    let mut descriptor = std::ptr::null_mut();
    // SAFETY: `descriptor` is a place for a handle.
    cudnn.check("creating a descriptor", unsafe { create(&mut descriptor) })?;
    Ok(descriptor)
}

/// Numbers as the interface takes them.
pub(super) fn ints(values: impl IntoIterator<Item = i64>) -> Result<Vec<c_int>> {
    values.into_iter().map(|value| Ok(c_int::try_from(value)?)).collect()
}

// SAFETY: descriptors belong to no thread; who uses the library's handle keeps others from it.
unsafe impl Send for Described {}
// SAFETY: as above; nothing changes a descriptor once it is made.
unsafe impl Sync for Described {}

impl Described {
    pub(super) fn new(cudnn: &Arc<Library>, problem: &ConvProblem, math: c_int) -> Result<Self> {
        let f = &cudnn.functions;
        let mut described = Described {
            library: cudnn.clone(),
            x: std::ptr::null_mut(),
            w: std::ptr::null_mut(),
            y: std::ptr::null_mut(),
            conv: std::ptr::null_mut(),
        };
        described.x = created(cudnn, f.tensor_create)?;
        described.y = created(cudnn, f.tensor_create)?;
        described.w = created(cudnn, f.filter_create)?;
        described.conv = created(cudnn, f.conv_create)?;
        let dtype = Library::data_type(problem.x().dtype());
        for (descriptor, desc) in [(described.x, problem.x()), (described.y, problem.y())] {
            let (dims, strides) = (ints(desc.dims().iter().copied())?, ints(desc.strides().iter().copied())?);
            let rank = dims.len() as c_int;
            // SAFETY: the descriptor was just made; both lists have `rank` numbers.
            let status = unsafe { (f.tensor_set)(descriptor, dtype, rank, dims.as_ptr(), strides.as_ptr()) };
            cudnn.check("cudnnSetTensorNdDescriptor", status)?;
        }
        let dims = ints(problem.w().dims().iter().copied())?;
        let format = filter_format(problem.w())?;
        // SAFETY: as above.
        let status = unsafe { (f.filter_set)(described.w, dtype, format, dims.len() as c_int, dims.as_ptr()) };
        cudnn.check("cudnnSetFilterNdDescriptor", status)?;
        let list = |value: fn(&ConvAxis) -> i64| ints(problem.axes().iter().map(value));
        let (padding, stride) = (list(|axis| axis.padding)?, list(|axis| axis.stride)?);
        let dilation = list(|axis| axis.dilation)?;
        if problem.axes().iter().any(|axis| axis.padding != axis.padding_end) {
            bail!("expected the same padding at both ends");
        }
        let mode = if problem.mode() == ConvMode::CrossCorrelation { CROSS_CORRELATION } else { 0 };
        let (rank, groups) = (padding.len() as c_int, c_int::try_from(problem.groups())?);
        // SAFETY: the descriptor was just made; the lists have `rank` numbers each.
        let statuses = unsafe {
            [
                (f.conv_set)(described.conv, rank, padding.as_ptr(), stride.as_ptr(), dilation.as_ptr(), mode, SUMS),
                (f.conv_set_groups)(described.conv, groups),
                (f.conv_set_math)(described.conv, math),
            ]
        };
        for status in statuses {
            cudnn.check("setting the convolution's descriptor", status)?;
        }
        Ok(described)
    }

    /// Workspace of an algorithm.
    pub(super) fn workspace_bytes(&self, pass: ConvPass, algorithm: c_int) -> Result<usize> {
        let f = &self.library.functions;
        let (ask, [a, b, c]) = match pass {
            ConvPass::Fprop => (f.workspace_fprop, [self.x, self.w, self.y]),
            ConvPass::Dgrad => (f.workspace_dgrad, [self.w, self.y, self.x]),
            ConvPass::Wgrad => (f.workspace_wgrad, [self.x, self.y, self.w]),
        };
        let mut bytes = 0;
        // SAFETY: the descriptors are alive; `bytes` is a place for the answer.
        let status = unsafe { ask(self.library.handle, a, b, self.conv, c, algorithm, &mut bytes) };
        self.library.check("the workspace's size", status)?;
        Ok(bytes)
    }

    /// Queues the convolution with x, w and y at these addresses, which are good for their tensors.
    pub(super) fn run(
        &self,
        (pass, algorithm): (ConvPass, c_int),
        [x_at, w_at, y_at]: [P; 3],
        (workspace, bytes): (P, usize),
        (alpha, beta): (f32, f32),
    ) -> Result<()> {
        let Described { library, x, w, y, conv } = self;
        let f = &library.functions;
        let (run, [a, a_at, b, b_at, c, c_at]) = match pass {
            ConvPass::Fprop => (f.fprop, [*x, x_at, *w, w_at, *y, y_at]),
            ConvPass::Dgrad => (f.dgrad, [*w, w_at, *y, y_at, *x, x_at]),
            ConvPass::Wgrad => (f.wgrad, [*x, x_at, *y, y_at, *w, w_at]),
        };
        let handle = library.handle;
        // SAFETY: descriptors and memory are this problem's; both scalars are read during the call.
        let status =
            unsafe { run(handle, &alpha, a, a_at, b, b_at, *conv, algorithm, workspace, bytes, &beta, c, c_at) };
        library.check("convolution", status)
    }
}

impl Drop for Described {
    fn drop(&mut self) {
        let f = &self.library.functions;
        // SAFETY: nobody else has the descriptors; null is refused without harm.
        let _ = unsafe {
            [
                (f.tensor_destroy)(self.x),
                (f.tensor_destroy)(self.y),
                (f.filter_destroy)(self.w),
                (f.conv_destroy)(self.conv),
            ]
        };
    }
}

/// Filters have no strides in this interface.
fn filter_format(w: &TensorDesc) -> Result<c_int> {
    if w.is_packed() {
        Ok(NCHW)
    } else if w.is_channels_last() {
        Ok(NHWC)
    } else {
        bail!("expected a filter without gaps, given {w}")
    }
}
