//! Layout changes of any permutation of dimensions: tiles of 32 × 32 elements through shared memory.

use super::{TransformProblem, naive};
use crate::launch::{KernelLaunch, LaunchConfig, div_ceil};
use crate::plan::{Call, Launch};
use crate::select::cost::LAUNCH_US;
use crate::select::{Algorithm, Config, Refusal, check_gpu};
use crate::{Context, Error, Problem, Stream};
use kernel_abi::MAX_RANK;
use kernel_abi::desc::collapse;
use kernel_abi::division::Divisor;
use kernel_abi::ops::transform::{PERMUTE_LEVELS, PERMUTE_TILE, PermuteParams, TransformParams};

/// Symbol, bytes of an element.
type Row = (&'static str, usize);

macro_rules! rows {
    ($(($symbol:ident, $word:ident)),* $(,)?) => { &[$((stringify!($symbol), size_of::<$word>())),*] };
}
const KERNELS: &[Row] = kernel_abi::transform_permute_kernels!(rows);

const BLOCK: u32 = 256;
/// Share of the memory's rate: a tile's rows are short, and every access is of one element.
const MEMORY_SHARE: f64 = 0.6;

/// Elements of any size, any number of dimensions.
///
/// A run with other scalars than alpha 1 and beta 0 takes the naive kernel: it has arithmetic to do.
pub(super) struct TiledPermute;

impl Algorithm<TransformProblem> for TiledPermute {
    fn name(&self) -> &'static str {
        "tiled_permute"
    }

    fn configs(&self, problem: &TransformProblem, context: &Context) -> Result<Vec<Config>, Refusal> {
        check_gpu(context)?;
        let bytes = problem.x().dtype().size_bytes();
        let row = KERNELS.iter().find(|row| row.1 == bytes).unwrap_or(&KERNELS[0]);
        params(problem).map(|_| vec![Config(row.0)])
    }

    fn workspace_bytes(&self, _: &TransformProblem, _: Config) -> u64 {
        0
    }

    fn estimate_us(&self, problem: &TransformProblem, _: Config, context: &Context) -> f64 {
        LAUNCH_US + problem.bytes() / (MEMORY_SHARE * context.info().bytes_per_us)
    }

    fn prepare(&self, problem: &TransformProblem, config: Config, context: &Context) -> Result<Box<dyn Launch>, Error> {
        let (params, blocks) = params(problem).map_err(|refusal| refusal.into_error(self.name(), problem))?;
        Ok(Box::new(PermuteLaunch {
            tiles: KernelLaunch {
                function: context.function(config.0)?,
                config: LaunchConfig { grid: [blocks, 1, 1], block: [BLOCK, 1, 1], ..LaunchConfig::default() },
                params,
                bind: |params, call| (params.from, params.to) = (call.address(0), call.address(1)),
            },
            fallback: naive::launch(problem, context.function(naive::symbol(problem))?),
        }))
    }
}

struct PermuteLaunch {
    tiles: KernelLaunch<PermuteParams>,
    fallback: KernelLaunch<TransformParams>,
}

impl Launch for PermuteLaunch {
    fn launch(&self, stream: &Stream, call: &mut Call<'_>) -> Result<(), Error> {
        if call.alpha == 1.0 && call.beta == 0.0 {
            self.tiles.launch(stream, call)
        } else {
            self.fallback.launch(stream, call)
        }
    }
}

/// Parameters but for addresses, and blocks.
fn params(problem: &TransformProblem) -> Result<(PermuteParams, u32), Refusal> {
    let (x, y) = (problem.x(), problem.y());
    if x.dtype() != y.dtype() {
        return Err(Refusal::new(format!("keeps the element type, given {} to {}", x.dtype(), y.dtype())));
    }
    let [from, to] = collapse([x, y]);
    let dims: Vec<usize> = (0..MAX_RANK).filter(|&i| from.dims[i] > 1).collect();
    let contiguous = |strides: &[i64; MAX_RANK]| dims.iter().copied().find(|&i| strides[i] == 1);
    let (col, row) = match (contiguous(&from.strides), contiguous(&to.strides)) {
        (Some(col), Some(row)) if col != row => (col, row),
        _ => {
            let reason = "turns a dimension that is contiguous in x and another that is in y";
            return Err(Refusal::new(format!("{reason}, given {x} and {y}")));
        }
    };
    let others: Vec<usize> = dims.iter().rev().copied().filter(|&i| i != col && i != row).collect();
    if others.len() > PERMUTE_LEVELS {
        let reason =
            format!("goes through up to {PERMUTE_LEVELS} dimensions around the tiles, there are {}", others.len());
        return Err(Refusal::new(reason));
    }
    let tiles = |extent: i64| div_ceil(extent, i64::from(PERMUTE_TILE));
    let (row_tiles, col_tiles) = (tiles(from.dims[row]), tiles(from.dims[col]));
    let blocks = others.iter().map(|&i| from.dims[i]).chain([row_tiles, col_tiles]).try_fold(1i64, i64::checked_mul);
    let Some(blocks) = blocks.filter(|&blocks| blocks <= i64::from(i32::MAX) / i64::from(PERMUTE_TILE)) else {
        return Err(Refusal::new(format!("takes up to {} tiles, given more: {x}", i32::MAX / PERMUTE_TILE as i32)));
    };
    let of = |i: usize, list: &[i64; MAX_RANK], none: i64| others.get(i).map_or(none, |&dim| list[dim]);
    let params = PermuteParams {
        from: 0,
        to: 0,
        from_row: from.strides[row],
        to_col: to.strides[col],
        rows: from.dims[row] as u32,
        cols: from.dims[col] as u32,
        row_tiles: Divisor::new(row_tiles as u32),
        col_tiles: Divisor::new(col_tiles as u32),
        extents: std::array::from_fn(|i| Divisor::new(of(i, &from.dims, 1) as u32)),
        from_strides: std::array::from_fn(|i| of(i, &from.strides, 0)),
        to_strides: std::array::from_fn(|i| of(i, &to.strides, 0)),
    };
    Ok((params, blocks as u32))
}
