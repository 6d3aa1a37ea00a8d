//! Matmul on Hopper's tensor cores: bulk tensor copies feed warpgroup products, in a persistent grid.
//!
//! Every operand is described by a tensor map, encoded anew for each run since it holds the address. That needs rows
//! and addresses that are multiples of 16 bytes: strides are known when the plan is made, and others are refused
//! then; an address is known only to the run, and a misaligned one is an error that names the alignment, since
//! another kernel would be slower by an order of magnitude without a word.

mod maps;

use super::MatmulProblem;
use crate::driver::Function;
use crate::launch::{LaunchConfig, launch};
use crate::plan::{Call, Launch};
use crate::select::{Algorithm, Config, Refusal};
use crate::{Context, DType, Error, Problem, Stream};
use kernel_abi::ops::matmul::{
    MatmulOperand, MatmulTile, MatmulTmaParams, TILE_128X128, TILE_128X256, TILE_128X256_C2,
};
use maps::{Major, Maps};

/// A row of the kernel list.
struct Row {
    symbol: &'static str,
    dtype: DType,
    tile: MatmulTile,
    a: Major,
    b: Major,
}

macro_rules! rows {
    ($(($symbol:ident, $dtype:ident, $tile:ident, $cluster:literal, $a:ident, $b:ident)),* $(,)?) => {
        &[$(Row {
            symbol: stringify!($symbol),
            dtype: kernel_abi::dtype_of!($dtype),
            tile: $tile,
            a: major!($a),
            b: major!($b),
        }),*]
    };
}

macro_rules! major {
    (k) => {
        Major::K
    };
    (mn) => {
        Major::Mn
    };
}

const KERNELS: &[Row] = kernel_abi::matmul_tma_wgmma_kernels!(rows);

/// Warp-specialized and persistent, for 16-bit types with rows of a multiple of 16 bytes.
pub(super) struct TmaWgmma;

impl Algorithm<MatmulProblem> for TmaWgmma {
    fn name(&self) -> &'static str {
        "tma_wgmma"
    }

    fn configs(&self, problem: &MatmulProblem, context: &Context) -> Result<Vec<Config>, Refusal> {
        let info = context.info();
        if !context.is_gpu() {
            return Err(Refusal::new(format!("runs on a GPU, the device is {}", info.name)));
        }
        if info.compute_capability != (9, 0) {
            let (major, minor) = info.compute_capability;
            return Err(Refusal::new(format!("needs compute capability 9.0, the device has {major}.{minor}")));
        }
        let dtype = problem.c().dtype();
        let maps = Maps::of(problem)?;
        let configs: Vec<_> = KERNELS
            .iter()
            .filter(|row| row.dtype == dtype && row.a == maps.a.major && row.b == maps.b.major)
            .map(|row| Config(row.symbol))
            .collect();
        if configs.is_empty() {
            return Err(Refusal::new(format!("has kernels for f16 and bf16, the element type is {dtype}")));
        }
        Ok(configs)
    }

    fn workspace_bytes(&self, _: &MatmulProblem, _: Config) -> u64 {
        0
    }

    fn estimate_us(&self, problem: &MatmulProblem, config: Config, context: &Context) -> f64 {
        /// Filling the pipeline, and the last tile's way out.
        const ENDS_US: f64 = 2.0;
        /// Clock under load.
        const CYCLES_PER_US: f64 = 1600.0;
        /// Multiply-adds of a multiprocessor's tensor cores in a cycle.
        const RATE: f64 = 2048.0;
        let tile = row(config).tile;
        let (gemm_m, gemm_n, n_batch) = (problem.gemm_m() as u64, problem.gemm_n() as u64, problem.n_batch() as u64);
        let n_clusters = context.info().n_units as u64 / u64::from(tile.cluster);
        let waves = tile.n_tiles(gemm_m, gemm_n, n_batch).div_ceil(n_clusters.max(1)) as f64;
        let k_blocks = (problem.gemm_k() as u64).div_ceil(u64::from(tile.gemm_k)) as f64;
        // The fewer bytes a tile loads a product, the less it waits for the caches.
        let share = match tile {
            TILE_128X256_C2 => 0.92,
            TILE_128X256 => 0.9,
            _ => 0.75,
        };
        let cycles = f64::from(tile.gemm_m * tile.gemm_n * tile.gemm_k) / (RATE * share);
        let streaming = crate::select::cost::streaming_us(problem, context);
        streaming.max(ENDS_US + waves * k_blocks * cycles / CYCLES_PER_US)
    }

    fn prepare(&self, problem: &MatmulProblem, config: Config, context: &Context) -> Result<Box<dyn Launch>, Error> {
        let tile = row(config).tile;
        let function = context.function(config.0)?;
        function.set_max_dynamic_shared(tile.smem_bytes() as usize)?;
        let maps = Maps::of(problem).map_err(|Refusal(reason)| Error::Unsupported {
            problem: problem.to_string(),
            reasons: vec![(self.name().to_owned(), reason)],
        })?;
        let n_clusters = (context.info().n_units as u64 / u64::from(tile.cluster)).max(1);
        let n_tiles = tile.n_tiles(maps.gemm_m.into(), maps.gemm_n.into(), maps.n_batch().into());
        // As few blocks as do it in the same number of rounds: the others would only draw power.
        let grid = n_tiles.div_ceil(n_tiles.div_ceil(n_clusters)) * u64::from(tile.cluster);
        let c = maps.c.batch_strides_elems;
        Ok(Box::new(TmaLaunch {
            config: LaunchConfig {
                grid: [grid as u32, 1, 1],
                block: [tile.threads(), 1, 1],
                shared_bytes: tile.smem_bytes(),
                cluster: (tile.cluster > 1).then_some([tile.cluster, 1, 1]),
                ..LaunchConfig::default()
            },
            params: MatmulTmaParams {
                a_map: [0; 16],
                b_map: [0; 16],
                c_map: [0; 16],
                c: MatmulOperand { address: 0, batch_strides: c, row_stride: maps.c.row_stride_elems, col_stride: 1 },
                gemm_m: maps.gemm_m,
                gemm_n: maps.gemm_n,
                gemm_k: maps.gemm_k,
                n_batch: maps.n_batch(),
                batch_dims: maps.batch_dims,
                raster_rows: raster_rows(tile, n_clusters as u32),
                a_batch_steps: maps.a.batch_steps,
                alpha: 1.0,
                b_batch_steps: maps.b.batch_steps,
                beta: 0.0,
            },
            function,
            tile,
            maps,
        }))
    }
}

