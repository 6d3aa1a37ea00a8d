//! Convolution of tensors that do not lie channels-last, such as NCHW and KCRS: they are transposed into the workspace,
//! convolved there by a method for channels-last tensors, and the result is transposed back, unless the method can
//! write it as it shall lie.
//!
//! What the method takes as it is stays where it is. With beta, the prior value is brought to the workspace as well, so
//! that the result is rounded once.

use super::{
    ConvPass, ConvProblem, cp_async_mma, diagonal_mma, grouped_mma, halo_wgmma, halo_wgmma_split, im2col_wgmma,
    merged_groups, overlap_wgmma, packed_rows, spread_columns, winograd,
};
use crate::ops::transform::Transposition;
use crate::plan::{Call, Launch};
use crate::select::{Algorithm, Config, Refusal, check_gpu};
use crate::{Context, Error, Operand, Problem, Stream, TensorDesc};

/// The kernels that a method may choose, each with the name it has here.
type Names = &'static [(&'static str, &'static str)];

macro_rules! names {
    ($(($symbol:ident $($column:tt)*)),* $(,)?) => {
        &[$((stringify!($symbol), concat!(stringify!($symbol), "+nchw"))),*]
    };
}

macro_rules! plane_names {
    ($(($symbol:ident $($column:tt)*)),* $(,)?) => {
        &[$((stringify!($symbol), concat!(stringify!($symbol), "+planes+nchw"))),*]
    };
}

macro_rules! row_names {
    ($(($symbol:ident $($column:tt)*)),* $(,)?) => {
        &[$((stringify!($symbol), concat!(stringify!($symbol), "+rows+nchw"))),*]
    };
}

macro_rules! column_names {
    ($(($symbol:ident $($column:tt)*)),* $(,)?) => {
        &[$((stringify!($symbol), concat!(stringify!($symbol), "+columns+nchw"))),*]
    };
}

macro_rules! merged_names {
    ($(($symbol:ident $($column:tt)*)),* $(,)?) => {
        &[$((stringify!($symbol), concat!(stringify!($symbol), "+merged+nchw"))),*]
    };
}

/// A method for channels-last tensors.
struct Method {
    algorithm: &'static dyn Algorithm<ConvProblem>,
    names: &'static [Names],
    /// Whether it takes x and w as they are.
    takes_any_x_and_w: bool,
    /// Whether its result is written as it shall lie.
    writes_planes: bool,
    /// Whether it takes positions whose channels are filled up to 16 bytes.
    takes_padding: bool,
}

const METHODS: &[Method] = &[
    Method {
        algorithm: &im2col_wgmma::Gather,
        names: &[kernel_abi::conv_im2col_gather_kernels!(plane_names)],
        takes_any_x_and_w: false,
        writes_planes: true,
        takes_padding: true,
    },
    Method {
        algorithm: &im2col_wgmma::Gather,
        names: &[kernel_abi::conv_im2col_gather_kernels!(names)],
        takes_any_x_and_w: false,
        writes_planes: false,
        takes_padding: true,
    },
    Method {
        algorithm: &im2col_wgmma::Wgrad,
        names: &[kernel_abi::conv_im2col_wgrad_kernels!(names)],
        takes_any_x_and_w: false,
        writes_planes: false,
        takes_padding: true,
    },
    Method {
        algorithm: &halo_wgmma::HaloWgmma,
        names: &[kernel_abi::conv_halo_kernels!(names)],
        takes_any_x_and_w: false,
        writes_planes: false,
        takes_padding: true,
    },
    Method {
        algorithm: &halo_wgmma_split::HaloWgmmaSplit,
        names: &[kernel_abi::conv_halo_wgrad_kernels!(names)],
        takes_any_x_and_w: false,
        writes_planes: false,
        takes_padding: true,
    },
    Method {
        algorithm: &overlap_wgmma::OverlapWgmma,
        names: &[kernel_abi::conv_overlap_wgrad_kernels!(names)],
        takes_any_x_and_w: true,
        writes_planes: false,
        takes_padding: true,
    },
    Method {
        algorithm: &packed_rows::PackedRows,
        names: &[kernel_abi::conv_im2col_gather_kernels!(row_names), kernel_abi::conv_im2col_wgrad_kernels!(row_names)],
        takes_any_x_and_w: true,
        writes_planes: false,
        takes_padding: true,
    },
    Method {
        algorithm: &spread_columns::SpreadColumns,
        names: &[kernel_abi::conv_im2col_gather_kernels!(column_names), kernel_abi::conv_halo_kernels!(column_names)],
        takes_any_x_and_w: true,
        writes_planes: false,
        takes_padding: true,
    },
    Method {
        algorithm: &grouped_mma::GroupedMma,
        names: &[kernel_abi::conv_grouped_mma_kernels!(names)],
        takes_any_x_and_w: false,
        writes_planes: false,
        takes_padding: false,
    },
    Method {
        algorithm: &diagonal_mma::DiagonalMma,
        names: &[kernel_abi::conv_diagonal_gather_kernels!(names), kernel_abi::conv_diagonal_wgrad_kernels!(names)],
        takes_any_x_and_w: false,
        writes_planes: false,
        takes_padding: false,
    },
    Method {
        algorithm: &merged_groups::MergedGroups,
        names: &[
            kernel_abi::conv_im2col_gather_kernels!(merged_names),
            kernel_abi::conv_im2col_wgrad_kernels!(merged_names),
            kernel_abi::conv_halo_kernels!(merged_names),
            kernel_abi::conv_halo_wgrad_kernels!(merged_names),
        ],
        takes_any_x_and_w: false,
        writes_planes: false,
        takes_padding: true,
    },
    Method {
        algorithm: &cp_async_mma::CpAsyncMma,
        names: &[kernel_abi::conv_cp_async_mma_kernels!(names)],
        takes_any_x_and_w: false,
        writes_planes: false,
        takes_padding: false,
    },
    Method {
        algorithm: &winograd::Winograd(winograd::Tile::F2),
        names: &winograd::NCHW_NAMES[0],
        takes_any_x_and_w: false,
        writes_planes: false,
        takes_padding: true,
    },
    Method {
        algorithm: &winograd::Winograd(winograd::Tile::F4),
        names: &winograd::NCHW_NAMES[1],
        takes_any_x_and_w: false,
        writes_planes: false,
        takes_padding: true,
    },
];

