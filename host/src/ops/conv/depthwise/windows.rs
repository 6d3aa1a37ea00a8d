//! How the kernels whose threads read a window each cut the work.

use super::geometry::{Action, Geometry, action};
use crate::DType;
use kernel_abi::division::Divisor;
use kernel_abi::ops::conv::{DepthwiseParams, WINDOWS_GROUPS, WINDOWS_QUAD, WINDOWS_THREADS};

const WARP: u32 = 32;
/// Channels of a block of `wgrad` that have a warp each: in place of a block for each, 1024 channels of 7 × 7 took 2.96 µs for
/// 3.0, 512 of 14 × 14, 2 apart, 2.36 for 2.4 (H200).
const WARP_CHANNELS: u32 = 4;
/// Strips from which blocks have twice the threads: of 100 thousand, half as many blocks take up to 0.1 µs less, of 50 thousand
/// up to 0.4 more, presumably since some multiprocessors then have one and others two (H200).
const MANY_STRIPS: i64 = 90_000;

/// A row of the kernel list.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub(super) symbol: &'static str,
    action: Action,
    /// Whether a strip's source is one access a row, and what is beside it.
    quads: bool,
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
            action: rows!(@action $action),
            quads: rows!(@quads $action),
            channels_last: rows!(@$layout),
            filter: $r,
            stride: $stride,
            strip: $strip,
            dtype: kernel_abi::dtype_of!($dtype),
        }),*]
    };
    (@action quads) => { Action::Gather };
    (@action $action:ident) => { action!($action) };
    (@quads quads) => { true };
    (@quads $action:ident) => { false };
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
        let elems = if self.quads { WINDOWS_QUAD } else { self.vec() as u32 };
        u64::from(elems) * self.dtype.size_bytes() as u64
    }

    /// What the kernel takes less than the first ones before and behind its work, in µs, where it moves so many bytes; fitted to
    /// times on an H200 (mobilenet, N = 1).
    pub(super) fn saved_us(&self, bytes: f64) -> f64 {
        let is_short = KERNELS.iter().any(|other| self.is_shorter_than(other));
        match self.action {
            Action::Wgrad => 3.5,
            _ if self.quads => 1.9,
            // Short strips are more instructions in all, and fewer for a thread, which is what a device waits for that strips
            // do not fill.
            Action::Gather if is_short && !self.channels_last => {
                if bytes < 0.3e6 {
                    1.65
                } else {
                    1.2
                }
            }
            Action::Gather if is_short => 1.9,
            _ if is_short => {
                if (0.45e6..1.8e6).contains(&bytes) {
                    1.8
                } else {
                    1.5
                }
            }
            _ => 1.6,
        }
    }

    /// Whether it takes less time where it begins before the kernel before it has ended, of images of so many bytes. Of planes
    /// that depends on the pass and on bytes, by times on an H200 (mobilenet, N = 1); we do not know why.
    pub(super) fn begins_early(&self, bytes: f64) -> bool {
        self.channels_last
            || match (self.action, self.stride) {
                (Action::Gather, 1) => true,
                (Action::Gather, _) => bytes < 0.7e6,
                (Action::Spread, _) => bytes > 0.8e6,
                (Action::Wgrad, _) => bytes < 1.8e6,
            }
    }

    fn is_shorter_than(&self, other: &Row) -> bool {
        let key = |row: &Row| (row.action, row.quads, row.channels_last, row.filter, row.stride, row.dtype);
        key(self) == key(other) && self.strip < other.strip
    }

    /// Whether the geometry's rows are as the kernel's accesses want them.
    fn fits_rows(&self, params: &DepthwiseParams) -> bool {
        let [source, target] = [params.source_dims[1], params.target_dims[1]];
        let whole = source % WINDOWS_QUAD as i32 == 0 && target * self.stride == source;
        !self.quads || whole && params.padding[1] == self.filter / 2
    }
}

