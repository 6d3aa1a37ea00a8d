//! The affine grid problem and its text form.

use super::AffineGridPass;
use crate::desc::{BadDescriptor, TensorDesc};
use crate::problem::{Operand, Problem, general_dtype, no_overlap, same_dtype};
use crate::text::{Fields, join};
use std::fmt;
use std::str::FromStr;

const OP: &str = "affinegrid";

/// One pass of an affine grid. See the [module](super) for the formula.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AffineGridProblem {
    pass: AffineGridPass,
    align_corners: bool,
    /// theta, or dtheta.
    theta: TensorDesc,
    /// grid, or dgrid.
    grid: TensorDesc,
}

impl AffineGridProblem {
    /// `grid = alpha · affine(theta) + beta · grid`.
    ///
    /// # Errors
    /// `BadDescriptor` naming the argument: a `grid` that is neither `[N, P, Q, 2]` nor `[N, Z, P, Q, 3]`, a `theta` that is
    /// not of the extents that belong to it, element types that differ, a `grid` that overlaps itself.
    pub fn forward(theta: &TensorDesc, grid: &TensorDesc, align_corners: bool) -> Result<Self, BadDescriptor> {
        Self::new(AffineGridPass::Forward, ("theta", theta), ("grid", grid), align_corners)
    }

    /// `dtheta = alpha · (gradient of Σ dgrid · affine(theta) by theta) + beta · dtheta`.
    ///
    /// # Errors
    /// As [`AffineGridProblem::forward`], for `dgrid` and `dtheta`.
    pub fn backward(dgrid: &TensorDesc, dtheta: &TensorDesc, align_corners: bool) -> Result<Self, BadDescriptor> {
        Self::new(AffineGridPass::Backward, ("dtheta", dtheta), ("dgrid", dgrid), align_corners)
    }

    fn new(
        pass: AffineGridPass,
        (theta_name, theta): (&str, &TensorDesc),
        (grid_name, grid): (&str, &TensorDesc),
        align_corners: bool,
    ) -> Result<Self, BadDescriptor> {
        let n_axes = grid.rank() as i64 - 2;
        if !(2..=3).contains(&n_axes) || grid.dims()[grid.rank() - 1] != n_axes {
            let reason = format!("expected [N, P, Q, 2] or [N, Z, P, Q, 3], given {}", join(grid.dims()));
            return Err(BadDescriptor::new(OP, grid_name, reason));
        }
        let dims = [grid.dims()[0], n_axes, n_axes + 1];
        if theta.dims() != dims {
            let reason = format!("expected {} for {grid_name}, given {}", join(&dims), join(theta.dims()));
            return Err(BadDescriptor::new(OP, theta_name, reason));
        }
        general_dtype(OP, theta_name, theta)?;
        same_dtype(OP, grid_name, grid, theta_name, theta)?;
        match pass {
            AffineGridPass::Forward => no_overlap(OP, grid_name, grid)?,
            AffineGridPass::Backward => no_overlap(OP, theta_name, theta)?,
        }
        Ok(AffineGridProblem { pass, align_corners, theta: *theta, grid: *grid })
    }

    /// Which pass.
    pub fn grid_pass(&self) -> AffineGridPass {
        self.pass
    }

    /// Whether the outermost coordinates are those of centres.
    pub fn align_corners(&self) -> bool {
        self.align_corners
    }

    /// theta, or dtheta.
    pub fn theta(&self) -> &TensorDesc {
        &self.theta
    }

    /// grid, or dgrid.
    pub fn grid(&self) -> &TensorDesc {
        &self.grid
    }

    /// Z, P, Q; an absent Z is 1.
    pub fn extents(&self) -> [i64; 3] {
        let spatial = &self.grid.dims()[1..self.grid.rank() - 1];
        let absent = 3 - spatial.len();
        std::array::from_fn(|i| if i < absent { 1 } else { spatial[i - absent] })
    }
}

impl Problem for AffineGridProblem {
    const OP: &'static str = OP;

    fn pass(&self) -> &'static str {
        self.pass.name()
    }

    fn operands(&self) -> Vec<Operand> {
        match self.pass {
            AffineGridPass::Forward => vec![Operand::input("theta", self.theta), Operand::output("grid", self.grid)],
            AffineGridPass::Backward => {
                vec![Operand::input("dgrid", self.grid), Operand::output("dtheta", self.theta)]
            }
        }
    }

    fn flops(&self) -> f64 {
        2.0 * self.grid.n_elems() as f64 * self.theta.dims()[2] as f64
    }

    fn accumulation_length(&self) -> f64 {
        match self.pass {
            AffineGridPass::Forward => self.theta.dims()[2] as f64,
            AffineGridPass::Backward => self.extents().iter().product::<i64>() as f64,
        }
    }
}

impl fmt::Display for AffineGridProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{OP}:{} align_corners={}", self.pass, u8::from(self.align_corners))?;
        crate::problem::write_operands(f, self)
    }
}

impl FromStr for AffineGridProblem {
    type Err = BadDescriptor;

    /// A left-out `align_corners` is 0, a left-out `theta` (`dtheta`) packed.
    fn from_str(text: &str) -> Result<Self, BadDescriptor> {
        let mut fields = Fields::parse(OP, text)?;
        let pass: AffineGridPass = fields.parse_pass()?;
        let align_corners = fields.take_switch("align_corners")?;
        let (theta_name, grid_name) =
            if pass == AffineGridPass::Forward { ("theta", "grid") } else { ("dtheta", "dgrid") };
        let grid = fields.take_tensor(grid_name)?;
        let theta = match fields.take_optional(theta_name)? {
            Some(theta) => theta,
            None => {
                let n_axes = grid.rank() as i64 - 2;
                TensorDesc::packed(grid.dtype(), &[grid.dims()[0], n_axes, n_axes + 1])?
            }
        };
        fields.finish()?;
        Self::new(pass, (theta_name, &theta), (grid_name, &grid), align_corners)
    }
}
