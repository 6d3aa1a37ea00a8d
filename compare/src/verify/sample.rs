//! Sampled elements of a result, computed in f64 by the formula.

use crate::case::Work;
use crate::random::number;
use anyhow::Result;
use oxidnn::driver::{DeviceSpan, GpuStream};
use oxidnn::ops::conv::{ConvMode, ConvPass, ConvProblem, ConvShape};
use oxidnn::ops::matmul::MatmulProblem;
use oxidnn::{Role, TensorDesc};
use rand::{RngExt as _, SeedableRng as _};
use rand_xoshiro::Xoshiro256PlusPlus;
use rayon::prelude::*;

/// Terms that all samples of one result may have together: a fraction of a second on a few cores.
const TERMS: f64 = 3e7;
/// Elements sampled.
const LEAST: usize = 24;
const MOST: usize = 512;

/// An operand's elements by offset: `value(operand, offset)`.
pub type Value<'a> = &'a (dyn Fn(usize, i64) -> f64 + Sync);

/// Elements of a result with what they should be.
#[derive(Clone, Debug)]
pub struct Samples {
    desc: TensorDesc,
    offsets: Vec<i64>,
    expected: Vec<f64>,
}

impl Samples {
    /// Draws elements and computes them. `value` gives elements of the inputs, by their order among the inputs.
    pub fn new(work: &Work, value: Value<'_>) -> Self {
        let problem = work.problem();
        let length = problem.accumulation_length().max(1.0);
        let written = problem.operands().into_iter().find(|operand| operand.role != Role::Input);
        let desc = written.map_or_else(|| problem.operands()[0].desc, |operand| operand.desc);
        let n = desc.n_elems();
        let count = ((TERMS / length) as usize).clamp(LEAST, MOST).min(n as usize);
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(n as u64);
        let mut picks: Vec<i64> = vec![0, n - 1, n / 2];
        while picks.len() < count {
            picks.push(rng.random_range(0..n));
        }
        picks.truncate(count);
        let expected = picks.par_iter().map(|&linear| element(work, &indices(&desc, linear), value)).collect();
        Samples { desc, offsets: picks.iter().map(|&linear| desc.offset_of(linear)).collect(), expected }
    }

    /// The relative error of a result in the Euclidean norm; NaN where it has one.
    ///
    /// # Errors
    /// From the driver.
    pub fn error(&self, result: DeviceSpan<'_>, stream: &GpuStream) -> Result<f64> {
        let dtype = self.desc.dtype();
        let item = dtype.size_bytes();
        let mut got = Vec::with_capacity(self.offsets.len());
        for &offset in &self.offsets {
            let mut bytes = [0u8; 8];
            let at = offset as u64 * item as u64;
            result.part(at, at + item as u64).read(stream, &mut bytes[..item])?;
            got.push(number(&bytes[..item], dtype));
        }
        Ok(relative_l2(&self.expected, &got))
    }

    /// The root mean square of the expected values.
    pub fn rms(&self) -> f64 {
        let squares: f64 = self.expected.iter().map(|value| value * value).sum();
        (squares / self.expected.len().max(1) as f64).sqrt()
    }
}

/// `‖got - expected‖ / ‖expected‖`.
pub fn relative_l2(expected: &[f64], got: &[f64]) -> f64 {
    let square = |value: f64| value * value;
    let error: f64 = expected.iter().zip(got).map(|(expected, got)| square(got - expected)).sum();
    let size: f64 = expected.iter().map(|&value| square(value)).sum();
    (error / size).sqrt()
}

/// Indices of the element with this row-major number.
fn indices(desc: &TensorDesc, linear: i64) -> Vec<i64> {
    let mut rest = linear;
    let mut indices = vec![0; desc.rank()];
    for (index, &dim) in indices.iter_mut().zip(desc.dims()).rev() {
        *index = rest % dim;
        rest /= dim;
    }
    indices
}

fn element(work: &Work, at: &[i64], value: Value<'_>) -> f64 {
    match work {
        Work::Conv(problem) => conv_element(problem, at, value),
        Work::Matmul(problem) => matmul_element(problem, at, value),
        // The naive kernel judges all of these.
        Work::Other(_) => f64::NAN,
    }
}

