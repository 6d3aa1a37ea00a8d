//! Pointwise operations on a few elements at a time, formulas in `kernel_abi::ops::pointwise`.

use super::activation::{forward, slope};
use super::element::Accumulator;
use super::vector::for_each;
use kernel_abi::ops::pointwise::{PointwisePass, step_op};

/// Elements that a long function is written out for.
const GROUP: usize = 4;

/// f of every element, written out.
#[inline(always)]
fn each<A: Accumulator, const V: usize>(mut x: [A; V], y: &[A; V], f: impl Fn(A, A) -> A) -> [A; V] {
    // SAFETY: indices are below V.
    for_each!(I < V, {
        unsafe { *x.get_unchecked_mut(I) = f(*x.get_unchecked(I), *y.get_unchecked(I)) };
    });
    x
}

/// The same for functions of many instructions: a loop in which the arrays turn, so that they stay in registers.
#[inline(always)]
fn each_long<A: Accumulator, const V: usize>(mut x: [A; V], mut y: [A; V], f: impl Fn(A, A) -> A) -> [A; V] {
    if V <= GROUP {
        return each(x, &y, f);
    }
    let mut done = 0;
    while done < V {
        let (old_x, old_y) = (x, y);
        // SAFETY: indices are below V, which is a multiple of GROUP.
        for_each!(I < V, {
            unsafe {
                let value = |i: usize| f(*old_x.get_unchecked(i), *old_y.get_unchecked(i));
                let moved = I + GROUP;
                *x.get_unchecked_mut(I) = if moved < V { *old_x.get_unchecked(moved % V) } else { value(moved % V) };
                *y.get_unchecked_mut(I) = *old_y.get_unchecked(moved % V);
            }
        });
        done += GROUP;
    }
    x
}

/// 1 for true, 0 for false.
#[inline(always)]
fn truth<A: Accumulator>(holds: bool) -> A {
    if holds { A::ONE } else { A::ZERO }
}

/// Every number but 0 is true.
#[inline(always)]
fn is<A: Accumulator>(a: A) -> bool {
    a != A::ZERO
}

/// Calls a macro with its arguments and the operations that are not [`PointwisePass::is_long`], each with a value for an
/// element.
macro_rules! operations {
    ($callback:ident$arguments:tt) => {
        $callback! { $arguments
            Add => each(a, b) a + b;
            Mul => each(a, b) a * b;
            Scale => each(a, _) a;
            Sub => each(a, b) a - b;
            Min => each(a, b) a.min(b);
            Max => each(a, b) a.max(b);
            AddSquare => each(a, b) b.mul_add(b, a);
            Prelu => each(a, b) if a >= A::ZERO { a } else { a * b };
            CmpEq => each(a, b) truth(a == b);
            CmpNeq => each(a, b) truth(a != b);
            CmpGt => each(a, b) truth(a > b);
            CmpGe => each(a, b) truth(a >= b);
            CmpLt => each(a, b) truth(a < b);
            CmpLe => each(a, b) truth(a <= b);
            LogicalAnd => each(a, b) truth(is(a) && is(b));
            LogicalOr => each(a, b) truth(is(a) || is(b));
            LogicalXor => each(a, b) truth(is(a) != is(b));
            LogicalNot => each(a, _) truth(!is(a));
            Not => each(a, _) A::ONE - a;
            Neg => each(a, _) -a;
            Abs => each(a, _) a.abs();
            Sign => each(a, _) if a > A::ZERO { A::ONE } else if a < A::ZERO { -A::ONE } else { a };
            Floor => each(a, _) a.floor();
            Ceil => each(a, _) a.ceil();
            Round => each(a, _) a.round();
            Div => each_long(a, b) a / b;
            Reciprocal => each_long(a, _) A::ONE / a;
            Sqrt => each_long(a, _) a.sqrt();
            Rsqrt => each_long(a, _) A::ONE / a.sqrt();
            Exp => each_long(a, _) a.exp();
            Log => each_long(a, _) a.ln();
            Erf => each_long(a, _) a.erf();
        }
    };
}

