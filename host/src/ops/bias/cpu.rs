//! Bias on the CPU.

use super::{BiasPass, BiasProblem};
use crate::cpu::{CpuCall, CpuKernel};
use crate::sum::{Lanes, for_each_run, over_blocks};
use crate::tensor::{Element, Real};
use rayon::prelude::*;

/// Forward one task a channel of an image, backward one task a channel.
#[derive(Clone, Copy)]
pub(super) struct Channels;

impl CpuKernel<BiasProblem> for Channels {
    const NAME: &'static str = "cpu_channels";

    fn compute<A: Real>(problem: &BiasProblem, call: CpuCall<'_, A>) {
        let CpuCall { inputs, mut outputs, .. } = call;
        let channels = problem.channels() as usize;
        let behind = problem.y().dims()[2..].iter().product::<i64>() as usize;
        match problem.bias_pass() {
            BiasPass::Forward => {
                let (x, bias) = (inputs[0], inputs[1]);
                // Whole images: with one element behind each channel, a channel is too little for a task.
                let image = channels * behind;
                outputs[0].par_chunks_mut(image).zip(x.par_chunks(image)).for_each(|(y, x)| {
                    for ((y, x), &bias) in y.chunks_mut(behind).zip(x.chunks(behind)).zip(bias) {
                        y.iter_mut().zip(x).for_each(|(y, &x)| *y = x + bias);
                    }
                });
            }
            BiasPass::Backward => outputs[0].par_iter_mut().enumerate().for_each(|(c, dbias)| {
                let block = |range| {
                    let mut lanes = Lanes::new(0.0, |a, b| a + b);
                    for_each_run(range, behind, |image, within| {
                        lanes.push_slice(&inputs[0][(image * channels + c) * behind..][within], Element::to_f64);
                    });
                    lanes.finish()
                };
                *dbias = A::real(over_blocks(inputs[0].len() / channels, &block, &|a, b| a + b));
            }),
        }
    }
}
