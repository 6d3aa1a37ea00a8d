//! How the kernels whose threads read a window each cut the work.

use super::geometry::{Action, Geometry, action};
use crate::DType;
use kernel_abi::division::Divisor;
use kernel_abi::ops::conv::{DepthwiseParams, WINDOWS_GROUPS, WINDOWS_THREADS};

const WARP: u32 = 32;

/// A row of the kernel list.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub(super) symbol: &'static str,
    action: Action,
    channels_last: bool,
    filter: i32,
    stride: i32,
    /// Columns of a strip.
    strip: i32,
    dtype: DType,
}

macro_rules! rows {
    ($(($symbol:ident, $action:ident, $layout:ident, $r:literal, $stride:literal, $strip:literal,
        $dtype:ident)),* $(,)?) => {
        &[$(Row {
            symbol: stringify!($symbol),
            action: action!($action),
            channels_last: rows!(@$layout),
            filter: $r,
            stride: $stride,
            strip: $strip,
            dtype: kernel_abi::dtype_of!($dtype),
        }),*]
    };
    (@nhwc) => { true };
    (@nchw) => { false };
}
const KERNELS: &[Row] = kernel_abi::depthwise_windows_kernels!(rows);

impl Row {
    /// Channels of a thread.
    fn vec(&self) -> i32 {
        if self.channels_last { 2 } else { 1 }
    }

    /// What addresses of all operands must be multiples of.
    pub(super) fn align_bytes(&self) -> u64 {
        self.vec() as u64 * self.dtype.size_bytes() as u64
    }
}

/// The kernel for a problem.
pub(super) fn row(geometry: &Geometry) -> Option<&'static Row> {
    let (r, stride) = geometry.square()?;
    let params = geometry.params();
    // Taps are read as they lie, a channel's behind one another.
    let contiguous = params.w_strides == [i64::from(r * r), i64::from(r), 1];
    let wanted = (geometry.action(), geometry.channels_last, r, stride, geometry.dtype);
    let fits = |row: &&Row| {
        (row.action, row.channels_last, row.filter, row.stride, row.dtype) == wanted
            && params.c % row.vec() == 0
            && (contiguous || row.action == Action::Wgrad)
    };
    KERNELS.iter().find(fits)
}

/// Parameters, blocks and their threads; None for more items than the kernel counts.
pub(super) fn cut(geometry: &Geometry, row: &Row) -> Option<(DepthwiseParams, u64, u32)> {
    let mut params = geometry.params();
    let groups = params.c / row.vec();
    let [rows, columns] = params.target_dims;
    let strips = (columns + row.strip - 1) / row.strip;
    let divisor = |extent: i32| Divisor::new(extent as u32);
    let (divisors, items_of) = match (row.action, row.channels_last) {
        // A block has all items of its channels.
        (Action::Wgrad, _) => ([strips, rows, 1], 1),
        (_, true) => ([groups, strips, rows], groups),
        (_, false) => ([strips, rows, params.c], params.c),
    };
    params.divisors = divisors.map(divisor);
    let in_image = i64::from(items_of).checked_mul(i64::from(rows) * i64::from(strips))?;
    params.n_items = in_image.checked_mul(params.n).filter(|&items| items <= i64::from(i32::MAX))?;
    let [threads, most] = WINDOWS_THREADS;
    let (n_blocks, threads) = match (row.action, row.channels_last) {
        (Action::Wgrad, true) => ((groups as u64).div_ceil(WINDOWS_GROUPS.into()), most),
        // A channel's strips are few.
        (Action::Wgrad, false) => (groups as u64, (params.n_items as u32).next_multiple_of(WARP).min(most)),
        _ => ((params.n_items as u64).div_ceil(threads.into()), threads),
    };
    Some((params, n_blocks, threads))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::conv::ConvProblem;

    fn of(text: &str) -> Option<(&'static str, DepthwiseParams, u64, u32)> {
        let geometry = Geometry::of(&text.parse::<ConvProblem>().unwrap()).unwrap_or_else(|_| panic!("{text}"));
        let row = row(&geometry)?;
        cut(&geometry, row).map(|(params, n_blocks, threads)| (row.symbol, params, n_blocks, threads))
    }

    #[test]
    fn every_thread_has_a_strip() {
        let mobilenet = "pad=1x1 groups=1024 x=1x1024x7x7:bf16:nhwc w=1024x1x3x3:bf16:nhwc";
        let (symbol, params, n_blocks, threads) = of(&format!("conv:fprop {mobilenet}")).unwrap();
        assert_eq!(symbol, "depthwisewindows_gather_nhwc_3x3_s1_bf16");
        // 512 pairs of channels, 7 rows of 2 strips.
        assert_eq!((params.n_items, n_blocks, threads), (512 * 7 * 2, 56, 128));
        let (symbol, params, n_blocks, threads) =
            of("conv:dgrad pad=1x1 stride=2x2 groups=30 dx=2x30x14x14:f16 w=30x1x3x3:f16").unwrap();
        assert_eq!(symbol, "depthwisewindows_spread_nchw_3x3_s2_f16");
        assert_eq!((params.n_items, n_blocks, threads), (2 * 30 * 14 * 4, 27, 128));
    }

    #[test]
    fn blocks_of_wgrad_have_all_strips_of_their_channels() {
        let (symbol, params, n_blocks, threads) =
            of("conv:wgrad pad=1x1 stride=2x2 groups=100 x=2x100x14x14:bf16:nhwc dw=100x1x3x3:bf16:nhwc").unwrap();
        assert_eq!(symbol, "depthwisewindows_wgrad_nhwc_3x3_s2_bf16");
        assert_eq!((params.n_items, n_blocks, threads), (2 * 7 * 4, 7, 512));
        let (symbol, params, n_blocks, threads) =
            of("conv:wgrad pad=1x1 stride=2x2 groups=100 x=1x100x14x14:bf16 dw=100x1x3x3:bf16").unwrap();
        assert_eq!(symbol, "depthwisewindows_wgrad_nchw_3x3_s2_bf16");
        assert_eq!((params.n_items, n_blocks, threads), (7 * 4, 100, 32));
    }

    #[test]
    fn others_have_no_kernel() {
        for text in [
            "conv:fprop groups=5 x=1x5x7x7:bf16:nhwc w=5x1x3x3:bf16:nhwc",
            "conv:fprop groups=4 x=1x4x9x9:bf16 w=4x1x7x7:bf16",
            "conv:fprop groups=4 x=1x4x7x7:bf16 w=4x1x3x2:bf16",
            "conv:fprop dil=2x2 groups=4 x=1x4x7x7:bf16 w=4x1x3x3:bf16",
            "conv:fprop stride=2x1 groups=4 x=1x4x7x7:bf16 w=4x1x3x3:bf16",
            "conv:fprop groups=4 x=1x4x7x7:bf16 w=4x1x3x3:bf16:s1x1x12x4",
        ] {
            assert!(of(text).is_none(), "{text}");
        }
    }
}
