//! A step of Adam on the CPU: one parallel pass a tensor.

use super::{AdamMode, AdamProblem};
use crate::cpu::{CpuCall, CpuKernel};
use crate::tensor::{Element, Real};
use rayon::prelude::*;

/// One parallel pass over all elements of each tensor.
#[derive(Clone, Copy)]
pub(super) struct Elementwise;

/// Elements a thread takes at a time.
const CHUNK: usize = 1 << 13;

impl CpuKernel<AdamProblem> for Elementwise {
    const NAME: &'static str = "cpu_elementwise";

    fn compute<A: Real>(problem: &AdamProblem, call: CpuCall<'_, A>) {
        let CpuCall { inputs, outputs, alpha, .. } = call;
        let (mut inputs, mut outputs) = (inputs.into_iter(), outputs.into_iter());
        let t = if problem.corrects_bias() { inputs.next().map(|step| Element::to_f64(step[0])) } else { None };
        let step = Step::<A>::new(problem, t, alpha);
        for tensors in problem.tensors() {
            let mut take = |there: bool| if there { outputs.next() } else { None };
            let (m, v, master, w) = (take(true), take(true), take(tensors.master.is_some()), take(true));
            let (Some(dw), Some(m), Some(v), Some(w)) = (inputs.next(), m, v, w) else { return };
            // What is stepped, and the rounded copy of it.
            let (stepped, rounded) = match master {
                Some(master) => (master, Some(w)),
                None => (w, None),
            };
            let chunks = m.par_chunks_mut(CHUNK).zip(v.par_chunks_mut(CHUNK));
            chunks.zip(stepped.par_chunks_mut(CHUNK)).zip(dw.par_chunks(CHUNK)).for_each(|(((m, v), w), dw)| {
                m.iter_mut().zip(v).zip(w).zip(dw).for_each(|(((m, v), w), &dw)| step.take(m, v, w, dw));
            });
            if let Some(rounded) = rounded {
                rounded.copy_from_slice(stepped);
            }
        }
    }
}

/// Numbers that are the same for all elements.
struct Step<A> {
    betas: [A; 2],
    gains: [A; 2],
    gradient_decay: A,
    /// What decay leaves of the parameters.
    kept: A,
    /// alpha / c1.
    rate: A,
    /// 1 / √c2.
    root_scale: A,
    eps: A,
}

impl<A: Real> Step<A> {
    fn new(problem: &AdamProblem, t: Option<f64>, alpha: f64) -> Self {
        let betas = [problem.beta1(), problem.beta2()];
        let [c1, c2] = betas.map(|beta| t.map_or(1.0, |t| -f64::exp_m1(t * beta.ln())));
        let (gradient_decay, decay) = match problem.mode() {
            AdamMode::Adam => (problem.weight_decay(), 0.0),
            AdamMode::AdamW => (0.0, problem.weight_decay()),
        };
        Step {
            betas: betas.map(A::real),
            gains: betas.map(|beta| A::real(1.0 - beta)),
            gradient_decay: A::real(gradient_decay),
            kept: A::real(1.0 - alpha * decay),
            rate: A::real(alpha / c1),
            root_scale: A::real(1.0 / c2.sqrt()),
            eps: A::real(problem.eps()),
        }
    }

    fn take(&self, m: &mut A, v: &mut A, w: &mut A, dw: A) {
        let g = dw + self.gradient_decay * *w;
        *m = self.betas[0] * *m + self.gains[0] * g;
        *v = self.betas[1] * *v + self.gains[1] * (g * g);
        *w = self.kept * *w - self.rate * (*m / (v.sqrt() * self.root_scale + self.eps));
    }
}
