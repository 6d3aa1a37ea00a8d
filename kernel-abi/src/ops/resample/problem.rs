//! The resampling problem and its text form.

use super::desc::CUBIC;
use super::{Coordinates, NearestRound, ResampleAxis, ResampleDesc, ResampleFilter, ResampleMode, ResamplePass};
use crate::Precision;
use crate::desc::{BadDescriptor, TensorDesc};
use crate::problem::{Coefficient, Operand, Problem, general_dtype, no_overlap, same_dtype};
use crate::text::{Fields, join, join_reals, split_reals};
use std::fmt;
use std::str::FromStr;

const OP: &str = "resample";

/// One pass of a resampling. See the [module](super) for the formula.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ResampleProblem {
    pass: ResamplePass,
    desc: ResampleDesc,
    /// x, or dx.
    x: TensorDesc,
    /// y, or dy.
    y: TensorDesc,
}

/// N, C and the spatial axes depth, height, width, absent ones included.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ResampleShape {
    /// N.
    pub n: i64,
    /// C.
    pub c: i64,
    /// The axes.
    pub axes: [ResampleAxis; 3],
    /// The filter.
    pub filter: ResampleFilter,
}

impl ResampleProblem {
    /// `y = alpha · resample(x) + beta · y`, of the size that `y` has.
    ///
    /// # Errors
    /// `BadDescriptor` naming the argument: a rank outside 3..=5, other N, C, rank or type than x has, an output that
    /// overlaps itself, other numbers of scales or region ends than spatial axes, a scale that is not between 2⁻²⁴ and 2²⁴,
    /// a region without `crop`, `antialias` or `exclude_outside` with `nearest`, a coefficient that is not finite.
    pub fn forward(desc: &ResampleDesc, x: &TensorDesc, y: &TensorDesc) -> Result<Self, BadDescriptor> {
        Self::new(ResamplePass::Forward, desc, ("x", x), ("y", y))
    }

    /// `dx = alpha · (gradient of Σ dy · resample(x) by x) + beta · dx`.
    ///
    /// # Errors
    /// As [`ResampleProblem::forward`], for `dy` and `dx`.
    pub fn backward(desc: &ResampleDesc, dy: &TensorDesc, dx: &TensorDesc) -> Result<Self, BadDescriptor> {
        Self::new(ResamplePass::Backward, desc, ("dx", dx), ("dy", dy))
    }

    fn new(
        pass: ResamplePass,
        desc: &ResampleDesc,
        (x_name, x): (&str, &TensorDesc),
        (y_name, y): (&str, &TensorDesc),
    ) -> Result<Self, BadDescriptor> {
        let bad = |argument: &str, reason: String| Err(BadDescriptor::new(OP, argument, reason));
        if !(3..=5).contains(&x.rank()) {
            return bad(x_name, format!("expected a rank of 3 to 5, [N, C, spatial...], given {}", x.rank()));
        }
        if y.rank() != x.rank() || y.dims()[..2] != x.dims()[..2] {
            let expected = join(&x.dims()[..2]);
            let reason = format!("expected rank {} and N, C {expected} of {x_name}, given {y}", x.rank());
            return bad(y_name, reason);
        }
        general_dtype(OP, x_name, x)?;
        same_dtype(OP, y_name, y, x_name, x)?;
        match pass {
            ResamplePass::Forward => no_overlap(OP, y_name, y)?,
            ResamplePass::Backward => no_overlap(OP, x_name, x)?,
        }
        if desc.mode == ResampleMode::Nearest {
            for (name, set) in [("antialias", desc.antialias), ("exclude_outside", desc.exclude_outside)] {
                if set {
                    return bad(name, "expected 0 with mode=nearest, given 1".to_owned());
                }
            }
        }
        let ends = desc.region.iter().flatten().flatten();
        for (name, value) in [("a", &desc.cubic), ("extrapolation", &desc.extrapolation)]
            .into_iter()
            .chain(ends.map(|end| ("region", end)))
        {
            if !value.get().is_finite() {
                return bad(name, format!("expected finite numbers, given {value}"));
            }
        }
        desc.axes(x, y)?;
        // What does not count for the mode has its default, so that equal computations are equal problems.
        let mut desc = desc.clone();
        if desc.mode != ResampleMode::Cubic {
            desc.cubic = Coefficient::new(CUBIC);
        }
        if desc.mode != ResampleMode::Nearest {
            desc.round = NearestRound::PreferFloor;
        }
        Ok(ResampleProblem { pass, desc, x: *x, y: *y })
    }

