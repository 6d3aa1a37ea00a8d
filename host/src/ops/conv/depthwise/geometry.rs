//! Which problems are depthwise, and their numbers as the kernels take them.

use crate::DType;
use crate::launch::spatial_param;
use crate::ops::conv::{ConvMode, ConvPass, ConvProblem};
use crate::select::Refusal;
use kernel_abi::TensorParam;
use kernel_abi::ops::conv::{DepthwiseParams, LOOPED_MAX_FILTER};

/// The largest position, its padding counted, that the kernels reckon with in 32 bits.
const MAX_POSITION: i64 = 1 << 30;

/// What a kernel does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::ops::conv) enum Action {
    /// Each target row takes its source rows.
    Gather,
    /// Each source row gives to its target rows.
    Spread,
    /// The gradient of the taps.
    Wgrad,
}

/// The action that a kernel list names.
macro_rules! action {
    (gather) => {
        $crate::ops::conv::depthwise::Action::Gather
    };
    (spread) => {
        $crate::ops::conv::depthwise::Action::Spread
    };
    (wgrad) => {
        $crate::ops::conv::depthwise::Action::Wgrad
    };
}
pub(in crate::ops::conv) use action;

/// A depthwise problem over two tensors of one layout.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::ops::conv) struct Geometry {
    pub(in crate::ops::conv) pass: ConvPass,
    pub(in crate::ops::conv) dtype: DType,
    pub(in crate::ops::conv) channels_last: bool,
    /// R, S.
    pub(in crate::ops::conv) filter: [i32; 2],
    /// That of the convolution; 1 where an axis has a single output.
    pub(in crate::ops::conv) stride: [i32; 2],
    /// 1 where an axis has a single tap.
    pub(in crate::ops::conv) dilation: [i32; 2],
    padding: [i32; 2],
    flip: bool,
    n: i64,
    c: i32,
    /// H, W.
    image: [i32; 2],
    /// P, Q.
    output: [i32; 2],
    w_strides: [i64; 3],
}

impl Geometry {
    /// Judges the problem.
    pub(in crate::ops::conv) fn of(problem: &ConvProblem) -> Result<Self, Refusal> {
        let refuse = |reason: String| Err(Refusal::new(reason));
        let (shape, dtype) = (problem.shape(), problem.x().dtype());
        if !matches!(dtype, DType::F32 | DType::F16 | DType::BF16) {
            return refuse(format!("has kernels for f32, f16 and bf16, the element type is {dtype}"));
        }
        if problem.x().rank() > 4 {
            return refuse(format!("takes 1 or 2 spatial axes, given {}", problem.x().rank() - 2));
        }
        if shape.groups != shape.c || shape.k != shape.c {
            return refuse(format!(
                "takes as many groups and output channels as input channels, given {} groups of {} channels to {}",
                shape.groups, shape.c, shape.k
            ));
        }
        let layout = Layout::of(problem.x()).both(Layout::of(problem.y()));
        let Some(channels_last) = layout.channels_last() else {
            return refuse(format!(
                "takes images that are both channels-last or both packed, given {} and {}",
                problem.x(),
                problem.y()
            ));
        };
        let plane = |dims: [i64; 3]| [dims[1], dims[2]];
        let (image, output, filter) = (plane(shape.image), plane(shape.output), plane(shape.filter));
        if let Some(extent) = filter.into_iter().find(|&extent| extent > i64::from(LOOPED_MAX_FILTER)) {
            return refuse(format!("takes filters of an extent up to {LOOPED_MAX_FILTER}, given {extent}"));
        }
        for (name, dims) in [("source", image), ("output", output)] {
            let elems = dims.iter().try_fold(shape.c, |product, &extent| product.checked_mul(extent));
            if elems.is_none_or(|elems| elems > i64::from(i32::MAX)) {
                let [h, w] = dims;
                let c = shape.c;
                return refuse(format!("takes {name} images of up to {} elements, given {c}x{h}x{w}", i32::MAX));
            }
        }
        let mut this = Geometry {
            pass: problem.conv_pass(),
            dtype,
            channels_last,
            filter: filter.map(|extent| extent as i32),
            stride: [1; 2],
            dilation: [1; 2],
            padding: [0; 2],
            flip: problem.mode() == ConvMode::Convolution,
            n: shape.n,
            c: shape.c as i32,
            image: image.map(|extent| extent as i32),
            output: output.map(|extent| extent as i32),
            w_strides: {
                let TensorParam { strides, .. } = spatial_param(problem.w());
                [strides[0], strides[3], strides[4]]
            },
        };
        for i in 0..2 {
            let axis = shape.axes[1 + i];
            let padded = image[i].saturating_add(axis.padding).saturating_add(axis.padding_end);
            if padded > MAX_POSITION {
                return refuse(format!("takes padded images of an extent up to {MAX_POSITION}, given {padded}"));
            }
            // Within the padded image from here on, so that they fit.
            this.padding[i] = axis.padding as i32;
            this.stride[i] = if output[i] > 1 { axis.stride as i32 } else { 1 };
            this.dilation[i] = if filter[i] > 1 { axis.dilation as i32 } else { 1 };
        }
        Ok(this)
    }

