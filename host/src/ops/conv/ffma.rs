//! f32 convolution in scalar arithmetic: tiles in shared memory, 8 × 8 sums a thread, operands of any strides, no
//! workspace.
//!
//! A strided `dgrad` is a launch for each class of positions that meet the same taps.

use super::im2col_wgmma::{Class, Positions, classes, five};
use super::{ConvMode, ConvPass, ConvProblem};
use crate::driver::Function;
use crate::launch::{LaunchConfig, launch_on};
use crate::plan::{Call, Launch};
use crate::select::{Algorithm, Config, Refusal, check_gpu};
use crate::{Context, DType, Error, Stream};
use kernel_abi::division::Divisor;
use kernel_abi::ops::conv::ffma::{ConvFfmaParams, ConvFfmaWgradParams, FFMA_K, FfmaTile};

/// A row of the kernel list.
struct Row {
    symbol: &'static str,
    /// Whether it computes `wgrad`, or the two other passes.
    wgrad: bool,
    tile: FfmaTile,
}

macro_rules! rows {
    ($(($symbol:ident, $name:ident, $params:ident, $size:literal)),* $(,)?) => {
        &[$(Row { symbol: stringify!($symbol), wgrad: rows!(@$name), tile: FfmaTile($size) }),*]
    };
    (@gather) => {
        false
    };
    (@wgrad) => {
        true
    };
}

const KERNELS: &[Row] = kernel_abi::conv_ffma_kernels!(rows);

/// The most extents, tiles and terms that the kernels count, positions of the padding among them.
const MOST: i64 = 1 << 30;

/// The most classes of a strided `dgrad`.
const MOST_CLASSES: i64 = 64;

/// Tiles in shared memory, for f32.
pub(super) struct Ffma;

fn tile_of(config: Config) -> FfmaTile {
    KERNELS.iter().find(|row| row.symbol == config.0).expect("configs come from the kernel list").tile
}

/// Refuses what the kernels cannot count.
fn check(problem: &ConvProblem) -> Result<(), Refusal> {
    let dtype = problem.x().dtype();
    if dtype != DType::F32 {
        return Err(Refusal::new(format!("has kernels for f32, the element type is {dtype}")));
    }
    let shape = problem.shape();
    let mut n_classes = 1i64;
    for (i, axis) in shape.axes.iter().enumerate() {
        let reaches = [
            (shape.output[i] - 1).saturating_mul(axis.stride),
            (shape.filter[i] - 1).saturating_mul(axis.dilation),
            axis.padding,
            shape.image[i],
        ];
        let reach = reaches.into_iter().fold(0i64, i64::saturating_add);
        if reach > MOST {
            return Err(Refusal::new(format!(
                "counts up to {MOST} positions of an axis with its padding, given {reach}"
            )));
        }
        n_classes = n_classes.saturating_mul(axis.stride.min(shape.image[i]));
        if axis.stride > MOST {
            return Err(Refusal::new(format!("takes strides up to {MOST}, given {}", axis.stride)));
        }
    }
    if problem.conv_pass() == ConvPass::Dgrad && n_classes > MOST_CLASSES {
        return Err(Refusal::new(format!("takes up to {MOST_CLASSES} classes of positions, given {n_classes}")));
    }
    let product = |extents: &[i64]| extents.iter().fold(1i64, |product, &extent| product.saturating_mul(extent));
    let [z, p, q] = shape.output;
    let [d, h, w] = shape.image;
    let [t, r, s] = shape.filter;
    let channels = shape.group_c().max(shape.group_k());
    for counted in
        [product(&[shape.n, z, p, q]), product(&[shape.n, d, h, w]), product(&[t, r, s, channels]), shape.groups]
    {
        if counted > MOST {
            return Err(Refusal::new(format!("counts up to {MOST} positions, terms and columns, given {counted}")));
        }
    }
    Ok(())
}

/// Rows, columns, and terms of the sum, of the products a problem falls apart into.
fn products(problem: &ConvProblem) -> Vec<[i64; 3]> {
    let shape = problem.shape();
    if problem.conv_pass() == ConvPass::Wgrad {
        let columns = shape.filter.iter().product::<i64>() * shape.group_c();
        return vec![[shape.group_k(), columns, shape.n * shape.output.iter().product::<i64>()]];
    }
    let (written, columns, channels) = if problem.conv_pass() == ConvPass::Fprop {
        (problem.y(), shape.group_k(), shape.group_c())
    } else {
        (problem.x(), shape.group_c(), shape.group_k())
    };
    let written = Positions::anyhow(written);
    let of = |class: &Class| [class.positions(&written).count(), columns, class.n_taps() * channels];
    classes(problem).0.iter().map(of).collect()
}

