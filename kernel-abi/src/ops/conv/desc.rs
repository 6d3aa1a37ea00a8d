//! What a caller says about a convolution besides its tensors, and the rules for their extents.

use super::{ConvMode, index};
use crate::Math;
use crate::desc::{BadDescriptor, TensorDesc};
use crate::text::join;

pub(super) const OP: &str = "conv";

/// Padding, stride, dilation, groups, mode and math of a convolution.
///
/// Lists hold one value for each spatial axis, outermost first (height, width), or a single value for all axes. They
/// are judged together with the tensors, when a problem is made.
///
/// ```
/// use kernel_abi::ops::conv::ConvDesc;
/// use kernel_abi::{DType, TensorDesc};
///
/// let x = TensorDesc::nhwc(DType::F16, 2, 16, 7, 7)?;
/// let w = TensorDesc::nhwc(DType::F16, 32, 16, 3, 3)?;
/// let desc = ConvDesc::new().padding(&[1]).stride(&[2, 1]);
/// assert_eq!(desc.output_dims(&x, &w)?, [2, 32, 4, 7]);
/// # Ok::<(), kernel_abi::BadDescriptor>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConvDesc {
    padding: Vec<i64>,
    padding_end: Option<Vec<i64>>,
    stride: Vec<i64>,
    dilation: Vec<i64>,
    groups: i64,
    mode: ConvMode,
    math: Math,
}

/// One spatial axis of a convolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ConvAxis {
    /// Zeros before the input's begin.
    pub padding: i64,
    /// Zeros behind the input's end.
    pub padding_end: i64,
    /// Distance of neighbouring windows.
    pub stride: i64,
    /// Distance of neighbouring filter elements.
    pub dilation: i64,
}

impl Default for ConvDesc {
    fn default() -> Self {
        ConvDesc {
            padding: vec![0],
            padding_end: None,
            stride: vec![1],
            dilation: vec![1],
            groups: 1,
            mode: ConvMode::default(),
            math: Math::default(),
        }
    }
}

impl ConvDesc {
    /// No padding, stride 1, dilation 1, one group, cross-correlation, full math.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the padding at the begin, and at the end too unless [`ConvDesc::padding_end`] says otherwise.
    pub fn padding(mut self, padding: &[i64]) -> Self {
        self.padding = padding.to_vec();
        self
    }

    /// Sets another padding at the end than at the begin.
    pub fn padding_end(mut self, padding_end: &[i64]) -> Self {
        self.padding_end = Some(padding_end.to_vec());
        self
    }

    /// Sets the stride.
    pub fn stride(mut self, stride: &[i64]) -> Self {
        self.stride = stride.to_vec();
        self
    }

    /// Sets the dilation.
    pub fn dilation(mut self, dilation: &[i64]) -> Self {
        self.dilation = dilation.to_vec();
        self
    }

    /// Sets the number of groups: channels are cut into so many parts that do not see each other.
    pub fn groups(mut self, groups: i64) -> Self {
        self.groups = groups;
        self
    }

    /// Sets the mode.
    pub fn mode(mut self, mode: ConvMode) -> Self {
        self.mode = mode;
        self
    }

    /// Sets how exactly `f32` operands are multiplied.
    pub fn math(mut self, math: Math) -> Self {
        self.math = math;
        self
    }

    /// Extents of y for the given x and w.
    ///
    /// # Errors
    /// `BadDescriptor` naming the argument: a rank outside 3..=5, ranks that differ, a list of another length than
    /// the number of spatial axes, negative padding, stride, dilation or groups below 1, channels of x that are not
    /// those of w times groups, output channels that groups does not divide, or a filter larger than the padded input.
    pub fn output_dims(&self, x: &TensorDesc, w: &TensorDesc) -> Result<Vec<i64>, BadDescriptor> {
        self.resolve(("x", x), ("w", w)).map(|(_, dims)| dims)
    }

    pub(super) fn n_groups(&self) -> i64 {
        self.groups
    }