    /// What the kernels without loops over taps do for it.
    pub(in crate::ops::conv) fn action(&self) -> Action {
        match self.pass {
            ConvPass::Fprop => Action::Gather,
            ConvPass::Dgrad if self.stride == [1; 2] => Action::Gather,
            ConvPass::Dgrad => Action::Spread,
            ConvPass::Wgrad => Action::Wgrad,
        }
    }

    /// The extent of the filter and the stride, where both axes have the same, the taps are neighbours, and offsets within
    /// an image fit 32 bits.
    pub(super) fn square(&self) -> Option<(i32, i32)> {
        let ([r, s], [stride, other]) = (self.filter, self.stride);
        let is_square = r == s && stride == other && self.dilation == [1; 2];
        (is_square && self.counts_bytes_in_32_bits()).then_some((r, stride))
    }

    /// Whether offsets within an image fit 32 bits in bytes too.
    pub(super) fn counts_bytes_in_32_bits(&self) -> bool {
        let bytes = |[h, w]: [i32; 2]| i64::from(h) * i64::from(w) * i64::from(self.c) * self.dtype.size_bytes() as i64;
        bytes(self.image).max(bytes(self.output)) <= i64::from(i32::MAX)
    }

    /// Bytes of both images.
    pub(super) fn image_bytes(&self) -> f64 {
        let elems = |[h, w]: [i32; 2]| f64::from(h) * f64::from(w);
        let size = self.dtype.size_bytes() as f64;
        self.n as f64 * f64::from(self.c) * (elems(self.image) + elems(self.output)) * size
    }

    /// The launch parameters, but for those that say how a kernel cuts the work.
    pub(in crate::ops::conv) fn params(&self) -> DepthwiseParams {
        let Geometry { filter, stride, dilation, padding, .. } = *self;
        let mut params = DepthwiseParams {
            source: 0,
            target: 0,
            w: 0,
            partials: 0,
            w_strides: self.w_strides,
            n: self.n,
            n_items: 0,
            c: self.c,
            source_dims: self.image,
            target_dims: self.output,
            filter,
            padding,
            stride,
            dilation,
            spread: [1; 2],
            flip: u32::from(self.flip),
            channel_run: 1,
            item_rows: 1,
            n_slabs: 1,
            divisors: Default::default(),
            alpha: 1.0,
            beta: 0.0,
        };
        if self.pass == ConvPass::Dgrad {
            // The convolution of dy, zeros put between its elements, with the filter turned around.
            params.source_dims = self.output;
            params.target_dims = self.image;
            params.padding = std::array::from_fn(|i| (filter[i] - 1) * dilation[i] - padding[i]);
            params.stride = [1; 2];
            params.spread = stride;
            params.flip = u32::from(!self.flip);
        }
        params
    }
}

/// What the strides of a tensor allow it to be called; a tensor can be both where extents are 1.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Layout {
    channels_last: bool,
    packed: bool,
}

