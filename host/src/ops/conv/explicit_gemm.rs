//! Convolution as a matrix product with all windows in memory: they are gathered into the workspace, with one row for
//! each output position, and multiplied by the filters (`fprop`) or by dy (`wgrad`); for `dgrad`, dy times the filters
//! gives the windows of dx, and each element of dx is the sum of those that have it.
//!
//! What Caffe's first convolution did (Chellapilla, Puri, Simard, "High Performance Convolutional Neural Networks for
//! Document Processing", 2006). It moves as many bytes as there are taps for each of the image, and needs the memory; but
//! any method of `matmul` multiplies, and images may have any strides. The workspace grows with the batch.

use super::{ConvMode, ConvPass, ConvProblem, ConvShape};
use crate::driver::Function;
use crate::launch::{covering_grid, launch};
use crate::ops::matmul::{MatmulDesc, MatmulProblem};
use crate::plan::{Call, Launch};
use crate::select::cost::LAUNCH_US;
use crate::select::{Algorithm, Cheapest, Config, Refusal, Spread, check_gpu};
use crate::{Context, DType, Error, Math, Stream, TensorDesc};
use kernel_abi::division::Divisor;
use kernel_abi::ops::conv::ConvWindowsParams;

macro_rules! symbols {
    ($(($symbol:ident, $what:ident, $unit:ident)),* $(,)?) => { &[$((stringify!($symbol), stringify!($unit))),*] };
}

/// Symbol, and what it copies or adds.
const KERNELS: &[(&str, &str)] = kernel_abi::conv_windows_kernels!(symbols);

const NAME: &str = "explicit_gemm";
/// Threads of a block.
const BLOCK: u32 = 256;
/// What parts of the workspace are aligned to.
const ALIGN_BYTES: u64 = 256;
/// Bytes of a vector, which rows of the windows are multiples of.
const VECTOR_BYTES: u64 = 16;

/// Windows in memory, times a matrix.
pub(super) struct ExplicitGemm;

impl Algorithm<ConvProblem> for ExplicitGemm {
    fn name(&self) -> &'static str {
        NAME
    }

    fn configs(&self, problem: &ConvProblem, context: &Context) -> Result<Vec<Config>, Refusal> {
        check_gpu(context)?;
        let windows = Windows::of(problem)?;
        if windows.product(context).is_none() {
            return Err(Refusal::new(format!("needs an algorithm for {}, which every one refuses", windows.problem)));
        }
        Ok(vec![Config(windows.kernel(problem.x().dtype()))])
    }

    fn spread(&self, problem: &ConvProblem, _: Config) -> Spread {
        crate::ops::conv::algorithms::padding_spread(problem)
    }

    /// Of the windows alone: the product's depends on the device.
    fn workspace_bytes(&self, problem: &ConvProblem, _: Config) -> u64 {
        Windows::of(problem).map_or(0, |windows| windows.bytes)
    }

    fn workspace_bytes_on(&self, problem: &ConvProblem, _: Config, context: &Context) -> u64 {
        let Ok(windows) = Windows::of(problem) else { return 0 };
        let product = windows.product(context).map_or(0, |Cheapest { algorithm, config, .. }| {
            algorithm.workspace_bytes_on(&windows.problem, config, context)
        });
        windows.bytes.saturating_add(product)
    }

    fn estimate_us(&self, problem: &ConvProblem, _: Config, context: &Context) -> f64 {
        /// Share of the memory's rate that the gathering kernels should reach.
        const MEMORY_SHARE: f64 = 0.6;
        /// Instructions of a thread that finds a unit's place, as the PTX has them, and of each tap that is added to dx.
        const PLACE: f64 = 100.0;
        const TAP: f64 = 40.0;
        let Ok(windows) = Windows::of(problem) else { return f64::INFINITY };
        let Some(product) = windows.product(context) else { return f64::INFINITY };
        let bytes = (windows.bytes + problem.x().data_bytes()) as f64;
        let memory_us = bytes / (MEMORY_SHARE * context.info().bytes_per_us);
        let taps = problem.shape().filter.iter().product::<i64>() as f64;
        let instructions = if windows.pass == ConvPass::Dgrad { PLACE + TAP * taps } else { PLACE };
        let n_units = windows.vectors.unwrap_or(windows.params).n_units;
        // An instruction takes the place of a multiplication and an addition.
        let computing_us = 2.0 * instructions * f64::from(n_units) / context.info().flops_per_us;
        LAUNCH_US + memory_us.max(computing_us) + product.estimate_us
    }

    fn prepare(&self, problem: &ConvProblem, _: Config, context: &Context) -> Result<Box<dyn Launch>, Error> {
        let windows = Windows::of(problem).map_err(|refusal| refusal.into_error(self.name(), problem))?;
        let Some(Cheapest { algorithm, config, .. }) = windows.product(context) else {
            return Err(Refusal::new("needs an algorithm for its product").into_error(self.name(), problem));
        };
        let dtype = problem.x().dtype();
        let vectors = match windows.vectors {
            Some(params) => Some((context.function(symbol("Vector"))?, params)),
            None => None,
        };
        Ok(Box::new(WindowsLaunch {
            pass: problem.conv_pass(),
            product: algorithm.prepare(&windows.problem, config, context)?,
            bytes: windows.bytes,
            single: (context.function(windows.scalar_kernel(dtype))?, windows.params),
            vectors,
        }))
    }
}

