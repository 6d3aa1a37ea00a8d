//! `wgrad`.

use super::images::Images;
use super::{check, check_groups, check_problem, side, taps_in_a_row};
use crate::driver::{Function, TmaType};
use crate::ops::conv::im2col_wgmma::{Filter, SplitSum, WgradView, Window, check_window, five};
use crate::ops::conv::{ConvMode, ConvPass, ConvProblem};
use crate::plan::{Call, Launch};
use crate::select::{Algorithm, Config, Refusal, Spread};
use crate::{Context, Error, Stream};
use kernel_abi::ops::conv::im2col_wgmma::{ConvTile, access};

macro_rules! rows {
    ($(($symbol:ident, $tile:ident)),* $(,)?) => {
        &[$((stringify!($symbol), kernel_abi::ops::conv::f32_wgmma::$tile)),*]
    };
}

const KERNELS: &[(&str, ConvTile)] = kernel_abi::conv_f16x2_wgrad_kernels!(rows);

/// `wgrad` of f32.
pub(in crate::ops::conv) struct Wgrad;

fn tile_of(config: Config) -> ConvTile {
    KERNELS.iter().find(|row| row.0 == config.0).expect("configs come from the kernel list").1
}

impl Algorithm<ConvProblem> for Wgrad {
    fn name(&self) -> &'static str {
        "f16x2_wgmma_split"
    }

    fn configs(&self, problem: &ConvProblem, context: &Context) -> Result<Vec<Config>, Refusal> {
        if problem.conv_pass() != ConvPass::Wgrad {
            return Err(Refusal::new(format!("computes wgrad, the pass is {}", problem.conv_pass())));
        }
        check(problem, context)?;
        let sides = Sides::of(problem)?;
        let configs: Vec<_> = KERNELS.iter().filter(|row| sides.fits(row.1)).map(|row| Config(row.0)).collect();
        if configs.is_empty() {
            let (groups, k, c) = (sides.view.groups, sides.view.group_k, sides.view.group_c);
            return Err(Refusal::new(format!(
                "counts up to 2^24 tiles, given {groups} groups of {k} and {c} channels"
            )));
        }
        Ok(configs)
    }

    fn spread(&self, problem: &ConvProblem, _: Config) -> Spread {
        crate::ops::conv::algorithms::padding_spread(problem)
    }

    fn workspace_bytes(&self, problem: &ConvProblem, config: Config) -> u64 {
        let tile = tile_of(config);
        Sides::of(problem)
            .map_or(0, |sides| sides.partials_at() + sides.view.partials_bytes(tile, sides.view.cut(tile)))
    }

    fn estimate_us(&self, problem: &ConvProblem, config: Config, context: &Context) -> f64 {
        let Ok(sides) = Sides::of(problem) else { return f64::INFINITY };
        let tile = tile_of(config);
        let copies = sides.x.time_us(context) + sides.dy.time_us(context);
        copies + sides.view.time_us(tile, sides.view.cut(tile))
    }

    fn prepare(&self, problem: &ConvProblem, config: Config, context: &Context) -> Result<Box<dyn Launch>, Error> {
        let Sides { x, dy, view } = Sides::of(problem).map_err(|refusal| refusal.into_error(self.name(), problem))?;
        let tile = tile_of(config);
        let cut = view.cut(tile);
        let sum = SplitSum::new(view, (tile, cut), [config.0, side("sum")], context)?;
        Ok(Box::new(SidesLaunch { pack: context.function(side("pack"))?, x, dy, sum }))
    }
}

/// A problem as the kernels see it.
#[derive(Debug)]
pub(super) struct Sides {
    x: Images,
    dy: Images,
    pub(super) view: WgradView,
}

impl Sides {
    pub(super) fn of(problem: &ConvProblem) -> Result<Self, Refusal> {
        check_problem(problem)?;
        Sides::with(problem, Images::rows(problem))
    }

