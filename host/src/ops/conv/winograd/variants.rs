//! The configs: a kernel for the products, a tile, and in how many turns tiles are taken.

use crate::select::Config;

/// Results of a tile along each axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::ops::conv) enum Tile {
    /// F(2 × 2, 3 × 3).
    F2,
    /// F(4 × 4, 3 × 3).
    F4,
}

impl Tile {
    /// Results along an axis.
    pub(super) fn results(self) -> i64 {
        match self {
            Tile::F2 => 2,
            Tile::F4 => 4,
        }
    }

    /// Elements of a transformed tile.
    pub(super) fn elems(self) -> i64 {
        (self.results() + 2) * (self.results() + 2)
    }
}

/// Whose kernels multiply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Method {
    /// `bf16x3_wgmma`, or `f16x2_wgmma_split`.
    Parts,
    /// `ffma`.
    Ffma,
}

/// A name, by which a config is known, and what it stands for.
#[derive(Debug)]
pub(super) struct Variant {
    pub(super) name: &'static str,
    /// Its name where operands are transposed.
    nchw: &'static str,
    /// The kernel of the products.
    pub(super) inner: &'static str,
    pub(super) method: Method,
    pub(super) tile: Tile,
    /// Turns.
    pub(super) chunks: i64,
}

/// Variants of a tile, and of a kernel.
type OfTile = [Variant; 14];
type OfKernel = [OfTile; 2];

macro_rules! variants {
    ($method:ident $(($symbol:ident $($column:tt)*))*) => {
        &[$(variants!(@kernel $method $symbol)),*]
    };
    (@kernel $method:ident $symbol:ident) => {
        [
            variants!(@tile $method $symbol, F2, "+f2x2", 2 3 4 6 8 12 16 24 32 48 64 96 128),
            variants!(@tile $method $symbol, F4, "+f4x4", 2 3 4 6 8 12 16 24 32 48 64 96 128),
        ]
    };
    (@tile $method:ident $symbol:ident, $tile:ident, $suffix:literal, $($chunks:literal)*) => {
        [
            Variant {
                name: concat!(stringify!($symbol), $suffix),
                nchw: concat!(stringify!($symbol), $suffix, "+nchw"),
                inner: stringify!($symbol),
                method: Method::$method,
                tile: Tile::$tile,
                chunks: 1,
            },
            $(Variant {
                name: concat!(stringify!($symbol), $suffix, "+chunks", $chunks),
                nchw: concat!(stringify!($symbol), $suffix, "+chunks", $chunks, "+nchw"),
                inner: stringify!($symbol),
                method: Method::$method,
                tile: Tile::$tile,
                chunks: $chunks,
            },)*
        ]
    };
}

macro_rules! parts_variants {
    ($(($($row:tt)*)),* $(,)?) => { variants!(Parts $(($($row)*))*) };
}

macro_rules! ffma_variants {
    ($(($($row:tt)*)),* $(,)?) => { variants!(Ffma $(($($row)*))*) };
}

const PARTS: &[OfKernel] = kernel_abi::conv_bf16x3_gather_kernels!(parts_variants);
const WGRAD: &[OfKernel] = kernel_abi::conv_f16x2_wgrad_kernels!(parts_variants);
const FFMA: &[OfKernel] = kernel_abi::conv_ffma_kernels!(ffma_variants);

const fn nchw_names<const N: usize>(kernels: &'static [OfKernel], tile: Tile) -> [(&'static str, &'static str); N] {
    let mut names = [("", ""); N];
    let chunks = kernels[0][0].len();
    let mut i = 0;
    while i < N {
        let variant = &kernels[i / chunks][tile as usize][i % chunks];
        names[i] = (variant.name, variant.nchw);
        i += 1;
    }
    names
}

macro_rules! nchw_names {
    ($tile:expr) => {
        [
            &nchw_names::<{ 14 * PARTS.len() }>(PARTS, $tile),
            &nchw_names::<{ 14 * WGRAD.len() }>(WGRAD, $tile),
            &nchw_names::<{ 14 * FFMA.len() }>(FFMA, $tile),
        ]
    };
}

/// All names of each tile, in the order of [`Tile`], each with the one that it has where operands are transposed.
pub(in crate::ops::conv) const NCHW_NAMES: [[&[(&str, &str)]; 3]; 2] = [nchw_names!(Tile::F2), nchw_names!(Tile::F4)];

fn all() -> impl Iterator<Item = &'static Variant> {
    PARTS.iter().chain(WGRAD).chain(FFMA).flatten().flatten()
}

/// What a config stands for.
pub(super) fn chosen(config: Config) -> &'static Variant {
    all().find(|variant| variant.name == config.0).expect("configs come from the list of variants")
}

/// The variants of a kernel and tile, with the fewest turns first.
pub(super) fn of(inner: Config, tile: Tile) -> impl Iterator<Item = &'static Variant> {
    all().filter(move |variant| variant.inner == inner.0 && variant.tile == tile)
}
