//! Which tiles and variants are worth a look for a product.

use super::maps::{Major, Maps};
use super::variants::{Row, Split, Variant, Way};
use super::{extents, waits_for_memory};
use crate::select::Config;
use kernel_abi::ops::matmul::{MatmulTile, TILE_128X128, TURNS_128X160_S4_C2};
use kernel_abi::tickets::GIVEN;

/// The fewest blocks of k that are worth a slice.
const MIN_SLICE_BLOCKS: u32 = 2;

/// Of slices in clusters, of slices through the workspace, and of blocks that share what they load, how many variants of
/// a kernel are offered: the best by estimate.
const OFFERED_CLUSTERS: usize = 2;
const OFFERED_SPLITS: usize = 2;
const OFFERED_SHARES: usize = 3;

/// The logarithm of the most blocks that share a's tile while b stays: four took 7 to 9 % longer than two.
const SHARERS_OF_A_LOG2: u32 = 1;

/// Whether a tile is worth a look: narrow ones for narrow products and for those with few tiles, those of few rows where
/// all are at work at once or nearly, those of three and four consumers where all have rows, those of 112
/// and 160 columns where fewer are left over than with 128, or 192, and 160 where few rounds are shorter; those whose
/// consumers take turns where blocks have several tiles, of which more columns than 128 may leave some more of them over,
/// since fewer bytes are loaded a product, with fewer stages and more room for results where sums are short, and those
/// that blocks draw where that may pay.
pub(super) fn suits(tile: MatmulTile, maps: &Maps, n_units: u64) -> bool {
    let n_tiles = tile.n_tiles(0, extents(maps));
    let narrow = maps.gemm_n <= 2 * tile.gemm_n;
    /// More are about as long with any tile.
    const FEW_ROUNDS: u64 = 2;
    // Columns of all tiles when each has so many.
    let fills = |columns: u32| maps.gemm_n.next_multiple_of(columns);
    // Columns that stay idle count for less than bytes that are not loaded.
    let is_filled = 8 * fills(tile.gemm_n) <= 9 * fills(128);
    if tile.has_resident_b() {
        /// Tiles of a block from which on it pays to load all of b first.
        const MANY_TILES: u64 = 4;
        return is_filled && may_stay(tile, maps) && n_tiles >= MANY_TILES * n_units;
    }
    if tile.in_turns {
        /// Blocks of k up to which results' way out is longer than what more stages would hide.
        const SHORT: u32 = 5;
        if tile == TURNS_128X160_S4_C2 && maps.gemm_k > SHORT * tile.gemm_k {
            return false;
        }
        return n_tiles * u64::from(tile.cluster) > n_units && maps.gemm_m > tile.gemm_m && is_filled;
    }
    if tile.draws && !draws_pay(tile, maps, n_units) {
        return false;
    }
    match tile.consumers() {
        1 => n_tiles <= if narrow { 2 * n_units } else { n_units },
        2 if tile.gemm_n == 160 => {
            // Columns of all rounds of tiles that differ in nothing else.
            let rounds = |other: MatmulTile| other.n_tiles(0, extents(maps)).div_ceil(n_units);
            let is_shorter = rounds(tile) * 160 < rounds(TILE_128X128) * 128;
            fills(160) < fills(128).min(fills(192)) || (is_shorter && rounds(tile) <= FEW_ROUNDS)
        }
        2 => tile.gemm_n > MatmulTile::PANEL || narrow || n_tiles <= 4 * n_units,
        3 => maps.gemm_m > 128 && maps.gemm_n > tile.gemm_n - MatmulTile::PANEL,
        _ => maps.gemm_m > 192 && fills(tile.gemm_n) < fills(2 * MatmulTile::PANEL),
    }
}

/// Whether blocks of the tile have room for all that they need of b, and need the same for all of a.
fn may_stay(tile: MatmulTile, maps: &Maps) -> bool {
    /// Clusters with other columns, which read all rows again.
    const COLUMN_GROUPS: u32 = 2;
    let repeats = maps.b.batch_steps.iter().zip(maps.batch_dims).all(|(&step, dim)| step == 0 || dim == 1);
    maps.gemm_k.div_ceil(tile.gemm_k) <= tile.resident_blocks
        && maps.gemm_n <= (tile.gemm_n << SHARERS_OF_A_LOG2) * COLUMN_GROUPS
        && maps.a.major == Major::K
        && repeats
        && maps.outer.batches == [false; 2]
}

