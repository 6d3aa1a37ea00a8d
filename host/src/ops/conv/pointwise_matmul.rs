//! Convolution with filters of one tap on Hopper's tensor cores: matrix products with the images as they lie.
//!
//! Channels before the image, as NCHW has them: for each image y is w times x, channels by positions, and dx is wᵀ times
//! dy. dw is the sum over all images of dy times xᵀ. Where planes do not begin at multiples of 16 bytes, as the copy
//! engine wants them, the product copies them first; reading several planes as one row does not help, since copies of its
//! later parts would begin between such multiples (an H200 was seen to fault on them).
//!
//! Channels last: y is x times wᵀ, positions by channels, and dx is dy times w; dw is dyᵀ times x. The positions of all
//! images are the rows of one matrix where they lie evenly.

use super::im2col_wgmma::{check_address, tma_type};
use super::{ConvPass, ConvProblem};
use crate::ops::matmul::{MatmulProblem, Product, TmaLaunch};
use crate::plan::{Call, Launch};
use crate::select::{Algorithm, Config, Refusal, check_hopper};
use crate::{Context, Error, Problem, Stream, TensorDesc};

/// Images as matrices.
pub(super) struct PointwiseMatmul;

impl Algorithm<ConvProblem> for PointwiseMatmul {
    fn name(&self) -> &'static str {
        "pointwise_matmul"
    }

    fn configs(&self, problem: &ConvProblem, context: &Context) -> Result<Vec<Config>, Refusal> {
        check_hopper(context)?;
        Ok(Matrices::of(problem)?.product.configs(context))
    }

    fn workspace_bytes(&self, problem: &ConvProblem, config: Config) -> u64 {
        Matrices::of(problem).map_or(0, |matrices| matrices.product.workspace_bytes(config))
    }

    fn estimate_us(&self, problem: &ConvProblem, config: Config, context: &Context) -> f64 {
        let Ok(matrices) = Matrices::of(problem) else { return f64::INFINITY };
        matrices.product.estimate_us(config, context)
    }

    fn prepare(&self, problem: &ConvProblem, config: Config, context: &Context) -> Result<Box<dyn Launch>, Error> {
        let Matrices { product, factors } =
            Matrices::of(problem).map_err(|refusal| refusal.into_error(self.name(), problem))?;
        let names = match problem.conv_pass() {
            ConvPass::Fprop => ["x", "w"],
            ConvPass::Dgrad => ["dy", "w"],
            ConvPass::Wgrad => ["x", "dy"],
        };
        Ok(Box::new(MatricesLaunch { names, factors, product: product.prepare(config, context)? }))
    }
}

/// A problem as a matrix product.
struct Matrices {
    product: Product,
    /// Which operands the factors are.
    factors: [usize; 2],
}

impl Matrices {
    fn of(problem: &ConvProblem) -> Result<Self, Refusal> {
        tma_type(problem.x().dtype())?;
        let shape = problem.shape();
        let same_place = shape.axes.iter().all(|axis| axis.padding == 0 && axis.padding_end == 0);
        if shape.filter != [1; 3] || !same_place || shape.image != shape.output {
            let (filter, image, output) = (shape.filter, shape.image, shape.output);
            let reason = format!(
                "takes filters of one tap that read where they write, given {filter:?} from {image:?} to {output:?}"
            );
            return Err(Refusal::new(reason));
        }
        let (x, y) = (problem.x(), problem.y());
        let pass = problem.conv_pass();
        let mut matrices = if let (Some(x), Some(y)) = (Rows::of(x), Rows::of(y)) {
            match pass {
                ConvPass::Fprop => Self::rows(problem, &x, &y)?,
                ConvPass::Dgrad => Self::rows(problem, &y, &x)?,
                ConvPass::Wgrad => Self::filter_of_rows(problem, &x, &y)?,
            }
        } else {
            let (x, y) = (Image::of("x", x)?, Image::of("y", y)?);
            match pass {
                ConvPass::Fprop => Self::planes(problem, &x, &y)?,
                ConvPass::Dgrad => Self::planes(problem, &y, &x)?,
                ConvPass::Wgrad => Self::filter(problem, &x, &y)?,
            }
        };
        matrices.product.set_operand_bytes(problem.bytes());
        Ok(matrices)
    }

