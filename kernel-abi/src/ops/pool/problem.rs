//! The pooling problem and its text form.

use super::{PoolMode, PoolPass};
use crate::desc::{BadDescriptor, TensorDesc};
use crate::problem::{Operand, Problem, general_dtype, no_overlap, same_dtype};
use crate::text::{Fields, join};
use std::fmt;
use std::str::FromStr;

const OP: &str = "pool";

/// Mode, window, padding and stride of a pooling.
///
/// Lists hold one value for each spatial axis, outermost first (height, width), or a single value for all axes. They
/// are judged together with the tensors, when a problem is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolDesc {
    mode: PoolMode,
    window: Vec<i64>,
    padding: Vec<i64>,
    padding_end: Option<Vec<i64>>,
    stride: Option<Vec<i64>>,
}

impl PoolDesc {
    /// A window of these extents without padding; windows stand side by side.
    pub fn new(mode: PoolMode, window: &[i64]) -> Self {
        PoolDesc { mode, window: window.to_vec(), padding: vec![0], padding_end: None, stride: None }
    }

    /// Sets the padding at the begin, and at the end too unless [`PoolDesc::padding_end`] says otherwise.
    pub fn padding(mut self, padding: &[i64]) -> Self {
        self.padding = padding.to_vec();
        self
    }

    /// Sets another padding at the end than at the begin.
    pub fn padding_end(mut self, padding_end: &[i64]) -> Self {
        self.padding_end = Some(padding_end.to_vec());
        self
    }

    /// Sets the stride; by default that of windows side by side.
    pub fn stride(mut self, stride: &[i64]) -> Self {
        self.stride = Some(stride.to_vec());
        self
    }

    /// Extents of y for the given x.
    ///
    /// # Errors
    /// `BadDescriptor` naming the argument: a rank outside 3..=5, a list of another length than the number of spatial
    /// axes, a window or stride below 1, negative padding or padding not below the window, or a window larger than the
    /// padded image.
    pub fn output_dims(&self, x: &TensorDesc) -> Result<Vec<i64>, BadDescriptor> {
        self.resolve("x", x).map(|(_, dims)| dims)
    }

    fn resolve(&self, x_name: &str, x: &TensorDesc) -> Result<(Vec<Axis>, Vec<i64>), BadDescriptor> {
        let bad = |argument: &str, reason: String| Err(BadDescriptor::new(OP, argument, reason));
        if !(3..=5).contains(&x.rank()) {
            return bad(x_name, format!("expected a rank of 3 to 5, [N, C, spatial...], given {}", x.rank()));
        }
        let n_axes = x.rank() - 2;
        let stride = self.stride.as_ref().unwrap_or(&self.window);
        let padding_end = self.padding_end.as_ref().unwrap_or(&self.padding);
        let mut axes = Vec::new();
        let mut dims = x.dims()[..2].to_vec();
        for i in 0..n_axes {
            let value = |name: &str, list: &[i64], least: i64| {
                if list.len() != 1 && list.len() != n_axes {
                    let reason = format!("expected 1 or {n_axes} values, given {}", list.len());
                    return Err(BadDescriptor::new(OP, name, reason));
                }
                let value = if list.len() == 1 { list[0] } else { list[i] };
                if value < least {
                    let reason = format!("expected at least {least}, given {value} for axis {i}");
                    return Err(BadDescriptor::new(OP, name, reason));
                }
                Ok(value)
            };
            let axis = Axis {
                window: value("window", &self.window, 1)?,
                padding: value("pad", &self.padding, 0)?,
                padding_end: value("pad_end", padding_end, 0)?,
                stride: value("stride", stride, 1)?,
            };
            for (name, padding) in [("pad", axis.padding), ("pad_end", axis.padding_end)] {
                if padding >= axis.window {
                    let window = axis.window;
                    return bad(name, format!("expected less than the window, {window}, given {padding} for axis {i}"));
                }
            }
            let image = x.dims()[2 + i];
            // Padding is below the window, so a sum that overflows means a window that no image has.
            let padded = image.checked_add(axis.padding).and_then(|sum| sum.checked_add(axis.padding_end));
            match padded {
                Some(padded) if axis.window <= padded => dims.push((padded - axis.window) / axis.stride + 1),
                _ => {
                    let window = axis.window;
                    let reason =
                        format!("expected at most the padded image, {image} and padding, given {window} for axis {i}");
                    return bad("window", reason);
                }
            }
            axes.push(axis);
        }
        Ok((axes, dims))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Axis {
    window: i64,
    padding: i64,
    padding_end: i64,
    stride: i64,
}

/// One pass of a pooling. See the [module](super) for the formula.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PoolProblem {
    pass: PoolPass,
    mode: PoolMode,
    axes: Vec<Axis>,
    /// x; the image's extents also where it is no operand.
    x: TensorDesc,
    /// y, or dy.
    y: TensorDesc,
    /// dx, backward only.
    dx: Option<TensorDesc>,
}

/// All extents with three spatial axes, in the order depth, height, width. An absent axis has extent, window and
/// stride 1 and no padding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolShape {
    /// N.
    pub n: i64,
    /// C.
    pub c: i64,
    /// D, H, W.
    pub image: [i64; 3],
    /// Z, P, Q.
    pub output: [i64; 3],
    /// T, R, S.
    pub window: [i64; 3],
    /// Padding at the begin.
    pub padding: [i64; 3],
    /// Stride.
    pub stride: [i64; 3],
}

