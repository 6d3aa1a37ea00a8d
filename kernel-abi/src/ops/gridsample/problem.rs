//! The grid sampling problem and its text form.

use super::{GridPadding, GridSampleMode, GridSamplePass, Sampler};
use crate::desc::{BadDescriptor, TensorDesc};
use crate::problem::{Operand, Problem, general_dtype, no_overlap, same_dims, same_dtype};
use crate::text::{Fields, join};
use crate::{DType, Precision};
use std::fmt;
use std::str::FromStr;

const OP: &str = "gridsample";

/// How an image is read: what a grid sampling is apart from its tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GridSampleDesc {
    /// The filter.
    pub mode: GridSampleMode,
    /// What is beyond the image.
    pub padding: GridPadding,
    /// Whether -1 and 1 are the centres of the outermost elements.
    pub align_corners: bool,
}

impl GridSampleDesc {
    /// A filter over an image among zeros, whose edges are -1 and 1.
    pub fn new(mode: GridSampleMode) -> Self {
        GridSampleDesc { mode, padding: GridPadding::Zeros, align_corners: false }
    }

    /// Sets what is beyond the image.
    pub fn padding(mut self, padding: GridPadding) -> Self {
        self.padding = padding;
        self
    }

    /// Makes -1 and 1 the centres of the outermost elements.
    pub fn align_corners(mut self) -> Self {
        self.align_corners = true;
        self
    }
}

/// One pass of a grid sampling. See the [module](super) for the formula.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct GridSampleProblem {
    pass: GridSamplePass,
    desc: GridSampleDesc,
    /// x, or dx.
    x: TensorDesc,
    grid: TensorDesc,
    /// y, or dy.
    y: TensorDesc,
    /// dgrid, in its own pass only.
    dgrid: Option<TensorDesc>,
}

/// N, C and spatial extents depth, height, width; absent ones are 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GridSampleShape {
    /// N.
    pub n: i64,
    /// C.
    pub c: i64,
    /// Spatial dimensions.
    pub n_axes: usize,
    /// D, H, W.
    pub image: [i64; 3],
    /// Z, P, Q.
    pub output: [i64; 3],
}

impl GridSampleProblem {
    /// `y = alpha · sample(x, grid) + beta · y`.
    ///
    /// # Errors
    /// `BadDescriptor` naming the argument: a rank of `x` outside 3..=5, a `grid` that is not `[N, spatial..., axes]` with as
    /// many axes, a `y` that is not `[N, C, spatial...]` with its extents, a type of `y` other than that of `x`, one of `grid`
    /// that is neither that nor f32 beside 16 bits, a `y` that overlaps itself.
    pub fn forward(
        desc: &GridSampleDesc,
        x: &TensorDesc,
        grid: &TensorDesc,
        y: &TensorDesc,
    ) -> Result<Self, BadDescriptor> {
        Self::new(GridSamplePass::Forward, desc, ("x", x), grid, ("y", y), None)
    }

    /// `dx = alpha · (gradient of Σ dy · sample(x, grid) by x) + beta · dx`.
    ///
    /// # Errors
    /// As [`GridSampleProblem::forward`], for `dy` and `dx`.
    pub fn backward_data(
        desc: &GridSampleDesc,
        grid: &TensorDesc,
        dy: &TensorDesc,
        dx: &TensorDesc,
    ) -> Result<Self, BadDescriptor> {
        Self::new(GridSamplePass::BackwardData, desc, ("dx", dx), grid, ("dy", dy), None)
    }

    /// `dgrid = alpha · (gradient of Σ dy · sample(x, grid) by grid) + beta · dgrid`.
    ///
    /// # Errors
    /// As [`GridSampleProblem::forward`], for `dy`; also when `dgrid` has other extents or another type than `grid`, or
    /// overlaps itself.
    pub fn backward_grid(
        desc: &GridSampleDesc,
        x: &TensorDesc,
        grid: &TensorDesc,
        dy: &TensorDesc,
        dgrid: &TensorDesc,
    ) -> Result<Self, BadDescriptor> {
        Self::new(GridSamplePass::BackwardGrid, desc, ("x", x), grid, ("dy", dy), Some(dgrid))
    }

