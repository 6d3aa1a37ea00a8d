//! The kernels that pass over y behind a product: what is left of the epilogue, and channel sums.

use super::Epilogue;
use crate::driver::{Function, GpuStream};
use crate::launch::{LaunchConfig, launch, linear_grid};
use crate::plan::Call;
use crate::select::cost::LAUNCH_US;
use crate::{Context, DType, Error, Stream, TensorDesc};
use kernel_abi::desc::collapse_dims;
use kernel_abi::epilogue::{EpilogueParam, EpilogueSumsParams, SeparateEpilogueParams};
use kernel_abi::{MAX_RANK, TensorParam};

/// Threads of a block.
const BLOCK: i64 = 256;
/// Blocks that keep any device busy.
const BLOCKS: i64 = 1024;
/// Items of a thread that are worth a slice.
const SLICE_ITEMS: i64 = 4;
/// The most slices that a channel's sums are made of: one thread adds them up.
const MAX_SLICES: i64 = 256;
/// Bytes of a vector.
const VECTOR_BYTES: i64 = 16;

macro_rules! rows {
    ($(($symbol:ident $(, $dtype:ident)+)),* $(,)?) => {
        &[$((stringify!($symbol) $(, kernel_abi::dtype_of!($dtype))+)),*]
    };
}

/// Symbol, element type, type of the sums.
const SEPARATE: &[(&str, DType, DType)] = kernel_abi::epilogue_separate_kernels!(rows);
/// Symbol, type of the sums.
const SUMS: &[(&str, DType)] = kernel_abi::epilogue_sums_kernels!(rows);

/// Bias and activation for kernels. Where there is a bias, its address is for the time being the number of its operand.
pub(crate) fn param(epilogue: Option<&Epilogue>, dtype: DType) -> EpilogueParam {
    let Some(epilogue) = epilogue else { return EpilogueParam::NONE };
    let (mode, coefficient) = epilogue.mode();
    let bias = epilogue.bias_desc();
    EpilogueParam {
        bias: epilogue.bias_operand().unwrap_or(0) as u64,
        bias_stride: bias.map_or(0, |bias| bias.strides()[0]),
        mode: mode as u32,
        bias_is_wide: bias.map_or(0, |bias| u32::from(bias.dtype() != dtype)),
        coefficient,
    }
}

/// Puts an address where the number of an operand was; 0 stays.
pub(crate) fn bind(address: &mut u64, call: &Call<'_>) {
    if *address != 0 {
        *address = call.address(*address as usize);
    }
}

/// One pass over y, ready but for addresses.
#[derive(Clone, Debug)]
pub(crate) struct ChannelPass {
    dtype: DType,
    /// With accesses of 16 bytes, where strides and extents allow.
    vectors: Option<Form>,
    /// With accesses of single elements.
    single: Form,
    n_slices: i64,
    /// The type of the channel sums, where there are some.
    sums: Option<DType>,
    sum_operand: usize,
    moved_bytes: f64,
}

#[derive(Clone, Debug)]
struct Form {
    params: SeparateEpilogueParams,
    blocks: i64,
}

impl ChannelPass {
    /// All of the epilogue behind a plain product.
    pub(crate) fn of(epilogue: &Epilogue, y: &TensorDesc) -> Self {
        Self::new(epilogue, y, epilogue.changes_y())
    }

    /// The channel sums of a y that holds all the rest; none where the epilogue has no sums.
    pub(crate) fn sums_of(epilogue: Option<&Epilogue>, y: &TensorDesc) -> Option<Self> {
        epilogue.filter(|epilogue| epilogue.has_sums()).map(|epilogue| Self::new(epilogue, y, false))
    }

