//! f32 convolution of stride 1 by Fourier transforms of tiles (Mathieu, Henaff, LeCun, "Fast Training of Convolutional
//! Networks through FFTs", 2014; Vasilache et al., "Fast Convolutional Nets With fbfft", 2015): tiles of 16 × 16 or
//! 32 × 32 positions that overlap by the filter's window, and filters, are transformed into the workspace, one matrix for
//! each frequency; whichever of `matmul`'s algorithms is best multiplies them, and results are transformed back. For
//! `dgrad` the image is dy and the filter is turned around; for `wgrad` the spectra of x and dy are multiplied over all
//! tiles.
//!
//! A filter's size decides how far tiles overlap and nothing else, so it pays for large ones. The workspace, which grows
//! with the batch, is several times the size of the images.

use super::im2col_wgmma::unsupported;
use super::{ConvMode, ConvPass, ConvProblem};
use crate::driver::Function;
use crate::launch::{KernelParams, LaunchConfig, launch};
use crate::ops::matmul::{MatmulDesc, MatmulProblem};
use crate::plan::{Bound, Call, Launch};
use crate::select::cost::{LAUNCH_US, UNTIMED};
use crate::select::{Algorithm, Cheapest, Config, Refusal};
use crate::tensor::{Region, RegionMut};
use crate::{Context, DType, Error, Math, Stream, TensorDesc};
use kernel_abi::division::Divisor;
use kernel_abi::ops::conv::fft::{ConvFftFilterParams, ConvFftTilesParams, frequencies, slots};

macro_rules! rows {
    ($(($symbol:ident, $what:ident, $params:ident, $size:literal, $threads:literal)),* $(,)?) => {
        &[$(Kernel { symbol: stringify!($symbol), what: stringify!($what), size: $size, threads: $threads }),*]
    };
}

/// A row of the kernel list.
struct Kernel {
    symbol: &'static str,
    what: &'static str,
    /// Of a tile.
    size: u32,
    threads: u32,
}

const KERNELS: &[Kernel] = kernel_abi::conv_fft_kernels!(rows);

const NAME: &str = "fft_tiled";
/// What a config is named by.
const NAMING: &str = "tiles_forward";
/// What parts of the workspace are aligned to.
const ALIGN_BYTES: u64 = 256;

fn kernel(what: &str, size: u32) -> &'static Kernel {
    let fits = |kernel: &&Kernel| kernel.what == what && kernel.size == size;
    KERNELS.iter().find(fits).expect("the kernel list has a row for each step and size")
}

/// The size of tiles that a config means.
fn size_of(config: Config) -> u32 {
    KERNELS.iter().find(|kernel| kernel.symbol == config.0).map_or(KERNELS[0].size, |kernel| kernel.size)
}

/// Fourier transforms of tiles.
pub(super) struct FftTiled;

impl Algorithm<ConvProblem> for FftTiled {
    fn name(&self) -> &'static str {
        NAME
    }

    fn configs(&self, problem: &ConvProblem, context: &Context) -> Result<Vec<Config>, Refusal> {
        if !context.is_gpu() {
            return Err(Refusal::new(format!("runs on a GPU, the device is {}", context.info().name)));
        }
        let mut configs = Vec::new();
        let mut reason = None;
        for row in KERNELS.iter().filter(|row| row.what == NAMING) {
            match Geometry::of(problem, row.size) {
                Ok(geometry) if geometry.product(context).is_some() => configs.push(Config(row.symbol)),
                Ok(geometry) => {
                    let product = &geometry.problem;
                    reason = Some(Refusal::new(format!("needs an algorithm for {product}, which every one refuses")));
                }
                Err(refusal) => reason = Some(refusal),
            }
        }
        match reason {
            Some(refusal) if configs.is_empty() => Err(refusal),
            _ => Ok(configs),
        }
    }

    /// Of the spectra alone: the product's depends on the device.
    fn workspace_bytes(&self, problem: &ConvProblem, config: Config) -> u64 {
        Geometry::of(problem, size_of(config)).map_or(0, |geometry| geometry.ends[2])
    }

    fn workspace_bytes_on(&self, problem: &ConvProblem, config: Config, context: &Context) -> u64 {
        let Ok(geometry) = Geometry::of(problem, size_of(config)) else { return 0 };
        let product = geometry.product(context).map_or(0, |Cheapest { algorithm, config, .. }| {
            algorithm.workspace_bytes_on(&geometry.problem, config, context)
        });
        geometry.ends[2].saturating_add(product)
    }

    fn estimate_us(&self, problem: &ConvProblem, config: Config, context: &Context) -> f64 {
        /// Share of the memory's rate that the transforms should reach.
        const MEMORY_SHARE: f64 = 0.5;
        let Ok(geometry) = Geometry::of(problem, size_of(config)) else { return f64::INFINITY };
        let Some(product) = geometry.product(context) else { return f64::INFINITY };
        let operands = problem.x().data_bytes() + problem.w().data_bytes() + problem.y().data_bytes();
        let bytes = geometry.ends[2] as f64 + operands as f64;
        let transforms_us = 3.0 * LAUNCH_US + bytes / (MEMORY_SHARE * context.info().bytes_per_us);
        UNTIMED * (transforms_us + product.estimate_us)
    }

    fn prepare(&self, problem: &ConvProblem, config: Config, context: &Context) -> Result<Box<dyn Launch>, Error> {
        let size = size_of(config);
        let geometry = Geometry::of(problem, size).map_err(|refusal| unsupported(problem, refusal))?;
        let Some(Cheapest { algorithm, config, .. }) = geometry.product(context) else {
            return Err(unsupported(problem, Refusal::new("needs an algorithm for its product")));
        };
        let step = |what: &str| -> Result<Step, Error> {
            let row = kernel(what, size);
            Ok(Step { function: context.function(row.symbol)?, threads: row.threads })
        };
        Ok(Box::new(FftLaunch {
            product: algorithm.prepare(&geometry.problem, config, context)?,
            tiles_forward: step("tiles_forward")?,
            tiles_inverse: step("tiles_inverse")?,
            filter_forward: step("filter_forward")?,
            filter_inverse: step("filter_inverse")?,
            geometry,
        }))
    }
}

