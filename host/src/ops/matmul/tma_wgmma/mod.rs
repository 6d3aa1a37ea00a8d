//! Matmul on Hopper's tensor cores: bulk tensor copies feed warpgroup products, in a persistent grid.
//!
//! Inputs are described by tensor maps, encoded anew for each run since they hold the address. That needs rows and
//! addresses that are multiples of 16 bytes. Strides are known when the plan is made: inputs that have others are
//! copied into the workspace first. An address is known only to the run, and a misaligned one is an error that names
//! the alignment, since another kernel would be slower by an order of magnitude without a word. The output leaves by
//! tensor map where one describes it, else by stores of threads.
//!
//! Where there are fewer tiles than multiprocessors, the sums are split into slices: among the blocks of a cluster, or
//! through the workspace, where a second kernel adds them up. Both add in a fixed order. Blocks of a cluster may also load
//! b's tile together, so that the cache delivers it once.

mod epilogue;
pub(super) mod launch;
pub(super) mod maps;
pub(super) mod model;
mod offer;
mod outer;
pub(super) mod pack;
pub(super) mod variants;

use super::MatmulProblem;
use crate::epilogue::Epilogue;
use crate::launch::{BEYOND_CACHE_BYTES, LaunchConfig, linear_grid, memory_counts, tag};
use crate::plan::Launch;
use crate::select::{Algorithm, Config, Refusal, check_hopper};
use crate::{Context, DType, Error, Problem};
use kernel_abi::epilogue::FusedEpilogueParam;
use kernel_abi::ops::matmul::{
    MatmulOperand, MatmulPackParams, MatmulPartialsParams, MatmulTile, MatmulTmaParams, OUTPUT_CLUSTER, OUTPUT_MAP,
    OUTPUT_PARTIALS, OUTPUT_THREADS,
};
use kernel_abi::tickets::{self, TicketsParam};
use launch::{Layout, Step, TmaLaunch, partial_bytes};
use maps::{InputMap, Maps};
use model::Work;
use offer::{may_exchange, offered, suits, whole};
use std::cmp::Ordering;
use variants::{KERNELS, Split, Way};

/// Warp-specialized and persistent, for 16-bit types.
pub(super) struct TmaWgmma;

/// What the hardware asks of addresses and strides.
pub(super) const ALIGN_BYTES: u64 = 16;

impl Algorithm<MatmulProblem> for TmaWgmma {
    fn name(&self) -> &'static str {
        "tma_wgmma"
    }

    fn takes_epilogues(&self) -> bool {
        true
    }

    fn configs(&self, problem: &MatmulProblem, context: &Context) -> Result<Vec<Config>, Refusal> {
        check_hopper(context)?;
        let product = Product::of(problem)?;
        product.check_epilogue()?;
        Ok(product.configs(context))
    }

    fn workspace_bytes(&self, problem: &MatmulProblem, config: Config) -> u64 {
        Product::of(problem).map_or(0, |product| product.workspace_bytes(config))
    }

    fn estimate_us(&self, problem: &MatmulProblem, config: Config, context: &Context) -> f64 {
        Product::of(problem).map_or(f64::INFINITY, |product| product.estimate_us(config, context))
    }

    fn prepare(&self, problem: &MatmulProblem, config: Config, context: &Context) -> Result<Box<dyn Launch>, Error> {
        let product = Product::of(problem).map_err(|refusal| refusal.into_error(self.name(), problem))?;
        Ok(Box::new(product.prepare(config, context)?))
    }
}

/// A product as the kernels see it.
#[derive(Debug)]
pub(in crate::ops) struct Product {
    /// The product, and its transpose.
    maps: Maps,
    transpose: Option<Maps>,
    /// Whether c is contiguous along the columns of the transpose only.
    transpose_is_contiguous: bool,
    dtype: DType,
    /// Bytes of all operands.
    operand_bytes: f64,
    /// What becomes of it.
    epilogue: Option<Epilogue>,
}

