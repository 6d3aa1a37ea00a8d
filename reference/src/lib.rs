//! The slow, independent judge.
//!
//! Every operator as plain loops in the order of its formula, with its index names, in `f64`: no tiling, no early
//! exit, no parallelism, nothing shared with what it judges but the problem. Tensors are row-major slices of their
//! logical extents; strides and element types are the business of whoever calls.

pub mod ops;
pub mod tolerance;

use kernel_abi::{BadDescriptor, Problem};

/// A problem whose result can be judged.
pub trait Judge: Problem {
    /// The bare result, alpha and beta left out, of every output and update operand in the problem's order.
    ///
    /// `operands` holds every operand in that order, with the prior values of those that are written.
    fn judge(&self, operands: &[Vec<f64>]) -> Vec<Vec<f64>>;

    /// The same, for operators whose own formula has alpha: those with update operands.
    fn judge_with_alpha(&self, operands: &[Vec<f64>], alpha: f64) -> Vec<Vec<f64>> {
        let _ = alpha;
        self.judge(operands)
    }
}

/// One operator's row: its name and how to judge a problem given as text.
type Row = (&'static str, fn(&str, &[Vec<f64>], f64) -> Result<Vec<Vec<f64>>, BadDescriptor>);

fn row<P: Judge>() -> Row {
    (P::OP, |text, operands, alpha| Ok(text.parse::<P>()?.judge_with_alpha(operands, alpha)))
}

/// Judges a problem of any operator, given by its text form.
///
/// # Errors
/// `BadDescriptor` for an unknown operator or an illegal problem.
pub fn judge(text: &str, operands: &[Vec<f64>], alpha: f64) -> Result<Vec<Vec<f64>>, BadDescriptor> {
    let name = text.split([':', ' ']).next().unwrap_or_default();
    match ops::rows().into_iter().find(|(op, _)| *op == name) {
        Some((_, judge)) => judge(text, operands, alpha),
        None => Err(BadDescriptor::new("reference", "op", format!("expected a known operator, given {name:?}"))),
    }
}

/// Names of the operators that can be judged.
pub fn operators() -> Vec<&'static str> {
    ops::rows().into_iter().map(|(op, _)| op).collect()
}
