//! `fprop` and `dgrad` without a workspace: the filter is taken apart inside the kernel, for every tile anew.

use super::gather::{FilterMap, FilterParts, FilterRead, PartsView, Product};
use super::{check, check_address, check_problem, read_name, taps_in_a_row};
use crate::ops::conv::im2col_wgmma::Positions;
use crate::ops::conv::{ConvPass, ConvProblem};
use crate::plan::{Call, Launch};
use crate::select::{Algorithm, Config, Refusal, Spread};
use crate::{Context, Error, Stream};
use kernel_abi::division::Divisor;
use kernel_abi::ops::conv::f32_wgmma::{ConvFilterSource, PARTS_PANEL, WARP};
use kernel_abi::ops::conv::im2col_wgmma::ConvTile;

macro_rules! rows {
    ($(($symbol:ident, $tile:ident)),* $(,)?) => {
        &[$((stringify!($symbol), kernel_abi::ops::conv::f32_wgmma::$tile)),*]
    };
}

/// Kernels whose threads read the filter.
const KERNELS: &[(&str, ConvTile)] = kernel_abi::conv_f16x2_direct_kernels!(rows);

macro_rules! staged_rows {
    ($(($symbol:ident, $tile:ident, $side_by_side:literal)),* $(,)?) => {
        &[$((stringify!($symbol), kernel_abi::ops::conv::f32_wgmma::$tile, $side_by_side)),*]
    };
}

/// Kernels that take apart what the copy engine loads of the filter, and whether its columns lie side by side.
const STAGED: &[(&str, ConvTile, bool)] = kernel_abi::conv_f16x2_staged_kernels!(staged_rows);

/// `fprop` and `dgrad` of f32 images that can be gathered as they lie.
pub(in crate::ops::conv) struct Direct;

fn row(config: Config) -> (&'static str, ConvTile) {
    let staged = STAGED.iter().map(|&(symbol, tile, _)| (symbol, tile));
    KERNELS.iter().copied().chain(staged).find(|row| row.0 == config.0).expect("configs come from the kernel lists")
}

fn is_staged(config: Config) -> bool {
    STAGED.iter().any(|row| row.0 == config.0)
}

impl Algorithm<ConvProblem> for Direct {
    fn name(&self) -> &'static str {
        "f16x2_wgmma_direct"
    }

    fn configs(&self, problem: &ConvProblem, context: &Context) -> Result<Vec<Config>, Refusal> {
        if problem.conv_pass() == ConvPass::Wgrad {
            return Err(Refusal::new("computes fprop and dgrad, the pass is wgrad"));
        }
        check(problem, context)?;
        let (view, source) = planned(problem)?;
        let map = filter_map(&view, &source);
        let staged = STAGED.iter().filter(|row| map.is_some_and(|map| map.side_by_side == row.2));
        let all = staged.map(|&(symbol, tile, _)| (symbol, tile)).chain(KERNELS.iter().copied());
        Ok(all.filter(|row| view.fits(row.1)).map(|row| Config(row.0)).collect())
    }

    fn spread(&self, problem: &ConvProblem, _: Config) -> Spread {
        crate::ops::conv::algorithms::padding_spread(problem)
    }

    fn workspace_bytes(&self, _: &ConvProblem, _: Config) -> u64 {
        0
    }

    fn estimate_us(&self, problem: &ConvProblem, config: Config, context: &Context) -> f64 {
        /// Cycles in which a thread reads an element of the filter and takes it apart.
        const READ: f64 = 80.0;
        let Ok((view, _)) = planned(problem) else { return f64::INFINITY };
        let streaming = crate::select::cost::streaming_us(problem, context);
        let tile = row(config).1;
        let read = if is_staged(config) { 0.0 } else { READ * f64::from(tile.gemm_n * PARTS_PANEL / (4 * WARP)) };
        streaming.max(view.products_us(tile, read, context))
    }

    fn prepare(&self, problem: &ConvProblem, config: Config, context: &Context) -> Result<Box<dyn Launch>, Error> {
        let (view, source) = planned(problem).map_err(|refusal| refusal.into_error(self.name(), problem))?;
        let map = filter_map(&view, &source).filter(|_| is_staged(config));
        let filter = map.map_or(FilterRead::Threads(source), FilterRead::CopyEngine);
        let product = Product::of(view, filter, row(config), context)?;
        Ok(Box::new(DirectLaunch { product, read_name: read_name(problem) }))
    }
}

/// A problem as the kernels see it, and its filter but for the address.
pub(super) fn planned(problem: &ConvProblem) -> Result<(PartsView, ConvFilterSource), Refusal> {
    check_problem(problem)?;
    let read = if problem.conv_pass() == ConvPass::Fprop { problem.x() } else { problem.y() };
    Positions::of(read_name(problem), read, false)?;
    let view = PartsView::with(problem, None)?;
    let source = source(&view)?;
    Ok((view, source))
}