    fn new(epilogue: &Epilogue, y: &TensorDesc, writes: bool) -> Self {
        let z = epilogue.residual_desc().filter(|_| writes);
        let run = VECTOR_BYTES / y.dtype().size_bytes() as i64;
        let mut single = Form::new(epilogue, y, z, 1);
        let mut vectors = Form::vectors(epilogue, y, z, run);
        for form in vectors.iter_mut().chain([&mut single]) {
            form.params.writes = u32::from(writes);
            form.params.epilogue = if writes { param(Some(epilogue), y.dtype()) } else { EpilogueParam::NONE };
            form.params.z = if writes { epilogue.residual_operand().unwrap_or(0) as u64 } else { 0 };
        }
        // The same for both forms: the parts of the sums lie in a workspace whose size is known before addresses are.
        let best = vectors.as_ref().unwrap_or(&single);
        let rows = BLOCK / i64::from(best.params.lanes);
        let n_slices = (BLOCKS / best.blocks).min(best.params.n_items / (rows * SLICE_ITEMS)).clamp(1, MAX_SLICES);
        let moved = y.n_elems() * if writes { 2 } else { 1 } + z.map_or(0, TensorDesc::n_elems);
        ChannelPass {
            dtype: y.dtype(),
            vectors,
            single,
            n_slices,
            sums: epilogue.sums_dtype(),
            sum_operand: epilogue.sum_operand().unwrap_or(0),
            moved_bytes: moved as f64 * y.dtype().size_bytes() as f64,
        }
    }

    /// Room for the parts of the sums.
    pub(crate) fn workspace_bytes(&self) -> u64 {
        let sums = 2 * self.single.params.channels * self.n_slices;
        self.sums.map_or(0, |dtype| sums as u64 * dtype.size_bytes() as u64)
    }

    /// Bound by memory.
    pub(crate) fn estimate_us(&self, context: &Context) -> f64 {
        let launches = if self.sums.is_some() { 2.0 } else { 1.0 };
        launches * LAUNCH_US + self.moved_bytes / context.info().bytes_per_us
    }

    /// The symbol of the kernel for elements of this type, and for sums of that where there are some.
    pub(crate) fn symbol(dtype: DType, sums: Option<DType>) -> &'static str {
        // Every type that y may have is in the list.
        let sums = sums.unwrap_or(dtype.accumulator());
        SEPARATE.iter().find(|row| (row.1, row.2) == (dtype, sums)).map_or("", |row| row.0)
    }

    /// Loads the kernels.
    pub(crate) fn prepare(self, context: &Context) -> Result<ChannelPassLaunch, Error> {
        let add_up = |dtype: DType| SUMS.iter().find(|row| row.1 == dtype).map_or("", |row| row.0);
        let sums = self.sums.map(|dtype| context.function(add_up(dtype))).transpose()?;
        Ok(ChannelPassLaunch { function: context.function(Self::symbol(self.dtype, self.sums))?, sums, pass: self })
    }
}

impl Form {
    /// Accesses of `run` elements, or none where something is no multiple of that.
    fn vectors(epilogue: &Epilogue, y: &TensorDesc, z: Option<&TensorDesc>, run: i64) -> Option<Self> {
        let form = Self::new(epilogue, y, z, run);
        let p = &form.params;
        let (innermost, y_unit, z_unit) = if p.along_channels != 0 {
            (p.channels, p.y_channel_stride, p.z_channel_stride)
        } else {
            // As `new` has it before it counts vectors: the stride of a vector is that of its elements.
            (p.extents[3] * run, p.y_strides[3] / run, p.z_strides[3] / run)
        };
        let whole = |strides: &[i64; 4], channel_stride: i64, unit: i64| {
            let others = if p.along_channels != 0 { &strides[..] } else { &strides[..3] };
            let lies = others.iter().all(|stride| stride % run == 0);
            unit == 1 && lies && (p.along_channels != 0 || channel_stride % run == 0 || p.channels == 1)
        };
        let exact = Self::innermost_extent(epilogue, y, z) == innermost;
        let fits = exact
            && innermost % run == 0
            && whole(&p.y_strides, p.y_channel_stride, y_unit)
            && (z.is_none() || whole(&p.z_strides, p.z_channel_stride, z_unit));
        fits.then_some(form)
    }

