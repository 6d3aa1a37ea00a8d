//! `wgrad`.

use super::cuts::{Cut, Rule};
use super::split_sum::SplitSum;
use super::tensors::{Filter, Positions, Window, check_window};
use super::{check_addresses, tma_type};
use crate::driver::{GpuContext, TmaType};
use crate::ops::conv::{ConvMode, ConvPass, ConvProblem};
use crate::plan::{Call, Launch};
use crate::select::{Algorithm, Config, Refusal, Spread, check_hopper};
use crate::{Context, DType, Error, Stream};
use kernel_abi::division::Divisor;
use kernel_abi::ops::conv::im2col_wgmma::{
    ConvTile, ConvWgradParams, PANEL, ROW_BYTES, STAGE_STEPS, WGRAD_64X256, access,
};

/// A row of the kernel list.
pub(in crate::ops::conv) struct WgradRow {
    pub(in crate::ops::conv) symbol: &'static str,
    pub(in crate::ops::conv) dtype: DType,
    pub(in crate::ops::conv) tile: ConvTile,
    /// Whether the workers add the parts of sums themselves (see `fixup.rs`).
    pub(super) fixup: bool,
    /// Its names with other cuts than the one that is chosen without measuring.
    pub(super) cuts: [(&'static str, Rule); Rule::ALL.len()],
}

macro_rules! rows {
    ($(($symbol:ident, $dtype:ident, $tile:ident, $cluster:literal)),* $(,)?) => {
        rows!(@fixup false, $($symbol, $dtype, $tile),*)
    };
    (@fixup $fixup:literal, $($symbol:ident, $dtype:ident, $tile:ident),*) => {
        &[$(WgradRow {
            symbol: stringify!($symbol),
            dtype: kernel_abi::dtype_of!($dtype),
            tile: kernel_abi::ops::conv::im2col_wgmma::$tile,
            fixup: $fixup,
            cuts: [
                (concat!(stringify!($symbol), "+evenly"), Rule::Evenly),
                (concat!(stringify!($symbol), "+half"), Rule::Half),
                (concat!(stringify!($symbol), "+once"), Rule::Once),
                (concat!(stringify!($symbol), "+twice"), Rule::Twice),
                (concat!(stringify!($symbol), "+equal"), Rule::Equal),
            ],
        }),*]
    };
}

macro_rules! fixup_rows {
    ($(($symbol:ident, $dtype:ident, $tile:ident, $cluster:literal)),* $(,)?) => {
        rows!(@fixup true, $($symbol, $dtype, $tile),*)
    };
}

pub(in crate::ops::conv) const WGRAD_KERNELS: &[WgradRow] = kernel_abi::conv_im2col_wgrad_kernels!(rows);

/// Those that add the parts themselves.
pub(super) const FIXUP_KERNELS: &[WgradRow] = kernel_abi::conv_im2col_fixup_kernels!(fixup_rows);

/// Tiles, the best by estimate, that are offered with other cuts too.
const CUT_TILES: usize = 3;

/// `wgrad` of channels-last tensors of 16-bit types.
pub(in crate::ops::conv) struct Wgrad;

impl Algorithm<ConvProblem> for Wgrad {
    fn name(&self) -> &'static str {
        "im2col_wgmma_split"
    }

    fn configs(&self, problem: &ConvProblem, context: &Context) -> Result<Vec<Config>, Refusal> {
        if problem.conv_pass() != ConvPass::Wgrad {
            return Err(Refusal::new(format!("computes wgrad, the pass is {}", problem.conv_pass())));
        }
        check_hopper(context)?;
        let view = WgradView::of(problem)?;
        let dtype = problem.x().dtype();
        let fits = |row: &&WgradRow| row.dtype == dtype && view.fits(row.tile);
        let rows = WGRAD_KERNELS.iter().filter(fits).map(|row| (row, view.cut(row.tile)));
        let fixups = FIXUP_KERNELS.iter().filter(fits).filter_map(|row| Some((row, view.fixup_cut(row.tile)?)));
        let units = context.info().n_units as u64;
        let mut configs = view.configs(rows.collect(), units);
        configs.extend(view.configs(fixups.collect(), units));
        Ok(configs)
    }

    fn spread(&self, problem: &ConvProblem, _: Config) -> Spread {
        crate::ops::conv::algorithms::padding_spread(problem)
    }

    fn workspace_bytes(&self, problem: &ConvProblem, config: Config) -> u64 {
        let Ok(view) = WgradView::of(problem) else { return 0 };
        let (row, cut) = view.chosen(config);
        view.workspace_bytes(row, cut)
    }

    fn estimate_us(&self, problem: &ConvProblem, config: Config, _: &Context) -> f64 {
        let Ok(view) = WgradView::of(problem) else { return f64::INFINITY };
        let (row, cut) = view.chosen(config);
        // Other cuts are for who measures: none is estimated below the one that is chosen without.
        view.row_us(row, view.own_cut(row)).max(view.row_us(row, cut))
    }

    fn prepare(&self, problem: &ConvProblem, config: Config, context: &Context) -> Result<Box<dyn Launch>, Error> {
        let view = WgradView::of(problem).map_err(|refusal| refusal.into_error(self.name(), problem))?;
        Ok(Box::new(WgradLaunch(SplitSum::of(problem, view, config, context)?)))
    }
}

/// The row of a config, whatever its cut.
pub(in crate::ops::conv) fn wgrad_row(config: Config) -> Option<&'static WgradRow> {
    let names = |row: &&WgradRow| row.symbol == config.0 || row.cuts.iter().any(|(name, _)| *name == config.0);
    WGRAD_KERNELS.iter().chain(FIXUP_KERNELS).find(names)
}