/// What a step makes of its arguments, but for `select`; `parameters` are an activation's. Without `ALL`, those are left
/// out that [`PointwisePass::is_long`] names.
#[inline(always)]
pub fn apply<A: Accumulator, const V: usize, const ALL: bool>(
    op: u32,
    mode: u32,
    parameters: [A; 3],
    x: [A; V],
    y: [A; V],
) -> [A; V] {
    macro_rules! by_number {
        (($op:ident, $x:ident, $y:ident) $($pass:ident => $each:ident($a:tt, $b:tt) $value:expr;)*) => { $(
            if $op == PointwisePass::$pass as u32 {
                return by_number!(@ $each, $x, $y, #[inline(always)] |$a: A, $b: A| $value);
            }
        )* };
        (@ each, $x:ident, $y:ident, $f:expr) => { each($x, &$y, $f) };
        (@ each_long, $x:ident, $y:ident, $f:expr) => { each_long($x, $y, $f) };
    }
    // Numbers, not the enum: an address may hold anything, and a kernel must not have a value outside an enum.
    operations!(by_number(op, x, y));
    if ALL {
        by_number! { (op, x, y)
            Pow => each_long(a, b) a.pow(b);
            Mod => each_long(a, b) a.remainder(b);
            Atan2 => each_long(a, b) a.atan2(b);
            Sin => each_long(a, _) a.sin();
            Cos => each_long(a, _) a.cos();
            Tan => each_long(a, _) a.tan();
        }
    }
    if op == step_op::DIV_INTEGERS {
        return each_long(x, y, |a, b| towards_0(a / b));
    }
    activations(op, mode, parameters, x, y)
}

/// What the operation `OP` makes of an element of its arguments, or the activation `MODE`: what [`apply`] computes where the
/// compiler knows which.
#[inline(always)]
pub fn one<A: Accumulator, const OP: u32, const MODE: u32>(parameters: [A; 3], x: A, y: A) -> A {
    macro_rules! by_constant {
        (($x:ident, $y:ident) $($pass:ident => $each:ident($a:tt, $b:tt) $value:expr;)*) => { $(
            // Left out before there are instructions: a kernel has those of one operation.
            if const { OP == PointwisePass::$pass as u32 } {
                let ($a, $b) = ($x, $y);
                return $value;
            }
        )* };
    }
    operations!(by_constant(x, y));
    if const { OP == step_op::ACTIVATION } { forward(MODE, parameters, x) } else { slope(MODE, parameters, x) * y }
}

/// Rounded towards zero.
#[inline(always)]
fn towards_0<A: Accumulator>(x: A) -> A {
    if x < A::ZERO { x.ceil() } else { x.floor() }
}

/// An activation, or its slope times y.
#[inline(always)]
fn activations<A: Accumulator, const V: usize>(op: u32, mode: u32, parameters: [A; 3], x: [A; V], y: [A; V]) -> [A; V] {
    macro_rules! modes {
        ($($mode:ident),*) => { $(
            if mode == ActivationMode::$mode as u32 {
                // The mode as a constant, so that the branch is outside of the loop over elements.
                const MODE: u32 = ActivationMode::$mode as u32;
                return if op == step_op::ACTIVATION {
                    each_long(x, y, #[inline(always)] |x, _| forward(MODE, parameters, x))
                } else {
                    each_long(x, y, #[inline(always)] |x, dy| slope(MODE, parameters, x) * dy)
                };
            }
        )* };
    }
    use kernel_abi::ops::activation::ActivationMode;
    if mode == ActivationMode::Relu as u32 {
        const MODE: u32 = ActivationMode::Relu as u32;
        return if op == step_op::ACTIVATION {
            each(x, &y, |x, _| forward(MODE, parameters, x))
        } else {
            each(x, &y, |x, dy| slope(MODE, parameters, x) * dy)
        };
    }
    modes! {
        ClippedRelu, Elu, Sigmoid, Tanh, Swish, Gelu, GeluTanh, Softplus, Hardsigmoid, Hardswish, Mish, Selu, Celu,
        Softsign, Exp, ThresholdedRelu, LogSigmoid
    }
    if op == step_op::ACTIVATION { x } else { y }
}
