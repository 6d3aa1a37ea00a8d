//! Convolution with filters of one tap and channels before the image, as NCHW has them, on Hopper's tensor cores: matrix
//! products with the planes as they lie.
//!
//! For each image y is w times x, channels by positions, and dx is wᵀ times dy. dw is the sum over all images of dy times
//! xᵀ. Where planes do not begin at multiples of 16 bytes, as the copy engine wants them, the product copies them first;
//! reading several planes as one row does not help, since copies of its later parts would begin between such multiples
//! (an H200 was seen to fault on them).

use super::im2col_wgmma::{check_address, check_device, tma_type, unsupported};
use super::{ConvPass, ConvProblem};
use crate::ops::matmul::{MatmulProblem, Product, TmaLaunch};
use crate::plan::{Call, Launch};
use crate::select::{Algorithm, Config, Refusal};
use crate::{Context, Error, Problem, Stream, TensorDesc};

/// Planes as matrices.
pub(super) struct PointwiseMatmul;

impl Algorithm<ConvProblem> for PointwiseMatmul {
    fn name(&self) -> &'static str {
        "pointwise_matmul"
    }

    fn configs(&self, problem: &ConvProblem, context: &Context) -> Result<Vec<Config>, Refusal> {
        check_device(context)?;
        Ok(Planes::of(problem)?.product.configs(context))
    }

    fn workspace_bytes(&self, problem: &ConvProblem, config: Config) -> u64 {
        Planes::of(problem).map_or(0, |planes| planes.product.workspace_bytes(config))
    }

    fn estimate_us(&self, problem: &ConvProblem, config: Config, context: &Context) -> f64 {
        let Ok(planes) = Planes::of(problem) else { return f64::INFINITY };
        planes.product.estimate_us(config, context)
    }

    fn prepare(&self, problem: &ConvProblem, config: Config, context: &Context) -> Result<Box<dyn Launch>, Error> {
        let planes = Planes::of(problem).map_err(|refusal| unsupported(problem, refusal))?;
        Ok(Box::new(PlanesLaunch {
            names: match problem.conv_pass() {
                ConvPass::Fprop => ["w", "x"],
                ConvPass::Dgrad => ["w", "dy"],
                ConvPass::Wgrad => ["dy", "x"],
            },
            product: planes.product.prepare(config, context)?,
        }))
    }
}

/// A problem as a matrix product: w (or dy, for `wgrad`) times the images.
struct Planes {
    product: Product,
}

impl Planes {
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
        let (x, y) = (Image::of("x", problem.x())?, Image::of("y", problem.y())?);
        let mut planes = match problem.conv_pass() {
            ConvPass::Fprop => Self::images(problem, &x, &y)?,
            ConvPass::Dgrad => Self::images(problem, &y, &x)?,
            ConvPass::Wgrad => Self::filter(problem, &x, &y)?,
        };
        planes.product.set_operand_bytes(problem.bytes());
        Ok(planes)
    }

    /// `fprop` and `dgrad`.
    fn images(problem: &ConvProblem, read: &Image, written: &Image) -> Result<Self, Refusal> {
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
        Ok(Planes { product: Product::of(&problem)? })
    }

    /// `wgrad`.
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
        Ok(Planes { product: Product::summed(&a, &b, &c)? })
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
struct PlanesLaunch {
    /// Of the factors.
    names: [&'static str; 2],
    product: TmaLaunch,
}

impl Launch for PlanesLaunch {
    fn launch(&self, stream: &Stream, call: &mut Call<'_>) -> Result<(), Error> {
        let (a, b, c) = (call.address(1), call.address(0), call.address(2));
        if !self.product.copies(0) {
            check_address(self.names[0], a)?;
        }
        if !self.product.copies(1) {
            check_address(self.names[1], b)?;
        }
        self.product.run(stream, [a, b, c], call.workspace_address(), call.alpha, call.beta)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planes(text: &str) -> Result<Planes, String> {
        Planes::of(&text.parse().unwrap()).map_err(|Refusal(reason)| reason)
    }

    #[test]
    fn refusals_name_the_numbers() {
        let refusal = |text: &str| planes(text).map(|_| ()).unwrap_err();
        assert!(refusal("conv:fprop x=2x64x8x8:bf16 w=64x64x3x3:bf16").contains("given [1, 3, 3]"));
        assert!(refusal("conv:fprop stride=2 x=2x64x8x8:bf16 w=64x64x1x1:bf16").contains("to [1, 4, 4]"));
        assert!(refusal("conv:fprop x=2x64x8x8:bf16:nhwc w=64x64x1x1:bf16").contains("needs x with positions"));
        assert!(refusal("conv:fprop x=2x64x8x8:f32 w=64x64x1x1:f32").contains("element type is f32"));
        assert!(refusal("conv:wgrad groups=2 x=2x64x8x8:bf16 dw=64x32x1x1:bf16").contains("one group, given 2"));
        assert!(refusal("conv:wgrad x=2x64x7x7:bf16 dw=64x64x1x1:bf16").contains("multiples of 16 bytes"));
    }
}
