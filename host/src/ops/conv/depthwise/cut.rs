//! The kernels, and how each cuts a problem.

use super::geometry::Geometry;
use super::launch::images;
use super::{channels_last, looped, planes, toeplitz, windows};
use crate::DType;
use crate::ops::conv::ConvPass;
use kernel_abi::ops::conv::DepthwiseParams;

/// The most blocks of a launch.
pub(super) const MAX_BLOCKS: u64 = i32::MAX as u64;

/// Multiprocessors of the device that the shares were fitted on, an H200.
const UNITS: f64 = 132.0;

/// A row of the list of kernels that loop over taps.
struct LoopedRow {
    symbol: &'static str,
    wgrad: bool,
    channels_last: bool,
    dtype: DType,
}

macro_rules! looped_rows {
    ($(($symbol:ident, $action:ident, $layout:ident, $dtype:ident)),* $(,)?) => {
        &[$(LoopedRow {
            symbol: stringify!($symbol),
            wgrad: looped_rows!(@action $action),
            channels_last: looped_rows!(@layout $layout),
            dtype: kernel_abi::dtype_of!($dtype),
        }),*]
    };
    (@action gather) => { false };
    (@action wgrad) => { true };
    (@layout nhwc) => { true };
    (@layout nchw) => { false };
}
const LOOPED: &[LoopedRow] = kernel_abi::depthwise_looped_kernels!(looped_rows);

macro_rules! reduce_rows {
    ($(($symbol:ident, $dtype:ident)),* $(,)?) => { &[$((stringify!($symbol), kernel_abi::dtype_of!($dtype))),*] };
}
pub(super) const REDUCE: &[(&str, DType)] = kernel_abi::depthwise_reduce_kernels!(reduce_rows);

/// Bytes of images of planes of which `wgrad` is launched early: others are placed worse then, which costs more than the
/// launch.
const SHORT_BYTES: f64 = 0.45e6;

/// A kernel with the way it cuts a problem.
pub(super) struct Cut {
    pub(super) symbol: &'static str,
    pub(super) params: DepthwiseParams,
    pub(super) n_blocks: u64,
    pub(super) block: u32,
    /// What addresses of the operands in `aligned` must be multiples of.
    pub(super) align_bytes: u64,
    pub(super) aligned: &'static [usize],
    /// Whether `wgrad` leaves sums of slabs for a second kernel.
    pub(super) leaves_sums: bool,
    /// Whether it may begin while the kernel before it still runs.
    pub(super) early: bool,
    /// Share of the device's bandwidth that it reaches.
    pub(super) memory_share: f64,
    /// Share of the device's plain rate that it reaches.
    pub(super) rate_share: f64,
    /// What it takes less than the first kernels before and behind its work: no second launch, or more warps at once.
    pub(super) saved_us: f64,
}

impl Cut {
    /// What `wgrad` leaves for the second kernel.
    pub(super) fn workspace_bytes(&self, geometry: &Geometry) -> u64 {
        let taps = u64::from(geometry.filter[0].unsigned_abs()) * u64::from(geometry.filter[1].unsigned_abs());
        let sums = self.params.n_slabs as u64 * taps * self.params.c as u64;
        if self.leaves_sums { sums * size_of::<f32>() as u64 } else { 0 }
    }
}

/// Every kernel able to compute the problem, best first.
pub(super) fn cuts(geometry: &Geometry) -> Vec<Cut> {
    let wgrad = geometry.pass == ConvPass::Wgrad;
    let images = images(geometry.pass);
    let bytes = geometry.image_bytes();
    let early = geometry.channels_last || wgrad && bytes < SHORT_BYTES;
    let fits =
        |row: &&LoopedRow| (row.wgrad, row.channels_last, row.dtype) == (wgrad, geometry.channels_last, geometry.dtype);
    let (params, n_blocks) = looped::cut(geometry);
    let looped = LOOPED.iter().filter(fits).map(|row| Cut {
        symbol: row.symbol,
        params,
        n_blocks,
        block: 256,
        align_bytes: 1,
        aligned: images,
        leaves_sums: wgrad,
        early,
        memory_share: 0.13,
        // Many more other instructions than products.
        rate_share: 0.08,
        saved_us: 0.0,
    });
    let channels_last = channels_last::cuts(geometry).into_iter().map(|cut| Cut {
        symbol: cut.row.symbol,
        params: cut.params,
        n_blocks: cut.n_blocks,
        block: channels_last::THREADS,
        align_bytes: cut.row.vec as u64 * geometry.dtype.size_bytes() as u64,
        aligned: images,
        leaves_sums: wgrad,
        early,
        memory_share: 0.8,
        rate_share: 0.45,
        saved_us: 0.0,
    });
    let planes = planes::row(geometry).and_then(|row| {
        let (params, n_blocks) = planes::cut(geometry, row)?;
        Some(Cut {
            symbol: row.symbol,
            params,
            n_blocks,
            block: planes::THREADS,
            align_bytes: planes::ALIGN_BYTES,
            aligned: images,
            leaves_sums: wgrad && params.n_slabs > 1,
            early,
            memory_share: 0.7,
            rate_share: 0.35,
            saved_us: 0.0,
        })
    });
    let toeplitz = toeplitz::row(geometry).and_then(|row| {
        let (params, n_blocks) = toeplitz::cut(geometry, row)?;
        Some(Cut {
            symbol: row.symbol,
            params,
            n_blocks,
            block: row.threads(),
            align_bytes: planes::ALIGN_BYTES,
            aligned: images,
            leaves_sums: wgrad && params.n_slabs > 1,
            early,
            memory_share: 0.95,
            rate_share: 1.0,
            saved_us: if wgrad && params.n_slabs == 1 { 2.7 } else { 1.0 },
        })
    });
    let windows = windows::rows(geometry).into_iter().filter_map(|row| {
        let (params, n_blocks, block) = windows::cut(geometry, row)?;
        // Blocks of wgrad are few where channels are.
        let filled = if wgrad { (n_blocks as f64 / UNITS).min(1.0) } else { 1.0 };
        Some(Cut {
            symbol: row.symbol,
            params,
            n_blocks,
            block,
            align_bytes: row.align_bytes(),
            aligned: if wgrad { images } else { &[0, 1, 2] },
            leaves_sums: false,
            early: row.begins_early(bytes),
            memory_share: 0.5,
            rate_share: 0.2 * filled,
            saved_us: row.saved_us(bytes),
        })
    });
    channels_last
        .chain(toeplitz)
        .chain(planes)
        .chain(windows)
        .chain(looped)
        .filter(|cut| cut.n_blocks <= MAX_BLOCKS)
        .collect()
}
