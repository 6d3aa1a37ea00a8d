//! The configs: a kernel, into how many slices it splits the sums, and how many blocks share what they load.

use super::maps::Major;
use crate::DType;
use crate::select::Config;
use kernel_abi::ops::matmul::{
    DRAWS_128X64, DRAWS_128X128, DRAWS_128X256, DRAWS_192X128, DRAWS_256X112, MatmulTile, RESIDENT_128X160, TILE_64X16,
    TILE_64X32, TILE_64X64, TILE_64X128, TILE_128X16, TILE_128X32, TILE_128X64, TILE_128X128, TILE_128X160,
    TILE_128X256, TILE_128X256_C2, TILE_192X128, TILE_192X192, TILE_256X112, TURNS_128X128, TURNS_128X128_C2,
    TURNS_128X160_C2, TURNS_128X160_S4_C2, TURNS_128X192_C2,
};

/// A row of the kernel list.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) symbol: &'static str,
    pub(super) dtype: DType,
    pub(super) tile: MatmulTile,
    pub(super) a: Major,
    pub(super) b: Major,
    pub(super) variants: &'static [Variant],
}

/// Who computes one tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::ops::matmul) enum Split {
    /// One block, or cluster of blocks that share what they load.
    Whole,
    /// The blocks of a cluster, a slice of the sums each, which add up through shared memory.
    Cluster(u32),
    /// Blocks that need not run together; their slices' sums go through the workspace.
    Workspace(u32),
}

impl Split {
    /// Slices of each sum.
    pub(in crate::ops::matmul) fn n_slices(self) -> u32 {
        match self {
            Split::Whole => 1,
            Split::Cluster(n) | Split::Workspace(n) => n,
        }
    }
}

/// A name, by which a config is known, and what it stands for.
#[derive(Debug)]
pub(super) struct Variant {
    pub(super) name: &'static str,
    pub(super) way: Way,
}

/// How the blocks of a launch work together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::ops::matmul) struct Way {
    pub(in crate::ops::matmul) split: Split,
    /// The logarithm of how many blocks, neighbours along the rows, share b's tile, or of neighbours along the columns a's
    /// where b stays; 0 where the kernel decides.
    pub(in crate::ops::matmul) sharers_log2: u32,
    /// Whether c's other side is the tiles' columns than the one that such tiles take by themselves.
    pub(in crate::ops::matmul) exchanged: bool,
}

impl Way {
    /// Each block by itself, unless the kernel has them share.
    pub(in crate::ops::matmul) const PLAIN: Self = Way { split: Split::Whole, sharers_log2: 0, exchanged: false };

    /// Blocks that share a tile of an operand.
    pub(in crate::ops::matmul) fn sharers(self, tile: MatmulTile) -> u32 {
        1 << tile.sharers_log2(self.sharers_log2)
    }

    /// Blocks of a cluster.
    pub(in crate::ops::matmul) fn cluster(self, tile: MatmulTile) -> u32 {
        let slices = if let Split::Cluster(n) = self.split { n } else { 1 };
        slices * self.sharers(tile)
    }
}

