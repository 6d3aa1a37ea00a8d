//! A convolution's extents as the CPU algorithms walk them.

use super::{ConvAxis, ConvMode, ConvProblem};
use kernel_abi::ops::conv::index;
use std::ops::Range;

/// All extents, with three spatial axes in the order depth, height, width. Tensors are packed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Geometry {
    /// N.
    pub(super) n: usize,
    /// G.
    pub(super) groups: usize,
    /// Input channels of a group.
    pub(super) group_c: usize,
    /// Output channels of a group.
    pub(super) group_k: usize,
    /// D, H, W.
    pub(super) image: [usize; 3],
    /// T, R, S.
    pub(super) filter: [usize; 3],
    /// Z, P, Q.
    pub(super) output: [usize; 3],
    axes: [ConvAxis; 3],
    flip: bool,
}

impl Geometry {
    pub(super) fn new(problem: &ConvProblem) -> Self {
        let shape = problem.shape();
        let extents = |extents: [i64; 3]| extents.map(|extent| extent as usize);
        Geometry {
            n: shape.n as usize,
            groups: shape.groups as usize,
            group_c: shape.group_c() as usize,
            group_k: shape.group_k() as usize,
            image: extents(shape.image),
            filter: extents(shape.filter),
            output: extents(shape.output),
            axes: shape.axes,
            flip: problem.mode() == ConvMode::Convolution,
        }
    }

    /// Elements of a channel of x.
    pub(super) fn pixels(&self) -> usize {
        self.image.iter().product()
    }

    /// Elements of a channel of w.
    pub(super) fn taps(&self) -> usize {
        self.filter.iter().product()
    }

    /// Elements of a channel of y.
    pub(super) fn positions(&self) -> usize {
        self.output.iter().product()
    }

    /// Products in the sum of an element of y.
    pub(super) fn terms(&self) -> usize {
        self.group_c * self.taps()
    }

    /// Whether every output position reads just the input element at its own place.
    pub(super) fn is_pointwise(&self) -> bool {
        self.filter == [1; 3] && self.image == self.output && self.axes.iter().all(|a| a.stride == 1 && a.padding == 0)
    }

    /// Stride of an axis.
    pub(super) fn stride(&self, axis: usize) -> usize {
        self.axes[axis].stride as usize
    }

    /// Output positions at which `tap` meets the input and not its padding.
    pub(super) fn valid(&self, axis: usize, tap: usize) -> Range<usize> {
        let ConvAxis { padding, stride, dilation, .. } = self.axes[axis];
        let (input, output) = (self.image[axis] as i64, self.output[axis] as i64);
        let (begin, end) = index::valid_outputs(tap as i64, input, output, padding, stride, dilation);
        begin as usize..end as usize
    }

    /// The input position that `tap` meets at one of its valid output positions.
    pub(super) fn input(&self, axis: usize, output: usize, tap: usize) -> usize {
        let ConvAxis { padding, stride, dilation, .. } = self.axes[axis];
        index::input_position(output as i64, tap as i64, padding, stride, dilation) as usize
    }

    /// The output position whose `tap` meets `input`.
    pub(super) fn output(&self, axis: usize, input: usize, tap: usize) -> Option<usize> {
        let ConvAxis { padding, stride, dilation, .. } = self.axes[axis];
        let output = index::output_position(input as i64, tap as i64, padding, stride, dilation);
        (0..self.output[axis] as i64).contains(&output).then_some(output as usize)
    }

    /// The place in a filter's channel of the element for the taps of all axes.
    pub(super) fn filter_offset(&self, taps: [usize; 3]) -> usize {
        let at = |axis: usize| index::filter_index(taps[axis] as i64, self.filter[axis] as i64, self.flip) as usize;
        (at(0) * self.filter[1] + at(1)) * self.filter[2] + at(2)
    }
}