impl Product {
    pub(in crate::ops) fn of(problem: &MatmulProblem) -> Result<Self, Refusal> {
        Ok(Product {
            maps: Maps::of(problem, false)?,
            transpose: Some(Maps::of(problem, true)?),
            transpose_is_contiguous: Maps::transpose_is_contiguous(problem),
            dtype: problem.a().dtype(),
            operand_bytes: problem.bytes(),
            epilogue: problem.epilogue().cloned(),
        })
    }

    /// What a tile computes: narrow ones, and those of few rows, take that side of c as their columns with which there are
    /// fewer of them, and otherwise, as the others, that along which c is contiguous; or the other one if `exchanged`.
    fn maps(&self, tile: MatmulTile, exchanged: bool) -> Option<&Maps> {
        let Some(transpose) = &self.transpose else {
            return Some(&self.maps).filter(|_| !takes_shorter_side(tile) && !exchanged);
        };
        let (m, n) = (self.maps.gemm_m, self.maps.gemm_n);
        let n_tiles = |m: u32, n: u32| tile.n_tiles(0, [m.into(), n.into(), 1]);
        let exchanges = match n_tiles(m, n).cmp(&n_tiles(n, m)) {
            Ordering::Less if takes_shorter_side(tile) => false,
            Ordering::Greater if takes_shorter_side(tile) => true,
            _ => self.transpose_is_contiguous,
        };
        Some(if exchanges != exchanged { transpose } else { &self.maps })
    }

    /// Whether the product or its transpose can be computed with its epilogue.
    fn check_epilogue(&self) -> Result<(), Refusal> {
        let Some(epilogue) = &self.epilogue else { return Ok(()) };
        let of_transpose = self.transpose.as_ref().map(|maps| epilogue::check(epilogue, self.dtype, maps));
        epilogue::check(epilogue, self.dtype, &self.maps).or_else(|refusal| of_transpose.unwrap_or(Err(refusal)))
    }

    /// Says how many bytes its operands have, where those of a matmul would count what repeats.
    pub(in crate::ops) fn set_operand_bytes(&mut self, bytes: f64) {
        self.operand_bytes = bytes;
    }

    /// The configs that are worth a look.
    pub(in crate::ops) fn configs(&self, context: &Context) -> Vec<Config> {
        let n_units = context.info().n_units as u64;
        let mut configs = Vec::new();
        let rows = KERNELS.iter().filter(|row| row.dtype == self.dtype);
        let either_way = rows.flat_map(|row| [(row, false), (row, true)]);
        for (row, exchanged) in either_way.filter(|(row, exchanged)| !exchanged || may_exchange(row.tile)) {
            let Some(maps) = self.maps(row.tile, exchanged) else { continue };
            if (row.a, row.b) != (maps.a.major, maps.b.major) || !suits(row.tile, maps, n_units) {
                continue;
            }
            configs.extend(match &self.epilogue {
                None if exchanged => whole(row, true),
                None => offered(row, |way| work(maps, row.tile, way, self.operand_bytes, context).estimate_us(), maps),
                // Whole sums alone meet their epilogue.
                Some(epilogue) if row.tile.has_epilogues() && epilogue::check(epilogue, self.dtype, maps).is_ok() => {
                    whole(row, exchanged)
                }
                Some(_) => Vec::new(),
            });
        }
        configs
    }

    pub(in crate::ops) fn workspace_bytes(&self, config: Config) -> u64 {
        let (row, way) = variants::chosen(config);
        self.maps(row.tile, way.exchanged).map_or(0, |maps| layout(maps, row.tile, way).bytes)
    }

    pub(in crate::ops) fn estimate_us(&self, config: Config, context: &Context) -> f64 {
        let (row, way) = variants::chosen(config);
        let estimate = |maps| work(maps, row.tile, way, self.operand_bytes, context).estimate_us();
        self.maps(row.tile, way.exchanged).map_or(f64::INFINITY, estimate)
    }