    fn new(
        pass: GridSamplePass,
        desc: &GridSampleDesc,
        (x_name, x): (&str, &TensorDesc),
        grid: &TensorDesc,
        (y_name, y): (&str, &TensorDesc),
        dgrid: Option<&TensorDesc>,
    ) -> Result<Self, BadDescriptor> {
        let bad = |argument: &str, reason: String| Err(BadDescriptor::new(OP, argument, reason));
        if !(3..=5).contains(&x.rank()) {
            return bad(x_name, format!("expected a rank of 3 to 5, [N, C, spatial...], given {}", x.rank()));
        }
        let (n_axes, last) = (x.rank() - 2, grid.rank() - 1);
        if grid.rank() != x.rank() || grid.dims()[0] != x.dims()[0] || grid.dims()[last] != n_axes as i64 {
            let n = x.dims()[0];
            let reason = format!("expected [{n}, spatial..., {n_axes}] of rank {}, given {grid}", x.rank());
            return bad("grid", reason);
        }
        let dims: Vec<i64> = x.dims()[..2].iter().chain(&grid.dims()[1..last]).copied().collect();
        if y.dims() != dims {
            let reason = format!("expected the extents {} that x and grid give, given {}", join(&dims), join(y.dims()));
            return bad(y_name, reason);
        }
        general_dtype(OP, x_name, x)?;
        same_dtype(OP, y_name, y, x_name, x)?;
        if !(grid.dtype() == DType::F32 && x.dtype().size_bytes() == 2) {
            same_dtype(OP, "grid", grid, x_name, x)?;
        }
        match (pass, dgrid) {
            (GridSamplePass::Forward, _) => no_overlap(OP, y_name, y)?,
            (GridSamplePass::BackwardData, _) => no_overlap(OP, x_name, x)?,
            (GridSamplePass::BackwardGrid, Some(dgrid)) => {
                same_dims(OP, "dgrid", dgrid, "grid", grid)?;
                same_dtype(OP, "dgrid", dgrid, "grid", grid)?;
                no_overlap(OP, "dgrid", dgrid)?;
            }
            (GridSamplePass::BackwardGrid, None) => return bad("dgrid", "expected a tensor, given none".to_owned()),
        }
        Ok(GridSampleProblem { pass, desc: *desc, x: *x, grid: *grid, y: *y, dgrid: dgrid.copied() })
    }

    /// Which pass.
    pub fn sample_pass(&self) -> GridSamplePass {
        self.pass
    }

    /// How the image is read.
    pub fn desc(&self) -> &GridSampleDesc {
        &self.desc
    }

    /// How the image is read, as kernels take it.
    pub fn sampler(&self) -> Sampler {
        Sampler {
            mode: self.desc.mode as u32,
            padding: self.desc.padding as u32,
            align_corners: u64::from(self.desc.align_corners),
        }
    }

    /// x, or dx.
    pub fn x(&self) -> &TensorDesc {
        &self.x
    }

    /// grid.
    pub fn grid(&self) -> &TensorDesc {
        &self.grid
    }

    /// y, or dy.
    pub fn y(&self) -> &TensorDesc {
        &self.y
    }

    /// dgrid, in its own pass only.
    pub fn dgrid(&self) -> Option<&TensorDesc> {
        self.dgrid.as_ref()
    }

    /// N, C and spatial extents.
    pub fn shape(&self) -> GridSampleShape {
        let n_axes = self.x.rank() - 2;
        let absent = 3 - n_axes;
        let spatial = |dims: &[i64]| std::array::from_fn(|i| if i < absent { 1 } else { dims[2 + i - absent] });
        GridSampleShape {
            n: self.x.dims()[0],
            c: self.x.dims()[1],
            n_axes,
            image: spatial(self.x.dims()),
            output: spatial(self.y.dims()),
        }
    }

