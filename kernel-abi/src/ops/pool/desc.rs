//! What a pooling is apart from its tensors.

use super::{IndexBase, PoolAxis, PoolMode, PoolNan};
use crate::DType;
use crate::desc::{BadDescriptor, TensorDesc};
use crate::problem::{Coefficient, same_dims};
use crate::text::{Fields, join};
use std::fmt;

const OP: &str = "pool";

/// Mode, windows, padding, stride and dilation of a pooling, or its bins.
///
/// Lists hold one value for each spatial axis, outermost first (height, width), or a single value for all axes. They
/// are judged together with the tensors, when a problem is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolDesc {
    pub(in crate::ops) mode: PoolMode,
    pub(super) exponent: Coefficient,
    pub(super) nan: PoolNan,
    pub(in crate::ops) base: IndexBase,
    windows: Windows,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Windows {
    Sliding {
        window: Vec<i64>,
        padding: Vec<i64>,
        padding_end: Option<Vec<i64>>,
        stride: Option<Vec<i64>>,
        dilation: Vec<i64>,
        ceil: bool,
    },
    Bins(Vec<i64>),
}

impl PoolDesc {
    /// A window of these extents without padding; windows stand side by side.
    pub fn new(mode: PoolMode, window: &[i64]) -> Self {
        Self::with_windows(
            mode,
            Windows::Sliding {
                window: window.to_vec(),
                padding: vec![0],
                padding_end: None,
                stride: None,
                dilation: vec![1],
                ceil: false,
            },
        )
    }

    /// As many bins as said, which share the image out.
    pub fn adaptive(mode: PoolMode, bins: &[i64]) -> Self {
        Self::with_windows(mode, Windows::Bins(bins.to_vec()))
    }

    /// One bin: the whole image.
    pub fn global(mode: PoolMode) -> Self {
        Self::adaptive(mode, &[1])
    }

    fn with_windows(mode: PoolMode, windows: Windows) -> Self {
        PoolDesc { mode, exponent: Coefficient::new(2.0), nan: PoolNan::Propagate, base: IndexBase::Plane, windows }
    }

    /// Sets the exponent of [`PoolMode::Lp`], which is 2 otherwise.
    pub fn exponent(mut self, p: f64) -> Self {
        self.exponent = Coefficient::new(p);
        self
    }

    /// Sets what a NaN counts as in a maximum.
    pub fn nan(mut self, nan: PoolNan) -> Self {
        self.nan = nan;
        self
    }

    /// Sets where the numbers of `index` begin.
    pub fn index_base(mut self, base: IndexBase) -> Self {
        self.base = base;
        self
    }

    /// Sets the padding at the begin, and at the end too unless [`PoolDesc::padding_end`] says otherwise. Bins have none.
    pub fn padding(mut self, value: &[i64]) -> Self {
        if let Windows::Sliding { padding, .. } = &mut self.windows {
            *padding = value.to_vec();
        }
        self
    }

    /// Sets another padding at the end than at the begin.
    pub fn padding_end(mut self, value: &[i64]) -> Self {
        if let Windows::Sliding { padding_end, .. } = &mut self.windows {
            *padding_end = Some(value.to_vec());
        }
        self
    }

    /// Sets the stride; by default that of windows side by side.
    pub fn stride(mut self, value: &[i64]) -> Self {
        if let Windows::Sliding { stride, .. } = &mut self.windows {
            *stride = Some(value.to_vec());
        }
        self
    }

    /// Sets the distance of neighbours in a window, which is 1 otherwise.
    pub fn dilation(mut self, value: &[i64]) -> Self {
        if let Windows::Sliding { dilation, .. } = &mut self.windows {
            *dilation = value.to_vec();
        }
        self
    }

    /// Rounds output extents up: a last window may reach beyond the padding, but not begin in it.
    pub fn ceil(mut self) -> Self {
        if let Windows::Sliding { ceil, .. } = &mut self.windows {
            *ceil = true;
        }
        self
    }

