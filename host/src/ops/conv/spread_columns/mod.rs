//! `fprop` and `dgrad` with few channels to write on Hopper's tensor cores: blocks of neighbouring positions, with their
//! channels, are the product's columns.
//!
//! In a strided `dgrad`, the positions between two steps of the stride all read the same window of dy, each with its own
//! taps; where one has no tap, the packed filter has zeros. One product then reads dy once for all of them, instead of
//! once for every class of positions and three channels. Where that leaves columns unused, a block is several steps
//! along H and W, as it is in `fprop`: its window is hardly larger, and there are fewer of them.
//! A small kernel packs the filter into the workspace; the product is [`halo_wgmma`]'s or [`im2col_wgmma`]'s, and its
//! columns are written where they belong, in a tensor of any strides.
//!
//! [`halo_wgmma`]: super::halo_wgmma
//! [`im2col_wgmma`]: super::im2col_wgmma

#[cfg(test)]
mod tests;

use super::halo_wgmma::{self, EitherProduct};
use super::im2col_wgmma::{
    AxisClass, Class, Filter, KERNELS, MULTIPROCESSORS, Positions, Spread, View, check_address, check_window, five,
    row, tma_type,
};
use super::{ConvAxis, ConvMode, ConvPass, ConvProblem};
use crate::driver::Function;
use crate::launch::{LaunchConfig, div_ceil, launch, linear_grid};
use crate::plan::{Call, Launch};
use crate::select::{Algorithm, Config, Refusal, check_hopper};
use crate::{Context, Error, Stream};
use kernel_abi::ops::conv::ConvPackSpreadParams;
use kernel_abi::ops::conv::im2col_wgmma::{
    ConvTile, GATHER_128X128, GATHER_128X128_P32, GATHER_256X64, GATHER_256X64_P32, access,
};

macro_rules! symbols {
    ($(($symbol:ident)),* $(,)?) => {
        [$(stringify!($symbol)),*]
    };
}

const PACK: [&str; 1] = kernel_abi::conv_pack_spread_kernels!(symbols);

/// The tiles of [`im2col_wgmma`](super::im2col_wgmma) that spread columns.
const TILES: [ConvTile; 4] = [GATHER_256X64, GATHER_256X64_P32, GATHER_128X128, GATHER_128X128_P32];
/// Columns of a step of the stride, beyond which there are enough of them without more steps.
const MAX_OF_STEP: i64 = 64;
/// Channels, at most, of which the kernel with the halo has several positions among its 64 columns.
const MOST_WITH_HALO: i64 = 32;
/// The largest distance between positions that the copy engine reads.
const MAX_STEP: i64 = 8;

/// What computes the product.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kernel {
    /// Gathers the positions of a tile.
    Gather(ConvTile),
    /// Reads a tile with its halo once.
    Halo(halo_wgmma::Form),
}

impl Kernel {
    fn of(config: Config) -> Self {
        match KERNELS.iter().any(|row| row.symbol == config.0) {
            true => Kernel::Gather(row(config).tile),
            false => Kernel::Halo(halo_wgmma::row(config).form),
        }
    }
}

/// `fprop` and `dgrad` of few channels to write.
pub(super) struct SpreadColumns;

