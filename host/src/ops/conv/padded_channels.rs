//! Convolution of channels-last tensors whose positions do not lie multiples of 16 bytes apart, as with 28 channels, on
//! Hopper's tensor cores.
//!
//! The copy engine cannot describe such a tensor, so those that are read are copied into the workspace, each position
//! at a multiple of 16 bytes, by one kernel for all of them; a method for channels-last tensors works on the copies.
//! The result is written where it belongs, by methods that write any number of channels.

use super::algorithms::{configs_of, owner};
use super::im2col_wgmma::{Positions, tma_type};
use super::nchw_transposed::channels_last;
use super::{ConvProblem, halo_wgmma, im2col_wgmma};
use crate::driver::Function;
use crate::launch::{LaunchConfig, div_ceil, launch};
use crate::plan::{Call, Launch};
use crate::select::{Algorithm, Config, Refusal, Spread, check_hopper};
use crate::{Context, Error, Operand, Problem, Stream, TensorDesc};
use kernel_abi::division::Divisor;
use kernel_abi::ops::conv::padded_channels::{BLOCK_RUNS, ConvPadParams, PaddedRows, RUN, THREADS};

macro_rules! symbols {
    ($(($symbol:ident)),* $(,)?) => {
        [$(stringify!($symbol)),*]
    };
}

const PAD: [&str; 1] = kernel_abi::conv_pad_kernels!(symbols);

/// What parts of the workspace are aligned to.
const ALIGN_BYTES: u64 = 256;
/// Size of an element.
const ELEMENT_BYTES: u64 = 2;

/// Methods that work on the copies.
const METHODS: [&dyn Algorithm<ConvProblem>; 4] =
    [&halo_wgmma::HaloWgmma, &im2col_wgmma::Gather, &im2col_wgmma::Wgrad, &im2col_wgmma::Cluster];

/// Through copies with padded channels.
pub(super) struct PaddedChannels;

impl Algorithm<ConvProblem> for PaddedChannels {
    fn name(&self) -> &'static str {
        "padded_channels"
    }

    fn configs(&self, problem: &ConvProblem, context: &Context) -> Result<Vec<Config>, Refusal> {
        check_hopper(context)?;
        let copies = Copies::of(problem)?;
        configs_of(&METHODS, &copies.problem, context)
    }

    fn spread(&self, problem: &ConvProblem, config: Config) -> Spread {
        let inner = |copies: Copies| owner(config).spread(&copies.problem, config);
        Copies::of(problem).map_or(Spread::Window, inner)
    }

    fn workspace_bytes(&self, problem: &ConvProblem, config: Config) -> u64 {
        let Ok(copies) = Copies::of(problem) else { return 0 };
        copies.bytes() + owner(config).workspace_bytes(&copies.problem, config)
    }

    fn estimate_us(&self, problem: &ConvProblem, config: Config, context: &Context) -> f64 {
        let Ok(copies) = Copies::of(problem) else { return f64::INFINITY };
        copies.estimate_us(context) + owner(config).estimate_us(&copies.problem, config, context)
    }

    fn prepare(&self, problem: &ConvProblem, config: Config, context: &Context) -> Result<Box<dyn Launch>, Error> {
        let copies = Copies::of(problem).map_err(|refusal| refusal.into_error(self.name(), problem))?;
        Ok(Box::new(PaddedLaunch {
            pad: context.function(PAD[0])?,
            convolution: owner(config).prepare(&copies.problem, config, context)?,
            behind_copies: copies.bytes(),
            copies: copies.copies,
        }))
    }
}

/// A problem of which operands that are read are copied.
struct Copies {
    /// With the copies in their places.
    problem: ConvProblem,
    /// Of the two operands that are read.
    copies: [Option<Copy>; 2],
}

/// A copy of an operand.
#[derive(Clone, Copy, Debug)]
struct Copy {
    /// Without addresses, and with the longest loads that its lengths allow.
    rows: PaddedRows,
    /// Where it begins and ends in the workspace.
    at: u64,
    end: u64,
}

/// Whether the copy engine can describe a tensor whose channels are contiguous.
fn is_aligned(desc: &TensorDesc) -> bool {
    let axes = desc.dims().iter().zip(desc.strides()).enumerate().filter(|(i, _)| *i != 1);
    axes.into_iter().all(|(_, (&extent, &stride))| extent == 1 || stride % i64::from(RUN) == 0)
}