    /// The launches of a config.
    pub(in crate::ops) fn prepare(self, config: Config, context: &Context) -> Result<TmaLaunch, Error> {
        let (row, way) = variants::chosen(config);
        let (tile, dtype, split) = (row.tile, self.dtype, way.split);
        let is_transpose = self.maps(tile, way.exchanged).is_some_and(|maps| maps.exchanged);
        let maps = match self.transpose {
            Some(transpose) if is_transpose => transpose,
            _ => self.maps,
        };
        let function = context.function(row.symbol)?;
        function.allow_dynamic_shared(tile.smem_bytes() as usize)?;
        let (sharers, cluster) = (way.sharers(tile), way.cluster(tile));
        let n_clusters = context.active_clusters(sharers).max(1);
        let n_units = tile.n_tiles(way.sharers_log2, extents(&maps)) * u64::from(split.n_slices());
        // As few blocks as do it in the same number of rounds: the others would only draw power.
        let least = |units: u64, clusters: u64| units.div_ceil(units.div_ceil(clusters));
        let groups = match split {
            Split::Cluster(_) => n_units,
            _ if tile.draws => n_units.min(n_clusters),
            // Each cluster has the same columns all along.
            _ if tile.has_resident_b() => {
                let n_columns = column_groups(&maps, tile, way);
                n_columns * least(n_units / n_columns, (n_clusters / n_columns).max(1))
            }
            _ => least(n_units, n_clusters),
        };
        let grid = groups * u64::from(sharers);
        let step = Step {
            function,
            config: LaunchConfig {
                grid: [grid as u32, 1, 1],
                block: [tile.threads(), 1, 1],
                shared_bytes: tile.smem_bytes(),
                cluster: (cluster > 1).then_some([cluster, 1, 1]),
                programmatic: cluster <= EARLY_CLUSTER || self.operand_bytes <= EARLY_BYTES,
                ..LaunchConfig::default()
            },
        };
        let mut params = params(&maps, tile, way, n_clusters as u32);
        if let Some(given) = &self.epilogue {
            // As `configs` has checked.
            let _ = epilogue::put(&mut params, given, dtype, &maps);
        }
        let packing = |map: &InputMap| map.pack.as_ref().map(|pack| pack_step(&pack.params, context)).transpose();
        let pack = [packing(&maps.a)?, packing(&maps.b)?];
        let partials = match split {
            Split::Workspace(_) => Some(partials(&params, dtype, context)?),
            _ => None,
        };
        Ok(TmaLaunch { step, params, tile, maps, pack, partials })
    }
}

/// Clusters of more blocks than this are launched only behind the last kernel's end where so many bytes are read: by 500 000
/// x 1024 in slices of clusters of 7 and 8, replays took 380 to 410 µs launched early, and 327 to 329 behind the end (H100).
/// A launch is some 2 µs.
const EARLY_CLUSTER: u32 = 2;
const EARLY_BYTES: f64 = 1e8;

/// Whether a tile's columns are the shorter side of c.
fn takes_shorter_side(tile: MatmulTile) -> bool {
    tile.gemm_n <= MatmulTile::PANEL || tile.consumers() == 1
}

/// Columns of c, by those that a cluster computes whose b stays.
fn column_groups(maps: &Maps, tile: MatmulTile, way: Way) -> u64 {
    let [_, columns] = tile.shared_tile(way.sharers_log2);
    maps.gemm_n.div_ceil(columns).into()
}

/// Rows and columns of c, and matrices.
fn extents(maps: &Maps) -> [u64; 3] {
    [maps.gemm_m.into(), maps.gemm_n.into(), maps.n_batch().into()]
}

/// What the estimate of a variant depends on.
fn work(maps: &Maps, tile: MatmulTile, way: Way, operand_bytes: f64, context: &Context) -> Work {
    let info = context.info();
    let by_map = maps.c.has_map() && tile.gemm_n >= MatmulTile::PANEL && way.split == Split::Whole;
    let packed = |map: &InputMap| map.pack.as_ref().map_or(0, |pack| pack.bytes);
    Work {
        tile,
        way,
        gemm_m: maps.gemm_m.into(),
        gemm_n: maps.gemm_n.into(),
        gemm_k: maps.gemm_k.into(),
        n_batch: maps.n_batch().into(),
        store_bytes: if by_map { 128 } else { maps.c.store_bytes(0) },
        packed_bytes: packed(&maps.a) + packed(&maps.b),
        operand_bytes,
        slots: context.active_clusters(way.cluster(tile)),
        bytes_per_us: info.bytes_per_us,
    }
}

