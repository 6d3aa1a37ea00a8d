//! Convolution with filters of one tap, a stride, and channels before the image: the positions that are met are picked
//! into the workspace, and [`pointwise_matmul`] multiplies them; `dgrad` writes what it computed back to where it belongs,
//! and zeros between.
//!
//! [`pointwise_matmul`]: super::pointwise_matmul

use super::im2col_wgmma::tma_type;
use super::pointwise_matmul::{Image, PointwiseMatmul};
use super::{ConvDesc, ConvPass, ConvProblem};
use crate::driver::{Function, GpuStream};
use crate::launch::{LaunchConfig, covering_grid, launch};
use crate::plan::{Call, Launch};
use crate::select::{Algorithm, Config, Refusal, check_hopper};
use crate::{Context, DType, Error, Stream, TensorDesc};
use kernel_abi::division::Divisor;
use kernel_abi::ops::conv::ConvStridedPlanesParams;

macro_rules! rows {
    ($(($symbol:ident, $what:ident, $dtype:ident)),* $(,)?) => {
        &[$((stringify!($symbol), stringify!($what), kernel_abi::dtype_of!($dtype))),*]
    };
}

/// Symbol, what it does, element type.
const KERNELS: &[(&str, &str, DType)] = kernel_abi::conv_strided_planes_kernels!(rows);

/// Threads of a block.
const BLOCK: u32 = 256;
/// What parts of the workspace are aligned to.
const ALIGN_BYTES: u64 = 256;

/// Picked positions as matrices.
pub(super) struct PointwiseStrided;

impl Algorithm<ConvProblem> for PointwiseStrided {
    fn name(&self) -> &'static str {
        "pointwise_strided"
    }

    fn configs(&self, problem: &ConvProblem, context: &Context) -> Result<Vec<Config>, Refusal> {
        check_hopper(context)?;
        PointwiseMatmul.configs(&Picked::of(problem)?.problem, context)
    }

    fn workspace_bytes(&self, problem: &ConvProblem, config: Config) -> u64 {
        let Ok(picked) = Picked::of(problem) else { return 0 };
        picked.bytes() + PointwiseMatmul.workspace_bytes(&picked.problem, config)
    }

    fn estimate_us(&self, problem: &ConvProblem, config: Config, context: &Context) -> f64 {
        /// Launching and ending a kernel more.
        const LAUNCH_US: f64 = 2.0;
        /// Share of the memory's rate.
        const MEMORY_SHARE: f64 = 0.75;
        let Ok(picked) = Picked::of(problem) else { return f64::INFINITY };
        // Rows are read whole where some of their positions are.
        let rows = if problem.conv_pass() == ConvPass::Dgrad { 1 } else { problem.shape().axes[1].stride };
        let bytes = problem.x().data_bytes() as f64 / rows as f64 + picked.bytes() as f64;
        let picking_us = LAUNCH_US + bytes / (MEMORY_SHARE * context.info().bytes_per_us);
        picking_us + PointwiseMatmul.estimate_us(&picked.problem, config, context)
    }

    fn prepare(&self, problem: &ConvProblem, config: Config, context: &Context) -> Result<Box<dyn Launch>, Error> {
        let picked = Picked::of(problem).map_err(|refusal| refusal.into_error(self.name(), problem))?;
        let kernel = |what: &str| {
            let fits = |row: &&(&'static str, &str, DType)| row.1 == what && row.2 == problem.x().dtype();
            let (symbol, ..) = KERNELS.iter().find(fits).expect("both types have both kernels");
            context.function(symbol)
        };
        Ok(Box::new(PickedLaunch {
            pick: kernel("pick")?,
            spread: kernel("spread")?,
            pass: problem.conv_pass(),
            product: PointwiseMatmul.prepare(&picked.problem, config, context)?,
            bytes: picked.bytes(),
            n_planes: (picked.problem.x().dims()[0] * picked.problem.x().dims()[1]) as u32,
            params: picked.params,
        }))
    }
}