impl Copy {
    fn of(name: &str, desc: &TensorDesc, at: u64) -> Result<Self, Refusal> {
        let channels = desc.dims()[1];
        let positions = Positions::anyhow(desc);
        let pitch = match positions.linear_stride() {
            _ if positions.count() == 1 => channels,
            Some(pitch) if pitch >= channels => pitch,
            _ => {
                let given = desc.strides();
                let reason = format!("copies {name} with positions one behind the other, its strides are {given:?}");
                return Err(Refusal::new(reason));
            }
        };
        let row_runs = div_ceil(channels, i64::from(RUN));
        let n_runs = positions.count().saturating_mul(row_runs);
        if n_runs > i64::from(i32::MAX) {
            return Err(Refusal::new(format!("copies up to {} runs of 8 channels, {name} has {n_runs}", i32::MAX)));
        }
        let lengths = (pitch | channels) as u64 * ELEMENT_BYTES;
        let rows = PaddedRows {
            from: 0,
            to: 0,
            pitch,
            row_runs: Divisor::new(row_runs as u32),
            n_runs: n_runs as u32,
            channels: channels as u32,
            load_bytes: 1 << lengths.trailing_zeros().min(3),
        };
        Ok(Copy { rows, at, end: at + n_runs as u64 * u64::from(RUN) * ELEMENT_BYTES })
    }

    fn blocks(&self) -> u32 {
        self.rows.n_runs.div_ceil(BLOCK_RUNS)
    }

    /// Its rows with their addresses.
    fn bound(&self, from: u64, workspace: u64) -> PaddedRows {
        let mut rows = PaddedRows { from, to: workspace + self.at, ..self.rows };
        while !from.is_multiple_of(rows.load_bytes.into()) {
            rows.load_bytes /= 2;
        }
        rows
    }
}

impl Copies {
    fn of(problem: &ConvProblem) -> Result<Self, Refusal> {
        tma_type(problem.x().dtype())?;
        let operands = problem.operands();
        let mut at = 0u64;
        let mut copies = [None, None];
        let mut laid_out = [*problem.x(), *problem.w(), *problem.y()];
        for (copy, Operand { name, desc, .. }) in copies.iter_mut().zip(&operands) {
            if desc.dims()[1] != 1 && desc.strides()[1] != 1 {
                let given = desc.strides()[1];
                return Err(Refusal::new(format!("needs {name} channels-last, the stride of its channels is {given}")));
            }
            if is_aligned(desc) {
                continue;
            }
            let made = Copy::of(name, desc, at)?;
            at = made.end.next_multiple_of(ALIGN_BYTES);
            *copy = Some(made);
            let tensor = match *name {
                "x" => 0,
                "w" => 1,
                _ => 2,
            };
            laid_out[tensor] = channels_last(desc, true).map_err(Refusal::from)?;
        }
        if copies.iter().all(Option::is_none) {
            return Err(Refusal::new(
                "copies operands whose positions are no multiple of 16 bytes apart, none has to be",
            ));
        }
        let [x, w, y] = laid_out;
        let problem = problem.with_layouts(&x, &w, &y).map_err(Refusal::from)?;
        Ok(Copies { problem, copies })
    }

    /// Where the workspace goes on behind the copies.
    fn bytes(&self) -> u64 {
        let last = self.copies.iter().flatten().next_back();
        last.map_or(0, |copy| copy.end.next_multiple_of(ALIGN_BYTES))
    }

    fn estimate_us(&self, context: &Context) -> f64 {
        /// From the kernel's end to that of the next one, without its work.
        const LAUNCH_US: f64 = 2.0;
        /// Share of the memory's rate.
        const MEMORY_SHARE: f64 = 0.85;
        let moved = |copy: &Copy| {
            let rows = &copy.rows;
            let read = u64::from(rows.n_runs / rows.row_runs.divisor) * u64::from(rows.channels) * ELEMENT_BYTES;
            // What reads 2 bytes at a time is bound by the number of its reads.
            let times = if rows.load_bytes == 2 { 2 } else { 1 };
            read * times + (copy.end - copy.at)
        };
        let bytes: u64 = self.copies.iter().flatten().map(moved).sum();
        LAUNCH_US + bytes as f64 / (MEMORY_SHARE * context.info().bytes_per_us)
    }
}

/// Launches that are complete but for addresses and scalars.
struct PaddedLaunch {
    pad: Function,
    copies: [Option<Copy>; 2],
    convolution: Box<dyn Launch>,
    behind_copies: u64,
}