/// Sums in a row of a slice: whole groups of four.
fn pitch(maps: &Maps) -> u32 {
    maps.gemm_n.next_multiple_of(4)
}

/// The workspace of a variant.
fn layout(maps: &Maps, tile: MatmulTile, way: Way) -> Layout {
    let behind = match way.split {
        Split::Workspace(n) => partial_bytes(maps, n, pitch(maps)),
        _ if tile.draws => tickets::BYTES,
        _ => 0,
    };
    Layout::of(maps, behind)
}

/// Parameters but for addresses and scalars.
fn params(maps: &Maps, tile: MatmulTile, way: Way, n_clusters: u32) -> MatmulTmaParams {
    let (c, split) = (&maps.c, way.split);
    MatmulTmaParams {
        a_map: [0; 16],
        b_map: [0; 16],
        c_map: [0; 16],
        c: MatmulOperand {
            address: 0,
            batch_strides: c.batch_strides_elems,
            row_stride: c.row_stride_elems,
            col_stride: c.col_stride_elems,
        },
        partials: 0,
        gemm_m: maps.gemm_m,
        gemm_n: maps.gemm_n,
        gemm_k: maps.gemm_k,
        n_batch: maps.n_batch(),
        batch_dims: maps.batch_dims,
        raster_rows: match kept(maps) {
            _ if tile.has_resident_b() => 1,
            Some(Kept::B) => 1,
            Some(Kept::A) => maps.gemm_m.div_ceil(tile.gemm_m),
            None => raster_rows(tile, way.sharers_log2, n_clusters),
        },
        a_batch_steps: maps.a.batch_steps,
        alpha: 1.0,
        b_batch_steps: maps.b.batch_steps,
        beta: 0.0,
        output: match split {
            // A store by map writes whole panels: of a narrower tile, what belongs to the next.
            Split::Whole if c.has_map() && tile.gemm_n >= MatmulTile::PANEL => OUTPUT_MAP,
            Split::Whole => OUTPUT_THREADS,
            Split::Cluster(_) => OUTPUT_CLUSTER,
            Split::Workspace(_) => OUTPUT_PARTIALS,
        },
        transposed: u32::from(c.transposed),
        n_slices: split.n_slices(),
        slice_k_blocks: maps.gemm_k.div_ceil(tile.gemm_k) / split.n_slices(),
        store_bytes: 2,
        partial_pitch: pitch(maps),
        a_part_rows: 0,
        b_part_rows: 0,
        outer_blocks: maps.outer.blocks,
        a_outer_batch: u32::from(maps.outer.batches[0]),
        b_outer_batch: u32::from(maps.outer.batches[1]),
        sharers_log2: way.sharers_log2,
        keep: u32::from(reads_are_kept(maps)),
        bias_along_rows: 0,
        epilogue: FusedEpilogueParam::NONE,
        z_batch_strides: [0; 3],
        z_row_stride: 0,
        tickets: TicketsParam { tag: if tile.draws { tag() } else { 0 }, ..TicketsParam::NONE },
    }
}

/// The kernel that adds up the slices behind the one with `params`.
fn partials(params: &MatmulTmaParams, dtype: DType, context: &Context) -> Result<(Step, MatmulPartialsParams), Error> {
    const BLOCK: u32 = 128;
    let n_threads = i64::from(params.n_batch) * i64::from(params.gemm_m) * i64::from(params.partial_pitch / 4);
    let step = Step {
        function: context.function(variants::partials_symbol(dtype))?,
        config: LaunchConfig { programmatic: true, ..linear_grid(n_threads, BLOCK) },
    };
    let sums = MatmulPartialsParams {
        partials: 0,
        c: params.c,
        gemm_m: params.gemm_m,
        gemm_n: params.gemm_n,
        n_batch: params.n_batch,
        batch_dims: params.batch_dims,
        n_slices: params.n_slices,
        partial_pitch: params.partial_pitch,
        alpha: 1.0,
        beta: 0.0,
    };
    Ok((step, sums))
}