    /// Extents of y for the given x.
    ///
    /// # Errors
    /// `BadDescriptor` naming the argument: a rank outside 3..=5, a list of another length than the number of spatial
    /// axes, a window, stride, dilation or number of bins below 1, negative padding or padding not below the window, a
    /// window larger than the padded image, or one that holds nothing of the image.
    pub fn output_dims(&self, x: &TensorDesc) -> Result<Vec<i64>, BadDescriptor> {
        let axes = self.resolve(x)?;
        Ok(x.dims()[..2].iter().copied().chain(axes.iter().map(|axis| axis.output)).collect())
    }

    /// Extents of the smallest x whose y has these: what max unpooling gives unless it is told otherwise. Bins have as
    /// many elements as they are.
    pub fn unpooled_dims(&self, y: &TensorDesc) -> Vec<i64> {
        let mut dims = y.dims().to_vec();
        if let Windows::Sliding { window, padding, padding_end, stride, dilation, .. } = &self.windows {
            let n_axes = dims.len().saturating_sub(2);
            for i in 0..n_axes {
                // Lists of another length are refused by the problem's own checks.
                let value = |list: &[i64]| if list.len() == n_axes { list[i] } else { *list.first().unwrap_or(&1) };
                let end = padding_end.as_ref().unwrap_or(padding);
                let reach = value(window).saturating_sub(1).saturating_mul(value(dilation)).saturating_add(1);
                let strides = (dims[2 + i] - 1).saturating_mul(value(stride.as_ref().unwrap_or(window)));
                dims[2 + i] = strides.saturating_add(reach).saturating_sub(value(padding)).saturating_sub(value(end));
            }
        }
        dims
    }

    /// Reads windows or bins from a problem's text.
    pub(in crate::ops) fn parse_windows(mode: PoolMode, fields: &mut Fields<'_>) -> Result<Self, BadDescriptor> {
        let window = fields.take_numbers("window")?;
        if let Some(bins) = fields.take_numbers("bins")? {
            if window.is_some() {
                return Err(BadDescriptor::new(OP, "bins", "expected a window or bins, given both"));
            }
            return Ok(PoolDesc::adaptive(mode, &bins));
        }
        let mut desc = PoolDesc::new(mode, &window.unwrap_or_else(|| vec![1]));
        if let Some(padding) = fields.take_numbers("pad")? {
            desc = desc.padding(&padding);
        }
        if let Some(padding_end) = fields.take_numbers("pad_end")? {
            desc = desc.padding_end(&padding_end);
        }
        if let Some(stride) = fields.take_numbers("stride")? {
            desc = desc.stride(&stride);
        }
        if let Some(dilation) = fields.take_numbers("dil")? {
            desc = desc.dilation(&dilation);
        }
        Ok(if fields.take_switch("ceil")? { desc.ceil() } else { desc })
    }

    /// The axes for the given x.
    pub(in crate::ops) fn resolve(&self, x: &TensorDesc) -> Result<Vec<PoolAxis>, BadDescriptor> {
        if !(3..=5).contains(&x.rank()) {
            let reason = format!("expected a rank of 3 to 5, [N, C, spatial...], given {}", x.rank());
            return Err(BadDescriptor::new(OP, "x", reason));
        }
        (0..x.rank() - 2).map(|i| self.axis(i, x)).collect()
    }

