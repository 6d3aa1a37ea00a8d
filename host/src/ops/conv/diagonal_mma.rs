//! One filter a channel on the portable tensor cores: f16 and bf16, channels last, all passes but a strided `dgrad`;
//! `fprop` and `dgrad` where that is faster, of 7 × 7 taps, and 5 × 5 with stride 2.
//!
//! Scalar sums take longer than memory from 5 × 5 taps on. Tensor cores compute eight times what is needed, the
//! products of eight channels with each other, and take less. In `fprop` and `dgrad` zeros stand between the filters of
//! eight channels, so an infinity or NaN in one of them also reaches the others.
//!
//! `wgrad` with several slabs has a second kernel, which adds them up in a fixed order.

use super::grouped_mma::{Partials, check_aligned, check_copies};
use super::{ConvPass, ConvProblem};
use crate::driver::Function;
use crate::launch::{LaunchConfig, launch};
use crate::plan::{Call, Launch};
use crate::select::{Algorithm, Config, Refusal, Spread, check_gpu};
use crate::{Context, DType, Error, Problem, Stream};
use kernel_abi::ops::conv::ConvMode;
use kernel_abi::ops::conv::diagonal_mma::{
    ConvDiagonalParams, DIAGONAL_SLICE, DIAGONAL_THREADS, DIAGONAL_UNIT, DiagonalTaps,
};

/// A row of the kernel lists.
#[derive(Debug)]
struct Row {
    symbol: &'static str,
    taps: DiagonalTaps,
    /// Units that a row may have.
    most_units: u32,
    /// Blocks of a multiprocessor that the kernel's registers allow.
    blocks: u32,
    dtype: DType,
}

macro_rules! gather_rows {
    ($(($symbol:ident, $r:literal, $stride:literal, $units:literal, $blocks:literal, $dtype:ident)),* $(,)?) => {
        &[$(Row {
            symbol: stringify!($symbol),
            taps: DiagonalTaps { extent: $r, stride: $stride },
            most_units: 2 * $units,
            blocks: $blocks,
            dtype: kernel_abi::dtype_of!($dtype),
        }),*]
    };
}

macro_rules! wgrad_rows {
    ($(($symbol:ident, $r:literal, $stride:literal, $blocks:literal, $dtype:ident)),* $(,)?) => {
        &[$(Row {
            symbol: stringify!($symbol),
            taps: DiagonalTaps { extent: $r, stride: $stride },
            most_units: MAX_WGRAD_UNITS,
            blocks: $blocks,
            dtype: kernel_abi::dtype_of!($dtype),
        }),*]
    };
}

/// Units of a row in `wgrad`: more gain nothing.
const MAX_WGRAD_UNITS: u32 = 16;

const GATHER_KERNELS: &[Row] = kernel_abi::conv_diagonal_gather_kernels!(gather_rows);
const WGRAD_KERNELS: &[Row] = kernel_abi::conv_diagonal_wgrad_kernels!(wgrad_rows);

/// Tensor cores, of whose products the diagonals matter.
pub(super) struct DiagonalMma;

