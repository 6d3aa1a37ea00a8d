//! Convolution with one filter a channel: direct, since memory decides the time and not arithmetic.

mod channels_last;
mod cut;
mod geometry;
mod launch;
mod looped;
mod planes;
mod toeplitz;
mod windows;

use super::{ConvPass, ConvProblem};
use crate::launch::{KernelLaunch, LaunchConfig};
use crate::plan::Launch;
use crate::select::{Algorithm, Config, Refusal, Spread, check_gpu};
use crate::{Context, Error, Problem};
use cut::{Cut, MAX_BLOCKS, REDUCE, cuts};
use launch::{DepthwiseLaunch, bind};

pub(super) use geometry::{Action, Geometry, action};

/// Channels-last and packed images, f32, f16 and bf16.
pub(super) struct Depthwise;

impl Depthwise {
    fn cut(&self, problem: &ConvProblem, config: Config) -> Result<(Geometry, Cut, Option<Cut>), Refusal> {
        let geometry = Geometry::of(problem)?;
        let mut cuts = cuts(&geometry);
        let at = cuts.iter().position(|cut| cut.symbol == config.0);
        let at = at.ok_or_else(|| Refusal::new(format!("has no kernel {}", config.0)))?;
        let cut = cuts.remove(at);
        // The last one loops over taps, at any address.
        let fallback = cuts.into_iter().rfind(|other| other.align_bytes < cut.align_bytes);
        Ok((geometry, cut, fallback))
    }
}

impl Algorithm<ConvProblem> for Depthwise {
    fn name(&self) -> &'static str {
        "depthwise"
    }

    fn configs(&self, problem: &ConvProblem, context: &Context) -> Result<Vec<Config>, Refusal> {
        check_gpu(context)?;
        let geometry = Geometry::of(problem)?;
        let cuts = cuts(&geometry);
        if cuts.is_empty() {
            let blocks = looped::cut(&geometry).1;
            return Err(Refusal::new(format!("launches up to {MAX_BLOCKS} blocks, this would take {blocks}")));
        }
        Ok(cuts.iter().map(|cut| Config(cut.symbol)).collect())
    }

    fn spread(&self, problem: &ConvProblem, config: Config) -> Spread {
        // Products of eight neighbouring columns.
        if config.0.contains("toeplitz") {
            Spread::Window
        } else {
            crate::ops::conv::algorithms::padding_spread(problem)
        }
    }

    fn workspace_bytes(&self, problem: &ConvProblem, config: Config) -> u64 {
        self.cut(problem, config).map_or(0, |(geometry, cut, fallback)| {
            let bytes = |cut: Cut| cut.workspace_bytes(&geometry);
            bytes(cut).max(fallback.map_or(0, bytes))
        })
    }

    fn estimate_us(&self, problem: &ConvProblem, config: Config, context: &Context) -> f64 {
        let Ok((geometry, cut, _)) = self.cut(problem, config) else { return f64::INFINITY };
        let info = context.info();
        let bytes_us = problem.bytes() / (cut.memory_share * info.bytes_per_us);
        // Zeros that dy is spread with are multiplied too, by the kernels that loop over taps.
        let zeros = if cut.align_bytes == 1 { cut.params.spread.iter().map(|&n| f64::from(n)).product() } else { 1.0 };
        let flops_us = zeros * problem.flops() / (cut.rate_share * info.flops_per_us);
        // The launch, and what blocks that are few wait for, up to the second number; fitted to times on an H200
        // (mobilenet at batches of 1 and 128).
        let (ends_us, waiting_us, waiting_bytes) = match geometry.pass {
            ConvPass::Wgrad => (5.4, 5.0, 3.5e6),
            ConvPass::Fprop | ConvPass::Dgrad => (3.4, 2.5, 2e6),
        };
        ends_us - cut.saved_us + bytes_us.max(flops_us) + (problem.bytes() / waiting_bytes).min(waiting_us)
    }

    fn prepare(&self, problem: &ConvProblem, config: Config, context: &Context) -> Result<Box<dyn Launch>, Error> {
        let (geometry, cut, fallback) =
            self.cut(problem, config).map_err(|refusal| refusal.into_error(self.name(), problem))?;
        let mut launch = launch_of(&geometry, &cut, context)?;
        if let Some(fallback) = fallback {
            launch.fallback = Some(Box::new(launch_of(&geometry, &fallback, context)?));
        }
        Ok(Box::new(launch))
    }
}

fn launch_of(geometry: &Geometry, cut: &Cut, context: &Context) -> Result<DepthwiseLaunch, Error> {
    let kernel = |symbol, n_blocks: u64, block| {
        Ok::<_, Error>(KernelLaunch {
            function: context.function(symbol)?,
            config: LaunchConfig {
                grid: [n_blocks as u32, 1, 1],
                block: [block, 1, 1],
                evenly: !cut.early,
                ..LaunchConfig::default()
            },
            params: cut.params,
            bind: bind(geometry.pass),
        })
    };
    let reduce = REDUCE.iter().find(|row| cut.leaves_sums && row.1 == geometry.dtype);
    let n_sums = geometry.filter.iter().map(|&extent| extent as u64).product::<u64>() * cut.params.c as u64;
    Ok(DepthwiseLaunch {
        products: kernel(cut.symbol, cut.n_blocks, cut.block)?,
        reduce: reduce.map(|row| kernel(row.0, n_sums.div_ceil(32), 1024)).transpose()?,
        align_bytes: cut.align_bytes,
        aligned: cut.aligned,
        fallback: None,
    })
}
