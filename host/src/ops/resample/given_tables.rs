//! Resampling of small images: neighbours and weights of every position are launch parameters, so that kernels do not wait
//! for what they compute in f64.

use super::tables::{ends, layout, lies_by_columns, neighbours};
use super::{ResamplePass, ResampleProblem, naive};
use crate::launch::{Aligned, ChannelLayout, KernelLaunch, LaunchConfig};
use crate::plan::Launch;
use crate::select::{Algorithm, Config, Refusal, check_gpu, cost};
use crate::{Context, DType, Error, Problem};
use kernel_abi::division::Divisor;
use kernel_abi::ops::resample::{Coordinates, GIVEN_NEIGHBOURS, GIVEN_POSITIONS, ResampleGivenParams};

const BLOCK: u32 = 128;

/// Symbol, element type, elements an access, neighbours along an axis.
type Row = (&'static str, DType, i64, usize);

macro_rules! rows {
    ($(($symbol:ident, $dtype:ident, $vec:literal, $neighbours:literal)),* $(,)?) => {
        &[$((stringify!($symbol), kernel_abi::dtype_of!($dtype), $vec, $neighbours)),*]
    };
}
const KERNELS: &[Row] = kernel_abi::resample_given_kernels!(rows);

/// All filters and coordinates but `crop`, both passes, f32, f16 and bf16, of few positions with few neighbours.
///
/// A run with addresses that are no multiples of 16 takes the naive kernel where channels are read 16 bytes at a time.
pub(super) struct GivenTables;

impl Algorithm<ResampleProblem> for GivenTables {
    fn name(&self) -> &'static str {
        "given_tables"
    }

    fn configs(&self, problem: &ResampleProblem, context: &Context) -> Result<Vec<Config>, Refusal> {
        check_gpu(context)?;
        Ok(vec![Config(Geometry::of(problem)?.symbol)])
    }

    fn workspace_bytes(&self, _: &ResampleProblem, _: Config) -> u64 {
        0
    }

    fn estimate_us(&self, problem: &ResampleProblem, _: Config, context: &Context) -> f64 {
        /// What others take to compute weights before their first access, part of what a launch is taken to be.
        const WEIGHTS_US: f64 = 1.0;
        /// How much longer than memory's time it takes, with several channels an access and with one.
        const LONGER: [f64; 2] = [1.3, 16.0];
        let singly = Geometry::of(problem).is_ok_and(|geometry| geometry.layout.vec == 1);
        let longer = LONGER[usize::from(singly)];
        cost::LAUNCH_US - WEIGHTS_US + longer * problem.bytes() / context.info().bytes_per_us
    }

    fn prepare(&self, problem: &ResampleProblem, config: Config, context: &Context) -> Result<Box<dyn Launch>, Error> {
        let unsupported = |refusal: Refusal| refusal.into_error(self.name(), problem);
        let Geometry { layout, params, .. } = Geometry::of(problem).map_err(unsupported)?;
        let fast = KernelLaunch {
            function: context.function(config.0)?,
            config: LaunchConfig {
                grid: [params.n_items.div_ceil(BLOCK), 1, 1],
                block: [BLOCK, 1, 1],
                ..LaunchConfig::default()
            },
            params,
            bind: |params, call| {
                (params.alpha, params.beta) = (call.alpha as f32, call.beta as f32);
                (params.from.address, params.to.address) = (call.address(0), call.address(1));
            },
        };
        Ok(Box::new(Aligned { fast, align: layout.align(), general: naive::launch(problem, context)? }))
    }
}

struct Geometry {
    layout: ChannelLayout,
    symbol: &'static str,
    params: ResampleGivenParams,
}

impl Geometry {
    fn of(problem: &ResampleProblem) -> Result<Self, Refusal> {
        if problem.coordinates() == Coordinates::Crop {
            return Err(Refusal::new("takes coordinates without a cropped region, given crop"));
        }
        let (from, to) = ends(problem);
        let layout = layout(&[from, to])?;
        let backward = problem.resample_pass() == ResamplePass::Backward;
        let shape = problem.shape();
        let extents = shape.axes.map(|axis| if backward { axis.image } else { axis.output });
        let positions = extents.iter().fold(0, |sum: i64, extent| sum.saturating_add(*extent));
        if positions > GIVEN_POSITIONS as i64 {
            return Err(Refusal::new(format!(
                "takes up to {GIVEN_POSITIONS} planes, rows and columns together, given {positions}"
            )));
        }
        let (mut first, mut weights) = ([0; GIVEN_POSITIONS], [[0.0; GIVEN_NEIGHBOURS]; GIVEN_POSITIONS]);
        let (mut position, mut most) = (0, [1; 3]);
        for (axis, most) in shape.axes.iter().zip(&mut most) {
            let read = if backward { axis.output } else { axis.image };
            let inside = |from: i64| from.clamp(0, read - 1);
            for (at, [_, heavy]) in neighbours(axis, &shape.filter, backward).into_iter().flatten().enumerate() {
                let begin = inside(heavy.start);
                let n = if heavy.is_empty() { 0 } else { (inside(heavy.end - 1) - begin + 1) as usize };
                if n > GIVEN_NEIGHBOURS {
                    return Err(Refusal::new(format!(
                        "takes up to {GIVEN_NEIGHBOURS} neighbours along an axis, given {n}"
                    )));
                }
                *most = n.max(*most);
                // Those outside the image stand for the nearest inside.
                let mut sums = [0.0; GIVEN_NEIGHBOURS];
                for from in heavy {
                    sums[(inside(from) - begin) as usize] += axis.weight_of(&shape.filter, backward, at as i64, from);
                }
                first[position] = begin as i32;
                weights[position] = sums.map(|weight: f64| weight as f32);
                position += 1;
            }
        }
        if position as i64 != positions {
            return Err(Refusal::new("takes neighbours in the image or near it, given ones far outside"));
        }
        let wanted = if most[1].max(most[2]) > 2 { 4 } else { 2 };
        let found = KERNELS.iter().find(|row| (row.1, row.2, row.3) == (to.dtype(), layout.vec, wanted));
        let Some(row) = found else {
            return Err(Refusal::new(format!("has no kernel for {} of {} elements an access", to.dtype(), layout.vec)));
        };
        let channels = shape.c / layout.vec;
        let n_items = shape.n * channels * extents.iter().product::<i64>();
        if n_items > i64::from(i32::MAX) {
            return Err(Refusal::new(format!("counts to 2^31 - 1 accesses, given {n_items}")));
        }
        let [depth, height, width] = extents.map(|extent| Divisor::new(extent as u32));
        let params = ResampleGivenParams {
            n_items: n_items as u32,
            plane_neighbours: most[0] as u32,
            channels_innermost: u32::from(layout.vec > 1 || !lies_by_columns(to)),
            channels: Divisor::new(channels as u32),
            width,
            height,
            depth,
            alpha: 1.0,
            beta: 0.0,
            reserved: 0,
            from: layout.tensor(from),
            to: layout.tensor(to),
            first,
            weights,
        };
        Ok(Geometry { layout, symbol: row.0, params })
    }
}