    /// Which pass.
    pub fn resample_pass(&self) -> ResamplePass {
        self.pass
    }

    /// The filter.
    pub fn mode(&self) -> ResampleMode {
        self.desc.mode
    }

    /// The coordinates.
    pub fn coordinates(&self) -> Coordinates {
        self.desc.coordinates
    }

    /// Which neighbour is the nearest.
    pub fn round(&self) -> NearestRound {
        self.desc.round
    }

    /// The coefficient of cubic polynomials.
    pub fn cubic_coefficient(&self) -> f64 {
        self.desc.cubic.get()
    }

    /// Whether the filter is widened where the image becomes smaller.
    pub fn antialias(&self) -> bool {
        self.desc.antialias
    }

    /// Whether positions outside the image weigh nothing.
    pub fn excludes_outside(&self) -> bool {
        self.desc.exclude_outside
    }

    /// The scale of a spatial axis, where it is given.
    pub fn scale(&self, axis: usize) -> Option<f64> {
        self.desc.scale.as_ref().map(|scale| scale[axis].get())
    }

    /// The region of a spatial axis, with [`Coordinates::Crop`].
    pub fn region(&self, axis: usize) -> Option<[f64; 2]> {
        self.desc.region.as_ref().map(|region| region[axis].map(Coefficient::get))
    }

    /// What outputs outside a cropped region become.
    pub fn extrapolation(&self) -> f64 {
        self.desc.extrapolation.get()
    }

    /// x, or dx.
    pub fn x(&self) -> &TensorDesc {
        &self.x
    }

    /// y, or dy.
    pub fn y(&self) -> &TensorDesc {
        &self.y
    }

    /// N, C and the spatial axes.
    pub fn shape(&self) -> ResampleShape {
        let axes = self.desc.axes(&self.x, &self.y).unwrap_or_default();
        let absent = 3 - axes.len();
        let axis = |i: usize| if i < absent { ResampleAxis::ABSENT } else { axes[i - absent] };
        ResampleShape {
            n: self.x.dims()[0],
            c: self.x.dims()[1],
            axes: std::array::from_fn(axis),
            filter: self.desc.filter(),
        }
    }

    /// Neighbours of a place, about.
    fn n_taps(&self) -> f64 {
        let shape = self.shape();
        let diameter = if self.mode() == ResampleMode::Nearest { 1.0 } else { 2.0 * shape.filter.radius() };
        let present = &shape.axes[3 - (self.x.rank() - 2)..];
        present.iter().map(|axis| (diameter / axis.shrink).min(axis.image as f64 + diameter)).product()
    }
}

impl Problem for ResampleProblem {
    const OP: &'static str = OP;

    fn pass(&self) -> &'static str {
        self.pass.name()
    }

    fn operands(&self) -> Vec<Operand> {
        match self.pass {
            ResamplePass::Forward => vec![Operand::input("x", self.x), Operand::output("y", self.y)],
            ResamplePass::Backward => vec![Operand::input("dy", self.y), Operand::output("dx", self.x)],
        }
    }

    fn flops(&self) -> f64 {
        2.0 * self.y.n_elems() as f64 * self.n_taps()
    }

    fn precision(&self) -> Precision {
        // Weights are differences of places, as far from 0 as the image is large.
        let extent = self.x.dims()[2..].iter().copied().max().unwrap_or(1);
        Precision { operand: extent as f64 * f64::EPSILON, ..Precision::of([self.x.dtype()]) }
    }

    fn accumulation_length(&self) -> f64 {
        let spread = self.y.n_elems() as f64 / self.x.n_elems() as f64;
        self.n_taps() * if self.pass == ResamplePass::Backward { spread.max(1.0) } else { 1.0 }
    }
}

