//! A problem as tiles, and what lies where.

use super::variants::{Method, Tile};
use crate::launch::div_ceil;
use crate::ops::conv::{ConvDesc, ConvMode, ConvPass, ConvProblem};
use crate::select::Refusal;
use crate::{DType, Error, TensorDesc};
use kernel_abi::division::Divisor;
use kernel_abi::ops::conv::winograd::{WinogradFilterParams, WinogradImageParams, WinogradOutputParams};

/// What parts of the workspace are aligned to.
const ALIGN_BYTES: u64 = 256;
/// Tiles of a turn are a multiple of what a block of the products takes.
const GRAIN: i64 = 128;
/// What kernels count up to.
const MOST: i64 = i32::MAX as i64;

/// A convolution as products of transformed tiles.
#[derive(Clone, Copy, Debug)]
pub(super) struct Geometry {
    pub(super) tile: Tile,
    method: Method,
    pub(super) wgrad: bool,
    images: i64,
    /// Tiles along both axes of an image.
    tiles: [i64; 2],
    /// Channels that are summed over, and those of the result; as they are, and filled up.
    channels: [i64; 2],
    packed: [i64; 2],
    read: Image,
    written: Image,
    /// How far before the image that is read the first window begins.
    padding: [i64; 2],
    filter: WinogradFilterParams,
    /// Bytes of both images.
    pub(super) image_bytes: [f64; 2],
    pub(super) filter_elems: i64,
}

/// How an image lies.
#[derive(Clone, Copy, Debug)]
struct Image {
    extents: [i64; 2],
    /// Along N, C, H, W.
    strides: [i64; 4],
}

impl Image {
    fn of(name: &str, desc: &TensorDesc) -> Result<Self, Refusal> {
        let (dims, strides) = (desc.dims(), desc.strides());
        if dims[1] > 1 && strides[1] != 1 {
            let given = strides[1];
            return Err(Refusal::new(format!("needs {name} channels-last, the stride of its channels is {given}")));
        }
        let strides = [strides[0], strides[1], strides[2], strides[3]];
        Ok(Image { extents: [dims[2], dims[3]], strides })
    }

    /// Whether neighbouring channels can be accessed at once at this address.
    fn is_pairwise(&self, channels: i64, address: u64) -> bool {
        let [n, _, h, w] = self.strides;
        channels % 2 == 0 && [n, h, w].iter().fold(address, |all, &elems| all | (4 * elems) as u64).is_multiple_of(8)
    }
}