/// The kernel that copies an input into the workspace.
fn pack_step(params: &MatmulPackParams, context: &Context) -> Result<Step, Error> {
    const BLOCK: u32 = 256;
    let n_chunks =
        params.batch_dims.iter().product::<u64>() * params.rows * params.pitch / u64::from(MatmulPackParams::ELEMS);
    Ok(Step {
        function: context.function(variants::PACK)?,
        config: LaunchConfig { programmatic: true, ..linear_grid(n_chunks as i64, BLOCK) },
    })
}

/// An operand all of which stays in the second-level cache beside what comes and goes, where the other is what is long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kept {
    /// Tiles are walked column by column.
    A,
    /// Tiles are walked row by row: neighbours need the same rows of a at the same time, and have one request between them.
    B,
}

/// Which operand stays.
fn kept(maps: &Maps) -> Option<Kept> {
    const KEPT_BYTES: u64 = 16 << 20;
    let bytes = |side: u32| u64::from(side) * u64::from(maps.gemm_k) * 2;
    let (shorter, kept) = if maps.gemm_m < maps.gemm_n { (maps.gemm_m, Kept::A) } else { (maps.gemm_n, Kept::B) };
    (maps.n_batch() == 1 && bytes(shorter) <= KEPT_BYTES).then_some(kept)
}

/// Whether the memory is at least as much in the way as products are.
fn waits_for_memory(maps: &Maps) -> bool {
    // All three multiplied may be more than 64 bits.
    let [m, n, k] = [maps.gemm_m, maps.gemm_n, maps.gemm_k].map(f64::from);
    memory_counts(m * n * k, m * k + k * n + m * n)
}

/// Whether the second-level cache is asked to give up last what is read: where the memory is in the way, and an operand is
/// more than the cache holds.
fn reads_are_kept(maps: &Maps) -> bool {
    let bytes = |map: &InputMap, side: u32| {
        let own = map.batch_steps.iter().zip(maps.batch_dims).filter(|&(&step, _)| step > 0);
        2.0 * f64::from(side) * f64::from(maps.gemm_k) * own.map(|(_, dim)| f64::from(dim)).product::<f64>()
    };
    let longest = bytes(&maps.a, maps.gemm_m).max(bytes(&maps.b, maps.gemm_n));
    waits_for_memory(maps) && longest >= BEYOND_CACHE_BYTES as f64
}