impl Algorithm<ConvProblem> for DiagonalMma {
    fn name(&self) -> &'static str {
        "diagonal_mma"
    }

    fn configs(&self, problem: &ConvProblem, context: &Context) -> Result<Vec<Config>, Refusal> {
        check_gpu(context)?;
        cut(problem).map(|cut| vec![Config(cut.row.symbol)]).map_err(Refusal::new)
    }

    fn spread(&self, problem: &ConvProblem, _: Config) -> Spread {
        match problem.conv_pass() {
            // Eight channels are multiplied with each other's zeros.
            ConvPass::Fprop | ConvPass::Dgrad => Spread::Group,
            // Rows are filled up to 8 columns with zeros of dy.
            ConvPass::Wgrad => Spread::Window,
        }
    }

    fn workspace_bytes(&self, problem: &ConvProblem, _: Config) -> u64 {
        cut(problem).map_or(0, |cut| cut.partials_bytes(problem))
    }

    fn estimate_us(&self, problem: &ConvProblem, _: Config, context: &Context) -> f64 {
        /// Launch, tables, the first rows and the last ones; a second kernel, whose sums come from the cache.
        const ENDS_US: f64 = 3.3;
        const SECOND_US: f64 = 1.6;
        /// Share of the memory's rate.
        const MEMORY_SHARE: f64 = 0.75;
        /// Cycles of a multiprocessor in a microsecond.
        const CYCLES_PER_US: f64 = 1700.0;
        let Ok(cut) = cut(problem) else { return f64::INFINITY };
        let info = context.info();
        let memory_us = problem.bytes() / (MEMORY_SHARE * info.bytes_per_us);
        let products_us = cut.cycles / CYCLES_PER_US * f64::from(UNITS) / info.n_units as f64;
        let second_us = match cut.partials_bytes(problem) {
            0 => 0.0,
            bytes => SECOND_US + bytes as f64 / info.bytes_per_us,
        };
        ENDS_US + memory_us.max(products_us) + second_us
    }

    fn prepare(&self, problem: &ConvProblem, config: Config, context: &Context) -> Result<Box<dyn Launch>, Error> {
        let cut = cut(problem).map_err(|reason| Refusal::new(reason).into_error(self.name(), problem))?;
        let function = context.function(config.0)?;
        // Not this problem's size: plans share the function.
        function.allow_dynamic_shared(MAX_SHARED_BYTES as usize)?;
        let slabs = cut.params.slabs;
        let partials = problem.conv_pass() == ConvPass::Wgrad && slabs > 1;
        Ok(Box::new(DiagonalLaunch {
            function,
            config: LaunchConfig {
                grid: [slabs * cut.params.slices, 1, 1],
                block: [DIAGONAL_THREADS, 1, 1],
                shared_bytes: cut.params.smem_bytes(cut.row.taps, problem.conv_pass()),
                ..LaunchConfig::default()
            },
            params: cut.params,
            pass: problem.conv_pass(),
            partials: if partials { Some(Partials::new(problem, slabs, context)?) } else { None },
        }))
    }
}

/// A launch whose parameters are complete but for addresses and scalars.
struct DiagonalLaunch {
    function: Function,
    config: LaunchConfig,
    params: ConvDiagonalParams,
    pass: ConvPass,
    partials: Option<Partials>,
}

impl Launch for DiagonalLaunch {
    fn launch(&self, stream: &Stream, call: &mut Call<'_>) -> Result<(), Error> {
        let (images, filter) = match self.pass {
            ConvPass::Fprop => ([(0, "x"), (2, "y")], 1),
            ConvPass::Dgrad => ([(0, "dy"), (2, "dx")], 1),
            ConvPass::Wgrad => ([(0, "x"), (1, "dy")], 2),
        };
        check_aligned(call, "diagonal_mma", "depthwise", images)?;
        let mut params = self.params;
        (params.source, params.target) = (call.address(images[0].0), call.address(images[1].0));
        params.filter = call.address(filter);
        if self.partials.is_some() {
            params.partials = call.workspace.range().0;
        }
        (params.alpha, params.beta) = (call.alpha as f32, call.beta as f32);
        launch(&self.function, &self.config, stream.gpu_stream_for(self.function.name())?, &params)?;
        self.partials.as_ref().map_or(Ok(()), |partials| partials.launch(stream, call))
    }
}

/// How a problem is cut.
#[derive(Debug)]
struct Cut {
    row: &'static Row,
    /// All but addresses and scalars.
    params: ConvDiagonalParams,
    /// Cycles that a multiprocessor of a large device takes for the first kernel.
    cycles: f64,
}

impl Cut {
    /// Bytes of slabs of partial sums.
    fn partials_bytes(&self, problem: &ConvProblem) -> u64 {
        match (problem.conv_pass(), self.params.slabs) {
            (ConvPass::Fprop | ConvPass::Dgrad, _) | (_, 1) => 0,
            (_, slabs) => u64::from(slabs) * problem.w().n_elems() as u64 * 4,
        }
    }
}