fn symbol(unit: &str) -> &'static str {
    KERNELS.iter().find(|row| row.1 == unit).expect("the kernel list has a row for each unit").0
}

/// The windows of a problem and what they are multiplied by.
struct Windows {
    problem: MatmulProblem,
    pass: ConvPass,
    /// Of the windows.
    bytes: u64,
    /// But for addresses and scalars, by elements.
    params: ConvWindowsParams,
    /// By vectors, where the image has them.
    vectors: Option<ConvWindowsParams>,
}

impl Windows {
    fn of(problem: &ConvProblem) -> Result<Self, Refusal> {
        let (shape, pass) = (problem.shape(), problem.conv_pass());
        check(problem, &shape)?;
        let (x, w, dtype) = (problem.x(), problem.w(), problem.x().dtype());
        let taps: i64 = shape.filter.iter().product();
        let (taps_outside, filter_stride) = filter_order(w, taps)?;
        let y = Rows::of(problem.y())?;
        if pass == ConvPass::Wgrad && y.count > 1 {
            let reason = format!(
                "sums over all positions of dy as over one dimension, its strides are {:?}",
                problem.y().strides()
            );
            return Err(Refusal::new(reason));
        }
        let (group_c, group_k) = (shape.c / shape.groups, shape.k / shape.groups);
        // Each of these is at most 2^63, and what they are multiplied to is checked.
        let group_columns = i128::from(group_c) * i128::from(taps);
        let (columns, rows) = (group_columns * i128::from(shape.groups), i128::from(y.count) * i128::from(y.positions));
        let elems = columns * rows;
        let most = i128::from(i32::MAX);
        let x_elems = i128::from(x.n_elems());
        if elems.max(x_elems) > most {
            return Err(Refusal::new(format!("takes windows and images of up to {most} elements, given {elems}")));
        }
        let (group_columns, columns, rows) = (group_columns as i64, columns as i64, rows as i64);
        let size = dtype.size_bytes() as u64;
        let pad = |length: i64| (length as u64).next_multiple_of(VECTOR_BYTES / size) as i64;
        // Neighbours in the image shall be neighbours in the windows.
        let inside = channels_inside(x);
        let (strides, span) =
            if inside { ([pad(columns), 1], rows * pad(columns)) } else { ([1, pad(rows)], columns * pad(rows)) };
        let batch_dims = [y.count, shape.groups].iter().skip_while(|&&extent| extent == 1).count();
        let of = |dims: &[i64; 4], strides: &[i64; 4]| {
            let unused = 2 - batch_dims;
            TensorDesc::strided(dtype, &dims[unused..], &strides[unused..]).map_err(Refusal::from)
        };
        let windows = of(
            &[y.count, shape.groups, y.positions, group_columns],
            &[y.positions * strides[0], group_columns * strides[1], strides[0], strides[1]],
        )?;
        let dense = of(
            &[y.count, shape.groups, y.positions, group_k],
            &[y.image_stride, group_k.saturating_mul(y.channel_stride), y.stride, y.channel_stride],
        )?;
        let filters = |batch_stride: i64| {
            let group_stride = group_k.saturating_mul(filter_stride);
            of(&[y.count, shape.groups, group_k, group_columns], &[batch_stride, group_stride, filter_stride, 1])
        };
        let math = if problem.math() == Math::Tf32 { Math::Tf32 } else { Math::Full };
        let desc = |transpose_a: bool, transpose_b: bool| MatmulDesc { transpose_a, transpose_b, math };
        let product = match pass {
            ConvPass::Fprop => desc(false, true).problem(&windows, &filters(0)?, &dense),
            ConvPass::Dgrad => desc(false, false).problem(&dense, &filters(0)?, &windows),
            ConvPass::Wgrad => desc(true, false).problem(&dense, &windows, &filters(0)?),
        };
        let params = params(problem, &shape, taps_outside, inside, (columns, rows), strides);
        let vector = (VECTOR_BYTES / size) as i64;
        // Channels that lie closest together may still lie apart.
        let packed = inside && x.strides()[1] == 1;
        let fits = packed && taps_outside && group_c % vector == 0 && pass != ConvPass::Dgrad;
        let whole = |i: usize| i == 1 || x.dims()[i] == 1 || x.strides()[i] % vector == 0;
        let vectors = (fits && (0..x.rank()).all(whole)).then(|| by_vectors(&params, vector));
        let bytes = (span as u64 * size).next_multiple_of(ALIGN_BYTES);
        Ok(Windows { problem: product.map_err(Refusal::from)?, pass, bytes, params, vectors })
    }

