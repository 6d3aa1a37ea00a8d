//! The gradient of the image by tiles: each block lists the outputs that read its tile once for all its positions.

use super::{GridSampleProblem, naive};
use crate::launch::{KernelLaunch, KernelRow, LaunchConfig, div_ceil, kernel_for, kernel_rows};
use crate::plan::Launch;
use crate::select::{Algorithm, Config, Refusal};
use crate::{Context, Error, Problem};
use kernel_abi::division::Divisor;
use kernel_abi::ops::gridsample::{GridSampleTileParams, TILE, TILE_CHANNELS, TILE_THREADS};

const KERNELS: &[KernelRow] = kernel_abi::gridsample_tile_kernels!(kernel_rows);

/// `backward_data` of f32, f16 and bf16, any strides.
pub(super) struct Tiles;

impl Algorithm<GridSampleProblem> for Tiles {
    fn name(&self) -> &'static str {
        "tiles"
    }

    fn configs(&self, problem: &GridSampleProblem, context: &Context) -> Result<Vec<Config>, Refusal> {
        let configs = kernel_for(KERNELS, problem.pass(), problem.x().dtype(), context)?;
        let (blocks, outputs) = (n_blocks(problem), n_outputs(problem));
        if blocks.max(outputs) > i64::from(i32::MAX) {
            return Err(Refusal::new(format!(
                "counts to 2^31 - 1, there are {blocks} blocks and {outputs} outputs of an image"
            )));
        }
        Ok(configs)
    }

    fn workspace_bytes(&self, _: &GridSampleProblem, _: Config) -> u64 {
        0
    }

    fn estimate_us(&self, problem: &GridSampleProblem, _: Config, context: &Context) -> f64 {
        /// Places in f64: every block looks at all outputs of its image.
        const PLACES_PER_US: f64 = 30_000.0;
        let looks = n_blocks(problem) as f64 * n_outputs(problem) as f64;
        crate::select::cost::streaming_us(problem, context) + looks / PLACES_PER_US
    }

    fn prepare(
        &self,
        problem: &GridSampleProblem,
        config: Config,
        context: &Context,
    ) -> Result<Box<dyn Launch>, Error> {
        let shape = problem.shape();
        let [groups, depth, down, along] = extents(problem);
        let divisor = |number: i64| Divisor::new(number as u32);
        Ok(Box::new(KernelLaunch {
            function: context.function(config.0)?,
            config: LaunchConfig {
                grid: [n_blocks(problem) as u32, 1, 1],
                block: [TILE_THREADS, 1, 1],
                ..LaunchConfig::default()
            },
            params: GridSampleTileParams {
                sample: naive::params(problem, problem.x().n_elems(), problem.x()),
                groups: divisor(groups),
                tiles_along: divisor(along),
                tiles_down: divisor(down),
                planes: divisor(depth),
                columns: divisor(shape.output[2]),
                rows: divisor(shape.output[1]),
                n_outputs: n_outputs(problem) as u32,
                unused: 0,
            },
            bind: |params, call| {
                (params.sample.alpha, params.sample.beta) = (call.alpha, call.beta);
                (params.sample.grid.address, params.sample.y.address) = (call.address(0), call.address(1));
                params.sample.x.address = call.address(2);
            },
        }))
    }
}

/// Groups of channels, planes, tiles of a column and of a row.
fn extents(problem: &GridSampleProblem) -> [i64; 4] {
    let shape = problem.shape();
    let tiles = |extent: i64, tile: i64| div_ceil(extent, tile);
    let [depth, height, width] = shape.image;
    [tiles(shape.c, TILE_CHANNELS as i64), depth, tiles(height, TILE[0]), tiles(width, TILE[1])]
}

fn n_blocks(problem: &GridSampleProblem) -> i64 {
    extents(problem).iter().fold(problem.x().dims()[0], |blocks, &extent| blocks.saturating_mul(extent))
}

fn n_outputs(problem: &GridSampleProblem) -> i64 {
    problem.shape().output.iter().product()
}