    /// `fprop` and `dgrad`, channels last.
    fn rows(problem: &ConvProblem, read: &Rows, written: &Rows) -> Result<Self, Refusal> {
        let (groups, w) = (problem.groups(), problem.w());
        let mut strides = [w.strides()[1], w.strides()[0]];
        let group_stride = (w.dims()[0] / groups).saturating_mul(w.strides()[0]);
        if problem.conv_pass() == ConvPass::Dgrad {
            strides.swap(0, 1);
        }
        // Images that lie evenly in both tensors are one matrix.
        let [read, written] = Rows::together([read, written]);
        let (k, n) = (read.channels / groups, written.channels / groups);
        let tensor =
            |dims: &[i64], strides: &[i64]| TensorDesc::strided(w.dtype(), dims, strides).map_err(Refusal::from);
        let images = |rows: &Rows| {
            let channels = rows.channels / groups;
            tensor(&[rows.count, groups, rows.positions, channels], &[rows.stride, channels, rows.position_stride, 1])
        };
        let b = tensor(&[read.count, groups, k, n], &[0, group_stride, strides[0], strides[1]])?;
        let problem = MatmulProblem::new(&images(&read)?, &b, &images(&written)?).map_err(Refusal::from)?;
        Ok(Matrices { product: Product::of(&problem)?, factors: [0, 1] })
    }

    /// `fprop` and `dgrad`, channels before the image.
    fn planes(problem: &ConvProblem, read: &Image, written: &Image) -> Result<Self, Refusal> {
        let (groups, w) = (problem.groups(), problem.w());
        let mut strides = [w.strides()[0], w.strides()[1]];
        let group_stride = (w.dims()[0] / groups).saturating_mul(strides[0]);
        if problem.conv_pass() == ConvPass::Dgrad {
            strides.swap(0, 1);
        }
        let (k, m) = (read.channels / groups, written.channels / groups);
        let tensor =
            |dims: &[i64], strides: &[i64]| TensorDesc::strided(w.dtype(), dims, strides).map_err(Refusal::from);
        let images = |image: &Image| {
            let channels = image.channels / groups;
            let group_stride = channels.saturating_mul(image.channel_stride);
            tensor(
                &[image.count, groups, channels, image.positions],
                &[image.stride, group_stride, image.channel_stride, 1],
            )
        };
        let a = tensor(&[read.count, groups, m, k], &[0, group_stride, strides[0], strides[1]])?;
        let problem = MatmulProblem::new(&a, &images(read)?, &images(written)?).map_err(Refusal::from)?;
        Ok(Matrices { product: Product::of(&problem)?, factors: [1, 0] })
    }

    /// `wgrad`, channels last.
    fn filter_of_rows(problem: &ConvProblem, x: &Rows, dy: &Rows) -> Result<Self, Refusal> {
        let (groups, dw) = (problem.groups(), problem.w());
        let [x, dy] = Rows::together([x, dy]);
        if groups != 1 && x.count > 1 {
            let reason = format!("computes wgrad of one group where images lie apart, given {groups}");
            return Err(Refusal::new(reason));
        }
        let (c, k) = (x.channels / groups, dy.channels / groups);
        let tensor =
            |dims: &[i64], strides: &[i64]| TensorDesc::strided(dw.dtype(), dims, strides).map_err(Refusal::from);
        // The matrices that are multiplied are groups, or images whose products are added up.
        let [n_matrices, x_stride, dy_stride] =
            if x.count > 1 { [x.count, x.stride, dy.stride] } else { [groups, c, k] };
        let a = tensor(&[n_matrices, k, dy.positions], &[dy_stride, 1, dy.position_stride])?;
        let b = tensor(&[n_matrices, x.positions, c], &[x_stride, x.position_stride, 1])?;
        let product = if x.count > 1 {
            Product::summed(&a, &b, &tensor(&[k, c], &dw.strides()[..2])?)?
        } else {
            let group_stride = k.saturating_mul(dw.strides()[0]);
            let dw = tensor(&[groups, k, c], &[group_stride, dw.strides()[0], dw.strides()[1]])?;
            Product::of(&MatmulProblem::new(&a, &b, &dw).map_err(Refusal::from)?)?
        };
        Ok(Matrices { product, factors: [1, 0] })
    }

    /// `wgrad`, channels before the image.
    fn filter(problem: &ConvProblem, x: &Image, dy: &Image) -> Result<Self, Refusal> {
        let dw = problem.w();
        if problem.groups() != 1 {
            return Err(Refusal::new(format!("computes wgrad of one group, given {}", problem.groups())));
        }
        let tensor =
            |dims: &[i64], strides: &[i64]| TensorDesc::strided(dw.dtype(), dims, strides).map_err(Refusal::from);
        let a = tensor(&[dy.count, dy.channels, dy.positions], &[dy.stride, dy.channel_stride, 1])?;
        let b = tensor(&[x.count, x.positions, x.channels], &[x.stride, 1, x.channel_stride])?;
        let c = tensor(&dw.dims()[..2], &dw.strides()[..2])?;
        Ok(Matrices { product: Product::summed(&a, &b, &c)?, factors: [1, 0] })
    }
}

/// Images whose channels are neighbours, and whose positions lie evenly.
#[derive(Clone, Copy)]
struct Rows {
    count: i64,
    channels: i64,
    positions: i64,
    /// Between images.
    stride: i64,
    position_stride: i64,
}