/// Multiprocessors that problems are cut for, on however many a device has: a workspace's size may not depend on that.
const UNITS: u32 = 132;
/// Shared memory of such a multiprocessor, and what the system takes of it for a block.
const UNIT_SHARED_BYTES: u32 = 228 * 1024;
const RESERVED_BYTES: u32 = 1024;
/// The most that a block may have, on every device.
const MAX_SHARED_BYTES: u32 = 99 * 1024;
/// Images of a row at most: more gain nothing.
const MAX_IMAGES: u32 = 16;
/// Cycles of `wgrad`'s second kernel, which problems of several slabs have.
const SECOND_CYCLES: f64 = 2500.0;

/// How a problem is cut with the least cycles, or why there is no way.
fn cut(problem: &ConvProblem) -> Result<Cut, String> {
    let (row, params) = judge(problem)?;
    let (taps, pass) = (row.taps, problem.conv_pass());
    let all_units = params.target_extents[1].div_ceil(DIAGONAL_UNIT);
    let fewest_tiles = all_units.div_ceil(row.most_units);
    let (mut best, mut least_cycles) = (None, f64::INFINITY);
    for tiles in fewest_tiles..=(2 * fewest_tiles).min(all_units) {
        let mut tried = params;
        tried.units = all_units.div_ceil(tiles);
        tried.tiles = all_units.div_ceil(tried.units);
        let columns = taps.columns(tried.units);
        if tried.tiles == 1 {
            // What stands beside the image stays zero.
            let padding = params.padding[1];
            tried.source_columns = [padding, params.source_extents[1].min(columns.saturating_sub(padding))];
            tried.target_columns = params.target_extents[1];
        } else {
            tried.source_columns = [0, columns];
            tried.target_columns = tried.units * DIAGONAL_UNIT;
        }
        let most_images = if tried.tiles == 1 { (row.most_units / tried.units).min(MAX_IMAGES) } else { 1 };
        for images in (1..=most_images).filter(|&images| images <= params.n) {
            tried.images = images;
            let bytes = tried.smem_bytes(taps, pass);
            if bytes > MAX_SHARED_BYTES {
                break;
            }
            let resident = row.blocks.min(UNIT_SHARED_BYTES / (bytes + RESERVED_BYTES));
            let most_slabs = (UNITS * resident / params.slices).max(1);
            let groups = params.n.div_ceil(images).saturating_mul(tried.tiles);
            let most_bands = (most_slabs / groups.min(most_slabs)).max(8).min(params.steps);
            for bands in 1..=most_bands {
                tried.band_steps = params.steps.div_ceil(bands);
                tried.bands = params.steps.div_ceil(tried.band_steps);
                let Some(items) = groups.checked_mul(tried.bands).filter(|&items| items < 1 << 30) else { continue };
                tried.items = items;
                let rounds = items.div_ceil(most_slabs.min(items));
                tried.slabs = items.div_ceil(rounds);
                let cycles = cycles(&tried, taps, pass, rounds);
                let second = if pass == ConvPass::Wgrad && tried.slabs > 1 { SECOND_CYCLES } else { 0.0 };
                if cycles + second < least_cycles {
                    (best, least_cycles) = (Some(Cut { row, params: tried, cycles }), cycles + second);
                }
            }
        }
    }
    best.ok_or_else(|| {
        let mut least = params;
        least.units = 1;
        format!(
            "finds no way to cut images of {}x{} into at most {} rounds of rows of at least {} bytes of shared memory",
            params.target_extents[0],
            params.target_extents[1],
            1 << 30,
            least.smem_bytes(taps, pass)
        )
    })
}