/// Tiles of a product, of all groups.
fn n_tiles([m, n, _]: [i64; 3], tile: FfmaTile, groups: i64) -> i64 {
    let blocks = |extent: i64| (extent as u64).div_ceil(tile.0.into()) as i64;
    blocks(m).saturating_mul(blocks(n)).saturating_mul(groups)
}

impl Algorithm<ConvProblem> for Ffma {
    fn name(&self) -> &'static str {
        "ffma"
    }

    fn spread(&self, problem: &ConvProblem, _: Config) -> crate::select::Spread {
        super::algorithms::padding_spread(problem)
    }

    fn configs(&self, problem: &ConvProblem, context: &Context) -> Result<Vec<Config>, Refusal> {
        check_gpu(context)?;
        check(problem)?;
        let (products, groups) = (products(problem), problem.groups());
        let most = |tile: FfmaTile| products.iter().map(|&product| n_tiles(product, tile, groups)).max().unwrap_or(0);
        let wgrad = problem.conv_pass() == ConvPass::Wgrad;
        let fits = |row: &&Row| row.wgrad == wgrad && most(row.tile) <= MOST;
        let configs: Vec<_> = KERNELS.iter().filter(fits).map(|row| Config(row.symbol)).collect();
        if configs.is_empty() {
            return Err(Refusal::new(format!("counts up to {MOST} tiles, given {}", most(FfmaTile(128)))));
        }
        Ok(configs)
    }

    fn workspace_bytes(&self, _: &ConvProblem, _: Config) -> u64 {
        0
    }

    fn estimate_us(&self, problem: &ConvProblem, config: Config, context: &Context) -> f64 {
        /// What loads element by element, and their addresses, leave of the arithmetic.
        const SHARE: f64 = 0.4;
        /// Cycles of eight terms for a block that has a multiprocessor to itself, at least.
        const LATENCY: f64 = 1000.0;
        const LAUNCH_US: f64 = 3.0;
        let (tile, info) = (tile_of(config), context.info());
        let rate = if info.compute_capability == (8, 0) { 64.0 } else { 128.0 };
        let work = f64::from(tile.0 * tile.0 * FFMA_K) / (SHARE * rate);
        // Blocks that share a multiprocessor hide each other's latency.
        let resident = if tile.0 == 128 { 1.0 } else { 4.0 };
        let mut us = 0.0;
        for product in products(problem) {
            let steps = (product[2] as f64 / f64::from(FFMA_K)).ceil();
            let blocks = (n_tiles(product, tile, problem.groups()) as f64 / info.n_units as f64).ceil();
            let cycles = (blocks * steps * work).max((blocks / resident).ceil() * steps * LATENCY);
            us += LAUNCH_US + cycles / super::im2col_wgmma::CYCLES_PER_US;
        }
        us.max(crate::select::cost::streaming_us(problem, context))
    }

    fn prepare(&self, problem: &ConvProblem, config: Config, context: &Context) -> Result<Box<dyn Launch>, Error> {
        let tile = tile_of(config);
        let (function, groups) = (context.function(config.0)?, problem.groups());
        let config = |product: [i64; 3]| LaunchConfig {
            grid: [n_tiles(product, tile, groups) as u32, 1, 1],
            block: [tile.threads(), 1, 1],
            shared_bytes: tile.smem_bytes(),
            ..LaunchConfig::default()
        };
        let products = products(problem);
        if problem.conv_pass() == ConvPass::Wgrad {
            let (config, params) = (config(products[0]), wgrad_params(problem, tile));
            return Ok(Box::new(WgradLaunch { function, config, params }));
        }
        let (classes, step) = classes(problem);
        let launches = classes.iter().zip(&products);
        let launches =
            launches.map(|(class, &product)| (config(product), params(problem, class, step, tile))).collect();
        Ok(Box::new(GatherLaunch { function, launches }))
    }
}

fn blocks(extent: i64, tile: FfmaTile) -> Divisor {
    Divisor::new((extent as u32).div_ceil(tile.0))
}

fn divisors(extents: [i64; 3]) -> [Divisor; 3] {
    extents.map(|extent| Divisor::new(extent as u32))
}