    fn axis(&self, i: usize, x: &TensorDesc) -> Result<PoolAxis, BadDescriptor> {
        let (n_axes, image) = (x.rank() - 2, x.dims()[2 + i]);
        let value = |name: &str, list: &[i64], least: i64| {
            if list.len() != 1 && list.len() != n_axes {
                let reason = format!("expected 1 or {n_axes} values, given {}", list.len());
                return Err(BadDescriptor::new(OP, name, reason));
            }
            let value = if list.len() == 1 { list[0] } else { list[i] };
            if !(least..=MAX_VALUE).contains(&value) {
                let reason = format!("expected at least {least} and at most {MAX_VALUE}, given {value} for axis {i}");
                return Err(BadDescriptor::new(OP, name, reason));
            }
            Ok(value)
        };
        match &self.windows {
            Windows::Bins(bins) => {
                let output = value("bins", bins, 1)?;
                // `output · image` is computed for every bin.
                if image > MAX_VALUE {
                    let reason = format!("expected an extent of at most {MAX_VALUE}, given {image} for axis {i}");
                    return Err(BadDescriptor::new(OP, "x", reason));
                }
                // Bins begin at every remainder of `output` that their common divisor divides.
                let window = 1 + (image - common_divisor(image, output) + output - 1) / output;
                Ok(PoolAxis { image, output, window, bins: 1, ..PoolAxis::ABSENT })
            }
            Windows::Sliding { window, padding, padding_end, stride, dilation, ceil } => sliding(
                i,
                PoolAxis {
                    image,
                    output: 0,
                    window: value("window", window, 1)?,
                    stride: value("stride", stride.as_ref().unwrap_or(window), 1)?,
                    dilation: value("dil", dilation, 1)?,
                    padding: value("pad", padding, 0)?,
                    padding_end: value("pad_end", padding_end.as_ref().unwrap_or(padding), 0)?,
                    bins: 0,
                },
                *ceil,
            ),
        }
    }
}

/// The largest extent of a window, stride, dilation, padding or number of bins: products of two fit 64 bits.
const MAX_VALUE: i64 = i32::MAX as i64;

/// Writes what [`PoolDesc::parse_windows`] reads.
pub(in crate::ops) fn write_windows(f: &mut fmt::Formatter<'_>, axes: &[PoolAxis]) -> fmt::Result {
    let list = |value: fn(&PoolAxis) -> i64| join(&axes.iter().map(value).collect::<Vec<_>>());
    if axes.iter().all(|axis| axis.bins != 0) {
        write!(f, " bins={}", list(|axis| axis.output))?;
    } else {
        write!(f, " window={} pad={}", list(|axis| axis.window), list(|axis| axis.padding))?;
        if axes.iter().any(|axis| axis.padding_end != axis.padding) {
            write!(f, " pad_end={}", list(|axis| axis.padding_end))?;
        }
        write!(f, " stride={}", list(|axis| axis.stride))?;
        if axes.iter().any(|axis| axis.dilation != 1) {
            write!(f, " dil={}", list(|axis| axis.dilation))?;
        }
        let floor = |axis: &PoolAxis| {
            let room = axis.image + axis.padding + axis.padding_end - (axis.window - 1) * axis.dilation - 1;
            room / axis.stride + 1
        };
        if axes.iter().any(|axis| axis.output > floor(axis)) {
            f.write_str(" ceil=1")?;
        }
    }
    Ok(())
}

/// Judges `index`, and whether it can number the places of x.
pub(in crate::ops) fn check_index(
    op: &'static str,
    base: IndexBase,
    x: &TensorDesc,
    (y_name, y): (&str, &TensorDesc),
    index: &TensorDesc,
) -> Result<(), BadDescriptor> {
    let bad = |reason: String| Err(BadDescriptor::new(op, "index", reason));
    same_dims(op, "index", index, y_name, y)?;
    let most = match index.dtype() {
        DType::I32 => i64::from(i32::MAX),
        DType::I64 => i64::MAX,
        other => return bad(format!("expected the element type i32 or i64, given {other}")),
    };
    let places = match base {
        IndexBase::Plane => x.dims()[2..].iter().product::<i64>(),
        IndexBase::Tensor => x.n_elems(),
    };
    if places - 1 > most {
        return bad(format!(
            "expected a type with numbers up to {}, given {}, up to {most}",
            places - 1,
            index.dtype()
        ));
    }
    Ok(())
}

fn common_divisor(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { common_divisor(b, a % b) }
}

