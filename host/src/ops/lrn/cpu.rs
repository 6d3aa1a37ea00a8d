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

/// Brings squares of the largest numbers, and sums of them, to what the type holds.
fn down<A: Real>() -> A {
    A::real(2f64.powi(if size_of::<A>() == size_of::<f32>() { -81 } else { -600 }))
}

fn forward<A: Real>(problem: &LrnProblem, image: Image<'_, A>, y: &mut [A], scratch: &mut [A]) {
    let (sums, rest) = scratch.split_at_mut(image.x.len());
    let (spare, scaled) = rest.split_at_mut(image.x.len());
    scales(problem, image, A::one(), sums, spare);
    let power = A::real(-problem.beta());
    for ((y, &x), &s) in y.iter_mut().zip(image.x).zip(&*sums) {
        *y = x * s.powf(power);
    }
    if sums.iter().any(|s| s.is_infinite()) {
        let (down, half) = (down::<A>(), down::<A>().powf(-power));
        scales(problem, image, down, scaled, spare);
        for i in (0..image.x.len()).filter(|&i| sums[i].is_infinite()) {
            y[i] = image.x[i] * half * scaled[i].powf(power) * half;
        }
    }
}

fn backward<A: Real>(
    problem: &LrnProblem,
    image: Image<'_, A>,
    dy: &[A],
    dx: &mut [A],
    mut dmeans: Option<&mut [A]>,
    scratch: &mut [A],
) {
    let (sums, spare) = scratch.split_at_mut(image.x.len());
    scales(problem, image, A::one(), sums, &mut spare[..image.x.len()]);
    let overflows: Vec<bool> = sums.iter().map(|s| s.is_infinite()).collect();
    gradients(problem, image, dy, (A::one(), &|i| !overflows[i]), scratch, &mut |i, direct, part| {
        dx[i] = direct - part;
        if let Some(dmeans) = &mut dmeans {
            dmeans[i] = part;
        }
    });
    if overflows.contains(&true) {
        gradients(problem, image, dy, (down(), &|i| overflows[i]), scratch, &mut |i, direct, part| {
            dx[i] = dx[i] + (direct - part);
            if let Some(dmeans) = &mut dmeans {
                dmeans[i] = dmeans[i] + part;
            }
        });
    }
}

/// Gives `store` each element's number, what its own s makes of its dy, and what the windows that it lies in take from that:
/// only of elements that count, with squares of numbers times a power of two.
fn gradients<A: Real>(
    problem: &LrnProblem,
    image: Image<'_, A>,
    dy: &[A],
    (scale, counts): (A, &dyn Fn(usize) -> bool),
    scratch: &mut [A],
    store: &mut dyn FnMut(usize, A, A),
) {
    let elems = image.x.len();
    let (sums, rest) = scratch.split_at_mut(elems);
    let (spare, powers) = rest.split_at_mut(elems);
    scales(problem, image, scale, sums, spare);
    let power = A::real(-problem.beta());
    // s to the power of -beta is that of the scaled s, times this twice.
    let half = scale.powf(-power);
    for i in 0..elems {
        powers[i] = sums[i].powf(power);
        sums[i] = if counts(i) { dy[i] * (image.x[i] * scale) * powers[i] / sums[i] } else { A::zero() };
    }
    let (behind, ahead) = problem.reach();
    window_sums(problem, &ahead, &behind, sums, spare);
    let factor = A::real(2.0 * problem.alpha() * problem.beta() / problem.window_elems());
    for i in 0..elems {
        let direct = if counts(i) { dy[i] * half * powers[i] * half } else { A::zero() };
        store(i, direct, factor * (image.centred(i) * scale) * sums[i] * half * half);
    }
}

/// s of every element of an image, times a number's square: what is squared is times the number.
fn scales<A: Real>(problem: &LrnProblem, image: Image<'_, A>, scale: A, sums: &mut [A], spare: &mut [A]) {
    for (i, sum) in sums.iter_mut().enumerate() {
        let scaled = image.centred(i) * scale;
        *sum = scaled * scaled;
    }
    let (behind, ahead) = problem.reach();
    window_sums(problem, &behind, &ahead, sums, spare);
    let (alpha, k) = (A::real(problem.alpha() / problem.window_elems()), A::real(problem.k()) * scale * scale);
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