/// A problem with the positions of x that are met in the place of x.
struct Picked {
    problem: ConvProblem,
    /// But for addresses, runs and what depends on those.
    params: ConvStridedPlanesParams,
}

impl Picked {
    fn of(problem: &ConvProblem) -> Result<Self, Refusal> {
        tma_type(problem.x().dtype())?;
        let (shape, axes) = (problem.shape(), problem.axes());
        let pads = shape.axes.iter().any(|axis| axis.padding != 0 || axis.padding_end != 0);
        if axes.len() > 2 || shape.filter != [1; 3] || pads || shape.image == shape.output {
            let (filter, image, output) = (shape.filter, shape.image, shape.output);
            let reason = format!(
                "takes one or two axes and filters of one tap that read some of the positions, without padding, given \
                 {filter:?} from {image:?} to {output:?}"
            );
            return Err(Refusal::new(reason));
        }
        let image = Image::of("x", problem.x())?;
        let mut dims = problem.x().dims().to_vec();
        dims[2..].copy_from_slice(&problem.y().dims()[2..]);
        let x = TensorDesc::packed(problem.x().dtype(), &dims).map_err(Refusal::from)?;
        let (w, y) = (problem.w(), problem.y());
        let desc = ConvDesc::new().groups(problem.groups()).mode(problem.mode());
        let inner = ConvProblem::new(problem.conv_pass(), &desc, &x, w, y);
        let ([_, h, width], [_, p, q]) = (shape.image, shape.output);
        let units = problem.x().n_elems();
        if units > i64::from(i32::MAX) {
            return Err(Refusal::new(format!("takes up to {} elements of x, given {units}", i32::MAX)));
        }
        // All fit now: none is larger than x, but for a stride, beyond which there is nothing.
        let stride = [1, 2].map(|i| Divisor::new(shape.axes[i].stride.min(shape.image[i]) as u32));
        Ok(Picked {
            problem: inner.map_err(Refusal::from)?,
            params: ConvStridedPlanesParams {
                planes: 0,
                picked: 0,
                image_stride: image.stride,
                channel_stride: image.channel_stride,
                n_units: 0,
                run: 0,
                row_units: Divisor::new(1),
                rows: Divisor::new(1),
                channels: Divisor::new(shape.c as u32),
                stride,
                picked_extents: [p as u32, q as u32],
                extents: [h as u32, width as u32],
                beta: 0.0,
            },
        })
    }

    /// Bytes of the picked positions, which the workspace begins with.
    fn bytes(&self) -> u64 {
        self.problem.x().span_bytes().next_multiple_of(ALIGN_BYTES)
    }
}

/// The parameters of a launch for planes at this address: as many positions a thread as alignment allows.
fn launch_params(
    params: &ConvStridedPlanesParams,
    n_planes: u32,
    [planes, picked]: [u64; 2],
    writes_planes: bool,
    beta: f32,
) -> ConvStridedPlanesParams {
    let ([p, q], [h, width]) = (params.picked_extents, params.extents);
    let (image_stride, channel_stride) = (params.image_stride as u64, params.channel_stride as u64);
    let fits = |run: &u32| {
        let bytes = 4 * u64::from(*run);
        let aligned = [planes, 2 * image_stride, 2 * channel_stride, 2 * u64::from(width), 2 * picked]
            .iter()
            .all(|distance| distance.is_multiple_of(bytes));
        aligned && q.is_multiple_of(*run)
    };
    let pairs = params.stride[1].divisor == 2 && width == 2 * q && beta == 0.0;
    let run = [4, 2, 1].into_iter().find(fits).filter(|_| pairs).unwrap_or(0);
    let (rows, row_units) = match (writes_planes, run) {
        (true, 0) => (h, width),
        (true, _) => (h, q / run),
        (false, 0) => (p, q),
        (false, _) => (p, q / run),
    };
    ConvStridedPlanesParams {
        planes,
        picked,
        n_units: n_planes * rows * row_units,
        run,
        row_units: Divisor::new(row_units),
        rows: Divisor::new(rows),
        beta,
        ..*params
    }
}

