//! Outputs that are written where an input is read.

use crate::fill::{Fill, round};
use kernel_abi::{Operand, Role, TensorDesc};
use oxidnn::operators::{AnyProblem, Operation};
use oxidnn::{Args, Context, Policy, Tensor, TensorView, TensorViewMut, Verdict};
use proptest::test_runner::TestCaseError;

/// Elements before a tensor, so that it lies at no multiple of 16 bytes.
const SHIFTS: [i64; 2] = [0, 3];

/// Every GPU algorithm that takes `problem` gives the same bits whether its first output is memory of its own or that of the
/// input of this name, whose prior values both hold, with alpha and beta.
///
/// # Errors
/// The algorithm, and the first byte that differs.
pub fn check_in_place<P: Operation>(problem: &P, input: &str, seed: u64) -> Result<(), TestCaseError> {
    let fail = |what: String| TestCaseError::fail(format!("{problem}: {what}"));
    for context in crate::contexts().iter().filter(|context| context.is_gpu()) {
        for candidate in AnyProblem::candidates(problem, context) {
            for shift in SHIFTS {
                if let Verdict::Able { .. } = candidate.verdict {
                    let run = |shared| run(problem, context, candidate.config, (input, shared), shift, seed);
                    let [apart, together] = [run(false), run(true)].map(|bytes| bytes.map_err(|e| fail(e.to_string())));
                    if apart? != together? {
                        return Err(fail(format!("{} gives other bits in place of {input}", candidate.config)));
                    }
                }
            }
        }
    }
    Ok(())
}

/// The first output's bytes.
fn run<P: Operation>(
    problem: &P,
    context: &Context,
    config: &str,
    (input, shared): (&str, bool),
    shift: i64,
    seed: u64,
) -> Result<Vec<u8>, oxidnn::Error> {
    let stream = context.stream()?;
    let plan = context.plan(problem, Policy::fixed(config))?;
    let operands = plan.operands();
    let place = |wanted: &dyn Fn(&Operand) -> bool| operands.iter().position(wanted).unwrap_or(0);
    let (from, to) = (place(&|o| o.name == input), place(&|o| o.role != Role::Input));
    let make = |i: usize| -> Result<Tensor, oxidnn::Error> {
        // The output holds what the input does.
        let operand = &operands[if i == to { from } else { i }];
        let dtype = operand.desc.dtype();
        let whole = TensorDesc::packed(dtype, &[operand.desc.span_elems() + shift])?;
        let mut values =
            Fill::Normal.values(whole.n_elems() as usize, dtype, seed.wrapping_add(operand.name.len() as u64));
        values.iter_mut().for_each(|value| *value = round(operand.domain.map(*value), dtype));
        context.tensor_from(&whole, &values)
    };
    let tensors = (0..operands.len()).map(make).collect::<Result<Vec<_>, _>>()?;
    let mut args = Args::new().alpha(1.5).beta(-0.75);
    let at = |i: usize| if shared && i == to { from } else { i };
    for (i, operand) in operands.iter().enumerate() {
        let address = tensors[at(i)].address() + shift as u64 * operand.desc.dtype().size_bytes() as u64;
        // SAFETY: the memory is that of `tensors`, which outlive the run; sharing is what is under test.
        args = unsafe {
            match operand.role {
                Role::Input => args.input(operand.name, TensorView::from_raw(context, operand.desc, address)?),
                _ => args.output(operand.name, TensorViewMut::from_raw(context, operand.desc, address)?),
            }
        };
    }
    plan.run(&stream, args, &mut plan.workspace()?)?;
    tensors[at(to)].to_bytes(&stream)
}
