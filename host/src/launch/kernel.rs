//! From an operator's kernel list to a launch.

use super::{KernelParams, LaunchConfig, launch};
use crate::driver::Function;
use crate::plan::{Call, Launch};
use crate::select::{Config, Refusal, check_gpu};
use crate::{Context, DType, Error, Stream, TensorDesc};
use kernel_abi::TensorParam;
use kernel_abi::store::StoreParams;
use std::hash::{BuildHasher, Hasher, RandomState};

/// A row of an operator's kernel list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KernelRow {
    pub(crate) symbol: &'static str,
    pub(crate) pass: &'static str,
    pub(crate) dtype: DType,
}

/// The callback for a kernel list of `kernel-abi` with the columns symbol, pass, element type:
/// `const KERNELS: &[KernelRow] = kernel_abi::activation_kernels!(kernel_rows);`
macro_rules! kernel_rows {
    ($(($symbol:ident, $pass:ident, $dtype:ident)),* $(,)?) => {
        &[$($crate::launch::KernelRow {
            symbol: stringify!($symbol),
            pass: stringify!($pass),
            dtype: kernel_abi::dtype_of!($dtype),
        }),*]
    };
}
pub(crate) use kernel_rows;

/// The config of the kernel for a pass and type, on a GPU.
pub(crate) fn kernel_for(
    rows: &[KernelRow],
    pass: &str,
    dtype: DType,
    context: &Context,
) -> Result<Vec<Config>, Refusal> {
    check_gpu(context)?;
    rows.iter()
        .find(|row| row.pass == pass && row.dtype == dtype)
        .map(|row| vec![Config(row.symbol)])
        .ok_or_else(|| Refusal::new(format!("has no kernel for pass {pass} with {dtype}")))
}

/// A launch of one kernel whose parameters are complete but for addresses and scalars.
pub(crate) struct KernelLaunch<T> {
    pub(crate) function: Function,
    pub(crate) config: LaunchConfig,
    pub(crate) params: T,
    /// Puts addresses and scalars into the parameters.
    pub(crate) bind: fn(&mut T, &Call<'_>),
}

impl<T: KernelParams + Send + Sync> Launch for KernelLaunch<T> {
    fn launch(&self, stream: &Stream, call: &mut Call<'_>) -> Result<(), Error> {
        let mut params = self.params;
        (self.bind)(&mut params, call);
        launch_on(stream, &self.function, &self.config, &params)
    }
}

/// Queues a kernel whose parameters are complete.
pub(crate) fn launch_on<T: KernelParams>(
    stream: &Stream,
    function: &Function,
    config: &LaunchConfig,
    params: &T,
) -> Result<(), Error> {
    let stream = stream.gpu_stream_for(function.name())?;
    launch(function, config, stream, params)
}

/// How kernels that store sums in several types write columns of this type and distance, but for what only a run knows.
pub(crate) fn store_params(dtype: DType, col_stride: i64) -> StoreParams {
    StoreParams {
        alpha: 1.0,
        beta: 0.0,
        col_stride,
        dtype: dtype as u32,
        element_bytes: dtype.size_bytes() as u32,
        whole: 0,
        unused: 0,
    }
}

/// Whether sums are only scaled as they are stored, those of i32 not even that: what whole accesses are made for.
pub(crate) fn scales_only(store: &StoreParams) -> bool {
    store.beta == 0.0 && (store.dtype != DType::I32 as u32 || store.alpha == 1.0)
}

/// What flags say of a launch. A number at random, so that nobody clears flags before the first run: whatever was in the
/// workspace is mistaken for it once in 2^64 times. Who has waited for a flag clears it for the next run, since a captured
/// launch has the same tag every time.
pub(crate) fn tag() -> u64 {
    RandomState::new().build_hasher().finish().max(1)
}

/// The quotient of numbers that are not negative, rounded up.
pub(crate) fn div_ceil(number: i64, divisor: i64) -> i64 {
    (number + divisor - 1) / divisor
}

/// A one-dimensional grid that covers `n_threads`, in blocks of `block`; kernels stride over the rest.
pub(crate) fn linear_grid(n_threads: i64, block: u32) -> LaunchConfig {
    // Kernels loop by the size of the grid, so a cap costs nothing; this one keeps index arithmetic in 32 bits.
    const MAX_BLOCKS: i64 = 1 << 20;
    let blocks = (n_threads.max(1) as u64).div_ceil(u64::from(block)).min(MAX_BLOCKS as u64);
    LaunchConfig { grid: [blocks as u32, 1, 1], block: [block, 1, 1], ..LaunchConfig::default() }
}

/// A one-dimensional grid with a thread for each of `n_threads`, at most 2³¹, for kernels that stride over nothing.
pub(crate) fn covering_grid(n_threads: u32, block: u32) -> LaunchConfig {
    LaunchConfig { grid: [n_threads.div_ceil(block).max(1), 1, 1], block: [block, 1, 1], ..LaunchConfig::default() }
}

/// A tensor `[N, C, spatial...]` as `[N, C, D, H, W]`, at address 0; absent axes have extent 1.
pub(crate) fn spatial_param(desc: &TensorDesc) -> TensorParam {
    let mut param = desc.param(0);
    let absent = 5 - desc.rank();
    param.dims[2..5].fill(1);
    param.strides[2..5].fill(0);
    param.dims[2 + absent..5].copy_from_slice(&desc.dims()[2..]);
    param.strides[2 + absent..5].copy_from_slice(&desc.strides()[2..]);
    param
}

/// A grid as `[N, Z, P, Q, axes]`, at address 0; absent spatial axes have extent 1.
pub(crate) fn grid_param(grid: &TensorDesc) -> TensorParam {
    let (mut param, absent, last) = (grid.param(0), 5 - grid.rank(), grid.rank() - 1);
    param.dims[1..4].fill(1);
    param.strides[1..4].fill(0);
    param.dims[1 + absent..4].copy_from_slice(&grid.dims()[1..last]);
    param.strides[1 + absent..4].copy_from_slice(&grid.strides()[1..last]);
    (param.dims[4], param.strides[4]) = (grid.dims()[last], grid.strides()[last]);
    param
}

/// Whether neighbouring channels lie closer in memory than neighbouring positions.
pub(crate) fn channels_innermost(desc: &TensorDesc) -> bool {
    let nearest = (2..desc.rank()).filter(|&i| desc.dims()[i] > 1).map(|i| desc.strides()[i]).min();
    desc.dims()[1] > 1 && nearest.is_none_or(|nearest| desc.strides()[1] < nearest)
}
