//! One operation on slices.

use super::{PointwisePass, StepOp};
use crate::ops::activation;
use crate::tensor::Real;

/// The operation of up to three slices of one length. `integers` says that quotients are integers.
pub(super) fn apply<A: Real>(op: &StepOp, integers: bool, [x, y, z]: [&[A]; 3], c: &mut [A]) {
    let (zero, one) = (A::zero(), A::one());
    let truth = |holds: bool| if holds { one } else { zero };
    let mut unary = |f: &dyn Fn(A) -> A| c.iter_mut().zip(x).for_each(|(c, &x)| *c = f(x));
    let pass = match op {
        StepOp::Pointwise(pass) => *pass,
        StepOp::Activation(activation) => {
            let (mode, parameters) = (activation.mode(), activation.parameters().map(A::real));
            return unary(&|x| activation::value(mode, parameters, x));
        }
        StepOp::ActivationBackward(activation) => {
            let (mode, parameters) = (activation.mode(), activation.parameters().map(A::real));
            let slope = |x| activation::slope(mode, parameters, x);
            return c.iter_mut().zip(x).zip(y).for_each(|((c, &x), &dy)| *c = slope(x) * dy);
        }
    };
    match pass {
        PointwisePass::Scale | PointwisePass::Set | PointwisePass::GenIndex | PointwisePass::Chain => {
            return c.copy_from_slice(x);
        }
        PointwisePass::Select => {
            let values = x.iter().zip(y).zip(z);
            return c.iter_mut().zip(values).for_each(|(c, ((&x, &y), &z))| *c = if z != zero { x } else { y });
        }
        PointwisePass::Sqrt => return unary(&|x| x.sqrt()),
        PointwisePass::Not => return unary(&|x| one - x),
        PointwisePass::LogicalNot => return unary(&|x| truth(x == zero)),
        PointwisePass::Abs => return unary(&|x| x.abs()),
        PointwisePass::Ceil => return unary(&|x| x.ceil()),
        PointwisePass::Cos => return unary(&|x| x.cos()),
        PointwisePass::Erf => return unary(&|x| x.erf()),
        PointwisePass::Exp => return unary(&|x| x.exp()),
        PointwisePass::Floor => return unary(&|x| x.floor()),
        PointwisePass::Log => return unary(&|x| x.ln()),
        PointwisePass::Neg => return unary(&|x| -x),
        PointwisePass::Reciprocal => return unary(&|x| one / x),
        PointwisePass::Round => return unary(&round),
        PointwisePass::Rsqrt => return unary(&|x| one / x.sqrt()),
        PointwisePass::Sign => return unary(&|x| if x == zero || x.is_nan() { x } else { x.signum() }),
        PointwisePass::Sin => return unary(&|x| x.sin()),
        PointwisePass::Tan => return unary(&|x| x.tan()),
        _ => {}
    }
    let mut binary = |f: &dyn Fn(A, A) -> A| c.iter_mut().zip(x).zip(y).for_each(|((c, &x), &y)| *c = f(x, y));
    let is = |x: A| x != zero;
    match pass {
        PointwisePass::Add => c.iter_mut().zip(x).zip(y).for_each(|((c, &x), &y)| *c = x + y),
        PointwisePass::Mul => c.iter_mut().zip(x).zip(y).for_each(|((c, &x), &y)| *c = x * y),
        PointwisePass::Min => binary(&smaller),
        PointwisePass::Max => binary(&|x, y| -smaller(-x, -y)),
        PointwisePass::Sub => binary(&|x, y| x - y),
        PointwisePass::Div if integers => binary(&|x, y| (x / y).trunc()),
        PointwisePass::Div => binary(&|x, y| x / y),
        PointwisePass::Mod => binary(&|x, y| x % y),
        PointwisePass::Pow => binary(&|x, y| x.powf(y)),
        PointwisePass::AddSquare => binary(&|x, y| x + y * y),
        PointwisePass::Atan2 => binary(&|x, y| x.atan2(y)),
        PointwisePass::Prelu => binary(&|x, y| if x >= zero { x } else { x * y }),
        PointwisePass::CmpEq => binary(&|x, y| truth(x == y)),
        PointwisePass::CmpNeq => binary(&|x, y| truth(x != y)),
        PointwisePass::CmpGt => binary(&|x, y| truth(x > y)),
        PointwisePass::CmpGe => binary(&|x, y| truth(x >= y)),
        PointwisePass::CmpLt => binary(&|x, y| truth(x < y)),
        PointwisePass::CmpLe => binary(&|x, y| truth(x <= y)),
        PointwisePass::LogicalAnd => binary(&|x, y| truth(is(x) && is(y))),
        PointwisePass::LogicalOr => binary(&|x, y| truth(is(x) || is(y))),
        PointwisePass::LogicalXor => binary(&|x, y| truth(is(x) != is(y))),
        _ => {}
    }
}

/// The smaller; NaN if either is.
fn smaller<A: Real>(a: A, b: A) -> A {
    if a < b || a.is_nan() { a } else { b }
}

/// The nearest integer, ties to even.
fn round<A: Real>(x: A) -> A {
    let nearest = x.round();
    // `round` takes ties away from zero: back to the even neighbour.
    let two = A::real(2.0);
    if (x - x.trunc()).abs() == A::real(0.5) { two * (x / two).round() } else { nearest }
}
