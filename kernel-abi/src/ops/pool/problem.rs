//! The pooling problem and its text form.

use super::desc::{check_index, write_windows};
use super::{IndexBase, PoolAxis, PoolDesc, PoolMode, PoolNan, PoolPass};
use crate::desc::{BadDescriptor, TensorDesc};
use crate::problem::{Coefficient, Operand, Problem, general_dtype, no_overlap, same_dims, same_dtype};
use crate::text::{Fields, join};
use std::fmt;
use std::str::FromStr;

const OP: &str = "pool";

/// One pass of a pooling. See the [module](super) for the formula.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PoolProblem {
    pass: PoolPass,
    mode: PoolMode,
    /// What of these does not count for the mode and operands has its default.
    exponent: Coefficient,
    nan: PoolNan,
    base: IndexBase,
    axes: Vec<PoolAxis>,
    /// x; the image's extents also where it is no operand.
    x: TensorDesc,
    /// y, or dy.
    y: TensorDesc,
    /// dx, backward only.
    dx: Option<TensorDesc>,
    index: Option<TensorDesc>,
}

/// N, C and the spatial axes depth, height, width, absent ones included.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PoolShape {
    /// N.
    pub n: i64,
    /// C.
    pub c: i64,
    /// D, H, W.
    pub axes: [PoolAxis; 3],
}

impl PoolShape {
    /// The shape for an x and its spatial axes.
    pub(in crate::ops) fn new(x: &TensorDesc, axes: &[PoolAxis]) -> Self {
        let absent = 3 - axes.len();
        let axis = |i: usize| if i < absent { PoolAxis::ABSENT } else { axes[i - absent] };
        PoolShape { n: x.dims()[0], c: x.dims()[1], axes: std::array::from_fn(axis) }
    }
}

impl PoolProblem {
    /// `y = alpha · pool(x) + beta · y`.
    ///
    /// # Errors
    /// `BadDescriptor` as [`PoolDesc::output_dims`]; also when `y` has other extents than those, the element types
    /// differ, or `y` overlaps itself; for `lp`, when the exponent is no number of at least 1.
    pub fn forward(desc: &PoolDesc, x: &TensorDesc, y: &TensorDesc) -> Result<Self, BadDescriptor> {
        Self::new(desc, x, ("y", y), None, None)
    }

    /// The same, with the place of each maximum written to `index`.
    ///
    /// # Errors
    /// As [`PoolProblem::forward`]; also for another mode than `max`, an `index` that has other extents than `y`, overlaps
    /// itself or is neither i32 nor i64, or an image with more places than its type has numbers.
    pub fn forward_with_index(
        desc: &PoolDesc,
        x: &TensorDesc,
        y: &TensorDesc,
        index: &TensorDesc,
    ) -> Result<Self, BadDescriptor> {
        Self::new(desc, x, ("y", y), None, Some(index))
    }

    /// `dx = alpha · (gradient of Σ dy · pool(x) by x) + beta · dx`.
    ///
    /// For averages `x` is no operand of a run; its extents are those of `dx`.
    ///
    /// # Errors
    /// As [`PoolProblem::forward`], for `dy` and `dx`.
    pub fn backward(desc: &PoolDesc, x: &TensorDesc, dy: &TensorDesc, dx: &TensorDesc) -> Result<Self, BadDescriptor> {
        Self::new(desc, x, ("dy", dy), Some(dx), None)
    }

    /// The same for `max`, with the maxima where `index` says instead of looking for them in x.
    ///
    /// # Errors
    /// As [`PoolProblem::forward_with_index`], but that `index` may overlap itself.
    pub fn backward_from_index(
        desc: &PoolDesc,
        index: &TensorDesc,
        dy: &TensorDesc,
        dx: &TensorDesc,
    ) -> Result<Self, BadDescriptor> {
        Self::new(desc, dx, ("dy", dy), Some(dx), Some(index))
    }

    fn new(
        desc: &PoolDesc,
        x: &TensorDesc,
        (y_name, y): (&str, &TensorDesc),
        dx: Option<&TensorDesc>,
        index: Option<&TensorDesc>,
    ) -> Result<Self, BadDescriptor> {
        let axes = desc.resolve(x)?;
        let dims = desc.output_dims(x)?;
        if y.dims() != dims {
            let reason = format!("expected the extents {} that x gives, given {}", join(&dims), join(y.dims()));
            return Err(BadDescriptor::new(OP, y_name, reason));
        }
        general_dtype(OP, "x", x)?;
        same_dtype(OP, y_name, y, "x", x)?;
        match dx {
            Some(dx) => {
                same_dims(OP, "dx", dx, "x", x)?;
                same_dtype(OP, "dx", dx, "x", x)?;
                no_overlap(OP, "dx", dx)?;
            }
            None => no_overlap(OP, "y", y)?,
        }
        let p = desc.exponent.get();
        if desc.mode == PoolMode::Lp && !(p >= 1.0 && p.is_finite()) {
            return Err(BadDescriptor::new(OP, "p", format!("expected a finite exponent of at least 1, given {p}")));
        }
        if let Some(index) = index {
            if desc.mode != PoolMode::Max {
                let reason = format!("expected index with mode=max only, given {}", desc.mode);
                return Err(BadDescriptor::new(OP, "index", reason));
            }
            check_index(OP, desc.base, x, (y_name, y), index)?;
            if dx.is_none() {
                no_overlap(OP, "index", index)?;
            }
        }
        let is_max = desc.mode == PoolMode::Max;
        // Where x is not read only its extents count, and those are dx's.
        let reads_x = dx.is_none() || (matches!(desc.mode, PoolMode::Max | PoolMode::Lp) && index.is_none());
        Ok(PoolProblem {
            pass: if dx.is_some() { PoolPass::Backward } else { PoolPass::Forward },
            mode: desc.mode,
            exponent: if desc.mode == PoolMode::Lp { desc.exponent } else { Coefficient::new(2.0) },
            nan: if is_max && reads_x { desc.nan } else { PoolNan::Propagate },
            base: if index.is_some() { desc.base } else { IndexBase::Plane },
            axes,
            x: *dx.filter(|_| !reads_x).unwrap_or(x),
            y: *y,
            dx: dx.copied(),
            index: index.copied(),
        })
    }