fn matmul_element(problem: &MatmulProblem, at: &[i64], value: Value<'_>) -> f64 {
    let (a, b) = (problem.a_matrix(), problem.b_matrix());
    let last = at.len() - 1;
    let batch = |desc: &TensorDesc| -> i64 { (0..last - 1).map(|i| at[i] * desc.strides()[i]).sum() };
    let (a_row, b_column) =
        (batch(&a) + at[last - 1] * a.strides()[last - 1], batch(&b) + at[last] * b.strides()[last]);
    let (a_step, b_step) = (a.strides()[last], b.strides()[last - 1]);
    (0..problem.gemm_k()).map(|i| value(0, a_row + i * a_step) * value(1, b_column + i * b_step)).sum()
}

/// Strides of a tensor of three spatial axes; absent ones have none.
struct Strides {
    outer: i64,
    channel: i64,
    spatial: [i64; 3],
}

fn strides(desc: &TensorDesc) -> Strides {
    let absent = 5 - desc.rank();
    Strides {
        outer: desc.strides()[0],
        channel: desc.strides()[1],
        spatial: std::array::from_fn(|i| if i < absent { 0 } else { desc.strides()[2 + i - absent] }),
    }
}

impl Strides {
    fn offset(&self, outer: i64, channel: i64, spatial: [i64; 3]) -> i64 {
        let along: i64 = spatial.iter().zip(&self.spatial).map(|(index, stride)| index * stride).sum();
        outer * self.outer + channel * self.channel + along
    }
}

/// Every index below three extents.
fn positions(extents: [i64; 3]) -> impl Iterator<Item = [i64; 3]> {
    let [depth, height, width] = extents;
    (0..depth).flat_map(move |z| (0..height).flat_map(move |p| (0..width).map(move |q| [z, p, q])))
}

fn conv_element(problem: &ConvProblem, at: &[i64], value: Value<'_>) -> f64 {
    let shape = problem.shape();
    let (x, w, y) = (strides(problem.x()), strides(problem.w()), strides(problem.y()));
    let absent = 5 - at.len();
    let spatial: [i64; 3] = std::array::from_fn(|i| if i < absent { 0 } else { at[2 + i - absent] });
    let flipped = problem.mode() == ConvMode::Convolution;
    let tap = |tap: [i64; 3]| -> [i64; 3] {
        std::array::from_fn(|i| if flipped { shape.filter[i] - 1 - tap[i] } else { tap[i] })
    };
    let (group_c, group_k) = (shape.group_c(), shape.group_k());
    let mut sum = 0.0;
    match problem.conv_pass() {
        ConvPass::Fprop => {
            let (n, k) = (at[0], at[1]);
            let first_c = k / group_k * group_c;
            for window in positions(shape.filter) {
                let Some(image) = image_at(&shape, spatial, window) else { continue };
                for c in 0..group_c {
                    sum += value(0, x.offset(n, first_c + c, image)) * value(1, w.offset(k, c, tap(window)));
                }
            }
        }
        ConvPass::Dgrad => {
            let (n, c) = (at[0], at[1]);
            let first_k = c / group_c * group_k;
            for window in positions(shape.filter) {
                let Some(output) = output_at(&shape, spatial, window) else { continue };
                for k in first_k..first_k + group_k {
                    sum += value(0, y.offset(n, k, output)) * value(1, w.offset(k, c % group_c, tap(window)));
                }
            }
        }
        ConvPass::Wgrad => {
            let (k, c) = (at[0], at[1]);
            let channel = k / group_k * group_c + c;
            let window = tap(spatial);
            for output in positions(shape.output) {
                let Some(image) = image_at(&shape, output, window) else { continue };
                for n in 0..shape.n {
                    sum += value(0, x.offset(n, channel, image)) * value(1, y.offset(n, k, output));
                }
            }
        }
    }
    sum
}

/// Where in the image an output position meets a filter position; None in the padding.
fn image_at(shape: &ConvShape, output: [i64; 3], window: [i64; 3]) -> Option<[i64; 3]> {
    let mut at = [0; 3];
    for i in 0..3 {
        let axis = shape.axes[i];
        at[i] = output[i] * axis.stride + window[i] * axis.dilation - axis.padding;
        if !(0..shape.image[i]).contains(&at[i]) {
            return None;
        }
    }
    Some(at)
}

