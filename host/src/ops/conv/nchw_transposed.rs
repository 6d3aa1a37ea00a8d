//! Convolution of tensors that do not lie channels-last, such as NCHW and KCRS: they are transposed into the workspace,
//! convolved there by a method for channels-last tensors, and the result is transposed back, unless the method can
//! write it as it shall lie.
//!
//! What the method takes as it is stays where it is. With beta, the prior value is brought to the workspace as well, so
//! that the result is rounded once.

use super::{
    ConvPass, ConvProblem, cp_async_mma, depthwise_tma, diagonal_mma, grouped_mma, grouped_tma, halo_wgmma,
    halo_wgmma_split, im2col_wgmma, merged_groups, overlap_wgmma, packed_rows, spread_columns, winograd,
};
use crate::ops::transform::Copies;
use crate::plan::Launch;
use crate::select::{Algorithm, Config, Refusal, Spread, check_gpu};
use crate::{Context, Error, Operand, Problem, TensorDesc};

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

macro_rules! two_names {
    ($(($symbol:ident $($column:tt)*)),* $(,)?) => {
        &[$((concat!(stringify!($symbol), "+two"), concat!(stringify!($symbol), "+two+nchw"))),*]
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
        names: &[kernel_abi::conv_overlap_wgrad_kernels!(names), kernel_abi::conv_overlap_turns_kernels!(names)],
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
        algorithm: &grouped_tma::GroupedTma,
        names: &[kernel_abi::conv_grouped_tma_kernels!(names), kernel_abi::conv_grouped_tma_kernels!(two_names)],
        takes_any_x_and_w: false,
        writes_planes: false,
        takes_padding: false,
    },
    Method {
        algorithm: &depthwise_tma::DepthwiseTma,
        names: &[kernel_abi::conv_depthwise_tma_kernels!(names)],
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

/// Configs that are offered: the best by estimate of those that write the result as it shall lie, and as many of the
/// others. Which of the two is faster hangs on how well stores to planes hide behind products, and is for `Find` to say.
const OFFERED: usize = 3;

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
        let mut taken = [0; 2];
        found.retain(|(_, config)| {
            let taken = &mut taken[usize::from(chosen(*config).0.writes_planes)];
            *taken += 1;
            *taken <= OFFERED
        });
        Ok(found.into_iter().map(|(_, config)| config).collect())
    }

    fn spread(&self, problem: &ConvProblem, config: Config) -> Spread {
        let (method, inner) = chosen(config);
        let spread = |laid: Laid| method.algorithm.spread(&laid.problem, inner);
        Laid::of(method, problem).map_or(Spread::Window, spread)
    }

    fn is_asked_for(&self, problem: &ConvProblem, config: Config) -> bool {
        let (method, inner) = chosen(config);
        Laid::of(method, problem).is_ok_and(|laid| method.algorithm.is_asked_for(&laid.problem, inner))
    }

    fn workspace_bytes(&self, problem: &ConvProblem, config: Config) -> u64 {
        let (method, inner) = chosen(config);
        let Ok(laid) = Laid::of(method, problem) else { return 0 };
        laid.copies.bytes() + method.algorithm.workspace_bytes(&laid.problem, inner)
    }

    fn estimate_us(&self, problem: &ConvProblem, config: Config, context: &Context) -> f64 {
        let (method, inner) = chosen(config);
        let Ok(laid) = Laid::of(method, problem) else { return f64::INFINITY };
        laid.copies.estimate_us(context) + method.algorithm.estimate_us(&laid.problem, inner, context)
    }

    fn prepare(&self, problem: &ConvProblem, config: Config, context: &Context) -> Result<Box<dyn Launch>, Error> {
        let (method, inner) = chosen(config);
        let laid = Laid::of(method, problem).map_err(|refusal| refusal.into_error(self.name(), problem))?;
        laid.copies.launch(method.algorithm.prepare(&laid.problem, inner, context)?, context)
    }
}

impl Method {
    /// Estimates and names of the configs with which it convolves the copies.
    fn configs(&self, problem: &ConvProblem, context: &Context) -> Result<Vec<(f64, Config)>, Refusal> {
        let laid = Laid::of(self, problem)?;
        let configs = self.algorithm.configs(&laid.problem, context)?;
        laid.copies.check(context)?;
        let moving_us = laid.copies.estimate_us(context);
        let estimate = |config| moving_us + self.algorithm.estimate_us(&laid.problem, config, context);
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

/// A problem as a method sees it, with channels-last copies in the places of some operands.
struct Laid {
    problem: ConvProblem,
    copies: Copies,
}

impl Laid {
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
        Ok(Laid { problem: inner, copies: Copies::new(operands, laid_out)? })
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
            let laid = Laid::of(&METHODS[method], &text.parse().unwrap());
            laid.map(|laid| laid.problem.to_string()).map_err(|Refusal(reason)| reason)
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