    /// Neighbours of a place.
    fn n_neighbours(&self) -> f64 {
        let along = match self.desc.mode {
            GridSampleMode::Nearest => 1.0f64,
            GridSampleMode::Linear => 2.0,
            GridSampleMode::Cubic => 4.0,
        };
        along.powi(self.x.rank() as i32 - 2)
    }
}

impl Problem for GridSampleProblem {
    const OP: &'static str = OP;

    fn pass(&self) -> &'static str {
        self.pass.name()
    }

    fn operands(&self) -> Vec<Operand> {
        let grid = Operand::input("grid", self.grid);
        match (self.pass, self.dgrid) {
            (GridSamplePass::Forward, _) => vec![Operand::input("x", self.x), grid, Operand::output("y", self.y)],
            (GridSamplePass::BackwardData, _) => {
                vec![grid, Operand::input("dy", self.y), Operand::output("dx", self.x)]
            }
            (GridSamplePass::BackwardGrid, dgrid) => {
                let mut operands = vec![Operand::input("x", self.x), grid, Operand::input("dy", self.y)];
                operands.extend(dgrid.map(|dgrid| Operand::output("dgrid", dgrid)));
                operands
            }
        }
    }

    fn flops(&self) -> f64 {
        2.0 * self.y.n_elems() as f64 * self.n_neighbours()
    }

    fn precision(&self) -> Precision {
        // Weights are differences of places, a few times as far from 0 as the image is large.
        let extent = self.shape().image.into_iter().max().unwrap_or(1);
        Precision { operand: 4.0 * extent as f64 * f64::EPSILON, ..Precision::of([self.x.dtype()]) }
    }

    fn accumulation_length(&self) -> f64 {
        match self.pass {
            GridSamplePass::Forward => self.n_neighbours(),
            // All outputs may be of one place.
            GridSamplePass::BackwardData => self.shape().output.iter().product::<i64>() as f64,
            GridSamplePass::BackwardGrid => self.n_neighbours() * self.x.dims()[1] as f64,
        }
    }
}

impl fmt::Display for GridSampleProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let GridSampleDesc { mode, padding, align_corners } = self.desc;
        write!(f, "{OP}:{} mode={mode} padding={padding} align_corners={}", self.pass, u8::from(align_corners))?;
        crate::problem::write_operands(f, self)
    }
}

impl FromStr for GridSampleProblem {
    type Err = BadDescriptor;

    /// Left-out keys have [`GridSampleDesc`]'s defaults; a left-out `y` (`dy`) is laid out like `x`
    /// (`dx`), a left-out `dgrid` like `grid`.
    fn from_str(text: &str) -> Result<Self, BadDescriptor> {
        let mut fields = Fields::parse(OP, text)?;
        let pass: GridSamplePass = fields.parse_pass()?;
        let mut desc = GridSampleDesc::new(fields.take("mode")?);
        if let Some(padding) = fields.take_optional("padding")? {
            desc = desc.padding(padding);
        }
        desc.align_corners = fields.take_switch("align_corners")?;
        let x_name = if pass == GridSamplePass::BackwardData { "dx" } else { "x" };
        let y_name = if pass == GridSamplePass::Forward { "y" } else { "dy" };
        let (x, grid) = (fields.take_tensor(x_name)?, fields.take_tensor("grid")?);
        let y = match fields.take_optional(y_name)? {
            Some(y) => y,
            None => {
                let spatial = grid.dims().iter().take(grid.rank() - 1).skip(1);
                let dims: Vec<i64> = x.dims().iter().take(2).chain(spatial).copied().collect();
                // Of an image of another rank, `new` says what is wrong.
                if dims.len() == x.rank() { x.of_extents(&dims)? } else { TensorDesc::packed(x.dtype(), &dims)? }
            }
        };
        let dgrid = match pass {
            GridSamplePass::BackwardGrid => Some(fields.take_optional("dgrid")?.unwrap_or(grid)),
            _ => None,
        };
        fields.finish()?;
        Self::new(pass, &desc, (x_name, &x), &grid, (y_name, &y), dgrid.as_ref())
    }
}