impl Geometry {
    pub(super) fn of(problem: &ConvProblem, tile: Tile, method: Method) -> Result<Self, Refusal> {
        let dtype = problem.x().dtype();
        if dtype != DType::F32 {
            return Err(Refusal::new(format!("has kernels for f32, the element type is {dtype}")));
        }
        let (shape, axes) = (problem.shape(), problem.axes());
        let plain = axes.iter().all(|axis| axis.stride == 1 && axis.dilation == 1);
        if axes.len() != 2 || shape.filter != [1, 3, 3] || !plain || shape.groups != 1 {
            let steps = |of: fn(&crate::ops::conv::ConvAxis) -> i64| axes.iter().map(of).collect::<Vec<_>>();
            return Err(Refusal::new(format!(
                "takes two axes, 3 × 3 taps, stride 1, dilation 1 and one group, given taps {:?}, strides {:?}, \
                 dilations {:?} and {} groups",
                &problem.w().dims()[2..],
                steps(|axis| axis.stride),
                steps(|axis| axis.dilation),
                shape.groups
            )));
        }
        let w = problem.w().strides();
        let (read, written, channels, strides, padding) = match problem.conv_pass() {
            ConvPass::Fprop => (
                Image::of("x", problem.x())?,
                Image::of("y", problem.y())?,
                [shape.c, shape.k],
                [w[0], w[1]],
                [axes[0].padding, axes[1].padding],
            ),
            // The same with the filter turned around, from where it first meets the image.
            ConvPass::Dgrad => (
                Image::of("dy", problem.y())?,
                Image::of("dx", problem.x())?,
                [shape.k, shape.c],
                [w[1], w[0]],
                [2 - axes[0].padding, 2 - axes[1].padding],
            ),
            // Tiles are of dy.
            ConvPass::Wgrad => (
                Image::of("x", problem.x())?,
                Image::of("dy", problem.y())?,
                [shape.c, shape.k],
                [w[0], w[1]],
                [axes[0].padding, axes[1].padding],
            ),
        };
        let turned = (problem.conv_pass() == ConvPass::Dgrad) != (problem.mode() == ConvMode::Convolution);
        let (tap_strides, first_tap) = if turned { ([-w[2], -w[3]], 2 * (w[2] + w[3])) } else { ([w[2], w[3]], 0) };
        let whole = |extent: i64, multiple: i64| div_ceil(extent, multiple) * multiple;
        let limit = 1 << 28;
        let most = channels.into_iter().chain(read.extents).chain(written.extents).chain(padding.map(i64::abs)).max();
        if let Some(most) = most.filter(|&most| most > limit) {
            return Err(Refusal::new(format!("takes channels, extents and padding up to {limit}, given {most}")));
        }
        let wgrad = problem.conv_pass() == ConvPass::Wgrad;
        // The products of the other passes sum over panels of channels, which may not reach into the next group's.
        let panel = if method == Method::Parts && !wgrad { 32 } else { 4 };
        let packed = [whole(channels[0], panel), whole(channels[1], 4)];
        let tiles = written.extents.map(|extent| div_ceil(extent, tile.results()));
        let counted = [shape.n, tiles[0], tiles[1]].iter().fold(1i64, |all, &extent| all.saturating_mul(extent));
        let filter_units = packed[0].saturating_mul(packed[1]);
        if counted.saturating_add(GRAIN) > MOST || filter_units > MOST {
            return Err(Refusal::new(format!(
                "counts up to {MOST} tiles and elements of a tap, given {counted} and {filter_units}"
            )));
        }
        Ok(Geometry {
            tile,
            method,
            wgrad,
            images: shape.n,
            tiles,
            channels,
            packed,
            read,
            written,
            padding,
            filter: WinogradFilterParams {
                from: 0,
                to: 0,
                strides,
                tap_strides,
                first_tap,
                rows: channels[1] as u32,
                columns: channels[0] as u32,
                packed_rows: packed[1] as u32,
                packed_columns: packed[0] as u32,
                pairs: Divisor::new((packed[0] / 2) as u32),
                n_units: (packed[1] * packed[0] / 2) as u32,
                alpha: 1.0,
                beta: 0.0,
            },
            image_bytes: match problem.conv_pass() {
                ConvPass::Dgrad => [problem.y().data_bytes() as f64, problem.x().data_bytes() as f64],
                _ => [problem.x().data_bytes() as f64, problem.y().data_bytes() as f64],
            },
            filter_elems: problem.w().n_elems(),
        })
    }

    /// Tiles of all images.
    pub(super) fn n_tiles(&self) -> i64 {
        self.images * self.tiles[0] * self.tiles[1]
    }

    /// Tiles of each of so many turns but the last; fewer turns may do.
    pub(super) fn chunk_tiles(&self, chunks: i64) -> i64 {
        let tiles = div_ceil(self.n_tiles(), chunks);
        if chunks == 1 { tiles } else { (div_ceil(tiles, GRAIN) * GRAIN).min(self.n_tiles()) }
    }

    /// Bytes of so many tiles' transformed images, and of their sums.
    pub(super) fn tile_bytes(&self, tiles: i64) -> [u64; 2] {
        let bytes = |channels: i64| tiles.saturating_mul(self.tile.elems() * 4).saturating_mul(channels);
        self.packed.map(|channels| (bytes(channels) as u64).next_multiple_of(ALIGN_BYTES))
    }

    /// Bytes of the transformed filter.
    pub(super) fn filter_bytes(&self) -> u64 {
        let element = if self.method == Method::Parts && !self.wgrad { 6 } else { 4 };
        let [columns, rows] = self.packed;
        (self.tile.elems() * element * rows) as u64 * columns as u64
    }

