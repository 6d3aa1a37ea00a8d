//! Convolution with filters of one tap between channels-last tensors of which one has few channels, as at the end of a
//! network that tells a few classes of positions apart: lanes share a position's channels and memory is all that it takes.

use super::im2col_wgmma::Positions;
use super::{ConvPass, ConvProblem};
use crate::driver::Function;
use crate::launch::{LaunchConfig, launch};
use crate::plan::{Call, Launch};
use crate::select::cost::LAUNCH_US;
use crate::select::{Algorithm, Config, Refusal, Spread};
use crate::{Context, DType, Error, Problem, Stream, TensorDesc};
use kernel_abi::ops::conv::pointwise_lanes::{ConvPointwiseLanesParams, LANES, MAX_FEW, THREADS, VECTOR_BYTES};

/// A row of the kernel list.
struct Row {
    symbol: &'static str,
    /// Whether the wide tensor is read.
    gathers: bool,
    dtype: DType,
    few: i64,
}

macro_rules! rows {
    ($(($symbol:ident, $what:ident, $dtype:ident, $few:literal)),* $(,)?) => {
        &[$(Row {
            symbol: stringify!($symbol),
            gathers: gathers!($what),
            dtype: kernel_abi::dtype_of!($dtype),
            few: $few,
        }),*]
    };
}

macro_rules! gathers {
    (gather) => {
        true
    };
    (spread) => {
        false
    };
}

const KERNELS: &[Row] = kernel_abi::conv_pointwise_lanes_kernels!(rows);

/// Lanes that share positions.
pub(super) struct PointwiseLanes;

impl Algorithm<ConvProblem> for PointwiseLanes {
    fn name(&self) -> &'static str {
        "pointwise_lanes"
    }

    fn configs(&self, problem: &ConvProblem, context: &Context) -> Result<Vec<Config>, Refusal> {
        if !context.is_gpu() {
            return Err(Refusal::new("takes a GPU, given the CPU"));
        }
        let (row, _) = of(problem)?;
        Ok(vec![Config(row.symbol)])
    }

    fn spread(&self, problem: &ConvProblem, _: Config) -> Spread {
        crate::ops::conv::algorithms::padding_spread(problem)
    }

    fn workspace_bytes(&self, _: &ConvProblem, _: Config) -> u64 {
        0
    }

    fn estimate_us(&self, problem: &ConvProblem, _: Config, context: &Context) -> f64 {
        /// What a block takes from its begin to its first products: it brings the filter first.
        const BEGIN_US: f64 = 1.5;
        /// Share of the memory's rate.
        const MEMORY_SHARE: f64 = 0.85;
        LAUNCH_US + BEGIN_US + problem.bytes() / (MEMORY_SHARE * context.info().bytes_per_us)
    }

    fn prepare(&self, problem: &ConvProblem, _: Config, context: &Context) -> Result<Box<dyn Launch>, Error> {
        /// Blocks of a multiprocessor below which teams have positions once.
        const BLOCKS: i64 = 16;
        const MOST_ROUNDS: i64 = 4;
        let (row, mut params) = of(problem).map_err(|refusal| refusal.into_error(self.name(), problem))?;
        let least = BLOCKS * context.info().n_units as i64 * i64::from(params.block_positions());
        params.rounds = (i64::from(params.n_positions) / least).clamp(1, MOST_ROUNDS) as u32;
        let blocks = params.n_positions.div_ceil(params.block_positions()).max(1);
        Ok(Box::new(LanesLaunch {
            function: context.function(row.symbol)?,
            config: LaunchConfig {
                grid: [blocks, 1, 1],
                block: [THREADS, 1, 1],
                programmatic: true,
                ..LaunchConfig::default()
            },
            gathers: row.gathers,
            wide: match (row.gathers, problem.conv_pass()) {
                (true, ConvPass::Fprop) => "x",
                (false, ConvPass::Fprop) => "y",
                (true, _) => "dy",
                (false, _) => "dx",
            },
            params,
        }))
    }
}