/// Cycles of the first kernel where each block does `rounds` items.
fn cycles(params: &ConvDiagonalParams, taps: DiagonalTaps, pass: ConvPass, rounds: u32) -> f64 {
    /// Of a step of a block that has the multiprocessor for itself: from barrier to barrier, for each pair of units, and
    /// for each of their products. All five are fitted to times of mobilenet's filters on an H200.
    const ALONE: f64 = 1200.0;
    const PAIR_ALONE: f64 = 120.0;
    const PRODUCT_ALONE: f64 = 16.0;
    /// Of a step beside other blocks, and of its products.
    const STEP: f64 = 400.0;
    const PRODUCT: f64 = 11.0;
    let resident = f64::from((params.slabs * params.slices).div_ceil(UNITS));
    let pairs = f64::from(params.row_units() / 2);
    let products = pairs * f64::from(taps.extent * taps.pairs());
    let alone = ALONE + PAIR_ALONE * pairs + PRODUCT_ALONE * products;
    let step = alone.max(resident * (STEP + PRODUCT * products));
    let more = f64::from(taps.held() - 1);
    // Steps beside a band's: in `wgrad` they bring rows of dy, else they are as any other.
    let more = match pass {
        ConvPass::Wgrad => more * STEP,
        ConvPass::Fprop | ConvPass::Dgrad => more * step,
    };
    f64::from(rounds) * (f64::from(params.band_steps) * step + more)
}

