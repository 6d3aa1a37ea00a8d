//! A step of gradient descent on the CPU: one parallel pass.

use super::SgdProblem;
use crate::cpu::{CpuCall, CpuKernel};
use crate::tensor::Real;
use rayon::prelude::*;

/// One parallel pass over all elements.
#[derive(Clone, Copy)]
pub(super) struct Elementwise;

/// Elements a thread takes at a time.
const CHUNK: usize = 1 << 13;

impl CpuKernel<SgdProblem> for Elementwise {
    const NAME: &'static str = "cpu_elementwise";

    fn compute<A: Real>(problem: &SgdProblem, call: CpuCall<'_, A>) {
        let CpuCall { inputs, mut outputs, alpha, .. } = call;
        let [v, w] = &mut outputs[..] else { return };
        let (rate, momentum, decay) = (A::real(alpha), A::real(problem.momentum()), A::real(problem.weight_decay()));
        let nesterov = problem.nesterov();
        let chunks = v.par_chunks_mut(CHUNK).zip(w.par_chunks_mut(CHUNK)).zip(inputs[0].par_chunks(CHUNK));
        chunks.for_each(|((v, w), dw)| {
            for ((v, w), &dw) in v.iter_mut().zip(w).zip(dw) {
                let g = dw + decay * *w;
                *v = momentum * *v + g;
                *w = *w - rate * if nesterov { g + momentum * *v } else { *v };
            }
        });
    }
}