/// Everything about the steps but addresses and scalars.
struct Geometry {
    pass: ConvPass,
    size: u32,
    problem: MatmulProblem,
    /// Ends of the product's three matrices in the workspace.
    ends: [u64; 3],
    /// Of the images that are transformed: x, dy, or in `wgrad` both.
    images: [ConvFftTilesParams; 2],
    /// Of the images that are transformed back.
    results: ConvFftTilesParams,
    filter: ConvFftFilterParams,
}

impl Geometry {
    fn of(problem: &ConvProblem, size: u32) -> Result<Self, Refusal> {
        let (shape, pass) = (problem.shape(), problem.conv_pass());
        let operands = [problem.x(), problem.w(), problem.y()];
        if let Some(other) = operands.into_iter().map(|desc| desc.dtype()).find(|&dtype| dtype != DType::F32) {
            return Err(Refusal::new(format!("transforms f32, given {other}")));
        }
        if problem.axes().len() != 2 || problem.axes().iter().any(|axis| axis.stride != 1) {
            let strides: Vec<i64> = problem.axes().iter().map(|axis| axis.stride).collect();
            return Err(Refusal::new(format!("takes two axes of stride 1, given strides {strides:?}")));
        }
        // Half of a tile's positions are results, at least.
        let most = i64::from(size / 2 + 1);
        let window = [1, 2].map(|i| (shape.filter[i] - 1).saturating_mul(shape.axes[i].dilation).saturating_add(1));
        if window.iter().any(|&extent| extent > most) {
            return Err(Refusal::new(format!(
                "takes windows of up to {most} positions in its tiles, given {window:?}"
            )));
        }
        let step = window.map(|extent| i64::from(size) - extent + 1);
        let (image, output) = ([shape.image[1], shape.image[2]], [shape.output[1], shape.output[2]]);
        let padding = [shape.axes[1].padding, shape.axes[2].padding];
        /// So that positions stay within an `i32`.
        const MOST: i64 = 1 << 29;
        let largest = image.into_iter().chain(output).chain(padding).max().unwrap_or(0);
        if largest > MOST {
            return Err(Refusal::new(format!("takes extents and paddings up to {MOST}, given {largest}")));
        }
        let written = if pass == ConvPass::Dgrad { image } else { output };
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
    fn product(&self, context: &Context) -> Option<Cheapest<MatmulProblem>> {
        Cheapest::of(&self.problem, context, |_| true)
    }

    /// 1 / T²: neither transform is divided by its length.
    fn scale(&self) -> f32 {
        1.0 / (self.size * self.size) as f32
    }

    fn filter_blocks(&self) -> u64 {
        u64::from(self.filter.n_pairs.div_ceil(slots(self.size)))
    }
}

/// Tiles of all images.
struct Grid {
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
    fn blocks(n_tiles: u64, params: &ConvFftTilesParams) -> u64 {
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
        spacing: [1, 2].map(|i| if shape.filter[i] > 1 { shape.axes[i].dilation as u32 } else { 1 }),
        flip: u32::from(flips != is_dgrad),
        alpha: 1.0,
        beta: 0.0,
    }
}

/// A kernel with its block.
struct Step {
    function: Function,
    threads: u32,
}

impl Step {
    fn queue<P: KernelParams>(&self, blocks: u64, stream: &Stream, params: &P) -> Result<(), Error> {
        let Some(stream) = stream.gpu_stream() else {
            return Err(Error::NoDevice { reason: format!("{} needs a GPU's stream", self.function.name()) });
        };
        // At most 2³¹, see `Geometry::of`.
        let config = LaunchConfig { grid: [blocks as u32, 1, 1], block: [self.threads, 1, 1], ..Default::default() };
        launch(&self.function, &config, stream, params)
            .map_err(|source| Error::Launch { kernel: self.function.name().to_owned(), source })
    }
}

/// Launches that are complete but for addresses and scalars.
struct FftLaunch {
    geometry: Geometry,
    tiles_forward: Step,
    tiles_inverse: Step,
    filter_forward: Step,
    filter_inverse: Step,
    product: Box<dyn Launch>,
}

impl FftLaunch {
    fn n_tiles(&self) -> u64 {
        let params = &self.geometry.results;
        params.frequency_numbers / u64::from(params.row_numbers)
    }

