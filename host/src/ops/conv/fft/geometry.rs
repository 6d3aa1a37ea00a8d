//! What is transformed, and the product between the transforms.

use super::super::{ConvMode, ConvPass, ConvProblem};
use super::ALIGN_BYTES;
use crate::ops::matmul::{MatmulDesc, MatmulProblem};
use crate::select::{Cheapest, Refusal};
use crate::{Context, DType, Math, TensorDesc};
use kernel_abi::division::Divisor;
use kernel_abi::ops::conv::fft::{ConvFftFilterParams, ConvFftTilesParams, frequencies, slots};

/// What a transform has of an image.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Cut {
    /// Tiles that overlap by the window.
    Tiles,
    /// All of it.
    Whole,
}

/// Sizes of transforms.
const TILES: [u32; 2] = [16, 32];
const WHOLE: [u32; 3] = [32, 64, 128];

impl Cut {
    /// The sizes that are worth while for a problem: each of tiles, the least that holds a whole image.
    pub(super) fn sizes(self, problem: &ConvProblem) -> Result<Vec<u32>, Refusal> {
        let Extents { written, window, .. } = Extents::of(problem)?;
        // Half of a tile's positions are results, at least.
        let most = |size: u32| i64::from(size / 2 + 1);
        let fits = |size: u32| window.iter().all(|&extent| extent <= most(size));
        let [.., widest] = TILES;
        if self == Cut::Tiles {
            let sizes: Vec<u32> = TILES.into_iter().filter(|&size| fits(size)).collect();
            return if sizes.is_empty() {
                let most = most(widest);
                Err(Refusal::new(format!("takes windows of up to {most} positions in its tiles, given {window:?}")))
            } else {
                Ok(sizes)
            };
        }
        let needed = [0, 1].map(|i| written[i].saturating_add(window[i] - 1));
        let [.., largest] = WHOLE;
        let holds = |&size: &u32| needed.iter().all(|&extent| extent <= i64::from(size));
        let Some(size) = WHOLE.into_iter().find(holds) else {
            return Err(Refusal::new(format!(
                "takes results and windows that need up to {largest} positions together, given {needed:?}"
            )));
        };
        if size == widest && fits(size) {
            let most = most(size);
            return Err(Refusal::new(format!(
                "leaves one tile of {size} × {size} with windows of up to {most} positions to fft_tiled, given {window:?}"
            )));
        }
        Ok(vec![size])
    }
}

/// What transforms of a problem have to hold.
struct Extents {
    image: [i64; 2],
    output: [i64; 2],
    padding: [i64; 2],
    /// Of the image or the output: what is written, or in `wgrad` what is slid over x.
    written: [i64; 2],
    window: [i64; 2],
}

impl Extents {
    fn of(problem: &ConvProblem) -> Result<Self, Refusal> {
        let shape = problem.shape();
        let operands = [problem.x(), problem.w(), problem.y()];
        if let Some(other) = operands.into_iter().map(|desc| desc.dtype()).find(|&dtype| dtype != DType::F32) {
            return Err(Refusal::new(format!("transforms f32, given {other}")));
        }
        if problem.axes().len() != 2 || problem.axes().iter().any(|axis| axis.stride != 1) {
            let strides: Vec<i64> = problem.axes().iter().map(|axis| axis.stride).collect();
            return Err(Refusal::new(format!("takes two axes of stride 1, given strides {strides:?}")));
        }
        let window = [1, 2].map(|i| (shape.filter[i] - 1).saturating_mul(shape.axes[i].dilation).saturating_add(1));
        let (image, output) = ([shape.image[1], shape.image[2]], [shape.output[1], shape.output[2]]);
        let padding = [shape.axes[1].padding, shape.axes[2].padding];
        /// So that positions stay within an `i32`.
        const MOST: i64 = 1 << 29;
        let largest = image.into_iter().chain(output).chain(padding).max().unwrap_or(0);
        if largest > MOST {
            return Err(Refusal::new(format!("takes extents and paddings up to {MOST}, given {largest}")));
        }
        let written = if problem.conv_pass() == ConvPass::Dgrad { image } else { output };
        Ok(Extents { image, output, padding, written, window })
    }
}