/// Launches that are complete but for addresses and scalars.
struct PickedLaunch {
    pick: Function,
    spread: Function,
    params: ConvStridedPlanesParams,
    /// Planes of all images.
    n_planes: u32,
    /// Where the workspace goes on behind the picked positions.
    bytes: u64,
    pass: ConvPass,
    product: Box<dyn Launch>,
}

impl PickedLaunch {
    fn queue(&self, function: &Function, stream: &GpuStream, params: &ConvStridedPlanesParams) -> Result<(), Error> {
        let config = LaunchConfig { programmatic: true, ..covering_grid(params.n_units, BLOCK) };
        launch(function, &config, stream, params)
    }
}

impl Launch for PickedLaunch {
    fn launch(&self, stream: &Stream, call: &mut Call<'_>) -> Result<(), Error> {
        let name = self.pick.name();
        let (gpu_stream, workspace) = (stream.gpu_stream_for(name)?, call.gpu_workspace(name)?);
        // Of x, or dx.
        let operand = if self.pass == ConvPass::Dgrad { 2 } else { 0 };
        let (planes, picked) = (call.address(operand), workspace.address());
        let params = |writes_planes: bool, beta: f64| {
            launch_params(&self.params, self.n_planes, [planes, picked], writes_planes, beta as f32)
        };
        if operand == 0 || call.beta != 0.0 {
            self.queue(&self.pick, gpu_stream, &params(false, 0.0))?;
        }
        let part = workspace.part(0, self.bytes);
        let rest = workspace.part(self.bytes, workspace.len_bytes());
        self.product.launch(stream, &mut call.inner(|i| (i == operand).then_some(part), rest))?;
        if operand == 2 {
            self.queue(&self.spread, gpu_stream, &params(true, call.beta))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_take_as_many_positions_as_alignment_allows() {
        let units = |text: &str, planes: u64, writes: bool, beta: f32| {
            let picked = Picked::of(&text.parse().unwrap()).unwrap();
            let params = launch_params(&picked.params, 6, [planes, 512], writes, beta);
            (params.run, params.n_units, params.rows.divisor, params.row_units.divisor)
        };
        let wide = "conv:fprop stride=2 x=2x3x56x56:bf16 w=8x3x1x1:bf16";
        assert_eq!(units(wide, 256, false, 0.0), (4, 6 * 28 * 7, 28, 7));
        assert_eq!(units(wide, 264, false, 0.0), (2, 6 * 28 * 14, 28, 14));
        assert_eq!(units(wide, 256, true, 0.0), (4, 6 * 56 * 7, 56, 7));
        assert_eq!(units(wide, 256, true, 1.0), (0, 6 * 56 * 56, 56, 56));
        let narrow = "conv:fprop stride=2 x=2x3x14x14:bf16 w=8x3x1x1:bf16";
        assert_eq!(units(narrow, 256, true, 0.0), (1, 6 * 14 * 7, 14, 7));
        let odd = "conv:fprop stride=3x2 x=2x3x14x13:bf16 w=8x3x1x1:bf16";
        assert_eq!(units(odd, 256, false, 0.0), (0, 6 * 5 * 7, 5, 7));
    }

    #[test]
    fn the_product_is_of_the_picked_positions() {
        let inner = |text: &str| Picked::of(&text.parse().unwrap()).map(|picked| picked.problem.to_string());
        assert_eq!(
            inner("conv:dgrad stride=2 dx=2x64x14x14:bf16 w=72x64x1x1:bf16").unwrap(),
            "conv:dgrad pad=0x0 stride=1x1 dil=1x1 groups=1 dy=2x72x7x7:bf16 w=72x64x1x1:bf16 dx=2x64x7x7:bf16"
        );
        let refusal = |text: &str| inner(text).unwrap_err().0;
        assert!(refusal("conv:fprop x=2x64x8x8:bf16 w=64x64x1x1:bf16").contains("from [1, 8, 8] to [1, 8, 8]"));
        assert!(refusal("conv:fprop stride=2 x=2x64x8x8:bf16:nhwc w=64x64x1x1:bf16").contains("needs x"));
    }
}