    /// The best product.
    fn product(&self, context: &Context) -> Option<Cheapest<MatmulProblem>> {
        Cheapest::of(&self.problem, context, |_| true)
    }

    fn kernel(&self, dtype: DType) -> &'static str {
        if self.vectors.is_some() { symbol("Vector") } else { self.scalar_kernel(dtype) }
    }

    fn scalar_kernel(&self, dtype: DType) -> &'static str {
        symbol(match (self.pass, dtype.size_bytes()) {
            (ConvPass::Dgrad, _) => "f32",
            (_, 4) => "u32",
            (_, _) => "u16",
        })
    }
}

/// Refuses types and shapes.
fn check(problem: &ConvProblem, shape: &ConvShape) -> Result<(), Refusal> {
    let (dtype, pass) = (problem.x().dtype(), problem.conv_pass());
    let known: &[DType] = if pass == ConvPass::Dgrad { &[DType::F32] } else { &[DType::F32, DType::F16, DType::BF16] };
    if !known.contains(&dtype) || problem.y().dtype() != dtype {
        // Windows of dx are sums already, which 16 bits would round once for each tap.
        let names: Vec<&str> = known.iter().map(|dtype| dtype.name()).collect();
        return Err(Refusal::new(format!("has windows of {} in {pass}, given {dtype}", names.join(", "))));
    }
    if shape.filter == [1; 3] && shape.image == shape.output {
        let image = shape.image;
        return Err(Refusal::new(format!("gathers windows, which of one tap at {image:?} positions are the image")));
    }
    /// So that positions, stepped to by taps and strides, stay within an `i32`.
    const MOST: i64 = 1 << 29;
    for (i, axis) in shape.axes.iter().enumerate() {
        let reach = (shape.filter[i] - 1).saturating_mul(axis.dilation);
        let largest = [shape.image[i], axis.padding, axis.padding_end, axis.stride, reach].into_iter().max();
        if largest.is_some_and(|largest| largest > MOST) {
            return Err(Refusal::new(format!("takes extents, paddings and strides up to {MOST}, given {largest:?}")));
        }
    }
    Ok(())
}

/// Whether a filter's taps lie outside of its channels, and the distance between filters.
fn filter_order(w: &TensorDesc, taps: i64) -> Result<(bool, i64), Refusal> {
    let (dims, strides) = (w.dims(), w.strides());
    let follows = |first: i64, step: i64| {
        // Taps from the innermost out.
        let mut expected = step;
        let lies = (2..dims.len()).rev().all(|i| {
            let lies = dims[i] == 1 || strides[i] == expected;
            expected = expected.saturating_mul(dims[i]);
            lies
        });
        lies && (dims[1] == 1 || strides[1] == first)
    };
    let filter_stride = if dims[0] > 1 { strides[0] } else { dims[1].saturating_mul(taps) };
    if follows(1, dims[1]) {
        Ok((true, filter_stride))
    } else if follows(taps, 1) {
        Ok((false, filter_stride))
    } else {
        Err(Refusal::new(format!("needs filters without gaps, KCRS or KRSC, the strides are {strides:?}")))
    }
}

/// Whether channels are what lies closest together.
fn channels_inside(x: &TensorDesc) -> bool {
    let least = (2..x.rank()).filter(|&i| x.dims()[i] > 1).map(|i| x.strides()[i]).min();
    x.dims()[1] > 1 && least.is_none_or(|least| x.strides()[1] < least)
}

/// y or dy as matrices of positions and channels.
struct Rows {
    /// Matrices: 1 where all images make one.
    count: i64,
    image_stride: i64,
    /// Rows.
    positions: i64,
    stride: i64,
    channel_stride: i64,
}