    /// y and z without the channels, with merged dimensions, and whether vectors lie along the channels.
    fn rest(epilogue: &Epilogue, y: &TensorDesc, z: Option<&TensorDesc>) -> ([TensorParam; 2], bool) {
        let axis = epilogue.channel_axis();
        let others: Vec<usize> = (0..y.rank()).filter(|&i| i != axis).collect();
        let rest = collapse_dims([y, z.unwrap_or(y)], &others);
        let nearest = rest[0].strides[MAX_RANK - 1];
        let along = rest[0].dims[MAX_RANK - 1] == 1 || (y.dims()[axis] > 1 && y.strides()[axis] < nearest);
        (rest, along)
    }

    fn innermost_extent(epilogue: &Epilogue, y: &TensorDesc, z: Option<&TensorDesc>) -> i64 {
        let (rest, along) = Self::rest(epilogue, y, z);
        if along { y.dims()[epilogue.channel_axis()] } else { rest[0].dims[MAX_RANK - 1] }
    }

    fn new(epilogue: &Epilogue, y: &TensorDesc, z: Option<&TensorDesc>, run: i64) -> Self {
        let axis = epilogue.channel_axis();
        let ([y_rest, z_rest], along) = Self::rest(epilogue, y, z);
        let last = |values: &[i64; MAX_RANK]| std::array::from_fn(|i| values[MAX_RANK - 4 + i]);
        let (mut extents, mut y_strides, mut z_strides): ([i64; 4], [i64; 4], [i64; 4]) =
            (last(&y_rest.dims), last(&y_rest.strides), last(&z_rest.strides));
        if !along {
            extents[3] /= run;
            y_strides[3] *= run;
            z_strides[3] *= run;
        }
        let channels = y.dims()[axis];
        let columns = if along { (channels / run).max(1) } else { channels };
        let lanes = if along { (columns as u64).next_power_of_two().min(32) as u32 } else { 1 };
        Form {
            params: SeparateEpilogueParams {
                y: 0,
                z: 0,
                epilogue: EpilogueParam::NONE,
                extents,
                y_strides,
                z_strides,
                n_items: extents.iter().product(),
                channels,
                y_channel_stride: y.strides()[axis],
                z_channel_stride: z.map_or(0, |z| z.strides()[axis]),
                lanes,
                vectors: u32::from(run > 1),
                along_channels: u32::from(along),
                writes: 1,
                partials: 0,
            },
            blocks: (columns as u64).div_ceil(lanes.into()) as i64,
        }
    }
}

/// Launches whose parameters are complete but for addresses.
pub(crate) struct ChannelPassLaunch {
    function: Function,
    sums: Option<Function>,
    pass: ChannelPass,
}

impl ChannelPassLaunch {
    /// Queues the pass over y, operand 2 of the call. `workspace` is where the parts of sums go.
    pub(crate) fn launch(&self, stream: &Stream, call: &Call<'_>, workspace: u64) -> Result<(), Error> {
        let stream = stream.gpu_stream_for(self.function.name())?;
        let pass = &self.pass;
        let y = call.address(2);
        let mut z = pass.single.params.z;
        bind(&mut z, call);
        let aligned = (y | z).is_multiple_of(VECTOR_BYTES as u64);
        let form = pass.vectors.as_ref().filter(|_| aligned).unwrap_or(&pass.single);
        let mut params = form.params;
        (params.y, params.z) = (y, z);
        bind(&mut params.epilogue.bias, call);
        params.partials = if pass.sums.is_some() { workspace } else { 0 };
        let config = LaunchConfig {
            grid: [form.blocks as u32, pass.n_slices as u32, 1],
            block: [BLOCK as u32, 1, 1],
            ..LaunchConfig::default()
        };
        run(&self.function, &config, stream, &params)?;
        let Some(sums) = &self.sums else { return Ok(()) };
        let params = EpilogueSumsParams {
            partials: workspace,
            sum: call.address(pass.sum_operand),
            sum_squares: call.address(pass.sum_operand + 1),
            n_slices: pass.n_slices,
            channels: pass.single.params.channels,
        };
        run(sums, &linear_grid(2 * params.channels, BLOCK as u32), stream, &params)
    }
}