/// Everything about the steps but addresses and scalars.
pub(super) struct Geometry {
    pub(super) pass: ConvPass,
    pub(super) size: u32,
    pub(super) problem: MatmulProblem,
    /// Ends of the product's three matrices in the workspace.
    pub(super) ends: [u64; 3],
    /// Of the images that are transformed: x, dy, or in `wgrad` both.
    pub(super) images: [ConvFftTilesParams; 2],
    /// Of the images that are transformed back.
    pub(super) results: ConvFftTilesParams,
    pub(super) filter: ConvFftFilterParams,
}

impl Geometry {
    pub(super) fn of(problem: &ConvProblem, cut: Cut, size: u32) -> Result<Self, Refusal> {
        let sizes = cut.sizes(problem)?;
        if !sizes.contains(&size) {
            return Err(Refusal::new(format!("takes sizes {sizes:?}, given {size}")));
        }
        let Extents { image, output, padding, written, window } = Extents::of(problem)?;
        let (shape, pass) = (problem.shape(), problem.conv_pass());
        let step = window.map(|extent| i64::from(size) - extent + 1);
        let tiles = [0, 1].map(|i| (written[i] as u64).div_ceil(step[i] as u64) as i64);
        let (group_c, group_k) = (shape.c / shape.groups, shape.k / shape.groups);
        // Rows and columns of a filter's matrix, halved.
        let (rows, columns) = if pass == ConvPass::Dgrad { (group_k, group_c) } else { (group_c, group_k) };
        let n_tiles = i128::from(shape.n) * i128::from(tiles[0]) * i128::from(tiles[1]);
        let blocks = n_tiles * i128::from((shape.c.max(shape.k) as u64).div_ceil(slots(size).into()));
        let pairs = i128::from(shape.c) * i128::from(group_k);
        let limit = i128::from(i32::MAX);
        if blocks.max(pairs) > limit {
            let given = blocks.max(pairs);
            return Err(Refusal::new(format!("takes up to {limit} blocks and pairs of channels, given {given}")));
        }
        let n_tiles = n_tiles as i64;
        let n_frequencies = i64::from(frequencies(size));
        let (m, all_rows, all_columns) = (n_tiles, 2 * rows * shape.groups, 2 * columns * shape.groups);
        let groups = shape.groups;
        let matrix = |numbers: i128| -> Result<u64, Refusal> {
            let bytes = 4 * numbers * i128::from(n_frequencies);
            let most = i128::from(i64::MAX) / 8;
            let bytes = u64::try_from(bytes).ok().filter(|_| bytes <= most);
            let bytes = bytes.ok_or_else(|| Refusal::new(format!("takes spectra of up to {most} bytes")))?;
            Ok(bytes.next_multiple_of(ALIGN_BYTES))
        };
        let of = |dims: [i64; 4], strides: [i64; 4]| {
            let of =
                |keep: &dyn Fn(&[i64; 4]) -> Vec<i64>| TensorDesc::strided(DType::F32, &keep(&dims), &keep(&strides));
            if groups == 1 { of(&|all| vec![all[0], all[2], all[3]]) } else { of(&|all| all.to_vec()) }
                .map_err(Refusal::from)
        };
        let spectra = |width: i64| {
            let row = 2 * width * groups;
            of([n_frequencies, groups, m, 2 * width], [m.saturating_mul(row), 2 * width, row, 1])
        };
        let matrix_numbers = 4 * rows * columns;
        let filters = of(
            [n_frequencies, groups, 2 * rows, 2 * columns],
            [groups.saturating_mul(matrix_numbers), matrix_numbers, 2 * columns, 1],
        );
        let (first, last) =
            (matrix(i128::from(m) * i128::from(all_rows))?, matrix(i128::from(m) * i128::from(all_columns))?);
        let middle = matrix(i128::from(groups) * i128::from(matrix_numbers))?;
        let desc = MatmulDesc {
            transpose_a: pass == ConvPass::Wgrad,
            transpose_b: false,
            math: if problem.math() == Math::Tf32 { Math::Tf32 } else { Math::Full },
        };
        let (product, sizes) = if pass == ConvPass::Wgrad {
            (desc.problem(&spectra(rows)?, &spectra(columns)?, &filters?), [first, last, middle])
        } else {
            (desc.problem(&spectra(rows)?, &filters?, &spectra(columns)?), [first, middle, last])
        };
        let whole = [i64::from(size); 2];
        let grid = Grid { size, tiles, step, n_tiles, groups };
        let none = [0; 2];
        let back = [0, 1].map(|i| padding[i] - window[i] + 1);
        let x = |origin: [i64; 2], region: [i64; 2]| grid.params(problem.x(), image, origin, region);
        let y = |origin: [i64; 2], region: [i64; 2]| grid.params(problem.y(), output, origin, region);
        let ahead = padding.map(|padding| -padding);
        let (images, results) = match pass {
            ConvPass::Fprop => ([x(ahead, whole); 2], y(none, step)),
            ConvPass::Dgrad => ([y(back, whole); 2], x(none, step)),
            ConvPass::Wgrad => ([x(ahead, whole), y(none, step)], y(none, step)),
        };
        let ends =
            [sizes[0], sizes[0].saturating_add(sizes[1]), sizes.iter().fold(0, |all, &one| one.saturating_add(all))];
        Ok(Geometry {
            pass,
            size,
            problem: product.map_err(Refusal::from)?,
            ends,
            images,
            results,
            filter: filter(problem, [rows, columns], groups * matrix_numbers),
        })
    }

