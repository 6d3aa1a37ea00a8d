//! A step of gradient descent on the CPU: one parallel pass a tensor.

use super::SgdProblem;
use crate::cpu::{CpuCall, CpuKernel};
use crate::tensor::Real;
use rayon::prelude::*;

/// One parallel pass over all elements of each tensor.
#[derive(Clone, Copy)]
pub(super) struct Elementwise;

/// Elements a thread takes at a time.
const CHUNK: usize = 1 << 13;

impl CpuKernel<SgdProblem> for Elementwise {
    const NAME: &'static str = "cpu_elementwise";

    fn compute<A: Real>(problem: &SgdProblem, call: CpuCall<'_, A>) {
        let CpuCall { inputs, outputs, alpha, .. } = call;
        let number = A::real;
        let (rate, momentum, gain) = (number(alpha), number(problem.momentum()), number(problem.gain()));
        let (decay, nesterov) = (number(problem.weight_decay()), problem.nesterov());
        let mut outputs = outputs.into_iter();
        for (tensors, dw) in problem.tensors().iter().zip(inputs) {
            let mut take = |there: bool| if there { outputs.next() } else { None };
            let (v, master, w) = (take(tensors.v.is_some()), take(tensors.master.is_some()), take(true));
            let Some(w) = w else { return };
            // What is stepped, and the rounded copy of it.
            let (stepped, rounded) = match master {
                Some(master) => (master, Some(w)),
                None => (w, None),
            };
            let step = |v: &mut A, w: &mut A, dw: A| {
                let g = dw + decay * *w;
                *v = momentum * *v + gain * g;
                *w = *w - rate * if nesterov { g + momentum * *v } else { *v };
            };
            match v {
                Some(v) => v
                    .par_chunks_mut(CHUNK)
                    .zip(stepped.par_chunks_mut(CHUNK))
                    .zip(dw.par_chunks(CHUNK))
                    .for_each(|((v, w), dw)| v.iter_mut().zip(w).zip(dw).for_each(|((v, w), &dw)| step(v, w, dw))),
                None => stepped.par_chunks_mut(CHUNK).zip(dw.par_chunks(CHUNK)).for_each(|(w, dw)| {
                    w.iter_mut().zip(dw).for_each(|(w, &dw)| step(&mut A::zero(), w, dw));
                }),
            }
            if let Some(rounded) = rounded {
                rounded.copy_from_slice(stepped);
            }
        }
    }
}