impl fmt::Display for ResampleProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let desc = &self.desc;
        write!(f, "{OP}:{} mode={} coords={}", self.pass, desc.mode, desc.coordinates)?;
        if desc.mode == ResampleMode::Nearest {
            write!(f, " round={}", desc.round)?;
        }
        if desc.cubic != Coefficient::new(CUBIC) {
            write!(f, " a={}", desc.cubic)?;
        }
        for (name, set) in [("antialias", desc.antialias), ("exclude_outside", desc.exclude_outside)] {
            if set {
                write!(f, " {name}=1")?;
            }
        }
        if let Some(scale) = &desc.scale {
            write!(f, " scale={}", join_reals(scale.iter().map(|value| value.get())))?;
        }
        if let Some(region) = &desc.region {
            write!(f, " region={}", join_reals(region.iter().flatten().map(|value| value.get())))?;
            write!(f, " extrapolation={}", desc.extrapolation)?;
        }
        crate::problem::write_operands(f, self)
    }
}

/// Reads a list of numbers joined by `x`, if it is there.
fn take_reals(fields: &mut Fields<'_>, key: &'static str) -> Result<Option<Vec<f64>>, BadDescriptor> {
    fields.take_word(key).map(|word| split_reals(word).map_err(|e| BadDescriptor::new(OP, key, e))).transpose()
}

fn parse_desc(fields: &mut Fields<'_>) -> Result<ResampleDesc, BadDescriptor> {
    let mut desc = ResampleDesc::new(fields.take("mode")?);
    if let Some(coordinates) = fields.take_optional("coords")? {
        desc = desc.coordinates(coordinates);
    }
    if let Some(round) = fields.take_optional("round")? {
        desc = desc.round(round);
    }
    if let Some(a) = fields.take_optional("a")? {
        desc = desc.cubic_coefficient(a);
    }
    desc.antialias = fields.take_switch("antialias")?;
    desc.exclude_outside = fields.take_switch("exclude_outside")?;
    if let Some(scale) = take_reals(fields, "scale")? {
        desc = desc.scale(&scale);
    }
    let extrapolation = fields.take_optional("extrapolation")?;
    if let Some(region) = take_reals(fields, "region")? {
        if desc.coordinates != Coordinates::Crop || !region.len().is_multiple_of(2) {
            let reason = "expected a begin and an end for each axis, with coords=crop";
            return Err(BadDescriptor::new(OP, "region", reason));
        }
        let region: Vec<[f64; 2]> = region.chunks_exact(2).map(|ends| [ends[0], ends[1]]).collect();
        desc = desc.crop(&region, extrapolation.unwrap_or(0.0));
    } else if extrapolation.is_some() {
        return Err(BadDescriptor::new(OP, "extrapolation", "expected a region with it, given none"));
    }
    Ok(desc)
}

impl FromStr for ResampleProblem {
    type Err = BadDescriptor;

    /// Left-out keys have [`ResampleDesc`]'s defaults; a left-out `y` (`dy`) is laid out like `x` (`dx`),
    /// of the extents that `scale` gives.
    fn from_str(text: &str) -> Result<Self, BadDescriptor> {
        let mut fields = Fields::parse(OP, text)?;
        let pass: ResamplePass = fields.parse_pass()?;
        let desc = parse_desc(&mut fields)?;
        let (x_name, y_name) = if pass == ResamplePass::Forward { ("x", "y") } else { ("dx", "dy") };
        let x = fields.take_tensor(x_name)?;
        let y = match fields.take_optional(y_name)? {
            Some(y) => y,
            None => x.of_extents(&desc.output_dims(&x)?)?,
        };
        fields.finish()?;
        Self::new(pass, &desc, (x_name, &x), (y_name, &y))
    }
}