impl PoolProblem {
    /// `y = alpha · pool(x) + beta · y`.
    ///
    /// # Errors
    /// `BadDescriptor` as [`PoolDesc::output_dims`]; also when `y` has other extents than those, the element types
    /// differ, or `y` overlaps itself.
    pub fn forward(desc: &PoolDesc, x: &TensorDesc, y: &TensorDesc) -> Result<Self, BadDescriptor> {
        Self::new(desc, x, ("y", y), None)
    }

    /// `dx = alpha · (gradient of Σ dy · pool(x) by x) + beta · dx`.
    ///
    /// For averages `x` is no operand of a run; its extents are those of `dx`.
    ///
    /// # Errors
    /// As [`PoolProblem::forward`], for `dy` and `dx`.
    pub fn backward(desc: &PoolDesc, x: &TensorDesc, dy: &TensorDesc, dx: &TensorDesc) -> Result<Self, BadDescriptor> {
        Self::new(desc, x, ("dy", dy), Some(dx))
    }

    fn new(
        desc: &PoolDesc,
        x: &TensorDesc,
        (y_name, y): (&str, &TensorDesc),
        dx: Option<&TensorDesc>,
    ) -> Result<Self, BadDescriptor> {
        let (axes, dims) = desc.resolve("x", x)?;
        if y.dims() != dims {
            let reason = format!("expected the extents {} that x gives, given {}", join(&dims), join(y.dims()));
            return Err(BadDescriptor::new(OP, y_name, reason));
        }
        general_dtype(OP, "x", x)?;
        same_dtype(OP, y_name, y, "x", x)?;
        match dx {
            Some(dx) => {
                crate::problem::same_dims(OP, "dx", dx, "x", x)?;
                same_dtype(OP, "dx", dx, "x", x)?;
                no_overlap(OP, "dx", dx)?;
            }
            None => no_overlap(OP, "y", y)?,
        }
        let pass = if dx.is_some() { PoolPass::Backward } else { PoolPass::Forward };
        // Averages do not read x backward: only its extents count, and those are dx's.
        let x = match dx {
            Some(dx) if desc.mode != PoolMode::Max => dx,
            _ => x,
        };
        Ok(PoolProblem { pass, mode: desc.mode, axes, x: *x, y: *y, dx: dx.copied() })
    }

    /// Which pass.
    pub fn pool_pass(&self) -> PoolPass {
        self.pass
    }

    /// The mode.
    pub fn mode(&self) -> PoolMode {
        self.mode
    }

    /// x; for averages' backward pass the same as dx.
    pub fn x(&self) -> &TensorDesc {
        &self.x
    }

    /// y, or dy.
    pub fn y(&self) -> &TensorDesc {
        &self.y
    }

    /// dx, backward only.
    pub fn dx(&self) -> Option<&TensorDesc> {
        self.dx.as_ref()
    }