    /// With a filter's row and the channels as one in these images, if any.
    ///
    /// The problem is one that [`check_problem`] takes.
    pub(super) fn with(problem: &ConvProblem, rows: Option<Images>) -> Result<Self, Refusal> {
        let shape = problem.shape();
        check_groups("x", shape.groups, shape.group_c(), 4)?;
        check_groups("dy", shape.groups, shape.group_k(), 4)?;
        let dy = Images::of("dy", problem.y(), true)?;
        let x = match rows {
            Some(rows) => rows,
            None => Images::of("x", problem.x(), false)?,
        };
        let [k_stride, c_stride, t, r, s] = five(problem.w());
        // With a filter's row and the channels as one, there is one tap along w, and channels are (s, c).
        let taps = match rows {
            Some(_) => [shape.filter[0], shape.filter[1], 1],
            None => shape.filter,
        };
        let group_c = if rows.is_some() { x.positions.channels } else { shape.group_c() };
        let tap_stride = taps_in_a_row(taps, [t, r, s]).ok_or_else(|| {
            let given = problem.w().strides();
            Refusal::new(format!("needs dw with taps one behind the other, its strides are {given:?}"))
        })?;
        let mut window = Window {
            first: shape.axes.map(|axis| -axis.padding),
            last: std::array::from_fn(|i| (shape.output[i] - 1) * shape.axes[i].stride - shape.axes[i].padding),
            step: shape.axes.map(|axis| axis.stride),
        };
        if rows.is_some() {
            (window.first[2], window.last[2], window.step[2]) = (0, shape.output[2] - 1, 1);
        }
        let same_place = taps == [1; 3]
            && window.first == [0; 3]
            && window.step == [1; 3]
            && x.positions.extents == dy.positions.extents;
        let x_access = x.positions.access(same_place, problem.axes().len());
        if x_access != access::LINEAR {
            let last_offset = std::array::from_fn(|i| (taps[i] - 1) * shape.axes[i].dilation);
            check_window("x", &x.positions, &window, last_offset, x_access)?;
        }
        let packed = match rows.and_then(|images| images.copy) {
            Some(copy) => (copy.packed_c, shape.c, c_stride, s),
            None => (0, 0, c_stride, 0),
        };
        let view = WgradView {
            data_type: TmaType::F32,
            x: x.positions,
            dy: dy.positions,
            dw: Filter { k: shape.k, group_c, taps, tap_stride, k_stride },
            groups: shape.groups,
            group_c,
            group_k: shape.group_k(),
            tap_offset: shape.axes.map(|axis| axis.dilation),
            flip: problem.mode() == ConvMode::Convolution,
            x_access,
            window,
            packed: Some(packed),
        };
        Ok(Sides { x, dy, view })
    }

    /// Whether the tile is no larger than it needs to be.
    fn fits(&self, tile: ConvTile) -> bool {
        let (rows, panels) = (self.view.group_k, self.view.n_panels(tile));
        let fits = match (tile.gemm_m, tile.gemm_n) {
            (64, _) => rows <= 64,
            (_, 64) => rows > 64 || panels <= 2,
            _ => rows > 64 && panels > 2,
        };
        fits && self.view.tiles(tile) < 1 << 24
    }

    /// Where the partial sums begin, behind the copies.
    pub(super) fn partials_at(&self) -> u64 {
        self.x.bytes() + self.dy.bytes()
    }
}

/// Copies where they are needed, then the product.
struct SidesLaunch {
    pack: Function,
    x: Images,
    dy: Images,
    sum: SplitSum,
}

impl Launch for SidesLaunch {
    fn launch(&self, stream: &Stream, call: &mut Call<'_>) -> Result<(), Error> {
        let [x, dy, dw] = [0, 1, 2].map(|operand| call.address(operand));
        let x_at = call.workspace_address();
        let dy_at = x_at + self.x.bytes();
        let x = self.x.make(("x", &self.pack), stream, x, x_at)?;
        let dy = self.dy.make(("dy", &self.pack), stream, dy, dy_at)?;
        self.sum.launch(stream, [x, dy, dw, dy_at + self.dy.bytes()], call.alpha, call.beta)
    }
}
