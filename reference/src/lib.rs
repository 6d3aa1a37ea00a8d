//! The slow, independent judge.
//!
//! Every operator as plain loops in the order of its formula, with its index names, in `f64`: no tiling, no early
//! exit, no parallelism, nothing shared with what it judges but the problem. Tensors are row-major slices of their
//! logical extents; strides and element types are the business of whoever calls.

mod epilogue;
pub mod integers;
pub mod ops;
mod sum;
pub mod tolerance;

use kernel_abi::{BadDescriptor, Cast, DType, Problem};

/// A problem whose result can be judged.
pub trait Judge: Problem {
    /// The bare result, alpha and beta left out, of every output and update operand in the problem's order.
    ///
    /// `operands` holds every operand in that order, with the prior values of those that are written.
    fn judge(&self, operands: &[Vec<f64>]) -> Vec<Vec<f64>>;

    /// The same, for operators whose own formula has alpha, or alpha and beta: those with update or result operands.
    fn judge_scaled(&self, operands: &[Vec<f64>], alpha: f64, beta: f64) -> Vec<Vec<f64>> {
        let _ = (alpha, beta);
        self.judge(operands)
    }

    /// The bare results of a problem that is computed exactly with integers, modulo 2⁶⁴ or without a modulus; `None` where
    /// it is computed with real numbers.
    fn judge_integers(&self, operands: &[Vec<i128>]) -> Option<Vec<Vec<i128>>> {
        let _ = operands;
        None
    }

    /// How numbers become integers where they are stored.
    fn cast(&self) -> Cast {
        Cast::NEAREST
    }

    /// Changes random operands, which are each within their [`Domain`](kernel_abi::Domain), where they do not fit one
    /// another, as a sum and the sum of squares, or indices and windows; to numbers that their element types store exactly.
    fn make_admissible(&self, operands: &mut [Vec<f64>]) {
        let _ = operands;
    }

    /// For each output, the size of the numbers that it is made of, where `operands` holds magnitudes: the results for
    /// these, unless the operator is not a sum of products.
    fn judge_magnitudes(&self, operands: &[Vec<f64>], alpha: f64, beta: f64) -> Vec<Vec<f64>> {
        self.judge_scaled(operands, alpha, beta)
    }

    /// The least exact type through which what is written to each output went.
    fn rounded_to(&self) -> Vec<DType> {
        let written = self.operands().into_iter().filter(|operand| operand.role != kernel_abi::Role::Input);
        // The first output is what others are made of.
        let mut least: Option<DType> = None;
        written
            .map(|operand| {
                let first = *least.get_or_insert(operand.desc.dtype());
                if first.epsilon() > operand.desc.dtype().epsilon() { first } else { operand.desc.dtype() }
            })
            .collect()
    }
}

/// The types of what is written, for operators whose outputs are not made of each other.
fn stored_types(problem: &impl Problem) -> Vec<DType> {
    let written = problem.operands().into_iter().filter(|operand| operand.role != kernel_abi::Role::Input);
    written.map(|operand| operand.desc.dtype()).collect()
}

/// A problem of any operator, to be judged.
pub trait AnyJudge {
    /// See [`Judge::judge_scaled`].
    fn judge_scaled(&self, operands: &[Vec<f64>], alpha: f64, beta: f64) -> Vec<Vec<f64>>;
    /// See [`Judge::judge_integers`].
    fn judge_integers(&self, operands: &[Vec<i128>]) -> Option<Vec<Vec<i128>>>;
    /// See [`Judge::cast`].
    fn cast(&self) -> Cast;
    /// See [`Judge::make_admissible`].
    fn make_admissible(&self, operands: &mut [Vec<f64>]);
    /// See [`Judge::judge_magnitudes`].
    fn judge_magnitudes(&self, operands: &[Vec<f64>], alpha: f64, beta: f64) -> Vec<Vec<f64>>;
    /// See [`Judge::rounded_to`].
    fn rounded_to(&self) -> Vec<DType>;
}

impl<P: Judge> AnyJudge for P {
    fn judge_scaled(&self, operands: &[Vec<f64>], alpha: f64, beta: f64) -> Vec<Vec<f64>> {
        Judge::judge_scaled(self, operands, alpha, beta)
    }
    fn judge_integers(&self, operands: &[Vec<i128>]) -> Option<Vec<Vec<i128>>> {
        Judge::judge_integers(self, operands)
    }
    fn cast(&self) -> Cast {
        Judge::cast(self)
    }
    fn make_admissible(&self, operands: &mut [Vec<f64>]) {
        Judge::make_admissible(self, operands);
    }
    fn judge_magnitudes(&self, operands: &[Vec<f64>], alpha: f64, beta: f64) -> Vec<Vec<f64>> {
        Judge::judge_magnitudes(self, operands, alpha, beta)
    }
    fn rounded_to(&self) -> Vec<DType> {
        Judge::rounded_to(self)
    }
}

/// One operator's row: its name and how to read a problem given as text.
type Row = (&'static str, fn(&str) -> Result<Box<dyn AnyJudge>, BadDescriptor>);

fn row<P: Judge>() -> Row {
    (P::OP, |text| Ok(Box::new(text.parse::<P>()?)))
}

/// The judge of a problem of any operator, given by its text form.
///
/// # Errors
/// `BadDescriptor` for an unknown operator or an illegal problem.
pub fn judge(text: &str) -> Result<Box<dyn AnyJudge>, BadDescriptor> {
    let name = text.split([':', ' ']).next().unwrap_or_default();
    match ops::rows().into_iter().find(|(op, _)| *op == name) {
        Some((_, judge)) => judge(text),
        None => Err(BadDescriptor::new("reference", "op", format!("expected a known operator, given {name:?}"))),
    }
}

/// Names of the operators that can be judged.
pub fn operators() -> Vec<&'static str> {
    ops::rows().into_iter().map(|(op, _)| op).collect()
}