impl Rows {
    fn of(y: &TensorDesc) -> Result<Self, Refusal> {
        let (dims, strides) = (y.dims(), y.strides());
        let innermost = (2..dims.len()).rev().find(|&i| dims[i] > 1);
        let (mut positions, stride) = (1i64, innermost.map_or(strides[0], |i| strides[i]));
        for i in (2..dims.len()).rev() {
            if dims[i] > 1 && strides[i] != positions.saturating_mul(stride) {
                let reason = format!("needs positions of y as far from each other, its strides are {strides:?}");
                return Err(Refusal::new(reason));
            }
            positions *= dims[i];
        }
        let (n, image_stride, channel_stride) = (dims[0], strides[0], strides[1]);
        let one = n == 1 || image_stride == positions.saturating_mul(stride);
        let (count, positions) = if one { (1, positions.saturating_mul(n)) } else { (n, positions) };
        Ok(Rows { count, image_stride: if one { 0 } else { image_stride }, positions, stride, channel_stride })
    }
}

/// The kernels' parameters, by elements.
fn params(
    problem: &ConvProblem,
    shape: &ConvShape,
    taps_outside: bool,
    channels_inside: bool,
    (columns, rows): (i64, i64),
    window_strides: [i64; 2],
) -> ConvWindowsParams {
    let (x, flip) = (problem.x(), problem.mode() == ConvMode::Convolution);
    let absent = 3 - problem.axes().len();
    let mut image_strides = [x.strides()[0], x.strides()[1], 0, 0, 0];
    image_strides[2 + absent..].copy_from_slice(&x.strides()[2..]);
    let divisors = |extents: [i64; 3]| extents.map(|extent| Divisor::new(extent as u32));
    let axis = |of: fn(i64, i64, i64) -> i64| {
        std::array::from_fn(|i| of(shape.filter[i], shape.axes[i].dilation, shape.axes[i].padding) as i32)
    };
    ConvWindowsParams {
        image: 0,
        windows: 0,
        image_strides,
        window_strides,
        n_units: if problem.conv_pass() == ConvPass::Dgrad { x.n_elems() } else { columns * rows } as u32,
        channels_inside: u32::from(channels_inside),
        inner: Divisor::new(if channels_inside { columns } else { rows } as u32),
        taps_outside: u32::from(taps_outside),
        group_channels: Divisor::new((shape.c / shape.groups) as u32),
        channels: Divisor::new(shape.c as u32),
        filter: divisors(shape.filter),
        output: divisors(shape.output),
        extents: divisors(shape.image),
        stride: std::array::from_fn(|i| Divisor::new(shape.axes[i].stride as u32)),
        origin: if flip {
            axis(|filter, dilation, padding| (filter - 1) * dilation - padding)
        } else {
            axis(|_, _, padding| -padding)
        },
        step: if flip { axis(|_, dilation, _| -dilation) } else { axis(|_, dilation, _| dilation) },
        alpha: 1.0,
        beta: 0.0,
        unused: 0,
    }
}

/// The same by vectors of channels.
fn by_vectors(params: &ConvWindowsParams, vector: i64) -> ConvWindowsParams {
    let shorter = |divisor: Divisor| Divisor::new(divisor.divisor / vector as u32);
    let ([n, _, d, h, w], [row, _]) = (params.image_strides.map(|stride| stride / vector), params.window_strides);
    ConvWindowsParams {
        image_strides: [n, 1, d, h, w],
        window_strides: [row / vector, 1],
        n_units: params.n_units / vector as u32,
        inner: shorter(params.inner),
        group_channels: shorter(params.group_channels),
        channels: shorter(params.channels),
        ..*params
    }
}

/// Launches that are complete but for addresses and scalars.
struct WindowsLaunch {
    pass: ConvPass,
    product: Box<dyn Launch>,
    bytes: u64,
    single: (Function, ConvWindowsParams),
    /// For images at multiples of 16 bytes.
    vectors: Option<(Function, ConvWindowsParams)>,
}

impl WindowsLaunch {
    /// Queues the kernel between the image and its windows.
    fn queue(&self, stream: &Stream, [image, windows]: [u64; 2], [alpha, beta]: [f64; 2]) -> Result<(), Error> {
        let vectors = self.vectors.as_ref().filter(|_| image.is_multiple_of(VECTOR_BYTES));
        let (function, params) = vectors.unwrap_or(&self.single);
        let stream = stream.gpu_stream_for(function.name())?;
        let params = ConvWindowsParams { image, windows, alpha: alpha as f32, beta: beta as f32, ..*params };
        let config = covering_grid(params.n_units, BLOCK);
        launch(function, &config, stream, &params)
    }
}

