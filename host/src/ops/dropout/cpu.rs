//! Dropout on the CPU: one parallel pass in the order in which elements are counted.

use super::{DropoutOrder, DropoutPass, DropoutProblem, PhiloxState};
use crate::DType;
use crate::cpu::{CpuCall, CpuKernel};
use crate::tensor::{Element, Real};
use kernel_abi::ops::dropout::philox;
use rayon::prelude::*;

/// One parallel pass over all elements.
#[derive(Clone, Copy)]
pub(super) struct Elementwise;

/// Elements a thread takes at a time: whole words of the mask.
const CHUNK: usize = 1 << 13;

impl CpuKernel<DropoutProblem> for Elementwise {
    const NAME: &'static str = "cpu_elementwise";

    fn slowness(_: &DropoutProblem) -> f64 {
        20.0
    }

    fn compute<A: Real>(problem: &DropoutProblem, call: CpuCall<'_, A>) {
        let CpuCall { inputs, mut outputs, .. } = call;
        let (input, source) = (inputs[0], inputs[1]);
        let n = input.len();
        let keeps = Keeps::new(problem, source);
        let value = Value::new::<A>(problem);
        outputs[0].par_chunks_mut(CHUNK).enumerate().for_each(|(chunk, out)| {
            let places = Places::new(problem);
            for (i, out) in out.iter_mut().enumerate() {
                let i = chunk * CHUNK + i;
                *out = if keeps.at(places.of(i)) { value.of(input[i]) } else { A::zero() };
            }
        });
        if problem.dropout_pass() == DropoutPass::Backward {
            return;
        }
        let mut others = outputs[1..].iter_mut();
        if problem.has_mask()
            && let Some(mask) = others.next()
        {
            mask.par_iter_mut().enumerate().for_each(|(word, to)| {
                let bits = (32 * word..n.min(32 * word + 32)).rev();
                let bits = bits.fold(0u32, |bits, place| bits << 1 | u32::from(keeps.at(place)));
                *to = A::real(f64::from(bits as i32));
            });
        }
        if let Some(next) = others.next() {
            let words = state(source).after(n as i64).to_words();
            next.iter_mut().zip(words).for_each(|(to, word)| *to = A::real(f64::from(word)));
        }
    }
}

fn word<A: Real>(value: A) -> i32 {
    Element::to_f64(value) as i32
}

fn state<A: Real>(words: &[A]) -> PhiloxState {
    PhiloxState::from_words([0, 1, 2, 3].map(|i| word(words[i])))
}

/// Which places are kept.
enum Keeps<'a, A> {
    Drawn { keys: philox::Keys, offset: u64, threshold: u64 },
    Stored(&'a [A]),
}

impl<'a, A: Real> Keeps<'a, A> {
    fn new(problem: &DropoutProblem, source: &'a [A]) -> Self {
        if problem.draws() {
            let PhiloxState { seed, offset } = state(source);
            Keeps::Drawn { keys: philox::keys_of(seed), offset, threshold: problem.threshold() }
        } else {
            Keeps::Stored(source)
        }
    }

    fn at(&self, place: usize) -> bool {
        match self {
            Keeps::Drawn { keys, offset, threshold } => {
                let words = philox::words(keys, *offset, place as u64 / 4);
                u64::from(words[place % 4]) >= *threshold
            }
            Keeps::Stored(mask) => word(mask[place / 32]) >> (place % 32) & 1 == 1,
        }
    }
}

/// The arithmetic of kernels, bit by bit, whatever the type of `A`: a product in the accumulator type.
#[derive(Clone, Copy)]
struct Value {
    scale: f64,
    is_double: bool,
}

impl Value {
    fn new<A: Real>(problem: &DropoutProblem) -> Self {
        Value { scale: problem.scale(), is_double: problem.input().dtype() == DType::F64 }
    }

    fn of<A: Real>(self, x: A) -> A {
        if self.is_double { x * A::real(self.scale) } else { A::load(Element::to_f32(x) * self.scale as f32) }
    }
}

/// From row-major indices to places in the order of counting.
struct Places {
    channels: usize,
    inner: usize,
}

impl Places {
    fn new(problem: &DropoutProblem) -> Self {
        let dims = problem.input().dims();
        match problem.order() {
            DropoutOrder::RowMajor => Places { channels: 1, inner: 1 },
            DropoutOrder::ChannelsLast => {
                Places { channels: dims[1] as usize, inner: dims[2..].iter().product::<i64>() as usize }
            }
        }
    }

    fn of(&self, i: usize) -> usize {
        if self.channels == 1 || self.inner == 1 {
            return i;
        }
        let (rest, inner) = (i / self.inner, i % self.inner);
        (rest / self.channels * self.inner + inner) * self.channels + rest % self.channels
    }
}