/// The kernels for a problem.
pub(super) fn rows(geometry: &Geometry) -> Vec<&'static Row> {
    let Some((r, stride)) = geometry.square() else { return Vec::new() };
    let params = geometry.params();
    // Taps are read as they lie, a channel's behind one another.
    let contiguous = params.w_strides == [i64::from(r * r), i64::from(r), 1];
    let wanted = (geometry.action(), geometry.channels_last, r, stride, geometry.dtype);
    let fits = |row: &&Row| {
        (row.action, row.channels_last, row.filter, row.stride, row.dtype) == wanted
            && params.c % row.vec() == 0
            && (contiguous || row.action == Action::Wgrad)
            && row.fits_rows(&params)
    };
    KERNELS.iter().filter(fits).collect()
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
    let [most_of_strips, most] = WINDOWS_THREADS;
    let (n_blocks, threads) = match (row.action, row.channels_last) {
        (Action::Wgrad, true) => ((groups as u64).div_ceil(WINDOWS_GROUPS.into()), most),
        // A channel's strips are few.
        (Action::Wgrad, false) if params.n_items <= i64::from(WARP) => {
            params.channel_run = WARP_CHANNELS as i32;
            ((groups as u64).div_ceil(WARP_CHANNELS.into()), WARP * WARP_CHANNELS)
        }
        (Action::Wgrad, false) => (groups as u64, (params.n_items as u32).next_multiple_of(WARP).min(most)),
        _ => {
            let threads = if params.n_items < MANY_STRIPS { most_of_strips / 2 } else { most_of_strips };
            ((params.n_items as u64).div_ceil(threads.into()), threads)
        }
    };
    Some((params, n_blocks, threads))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::conv::ConvProblem;

    fn all_of(text: &str) -> Vec<(&'static str, DepthwiseParams, u64, u32)> {
        let geometry = Geometry::of(&text.parse::<ConvProblem>().unwrap()).unwrap_or_else(|_| panic!("{text}"));
        let of_row =
            |row: &Row| cut(&geometry, row).map(|(params, n_blocks, threads)| (row.symbol, params, n_blocks, threads));
        rows(&geometry).into_iter().filter_map(of_row).collect()
    }

    fn of(text: &str) -> Option<(&'static str, DepthwiseParams, u64, u32)> {
        all_of(text).into_iter().next()
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
        assert_eq!((params.n_items, params.channel_run, n_blocks, threads), (7 * 4, 4, 25, 128));
        let (_, params, n_blocks, threads) =
            of("conv:wgrad pad=1x1 groups=100 x=1x100x14x14:bf16 dw=100x1x3x3:bf16").unwrap();
        assert_eq!((params.n_items, params.channel_run, n_blocks, threads), (14 * 4, 1, 100, 64));
    }

    #[test]
    fn rows_of_whole_accesses_have_quads() {
        let first = |text: &str| of(text).unwrap().0;
        let same = "conv:fprop pad=1x1 groups=8 x=2x8x14x28:bf16 w=8x1x3x3:bf16";
        let all = all_of(same);
        let symbols: Vec<&str> = all.iter().map(|(symbol, ..)| *symbol).collect();
        let [quads, gather, strip1] = symbols.as_slice() else { panic!("{symbols:?}") };
        assert_eq!(*quads, "depthwisewindows_quads_nchw_3x3_s1_bf16");
        assert_eq!(*gather, "depthwisewindows_gather_nchw_3x3_s1_bf16");
        assert_eq!(*strip1, "depthwisewindows_gather_nchw_3x3_s1_strip1_bf16");
        let items: Vec<i64> = all.iter().map(|(_, params, ..)| params.n_items).collect();
        assert_eq!(items, [2 * 8 * 14 * 7, 2 * 8 * 14 * 7, 2 * 8 * 14 * 28]);
        let halved = "conv:fprop pad=2x2 stride=2x2 groups=8 x=2x8x14x28:f16 w=8x1x5x5:f16";
        assert_eq!(first(halved), "depthwisewindows_quads_nchw_5x5_s2_f16");
        assert_eq!(first(&halved.replace("28:", "26:")), "depthwisewindows_gather_nchw_5x5_s2_f16");
        assert_eq!(first(&same.replace("pad=1x1", "pad=1x0")), "depthwisewindows_gather_nchw_3x3_s1_bf16");
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