fn row(config: Config) -> &'static Row {
    KERNELS.iter().find(|row| row.symbol == config.0).expect("configs come from the kernel list")
}

/// How many rows of tiles to walk together: the count for which the clusters under way at once share most.
fn raster_rows(tile: MatmulTile, n_clusters: u32) -> u32 {
    let span = |rows: &u32| rows * tile.cluster_rows() + n_clusters.div_ceil(*rows) * tile.gemm_n;
    [4, 8, 16].into_iter().min_by_key(span).unwrap_or(8)
}

/// A launch whose parameters are complete but for addresses, and so maps, and scalars.
struct TmaLaunch {
    function: Function,
    config: LaunchConfig,
    params: MatmulTmaParams,
    tile: MatmulTile,
    maps: Maps,
}

impl Launch for TmaLaunch {
    fn launch(&self, stream: &Stream, call: &mut Call<'_>) -> Result<(), Error> {
        let (Some(stream), Some(context)) = (stream.gpu_stream(), stream.context().gpu_context()) else {
            return Err(Error::NoDevice { reason: format!("{} needs a GPU's stream", self.function.name()) });
        };
        for (operand, name) in ["a", "b", "c"].into_iter().enumerate() {
            let address = call.address(operand);
            if !address.is_multiple_of(ALIGN_BYTES) {
                let reason = format!(
                    "expected an address that is a multiple of {ALIGN_BYTES} for the algorithm tma_wgmma (naive takes \
                     any), given {address:#x}"
                );
                return Err(Error::bad(MatmulProblem::OP, name, reason));
            }
        }
        let maps = &self.maps;
        let (a, b) = if maps.exchanged { (1, 0) } else { (0, 1) };
        let mut params = self.params;
        params.a_map = maps.a.encode(context, maps.data_type, call.address(a), self.tile.gemm_m, self.tile.gemm_k)?;
        params.b_map = maps.b.encode(context, maps.data_type, call.address(b), self.tile.b_part(), self.tile.gemm_k)?;
        let c = call.address(2);
        params.c_map = maps.c.encode(context, maps.data_type, c, self.tile.consumer_rows())?;
        params.c.address = c;
        (params.alpha, params.beta) = (call.alpha as f32, call.beta as f32);
        launch(&self.function, &self.config, stream, &params)
            .map_err(|source| Error::Launch { kernel: self.function.name().to_owned(), source })
    }
}

/// What the hardware asks of addresses and strides.
const ALIGN_BYTES: u64 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_orientation_and_type_has_every_tile() {
        for dtype in [DType::BF16, DType::F16] {
            for (a, b) in [(Major::K, Major::K), (Major::K, Major::Mn), (Major::Mn, Major::K), (Major::Mn, Major::Mn)] {
                for tile in [TILE_128X256_C2, TILE_128X256, TILE_128X128] {
                    let fits = |row: &&Row| row.dtype == dtype && (row.a, row.b) == (a, b) && row.tile == tile;
                    let row = KERNELS.iter().filter(fits).collect::<Vec<_>>();
                    assert_eq!(row.len(), 1);
                    let letter = |major, n| if major == n { 'n' } else { 't' };
                    let (m, n, k, s) = (tile.gemm_m, tile.gemm_n, tile.gemm_k, tile.stages);
                    let c = if tile.cluster > 1 { format!("_c{}", tile.cluster) } else { String::new() };
                    let letters = [letter(a, Major::K), letter(b, Major::Mn)].iter().collect::<String>();
                    let symbol =
                        format!("matmul_forward_tma_wgmma_{dtype}f32{dtype}_{m}x{n}x{k}_s{s}{c}_{letters}_sm90");
                    assert_eq!(row[0].symbol, symbol);
                }
            }
        }
    }

    #[test]
    fn raster_balances_rows_and_columns() {
        assert_eq!(raster_rows(TILE_128X256_C2, 66), 8);
        assert_eq!(raster_rows(TILE_128X256, 132), 16);
        assert_eq!(raster_rows(TILE_128X128, 132), 8);
    }
}