/// The kernel of a problem, and parameters but for rounds and what only a run knows.
fn of(problem: &ConvProblem) -> Result<(&'static Row, ConvPointwiseLanesParams), Refusal> {
    let pass = problem.conv_pass();
    if pass == ConvPass::Wgrad {
        return Err(Refusal::new("takes fprop and dgrad, given wgrad"));
    }
    let (shape, groups) = (problem.shape(), problem.groups());
    let is_plain = |axis: &crate::ops::conv::ConvAxis| (axis.padding, axis.padding_end, axis.stride) == (0, 0, 1);
    if groups != 1 || shape.filter != [1; 3] || !shape.axes.iter().all(is_plain) {
        return Err(Refusal::new(format!(
            "takes one group, filters of one tap, stride 1 and no padding, given {groups} groups, {:?} taps of {:?}",
            shape.filter, shape.axes
        )));
    }
    // What is read has few channels, or what is written.
    let most = i64::from(MAX_FEW);
    let gathers = if pass == ConvPass::Fprop { shape.k <= shape.c } else { shape.c <= shape.k };
    let k_is_few = gathers == (pass == ConvPass::Fprop);
    let (n_few, n_wide) = if k_is_few { (shape.k, shape.c) } else { (shape.c, shape.k) };
    let (x, w, y) = (problem.x(), problem.w(), problem.y());
    let (few, wide) = if k_is_few { (y, x) } else { (x, y) };
    let dtype = x.dtype();
    let fits = |row: &&Row| row.gathers == gathers && row.dtype == dtype && n_few <= row.few;
    let Some(row) = KERNELS.iter().find(fits).filter(|_| w.dtype() == dtype && y.dtype() == dtype) else {
        return Err(Refusal::new(format!(
            "takes up to {most} channels of x or y, all tensors f32, f16 or bf16, given {n_few} with {dtype}, {} and {}",
            w.dtype(),
            y.dtype()
        )));
    };
    let vector = i64::from(VECTOR_BYTES) / dtype.size_bytes() as i64;
    let most_wide = i64::from(LANES) * vector;
    let [wide_pitch, few_pitch] = [pitch(wide)?, pitch(few)?];
    if n_wide % vector != 0 || n_wide > most_wide || wide.strides()[1] != 1 || wide_pitch % vector != 0 {
        return Err(Refusal::new(format!(
            "takes multiples of {vector} channels up to {most_wide}, contiguous, in positions that lie multiples of \
             {vector} apart, of the wider tensor, given {n_wide}, {} and {wide_pitch} apart",
            wide.strides()[1]
        )));
    }
    let n_positions = shape.n * shape.output.iter().product::<i64>();
    let Ok(n_positions) = i32::try_from(n_positions) else {
        return Err(Refusal::new(format!("takes up to {} positions, given {n_positions}", i32::MAX)));
    };
    let [k_stride, c_stride] = [w.strides()[0], w.strides()[1]];
    let (w_few_stride, w_wide_stride) = if k_is_few { (k_stride, c_stride) } else { (c_stride, k_stride) };
    let params = ConvPointwiseLanesParams {
        wide: 0,
        few: 0,
        w: 0,
        wide_pitch,
        few_pitch,
        few_stride: few.strides()[1],
        w_few_stride,
        w_wide_stride,
        n_positions: n_positions as u32,
        n_wide: n_wide as u32,
        n_few: n_few as u32,
        team_log2: ((n_wide / vector) as u32).next_power_of_two().trailing_zeros(),
        rounds: 1,
        alpha: 1.0,
        beta: 0.0,
        reserved: 0,
    };
    Ok((row, params))
}

/// Elements between positions, of all images.
fn pitch(desc: &TensorDesc) -> Result<i64, Refusal> {
    let positions = Positions::anyhow(desc);
    let even = if positions.count() == 1 { Some(desc.dims()[1]) } else { positions.linear_stride() };
    even.ok_or_else(|| {
        let strides = desc.strides();
        Refusal::new(format!("takes positions of all images that lie evenly one behind the other, given {strides:?}"))
    })
}

/// A launch whose parameters are complete but for what only a run knows.
struct LanesLaunch {
    function: Function,
    config: LaunchConfig,
    gathers: bool,
    /// The wide tensor's name.
    wide: &'static str,
    params: ConvPointwiseLanesParams,
}

impl Launch for LanesLaunch {
    fn launch(&self, stream: &Stream, call: &mut Call<'_>) -> Result<(), Error> {
        let gpu_stream = stream.gpu_stream_for(self.function.name())?;
        let (read, written) = (call.address(0), call.address(2));
        let mut params = self.params;
        (params.wide, params.few) = if self.gathers { (read, written) } else { (written, read) };
        params.w = call.address(1);
        (params.alpha, params.beta) = (call.alpha as f32, call.beta as f32);
        if !params.wide.is_multiple_of(VECTOR_BYTES.into()) {
            let reason = format!(
                "expected an address that is a multiple of {VECTOR_BYTES} for the algorithm pointwise_lanes \
                 (cp_async_mma takes any), given {:#x}",
                params.wide
            );
            return Err(Error::bad(ConvProblem::OP, self.wide, reason));
        }
        launch(&self.function, &self.config, gpu_stream, &params)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_channels_of_either_tensor_are_taken() {
        let symbol = |text: &str| of(&text.parse().unwrap()).map(|(row, params)| (row.symbol, params.team_log2));
        let case = symbol("conv:fprop x=2x32x9x9:bf16:nhwc w=3x32x1x1:bf16:nhwc");
        assert_eq!(case.unwrap(), ("convlanes_gather_bf16_f4", 2));
        let case = symbol("conv:dgrad dx=2x32x9x9:bf16:nhwc w=5x32x1x1:bf16:nhwc");
        assert_eq!(case.unwrap(), ("convlanes_spread_bf16_f8", 2));
        let case = symbol("conv:fprop x=2x3x9x9:f32:nhwc w=24x3x1x1:f32");
        assert_eq!(case.unwrap(), ("convlanes_spread_f32_f4", 3));
        let case = symbol("conv:dgrad dx=2x3x9x9:f16:nhwc w=256x3x1x1:f16");
        assert_eq!(case.unwrap(), ("convlanes_gather_f16_f4", 5));
        for (text, reason) in [
            ("x=2x32x9x9:bf16:nhwc w=9x32x1x1:bf16", "takes up to 8 channels of x or y"),
            ("x=2x32x9x9:bf16 w=3x32x1x1:bf16", "takes positions of all images that lie evenly"),
            ("x=2x36x9x9:bf16:nhwc w=3x36x1x1:bf16", "takes multiples of 8 channels"),
            ("x=2x264x9x9:bf16:nhwc w=3x264x1x1:bf16", "up to 256"),
            ("x=2x32x9x9:bf16:nhwc w=3x32x3x3:bf16", "filters of one tap"),
            ("stride=2x2 x=2x32x9x9:bf16:nhwc w=3x32x1x1:bf16", "stride 1"),
            ("x=2x32x9x9:f64:nhwc w=3x32x1x1:f64", "given 3 with f64"),
        ] {
            let refusal = symbol(&format!("conv:fprop {text}")).unwrap_err().0;
            assert!(refusal.contains(reason), "{text}: {refusal}");
        }
    }
}
