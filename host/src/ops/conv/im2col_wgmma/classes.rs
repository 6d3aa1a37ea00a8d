//! Which taps each position of the written tensor meets.

use super::tensors::{Positions, Window, check_window};
use crate::ops::conv::{ConvAxis, ConvMode, ConvPass, ConvProblem};
use crate::select::Refusal;
use kernel_abi::ops::conv::im2col_wgmma::access;

/// Positions of the written tensor that meet the same taps, along one axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::ops::conv) struct AxisClass {
    /// The first of them, and the distance between them.
    pub(in crate::ops::conv) first: i64,
    pub(in crate::ops::conv) step: i64,
    pub(in crate::ops::conv) extent: i64,
    /// How many taps they meet, and the filter index of the one that reads nearest to the begin.
    pub(in crate::ops::conv) n_taps: i64,
    pub(in crate::ops::conv) first_tap: i64,
    /// From that tap to the next in reading order.
    pub(in crate::ops::conv) tap_step: i64,
    /// Where the first position reads with its first tap, and how much farther with the next.
    pub(in crate::ops::conv) base: i64,
    pub(in crate::ops::conv) tap_offset: i64,
}

impl AxisClass {
    /// All positions of an axis with a single tap that reads where it writes.
    pub(in crate::ops::conv) fn plain(extent: i64) -> Self {
        AxisClass { first: 0, step: 1, extent, n_taps: 1, first_tap: 0, tap_step: 1, base: 0, tap_offset: 1 }
    }
}

/// A class of positions.
#[derive(Clone, Copy, Debug)]
pub(in crate::ops::conv) struct Class {
    pub(in crate::ops::conv) axes: [AxisClass; 3],
}

impl Class {
    /// Taps of all axes.
    pub(in crate::ops::conv) fn n_taps(&self) -> i64 {
        self.axes.iter().map(|axis| axis.n_taps).product()
    }

    /// Its positions.
    pub(in crate::ops::conv) fn positions(&self, written: &Positions) -> Positions {
        written.every(self.axes.map(|axis| axis.first), self.axes.map(|axis| axis.step))
    }

    /// What it reads with its first tap, `read_step` apart.
    pub(in crate::ops::conv) fn window(&self, read_step: [i64; 3]) -> Window {
        Window {
            first: self.axes.map(|axis| axis.base),
            last: std::array::from_fn(|i| self.axes[i].base + (self.axes[i].extent - 1) * read_step[i]),
            step: read_step,
        }
    }

    /// How far its last tap reads beyond its first.
    pub(in crate::ops::conv) fn last_offset(&self) -> [i64; 3] {
        self.axes.map(|axis| (axis.n_taps - 1).max(0) * axis.tap_offset)
    }
}

/// The classes of a `fprop` or `dgrad`, those with most taps first, and the distance between what neighbours read.
pub(in crate::ops::conv) fn classes(problem: &ConvProblem) -> (Vec<Class>, [i64; 3]) {
    let shape = problem.shape();
    let flip = problem.mode() == ConvMode::Convolution;
    if problem.conv_pass() == ConvPass::Fprop {
        let axes = std::array::from_fn(|i| fprop(shape.axes[i], shape.filter[i], shape.output[i], flip));
        return (vec![Class { axes }], shape.axes.map(|axis| axis.stride));
    }
    let [d, h, w]: [Vec<AxisClass>; 3] =
        std::array::from_fn(|i| dgrad(shape.axes[i], shape.filter[i], shape.image[i], flip));
    let mut classes = Vec::new();
    for &d in &d {
        for &h in &h {
            classes.extend(w.iter().map(|&w| Class { axes: [d, h, w] }));
        }
    }
    // Long sums first: short ones fill the gaps at the end.
    classes.sort_by_key(|class| -class.n_taps());
    (classes, [1; 3])
}

/// How the copy engine reads the positions of a `fprop` or `dgrad`, `name`: one behind the other where one tap reads where
/// it writes, a plain product, else in windows, which must be such as it takes.
pub(in crate::ops::conv) fn read_access(
    name: &str,
    (classes, step): (&[Class], [i64; 3]),
    read: &Positions,
    written: &Positions,
    n_axes: usize,
) -> Result<u32, Refusal> {
    let same_place = match classes {
        [one] => {
            one.n_taps() == 1
                && step == [1; 3]
                && one.axes.iter().all(|axis| axis.base == 0)
                && read.extents == written.extents
        }
        _ => false,
    };
    let access = read.access(same_place, n_axes);
    if access != access::LINEAR {
        for class in classes.iter().filter(|class| class.n_taps() > 0) {
            check_window(name, read, &class.window(step), class.last_offset(), access)?;
        }
    }
    Ok(access)
}

fn fprop(axis: ConvAxis, filter: i64, output: i64, flip: bool) -> AxisClass {
    let (first_tap, tap_step) = if flip { (filter - 1, -1) } else { (0, 1) };
    AxisClass {
        first: 0,
        step: 1,
        extent: output,
        n_taps: filter,
        first_tap,
        tap_step,
        base: -axis.padding,
        tap_offset: axis.dilation,
    }
}

/// Position `a + i · stride` of dx meets tap r where `a + padding - r · dilation` is a multiple of the stride, and
/// reads dy at that multiple plus i. Taps that lie farther read nearer to the begin, so they come first.
fn dgrad(axis: ConvAxis, filter: i64, image: i64, flip: bool) -> Vec<AxisClass> {
    let ConvAxis { padding, stride, dilation, .. } = axis;
    (0..stride.min(image))
        .map(|a| {
            let meets = |tap: &i64| (a + padding - tap * dilation).rem_euclid(stride) == 0;
            let taps: Vec<i64> = (0..filter).rev().filter(meets).collect();
            let index = |tap: i64| if flip { filter - 1 - tap } else { tap };
            let reads = |tap: i64| (a + padding - tap * dilation).div_euclid(stride);
            let [first, second] = [0, 1].map(|i| taps.get(i).copied());
            AxisClass {
                first: a,
                step: stride,
                extent: (image - a + stride - 1) / stride,
                n_taps: taps.len() as i64,
                first_tap: first.map_or(0, index),
                tap_step: first.zip(second).map_or(0, |(first, second)| index(second) - index(first)),
                base: first.map_or(0, reads),
                tap_offset: first.zip(second).map_or(0, |(first, second)| reads(second) - reads(first)),
            }
        })
        .collect()
}
