//! What every operator's problem has in common.

use crate::desc::{BadDescriptor, TensorDesc};
use crate::epilogue::Epilogue;
use crate::text;
use std::fmt::{Debug, Display};
use std::hash::Hash;
use std::str::FromStr;

/// What a run does with an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Only read.
    Input,
    /// Written as `alpha · result + beta · prior`; the prior value is not read when beta is 0.
    Output,
    /// Read and written by the operator's own formula; alpha and beta do not apply.
    Update,
    /// Written by the operator's own formula, in which alpha and beta have their places; the prior value is not read
    /// when beta is 0, or does not stand in the formula at all.
    Result,
}

/// A tensor that a run takes, by the name used in its formula.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operand {
    /// `x`, `w`, `dy`, ….
    pub name: &'static str,
    /// Its legal shape, exactly.
    pub desc: TensorDesc,
    /// What is done with it.
    pub role: Role,
}

impl Operand {
    /// An operand that is only read.
    pub fn input(name: &'static str, desc: TensorDesc) -> Self {
        Operand { name, desc, role: Role::Input }
    }

    /// An operand that is written as `alpha · result + beta · prior`.
    pub fn output(name: &'static str, desc: TensorDesc) -> Self {
        Operand { name, desc, role: Role::Output }
    }

    /// An operand that is written by a formula that has alpha and beta in it.
    pub fn result(name: &'static str, desc: TensorDesc) -> Self {
        Operand { name, desc, role: Role::Result }
    }

    /// An operand that is read and written.
    pub fn update(name: &'static str, desc: TensorDesc) -> Self {
        Operand { name, desc, role: Role::Update }
    }
}

/// One computation with all its sizes and no pointers.
///
/// Made by the operator's constructors, the only place where shapes are judged. Its text form parses back to an
/// equal problem.
pub trait Problem: Clone + Eq + Hash + Debug + Display + FromStr<Err = BadDescriptor> + Send + Sync + 'static {
    /// The operator's name, the first word of the text form.
    const OP: &'static str;

    /// `fprop`, `dgrad`, `forward`, ….
    fn pass(&self) -> &'static str;

    /// The tensors a run takes, in the order of the formula. At most [`MAX_OPERANDS`].
    fn operands(&self) -> Vec<Operand>;

    /// Floating-point operations of the formula, a multiply-add counted as two.
    fn flops(&self) -> f64;

    /// Bytes of every operand once: the least memory traffic.
    fn bytes(&self) -> f64 {
        self.operands().iter().map(|operand| operand.desc.data_bytes() as f64).sum()
    }

    /// Whether an output may be the very tensor that is an input: each output element then depends on no input
    /// element but those at its own index.
    fn works_in_place(&self) -> bool {
        false
    }

    /// What becomes of the product before it is stored, where the problem has such an epilogue.
    fn epilogue(&self) -> Option<&Epilogue> {
        None
    }

    /// The same problem without its epilogue.
    fn plain(&self) -> Self {
        self.clone()
    }

    /// The same problem with its epilogue but for the channel sums.
    fn without_sums(&self) -> Self {
        self.clone()
    }

    /// How many products or summands flow into the longest sum of one output element: what tolerances scale with.
    fn accumulation_length(&self) -> f64 {
        1.0
    }
}

/// The most operands a problem may have.
pub const MAX_OPERANDS: usize = 8;

/// A real parameter of a problem, compared and hashed by its bits.
#[derive(Clone, Copy, Debug)]
pub struct Coefficient(f64);

impl Coefficient {
    /// Wraps a number.
    pub fn new(value: f64) -> Self {
        Coefficient(value)
    }

    /// The number.
    pub fn get(self) -> f64 {
        self.0
    }
}

impl PartialEq for Coefficient {
    fn eq(&self, other: &Self) -> bool {
        self.0.to_bits() == other.0.to_bits()
    }
}

impl Eq for Coefficient {}

impl Hash for Coefficient {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.0.to_bits().hash(state);
    }
}

impl Display for Coefficient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        Display::fmt(&self.0, f)
    }
}

/// Refuses `a` unless it has the extents of `b`.
///
/// # Errors
/// `BadDescriptor` naming both.
pub fn same_dims(
    op: &'static str,
    a_name: &str,
    a: &TensorDesc,
    b_name: &str,
    b: &TensorDesc,
) -> Result<(), BadDescriptor> {
    if a.dims() == b.dims() {
        return Ok(());
    }
    let reason = format!("expected the extents {} of {b_name}, given {}", text::join(b.dims()), text::join(a.dims()));
    Err(BadDescriptor::new(op, a_name, reason))
}

/// Refuses `a` unless it has the element type of `b`.
///
/// # Errors
/// `BadDescriptor` naming both.
pub fn same_dtype(
    op: &'static str,
    a_name: &str,
    a: &TensorDesc,
    b_name: &str,
    b: &TensorDesc,
) -> Result<(), BadDescriptor> {
    if a.dtype() == b.dtype() {
        return Ok(());
    }
    let reason = format!("expected the element type {} of {b_name}, given {}", b.dtype(), a.dtype());
    Err(BadDescriptor::new(op, a_name, reason))
}

/// Refuses an output whose indices share elements.
///
/// # Errors
/// `BadDescriptor` naming the strides.
pub fn no_overlap(op: &'static str, name: &str, desc: &TensorDesc) -> Result<(), BadDescriptor> {
    if desc.self_overlaps() {
        let reason = format!("expected an output whose elements do not overlap, given {desc}");
        return Err(BadDescriptor::new(op, name, reason));
    }
    Ok(())
}

/// Writes ` name=tensor` for every operand: the end of every problem text.
///
/// # Errors
/// Those of the formatter.
pub fn write_operands<P: Problem>(f: &mut std::fmt::Formatter<'_>, problem: &P) -> std::fmt::Result {
    problem.operands().iter().try_for_each(|operand| write!(f, " {}={}", operand.name, operand.desc))
}