/// Configs that are offered: the best by estimate.
const OFFERED: usize = 4;
/// What parts of the workspace are aligned to.
const ALIGN_BYTES: u64 = 256;

/// Through channels-last copies.
pub(super) struct NchwTransposed;

impl Algorithm<ConvProblem> for NchwTransposed {
    fn name(&self) -> &'static str {
        "nchw_transposed"
    }

    fn configs(&self, problem: &ConvProblem, context: &Context) -> Result<Vec<Config>, Refusal> {
        check_gpu(context)?;
        let mut reasons = Vec::new();
        let mut found = Vec::new();
        for method in METHODS {
            match method.configs(problem, context) {
                Ok(configs) => found.extend(configs),
                Err(Refusal(reason)) => reasons.push(format!("{}: {reason}", method.algorithm.name())),
            }
        }
        if found.is_empty() {
            return Err(Refusal(reasons.join("; ")));
        }
        found.sort_by(|a, b| a.0.total_cmp(&b.0));
        Ok(found.into_iter().take(OFFERED).map(|(_, config)| config).collect())
    }

    fn workspace_bytes(&self, problem: &ConvProblem, config: Config) -> u64 {
        let (method, inner) = chosen(config);
        let Ok(copies) = Copies::of(method, problem) else { return 0 };
        copies.bytes() + method.algorithm.workspace_bytes(&copies.problem, inner)
    }

    fn estimate_us(&self, problem: &ConvProblem, config: Config, context: &Context) -> f64 {
        let (method, inner) = chosen(config);
        let Ok(copies) = Copies::of(method, problem) else { return f64::INFINITY };
        copies.estimate_us(context) + method.algorithm.estimate_us(&copies.problem, inner, context)
    }

    fn prepare(&self, problem: &ConvProblem, config: Config, context: &Context) -> Result<Box<dyn Launch>, Error> {
        let (method, inner) = chosen(config);
        let copies = Copies::of(method, problem).map_err(|refusal| refusal.into_error(self.name(), problem))?;
        let transpositions = |from: usize, copy: &Copy| -> Result<_, Error> {
            let there = Transposition::new(&copies.operands[from], &copy.desc, context)?;
            let back =
                if from == 2 { Some(Transposition::new(&copy.desc, &copies.operands[from], context)?) } else { None };
            Ok(Some(Moved { there, back, at: copy.at, end: copy.at + copy.desc.span_bytes() }))
        };
        let mut moved = [None, None, None];
        for (i, copy) in copies.copies.iter().enumerate() {
            if let Some(copy) = copy {
                moved[i] = transpositions(i, copy)?;
            }
        }
        Ok(Box::new(TransposedLaunch {
            moved,
            convolution: method.algorithm.prepare(&copies.problem, inner, context)?,
            behind_copies: copies.bytes(),
        }))
    }
}