/// The axis with its output extent.
fn sliding(i: usize, axis: PoolAxis, ceil: bool) -> Result<PoolAxis, BadDescriptor> {
    let bad = |argument: &str, reason: String| Err(BadDescriptor::new(OP, argument, reason));
    let PoolAxis { image, window, stride, dilation, padding, padding_end, .. } = axis;
    let reach = (window - 1) * dilation + 1;
    for (name, padding) in [("pad", padding), ("pad_end", padding_end)] {
        if padding >= reach {
            return bad(name, format!("expected less than the window, {reach}, given {padding} for axis {i}"));
        }
    }
    // Each term but the image is below 2^62, so a sum that overflows means an image that no memory holds.
    let Some(room) = image.checked_add(padding + padding_end).map(|padded| padded - reach).filter(|&room| room >= 0)
    else {
        let reason = format!("expected at most the padded image, {image} and padding, given {reach} for axis {i}");
        return bad("window", reason);
    };
    let mut output = room / stride + 1;
    if ceil && room % stride != 0 && output * stride < image + padding {
        output += 1;
    }
    let axis = PoolAxis { output, ..axis };
    // Windows from the padding on whose taps step over a small image; their places repeat with the dilation.
    let from_padding = (padding + stride - 1) / stride;
    for o in 0..if dilation > image { from_padding.min(dilation).min(output) } else { 0 } {
        if axis.inside(o) <= 0 {
            let reason =
                format!("expected windows that hold some of the image, given one that does not, {o} of axis {i}");
            return bad("window", reason);
        }
    }
    Ok(axis)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(desc: &PoolDesc, x: &str) -> Result<Vec<i64>, String> {
        desc.output_dims(&x.parse().unwrap()).map(|dims| dims[2..].to_vec()).map_err(|e| e.to_string())
    }

    /// Expected extents are those of PyTorch's `max_pool2d` and of the node tests of ONNX.
    #[test]
    fn output_extents() {
        let max = |window: i64| PoolDesc::new(PoolMode::Max, &[window]);
        for (desc, x, expected) in [
            (max(3).stride(&[2]), 5, 2),
            (max(3).stride(&[2]).ceil(), 4, 2),
            (max(1).stride(&[2]).ceil(), 2, 1),
            (max(3).stride(&[3]).padding(&[1]).ceil(), 2, 1),
            (max(5).stride(&[3]).dilation(&[2]).ceil(), 32, 9),
            (max(5).stride(&[3]).dilation(&[2]), 32, 8),
            (max(2).stride(&[1]).dilation(&[2]), 4, 2),
            (max(2).stride(&[2]).padding(&[0]).padding_end(&[1]), 5, 3),
        ] {
            assert_eq!(output(&desc, &format!("1x1x{x}:f32")), Ok(vec![expected]), "{desc:?} of {x}");
        }
        assert_eq!(output(&PoolDesc::adaptive(PoolMode::Max, &[3, 7]), "2x3x5x5:f32"), Ok(vec![3, 7]));
        assert_eq!(output(&PoolDesc::global(PoolMode::Max), "2x3x5x5x5:f32"), Ok(vec![1, 1, 1]));
    }

    #[test]
    fn the_largest_bin() {
        for (image, bins) in [(7, 3), (8, 3), (10, 4), (3, 7), (6, 3), (1, 1), (5, 4)] {
            let desc = PoolDesc::adaptive(PoolMode::Max, &[bins]);
            let axis = desc.resolve(&format!("1x1x{image}:f32").parse().unwrap()).unwrap()[0];
            assert_eq!((0..bins).map(|o| axis.inside(o)).max(), Some(axis.window), "{image} in {bins}");
        }
    }

    #[test]
    fn windows_without_image_are_refused() {
        let desc = PoolDesc::new(PoolMode::Max, &[2]).stride(&[1]).dilation(&[4]).padding(&[2]);
        assert!(output(&desc, "1x1x1:f32").unwrap_err().contains("hold some of the image"));
        assert_eq!(output(&desc.padding(&[4]), "1x1x1:f32").map_err(|e| e.contains("hold some")), Err(true));
        let huge = PoolDesc::new(PoolMode::Max, &[1 << 40]);
        assert!(output(&huge, "1x1x1:f32").unwrap_err().contains("at most"));
    }
}