macro_rules! rows {
    ($(($symbol:ident, $dtype:ident, $tile:ident, $cluster:literal, $a:ident, $b:ident)),* $(,)?) => {
        &[$(Row {
            symbol: stringify!($symbol),
            dtype: kernel_abi::dtype_of!($dtype),
            tile: $tile,
            a: major!($a),
            b: major!($b),
            variants: variants!(
                $symbol; 2 3 4 5 6 7 8; 2 3 4 5 6 7 8 10 12 16 20 24 28 32 40 48 64;
                (2, 1; 2 3 4; 2 3 4 5 6 7 8 10 12 16 20 24 28 32) (4, 2; 2; 2 3 4 5 6 7 8 10 12 16 20 24 28 32)
            ),
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

macro_rules! variants {
    ($symbol:ident; $($cluster:literal)*; $($slices:literal)*; $(($sharers:literal, $log2:literal; $($both:literal)*; $($parts:literal)*))*) => {
        &[
            Variant { name: stringify!($symbol), way: Way::PLAIN },
            Variant {
                name: concat!(stringify!($symbol), "+exchanged"),
                way: Way { exchanged: true, ..Way::PLAIN },
            },
            $(Variant {
                name: concat!(stringify!($symbol), "+cluster", $cluster),
                way: Way { split: Split::Cluster($cluster), ..Way::PLAIN },
            },)*
            $(Variant {
                name: concat!(stringify!($symbol), "+split", $slices),
                way: Way { split: Split::Workspace($slices), ..Way::PLAIN },
            },)*
            $(
                Variant {
                    name: concat!(stringify!($symbol), "+share", $sharers),
                    way: Way { sharers_log2: $log2, ..Way::PLAIN },
                },
                $(Variant {
                    name: concat!(stringify!($symbol), "+share", $sharers, "+cluster", $both),
                    way: Way { split: Split::Cluster($both), sharers_log2: $log2, ..Way::PLAIN },
                },)*
                $(Variant {
                    name: concat!(stringify!($symbol), "+share", $sharers, "+split", $parts),
                    way: Way { split: Split::Workspace($parts), sharers_log2: $log2, ..Way::PLAIN },
                },)*
            )*
        ]
    };
}

/// Every kernel.
pub(super) const KERNELS: &[Row] = kernel_abi::matmul_tma_wgmma_kernels!(rows);

macro_rules! symbols {
    ($(($symbol:ident, $dtype:ident)),* $(,)?) => {
        &[$((stringify!($symbol), kernel_abi::dtype_of!($dtype))),*]
    };
}

/// The kernels that add up the slices in the workspace.
const PARTIALS: &[(&str, DType)] = kernel_abi::matmul_tma_wgmma_partials_kernels!(symbols);

macro_rules! symbol {
    (($symbol:ident) $(,)?) => {
        stringify!($symbol)
    };
}

/// The kernel that copies an input into the workspace.
pub(super) const PACK: &str = kernel_abi::matmul_tma_wgmma_pack_kernels!(symbol);

/// The kernel that adds up slices and stores them as `dtype`.
pub(super) fn partials_symbol(dtype: DType) -> &'static str {
    let row = PARTIALS.iter().find(|row| row.1 == dtype);
    row.expect("there is one for every type of the kernel list").0
}

/// What a config stands for.
pub(super) fn chosen(config: Config) -> (&'static Row, Way) {
    KERNELS
        .iter()
        .filter(|row| config.0.starts_with(row.symbol))
        .find_map(|row| {
            let variant = row.variants.iter().find(|variant| variant.name == config.0)?;
            Some((row, variant.way))
        })
        .expect("configs come from the kernel list")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_orientation_and_type_has_every_tile() {
        for dtype in [DType::BF16, DType::F16] {
            for (a, b) in [(Major::K, Major::K), (Major::K, Major::Mn), (Major::Mn, Major::K), (Major::Mn, Major::Mn)] {
                let wide = [TILE_128X256_C2, TILE_128X256, TILE_192X192, TILE_192X128, TILE_256X112, TILE_128X128];
                let turns = [TURNS_128X192_C2, TURNS_128X160_C2, TURNS_128X160_S4_C2, TURNS_128X128_C2, TURNS_128X128];
                let narrow = [TILE_128X64, TILE_128X32, TILE_128X16, TILE_64X128, TILE_64X64, TILE_64X32, TILE_64X16];
                let draws = [DRAWS_128X256, DRAWS_192X128, DRAWS_256X112, DRAWS_128X128, DRAWS_128X64];
                // Of a, rows are parted.
                let resident = (a == Major::K).then_some(RESIDENT_128X160);
                for tile in wide.into_iter().chain(turns).chain(narrow).chain(draws).chain(resident) {
                    let fits = |row: &&Row| row.dtype == dtype && (row.a, row.b) == (a, b) && row.tile == tile;
                    let row = KERNELS.iter().filter(fits).collect::<Vec<_>>();
                    assert_eq!(row.len(), 1);
                    let letter = |major, n| if major == n { 'n' } else { 't' };
                    let (m, n, k, s) = (tile.gemm_m, tile.gemm_n, tile.gemm_k, tile.stages);
                    let c = if tile.cluster > 1 { format!("_c{}", tile.cluster) } else { String::new() };
                    let how = match (tile.has_resident_b(), tile.in_turns, tile.draws) {
                        (true, ..) => "resident",
                        (_, true, _) => "turns",
                        (.., true) => "draws",
                        _ => "",
                    };
                    let letters = [letter(a, Major::K), letter(b, Major::Mn)].iter().collect::<String>();
                    let symbol = format!(
                        "matmul{n}{how}_forward_tma_wgmma_{dtype}f32{dtype}_{m}x{n}x{k}_s{s}{c}_{letters}_sm90"
                    );
                    assert_eq!(row[0].symbol, symbol);
                }
            }
        }
    }

    #[test]
    fn names_lead_back_to_their_variants() {
        for row in KERNELS {
            for variant in row.variants {
                let (found, way) = chosen(Config(variant.name));
                assert_eq!((found.symbol, way), (row.symbol, variant.way));
            }
        }
    }
}