/// The filter as the copy engine loads it, where it can.
fn filter_map(view: &PartsView, source: &ConvFilterSource) -> Option<FilterMap> {
    /// What strides of a tensor map stay below, in elements.
    const MOST: i64 = 1 << 38;
    let FilterParts::Plain(filter) = &view.filter else { return None };
    let n_taps = filter.taps.iter().product();
    let (groups, read, written) = (view.view.groups, view.view.group_read, view.view.group_written);
    let side_by_side = source.rows_first != 0;
    let (dims, strides, of_group) = if side_by_side {
        ([written, n_taps, groups * read], [source.tap_stride, source.channel_stride], read * source.channel_stride)
    } else {
        ([read, n_taps, groups * written], [source.tap_stride, source.row_stride], written * source.row_stride)
    };
    let counts = |i: usize| dims[i + 1] == 1 || (1..MOST).contains(&strides[i]);
    let fits = source.load_bytes == 16 && counts(0) && counts(1) && (groups == 1 || source.group_stride == of_group);
    fits.then_some(FilterMap { dims, strides, side_by_side })
}

/// The filter of a view.
fn source(view: &PartsView) -> Result<ConvFilterSource, Refusal> {
    // Whether four neighbours of so many lie at multiples of 16 bytes, whatever else is counted.
    let quads = |neighbours: i64, strides: &[i64]| strides.iter().fold(neighbours, |all, stride| all | stride) % 4 == 0;
    let none = ConvFilterSource {
        from: 0,
        group_stride: 0,
        row_stride: 0,
        channel_stride: 0,
        tap_stride: 0,
        load_bytes: 4,
        rows_first: 0,
        tap_strides: [0; 2],
        base: [0; 2],
        step: [0; 2],
        dilation: [Divisor::default(); 2],
        taps: [0; 2],
    };
    match &view.filter {
        FilterParts::Plain(filter) => {
            let given = filter.tap_strides;
            let tap_stride = taps_in_a_row(filter.taps, given).ok_or_else(|| {
                Refusal::new(format!("needs w with taps one behind the other, their strides are {given:?}"))
            })?;
            let channel_stride = filter.strides[1];
            // Where rows of all groups lie one behind the other, they are taken apart as those of one.
            let in_a_row = filter.group_rows == filter.rows;
            let group_stride = if in_a_row { view.view.group_written * filter.row_stride } else { filter.group_stride };
            let row_stride = filter.row_stride;
            let in_quads = if filter.rows_first != 0 {
                row_stride == 1 && quads(view.view.group_written, &[group_stride, channel_stride, tap_stride])
            } else {
                channel_stride == 1 && quads(view.view.group_read, &[group_stride, row_stride, tap_stride])
            };
            Ok(ConvFilterSource {
                group_stride,
                row_stride,
                channel_stride,
                tap_stride,
                load_bytes: if in_quads { 16 } else { 4 },
                rows_first: filter.rows_first,
                ..none
            })
        }
        FilterParts::Spread(filter) => {
            let [channel_stride, row_stride, r, s] = filter.strides;
            let narrow = |name: &str, values: [i64; 2]| {
                // Sums of a few of them stay below 2^31.
                const MOST: i64 = 1 << 28;
                match values.iter().all(|value| (-MOST..MOST).contains(value)) {
                    true => Ok(values.map(|value| value as i32)),
                    false => Err(Refusal::new(format!("takes a {name} below {MOST}, given {values:?}"))),
                }
            };
            let dilation = narrow("dilation", filter.dilation)?;
            let rows_first = row_stride < channel_stride;
            let in_quads = !rows_first && channel_stride == 1 && quads(view.view.group_read, &[row_stride, r, s]);
            Ok(ConvFilterSource {
                row_stride,
                channel_stride,
                load_bytes: if in_quads { 16 } else { 4 },
                rows_first: u32::from(rows_first),
                tap_strides: [r, s],
                base: narrow("padding", filter.base)?,
                step: narrow("stride", filter.per_window.map(|step| -step))?,
                dilation: dilation.map(|dilation| Divisor::new(dilation as u32)),
                taps: narrow("filter", filter.filter)?.map(|taps| taps as u32),
                ..none
            })
        }
    }
}

/// The product of operands as they lie.
struct DirectLaunch {
    product: Product,
    read_name: &'static str,
}

impl Launch for DirectLaunch {
    fn launch(&self, stream: &Stream, call: &mut Call<'_>) -> Result<(), Error> {
        let addresses = [0, 1, 2].map(|operand| call.address(operand));
        check_address(self.read_name, addresses[0])?;
        self.product.launch(stream, addresses, [call.alpha, call.beta])
    }
}
