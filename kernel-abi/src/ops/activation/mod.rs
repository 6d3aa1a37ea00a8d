//! Activation: a function of one number, applied to every element.
//!
//! Forward: `y = alpha · f(x) + beta · y`. Backward: `dx = alpha · f'(x) · dy + beta · dx`.
//!
//! | mode | f(x) | f'(x) | parameters, with defaults |
//! | --- | --- | --- | --- |
//! | `identity` | x | 1 | – |
//! | `relu` | x between l and u; u above; l + s (x - l) below | 1 if l < x < u; 0 above; s below | lower l = 0, upper u = ∞, slope s = 0 |
//! | `clipped_relu` | min(max(x, 0), c) | 1 if 0 < x < c, else 0 | coef c = 1, ≥ 0 |
//! | `elu` | x if x > 0, else c · (eˣ - 1) | 1 if x > 0, else c · eˣ | coef c = 1 |
//! | `sigmoid` | σ(x) = 1 / (1 + e⁻ˣ) | f (1 - f) | – |
//! | `tanh` | tanh x | 1 - f² | – |
//! | `swish` | x σ(c x) | s + c x s (1 - s), s = σ(c x) | coef c = 1 |
//! | `gelu` | x Φ(x) = x (1 + erf(x/√2)) / 2 | Φ(x) + x e^(-x²/2) / √(2π) | – |
//! | `gelu_tanh` | x (1 + tanh u) / 2, u = √(2/π) (x + 0.044715 x³) | s + 2 u' x s (1 - s), s = σ(2 u) | – |
//! | `softplus` | ln(1 + e^(c x)) / c | σ(c x) | coef c = 1, not 0 |
//! | `hardsigmoid` | min(max(s x + d, 0), 1) | s if 0 < s x + d < 1, else 0 | slope s = 0.2, shift d = 0.5 |
//! | `hardswish` | x min(max(x/6 + 1/2, 0), 1) | 0 if x ≤ -3, 1 if x ≥ 3, else x/3 + 1/2 | – |
//! | `mish` | x t, t = tanh(ln(1 + eˣ)) | t + x (1 - t²) σ(x) | – |
//! | `selu` | g x if x > 0, else g a (eˣ - 1) | g if x > 0, else g a eˣ | alpha a = 1.6732632423543772, gamma g = 1.0507009873554805 |
//! | `celu` | x if x > 0, else c (e^(x/c) - 1) | 1 if x > 0, else e^(x/c) | coef c = 1, not 0 |
//! | `softsign` | x / (1 + abs x) | 1 / (1 + abs x)² | – |
//! | `exp` | eˣ | eˣ | – |
//! | `thresholded_relu` | x if x > c, else 0 | 1 if x > c, else 0 | coef c = 1 |
//! | `log_sigmoid` | ln σ(x) | σ(-x) | – |
//!
//! The modes are those of cuDNN's `cudnnActivationMode_t`, of its graph interface (whose relu has the bounds and the
//! slope; leaky relu is `relu` with a slope), and of ONNX's activations, with the graph interface's and ONNX's
//! parameters. A NaN stays a NaN in every mode but `thresholded_relu`, where it is not above c and gives 0, as ONNX's
//! formula has it, its slope too. At an infinity f and f' are their limits; a factor of 0 makes the function constant.
//! Nothing overflows or vanishes on the way where the result does not.
//! `gelu` and its slope keep their negative tails, relative to themselves: x erfc(-x/√2) / 2.
//! Backward takes x and not y: one rule serves all modes, and x is what the caller of a training step still has.
//! All operands have the same extents and element type; strides are free. Computed in the accumulator type.
//! Deterministic.

mod kernels;
mod params;
#[cfg(not(target_arch = "nvptx64"))]
mod problem;

pub use params::ActivationParams;
#[cfg(not(target_arch = "nvptx64"))]
pub use problem::{Activation, ActivationProblem};

/// Which pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ActivationPass {
    /// `x` to `y`.
    Forward,
    /// `x` and `dy` to `dx`.
    Backward,
}

crate::text_enum!(ActivationPass { Forward = "forward", Backward = "backward" });