    fn transform_image(&self, which: usize, stream: &Stream, image: u64, spectra: u64) -> Result<(), Error> {
        let params = ConvFftTilesParams { image, spectra, ..self.geometry.images[which] };
        self.tiles_forward.queue(Grid::blocks(self.n_tiles(), &params), stream, &params)
    }
}

impl Launch for FftLaunch {
    fn launch(&self, stream: &Stream, call: &mut Call<'_>) -> Result<(), Error> {
        let RegionMut::Device(workspace) = &call.workspace else {
            return Err(Error::NoDevice { reason: format!("{NAME} needs a GPU's stream") });
        };
        let (workspace, geometry) = (*workspace, &self.geometry);
        let [a_end, b_end, c_end] = geometry.ends;
        let start = workspace.address();
        let (a, b, c) = (start, start + a_end, start + b_end);
        let [first, second, written] = [0, 1, 2].map(|operand| call.address(operand));
        let is_wgrad = geometry.pass == ConvPass::Wgrad;
        self.transform_image(0, stream, first, a)?;
        if is_wgrad {
            self.transform_image(1, stream, second, b)?;
        } else {
            let params = ConvFftFilterParams { filter: second, spectra: b, ..geometry.filter };
            self.filter_forward.queue(geometry.filter_blocks(), stream, &params)?;
        }
        let operands = [
            Bound::Read(Region::Device(workspace.part(0, a_end))),
            Bound::Read(Region::Device(workspace.part(a_end, b_end))),
            Bound::Write(RegionMut::Device(workspace.part(b_end, c_end))),
        ];
        let mut product = Call {
            operands: operands.into_iter().collect(),
            workspace: RegionMut::Device(workspace.part(c_end, workspace.len_bytes())),
            alpha: 1.0,
            beta: 0.0,
        };
        self.product.launch(stream, &mut product)?;
        let (alpha, beta) = (call.alpha as f32 * geometry.scale(), call.beta as f32);
        if is_wgrad {
            let params = ConvFftFilterParams { filter: written, spectra: c, alpha, beta, ..geometry.filter };
            self.filter_inverse.queue(geometry.filter_blocks(), stream, &params)
        } else {
            let params = ConvFftTilesParams { image: written, spectra: c, alpha, beta, ..geometry.results };
            self.tiles_inverse.queue(Grid::blocks(self.n_tiles(), &params), stream, &params)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn geometry(text: &str, size: u32) -> Result<Geometry, String> {
        Geometry::of(&text.parse().unwrap(), size).map_err(|Refusal(reason)| reason)
    }

    #[test]
    fn products_are_of_spectra() {
        let product = |text: &str, size: u32| geometry(text, size).unwrap().problem.to_string();
        assert_eq!(
            product("conv:fprop pad=2 x=4x8x27x27:f32:nhwc w=6x8x5x5:f32:nhwc", 32),
            "matmul:forward a=544x4x16:f32 b=544x16x12:f32 c=544x4x12:f32"
        );
        assert_eq!(
            product("conv:wgrad groups=2 pad=1 x=4x8x27x27:f32 dw=6x4x3x3:f32", 16),
            "matmul:forward trans=tn a=144x2x16x8:f32:s256x8x16x1 b=144x2x16x6:f32:s192x6x12x1 c=144x2x8x6:f32"
        );
    }

    #[test]
    fn refusals_name_the_numbers() {
        let refusal = |text: &str| geometry(text, 16).map(|_| ()).unwrap_err();
        assert!(refusal("conv:fprop x=1x8x9x9:f16 w=4x8x3x3:f16").contains("f32, given f16"));
        assert!(refusal("conv:fprop stride=1x2 x=1x8x9x9:f32 w=4x8x3x3:f32").contains("strides [1, 2]"));
        assert!(refusal("conv:fprop x=1x8x9:f32 w=4x8x3:f32").contains("two axes"));
        let wide = refusal("conv:fprop dil=3x1 x=1x8x19x19:f32 w=4x8x4x3:f32");
        assert!(wide.contains("up to 9 positions in its tiles, given [10, 3]"), "{wide}");
    }
}