/// The output position that meets an image position by a filter position, if any.
fn output_at(shape: &ConvShape, image: [i64; 3], window: [i64; 3]) -> Option<[i64; 3]> {
    let mut at = [0; 3];
    for i in 0..3 {
        let axis = shape.axes[i];
        let steps = image[i] + axis.padding - window[i] * axis.dilation;
        at[i] = steps / axis.stride;
        if steps < 0 || steps % axis.stride != 0 || at[i] >= shape.output[i] {
            return None;
        }
    }
    Some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fills inputs with small numbers and compares every sampled element with the library's CPU algorithms.
    fn agrees(work: Work) {
        use oxidnn::{Args, Context, PlanRequest, Policy};
        let context = Context::cpu();
        let stream = context.stream().unwrap();
        let problem = work.problem();
        let number = |operand: usize, offset: i64| ((offset * 7 + operand as i64 * 3) % 11 - 5) as f64;
        let plan = problem.plan(&context, &PlanRequest::from(Policy::Heuristic)).unwrap();
        let mut output = None;
        let mut inputs = Vec::new();
        for operand in problem.operands() {
            if operand.role == Role::Input {
                let place = inputs.len();
                let values: Vec<f64> =
                    (0..operand.desc.n_elems()).map(|i| number(place, operand.desc.offset_of(i))).collect();
                inputs.push((operand.name, context.tensor_from(&operand.desc, &values).unwrap()));
            } else {
                output = Some((operand.name, context.tensor(&operand.desc).unwrap()));
            }
        }
        let (name, mut output) = output.unwrap();
        let mut args = Args::new().output(name, &mut output);
        for (name, tensor) in &inputs {
            args = args.input(name, tensor);
        }
        plan.run(&stream, args, &mut plan.workspace().unwrap()).unwrap();
        let got = output.to_vec::<f64>(&stream).unwrap();
        let samples = Samples::new(&work, &number);
        for (&offset, &expected) in samples.offsets.iter().zip(&samples.expected) {
            let linear = (0..samples.desc.n_elems()).find(|&i| samples.desc.offset_of(i) == offset).unwrap();
            assert_eq!(got[linear as usize], expected, "{} at {linear}", problem.text());
        }
    }

    #[test]
    fn samples_are_the_formula() {
        for text in [
            "conv:fprop pad=1x2 stride=2x1 x=2x6x9x8:f32:nhwc w=4x3x3x2:f32:nhwc groups=2",
            "conv:dgrad pad=1x1 stride=2x2 dil=1x2 dy=2x4x4x4:f32 w=4x3x3x3:f32 dx=2x6x8x9:f32 groups=2",
            "conv:wgrad pad=1x1 stride=2x1 dil=2x1 x=3x6x9x8:f32:nhwc dy=3x4x4x8:f32:nhwc dw=4x3x3x3:f32:nhwc groups=2",
            "conv:fprop pad=1x0x1 x=1x2x4x5x6:f32 w=3x2x3x2x3:f32",
            "conv:wgrad pad=0x1x1 stride=2x2x2 x=2x2x5x5x6:f32 dy=2x3x2x3x3:f32 dw=3x2x3x3x3:f32",
            "conv:dgrad stride=2x2x2 dy=2x3x2x2x2:f32 w=3x2x2x2x2:f32 dx=2x2x4x4x4:f32",
            "conv:fprop mode=convolution pad=1x1 x=1x2x5x5:f32 w=3x2x3x3:f32",
            "conv:wgrad mode=convolution pad=1x1 x=1x2x5x5:f32 dy=1x3x5x5:f32 dw=3x2x3x3:f32",
        ] {
            agrees(Work::Conv(text.parse().unwrap_or_else(|e| panic!("{text}: {e}"))));
        }
        for text in ["matmul:forward a=7x9:f32 b=9x5:f32", "matmul:forward trans=tt a=9x7:f32 b=5x9:f32"] {
            agrees(Work::Matmul(text.parse().unwrap_or_else(|e| panic!("{text}: {e}"))));
        }
    }

    #[test]
    fn errors_are_relative() {
        assert_eq!(relative_l2(&[3.0, 4.0], &[3.0, 4.0]), 0.0);
        assert!((relative_l2(&[3.0, 4.0], &[3.0, 4.5]) - 0.1).abs() < 1e-12);
        assert!(relative_l2(&[1.0], &[f64::NAN]).is_nan());
    }
}
