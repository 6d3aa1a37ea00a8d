//! The max unpooling problem and its text form.

use super::UnpoolPass;
use crate::desc::{BadDescriptor, TensorDesc};
use crate::ops::pool::desc::{check_index, write_windows};
use crate::ops::pool::{IndexBase, PoolAxis, PoolDesc, PoolMode, PoolShape};
use crate::problem::{Operand, Problem, general_dtype, no_overlap, same_dtype};
use crate::text::{Fields, join};
use std::fmt;
use std::str::FromStr;

const OP: &str = "unpool";

/// One pass of a max unpooling. See the [module](super) for the formula.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct UnpoolProblem {
    pass: UnpoolPass,
    base: IndexBase,
    axes: Vec<PoolAxis>,
    /// x, or dx.
    pooled: TensorDesc,
    index: TensorDesc,
    /// y, or dy.
    image: TensorDesc,
}

impl UnpoolProblem {
    /// `y = alpha · unpool(x, index) + beta · y`.
    ///
    /// # Errors
    /// `BadDescriptor` naming the argument: a `desc` that is no max pooling of `y` to the extents of `x`, element types
    /// that differ, an `index` of other extents than `x`, neither i32 nor i64, or whose type has too few numbers, a `y` that
    /// overlaps itself.
    pub fn forward(desc: &PoolDesc, x: &TensorDesc, index: &TensorDesc, y: &TensorDesc) -> Result<Self, BadDescriptor> {
        Self::new(UnpoolPass::Forward, desc, ("x", x), index, ("y", y))
    }

    /// `dx = alpha · (dy where index says) + beta · dx`.
    ///
    /// # Errors
    /// As [`UnpoolProblem::forward`], for `dy` and `dx`.
    pub fn backward(
        desc: &PoolDesc,
        dy: &TensorDesc,
        index: &TensorDesc,
        dx: &TensorDesc,
    ) -> Result<Self, BadDescriptor> {
        Self::new(UnpoolPass::Backward, desc, ("dx", dx), index, ("dy", dy))
    }

    fn new(
        pass: UnpoolPass,
        desc: &PoolDesc,
        (pooled_name, pooled): (&str, &TensorDesc),
        index: &TensorDesc,
        (image_name, image): (&str, &TensorDesc),
    ) -> Result<Self, BadDescriptor> {
        if desc.mode != PoolMode::Max {
            let reason = format!("expected a pooling with mode=max, given {}", desc.mode);
            return Err(BadDescriptor::new(OP, "mode", reason));
        }
        let axes = desc.resolve(image)?;
        let dims = desc.output_dims(image)?;
        if pooled.dims() != dims {
            let (dims, given) = (join(&dims), join(pooled.dims()));
            let reason = format!("expected the extents {dims} that {image_name} is pooled to, given {given}");
            return Err(BadDescriptor::new(OP, pooled_name, reason));
        }
        general_dtype(OP, image_name, image)?;
        same_dtype(OP, pooled_name, pooled, image_name, image)?;
        check_index(OP, desc.base, image, (pooled_name, pooled), index)?;
        match pass {
            UnpoolPass::Forward => no_overlap(OP, image_name, image)?,
            UnpoolPass::Backward => no_overlap(OP, pooled_name, pooled)?,
        }
        Ok(UnpoolProblem { pass, base: desc.base, axes, pooled: *pooled, index: *index, image: *image })
    }

    /// Which pass.
    pub fn unpool_pass(&self) -> UnpoolPass {
        self.pass
    }

    /// Where the numbers of `index` begin.
    pub fn index_base(&self) -> IndexBase {
        self.base
    }

    /// x, or dx.
    pub fn pooled(&self) -> &TensorDesc {
        &self.pooled
    }

    /// index.
    pub fn index(&self) -> &TensorDesc {
        &self.index
    }

    /// y, or dy.
    pub fn image(&self) -> &TensorDesc {
        &self.image
    }

    /// N, C and the axes of the pooling, absent ones included.
    pub fn shape(&self) -> PoolShape {
        PoolShape::new(&self.image, &self.axes)
    }
}

impl Problem for UnpoolProblem {
    const OP: &'static str = OP;

    fn pass(&self) -> &'static str {
        self.pass.name()
    }

    fn operands(&self) -> Vec<Operand> {
        let index = Operand::input("index", self.index);
        match self.pass {
            UnpoolPass::Forward => {
                vec![Operand::input("x", self.pooled), index, Operand::output("y", self.image)]
            }
            UnpoolPass::Backward => {
                vec![Operand::input("dy", self.image), index, Operand::output("dx", self.pooled)]
            }
        }
    }

    fn flops(&self) -> f64 {
        self.image.n_elems() as f64
    }
}

impl fmt::Display for UnpoolProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{OP}:{}", self.pass)?;
        write_windows(f, &self.axes)?;
        if self.base != IndexBase::Plane {
            write!(f, " index_base={}", self.base)?;
        }
        crate::problem::write_operands(f, self)
    }
}

impl FromStr for UnpoolProblem {
    type Err = BadDescriptor;

    /// Left-out keys have [`PoolDesc`]'s defaults; a left-out `y` (`dy`) is laid out like `x` (`dx`), as
    /// small as can be; a left-out `dx` like `dy`, of the extents of `index`.
    fn from_str(text: &str) -> Result<Self, BadDescriptor> {
        let mut fields = Fields::parse(OP, text)?;
        let pass: UnpoolPass = fields.parse_pass()?;
        let mut desc = PoolDesc::parse_windows(PoolMode::Max, &mut fields)?;
        if let Some(base) = fields.take_optional("index_base")? {
            desc = desc.index_base(base);
        }
        let (pooled_name, image_name) = if pass == UnpoolPass::Forward { ("x", "y") } else { ("dx", "dy") };
        let index = fields.take_tensor("index")?;
        let pooled: Option<TensorDesc> = fields.take_optional(pooled_name)?;
        let image: Option<TensorDesc> = fields.take_optional(image_name)?;
        let (pooled, image) = match (pooled, image) {
            (Some(pooled), Some(image)) => (pooled, image),
            (Some(pooled), None) => (pooled, pooled.of_extents(&desc.unpooled_dims(&pooled))?),
            (None, Some(image)) => (image.of_extents(index.dims())?, image),
            (None, None) => {
                let reason = format!("expected {pooled_name}=… or {image_name}=…, given nothing");
                return Err(BadDescriptor::new(OP, pooled_name, reason));
            }
        };
        fields.finish()?;
        Self::new(pass, &desc, (pooled_name, &pooled), &index, (image_name, &image))
    }
}