impl Method {
    /// Estimates and names of the configs with which it convolves the copies.
    fn configs(&self, problem: &ConvProblem, context: &Context) -> Result<Vec<(f64, Config)>, Refusal> {
        let copies = Copies::of(self, problem)?;
        let configs = self.algorithm.configs(&copies.problem, context)?;
        copies.check(context)?;
        let moving_us = copies.estimate_us(context);
        let estimate = |config| moving_us + self.algorithm.estimate_us(&copies.problem, config, context);
        Ok(configs.into_iter().filter_map(|config| Some((estimate(config), self.named(config)?))).collect())
    }

    /// A config of its own as it is named here.
    fn named(&self, config: Config) -> Option<Config> {
        let found = self.names.iter().flat_map(|names| names.iter()).find(|(symbol, _)| *symbol == config.0);
        found.map(|(_, name)| Config(name))
    }
}

/// What a config stands for.
fn chosen(config: Config) -> (&'static Method, Config) {
    METHODS
        .iter()
        .find_map(|method| {
            let found = method.names.iter().flat_map(|names| names.iter()).find(|(_, name)| *name == config.0);
            found.map(|(symbol, _)| (method, Config(symbol)))
        })
        .expect("configs come from the lists of names")
}

/// A problem of which some operands are copied.
struct Copies {
    /// With the copies in their places.
    problem: ConvProblem,
    /// The operands of a run as they are given: the output last.
    operands: [TensorDesc; 3],
    copies: [Option<Copy>; 3],
}

/// A channels-last copy of an operand.
#[derive(Clone, Copy)]
struct Copy {
    desc: TensorDesc,
    /// Where it begins in the workspace.
    at: u64,
}

impl Copies {
    fn of(method: &Method, problem: &ConvProblem) -> Result<Self, Refusal> {
        let written = match problem.conv_pass() {
            ConvPass::Fprop => "y",
            ConvPass::Dgrad => "x",
            ConvPass::Wgrad => "w",
        };
        let laid_out = |desc: &TensorDesc, name: &str| {
            let taken = (method.takes_any_x_and_w && name != "y") || (method.writes_planes && name == written);
            if desc.dims()[1] == 1 || desc.strides()[1] == 1 || taken {
                return Ok(*desc);
            }
            let padded = method.takes_padding && name != written;
            channels_last(desc, padded).map_err(Refusal::from)
        };
        let (x, w, y) = (laid_out(problem.x(), "x")?, laid_out(problem.w(), "w")?, laid_out(problem.y(), "y")?);
        let inner = problem.with_layouts(&x, &w, &y).map_err(Refusal::from)?;
        let descs = |problem: &ConvProblem| -> Result<[TensorDesc; 3], Refusal> {
            let descs = problem.operands().into_iter().map(|Operand { desc, .. }| desc).collect::<Vec<_>>();
            descs.try_into().map_err(|_| Refusal::new("takes three operands"))
        };
        let (operands, laid_out) = (descs(problem)?, descs(&inner)?);
        let mut at = 0;
        let copies = [0, 1, 2].map(|i| {
            let desc = laid_out[i];
            (desc != operands[i]).then(|| {
                let copy = Copy { desc, at };
                at += desc.span_bytes().next_multiple_of(ALIGN_BYTES);
                copy
            })
        });
        if copies.iter().all(Option::is_none) {
            return Err(Refusal::new("transposes operands that do not lie channels-last, none has to be"));
        }
        Ok(Copies { problem: inner, operands, copies })
    }

    /// Where the workspace goes on behind the copies.
    fn bytes(&self) -> u64 {
        let last = self.copies.iter().flatten().next_back();
        last.map_or(0, |copy| (copy.at + copy.desc.span_bytes()).next_multiple_of(ALIGN_BYTES))
    }

    /// Why an operand cannot be transposed.
    fn check(&self, context: &Context) -> Result<(), Refusal> {
        for (operand, copy) in self.operands.iter().zip(&self.copies) {
            if let Some(copy) = copy {
                Transposition::check(operand, &copy.desc, context)?;
                Transposition::check(&copy.desc, operand, context)?;
            }
        }
        Ok(())
    }

    /// Time of the transpositions of a run without a prior value.
    fn estimate_us(&self, context: &Context) -> f64 {
        self.copies.iter().flatten().map(|copy| Transposition::estimate_us(&copy.desc, context)).sum()
    }
}