impl Launch for PaddedLaunch {
    fn launch(&self, stream: &Stream, call: &mut Call<'_>) -> Result<(), Error> {
        let name = self.pad.name();
        let (gpu_stream, workspace) = (stream.gpu_stream_for(name)?, call.gpu_workspace(name)?);
        let bound = |i: usize| {
            let copy = self.copies[i].as_ref();
            copy.map(|copy| (copy.bound(call.address(i), workspace.address()), copy.blocks()))
        };
        let mut parts = [bound(0), bound(1)].into_iter().flatten();
        let (first, first_blocks) = parts.next().unwrap_or_default();
        let (second, second_blocks) = parts.next().unwrap_or_default();
        let config = LaunchConfig {
            grid: [first_blocks + second_blocks, 1, 1],
            block: [THREADS, 1, 1],
            programmatic: true,
            ..LaunchConfig::default()
        };
        launch(&self.pad, &config, gpu_stream, &ConvPadParams { first, second, first_blocks, reserved: 0 })?;
        let copy = |i: usize| Some(self.copies.get(i)?.as_ref()?).map(|copy| workspace.part(copy.at, copy.end));
        let rest = workspace.part(self.behind_copies, workspace.len_bytes());
        self.convolution.launch(stream, &mut call.inner(copy, rest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copies(text: &str) -> Result<Copies, String> {
        Copies::of(&text.parse().unwrap()).map_err(|Refusal(reason)| reason)
    }

    #[test]
    fn what_is_read_is_copied_where_the_copy_engine_cannot_take_it() {
        let tail = "pad=1x1 stride=1x1 dil=1x1 groups=1";
        let made = copies("conv:fprop pad=1 x=2x28x9x9:bf16:nhwc w=12x28x3x3:bf16:nhwc").unwrap();
        assert_eq!(
            made.problem.to_string(),
            format!(
                "conv:fprop {tail} x=2x28x9x9:bf16:s2592x1x288x32 w=12x28x3x3:bf16:s288x1x96x32 y=2x12x9x9:bf16:nhwc"
            )
        );
        assert_eq!(made.bytes(), (2 * 81 * 64u64).next_multiple_of(256) + (12 * 9 * 64u64).next_multiple_of(256));
        let made =
            copies("conv:dgrad pad=1 dy=2x12x9x9:bf16:nhwc w=12x64x3x3:bf16:nhwc dx=2x64x9x9:bf16:nhwc").unwrap();
        assert_eq!(
            made.problem.to_string(),
            format!("conv:dgrad {tail} dy=2x12x9x9:bf16:s1296x1x144x16 w=12x64x3x3:bf16:nhwc dx=2x64x9x9:bf16:nhwc")
        );
        assert!(made.copies[0].is_some() && made.copies[1].is_none());
        let made =
            copies("conv:wgrad pad=1 x=2x64x9x9:bf16:nhwc dy=2x12x9x9:bf16:nhwc dw=12x64x3x3:bf16:nhwc").unwrap();
        assert!(made.copies[0].is_none() && made.copies[1].is_some());
    }

    #[test]
    fn what_cannot_or_need_not_be_copied_is_refused() {
        let refusal = |text: &str| copies(text).err().unwrap();
        let aligned = refusal("conv:fprop pad=1 x=2x16x9x9:bf16:nhwc w=12x16x3x3:bf16:nhwc");
        assert!(aligned.contains("none has to be"), "{aligned}");
        let planes = refusal("conv:fprop pad=1 x=2x12x9x9:bf16 w=12x12x3x3:bf16");
        assert!(planes.contains("channels-last, the stride of its channels is 81"), "{planes}");
        let gaps = refusal("conv:fprop pad=1 x=2x12x9x9:bf16:s1080x1x120x12 w=12x12x3x3:bf16:nhwc");
        assert!(gaps.contains("one behind the other"), "{gaps}");
        assert!(refusal("conv:fprop pad=1 x=2x12x9x9:f32:nhwc w=12x12x3x3:f32:nhwc").contains("f32"));
    }

    #[test]
    fn loads_are_as_long_as_lengths_and_addresses_allow() {
        let load = |text: &str, from: u64| copies(text).unwrap().copies[0].unwrap().bound(from, 0).load_bytes;
        let of = |x: &str, from: u64| load(&format!("conv:fprop pad=1 x={x} w=8x{}x3x3:bf16:nhwc", &x[2..4]), from);
        assert_eq!(of("2x12x9x9:bf16:nhwc", 64), 8);
        assert_eq!(of("2x12x9x9:bf16:nhwc", 4), 4);
        assert_eq!(of("2x12x9x9:bf16:nhwc", 2), 2);
        assert_eq!(of("2x14x9x9:bf16:nhwc", 64), 4);
        assert_eq!(of("2x13x9x9:bf16:nhwc", 64), 2);
        // A slice of a wider tensor.
        assert_eq!(of("2x12x9x9:bf16:s1134x1x126x14", 64), 4);
    }
}