    /// Whether x is an operand.
    pub fn reads_x(&self) -> bool {
        self.pass == PoolPass::Forward || self.mode == PoolMode::Max
    }

    /// All extents, with three spatial axes.
    pub fn shape(&self) -> PoolShape {
        let absent = 3 - self.axes.len();
        let spatial =
            |desc: &TensorDesc| std::array::from_fn(|i| if i < absent { 1 } else { desc.dims()[2 + i - absent] });
        let axis = |value: fn(&Axis) -> i64, none: i64| {
            std::array::from_fn(|i| if i < absent { none } else { value(&self.axes[i - absent]) })
        };
        PoolShape {
            n: self.x.dims()[0],
            c: self.x.dims()[1],
            image: spatial(&self.x),
            output: spatial(&self.y),
            window: axis(|axis| axis.window, 1),
            padding: axis(|axis| axis.padding, 0),
            stride: axis(|axis| axis.stride, 1),
        }
    }

    fn window_elems(&self) -> f64 {
        self.axes.iter().map(|axis| axis.window as f64).product()
    }
}

impl Problem for PoolProblem {
    const OP: &'static str = OP;

    fn pass(&self) -> &'static str {
        self.pass.name()
    }

    fn operands(&self) -> Vec<Operand> {
        let mut operands = Vec::new();
        if self.reads_x() {
            operands.push(Operand::input("x", self.x));
        }
        match self.dx {
            None => operands.push(Operand::output("y", self.y)),
            Some(dx) => operands.extend([Operand::input("dy", self.y), Operand::output("dx", dx)]),
        }
        operands
    }

    fn flops(&self) -> f64 {
        self.y.n_elems() as f64 * self.window_elems()
    }

    fn accumulation_length(&self) -> f64 {
        self.window_elems()
    }
}

impl fmt::Display for PoolProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |value: fn(&Axis) -> i64| join(&self.axes.iter().map(value).collect::<Vec<_>>());
        write!(f, "{OP}:{} mode={} window={}", self.pass, self.mode, list(|axis| axis.window))?;
        write!(f, " pad={}", list(|axis| axis.padding))?;
        if self.axes.iter().any(|axis| axis.padding_end != axis.padding) {
            write!(f, " pad_end={}", list(|axis| axis.padding_end))?;
        }
        write!(f, " stride={}", list(|axis| axis.stride))?;
        crate::problem::write_operands(f, self)
    }
}

impl FromStr for PoolProblem {
    type Err = BadDescriptor;

    /// Left-out keys have [`PoolDesc`]'s defaults; a left-out `y` (`dy`) is packed, a left-out `dx` is like `x`.
    fn from_str(text: &str) -> Result<Self, BadDescriptor> {
        let mut fields = Fields::parse(OP, text)?;
        let pass: PoolPass = fields.parse_pass()?;
        let mode = fields.take("mode")?;
        let window = fields.take_numbers("window")?.unwrap_or_else(|| vec![1]);
        let mut desc = PoolDesc::new(mode, &window);
        if let Some(padding) = fields.take_numbers("pad")? {
            desc = desc.padding(&padding);
        }
        if let Some(padding_end) = fields.take_numbers("pad_end")? {
            desc = desc.padding_end(&padding_end);
        }
        if let Some(stride) = fields.take_numbers("stride")? {
            desc = desc.stride(&stride);
        }
        let x: Option<TensorDesc> = fields.take_optional("x")?;
        let dx = if pass == PoolPass::Backward { fields.take_optional("dx")? } else { None };
        let Some(image) = x.or(dx) else {
            return Err(BadDescriptor::new(OP, "x", "expected x=…, given nothing"));
        };
        let y_name = if pass == PoolPass::Forward { "y" } else { "dy" };
        let y = match fields.take_optional(y_name)? {
            Some(y) => y,
            None => TensorDesc::packed(image.dtype(), &desc.output_dims(&image)?)?,
        };
        fields.finish()?;
        match pass {
            PoolPass::Forward => Self::forward(&desc, &image, &y),
            PoolPass::Backward => Self::backward(&desc, &image, &y, &dx.unwrap_or(image)),
        }
    }
}
