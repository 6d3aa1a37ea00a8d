//! One filter a channel on Hopper, packed images: runs of planes come and leave by the copy engine, whatever their rows
//! are aligned to, and tensor cores multiply, a filter's rows being Toeplitz matrices.
//!
//! `fprop`, and `dgrad` of stride 1, which is a convolution with the filter turned around.

mod cut;
#[cfg(test)]
mod tests;

use super::grouped_mma::check_aligned;
use super::{ConvPass, ConvProblem};
use crate::driver::Function;
use crate::launch::{LaunchConfig, launch};
use crate::plan::{Call, Launch};
use crate::select::{Algorithm, Config, Refusal, Spread, check_hopper};
use crate::{Context, Error, Stream};
use cut::{Cut, View};
use kernel_abi::ops::conv::depthwise_planes::{ConvDepthwisePlanesParams, DEPTHWISE_PLANES_THREADS};
use kernel_abi::ops::conv::halo_wgmma::MAX_SHARED_BYTES;

/// Planes through shared memory.
pub(super) struct DepthwisePlanes;

/// How a config's kernel cuts the problem.
fn cut(problem: &ConvProblem, config: Config, context: &Context) -> Result<Cut, Refusal> {
    let view = View::of(problem)?;
    if view.row().symbol != config.0 {
        return Err(Refusal::new(format!("has no kernel {}", config.0)));
    }
    view.cut(context.info().n_units as i64)
}

impl Algorithm<ConvProblem> for DepthwisePlanes {
    fn name(&self) -> &'static str {
        "depthwise_planes"
    }

    fn configs(&self, problem: &ConvProblem, context: &Context) -> Result<Vec<Config>, Refusal> {
        check_hopper(context)?;
        let view = View::of(problem)?;
        view.cut(context.info().n_units as i64)?;
        Ok(vec![Config(view.row().symbol)])
    }

    fn spread(&self, _: &ConvProblem, _: Config) -> Spread {
        // Products of eight neighbouring columns.
        Spread::Window
    }

    fn workspace_bytes(&self, _: &ConvProblem, _: Config) -> u64 {
        0
    }

    fn estimate_us(&self, problem: &ConvProblem, config: Config, context: &Context) -> f64 {
        /// The launch, and cycles of a microsecond: fitted to times on an H200 (mobilenet at a batch of 128).
        const ENDS_US: f64 = 3.0;
        const CYCLES: f64 = 1800.0;
        cut(problem, config, context).map_or(f64::INFINITY, |cut| ENDS_US + cut.cycles / CYCLES)
    }

    fn prepare(&self, problem: &ConvProblem, config: Config, context: &Context) -> Result<Box<dyn Launch>, Error> {
        let cut = cut(problem, config, context).map_err(|refusal| refusal.into_error(self.name(), problem))?;
        let function = context.function(config.0)?;
        // Not this problem's size: plans share the function.
        function.allow_dynamic_shared(MAX_SHARED_BYTES as usize)?;
        Ok(Box::new(DepthwisePlanesLaunch {
            function,
            config: LaunchConfig {
                grid: [cut.blocks, 1, 1],
                block: [DEPTHWISE_PLANES_THREADS, 1, 1],
                shared_bytes: cut.shared_bytes,
                programmatic: true,
                ..LaunchConfig::default()
            },
            params: cut.params,
            names: if problem.conv_pass() == ConvPass::Fprop { ["x", "y"] } else { ["dy", "dx"] },
        }))
    }
}

/// A launch whose parameters are complete but for addresses and scalars.
struct DepthwisePlanesLaunch {
    function: Function,
    config: LaunchConfig,
    params: ConvDepthwisePlanesParams,
    /// The images.
    names: [&'static str; 2],
}

impl Launch for DepthwisePlanesLaunch {
    fn launch(&self, stream: &Stream, call: &mut Call<'_>) -> Result<(), Error> {
        check_aligned(call, "depthwise_planes", "depthwise", [0, 2].into_iter().zip(self.names))?;
        let params = ConvDepthwisePlanesParams {
            source: call.address(0),
            w: call.address(1),
            target: call.address(2),
            alpha: call.alpha as f32,
            beta: call.beta as f32,
            ..self.params
        };
        launch(&self.function, &self.config, stream.gpu_stream_for(self.function.name())?, &params)
    }
}