/// The launch of a class, but for addresses and scalars: `out` is the distance of its first element.
fn params(problem: &ConvProblem, class: &Class, step: [i64; 3], tile: FfmaTile) -> ConvFfmaParams {
    let shape = problem.shape();
    let [k, c, t, r, s] = five(problem.w());
    let (read, written, gemm_n, channels, filter_strides) = if problem.conv_pass() == ConvPass::Fprop {
        (problem.x(), problem.y(), shape.group_k(), shape.group_c(), [shape.group_k() * k, k, c])
    } else {
        (problem.y(), problem.x(), shape.group_c(), shape.group_k(), [shape.group_k() * k, c, k])
    };
    let (all, taps) = (Positions::anyhow(written), [t, r, s]);
    let positions = class.positions(&all);
    let [image, channel, ..] = five(written);
    let [d, h, w] = positions.strides;
    let extents = Positions::anyhow(read).extents;
    let first: i64 = (0..3).map(|i| class.axes[i].first * all.strides[i]).sum();
    ConvFfmaParams {
        read: 0,
        read_strides: five(read),
        filter: 0,
        filter_strides,
        first_tap: (0..3).map(|i| class.axes[i].first_tap * taps[i]).sum(),
        tap_steps: std::array::from_fn(|i| class.axes[i].tap_step * taps[i]),
        out: first as u64,
        out_strides: [image, channel, d, h, w],
        read_extents: extents.map(|extent| extent as u32),
        base: class.axes.map(|axis| axis.base as i32),
        step: step.map(|step| step as u32),
        tap_offset: class.axes.map(|axis| axis.tap_offset as u32),
        taps: class.axes.map(|axis| axis.n_taps as u32),
        gemm_m: positions.count() as u32,
        extents: divisors(positions.extents),
        gemm_n: gemm_n as u32,
        n_blocks: blocks(gemm_n, tile),
        groups: Divisor::new(shape.groups as u32),
        channels: channels as u32,
        positions_first: u32::from(read.strides()[1] != 1 || channels == 1),
        columns_first: u32::from(filter_strides[1] < filter_strides[2]),
        alpha: 1.0,
        beta: 0.0,
    }
}

fn wgrad_params(problem: &ConvProblem, tile: FfmaTile) -> ConvFfmaWgradParams {
    let shape = problem.shape();
    let columns = shape.filter.iter().product::<i64>() * shape.group_c();
    ConvFfmaWgradParams {
        dy: 0,
        dy_strides: five(problem.y()),
        x: 0,
        x_strides: five(problem.x()),
        dw: 0,
        dw_strides: five(problem.w()),
        positions: (shape.n * shape.output.iter().product::<i64>()) as u32,
        output: divisors(shape.output),
        image: shape.image.map(|extent| extent as u32),
        padding: shape.axes.map(|axis| axis.padding as i32),
        stride: shape.axes.map(|axis| axis.stride as u32),
        dilation: shape.axes.map(|axis| axis.dilation as u32),
        filter: divisors(shape.filter),
        group_c: Divisor::new(shape.group_c() as u32),
        group_k: shape.group_k() as u32,
        columns: columns as u32,
        m_blocks: blocks(shape.group_k(), tile),
        n_blocks: blocks(columns, tile),
        flip: u32::from(problem.mode() == ConvMode::Convolution),
        positions_first: u32::from(problem.x().strides()[1] != 1 || shape.group_c() == 1),
        alpha: 1.0,
        beta: 0.0,
    }
}

/// All launches' parameters, or a refusal.
#[cfg(test)]
pub(super) fn planned(problem: &ConvProblem) -> Result<usize, Refusal> {
    check(problem)?;
    let tile = KERNELS[0].tile;
    if problem.conv_pass() == ConvPass::Wgrad {
        let _ = wgrad_params(problem, tile);
        return Ok(products(problem).len());
    }
    let (classes, step) = classes(problem);
    for class in &classes {
        let _ = params(problem, class, step, tile);
    }
    Ok(products(problem).len())
}

/// `fprop` and `dgrad`: a launch for each class.
struct GatherLaunch {
    function: Function,
    launches: Vec<(LaunchConfig, ConvFfmaParams)>,
}

impl Launch for GatherLaunch {
    fn launch(&self, stream: &Stream, call: &mut Call<'_>) -> Result<(), Error> {
        let [read, filter, written] = [0, 1, 2].map(|operand| call.address(operand));
        for (config, params) in &self.launches {
            let (alpha, beta) = (call.alpha as f32, call.beta as f32);
            let out = written + params.out * 4;
            launch_on(stream, &self.function, config, &ConvFfmaParams { read, filter, out, alpha, beta, ..*params })?;
        }
        Ok(())
    }
}

/// `wgrad`.
struct WgradLaunch {
    function: Function,
    config: LaunchConfig,
    params: ConvFfmaWgradParams,
}

impl Launch for WgradLaunch {
    fn launch(&self, stream: &Stream, call: &mut Call<'_>) -> Result<(), Error> {
        let [x, dy, dw] = [0, 1, 2].map(|operand| call.address(operand));
        let (alpha, beta) = (call.alpha as f32, call.beta as f32);
        launch_on(stream, &self.function, &self.config, &ConvFfmaWgradParams { x, dy, dw, alpha, beta, ..self.params })
    }
}