    /// Where the filter ends, the images, and the sums.
    pub(super) fn layout(&self, tiles: i64) -> [u64; 3] {
        let filter = self.filter_bytes().next_multiple_of(ALIGN_BYTES);
        let [images, sums] = self.tile_bytes(tiles);
        [filter, filter.saturating_add(images), filter.saturating_add(images).saturating_add(sums)]
    }

    /// The products of so many tiles: tiles are positions, elements of a transformed tile are groups.
    pub(super) fn product(&self, tiles: i64) -> Result<ConvProblem, Refusal> {
        let groups = self.tile.elems();
        let [columns, rows] = self.packed.map(|channels| channels * groups);
        let tensor = |dims: &[i64]| TensorDesc::channels_last(DType::F32, dims).map_err(Refusal::from);
        let (x, y) = (tensor(&[1, columns, tiles])?, tensor(&[1, rows, tiles])?);
        let w = tensor(&[rows, self.packed[0], 1])?;
        if tiles.saturating_mul(self.packed[0].max(self.packed[1]) / 2) > MOST {
            let (c, k) = (self.packed[0], self.packed[1]);
            return Err(Refusal::new(format!(
                "counts up to {MOST} pairs of channels, given {tiles} tiles of {c} and {k} channels"
            )));
        }
        let desc = ConvDesc::new().groups(groups);
        let product =
            if self.wgrad { ConvProblem::wgrad(&desc, &x, &y, &w) } else { ConvProblem::fprop(&desc, &x, &w, &y) };
        product.map_err(Refusal::from)
    }

    /// The same of tiles that were counted when configs were offered.
    pub(super) fn counted(&self, tiles: i64) -> Result<ConvProblem, Error> {
        self.product(tiles).map_err(|refusal| refusal.into_error("winograd", &format!("{tiles} tiles")))
    }

    /// The filter's launch, but for addresses.
    pub(super) fn filter(&self) -> WinogradFilterParams {
        self.filter
    }

    /// The images' launch.
    pub(super) fn images(&self, first_tile: i64, tiles: i64, [from, to]: [u64; 2]) -> WinogradImageParams {
        let padding = self.padding.map(|padding| padding as i32);
        self.transformed(0, padding, first_tile, tiles, [from, to])
    }

    /// The launch for gradients of results.
    pub(super) fn gradients(&self, first_tile: i64, tiles: i64, [from, to]: [u64; 2]) -> WinogradImageParams {
        self.transformed(1, [0; 2], first_tile, tiles, [from, to])
    }

    /// The launch for images that have the channels of one side of the product.
    fn transformed(
        &self,
        side: usize,
        padding: [i32; 2],
        first_tile: i64,
        tiles: i64,
        [from, to]: [u64; 2],
    ) -> WinogradImageParams {
        let images = if side == 0 { &self.read } else { &self.written };
        let (channels, packed) = (self.channels[side], self.packed[side]);
        let pairs = packed / 2;
        WinogradImageParams {
            from,
            to,
            strides: images.strides,
            first_tile: first_tile as u32,
            n_units: (tiles * pairs) as u32,
            pairs: Divisor::new(pairs as u32),
            tiles: self.tiles.map(|tiles| Divisor::new(tiles as u32)),
            extents: images.extents.map(|extent| extent as u32),
            padding,
            channels: channels as u32,
            packed_channels: packed as u32,
            pairwise: images.is_pairwise(channels, from).into(),
            unused: 0,
        }
    }

    /// The results' launch.
    pub(super) fn results(
        &self,
        first_tile: i64,
        tiles: i64,
        [from, to]: [u64; 2],
        [alpha, beta]: [f64; 2],
    ) -> WinogradOutputParams {
        let pairs = (self.channels[1] + 1) / 2;
        WinogradOutputParams {
            from,
            to,
            strides: self.written.strides,
            first_tile: first_tile as u32,
            n_units: (tiles * pairs) as u32,
            pairs: Divisor::new(pairs as u32),
            tiles: self.tiles.map(|tiles| Divisor::new(tiles as u32)),
            extents: self.written.extents.map(|extent| extent as u32),
            channels: self.channels[1] as u32,
            packed_channels: self.packed[1] as u32,
            pairwise: self.written.is_pairwise(self.channels[1], to).into(),
            alpha: alpha as f32,
            beta: beta as f32,
        }
    }
}
