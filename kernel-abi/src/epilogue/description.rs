//! An epilogue as part of a problem, and its text form.

use crate::DType;
use crate::desc::{BadDescriptor, TensorDesc};
use crate::ops::activation::ActivationMode;
use crate::problem::{Coefficient, Operand, same_dims, same_dtype};
use crate::text::{Fields, join};
use std::fmt;

/// Operands before those of an epilogue: two factors and their product.
const FIRST_OPERAND: usize = 3;

/// The element type of channel sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Sums {
    /// That of y's accumulator.
    Accumulator,
    /// f64, where that is not y's accumulator.
    F64,
}

/// What becomes of a product before it is stored. See the [module](super) for the formula.
///
/// ```
/// use kernel_abi::epilogue::Epilogue;
/// use kernel_abi::ops::activation::ActivationMode;
/// use kernel_abi::ops::conv::ConvProblem;
///
/// let plain: ConvProblem = "conv:fprop pad=1 x=8x64x56x56:f16:nhwc w=64x64x3x3:f16:nhwc".parse().unwrap();
/// let bias = "64:f32".parse().unwrap();
/// let epilogue = Epilogue::new().bias(&bias).residual(plain.y()).activation(ActivationMode::Relu, 0.0);
/// let fused = plain.with_epilogue(epilogue).unwrap();
/// assert_eq!(
///     fused.to_string(),
///     "conv:fprop pad=1x1 stride=1x1 dil=1x1 groups=1 act=relu x=8x64x56x56:f16:nhwc w=64x64x3x3:f16:nhwc \
///      y=8x64x56x56:f16:nhwc bias=64:f32 z=8x64x56x56:f16:nhwc"
/// );
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Epilogue {
    bias: Option<TensorDesc>,
    z: Option<TensorDesc>,
    activation: Option<(ActivationMode, Coefficient)>,
    /// The type of the channel sums that the caller or the text asks for; none for no sums.
    sums: Option<Sums>,
    /// Which dimension of y has the channels. Told by the problem that takes the epilogue.
    channel_axis: usize,
    /// Operands `sum` and `sum_squares`. Told by the problem.
    sum: Option<TensorDesc>,
}

impl Epilogue {
    /// None: the product is stored as it is.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a number for each channel: `[K]`, in y's element type or in its accumulator's.
    pub fn bias(mut self, bias: &TensorDesc) -> Self {
        self.bias = Some(*bias);
        self
    }

    /// Adds a tensor of y's extents and type, with strides of its own.
    pub fn residual(mut self, z: &TensorDesc) -> Self {
        self.z = Some(*z);
        self
    }

    /// Applies an activation. `coefficient` is as in
    /// [`ActivationProblem::forward`](crate::ops::activation::ActivationProblem::forward).
    pub fn activation(mut self, mode: ActivationMode, coefficient: f64) -> Self {
        self.activation = (mode != ActivationMode::Identity).then_some((mode, Coefficient::new(coefficient)));
        self
    }

    /// Also gives the sum and the sum of squares of each channel. Convolutions only.
    pub fn channel_sums(mut self) -> Self {
        self.sums = Some(Sums::Accumulator);
        self
    }

    /// The same, added and stored in f64: for channels whose mean is hundreds of times their standard deviation.
    pub fn channel_sums_f64(mut self) -> Self {
        self.sums = Some(Sums::F64);
        self
    }

    /// The bias.
    pub fn bias_desc(&self) -> Option<&TensorDesc> {
        self.bias.as_ref()
    }

    /// The residual.
    pub fn residual_desc(&self) -> Option<&TensorDesc> {
        self.z.as_ref()
    }

    /// The activation, `identity` where there is none, and its coefficient.
    pub fn mode(&self) -> (ActivationMode, f64) {
        self.activation.map_or((ActivationMode::Identity, 0.0), |(mode, coefficient)| (mode, coefficient.get()))
    }

    /// Whether channel sums are given.
    pub fn has_sums(&self) -> bool {
        self.sums.is_some()
    }

    /// Whether y is something else than the product.
    pub fn changes_y(&self) -> bool {
        self.bias.is_some() || self.z.is_some() || self.activation.is_some()
    }

    /// The same without channel sums; none if nothing is left.
    pub(crate) fn without_sums(&self) -> Option<Self> {
        self.changes_y().then(|| Epilogue { sums: None, sum: None, ..self.clone() })
    }

    /// Which dimension of y has the channels.
    pub fn channel_axis(&self) -> usize {
        self.channel_axis
    }

    /// The channel of the element of y with row-major index `linear`.
    pub fn channel_of(&self, y: &TensorDesc, linear: usize) -> usize {
        let inner: i64 = y.dims()[self.channel_axis + 1..].iter().product();
        linear / inner as usize % y.dims()[self.channel_axis] as usize
    }

    /// Which of a run's operands is the bias.
    pub fn bias_operand(&self) -> Option<usize> {
        self.bias.map(|_| FIRST_OPERAND)
    }

    /// Which of a run's operands is the residual.
    pub fn residual_operand(&self) -> Option<usize> {
        self.z.map(|_| FIRST_OPERAND + usize::from(self.bias.is_some()))
    }

