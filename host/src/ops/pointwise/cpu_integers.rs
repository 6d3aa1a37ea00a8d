//! One operation on slices of integers, exact and wrapping.

use super::{PointwisePass, StepOp};
use kernel_abi::cast::{power, quotient, remainder};

/// The operation of up to three slices of one length. The problem has no function of real numbers.
pub(super) fn apply(op: &StepOp, _: bool, [x, y, z]: [&[i64]; 3], c: &mut [i64]) {
    let StepOp::Pointwise(pass) = *op else { return };
    let mut ternary = |f: &dyn Fn(i64, i64, i64) -> i64| {
        c.iter_mut().zip(x).zip(y).zip(z).for_each(|(((c, &x), &y), &z)| *c = f(x, y, z));
    };
    let truth = i64::from;
    match pass {
        PointwisePass::Add => ternary(&|x, y, _| x.wrapping_add(y)),
        PointwisePass::Mul => ternary(&|x, y, _| x.wrapping_mul(y)),
        PointwisePass::Min => ternary(&|x, y, _| x.min(y)),
        PointwisePass::Max => ternary(&|x, y, _| x.max(y)),
        PointwisePass::Not => ternary(&|x, _, _| 1i64.wrapping_sub(x)),
        PointwisePass::Sub => ternary(&|x, y, _| x.wrapping_sub(y)),
        PointwisePass::Div => ternary(&|x, y, _| quotient(x, y)),
        PointwisePass::Mod => ternary(&|x, y, _| remainder(x, y)),
        PointwisePass::Pow => ternary(&|x, y, _| power(x, y)),
        PointwisePass::AddSquare => ternary(&|x, y, _| x.wrapping_add(y.wrapping_mul(y))),
        PointwisePass::Prelu => ternary(&|x, y, _| if x > 0 { x } else { x.wrapping_mul(y) }),
        PointwisePass::CmpEq => ternary(&|x, y, _| truth(x == y)),
        PointwisePass::CmpNeq => ternary(&|x, y, _| truth(x != y)),
        PointwisePass::CmpGt => ternary(&|x, y, _| truth(x > y)),
        PointwisePass::CmpGe => ternary(&|x, y, _| truth(x >= y)),
        PointwisePass::CmpLt => ternary(&|x, y, _| truth(x < y)),
        PointwisePass::CmpLe => ternary(&|x, y, _| truth(x <= y)),
        PointwisePass::LogicalAnd => ternary(&|x, y, _| truth(x != 0 && y != 0)),
        PointwisePass::LogicalOr => ternary(&|x, y, _| truth(x != 0 || y != 0)),
        PointwisePass::LogicalXor => ternary(&|x, y, _| truth((x != 0) != (y != 0))),
        PointwisePass::LogicalNot => ternary(&|x, _, _| truth(x == 0)),
        PointwisePass::Abs => ternary(&|x, _, _| x.wrapping_abs()),
        PointwisePass::Neg => ternary(&|x, _, _| x.wrapping_neg()),
        PointwisePass::Sign => ternary(&|x, _, _| x.signum()),
        PointwisePass::Select => ternary(&|x, y, z| if z != 0 { x } else { y }),
        // Copies, and what integers are already.
        _ => ternary(&|x, _, _| x),
    }
}