/// Which function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum ActivationMode {
    /// x.
    Identity = 0,
    /// x between two bounds, with a slope below the lower one.
    Relu = 1,
    /// min(max(x, 0), c).
    ClippedRelu = 2,
    /// x above 0, c (eˣ - 1) below.
    Elu = 3,
    /// 1 / (1 + e⁻ˣ).
    Sigmoid = 4,
    /// tanh x.
    Tanh = 5,
    /// x / (1 + e⁻ᶜˣ).
    Swish = 6,
    /// x times the normal distribution function of x.
    Gelu = 7,
    /// Its approximation by tanh.
    GeluTanh = 8,
    /// ln(1 + eᶜˣ) / c.
    Softplus = 9,
    /// A line between 0 and 1.
    Hardsigmoid = 10,
    /// x times such a line.
    Hardswish = 11,
    /// x tanh(ln(1 + eˣ)).
    Mish = 12,
    /// g x above 0, g a (eˣ - 1) below.
    Selu = 13,
    /// x above 0, c (e^(x/c) - 1) below.
    Celu = 14,
    /// x / (1 + |x|).
    Softsign = 15,
    /// eˣ.
    Exp = 16,
    /// x above c, 0 below and for NaN, as ONNX has it.
    ThresholdedRelu = 17,
    /// -ln(1 + e⁻ˣ).
    LogSigmoid = 18,
}

crate::text_enum!(ActivationMode {
    Identity = "identity",
    Relu = "relu",
    ClippedRelu = "clipped_relu",
    Elu = "elu",
    Sigmoid = "sigmoid",
    Tanh = "tanh",
    Swish = "swish",
    Gelu = "gelu",
    GeluTanh = "gelu_tanh",
    Softplus = "softplus",
    Hardsigmoid = "hardsigmoid",
    Hardswish = "hardswish",
    Mish = "mish",
    Selu = "selu",
    Celu = "celu",
    Softsign = "softsign",
    Exp = "exp",
    ThresholdedRelu = "thresholded_relu",
    LogSigmoid = "log_sigmoid",
});

/// The most parameters that a mode has.
pub const MAX_PARAMETERS: usize = 3;

impl ActivationMode {
    /// The modes that an [`Epilogue`](crate::epilogue) of a product may have.
    pub const EPILOGUE: &'static [ActivationMode] = &[
        ActivationMode::Identity,
        ActivationMode::Relu,
        ActivationMode::ClippedRelu,
        ActivationMode::Elu,
        ActivationMode::Sigmoid,
        ActivationMode::Tanh,
        ActivationMode::Swish,
    ];

    /// Checks that an activation within another operator's kernel is one of [`EPILOGUE`](Self::EPILOGUE), with a
    /// coefficient that it can have.
    ///
    /// # Errors
    /// `BadDescriptor` naming `act` or `coef`.
    #[cfg(not(target_arch = "nvptx64"))]
    pub fn check_fused(self, coefficient: f64, op: &'static str) -> Result<(), crate::BadDescriptor> {
        if !Self::EPILOGUE.contains(&self) {
            let known: Vec<&str> = Self::EPILOGUE.iter().map(|mode| mode.name()).collect();
            let reason = format!("expected one of {} within an operator, given {self}", known.join(", "));
            return Err(crate::BadDescriptor::new(op, "act", reason));
        }
        if !coefficient.is_finite() || (self == ActivationMode::ClippedRelu && coefficient < 0.0) {
            let reason = format!("expected a finite number, for clipped_relu at least 0, given {coefficient}");
            return Err(crate::BadDescriptor::new(op, "coef", reason));
        }
        Ok(())
    }

    /// Its parameters with their defaults, by the names in problem texts.
    pub const fn parameters(self) -> &'static [(&'static str, f64)] {
        match self {
            ActivationMode::Relu => &[("lower", 0.0), ("upper", f64::INFINITY), ("slope", 0.0)],
            ActivationMode::ClippedRelu
            | ActivationMode::Elu
            | ActivationMode::Swish
            | ActivationMode::Softplus
            | ActivationMode::Celu
            | ActivationMode::ThresholdedRelu => &[("coef", 1.0)],
            ActivationMode::Hardsigmoid => &[("slope", 0.2), ("shift", 0.5)],
            ActivationMode::Selu => &[("alpha", 1.673_263_242_354_377_2), ("gamma", 1.050_700_987_355_480_5)],
            _ => &[],
        }
    }

    /// The defaults, 0 behind the last.
    pub const fn defaults(self) -> [f64; MAX_PARAMETERS] {
        let parameters = self.parameters();
        let mut defaults = [0.0; MAX_PARAMETERS];
        let mut i = 0;
        while i < parameters.len() {
            defaults[i] = parameters[i].1;
            i += 1;
        }
        defaults
    }

    /// Whether the function has the single parameter that is called its coefficient.
    pub const fn has_coefficient(self) -> bool {
        matches!(
            self,
            ActivationMode::ClippedRelu
                | ActivationMode::Elu
                | ActivationMode::Swish
                | ActivationMode::Softplus
                | ActivationMode::Celu
                | ActivationMode::ThresholdedRelu
        )
    }

    /// Its parameters with this coefficient, where it has one; else the defaults.
    pub const fn with_coefficient(self, coefficient: f64) -> [f64; MAX_PARAMETERS] {
        if self.has_coefficient() { [coefficient, 0.0, 0.0] } else { self.defaults() }
    }
}