impl Rows {
    /// Describes a tensor, unless it is none.
    fn of(desc: &TensorDesc) -> Option<Self> {
        let (dims, strides) = (desc.dims(), desc.strides());
        if dims[1] > 1 && strides[1] != 1 {
            return None;
        }
        // Of what there is one of, the distance to the next is any.
        let innermost = (2..dims.len()).rev().find(|&i| dims[i] > 1);
        let position_stride = innermost.map_or(dims[1], |i| strides[i]);
        let mut positions = 1;
        for i in (2..dims.len()).rev() {
            if dims[i] > 1 && strides[i] != positions * position_stride {
                return None;
            }
            positions *= dims[i];
        }
        // Channels that lie so far apart that others lie between them are no rows.
        if positions > 1 && position_stride < dims[1] {
            return None;
        }
        let stride = if dims[0] > 1 { strides[0] } else { positions * position_stride };
        Some(Rows { count: dims[0], channels: dims[1], positions, stride, position_stride })
    }

    /// The same with all positions as those of one image, where both tensors have them.
    fn together(both: [&Rows; 2]) -> [Rows; 2] {
        let evenly = both.iter().all(|rows| rows.stride == rows.positions * rows.position_stride);
        both.map(|&rows| match evenly {
            true => Rows { count: 1, positions: rows.count * rows.positions, ..rows },
            false => rows,
        })
    }
}

/// Images whose positions lie one behind the other.
pub(super) struct Image {
    count: i64,
    channels: i64,
    positions: i64,
    /// Between images.
    pub(super) stride: i64,
    pub(super) channel_stride: i64,
}

impl Image {
    /// Describes a tensor, or tells why it is none.
    pub(super) fn of(name: &str, desc: &TensorDesc) -> Result<Self, Refusal> {
        let (dims, strides) = (desc.dims(), desc.strides());
        let mut positions = 1;
        for i in (2..dims.len()).rev() {
            if dims[i] > 1 && strides[i] != positions {
                let reason = format!("needs {name} with positions one behind the other, its strides are {strides:?}");
                return Err(Refusal::new(reason));
            }
            positions *= dims[i];
        }
        // Of what there is one of, the distance to the next is any.
        let plane = |count: i64, stride: i64, dense: i64| if count > 1 { stride } else { dense };
        let channel_stride = plane(dims[1], strides[1], positions);
        let stride = plane(dims[0], strides[0], dims[1].saturating_mul(channel_stride));
        Ok(Image { count: dims[0], channels: dims[1], positions, stride, channel_stride })
    }
}

/// Launches that are complete but for addresses and scalars.
struct MatricesLaunch {
    /// Of the operands that are read.
    names: [&'static str; 2],
    /// Which of them the factors are.
    factors: [usize; 2],
    product: TmaLaunch,
}

impl Launch for MatricesLaunch {
    fn launch(&self, stream: &Stream, call: &mut Call<'_>) -> Result<(), Error> {
        let [a, b] = self.factors.map(|operand| call.address(operand));
        for (factor, address) in [a, b].into_iter().enumerate() {
            if !self.product.copies(factor) {
                check_address(self.names[self.factors[factor]], address)?;
            }
        }
        self.product.run(stream, [a, b, call.address(2)], call.workspace_address(), call.alpha, call.beta)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matrices(text: &str) -> Result<Matrices, String> {
        Matrices::of(&text.parse().unwrap()).map_err(|Refusal(reason)| reason)
    }

    #[test]
    fn refusals_name_the_numbers() {
        let refusal = |text: &str| matrices(text).map(|_| ()).unwrap_err();
        assert!(refusal("conv:fprop x=2x64x8x8:bf16 w=64x64x3x3:bf16").contains("given [1, 3, 3]"));
        assert!(refusal("conv:fprop stride=2 x=2x64x8x8:bf16 w=64x64x1x1:bf16").contains("to [1, 4, 4]"));
        assert!(
            refusal("conv:fprop x=2x64x8x8:bf16:nhwc w=64x64x1x1:bf16 y=2x64x8x8:bf16:nchw").contains("needs x with")
        );
        assert!(refusal("conv:fprop x=2x64x8x8:f32 w=64x64x1x1:f32").contains("element type is f32"));
        let apart = "conv:wgrad groups=2 x=2x64x8x8:bf16:s8192x1x512x64 dy=2x64x8x8:bf16:nhwc dw=64x32x1x1:bf16";
        assert!(refusal(apart).contains("images lie apart, given 2"), "{}", refusal(apart));
        assert!(refusal("conv:wgrad groups=2 x=2x64x8x8:bf16 dw=64x32x1x1:bf16").contains("one group, given 2"));
        assert!(refusal("conv:wgrad x=2x64x7x7:bf16 dw=64x64x1x1:bf16").contains("multiples of 16 bytes"));
    }
}