    pub(super) fn conv_math(&self) -> Math {
        self.math
    }

    pub(super) fn conv_mode(&self) -> ConvMode {
        self.mode
    }

    /// The axes and the output's extents, everything judged that does not concern the output.
    pub(super) fn resolve(
        &self,
        (x_name, x): (&str, &TensorDesc),
        (w_name, w): (&str, &TensorDesc),
    ) -> Result<(Vec<ConvAxis>, Vec<i64>), BadDescriptor> {
        let bad = |argument: &str, reason: String| Err(BadDescriptor::new(OP, argument, reason));
        if !(3..=5).contains(&x.rank()) {
            return bad(x_name, format!("expected 3 to 5 dimensions [N, C, spatial...], given {}", x.rank()));
        }
        if w.rank() != x.rank() {
            return bad(w_name, format!("expected the {} dimensions of {x_name}, given {}", x.rank(), w.rank()));
        }
        if self.groups < 1 {
            return bad("groups", format!("expected at least 1, given {}", self.groups));
        }
        let (c, k, group_c) = (x.dims()[1], w.dims()[0], w.dims()[1]);
        if group_c.checked_mul(self.groups) != Some(c) {
            let reason = format!(
                "expected the {c} channels of {x_name} to be {} groups of the filter's, given {group_c}",
                self.groups
            );
            return bad(w_name, reason);
        }
        if k % self.groups != 0 {
            return bad(w_name, format!("expected output channels divisible by {} groups, given {k}", self.groups));
        }
        let axes = self.axes(x.rank() - 2)?;
        let mut dims = vec![x.dims()[0], k];
        for (i, axis) in axes.iter().enumerate() {
            let (input, filter) = (x.dims()[2 + i], w.dims()[2 + i]);
            let ConvAxis { padding, padding_end, stride, dilation } = *axis;
            let sizes = index::padded_extent(input, padding, padding_end).zip(index::window_extent(filter, dilation));
            if sizes.is_none() {
                let reason = format!(
                    "expected sizes below 2^63 in axis {i}, given input {input} with padding {padding} and \
                     {padding_end}, filter {filter} with dilation {dilation}"
                );
                return bad("pad, dil", reason);
            }
            let Some(extent) = index::output_extent(input, filter, padding, padding_end, stride, dilation) else {
                let reason = format!(
                    "expected a filter no larger than the padded input in axis {i}, given {filter} with dilation \
                     {dilation} on {input} with padding {padding} and {padding_end}"
                );
                return bad(w_name, reason);
            };
            dims.push(extent);
        }
        Ok((axes, dims))
    }

    fn axes(&self, n_axes: usize) -> Result<Vec<ConvAxis>, BadDescriptor> {
        let padding_end = self.padding_end.as_ref().unwrap_or(&self.padding);
        let pad = spread("pad", &self.padding, n_axes, 0)?;
        let pad_end = spread("pad_end", padding_end, n_axes, 0)?;
        let stride = spread("stride", &self.stride, n_axes, 1)?;
        let dilation = spread("dil", &self.dilation, n_axes, 1)?;
        let axis =
            |i: usize| ConvAxis { padding: pad[i], padding_end: pad_end[i], stride: stride[i], dilation: dilation[i] };
        Ok((0..n_axes).map(axis).collect())
    }
}

/// One value for each axis, each at least `least`.
fn spread(name: &str, values: &[i64], n_axes: usize, least: i64) -> Result<Vec<i64>, BadDescriptor> {
    let values = match *values {
        [value] => vec![value; n_axes],
        _ if values.len() == n_axes => values.to_vec(),
        _ => {
            let reason = format!("expected {n_axes} values, one a spatial axis, given {}", values.len());
            return Err(BadDescriptor::new(OP, name, reason));
        }
    };
    if values.iter().any(|&value| value < least) {
        let reason = format!("expected at least {least} in every axis, given {}", join(&values));
        return Err(BadDescriptor::new(OP, name, reason));
    }
    Ok(values)
}