/// The kernel for a problem, and its parameters but for how it is cut.
fn judge(problem: &ConvProblem) -> Result<(&'static Row, ConvDiagonalParams), String> {
    let (shape, dtype, pass) = (problem.shape(), problem.x().dtype(), problem.conv_pass());
    if problem.axes().len() != 2 {
        return Err(format!("has kernels for 2 spatial axes, the problem has {}", problem.axes().len()));
    }
    if shape.groups != shape.c || shape.k != shape.c {
        return Err(format!(
            "takes as many groups and output channels as input channels, given {} groups of {} channels to {}",
            shape.groups, shape.c, shape.k
        ));
    }
    check_copies(problem)?;
    let [_, h, w] = shape.axes;
    if (h.dilation, w.dilation) != (1, 1) {
        return Err(format!("takes neighbouring taps, given dilation {}x{}", h.dilation, w.dilation));
    }
    if pass == ConvPass::Dgrad && (h.stride, w.stride) != (1, 1) {
        return Err(format!("has dgrad for stride 1x1, given {}x{}", h.stride, w.stride));
    }
    let [_, r, s] = shape.filter;
    let fits = |row: &&Row| {
        let (extent, stride) = (i64::from(row.taps.extent), i64::from(row.taps.stride));
        (row.dtype, extent, extent, stride, stride) == (dtype, r, s, h.stride, w.stride)
    };
    let kernels = if pass == ConvPass::Wgrad { WGRAD_KERNELS } else { GATHER_KERNELS };
    let Some(row) = kernels.iter().find(fits) else {
        return Err(format!(
            "has kernels for f16 and bf16, {} and stride 1x1 and 2x2, given {dtype}, {r}x{s} and {}x{}",
            match pass {
                ConvPass::Wgrad => "3x3, 5x5 and 7x7 taps",
                ConvPass::Fprop | ConvPass::Dgrad => "7x7 taps, 5x5 with stride 2x2,",
            },
            h.stride,
            w.stride
        ));
    };
    if let Some(padding) = [h.padding, w.padding].into_iter().find(|&padding| padding >= r) {
        return Err(format!("takes padding below the filter's extent, given {padding} and {r}"));
    }
    // Pixels are counted in 32 bits, columns of a row less than that.
    const LIMIT: i64 = 1 << 30;
    let pixels = |[_, rows, columns]: [i64; 3]| shape.n.saturating_mul(rows).saturating_mul(columns);
    for (name, value, limit) in [
        ("pixels of x", pixels(shape.image), LIMIT),
        ("pixels of y", pixels(shape.output), LIMIT),
        ("channels", shape.c, LIMIT),
        ("columns of x", shape.image[2], 1 << 20),
        ("columns of y", shape.output[2], 1 << 20),
    ] {
        if value >= limit {
            return Err(format!("needs {name} below {limit}, given {value}"));
        }
    }
    let pair = |values: [i64; 3]| [values[1] as u32, values[2] as u32];
    let (image, output) = (pair(shape.image), pair(shape.output));
    let mut padding = [h.padding as u32, w.padding as u32];
    let (source, target) = if pass == ConvPass::Dgrad { (output, image) } else { (image, output) };
    if pass == ConvPass::Dgrad {
        padding = padding.map(|padding| row.taps.extent - 1 - padding);
    }
    // `wgrad` goes over the source's rows, the others over the target's.
    let steps = match pass {
        ConvPass::Wgrad => (source[0] - 1 + padding[0]) / row.taps.stride + 1,
        ConvPass::Fprop | ConvPass::Dgrad => target[0],
    };
    let params = ConvDiagonalParams {
        source: 0,
        target: 0,
        filter: 0,
        partials: 0,
        n: shape.n as u32,
        channels: shape.c as u32,
        source_extents: source,
        target_extents: target,
        padding,
        flip: u32::from((problem.mode() == ConvMode::Convolution) != (pass == ConvPass::Dgrad)),
        images: 1,
        units: 1,
        tiles: 1,
        source_columns: [0; 2],
        target_columns: 0,
        steps,
        band_steps: 1,
        bands: 1,
        items: 1,
        slabs: 1,
        slices: (shape.c as u32).div_ceil(DIAGONAL_SLICE),
        alpha: 1.0,
        beta: 0.0,
        unused: 0,
    };
    Ok((row, params))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every way to cut covers all columns, rows and images, in no more shared memory than a block has.
    #[test]
    fn cuts_cover_the_target() {
        for (text, tiles) in [
            ("conv:fprop pad=2x2 stride=2x2 groups=32 x=1x32x224x224:bf16:nhwc w=32x1x5x5:bf16:nhwc", 2..=4),
            ("conv:fprop pad=3x3 groups=96 x=128x96x56x56:bf16:nhwc w=96x1x7x7:bf16:nhwc", 2..=4),
            ("conv:dgrad pad=3x3 groups=960 dx=128x960x7x7:bf16:nhwc w=960x1x7x7:bf16:nhwc", 1..=1),
            ("conv:wgrad pad=2x2 stride=2x2 groups=72 x=128x72x56x56:bf16:nhwc dw=72x1x5x5:bf16:nhwc", 1..=4),
            ("conv:wgrad pad=3x3 groups=768 x=128x768x7x7:bf16:nhwc dw=768x1x7x7:bf16:nhwc", 1..=1),
            ("conv:wgrad pad=1x1 groups=1024 x=1x1024x7x7:bf16:nhwc dw=1024x1x3x3:bf16:nhwc", 1..=1),
            ("conv:wgrad pad=1x1 groups=8 x=2x8x9x4001:f16:nhwc dw=8x1x3x3:f16:nhwc", 30..=100),
        ] {
            let problem: ConvProblem = text.parse().unwrap();
            let cut = cut(&problem).unwrap_or_else(|e| panic!("{text}: {e}"));
            let p = &cut.params;
            assert!(tiles.contains(&p.tiles), "{text}: {p:?}");
            assert!(p.tiles * p.units * DIAGONAL_UNIT >= p.target_extents[1], "{text}: {p:?}");
            assert!(p.bands * p.band_steps >= p.steps && (p.bands - 1) * p.band_steps < p.steps, "{text}: {p:?}");
            assert_eq!(p.items, p.n.div_ceil(p.images) * p.tiles * p.bands, "{text}");
            assert!(p.row_units() <= cut.row.most_units.next_multiple_of(2), "{text}: {p:?}");
            assert!(p.smem_bytes(cut.row.taps, problem.conv_pass()) <= MAX_SHARED_BYTES, "{text}: {p:?}");
            println!("{:.0} cycles, {} bytes: {p:?}", cut.cycles, p.smem_bytes(cut.row.taps, problem.conv_pass()));
        }
    }
}
