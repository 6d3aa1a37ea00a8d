//! What every operator's problem has in common.

use crate::desc::{BadDescriptor, TensorDesc};
use crate::epilogue::Epilogue;
use crate::text;
use crate::{DType, Math};
use std::collections::HashMap;
use std::fmt::{Debug, Display};
use std::hash::Hash;
use std::str::FromStr;
use std::sync::{Mutex, OnceLock, PoisonError};

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
    /// Which numbers it may hold.
    pub domain: Domain,
}

/// Which numbers an operand may hold for its formula to make sense: what random ones are drawn from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Domain {
    /// Any.
    Real,
    /// Any from 0 on, as sums of squares.
    NonNegative,
    /// Integers, as indices, lengths and counts; ends included.
    Integers {
        /// The least.
        low: i64,
        /// The largest.
        high: i64,
    },
}

impl Domain {
    /// The number of this domain that stands for any number: spread evenly over integers, and a pure function.
    pub fn map(self, value: f64) -> f64 {
        match self {
            Domain::Real => value,
            Domain::NonNegative => value.abs(),
            Domain::Integers { low, high } => {
                // Multiples of an irrational number spread evenly over the fractions, integers' too.
                let fraction = (value.abs() * 618.033_988_749_894_8).fract();
                (low as f64 + (fraction * (high - low + 1) as f64).floor()).min(high as f64)
            }
        }
    }
}

impl Operand {
    /// An operand that is only read.
    pub fn input(name: &'static str, desc: TensorDesc) -> Self {
        Operand { name, desc, role: Role::Input, domain: Domain::Real }
    }

    /// An operand that is written as `alpha · result + beta · prior`.
    pub fn output(name: &'static str, desc: TensorDesc) -> Self {
        Operand { name, desc, role: Role::Output, domain: Domain::Real }
    }

    /// An operand that is written by a formula that has alpha and beta in it.
    pub fn result(name: &'static str, desc: TensorDesc) -> Self {
        Operand { name, desc, role: Role::Result, domain: Domain::Real }
    }

    /// An operand that is read and written.
    pub fn update(name: &'static str, desc: TensorDesc) -> Self {
        Operand { name, desc, role: Role::Update, domain: Domain::Real }
    }

    /// The same operand, which holds only some numbers.
    pub fn holding(self, domain: Domain) -> Self {
        Operand { domain, ..self }
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

    /// The tensors a run takes, in the order of the formula: more than [`USUAL_OPERANDS`] only of optimizers, which step
    /// many tensors at once.
    fn operands(&self) -> Vec<Operand>;

    /// Floating-point operations of the formula, a multiply-add counted as two.
    fn flops(&self) -> f64;

    /// Bytes of every operand once, twice of what is read and written: the least memory traffic.
    fn bytes(&self) -> f64 {
        let traffic = |operand: &Operand| {
            let times = if operand.role == Role::Update { 2.0 } else { 1.0 };
            times * operand.desc.data_bytes() as f64
        };
        self.operands().iter().map(traffic).sum()
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

    /// How exactly algorithms must compute: what tolerances begin with.
    fn precision(&self) -> Precision {
        Precision::of(self.operands().iter().map(|operand| operand.desc.dtype()))
    }
}

/// The arithmetic that a problem asks for at least, storage of the result left out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Precision {
    /// Relative error of each operand as it is multiplied; 0 where every bit counts.
    pub operand: f64,
    /// Relative distance of neighbouring numbers of the type that sums are kept in.
    pub sum: f64,
}

impl Precision {
    /// Sums in the accumulator of the most exact of these types. Integers count as `f32`: their sums are exact, but they
    /// meet alpha and beta in that.
    pub fn of(dtypes: impl IntoIterator<Item = DType>) -> Self {
        let is_double = dtypes.into_iter().any(|dtype| dtype == DType::F64);
        Precision { operand: 0.0, sum: if is_double { DType::F64.epsilon() } else { DType::F32.epsilon() } }
    }

