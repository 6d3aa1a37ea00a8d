//! What is asked of a normalization, tensors left out.

use super::OP;
use crate::desc::{BadDescriptor, TensorDesc};
use crate::ops::activation::ActivationMode;
use crate::problem::Coefficient;

/// Which elements are normalized together. See the [module](super).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NormMode {
    /// All of a channel.
    Batch,
    /// All images at a position.
    PerActivation,
    /// All dimensions from this one on.
    Layer {
        /// The first of them.
        axis: usize,
    },
    /// The same, without a mean.
    Rms {
        /// The first of them.
        axis: usize,
    },
    /// A share of an image's channels.
    Group {
        /// How many shares.
        groups: i64,
    },
    /// A channel of an image.
    Instance,
}

impl NormMode {
    /// The word used in problem texts.
    pub const fn name(self) -> &'static str {
        match self {
            NormMode::Batch => "batch",
            NormMode::PerActivation => "per_activation",
            NormMode::Layer { .. } => "layer",
            NormMode::Rms { .. } => "rms",
            NormMode::Group { .. } => "group",
            NormMode::Instance => "instance",
        }
    }

    /// Whether the mean is subtracted.
    pub const fn has_mean(self) -> bool {
        !matches!(self, NormMode::Rms { .. })
    }

    /// Whether rows have running statistics: where they are the same for every batch.
    pub const fn has_running_statistics(self) -> bool {
        matches!(self, NormMode::Batch | NormMode::PerActivation)
    }

    /// Refuses tensors without the dimensions that the mode speaks of.
    pub(super) fn check(self, x_name: &str, x: &TensorDesc) -> Result<(), BadDescriptor> {
        let rank = x.rank();
        match self {
            NormMode::Layer { axis } | NormMode::Rms { axis } => {
                if axis >= rank {
                    let reason = format!("expected one of the {rank} dimensions of {x_name}, given {axis}");
                    return Err(BadDescriptor::new(OP, "axis", reason));
                }
            }
            NormMode::Batch | NormMode::PerActivation | NormMode::Group { .. } | NormMode::Instance => {
                if rank < 2 {
                    let reason = format!("expected a rank of at least 2, [N, C, ...], given {rank}");
                    return Err(BadDescriptor::new(OP, x_name, reason));
                }
            }
        }
        if let NormMode::Group { groups } = self {
            /// The channels become two dimensions.
            const MAX_GROUPED_RANK: usize = crate::MAX_RANK - 1;
            let channels = x.dims()[1];
            if groups < 1 || channels % groups != 0 {
                let reason = format!("expected a divisor of the {channels} channels of {x_name}, given {groups}");
                return Err(BadDescriptor::new(OP, "groups", reason));
            }
            if rank > MAX_GROUPED_RANK {
                let reason = format!("expected a rank of at most {MAX_GROUPED_RANK} for mode group, given {rank}");
                return Err(BadDescriptor::new(OP, x_name, reason));
            }
        }
        Ok(())
    }
}

/// Mode, epsilon, activation and what becomes of running statistics.
///
/// ```
/// use kernel_abi::ops::activation::ActivationMode;
/// use kernel_abi::ops::norm::{NormDesc, NormMode, NormProblem, NormTensors};
///
/// let desc = NormDesc::new(NormMode::Batch).epsilon(1e-3).activation(ActivationMode::Relu, 0.0).factor(0.1);
/// let x = "8x64x56x56:bf16:nhwc".parse().unwrap();
/// let channels = "64:f32".parse().unwrap();
/// let tensors = NormTensors::new().scale(&channels).bias(&channels).running(&channels).statistics();
/// let problem = NormProblem::forward(&desc, &x, &x, &tensors).unwrap();
/// assert_eq!(
///     problem.to_string(),
///     "norm:forward mode=batch eps=0.001 act=relu factor=0.1 unbiased=1 x=8x64x56x56:bf16:nhwc scale=64:f32 \
///      bias=64:f32 y=8x64x56x56:bf16:nhwc mean=64:f32 inv_std=64:f32 running_mean=64:f32 running_var=64:f32"
/// );
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NormDesc {
    pub(super) mode: NormMode,
    pub(super) epsilon: Coefficient,
    pub(super) activation: ActivationMode,
    pub(super) coefficient: Coefficient,
    pub(super) factor: Coefficient,
    pub(super) unbiased: bool,
}

impl NormDesc {
    /// Epsilon 10⁻⁵, no activation, a factor of 0.1 and Bessel's correction for running statistics.
    pub fn new(mode: NormMode) -> Self {
        NormDesc {
            mode,
            epsilon: Coefficient::new(1e-5),
            activation: ActivationMode::Identity,
            coefficient: Coefficient::new(0.0),
            factor: Coefficient::new(0.1),
            unbiased: true,
        }
    }

    /// Sets what is added to the variance.
    pub fn epsilon(mut self, epsilon: f64) -> Self {
        self.epsilon = Coefficient::new(epsilon);
        self
    }

    /// Sets the activation. `coefficient` is as in
    /// [`ActivationProblem::forward`](crate::ops::activation::ActivationProblem::forward).
    pub fn activation(mut self, mode: ActivationMode, coefficient: f64) -> Self {
        self.activation = mode;
        self.coefficient = Coefficient::new(if mode.has_coefficient() { coefficient } else { 0.0 });
        self
    }

    /// Sets the share of the new statistics in the running ones.
    pub fn factor(mut self, factor: f64) -> Self {
        self.factor = Coefficient::new(factor);
        self
    }

    /// Sets whether running variances have Bessel's correction.
    pub fn unbiased(mut self, unbiased: bool) -> Self {
        self.unbiased = unbiased;
        self
    }

    pub(super) fn check(&self) -> Result<(), BadDescriptor> {
        let epsilon = self.epsilon.get();
        if !(epsilon >= 0.0 && epsilon.is_finite()) {
            let reason = format!("expected a finite number of at least 0, given {epsilon}");
            return Err(BadDescriptor::new(OP, "eps", reason));
        }
        let factor = self.factor.get();
        if !(0.0..=1.0).contains(&factor) {
            return Err(BadDescriptor::new(OP, "factor", format!("expected a number from 0 to 1, given {factor}")));
        }
        self.activation.check_fused(self.coefficient.get(), OP)
    }
}