/// How many rows of tiles, or of so many that share b's, to walk together: the count for which the clusters under way at
/// once share most.
pub(super) fn raster_rows(tile: MatmulTile, sharers_log2: u32, n_clusters: u32) -> u32 {
    let [shared_rows, shared_columns] = tile.shared_tile(sharers_log2);
    let span = |rows: &u32| rows * shared_rows + n_clusters.div_ceil(*rows) * shared_columns;
    [4, 8, 16].into_iter().min_by_key(span).unwrap_or(8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernel_abi::ops::matmul::{DRAWS_128X64, TILE_128X16, TILE_128X128, TILE_128X256, TILE_128X256_C2};

    #[test]
    fn raster_balances_rows_and_columns() {
        assert_eq!(raster_rows(TILE_128X256_C2, 0, 66), 8);
        assert_eq!(raster_rows(TILE_128X256, 0, 132), 16);
        assert_eq!(raster_rows(TILE_128X128, 0, 132), 8);
    }

    /// Of either operand, those that repeat counted once.
    #[test]
    fn what_the_cache_does_not_hold_is_given_up_last() {
        let kept =
            |text: &str| reads_are_kept(&Maps::of(&format!("matmul:forward {text}").parse().unwrap(), false).unwrap());
        assert!(kept("a=802816x64:bf16 b=64x64:bf16") && kept("a=64x64:bf16 b=64x802816:bf16"));
        let planes = |n: u32| format!("a={n}x64x64:bf16:s0x64x1 b={n}x64x3136:bf16");
        assert!(kept(&planes(256)) && !kept(&planes(64)));
        let repeated = "a=256x8x256:bf16 b=256x256x512:bf16:s0x512x1";
        assert!(!kept(repeated) && kept(repeated.strip_suffix(":s0x512x1").unwrap()));
        // Products count there, not the memory.
        assert!(!kept("a=8192x8192:bf16 b=8192x8192:bf16"));
    }

    #[test]
    fn the_long_operand_is_walked_where_the_other_stays_in_the_cache() {
        let kept = |text: &str| kept(&Maps::of(&format!("matmul:forward {text}").parse().unwrap(), false).unwrap());
        assert_eq!(kept("a=48000x1024:bf16 b=1024x3072:bf16"), Some(Kept::B));
        assert_eq!(kept("a=3072x1024:bf16 b=1024x48000:bf16"), Some(Kept::A));
        // 32 MiB, and other columns for every matrix.
        assert_eq!(kept("a=8192x4096:bf16 b=4096x4096:bf16"), None);
        assert_eq!(kept("a=4x512x256:bf16 b=4x256x128:bf16"), None);
    }

    #[test]
    fn slices_cover_all_blocks_of_k() {
        let problem = "matmul:forward a=256x1760:bf16 b=1760x16:bf16".parse().unwrap();
        let maps = Maps::of(&problem, false).unwrap();
        for slices in [1, 2, 5, 8, 14] {
            let params = params(&maps, TILE_128X16, Way { split: Split::Workspace(slices), ..Way::PLAIN }, 132);
            let longer = 28 - params.n_slices * params.slice_k_blocks;
            assert!(params.slice_k_blocks > 0 && longer < params.n_slices, "{slices}");
        }
        let way = Way { split: Split::Workspace(5), ..Way::PLAIN };
        assert_eq!(layout(&maps, TILE_128X16, way).bytes, 5 * 256 * 16 * 4);
        assert_eq!(layout(&maps, DRAWS_128X64, Way::PLAIN).bytes, tickets::BYTES);
    }

    /// An epilogue is computed by every tile but that of three consumers.
    #[test]
    fn three_consumers_have_no_epilogue() {
        let context = Context::described(crate::DeviceInfo::h200());
        let configs = |text: &str| {
            let product = Product::of(&format!("matmul:forward {text}").parse().unwrap()).unwrap();
            product.configs(&context).into_iter().filter(|config| config.0.contains("_192x192x")).count()
        };
        assert!(configs("a=2000x640:bf16 b=640x3000:bf16") > 0);
        assert_eq!(configs("act=relu a=2000x640:bf16 b=640x3000:bf16"), 0);
    }

    #[test]
    fn narrow_tiles_take_the_shorter_side_as_columns() {
        let exchanged = |text: &str, tile| {
            let product = Product::of(&format!("matmul:forward {text}").parse().unwrap()).unwrap();
            product.maps(tile, false).unwrap().exchanged
        };
        assert!(exchanged("a=16x64:bf16 b=64x4096:bf16", TILE_128X16));
        assert!(!exchanged("a=16x64:bf16 b=64x4096:bf16", TILE_128X256));
        assert!(!exchanged("a=4096x64:bf16 b=64x16:bf16", TILE_128X16));
        assert!(exchanged("a=64x32:bf16 b=32x128:bf16 c=64x128:bf16:s1x64", TILE_128X128));
    }

    /// Either side of c is the columns of tiles whose consumers take turns, and of no others.
    #[test]
    fn both_sides_are_offered_to_consumers_that_take_turns() {
        let context = Context::described(crate::DeviceInfo::h200());
        let problem = "matmul:forward a=48000x1536:bf16 b=1536x1024:bf16".parse().unwrap();
        let product = Product::of(&problem).unwrap();
        let offered: Vec<_> = product.configs(&context).into_iter().map(variants::chosen).collect();
        assert!(offered.iter().any(|(_, way)| way.exchanged));
        for (row, way) in offered {
            let maps = product.maps(row.tile, way.exchanged).unwrap();
            assert_eq!((row.a, row.b), (maps.a.major, maps.b.major));
            assert_eq!(maps.exchanged, way.exchanged);
            assert!(!way.exchanged || row.tile.in_turns, "{}", row.symbol);
        }
    }
}