    /// Of products: tensor cores keep fewer bits of the sums of 8-bit floating-point numbers, and of operands in tf32.
    pub fn of_products(a: DType, math: Math) -> Self {
        /// Sums of 8-bit numbers keep 13 bits behind the leading one of the largest term.
        const FP8_SUM: f64 = 1.0 / (1 << 13) as f64;
        /// tf32 has 10 bits, and hardware may cut the others off.
        const TF32_OPERAND: f64 = 1.0 / (1 << 10) as f64;
        let general = Self::of([a]);
        Precision {
            operand: if math == Math::Tf32 { TF32_OPERAND } else { general.operand },
            sum: if a.is_fp8() { FP8_SUM } else { general.sum },
        }
    }
}

/// The name of an operand that there are `n` of: `w` alone, else `w0`, `w1`, ….
pub fn list_name(name: &'static str, i: usize, n: usize) -> &'static str {
    /// Names are few, and an operand's name outlives every problem: they are made once and kept.
    static NAMES: OnceLock<Mutex<HashMap<(&'static str, usize), &'static str>>> = OnceLock::new();
    if n == 1 {
        return name;
    }
    let mut names = NAMES.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
    names.entry((name, i)).or_insert_with(|| Box::leak(format!("{name}{i}").into_boxed_str()))
}

/// As many operands as a run binds without an allocation on the host.
pub const USUAL_OPERANDS: usize = 12;

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

/// Refuses `a` unless it has the element type of `b` or the accumulator type of that.
///
/// # Errors
/// `BadDescriptor` naming them.
pub fn same_or_accumulator_dtype(
    op: &'static str,
    a_name: &str,
    a: &TensorDesc,
    b_name: &str,
    b: &TensorDesc,
) -> Result<(), BadDescriptor> {
    let sums = b.dtype().accumulator();
    if sums == b.dtype() {
        return same_dtype(op, a_name, a, b_name, b);
    }
    if [sums, b.dtype()].contains(&a.dtype()) {
        return Ok(());
    }
    let reason = format!(
        "expected the element type {} of {b_name} or its accumulator type {sums}, given {}",
        b.dtype(),
        a.dtype()
    );
    Err(BadDescriptor::new(op, a_name, reason))
}

/// Refuses element types that only products and transforms take.
///
/// # Errors
/// `BadDescriptor` naming the type and what to do.
pub fn general_dtype(op: &'static str, name: &str, desc: &TensorDesc) -> Result<(), BadDescriptor> {
    if desc.dtype().is_general() {
        return Ok(());
    }
    let known = DType::GENERAL.map(DType::name).join(", ");
    let reason =
        format!("expected one of the element types {known}, into which transform converts, given {}", desc.dtype());
    Err(BadDescriptor::new(op, name, reason))
}

/// Judges the element types of a product of `a` and `b` that is stored as `c`.
///
/// General types do not mix. `i8` gives `i8`, `i32` or `f32`; 8-bit floating-point types, which mix, give `f32`, `f16`,
/// `bf16` or one of themselves.
///
/// # Errors
/// `BadDescriptor` naming what may stand in place of the type given.
pub fn product_dtypes(
    op: &'static str,
    (a_name, a): (&str, &TensorDesc),
    (b_name, b): (&str, &TensorDesc),
    (c_name, c): (&str, &TensorDesc),
) -> Result<(), BadDescriptor> {
    use DType::{BF16, F8E4M3, F8E5M2, F16, F32, I8, I32};
    let legal: &[DType] = match a.dtype() {
        I8 => &[I8, I32, F32],
        F8E4M3 | F8E5M2 => &[F32, F16, BF16, F8E4M3, F8E5M2],
        I32 => {
            let reason = "expected another element type than i32, which is only written: integers are multiplied as i8";
            return Err(BadDescriptor::new(op, a_name, reason.to_owned()));
        }
        other if !other.is_general() => {
            let reason = format!("expected another element type than {other}, which no product takes");
            return Err(BadDescriptor::new(op, a_name, reason));
        }
        _ => {
            same_dtype(op, b_name, b, a_name, a)?;
            return same_dtype(op, c_name, c, a_name, a);
        }
    };
    if !(a.dtype().is_fp8() && b.dtype().is_fp8()) {
        same_dtype(op, b_name, b, a_name, a)?;
    }
    if !legal.contains(&c.dtype()) {
        let known: Vec<&str> = legal.iter().map(|dtype| dtype.name()).collect();
        let reason = format!(
            "expected one of the element types {} for products of {}, given {}",
            known.join(", "),
            a.dtype(),
            c.dtype()
        );
        return Err(BadDescriptor::new(op, c_name, reason));
    }
    Ok(())
}

/// The longest sums of products of `i8` that an `i32` holds whatever the numbers.
pub const I8_MAX_TERMS: i64 = (i32::MAX / (128 * 128)) as i64;

/// Refuses sums of products of `i8` that might not fit an `i32`.
///
/// # Errors
/// `BadDescriptor` naming the length.
pub fn integer_sums(op: &'static str, name: &str, desc: &TensorDesc, n_terms: f64) -> Result<(), BadDescriptor> {
    if desc.dtype() == DType::I8 && n_terms > I8_MAX_TERMS as f64 {
        let reason = format!("expected sums of up to {I8_MAX_TERMS} products of i8, which fit i32, given {n_terms}");
        return Err(BadDescriptor::new(op, name, reason));
    }
    Ok(())
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
