//! Epilogues on the CPU: one pass over the product that any CPU algorithm has left.

use super::Epilogue;
use crate::ops::activation::value;
use crate::tensor::{Element, Real};
use crate::{DType, TensorDesc};
use half::{bf16, f16};
use rayon::prelude::*;

/// What a pass needs to know.
pub(crate) struct Pass<'a, A> {
    pub(crate) epilogue: &'a Epilogue,
    pub(crate) y_desc: &'a TensorDesc,
    pub(crate) alpha: f64,
    pub(crate) beta: f64,
    /// All inputs: two factors, bias and residual.
    pub(crate) inputs: &'a [&'a [A]],
    /// y before the run; empty when beta is 0.
    pub(crate) prior: &'a [A],
}

impl<A: Real> Pass<'_, A> {
    /// Makes y of the product that `y` holds, rounded as it is stored.
    pub(crate) fn y(&self, y: &mut [A]) {
        let (alpha, beta) = (A::real(self.alpha), A::real(self.beta));
        let (mode, c) = self.epilogue.mode();
        let parameters = mode.with_coefficient(c).map(A::real);
        let (channels, inner) = self.channels();
        let bias = self.epilogue.bias_operand().map(|_| self.inputs[2]);
        let z = self.epilogue.residual_operand().map(|operand| self.inputs[operand - 1]);
        y.par_chunks_mut(inner).enumerate().for_each(|(run, y)| {
            let first = run * inner;
            for (i, y) in y.iter_mut().enumerate() {
                let mut v = alpha * *y;
                if let Some(&prior) = self.prior.get(first + i) {
                    v = v + beta * prior;
                }
                if let Some(bias) = bias {
                    v = v + bias[run % channels];
                }
                if let Some(z) = z {
                    v = v + z[first + i];
                }
                *y = rounded(self.y_desc.dtype(), value(mode, parameters, v));
            }
        });
    }

    /// The sums of y's channels and of their squares, in the order of the elements.
    pub(crate) fn sums(&self, y: &[A], sum: &mut [A], sum_squares: &mut [A]) {
        let (channels, inner) = self.channels();
        sum.par_iter_mut().zip(sum_squares).enumerate().for_each(|(channel, (sum, squares))| {
            let (mut s, mut q) = (0.0f64, 0.0f64);
            for run in y.chunks(inner).skip(channel).step_by(channels) {
                for v in run {
                    let v = Element::to_f64(*v);
                    s += v;
                    q += v * v;
                }
            }
            (*sum, *squares) = (A::real(s), A::real(q));
        });
    }

    /// Channels, and how many elements of a channel lie in a row of a packed y.
    fn channels(&self) -> (usize, usize) {
        let axis = self.epilogue.channel_axis();
        let inner: i64 = self.y_desc.dims()[axis + 1..].iter().product();
        (self.y_desc.dims()[axis] as usize, inner as usize)
    }
}

/// What y holds of a number.
fn rounded<A: Real>(dtype: DType, value: A) -> A {
    match dtype {
        DType::F64 => value,
        // The computing type is f64 where channel sums are.
        DType::F32 => A::load(value.store::<f32>()),
        DType::F16 => A::load(value.store::<f16>()),
        DType::BF16 => A::load(value.store::<bf16>()),
        // A problem with an epilogue is of general types.
        _ => value,
    }
}