/// A problem as the kernels see it.
#[derive(Debug)]
pub(in crate::ops::conv) struct WgradView {
    pub(in crate::ops::conv) data_type: TmaType,
    pub(in crate::ops::conv) x: Positions,
    pub(in crate::ops::conv) dy: Positions,
    /// dw's taps as x has them, and its distances.
    pub(in crate::ops::conv) dw: Filter,
    pub(in crate::ops::conv) groups: i64,
    pub(in crate::ops::conv) group_c: i64,
    pub(in crate::ops::conv) group_k: i64,
    /// Distance in x between neighbouring taps.
    pub(in crate::ops::conv) tap_offset: [i64; 3],
    pub(in crate::ops::conv) flip: bool,
    pub(in crate::ops::conv) x_access: u32,
    pub(in crate::ops::conv) window: Window,
    /// How dw lies when x is packed: channels of a packed position, real ones, and the distances in dw between
    /// channels and between taps along w. Of f32, the distance between channels counts where nothing is packed too.
    pub(in crate::ops::conv) packed: Option<(i64, i64, i64, i64)>,
}

impl WgradView {
    /// The configs of rows with the cuts chosen for them: all, and the best by estimate with other cuts too, but for those
    /// that a device of so many multiprocessors has no room for.
    fn configs(&self, mut rows: Vec<(&'static WgradRow, Cut)>, units: u64) -> Vec<Config> {
        let has_room = |row: &WgradRow, cut: Cut| !row.fixup || self.fixup_has_room(row.tile, cut, units);
        let own = rows.iter().filter(|(row, cut)| has_room(row, *cut));
        let mut configs: Vec<_> = own.map(|(row, _)| Config(row.symbol)).collect();
        rows.sort_by(|(a, cut_a), (b, cut_b)| self.row_us(a, *cut_a).total_cmp(&self.row_us(b, *cut_b)));
        for (row, cut) in rows.into_iter().take(CUT_TILES) {
            let mut known = vec![cut];
            for (name, rule) in row.cuts {
                let takes = |cut: &Cut| match row.fixup {
                    true => self.takes_fixup(row.tile, *cut),
                    false => !matches!(cut, Cut::Shares(_)),
                };
                let cut = self.cut_by(row.tile, rule).filter(takes);
                if let Some(cut) = cut.filter(|cut| !known.contains(cut) && has_room(row, *cut)) {
                    known.push(cut);
                    configs.push(Config(name));
                }
            }
        }
        configs
    }

    /// What a config stands for.
    pub(in crate::ops::conv) fn chosen(&self, config: Config) -> (&'static WgradRow, Cut) {
        let row = wgrad_row(config).expect("configs come from the kernel list");
        let rule = row.cuts.iter().find(|(name, _)| *name == config.0).map(|(_, rule)| *rule);
        let cut = rule.and_then(|rule| self.cut_by(row.tile, rule));
        (row, cut.unwrap_or_else(|| self.own_cut(row)))
    }

    /// The cut that is chosen for a row without measuring.
    fn own_cut(&self, row: &WgradRow) -> Cut {
        if row.fixup { self.fixup_cut(row.tile).unwrap_or(Cut::Splits(1)) } else { self.cut(row.tile) }
    }

    /// Estimated time of a row.
    fn row_us(&self, row: &WgradRow, cut: Cut) -> f64 {
        if row.fixup { self.fixup_us(row.tile, cut) } else { self.estimate_us(row.tile, cut) }
    }

    /// Workspace of a row.
    pub(in crate::ops::conv) fn workspace_bytes(&self, row: &WgradRow, cut: Cut) -> u64 {
        if row.fixup { self.fixup_bytes(row.tile, cut) } else { self.partials_bytes(row.tile, cut) }
    }

    pub(super) fn of(problem: &ConvProblem) -> Result<Self, Refusal> {
        let data_type = tma_type(problem.x().dtype())?;
        let shape = problem.shape();
        let x = Positions::of("x", problem.x(), false)?;
        let dy = Positions::of("dy", problem.y(), false)?;
        let dw = Filter::written("dw", problem.w())?;
        if dy.linear_stride().is_none() {
            let given = problem.y().strides();
            let reason = format!("needs dy with positions one behind the other, its strides are {given:?}");
            return Err(Refusal::new(reason));
        }
        // Two neighbouring channels of dw are written together.
        if shape.group_c() % 2 != 0 {
            return Err(Refusal::new(format!("writes channels by 2, a group of dw has {}", shape.group_c())));
        }
        let (c, k) = (shape.group_c(), shape.group_k());
        if shape.groups > 1 && (c % 64 != 0 || k % 64 != 0) {
            return Err(Refusal::new(format!("takes groups of multiples of 64 channels, given {k} and {c}")));
        }
        let window = Window {
            first: shape.axes.map(|axis| -axis.padding),
            last: std::array::from_fn(|i| (shape.output[i] - 1) * shape.axes[i].stride - shape.axes[i].padding),
            step: shape.axes.map(|axis| axis.stride),
        };
        let same_place =
            shape.filter == [1; 3] && window.first == [0; 3] && window.step == [1; 3] && x.extents == dy.extents;
        let x_access = x.access(same_place, problem.axes().len());
        if x_access != access::LINEAR {
            let last_offset = std::array::from_fn(|i| (shape.filter[i] - 1) * shape.axes[i].dilation);
            check_window("x", &x, &window, last_offset, x_access)?;
        }
        Ok(WgradView {
            data_type,
            x,
            dy,
            dw,
            groups: shape.groups,
            group_c: shape.group_c(),
            group_k: shape.group_k(),
            tap_offset: shape.axes.map(|axis| axis.dilation),
            flip: problem.mode() == ConvMode::Convolution,
            x_access,
            window,
            packed: None,
        })
    }

    /// Elements in a row of shared memory that is full: channels of a panel of dy, and positions of a stage.
    pub(in crate::ops::conv) fn width(&self) -> u32 {
        ROW_BYTES / self.x.element_bytes as u32
    }

    /// Panels of a group's filter, in the width that a tile has.
    pub(in crate::ops::conv) fn n_panels(&self, tile: ConvTile) -> u64 {
        self.dw.n_taps() as u64 * self.c_panels(tile)
    }

    fn c_panels(&self, tile: ConvTile) -> u64 {
        (self.group_c as u64).div_ceil(tile.panel_k.into())
    }

    fn m_blocks(&self, tile: ConvTile) -> u64 {
        (self.group_k as u64).div_ceil(tile.cluster_rows().into())
    }

    fn n_blocks(&self, tile: ConvTile) -> u64 {
        self.n_panels(tile).div_ceil((tile.gemm_n / tile.panel_k).into())
    }

    /// Tiles, those of a cluster counted once.
    pub(in crate::ops::conv) fn tiles(&self, tile: ConvTile) -> u64 {
        self.m_blocks(tile) * self.n_blocks(tile) * self.groups as u64
    }

    /// Bytes of x and dy.
    pub(super) fn operand_bytes(&self) -> u64 {
        (self.x.element_bytes * (self.x.count() * self.x.channels + self.dy.count() * self.dy.channels)) as u64
    }

    /// Whether a kernel reads so little that it may start, on some multiprocessors, while what is before it still runs.
    pub(super) fn is_short(&self) -> bool {
        const LONG: u64 = 32 << 20;
        self.operand_bytes() < LONG
    }

    pub(in crate::ops::conv) fn k_blocks(&self) -> u64 {
        (self.dy.count() as u64).div_ceil(self.width().into())
    }

    /// Whether the tile is no larger than it needs to be.
    pub(in crate::ops::conv) fn fits(&self, tile: ConvTile) -> bool {
        let rows = tile.gemm_m == 64 || self.group_k > 64 || tile.gemm_n == PANEL;
        let rows = rows && (tile.cluster == 1 || self.group_k > i64::from(tile.gemm_m));
        let columns = u64::from(tile.gemm_n / tile.panel_k);
        let are_narrower = tile.panel_k == self.width() || self.columns(tile) < self.columns(WGRAD_64X256);
        rows && (columns == 1 || self.n_panels(tile) > columns / 2) && are_narrower && self.tiles(tile) < 1 << 24
    }

    /// Columns that all tiles along them have, those of nobody counted.
    fn columns(&self, tile: ConvTile) -> u64 {
        self.n_blocks(tile) * u64::from(tile.gemm_n)
    }

    pub(in crate::ops::conv) fn params(&self, tile: ConvTile, cut: Cut) -> ConvWgradParams {
        let (splits, workers) = match cut {
            Cut::Splits(splits) | Cut::Shares(splits) => (splits, 0),
            Cut::Evenly { workers } => (1, workers),
        };
        let (packed_c, real_c, c_stride, s_stride) = self.packed.unwrap_or_default();
        let last_positions = (self.dy.count() - 1) % i64::from(self.width()) + 1;
        ConvWgradParams {
            dy_map: [0; 16],
            x_map: [0; 16],
            x_access: self.x_access,
            group_k: self.group_k as u32,
            group_c: self.group_c as u32,
            groups: self.groups as u32,
            c_panels: Divisor::new(self.c_panels(tile) as u32),
            taps: self.dw.taps.map(|extent| Divisor::new(extent as u32)),
            n_panels: self.n_panels(tile) as u32,
            extents: self.dy.extents.map(|extent| Divisor::new(extent as u32)),
            base: self.window.first.map(|first| first as i32),
            step: self.window.step.map(|step| step as u32),
            tap_offset: self.tap_offset.map(|offset| offset as u32),
            k_blocks: self.k_blocks() as u32,
            last_steps: (last_positions as u32).div_ceil(self.width() / STAGE_STEPS),
            splits: splits as u32,
            split_blocks: [self.k_blocks() / splits, self.k_blocks() % splits].map(|stages| stages as u32),
            workers: workers as u32,
            m_blocks: self.m_blocks(tile) as u32,
            n_blocks: self.n_blocks(tile) as u32,
            flip: u32::from(self.flip),
            packed_c: packed_c as u32,
            real_c: real_c as u32,
            c_stride,
            s_stride,
            partials: 0,
            dw: 0,
            k_stride: self.dw.k_stride,
            tap_stride: self.dw.tap_stride,
            alpha: 1.0,
            beta: 0.0,
        }
    }
}

impl WgradView {
    /// The maps of dy and of x, whose panels have so many columns.
    pub(in crate::ops::conv) fn maps(
        &self,
        context: &GpuContext,
        columns: u32,
        x: u64,
        dy: u64,
    ) -> Result<[[u64; 16]; 2], Error> {
        let width = self.width();
        let dy_map = self.dy.linear_map(context, self.data_type, dy, width, width)?;
        let x_map = if self.x_access == access::LINEAR {
            self.x.linear_map(context, self.data_type, x, width, columns)?
        } else {
            self.x.im2col_map(context, self.data_type, x, self.x_access, &self.window, width, columns)?
        };
        Ok([dy_map, x_map])
    }
}

/// One product between the operands as they are.
struct WgradLaunch(SplitSum);

impl Launch for WgradLaunch {
    fn launch(&self, stream: &Stream, call: &mut Call<'_>) -> Result<(), Error> {
        check_addresses(["x", "dy", "dw"], call)?;
        let [x, dy, dw] = [0, 1, 2].map(|operand| call.address(operand));
        self.0.launch(stream, [x, dy, dw, call.workspace_address()], call.alpha, call.beta)
    }
}