/// Whether a tile is offered with either side of c as its columns: where consumers take turns, results of either
/// orientation go out beside products, and fewer tiles are left over along one side than along the other.
pub(super) fn may_exchange(tile: MatmulTile) -> bool {
    tile.in_turns && !tile.has_resident_b()
}

/// The configs of a kernel that are offered with the side of c that its tiles take by themselves: whole sums, and the best
/// ones of each other kind.
pub(super) fn offered(row: &Row, estimate_us: impl Fn(Way) -> f64, maps: &Maps) -> Vec<Config> {
    let k_blocks = maps.gemm_k.div_ceil(row.tile.gemm_k);
    let best = |kind: fn(Way) -> bool, n: usize| {
        let able = |variant: &&Variant| {
            let Way { split, sharers_log2, .. } = variant.way;
            let slices = split.n_slices();
            kind(variant.way)
                && (slices == 1 || slices * MIN_SLICE_BLOCKS <= k_blocks)
                && row.tile.may_share(sharers_log2)
                && maps.gemm_m > row.tile.gemm_m * ((1 << sharers_log2) - 1)
        };
        let mut all: Vec<_> = row.variants.iter().filter(able).collect();
        all.sort_by(|a, b| estimate_us(a.way).total_cmp(&estimate_us(b.way)));
        all.into_iter().take(n).map(|variant| Config(variant.name)).collect::<Vec<_>>()
    };
    if row.tile.has_resident_b() {
        // Clusters with more blocks would have some without columns.
        let has_columns = |way: Way| {
            let [_, columns] = row.tile.shared_tile(way.sharers_log2);
            let is_alone = way.sharers_log2 == 0;
            way.split == Split::Whole
                && !way.exchanged
                && way.sharers_log2 <= SHARERS_OF_A_LOG2
                && (is_alone || maps.gemm_n > columns - row.tile.gemm_n)
        };
        let variants = row.variants.iter().filter(|variant| has_columns(variant.way));
        return variants.map(|variant| Config(variant.name)).collect();
    }
    let mut configs = whole(row, false);
    if row.tile.in_turns || row.tile.draws {
        // Blocks have several tiles each, as `suits` says.
        return configs;
    }
    if row.tile.forms_clusters() {
        configs.extend(best(|way| way.sharers_log2 == 0 && matches!(way.split, Split::Cluster(_)), OFFERED_CLUSTERS));
        configs.extend(best(|way| way.sharers_log2 > 0 && !is_in_workspace(way), OFFERED_SHARES));
        configs.extend(best(|way| way.sharers_log2 > 0 && is_in_workspace(way), OFFERED_SPLITS));
    }
    configs.extend(best(|way| way.sharers_log2 == 0 && is_in_workspace(way), OFFERED_SPLITS));
    configs
}

/// The configs that compute whole sums, and share no more than the kernel has them share.
pub(super) fn whole(row: &Row, exchanged: bool) -> Vec<Config> {
    let able = |variant: &&Variant| variant.way == Way { exchanged, ..Way::PLAIN };
    row.variants.iter().filter(able).map(|variant| Config(variant.name)).collect()
}

/// Whether blocks may as well draw their tiles: the memory is in the way, and all blocks have some tiles beyond those that
/// nobody draws.
fn draws_pay(tile: MatmulTile, maps: &Maps, n_units: u64) -> bool {
    const MIN_TILES: u64 = 2 * GIVEN as u64;
    tile.n_tiles(0, extents(maps)) >= MIN_TILES * n_units && waits_for_memory(maps)
}

/// Whether slices' sums go through the workspace.
fn is_in_workspace(way: Way) -> bool {
    matches!(way.split, Split::Workspace(_))
}