impl Launch for WindowsLaunch {
    fn launch(&self, stream: &Stream, call: &mut Call<'_>) -> Result<(), Error> {
        let workspace = call.gpu_workspace(NAME)?;
        let windows = workspace.part(0, self.bytes);
        let is_dgrad = self.pass == ConvPass::Dgrad;
        let [alpha, beta] = [call.alpha, call.beta];
        // Of x, or dx.
        let operand = if is_dgrad { 2 } else { 0 };
        let addresses = [call.address(operand), windows.address()];
        let rest = workspace.part(self.bytes, workspace.len_bytes());
        let mut product = call.inner(|i| (i == operand).then_some(windows), rest);
        match self.pass {
            ConvPass::Fprop => {}
            ConvPass::Dgrad => (product.alpha, product.beta) = (1.0, 0.0),
            ConvPass::Wgrad => product.operands.swap_first(),
        }
        if is_dgrad {
            self.product.launch(stream, &mut product)?;
            return self.queue(stream, addresses, [alpha, beta]);
        }
        self.queue(stream, addresses, [1.0, 0.0])?;
        self.product.launch(stream, &mut product)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn windows(text: &str) -> Result<Windows, String> {
        Windows::of(&text.parse().unwrap()).map_err(|Refusal(reason)| reason)
    }

    #[test]
    fn products_are_of_windows() {
        let product = |text: &str| windows(text).unwrap().problem.to_string();
        assert_eq!(
            product("conv:fprop pad=1 x=2x8x6x6:f32:nhwc w=16x8x3x3:f32:nhwc"),
            "matmul:forward trans=nt a=72x72:f32 b=16x72:f32 c=72x16:f32"
        );
        assert_eq!(
            product("conv:wgrad groups=2 stride=2 x=2x6x5x5:f16 dw=4x3x2x2:f16 dy=2x4x2x2:f16:nhwc"),
            "matmul:forward trans=tn a=2x8x2:f16:s2x4x1 b=2x8x12:f16:nhwc c=2x2x12:f16"
        );
    }

    #[test]
    fn neighbours_stay_neighbours() {
        let strides = |text: &str| windows(text).unwrap().params.window_strides;
        assert_eq!(strides("conv:fprop x=1x3x5x5:f16:nhwc w=4x3x2x2:f16:nhwc"), [16, 1]);
        assert_eq!(strides("conv:fprop x=1x3x5x5:f16 w=4x3x2x2:f16"), [1, 16]);
        let is_vectorized = |text: &str| windows(text).unwrap().vectors.is_some();
        assert!(is_vectorized("conv:fprop x=1x8x5x5:f32:nhwc w=4x8x2x2:f32:nhwc"));
        assert!(!is_vectorized("conv:fprop x=1x6x5x5:f32:nhwc w=4x6x2x2:f32:nhwc"));
        assert!(!is_vectorized("conv:fprop pad=1x1 x=2x8x1x1:f32:s64x3x24x24 w=8x8x3x3:f32:nhwc"));
        assert!(!is_vectorized("conv:fprop x=1x8x5x5:f32:nhwc w=4x8x2x2:f32"));
    }

    #[test]
    fn refusals_name_the_numbers() {
        let refusal = |text: &str| windows(text).map(|_| ()).unwrap_err();
        assert!(refusal("conv:dgrad dx=1x8x5x5:f16 w=4x8x2x2:f16").contains("f32 in dgrad, given f16"));
        assert!(refusal("conv:fprop x=1x8x5x5:f32 w=4x8x1x1:f32").contains("[1, 5, 5] positions are the image"));
        assert!(refusal("conv:fprop x=1x8x5x5:f32 w=4x8x2x2:f32:s64x2x1x16").contains("[64, 2, 1, 16]"));
        assert!(refusal("conv:wgrad x=2x8x5x5:f32 dw=4x8x2x2:f32 dy=2x4x4x4:f32").contains("[64, 16, 4, 1]"));
        let reason = refusal("conv:fprop x=1x8x5x5:f32 w=4x8x2x2:f32 y=1x4x4x4:f32:s256x64x8x1");
        assert!(reason.contains("as far from each other"), "{reason}");
        assert!(refusal("conv:fprop pad=1 x=256x512x64x64:f32 w=8x512x3x3:f32").contains("given 4831838208"));
    }
}
