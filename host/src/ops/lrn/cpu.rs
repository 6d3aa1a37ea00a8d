//! Local response normalization on the CPU: windows are boxes, so their sums are taken along one dimension after another.

use super::LrnProblem;
use crate::cpu::{CpuCall, CpuKernel};
use crate::tensor::{Element, Real};
use rayon::prelude::*;

/// Sums along each dimension of the window in turn, one task an image.
#[derive(Clone, Copy)]
pub(super) struct Separable;

/// Buffers of x's size: sums, what is being summed, and powers.
const BUFFERS: usize = 3;

impl CpuKernel<LrnProblem> for Separable {
    const NAME: &'static str = "cpu_separable";

    fn scratch_elems(problem: &LrnProblem) -> u64 {
        BUFFERS as u64 * problem.x().n_elems() as u64
    }

    fn slowness(_: &LrnProblem) -> f64 {
        4.0
    }

    fn compute<A: Real>(problem: &LrnProblem, call: CpuCall<'_, A>) {
        let CpuCall { inputs, mut outputs, scratch, .. } = call;
        let image = problem.x().dims()[1..].iter().product::<i64>() as usize;
        let x = inputs[0];
        let means = problem.means().map(|_| inputs[1]);
        let dy = problem.dy().map(|_| inputs[inputs.len() - 1]);
        let (first, rest) = outputs.split_at_mut(1);
        let mut dmeans = rest.first_mut().map(|dmeans| dmeans.chunks_mut(image));
        let images: Vec<_> = first[0]
            .chunks_mut(image)
            .zip(scratch.chunks_mut(BUFFERS * image))
            .map(|(out, scratch)| (out, scratch, dmeans.as_mut().and_then(Iterator::next)))
            .collect();
        images.into_par_iter().enumerate().for_each(|(n, (out, scratch, dmeans))| {
            let range = n * image..(n + 1) * image;
            let tensors = Image { x: &x[range.clone()], means: means.map(|means| &means[range.clone()]) };
            match dy {
                None => forward(problem, tensors, out, scratch),
                Some(dy) => backward(problem, tensors, &dy[range], out, dmeans, scratch),
            }
        });
    }
}

/// An image's part of the inputs.
#[derive(Clone, Copy)]
struct Image<'a, A> {
    x: &'a [A],
    means: Option<&'a [A]>,
}

impl<A: Real> Image<'_, A> {
    /// x - means.
    fn centred(&self, i: usize) -> A {
        self.means.map_or(self.x[i], |means| self.x[i] - means[i])
    }
}

fn forward<A: Real>(problem: &LrnProblem, image: Image<'_, A>, y: &mut [A], scratch: &mut [A]) {
    let (sums, spare) = scratch.split_at_mut(image.x.len());
    scales(problem, image, sums, &mut spare[..image.x.len()]);
    let power = A::real(-problem.beta());
    for ((y, &x), &s) in y.iter_mut().zip(image.x).zip(&*sums) {
        *y = x * s.powf(power);
    }
}

fn backward<A: Real>(
    problem: &LrnProblem,
    image: Image<'_, A>,
    dy: &[A],
    dx: &mut [A],
    dmeans: Option<&mut [A]>,
    scratch: &mut [A],
) {
    let elems = image.x.len();
    let (sums, rest) = scratch.split_at_mut(elems);
    let (spare, powers) = rest.split_at_mut(elems);
    scales(problem, image, sums, spare);
    let power = A::real(-problem.beta());
    for i in 0..elems {
        powers[i] = sums[i].powf(power);
        sums[i] = dy[i] * image.x[i] * powers[i] / sums[i];
    }
    let (behind, ahead) = problem.reach();
    window_sums(problem, &ahead, &behind, sums, spare);
    let factor = A::real(2.0 * problem.alpha() * problem.beta() / problem.window_elems());
    for i in 0..elems {
        // Over the sum: it is not needed any more, and dmeans may not be wanted.
        sums[i] = factor * image.centred(i) * sums[i];
        dx[i] = dy[i] * powers[i] - sums[i];
    }
    if let Some(dmeans) = dmeans {
        dmeans.copy_from_slice(sums);
    }
}

/// s of every element of an image.
fn scales<A: Real>(problem: &LrnProblem, image: Image<'_, A>, sums: &mut [A], spare: &mut [A]) {
    for (i, sum) in sums.iter_mut().enumerate() {
        *sum = image.centred(i) * image.centred(i);
    }
    let (behind, ahead) = problem.reach();
    window_sums(problem, &behind, &ahead, sums, spare);
    let (alpha, k) = (A::real(problem.alpha() / problem.window_elems()), A::real(problem.k()));
    sums.iter_mut().for_each(|sum| *sum = k + alpha * *sum);
}

/// Replaces every element of an image by the sum of those up to `behind` before and `ahead` behind it along C, D, H, W.
fn window_sums<A: Real>(problem: &LrnProblem, behind: &[i64; 4], ahead: &[i64; 4], values: &mut [A], spare: &mut [A]) {
    let dims = problem.x().dims();
    // Axes of the image as they stand in C, D, H, W: C first, the others last.
    for d in 1usize..dims.len() {
        let axis: usize = if d == 1 { 0 } else { 4 + d - dims.len() };
        let (behind, ahead) = (behind[axis] as usize, ahead[axis] as usize);
        if behind + ahead == 0 {
            continue;
        }
        let (extent, inner) = (dims[d] as usize, dims[d + 1..].iter().product::<i64>() as usize);
        spare.copy_from_slice(values);
        for (to, from) in values.chunks_mut(extent * inner).zip(spare.chunks(extent * inner)) {
            for i in 0..inner {
                let from = |at: usize| Element::to_f64(from[at * inner + i]);
                for at in 0..extent {
                    let whole = at.saturating_sub(behind)..(at + ahead + 1).min(extent);
                    to[at * inner + i] = A::real(whole.map(from).sum());
                }
            }
        }
    }
}