#[cfg(test)]
mod tests {
    use super::super::variants::KERNELS;
    use super::*;
    use kernel_abi::ops::matmul::{
        RESIDENT_128X160, TILE_64X64, TILE_128X160, TILE_192X192, TURNS_128X128, TURNS_128X160_C2, TURNS_128X192_C2,
    };

    #[test]
    fn tiles_are_offered_where_their_consumers_have_work() {
        let is_offered = |text: &str, tile| {
            let maps = Maps::of(&format!("matmul:forward {text}").parse().unwrap(), false).unwrap();
            suits(tile, &maps, 132)
        };
        assert!(is_offered("a=512x64:bf16 b=64x512:bf16", TILE_64X64));
        assert!(!is_offered("a=1024x64:bf16 b=64x1024:bf16", TILE_64X64));
        assert!(
            is_offered("a=16000x64:bf16 b=64x64:bf16", TILE_64X64)
                && !is_offered("a=20000x64:bf16 b=64x64:bf16", TILE_64X64)
        );
        assert!(is_offered("a=2000x64:bf16 b=64x3000:bf16", TILE_192X192));
        assert!(!is_offered("a=128x64:bf16 b=64x3000:bf16", TILE_192X192));
        // 375 tiles of 20, and of 7 columns of tiles that have 1120 where there are 1024.
        assert!(is_offered("a=48000x1024:bf16 b=1024x3072:bf16", TURNS_128X160_C2));
        assert!(is_offered("a=48000x1024:bf16 b=1024x1024:bf16", TURNS_128X160_C2));
        assert!(!is_offered("a=48000x1024:bf16 b=1024x512:bf16", TURNS_128X160_C2));
        assert!(is_offered("a=65536x304:bf16 b=304x304:bf16", TURNS_128X160_S4_C2));
        assert!(!is_offered("a=48000x1024:bf16 b=1024x1024:bf16", TURNS_128X160_S4_C2));
        assert!(is_offered("a=48000x1024:bf16 b=1024x3072:bf16", TURNS_128X192_C2));
        assert!(!is_offered("a=48000x1024:bf16 b=1024x256:bf16", TURNS_128X192_C2));
        assert!(is_offered("a=65536x304:bf16 b=304x304:bf16", RESIDENT_128X160));
        assert!(is_offered("a=256x256x304:bf16 b=256x304x304:bf16:s0x304x1", RESIDENT_128X160));
        // Longer sums than there is room for, columns of which few would be left over, few tiles, other columns for every
        // matrix, and rows that are contiguous.
        for text in [
            "a=65536x328:bf16 b=328x304:bf16",
            "a=65536x304:bf16 b=304x256:bf16",
            "a=30000x304:bf16 b=304x304:bf16",
            "a=256x256x304:bf16 b=256x304x304:bf16",
            "trans=tn a=304x65536:bf16 b=304x304:bf16",
        ] {
            assert!(!is_offered(text, RESIDENT_128X160), "{text}");
        }
        // 120 tiles instead of 144, for 132 multiprocessors.
        assert!(is_offered("a=1536x1536:bf16 b=1536x1536:bf16", TILE_128X160));
        assert!(!is_offered("a=2048x2048:bf16 b=2048x2048:bf16", TILE_128X160));
        assert!(!is_offered("a=1024x1024:bf16 b=1024x1024:bf16", TURNS_128X128));
    }

    /// Two blocks have the columns of one tile and more, no others.
    #[test]
    fn blocks_that_keep_b_share_a_where_both_have_columns() {
        let row = KERNELS.iter().find(|row| row.tile == RESIDENT_128X160 && row.b == Major::Mn).unwrap();
        let names = |text: &str| {
            let maps = Maps::of(&format!("matmul:forward {text}").parse().unwrap(), false).unwrap();
            offered(row, |_| 1.0, &maps).into_iter().map(|config| config.0.replace(row.symbol, "")).collect::<Vec<_>>()
        };
        assert_eq!(names("a=65536x304:bf16 b=304x304:bf16"), ["", "+share2"]);
        assert_eq!(names("a=65536x304:bf16 b=304x160:bf16"), [""]);
    }
}