    /// Which pass.
    pub fn pool_pass(&self) -> PoolPass {
        self.pass
    }

    /// The mode.
    pub fn mode(&self) -> PoolMode {
        self.mode
    }

    /// The exponent of `lp`.
    pub fn exponent(&self) -> f64 {
        self.exponent.get()
    }

    /// What a NaN counts as in a maximum.
    pub fn nan(&self) -> PoolNan {
        self.nan
    }

    /// Where the numbers of `index` begin.
    pub fn index_base(&self) -> IndexBase {
        self.base
    }

    /// x; where it is no operand the same as dx.
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

    /// index, where it is written or read.
    pub fn index(&self) -> Option<&TensorDesc> {
        self.index.as_ref()
    }

    /// Whether x is an operand.
    pub fn reads_x(&self) -> bool {
        self.pass == PoolPass::Forward || (matches!(self.mode, PoolMode::Max | PoolMode::Lp) && self.index.is_none())
    }

    /// N, C and the spatial axes.
    pub fn shape(&self) -> PoolShape {
        PoolShape::new(&self.x, &self.axes)
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
        match (self.dx, self.index) {
            (None, None) => operands.push(Operand::output("y", self.y)),
            (None, Some(index)) => {
                operands.extend([Operand::output("y", self.y), Operand::result("index", index)]);
            }
            (Some(dx), index) => {
                operands.extend(index.map(|index| Operand::input("index", index)));
                operands.extend([Operand::input("dy", self.y), Operand::output("dx", dx)]);
            }
        }
        operands
    }

    fn flops(&self) -> f64 {
        self.y.n_elems() as f64 * self.window_elems()
    }

    fn accumulation_length(&self) -> f64 {
        self.window_elems().max(self.axes.iter().map(|axis| axis.most_covering() as f64).product())
    }
}

impl fmt::Display for PoolProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{OP}:{} mode={}", self.pass, self.mode)?;
        if self.mode == PoolMode::Lp {
            write!(f, " p={}", self.exponent)?;
        }
        write_windows(f, &self.axes)?;
        if self.nan != PoolNan::Propagate {
            write!(f, " nan={}", self.nan)?;
        }
        if self.base != IndexBase::Plane {
            write!(f, " index_base={}", self.base)?;
        }
        crate::problem::write_operands(f, self)
    }
}

/// Reads what a pooling is apart from its tensors.
fn parse_desc(fields: &mut Fields<'_>) -> Result<PoolDesc, BadDescriptor> {
    let mode = fields.take("mode")?;
    let mut desc = PoolDesc::parse_windows(mode, fields)?;
    if let Some(p) = fields.take_optional("p")? {
        desc = desc.exponent(p);
    }
    if let Some(nan) = fields.take_optional("nan")? {
        desc = desc.nan(nan);
    }
    if let Some(base) = fields.take_optional("index_base")? {
        desc = desc.index_base(base);
    }
    Ok(desc)
}

impl FromStr for PoolProblem {
    type Err = BadDescriptor;

    /// Left-out keys have [`PoolDesc`]'s defaults; a left-out `y` (`dy`) is laid out like `x`
    /// (`dx`), a left-out `dx` is like `x`.
    fn from_str(text: &str) -> Result<Self, BadDescriptor> {
        let mut fields = Fields::parse(OP, text)?;
        let pass: PoolPass = fields.parse_pass()?;
        let desc = parse_desc(&mut fields)?;
        let x: Option<TensorDesc> = fields.take_optional("x")?;
        let dx = if pass == PoolPass::Backward { fields.take_optional("dx")? } else { None };
        let index: Option<TensorDesc> = fields.take_optional("index")?;
        let Some(image) = x.or(dx) else {
            return Err(BadDescriptor::new(OP, "x", "expected x=…, given nothing"));
        };
        let y_name = if pass == PoolPass::Forward { "y" } else { "dy" };
        let y = match fields.take_optional(y_name)? {
            Some(y) => y,
            None => image.of_extents(&desc.output_dims(&image)?)?,
        };
        fields.finish()?;
        let dx = (pass == PoolPass::Backward).then(|| dx.unwrap_or(image));
        Self::new(&desc, &image, (y_name, &y), dx.as_ref(), index.as_ref())
    }
}