impl Layout {
    fn of(desc: &crate::TensorDesc) -> Self {
        let param = spatial_param(desc);
        let [n, c, _, h, w] = [0, 1, 2, 3, 4].map(|i| param.dims[i]);
        let lies = |order: [(usize, i64); 4]| {
            let mut stride = 1i64;
            order.into_iter().all(|(i, extent)| {
                let fits = extent == 1 || param.strides[i] == stride;
                stride = stride.saturating_mul(extent);
                fits
            })
        };
        Layout { channels_last: lies([(1, c), (4, w), (3, h), (0, n)]), packed: lies([(4, w), (3, h), (1, c), (0, n)]) }
    }

    fn both(self, other: Self) -> Self {
        Layout { channels_last: self.channels_last && other.channels_last, packed: self.packed && other.packed }
    }

    /// Channels-last where both would do, unless there is only one channel.
    fn channels_last(self) -> Option<bool> {
        match (self.channels_last, self.packed) {
            (true, _) => Some(true),
            (false, true) => Some(false),
            (false, false) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Result<Geometry, String> {
        Geometry::of(&text.parse::<ConvProblem>().unwrap()).map_err(|Refusal(reason)| reason)
    }

    #[test]
    fn refusals_name_what_is_taken_and_given() {
        for (text, expected) in [
            ("groups=4 x=2x4x7x7:f64 w=4x1x3x3:f64", "the element type is f64"),
            ("groups=4 x=2x4x7x7x7:f32 w=4x1x3x3x3:f32", "1 or 2 spatial axes, given 3"),
            ("groups=4 x=2x4x7x7:f32 w=8x1x3x3:f32", "given 4 groups of 4 channels to 8"),
            ("groups=2 x=2x4x7x7:f32 w=4x2x3x3:f32", "given 2 groups of 4 channels to 4"),
            ("groups=4 x=2x4x7x7:f32 w=4x1x3x3:f32 y=2x4x5x5:f32:nhwc", "both channels-last or both packed"),
            ("groups=4 x=2x4x7x7:f32:s392x98x14x2 w=4x1x3x3:f32", "given 2x4x7x7:f32:s392x98x14x2"),
            ("groups=4 x=2x4x99x7:f32 w=4x1x65x3:f32", "an extent up to 64, given 65"),
            ("groups=2 x=1x2x32768x32769:f32 w=2x1x3x3:f32", "up to 2147483647 elements, given 2x32768x32769"),
            ("pad=1073741824 groups=2 stride=1073741824 x=1x2x7x7:f32 w=2x1x3x3:f32", "up to 1073741824, given"),
        ] {
            let reason = of(&format!("conv:fprop {text}")).unwrap_err();
            assert!(reason.contains(expected), "{text}: {reason}");
        }
    }

    #[test]
    fn layouts_are_known_by_their_strides() {
        for (text, channels_last) in [
            ("groups=4 x=2x4x7x7:f32 w=4x1x3x3:f32", false),
            ("groups=4 x=2x4x7x7:f32:nhwc w=4x1x3x3:f32", true),
            ("groups=4 x=2x4x9:f32 w=4x1x3:f32", false),
            // Where an extent is 1, its stride says nothing.
            ("groups=4 x=1x4x7x7:f32:s999x1x28x4 w=4x1x3x3:f32 y=1x4x5x5:f32:nhwc", true),
        ] {
            assert_eq!(of(&format!("conv:fprop {text}")).unwrap().channels_last, channels_last, "{text}");
        }
    }

    #[test]
    fn dgrad_is_a_convolution_with_the_filter_turned_around() {
        let geometry = of("conv:dgrad pad=1x0 stride=2x1 groups=4 dx=2x4x9x8:f32 w=4x1x3x3:f32").unwrap();
        let params = geometry.params();
        assert_eq!((params.source_dims, params.target_dims), ([5, 6], [9, 8]));
        assert_eq!((params.padding, params.stride, params.spread, params.flip), ([1, 2], [1; 2], [2, 1], 1));
    }
}