fn run<P: crate::launch::KernelParams>(
    function: &Function,
    config: &LaunchConfig,
    stream: &GpuStream,
    params: &P,
) -> Result<(), Error> {
    launch(function, config, stream, params)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Problem;
    use crate::ops::conv::ConvProblem;

    fn pass(y: &str, rest: &str) -> ChannelPass {
        let y: TensorDesc = y.parse().unwrap();
        let [n, k] = [y.dims()[0], y.dims()[1]];
        let spatial: Vec<String> = y.dims()[2..].iter().map(i64::to_string).collect();
        let (spatial, ones) = (spatial.join("x"), vec!["1"; y.rank() - 2].join("x"));
        let dtype = y.dtype();
        let text = format!("conv:fprop x={n}x3x{spatial}:{dtype} w={k}x3x{ones}:{dtype} y={y} {rest}");
        let problem: ConvProblem = text.parse().unwrap();
        ChannelPass::of(problem.epilogue().unwrap(), &y)
    }

    /// Every element of y once, where it lies.
    fn covers(y: &str, form: &Form, run: i64) {
        let y: TensorDesc = y.parse().unwrap();
        let p = &form.params;
        let mut found = Vec::new();
        let width = if p.along_channels != 0 { run } else { 1 };
        for channel in (0..p.channels).step_by(width as usize) {
            for item in 0..p.n_items {
                let mut rest = item;
                let mut at = channel * p.y_channel_stride;
                for i in (0..4).rev() {
                    at += rest % p.extents[i] * p.y_strides[i];
                    rest /= p.extents[i];
                }
                found.extend((0..run).map(|v| at + v));
            }
        }
        let mut expected: Vec<i64> = (0..y.n_elems()).map(|i| y.offset_of(i)).collect();
        found.sort_unstable();
        expected.sort_unstable();
        assert_eq!(found, expected, "{y} {p:?}");
    }

    #[test]
    fn all_elements_are_met_in_any_layout() {
        for (y, vectors) in [
            ("2x16x5x3:f16:nhwc", true),
            ("2x24x5x3:bf16:s360x1x72x24", true),
            ("2x24x5x3:bf16:s384x1x75x25", false),
            ("2x12x5x3:f16:nhwc", false),
            ("2x12x5x3:f32:nhwc", true),
            ("2x12x5x8:f16", true),
            ("2x12x5x3:f16", false),
            ("3x5x4x4:f64", true),
            ("2x1x3x8:f16", true),
            ("1x8x1x1:f16", true),
            ("2x7x3x5:f32:s1x2x70x14", false),
            ("2x3x4x5x8:f16", true),
            ("2x8x4x5x3:f16:nhwc", true),
            ("1x1x1x1:f64", false),
        ] {
            let pass = pass(y, "act=relu");
            covers(y, &pass.single, 1);
            assert_eq!(pass.vectors.is_some(), vectors, "{y}");
            if let Some(form) = &pass.vectors {
                covers(y, form, VECTOR_BYTES / pass.dtype.size_bytes() as i64);
            }
        }
    }

    #[test]
    fn a_residual_of_another_layout_takes_single_elements() {
        assert!(pass("2x16x4x4:f16:nhwc", "z=2x16x4x4:f16").vectors.is_none());
        assert!(pass("2x16x4x4:f16:nhwc", "z=2x16x4x4:f16:nhwc").vectors.is_some());
        assert!(pass("2x16x4x4:f16:nhwc", "z=2x16x4x4:f16:s0x1x64x16").vectors.is_some());
        assert!(pass("2x16x4x4:f16:nhwc", "z=2x16x4x4:f16:s0x0x0x0").vectors.is_none());
    }

    #[test]
    fn slices_are_bounded_and_have_room() {
        let sums = "sum=64:f32 sum_squares=64:f32";
        let large = pass("64x64x56x56:f16:nhwc", sums);
        assert_eq!(large.n_slices, MAX_SLICES);
        assert_eq!(large.workspace_bytes(), 256 * 2 * 64 * 4);
        assert_eq!(pass("1x64x1x1:f16:nhwc", sums).n_slices, 1);
        assert_eq!(pass("1x64x1x1:f16:nhwc", "act=relu").workspace_bytes(), 0);
    }
}