    /// The best product.
    pub(super) fn product(&self, context: &Context) -> Option<Cheapest<MatmulProblem>> {
        Cheapest::of(&self.problem, context, |_| true)
    }

    /// 1 / T²: neither transform is divided by its length.
    pub(super) fn scale(&self) -> f32 {
        1.0 / (self.size * self.size) as f32
    }

    pub(super) fn filter_blocks(&self) -> u64 {
        u64::from(self.filter.n_pairs.div_ceil(slots(self.size)))
    }
}

/// Tiles of all images.
pub(super) struct Grid {
    size: u32,
    tiles: [i64; 2],
    step: [i64; 2],
    n_tiles: i64,
    groups: i64,
}

impl Grid {
    /// Of a tensor's tiles, whose first begins at `origin`.
    fn params(&self, desc: &TensorDesc, extents: [i64; 2], origin: [i64; 2], region: [i64; 2]) -> ConvFftTilesParams {
        let channels = desc.dims()[1];
        let strides = desc.strides();
        ConvFftTilesParams {
            image: 0,
            spectra: 0,
            strides: [strides[0], strides[1], strides[2], strides[3]],
            frequency_numbers: (self.n_tiles as u64).saturating_mul(2 * channels as u64),
            row_numbers: 2 * channels as u32,
            channels: channels as u32,
            group_channels: Divisor::new((channels / self.groups) as u32),
            channel_blocks: Divisor::new((channels as u32).div_ceil(slots(self.size))),
            tiles: self.tiles.map(|tiles| Divisor::new(tiles as u32)),
            extents: extents.map(|extent| extent as u32),
            origin: origin.map(|origin| origin as i32),
            step: self.step.map(|step| step as u32),
            region: region.map(|extent| extent as u32),
            alpha: 1.0,
            beta: 0.0,
        }
    }

    /// Blocks for a tensor of such parameters.
    pub(super) fn blocks(n_tiles: u64, params: &ConvFftTilesParams) -> u64 {
        n_tiles * u64::from(params.channel_blocks.divisor)
    }
}

