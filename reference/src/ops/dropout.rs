//! Dropout, formula in [`kernel_abi::ops::dropout`].

use crate::Judge;
use kernel_abi::ops::dropout::{DropoutOrder, DropoutPass, DropoutProblem};

impl Judge for DropoutProblem {
    fn judge(&self, operands: &[Vec<f64>]) -> Vec<Vec<f64>> {
        let (input, source) = (&operands[0], &operands[1]);
        let n = input.len();
        let kept: Vec<bool> = match self.draws() {
            true => kept(self, source, n),
            false => (0..n).map(|i| source[i / 32] as i64 >> (i % 32) & 1 == 1).collect(),
        };
        let value = |(i, &x): (usize, &f64)| if kept[place(self, i)] { x * self.scale() } else { 0.0 };
        let mut written = vec![input.iter().enumerate().map(value).collect()];
        if self.dropout_pass() == DropoutPass::Forward && self.has_mask() {
            let word = |bits: &[bool]| bits.iter().rev().fold(0u32, |word, &bit| word << 1 | u32::from(bit));
            written.push(kept.chunks(32).map(|bits| f64::from(word(bits) as i32)).collect());
        }
        if self.gives_next() {
            let offset = join(source[2], source[3]).wrapping_add((n as u64).div_ceil(4));
            written.push(vec![source[0], source[1], f64::from(offset as i32), f64::from((offset >> 32) as i32)]);
        }
        written
    }
}

/// Which places are kept.
pub fn kept(problem: &DropoutProblem, state: &[f64], n: usize) -> Vec<bool> {
    let (seed, offset) = (join(state[0], state[1]), join(state[2], state[3]));
    let least = (problem.p() * 2f64.powi(32)).floor();
    (0..n).map(|i| f64::from(philox(seed, offset.wrapping_add(i as u64 / 4))[i % 4]) >= least).collect()
}

/// The place of an element in the order in which they are counted.
fn place(problem: &DropoutProblem, i: usize) -> usize {
    let dims = problem.input().dims();
    match problem.order() {
        DropoutOrder::RowMajor => i,
        DropoutOrder::ChannelsLast => {
            let (channels, inner) = (dims[1] as usize, dims[2..].iter().product::<i64>() as usize);
            let (image, rest) = (i / (channels * inner), i % (channels * inner));
            (image * inner + rest % inner) * channels + rest / inner
        }
    }
}

fn join(low: f64, high: f64) -> u64 {
    u64::from(high as i64 as u32) << 32 | u64::from(low as i64 as u32)
}

/// Philox4x32-10 as its authors write it: counter in the low half of 128 bits.
fn philox(seed: u64, counter: u64) -> [u32; 4] {
    let mut x = [counter as u32, (counter >> 32) as u32, 0, 0];
    for round in 0..10u32 {
        let key = [
            (seed as u32).wrapping_add(0x9E37_79B9u32.wrapping_mul(round)),
            ((seed >> 32) as u32).wrapping_add(0xBB67_AE85u32.wrapping_mul(round)),
        ];
        let (a, b) = (0xD251_1F53 * u64::from(x[0]), 0xCD9E_8D57 * u64::from(x[2]));
        x = [(b >> 32) as u32 ^ x[1] ^ key[0], b as u32, (a >> 32) as u32 ^ x[3] ^ key[1], a as u32];
    }
    x
}