/// The same extents channels-last; if `padded`, with the channels of a position filled up to 16 bytes.
pub(super) fn channels_last(desc: &TensorDesc, padded: bool) -> Result<TensorDesc, kernel_abi::BadDescriptor> {
    let dense = TensorDesc::channels_last(desc.dtype(), desc.dims())?;
    let run = 16 / desc.dtype().size_bytes() as i64;
    let channels = desc.dims()[1];
    let whole = channels.saturating_add(run - 1) / run * run;
    if !padded || whole == channels {
        return Ok(dense);
    }
    // Every stride but that of the channels counts positions.
    let strides: Vec<i64> = dense
        .strides()
        .iter()
        .enumerate()
        .map(|(i, &stride)| if i == 1 { 1 } else { (stride / channels).saturating_mul(whole) })
        .collect();
    TensorDesc::strided(desc.dtype(), desc.dims(), &strides)
}

/// An operand's way into the workspace, and back for the output.
struct Moved {
    there: Transposition,
    back: Option<Transposition>,
    at: u64,
    end: u64,
}

/// Launches that are complete but for addresses and scalars.
struct TransposedLaunch {
    moved: [Option<Moved>; 3],
    convolution: Box<dyn Launch>,
    behind_copies: u64,
}

impl Launch for TransposedLaunch {
    fn launch(&self, stream: &Stream, call: &mut Call<'_>) -> Result<(), Error> {
        let name = "nchw_transposed";
        let (gpu_stream, workspace) = (stream.gpu_stream_for(name)?, call.gpu_workspace(name)?);
        let prior = call.beta != 0.0;
        let mut launched = false;
        for (i, moved) in self.moved.iter().enumerate() {
            if let Some(moved) = moved.as_ref().filter(|_| i < 2 || prior) {
                moved.there.launch(gpu_stream, call.address(i), workspace.address() + moved.at, launched)?;
                launched = true;
            }
        }
        let copy = |i: usize| self.moved[i].as_ref().map(|moved| workspace.part(moved.at, moved.end));
        let rest = workspace.part(self.behind_copies, workspace.len_bytes());
        self.convolution.launch(stream, &mut call.inner(copy, rest))?;
        let output = self.moved[2].as_ref();
        match output.and_then(|moved| Some((moved.back.as_ref()?, moved.at))) {
            Some((back, at)) => back.launch(gpu_stream, workspace.address() + at, call.address(2), false),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back_to_method_and_kernel() {
        let mut all = Vec::new();
        for method in METHODS {
            for (symbol, name) in method.names.iter().flat_map(|names| names.iter()) {
                let (found, config) = chosen(Config(name));
                assert_eq!((found.algorithm.name(), config.0), (method.algorithm.name(), *symbol));
                assert_eq!(method.named(Config(symbol)), Some(Config(name)));
                all.push(*name);
            }
        }
        let n = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), n);
    }

    #[test]
    fn copies_are_channels_last_and_what_is_taken_as_it_is_stays() {
        let copies = |method: usize, text: &str| {
            let copies = Copies::of(&METHODS[method], &text.parse().unwrap());
            copies.map(|copies| copies.problem.to_string()).map_err(|Refusal(reason)| reason)
        };
        let tail = "pad=1x1 stride=1x1 dil=1x1 groups=1";
        assert_eq!(
            copies(1, "conv:fprop pad=1 x=2x13x9x9:bf16 w=16x13x3x3:bf16").unwrap(),
            format!(
                "conv:fprop {tail} x=2x13x9x9:bf16:s1296x1x144x16 w=16x13x3x3:bf16:s144x1x48x16 y=2x16x9x9:bf16:nhwc"
            )
        );
        assert_eq!(
            copies(1, "conv:dgrad pad=1 dx=2x16x9x9:bf16 w=24x16x3x3:bf16:nhwc dy=2x24x9x9:bf16").unwrap(),
            format!("conv:dgrad {tail} dy=2x24x9x9:bf16:nhwc w=24x16x3x3:bf16:nhwc dx=2x16x9x9:bf16:nhwc")
        );
        assert_eq!(
            copies(0, "conv:fprop pad=1 x=2x16x9x9:bf16 w=16x16x3x3:bf16").unwrap(),
            format!("conv:fprop {tail} x=2x16x9x9:bf16:nhwc w=16x16x3x3:bf16:nhwc y=2x16x9x9:bf16")
        );
        assert_eq!(
            copies(5, "conv:wgrad pad=1 x=2x3x9x9:bf16 dw=64x3x3x3:bf16").unwrap(),
            format!("conv:wgrad {tail} x=2x3x9x9:bf16 dy=2x64x9x9:bf16:nhwc dw=64x3x3x3:bf16")
        );
        let refusal = copies(0, "conv:fprop pad=1 x=2x16x9x9:bf16:nhwc w=16x16x3x3:bf16:nhwc").unwrap_err();
        assert!(refusal.contains("none has to be"), "{refusal}");
    }
}