    /// Which of a run's operands is `sum`; `sum_squares` is the next.
    pub fn sum_operand(&self) -> Option<usize> {
        let before = FIRST_OPERAND + usize::from(self.bias.is_some()) + usize::from(self.z.is_some());
        self.sums.map(|_| before)
    }

    /// What it adds to a problem's operands, which are written with `y`.
    pub(crate) fn add_operands(&self, operands: &mut Vec<Operand>) {
        for operand in operands.iter_mut().filter(|operand| operand.role != crate::Role::Input) {
            *operand = Operand::result(operand.name, operand.desc);
        }
        operands.extend(self.bias.map(|bias| Operand::input("bias", bias)));
        operands.extend(self.z.map(|z| Operand::input("z", z)));
        operands.extend(self.sum.map(|sum| Operand::result("sum", sum)));
        operands.extend(self.sum.map(|sum| Operand::result("sum_squares", sum)));
    }

    /// Operations for each element of y.
    pub(crate) fn flops_per_element(&self) -> f64 {
        let parts = [self.bias.is_some(), self.z.is_some(), self.activation.is_some()];
        parts.into_iter().filter(|&part| part).count() as f64 + if self.has_sums() { 3.0 } else { 0.0 }
    }

    /// Checks it against y, whose channels lie along `channel_axis`; none if it changes nothing.
    pub(crate) fn checked(
        mut self,
        op: &'static str,
        y_name: &'static str,
        y: &TensorDesc,
        channel_axis: usize,
    ) -> Result<Option<Self>, BadDescriptor> {
        let (channels, accumulator) = (y.dims()[channel_axis], y.dtype().accumulator());
        if let Some(bias) = &self.bias {
            if bias.dims() != [channels] {
                let given = join(bias.dims());
                let reason = format!("expected one extent, the {channels} channels of {y_name}, given {given}");
                return Err(BadDescriptor::new(op, "bias", reason));
            }
            if bias.dtype() != y.dtype() && bias.dtype() != accumulator {
                let reason = format!(
                    "expected the element type {} of {y_name} or {accumulator}, given {}",
                    y.dtype(),
                    bias.dtype()
                );
                return Err(BadDescriptor::new(op, "bias", reason));
            }
        }
        if let Some(z) = &self.z {
            same_dims(op, "z", z, y_name, y)?;
            same_dtype(op, "z", z, y_name, y)?;
        }
        if let Some((mode, coefficient)) = &mut self.activation {
            mode.check_fused(coefficient.get(), op)?;
            if !mode.has_coefficient() {
                *coefficient = Coefficient::new(0.0);
            }
        }
        self.channel_axis = channel_axis;
        // Equal problems are equal: f64 sums of an f64 y are its accumulator's.
        let sums_dtype = match self.sums {
            Some(Sums::F64) if accumulator != DType::F64 => DType::F64,
            _ => accumulator,
        };
        self.sums = self.sums.map(|_| if sums_dtype == accumulator { Sums::Accumulator } else { Sums::F64 });
        self.sum = match self.sums {
            Some(_) => Some(TensorDesc::packed(sums_dtype, &[channels])?),
            None => None,
        };
        Ok((self.changes_y() || self.has_sums()).then_some(self))
    }

    /// Takes what belongs to it from a problem's text.
    pub(crate) fn parse(op: &'static str, fields: &mut Fields<'_>) -> Result<Self, BadDescriptor> {
        let mut epilogue =
            Epilogue { bias: fields.take_optional("bias")?, z: fields.take_optional("z")?, ..Self::new() };
        if let Some(mode) = fields.take_optional("act")? {
            epilogue = epilogue.activation(mode, fields.take_optional("coef")?.unwrap_or(1.0));
        }
        let sums: [Option<TensorDesc>; 2] = [fields.take_optional("sum")?, fields.take_optional("sum_squares")?];
        epilogue.sums = match sums {
            [None, None] => None,
            [Some(sum), Some(squares)] if sum == squares && sum.dtype() == DType::F64 => Some(Sums::F64),
            [Some(sum), Some(squares)] if sum == squares => Some(Sums::Accumulator),
            _ => {
                let reason = "expected sum and sum_squares of the same form, or neither";
                return Err(BadDescriptor::new(op, "sum", reason.to_owned()));
            }
        };
        epilogue.sum = sums[0];
        Ok(epilogue)
    }

    /// Refuses sums that the text gave another form than they have.
    pub(crate) fn check_sums(&self, op: &'static str, given: Option<TensorDesc>) -> Result<(), BadDescriptor> {
        match (given, self.sum) {
            (Some(given), Some(expected)) if given != expected => {
                Err(BadDescriptor::new(op, "sum", format!("expected {expected}, given {given}")))
            }
            _ => Ok(()),
        }
    }

    /// The element type of the channel sums; none where there are none.
    pub fn sums_dtype(&self) -> Option<DType> {
        self.sum.map(|sum| sum.dtype())
    }

    /// The form of the sums that the text gave.
    pub(crate) fn given_sum(&self) -> Option<TensorDesc> {
        self.sum
    }
}

/// ` act=relu`, or nothing: the other parts are operands.
impl fmt::Display for Epilogue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((mode, coefficient)) = &self.activation else { return Ok(()) };
        write!(f, " act={mode}")?;
        if mode.has_coefficient() {
            write!(f, " coef={coefficient}")?;
        }
        Ok(())
    }
}
