//! Operands to measure with: random normal numbers, in several sets.
//!
//! A GPU draws less power, and so runs faster, on zeros; and a call that finds its operands in the second-level cache
//! is not the call that a network makes.

use crate::launch::div_ceil;
use crate::{Args, Context, Error, Operand, Plan, Role, Stream, Tensor, TensorDesc, Workspace};
use rand::{RngExt as _, SeedableRng as _};
use rand_distr::StandardNormal;
use rand_xoshiro::Xoshiro256PlusPlus;

/// Numbers drawn; longer operands repeat them. A prime, so that rows and channels do not become equal, and few enough
/// that drawing them takes little beside the measurement.
const MAX_DRAWN: i64 = 131_071;

/// The most sets of operands.
const MAX_SETS: u64 = 32;

/// Sets begin at multiples of this, at least 256 bytes, as allocations do.
const ALIGN_ELEMS: i64 = 256;

/// Sets of a problem's operands. All sets of an operand lie in one allocation.
#[derive(Debug)]
pub(super) struct Operands {
    operands: Vec<Operand>,
    memory: Vec<Tensor>,
    n_sets: usize,
}

impl Operands {
    /// As many sets as do not fit into the cache together; one where there is no memory for more, and on the CPU.
    pub(super) fn random(context: &Context, stream: &Stream, operands: &[Operand]) -> Result<Self, Error> {
        let bytes: u64 = operands.iter().map(|operand| operand.desc.span_bytes()).sum();
        let l2_bytes = context.gpu_context().map_or(0, |gpu| gpu.l2_bytes() as u64);
        let n_sets = (2 * l2_bytes).div_ceil(bytes.max(1)).clamp(1, MAX_SETS) as usize;
        match Self::with_sets(context, stream, operands, n_sets) {
            Err(Error::OutOfMemory { .. }) if n_sets > 1 => Self::with_sets(context, stream, operands, 1),
            outcome => outcome,
        }
    }

    fn with_sets(context: &Context, stream: &Stream, operands: &[Operand], n_sets: usize) -> Result<Self, Error> {
        let longest = operands.iter().map(|operand| operand.desc.span_elems()).max().unwrap_or(0);
        let n_drawn = longest.clamp(1, MAX_DRAWN) as usize;
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
        let mut drawn: Vec<f32> = (0..n_drawn).map(|_| rng.sample(StandardNormal)).collect();
        let mut memory = Vec::new();
        for operand in operands {
            let desc = TensorDesc::packed(operand.desc.dtype(), &[stride_elems(operand) * n_sets as i64])?;
            let mut tensor = context.tensor(&desc)?;
            let domain = operand.domain;
            let values: Vec<f32> = drawn.iter().map(|&value| domain.map(f64::from(value)) as f32).collect();
            tensor.fill_repeating(stream, &values)?;
            memory.push(tensor);
            // The next operand shall not hold the same numbers.
            drawn.rotate_left(n_drawn / 3);
        }
        Ok(Operands { operands: operands.to_vec(), memory, n_sets })
    }

    /// Queues a run of the plan on the set of this call. Alpha is 1 and beta 0.
    pub(super) fn run(
        &mut self,
        plan: &Plan,
        call: usize,
        stream: &Stream,
        workspace: &mut Workspace,
    ) -> Result<(), Error> {
        let set = (call % self.n_sets) as i64;
        let mut args = Args::new();
        for (operand, tensor) in self.operands.iter().zip(&mut self.memory) {
            let start = set * stride_elems(operand);
            args = match operand.role {
                Role::Input => args.input(operand.name, tensor.window(start, &operand.desc)?),
                Role::Output | Role::Update | Role::Result => {
                    args.output(operand.name, tensor.window_mut(start, &operand.desc)?)
                }
            };
        }
        plan.run(stream, args, workspace)
    }
}

/// From one set of an operand to the next.
fn stride_elems(operand: &Operand) -> i64 {
    div_ceil(operand.desc.span_elems().max(1), ALIGN_ELEMS) * ALIGN_ELEMS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_hold_different_normal_numbers_to_their_last_element() {
        for context in Context::all() {
            sets_are_filled(&context);
        }
    }

    fn sets_are_filled(context: &Context) {
        let stream = context.stream().unwrap();
        let operand = |name, text: &str| Operand::input(name, text.parse().unwrap());
        let operands = [operand("x", "3x1000:f32"), operand("w", "1500:bf16:s2")];
        let filled = Operands::with_sets(context, &stream, &operands, 3).unwrap();
        let values: Vec<Vec<f64>> = filled.memory.iter().map(|tensor| tensor.to_vec(&stream).unwrap()).collect();
        for values in &values {
            let mean = values.iter().sum::<f64>() / values.len() as f64;
            let square = values.iter().map(|v| v * v).sum::<f64>() / values.len() as f64;
            assert!(mean.abs() < 0.1 && (square - 1.0).abs() < 0.1, "{mean} {square}");
            assert!(values.iter().all(|&v| v != 0.0));
        }
        assert_ne!(values[0][0] as f32, values[1][0] as f32);
        assert_eq!(values[0].len() as i64, 3 * stride_elems(&operands[0]));
    }
}