/// Of the filter, whose matrices have so many numbers for each frequency.
fn filter(problem: &ConvProblem, [rows, columns]: [i64; 2], numbers: i64) -> ConvFftFilterParams {
    let (w, shape, is_dgrad) = (problem.w(), problem.shape(), problem.conv_pass() == ConvPass::Dgrad);
    let strides = w.strides();
    let flips = problem.mode() == ConvMode::Convolution;
    ConvFftFilterParams {
        filter: 0,
        spectra: 0,
        strides: [strides[0], strides[1], strides[2], strides[3]],
        frequency_numbers: numbers as u64,
        n_pairs: (shape.groups * rows * columns) as u32,
        rows_are_k: u32::from(is_dgrad),
        rows: Divisor::new(rows as u32),
        columns: Divisor::new(columns as u32),
        taps: [shape.filter[1] as u32, shape.filter[2] as u32],
        taps_across: Divisor::new(shape.filter[2] as u32),
        spacing: [1, 2].map(|i| Divisor::new(if shape.filter[i] > 1 { shape.axes[i].dilation as u32 } else { 1 })),
        flip: u32::from(flips != is_dgrad),
        alpha: 1.0,
        beta: 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn geometry(text: &str, cut: Cut, size: u32) -> Result<Geometry, String> {
        Geometry::of(&text.parse().unwrap(), cut, size).map_err(|Refusal(reason)| reason)
    }

    #[test]
    fn products_are_of_spectra() {
        let product = |text: &str, cut: Cut, size: u32| geometry(text, cut, size).unwrap().problem.to_string();
        assert_eq!(
            product("conv:fprop pad=2 x=4x8x27x27:f32:nhwc w=6x8x5x5:f32:nhwc", Cut::Tiles, 32),
            "matmul:forward a=544x4x16:f32 b=544x16x12:f32 c=544x4x12:f32"
        );
        assert_eq!(
            product("conv:wgrad groups=2 pad=1 x=4x8x27x27:f32 dw=6x4x3x3:f32", Cut::Tiles, 16),
            "matmul:forward trans=tn a=144x2x16x8:f32:s256x8x16x1 b=144x2x16x6:f32:s192x6x12x1 c=144x2x8x6:f32"
        );
        assert_eq!(
            product("conv:dgrad pad=15 dx=4x8x32x32:f32 w=6x8x31x31:f32", Cut::Whole, 64),
            "matmul:forward a=2112x4x12:f32 b=2112x12x16:f32 c=2112x4x16:f32"
        );
    }

    #[test]
    fn refusals_name_the_numbers() {
        let refusal = |text: &str| geometry(text, Cut::Tiles, 16).map(|_| ()).unwrap_err();
        assert!(refusal("conv:fprop x=1x8x9x9:f16 w=4x8x3x3:f16").contains("f32, given f16"));
        assert!(refusal("conv:fprop stride=1x2 x=1x8x9x9:f32 w=4x8x3x3:f32").contains("strides [1, 2]"));
        assert!(refusal("conv:fprop x=1x8x9:f32 w=4x8x3:f32").contains("two axes"));
        let wide = refusal("conv:fprop dil=7x1 x=1x8x29x19:f32 w=4x8x4x3:f32");
        assert!(wide.contains("up to 17 positions in its tiles, given [22, 3]"), "{wide}");
        let small = refusal("conv:fprop dil=3x1 x=1x8x19x19:f32 w=4x8x4x3:f32");
        assert!(small.contains("sizes [32], given 16"), "{small}");
    }

    #[test]
    fn whole_images_have_one_tile() {
        let tiles = |text: &str, size: u32| {
            let geometry = geometry(text, Cut::Whole, size)?;
            Ok::<_, String>(
                [geometry.results, geometry.images[0], geometry.images[1]]
                    .map(|params| params.tiles.map(|n| n.divisor)),
            )
        };
        for (pass, x, w) in [("fprop", "x", "w"), ("dgrad", "dx", "w"), ("wgrad", "x", "dw")] {
            // 56 results, or 53 positions of x, and a window of 9.
            let text = format!("conv:{pass} pad=4 pad_end=7 dil=4 {x}=2x3x53x53:f32 {w}=4x3x3x3:f32");
            assert_eq!(tiles(&text, 64), Ok([[1; 2]; 3]), "{text}");
        }
        let wide = tiles("conv:fprop pad=4x5 x=2x3x121x57:f32 w=4x3x9x9:f32", 128).unwrap_err();
        assert!(wide.contains("need up to 128 positions together, given [129, 67]"), "{wide}");
        let small = tiles("conv:fprop pad=2 x=2x3x28x28:f32 w=4x3x5x5:f32", 32).unwrap_err();
        assert!(small.contains("up to 17 positions to fft_tiled, given [5, 5]"), "{small}");
        assert!(tiles("conv:fprop pad=0x9 x=2x3x28x14:f32 w=4x3x5x19:f32", 32).is_ok());
    }
}