impl Algorithm<ConvProblem> for SpreadColumns {
    fn name(&self) -> &'static str {
        "spread_columns"
    }

    fn configs(&self, problem: &ConvProblem, context: &Context) -> Result<Vec<Config>, Refusal> {
        check_hopper(context)?;
        // The product is fprop's: the packed filter lies with the channels of the sum contiguous.
        let dtype = problem.x().dtype();
        let with_halo = halo_wgmma::KERNELS
            .iter()
            .filter(|row| row.pass == "fprop" && row.dtype == dtype)
            .filter(|row| Packing::of(problem, Kernel::Halo(row.form)).is_ok())
            .map(|row| Config(row.symbol));
        let fits = KERNELS.iter().filter(|row| {
            let tile = Kernel::Gather(row.tile);
            row.pass == "fprop"
                && row.dtype == dtype
                && TILES.contains(&row.tile)
                && Packing::of(problem, tile)
                    .and_then(|packing| packing.gathered_view(problem))
                    .is_ok_and(|view| view.fits(row.tile))
        });
        let configs: Vec<_> = with_halo.chain(fits.map(|row| Config(row.symbol))).collect();
        if configs.is_empty() {
            // What stands in the way of the plainest one.
            Packing::of(problem, Kernel::Gather(GATHER_256X64))?.gathered_view(problem)?;
        }
        Ok(configs)
    }

    fn spread(&self, _: &ConvProblem, _: Config) -> crate::select::Spread {
        // A block of columns shares a window, with zeros for taps that do not meet them.
        crate::select::Spread::Window
    }

    fn workspace_bytes(&self, problem: &ConvProblem, config: Config) -> u64 {
        Packing::of(problem, Kernel::of(config)).map_or(0, |packing| 2 * packing.n_elems() as u64)
    }

    fn estimate_us(&self, problem: &ConvProblem, config: Config, context: &Context) -> f64 {
        /// Launching and ending a kernel more.
        const PACKING_US: f64 = 3.0;
        let kernel = Kernel::of(config);
        let view = Packing::of(problem, kernel).and_then(|packing| packing.view(problem));
        let Ok(view) = view else { return f64::INFINITY };
        let streaming = crate::select::cost::streaming_us(problem, context);
        let products_us = match kernel {
            Kernel::Gather(tile) => view.products_us(tile, context),
            Kernel::Halo(form) => halo_view(&view).products_us(form, context),
        };
        PACKING_US + streaming.max(products_us)
    }

    fn prepare(&self, problem: &ConvProblem, config: Config, context: &Context) -> Result<Box<dyn Launch>, Error> {
        let refused = |refusal: Refusal| refusal.into_error(self.name(), problem);
        let kernel = Kernel::of(config);
        let packing = Packing::of(problem, kernel).map_err(refused)?;
        let view = packing.view(problem).map_err(refused)?;
        let product = match kernel {
            Kernel::Halo(_) => EitherProduct::halo(halo_view(&view), config, context)?,
            Kernel::Gather(_) => EitherProduct::gather(view, config, context)?,
        };
        let name = if problem.conv_pass() == ConvPass::Fprop { "x" } else { "dy" };
        Ok(Box::new(SpreadLaunch { name, pack: context.function(PACK[0])?, params: packing.params(problem), product }))
    }
}

/// The view for a kernel that reads the halo once.
fn halo_view(view: &View) -> halo_wgmma::View {
    let spread = view.spread.expect("columns are spread");
    halo_wgmma::View {
        data_type: view.data_type,
        read: view.read,
        filter: view.filter,
        class: view.classes[0],
        extents: view.written.extents,
        step: view.step,
        groups: 1,
        channels: view.group_read,
        columns: view.group_written,
        sum_is_contiguous: true,
        strides: [view.written.image_stride, view.written.strides[0]],
        spread,
    }
}

/// The window that the positions of a block read, and the filter for it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packing {
    pass: ConvPass,
    axes: [ConvAxis; 2],
    /// The axis of the depth, whose positions are blocks of their own, and its taps.
    depth: (ConvAxis, i64),
    /// Channels of the sum, and that are written.
    sums: i64,
    channels: i64,
    /// Steps that a block has along H and W: of the stride in `dgrad`.
    steps: [i64; 2],
    /// Where the window begins, relative to the block.
    pub(super) first: [i64; 2],
    /// Extents of the window.
    pub(super) window: [i64; 2],
    pub(super) columns: i64,
    /// Elements for the channels of the sum.
    pub(super) packed_sums: i64,
}

/// Where the window that the positions of a block read begins, relative to the block, and its extent.
fn window(pass: ConvPass, axis: ConvAxis, filter: i64, block: i64) -> [i64; 2] {
    let ConvAxis { padding, stride, dilation, .. } = axis;
    if pass == ConvPass::Fprop {
        return [-padding, (block - 1) * stride + (filter - 1) * dilation + 1];
    }
    let reads = (0..block).flat_map(|a| (0..filter).map(move |tap| a + padding - tap * dilation));
    let reads = reads.filter(|read| read.rem_euclid(stride) == 0).map(|read| read.div_euclid(stride));
    let (first, last) = reads.fold((i64::MAX, i64::MIN), |(first, last), read| (first.min(read), last.max(read)));
    // Steps wider than the filter may leave nothing to read.
    if first > last { [0, 1] } else { [first, last - first + 1] }
}

impl Packing {
    /// The blocks that are fewest products for a kernel.
    fn of(problem: &ConvProblem, kernel: Kernel) -> Result<Self, Refusal> {
        tma_type(problem.x().dtype())?;
        let one = Packing::by(problem, 8, [1; 2])?;
        if matches!(kernel, Kernel::Halo(_)) && one.channels > MOST_WITH_HALO {
            let reason = format!("takes up to {MOST_WITH_HALO} channels with the halo, given {}", one.channels);
            return Err(Refusal::new(reason));
        }
        let most_columns = i64::from(match kernel {
            Kernel::Gather(tile) => tile.gemm_n,
            Kernel::Halo(form) => form.gemm_n(),
        });
        let written = one.written_extents(problem);
        let steps = |i: usize| {
            let [of_block, read] = one.step(i);
            (written[1 + i] / of_block).min(MAX_STEP / read).max(1)
        };
        let sizes = (1..=steps(0)).flat_map(|h| (1..=steps(1)).map(move |w| [h, w]));
        let packings = sizes.filter_map(|steps| {
            (one.columns * steps[0] * steps[1] <= most_columns).then(|| Packing::by(problem, 8, steps).ok()).flatten()
        });
        // A block of one position is what other methods do without packing.
        let packings = packings.filter(|packing| packing.block() != [1; 2]);
        let least = match kernel {
            Kernel::Gather(tile) => packings.min_by_key(|packing| packing.products(problem, tile)),
            Kernel::Halo(form) => {
                let cycles = packings.filter_map(|packing| {
                    let view = halo_view(&packing.view(problem).ok()?);
                    let cycles = view.least_cycles(form).filter(|_| view.fits(form))?;
                    Some((cycles, packing))
                });
                cycles.min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, packing)| packing)
            }
        };
        least.ok_or_else(|| {
            let columns = one.columns;
            Refusal::new(format!(
                "takes blocks of several positions of up to {most_columns} columns, given {columns} columns for one"
            ))
        })
    }

    /// Stages that the busiest multiprocessor computes.
    fn products(&self, problem: &ConvProblem, tile: ConvTile) -> u64 {
        let tiles = (self.blocks(problem).count() as u64).div_ceil(tile.gemm_m.into());
        let taps = (self.depth.1 * self.window[0] * self.window[1]) as u64;
        let panels = taps * (self.sums as u64).div_ceil(tile.panel_k.into());
        tiles.div_ceil(MULTIPROCESSORS) * panels.div_ceil(tile.k_panels().into())
    }

    /// Of any type, with the channels of the sum filled up to a multiple of `align`, and blocks of so many steps.
    pub(super) fn by(problem: &ConvProblem, align: i64, steps: [i64; 2]) -> Result<Self, Refusal> {
        let pass = problem.conv_pass();
        let shape = problem.shape();
        let (sums, channels) = match pass {
            ConvPass::Fprop => (shape.c, shape.k),
            ConvPass::Dgrad => (shape.k, shape.c),
            ConvPass::Wgrad => return Err(Refusal::new("computes fprop and dgrad, the pass is wgrad")),
        };
        if problem.axes().len() < 2 || shape.groups != 1 || problem.mode() == ConvMode::Convolution {
            let (axes, groups, mode) = (problem.axes().len(), shape.groups, problem.mode());
            let reason =
                format!("takes two or three axes, one group and cross_correlation, given {axes}, {groups} and {mode}");
            return Err(Refusal::new(reason));
        }
        let [depth, h, w] = shape.axes;
        if depth.stride != 1 && pass == ConvPass::Dgrad {
            return Err(Refusal::new(format!("takes dgrad of stride 1 along the depth, given {}", depth.stride)));
        }
        let axes = [h, w];
        let (of_step, farthest) = match pass {
            ConvPass::Fprop => (channels, depth.stride.max(h.stride).max(w.stride)),
            _ => (h.stride.saturating_mul(w.stride).saturating_mul(channels), 1),
        };
        // With more channels, a class of positions has columns enough of its own.
        if of_step > MAX_OF_STEP || farthest > MAX_STEP {
            let reason = format!(
                "takes up to {MAX_OF_STEP} columns a step and strides up to {MAX_STEP}, given {of_step} and {farthest}"
            );
            return Err(Refusal::new(reason));
        }
        let block = [0, 1].map(|i| if pass == ConvPass::Fprop { steps[i] } else { axes[i].stride * steps[i] });
        let windows = [0, 1].map(|i| window(pass, axes[i], shape.filter[1 + i], block[i]));
        Ok(Packing {
            pass,
            axes,
            depth: (depth, shape.filter[0]),
            sums,
            channels,
            steps,
            first: windows.map(|[first, _]| first),
            window: windows.map(|[_, extent]| extent),
            columns: channels * block[0] * block[1],
            packed_sums: div_ceil(sums, align) * align,
        })
    }

    /// Positions of a block for each of its steps, and how far apart those are in the tensor that is read.
    fn step(&self, axis: usize) -> [i64; 2] {
        let stride = self.axes[axis].stride;
        if self.pass == ConvPass::Fprop { [1, stride] } else { [stride, 1] }
    }

    /// Positions of a block.
    fn block(&self) -> [i64; 2] {
        [0, 1].map(|i| self.step(i)[0] * self.steps[i])
    }

    fn written_extents(&self, problem: &ConvProblem) -> [i64; 3] {
        let shape = problem.shape();
        if self.pass == ConvPass::Fprop { shape.output } else { shape.image }
    }

    pub(super) fn n_elems(&self) -> i64 {
        self.columns * self.depth.1 * self.window[0] * self.window[1] * self.packed_sums
    }

    pub(super) fn params(&self, problem: &ConvProblem) -> ConvPackSpreadParams {
        let shape = problem.shape();
        let [k, c, t, r, s] = five(problem.w());
        let (first, of_axis) = (self.first, self.axes);
        let fprop = self.pass == ConvPass::Fprop;
        // In dgrad, taps that lie farther read nearer to the begin.
        let depth = if fprop { [0, t] } else { [(self.depth.1 - 1) * t, -t] };
        let base = |i: usize| of_axis[i].padding + first[i] * if fprop { 1 } else { -of_axis[i].stride };
        ConvPackSpreadParams {
            from: 0,
            to: 0,
            strides: if fprop { [c, k, r, s] } else { [k, c, r, s] },
            n_elems: self.n_elems(),
            sums: [self.sums, self.packed_sums],
            channels: self.channels,
            filter: [shape.filter[1], shape.filter[2]],
            depth: [self.depth.1, depth[0], depth[1]],
            block: self.block(),
            base: [0, 1].map(base),
            per_position: of_axis.map(|axis| if fprop { -axis.stride } else { 1 }),
            per_window: of_axis.map(|axis| if fprop { 1 } else { -axis.stride }),
            dilation: of_axis.map(|axis| axis.dilation),
            window: self.window,
        }
    }

    /// What is read, by its name.
    fn read(&self, problem: &ConvProblem) -> Result<(&'static str, Positions), Refusal> {
        let (name, read) = if self.pass == ConvPass::Fprop { ("x", problem.x()) } else { ("dy", problem.y()) };
        Ok((name, Positions::of(name, read, false)?))
    }

    /// [`Packing::view`], unless the copy engine does not gather its windows.
    fn gathered_view(&self, problem: &ConvProblem) -> Result<View, Refusal> {
        let ((name, read), view) = (self.read(problem)?, self.view(problem)?);
        let class = view.classes[0];
        check_window(name, &read, &class.window(view.step), class.last_offset(), view.a_access)?;
        Ok(view)
    }

    fn view(&self, problem: &ConvProblem) -> Result<View, Refusal> {
        let (_, read) = self.read(problem)?;
        let written = self.blocks(problem);
        let filter = Filter {
            k: self.columns,
            group_c: self.sums,
            taps: [self.depth.1, self.window[0], self.window[1]],
            tap_stride: self.packed_sums,
            k_stride: self.depth.1 * self.window[0] * self.window[1] * self.packed_sums,
        };
        let class = self.class(&written);
        let step = [self.depth.0.stride, self.step(0)[1] * self.steps[0], self.step(1)[1] * self.steps[1]];
        let a_access = if problem.axes().len() < 3 { access::IM2COL_2D } else { access::IM2COL_3D };
        if written.count() > i64::from(i32::MAX) {
            return Err(Refusal::new(format!("counts up to {} blocks, given {}", i32::MAX, written.count())));
        }
        Ok(View {
            data_type: tma_type(problem.x().dtype())?,
            read,
            written,
            filter,
            classes: vec![class],
            step,
            groups: 1,
            group_read: self.sums,
            group_written: self.columns,
            a_access,
            out_access: access::SPREAD,
            sum_is_contiguous: true,
            planes: None,
            spread: Some(self.spread(problem)),
        })
    }

    /// Where the columns go.
    pub(super) fn spread(&self, problem: &ConvProblem) -> Spread {
        let [_, c, _, h, w] = five(problem.written());
        let [_, extent_h, extent_w] = self.written_extents(problem);
        Spread {
            counts: [self.block()[0], self.block()[1], self.channels],
            extents: [extent_h, extent_w],
            strides: [h, w, c],
        }
    }

    /// What is written: for each image its blocks, each as many columns.
    pub(super) fn blocks(&self, problem: &ConvProblem) -> Positions {
        let written = self.written_extents(problem);
        let block = self.block();
        let blocks = [0, 1].map(|i| div_ceil(written[1 + i], block[i]));
        let [image_stride, _, depth_stride, ..] = five(problem.written());
        Positions {
            element_bytes: problem.x().dtype().size_bytes() as i64,
            channels: self.columns,
            extents: [written[0], blocks[0], blocks[1]],
            strides: [depth_stride, 1, 1],
            images: problem.shape().n,
            image_stride,
        }
    }

    /// The only class: all blocks, which read the same window.
    pub(super) fn class(&self, blocks: &Positions) -> Class {
        let axis = |i: usize| AxisClass {
            n_taps: self.window[i],
            base: self.first[i],
            ..AxisClass::plain(blocks.extents[1 + i])
        };
        let (depth, taps) = self.depth;
        let back =
            if self.pass == ConvPass::Fprop { depth.padding } else { (taps - 1) * depth.dilation - depth.padding };
        let depth =
            AxisClass { n_taps: taps, base: -back, tap_offset: depth.dilation, ..AxisClass::plain(blocks.extents[0]) };
        Class { axes: [depth, axis(0), axis(1)] }
    }
}

/// Launches whose parameters are complete but for addresses and scalars.
struct SpreadLaunch {
    /// The tensor that is read.
    name: &'static str,
    pack: Function,
    params: ConvPackSpreadParams,
    /// The product whose columns are spread.
    product: EitherProduct,
}

impl Launch for SpreadLaunch {
    fn launch(&self, stream: &Stream, call: &mut Call<'_>) -> Result<(), Error> {
        // The filter and what is written lie anyhow: element by element.
        let [read, w, written] = [0, 1, 2].map(|operand| call.address(operand));
        check_address(self.name, read)?;
        let gpu_stream = stream.gpu_stream_for(self.pack.name())?;
        let packed = call.workspace_address();
        let params = ConvPackSpreadParams { from: w, to: packed, ..self.params };
        let config = LaunchConfig { programmatic: true, ..linear_grid(params.n_elems, 256) };
        launch(&self.pack, &config, gpu_stream, &params)?;
        self.product.launch(stream, [read, packed, written], call.alpha, call.beta)
    }
}
