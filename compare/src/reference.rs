//! All of a result against the naive kernel's, or against the peer's where that would take too long.

use crate::case::Work;
use crate::device;
use crate::measure::{Place, Set, fill, seed};
use crate::ours::OurCall;
use crate::session::Session;
use crate::verify::{Difference, limit_element, limit_l2};
use anyhow::{Result, bail};
use oxidnn::driver::{DeviceMemory, DeviceSpan};
use oxidnn::operators::AnyProblem;
use oxidnn::ops::conv::{ConvPass, ConvProblem};
use oxidnn::ops::matmul::MatmulProblem;
use oxidnn::{Operand, Policy, Role, TensorDesc};

/// The naive kernel takes a fraction of a second for so many operations.
const NAIVE_FLOPS: f64 = 2e11;

/// Rows of a large product that are compared at its begin and end.
const ROWS: i64 = 128;

/// A part of a problem that is a problem itself, with the byte offsets of its operands in the whole's.
struct Part {
    work: Work,
    offsets: Vec<u64>,
}

/// Compares our output with what it should be; says with what it was compared.
pub(crate) fn whole(session: &Session, work: &Work, set: &Set, their_output: bool, rms: f64) -> Result<String> {
    let problem = work.problem();
    let operands = problem.operands().len();
    let (parts, name) = if problem.flops() <= NAIVE_FLOPS {
        (vec![Part { work: work.clone(), offsets: vec![0; operands] }], "naive")
    } else {
        match work {
            Work::Conv(problem) if problem.conv_pass() != ConvPass::Wgrad => {
                (images(problem)?, "naive on the first and last image")
            }
            Work::Conv(_) => {
                if !their_output {
                    return Ok("samples".to_owned());
                }
                let difference = difference(session, work, set.theirs[0].span(), set.ours[0].span(), 0, rms)?;
                within(work, difference, "the peer's")?;
                return Ok("peer".to_owned());
            }
            Work::Matmul(problem) => (rows(problem)?, "naive on the first and last rows"),
            Work::Other(_) => bail!("expected a product, given {}", problem.text()),
        }
    };
    for part in parts {
        let naive = OurCall::new(&session.context, &session.stream, part.work.problem(), Policy::fixed("naive"))?;
        let operands = part.work.problem().operands();
        let output = operands.iter().position(|operand| operand.role != Role::Input).unwrap_or(0);
        let bytes = operands[output].desc.span_bytes() as usize;
        let expected = DeviceMemory::alloc(session.gpu(), bytes)?;
        let mut addresses = set.addresses(&operands, &set.ours);
        addresses.iter_mut().zip(&part.offsets).for_each(|(address, offset)| *address += offset);
        addresses[output] = expected.span().address();
        // SAFETY: the part's inputs lie within the set's; its output is new memory of its size. All live until the
        // comparison, which waits for the work.
        unsafe { naive.queue_at(&addresses) }?;
        let difference =
            difference(session, &part.work, expected.span(), set.ours[0].span(), part.offsets[output], rms)?;
        within(work, difference, "the naive kernel's")?;
    }
    Ok(name.to_owned())
}

/// All that the naive kernel writes for a problem.
pub(crate) struct NaiveResult(Vec<Place>);

/// The operands that a run writes.
fn written(problem: &dyn AnyProblem) -> impl Iterator<Item = (usize, Operand)> {
    problem.operands().into_iter().enumerate().filter(|(_, operand)| operand.role != Role::Input)
}

/// Brings what a run writes into the state before it: updated tensors as the first set has them, others poisoned.
pub(crate) fn reset(problem: &dyn AnyProblem, outputs: &[Place], session: &Session) -> Result<()> {
    const POISON: u8 = 0xff;
    for ((i, operand), memory) in written(problem).zip(outputs) {
        device::set(memory.span(), POISON, session.gpu_stream())?;
        fill(memory.span(), &operand, seed(0, i), session)?;
    }
    Ok(())
}

impl NaiveResult {
    /// Runs the naive kernel on the first set's inputs.
    pub(crate) fn new(session: &Session, problem: &dyn AnyProblem, set: &Set) -> Result<Self> {
        let alloc = |(_, operand): (usize, Operand)| {
            DeviceMemory::alloc(session.gpu(), operand.desc.span_bytes() as usize).map(Place::alone)
        };
        let results = written(problem).map(alloc).collect::<Result<Vec<_>, _>>()?;
        reset(problem, &results, session)?;
        let naive = OurCall::new(&session.context, &session.stream, problem, Policy::fixed("naive"))?;
        // SAFETY: the inputs are the set's, the outputs new memory of their sizes; all live until the comparison,
        // which waits for the work.
        unsafe { naive.queue_at(&set.addresses(&problem.operands(), &results)) }?;
        session.gpu_stream().synchronize()?;
        Ok(NaiveResult(results))
    }

    /// The largest relative difference of a result in the Euclidean norm, which must be within what two right results
    /// may differ by, times the tolerance.
    pub(crate) fn error(
        &self,
        session: &Session,
        problem: &dyn AnyProblem,
        outputs: &[Place],
        tolerance: f64,
    ) -> Result<f64> {
        let mut most = 0f64;
        for (((_, operand), expected), got) in written(problem).zip(&self.0).zip(outputs) {
            let (dtype, length) = (operand.desc.dtype(), problem.accumulation_length());
            let (stream, spans) = (session.gpu_stream(), (expected.span(), got.span()));
            let difference = session.differ.borrow_mut().difference(spans.0, spans.1, dtype, 1.0, stream)?;
            let limit = 2.0 * tolerance * limit_l2(dtype, problem.precision(), length);
            // Where all is zero there is no relative difference.
            let l2 = if difference.most == 0.0 { 0.0 } else { difference.l2() };
            if l2.is_nan() || l2 > limit {
                bail!("{} differs from the naive kernel's by {l2:.2e}, limit {limit:.2e}", operand.name);
            }
            most = most.max(l2);
        }
        Ok(most)
    }
}

fn difference(
    session: &Session,
    work: &Work,
    expected: DeviceSpan<'_>,
    got: DeviceSpan<'_>,
    offset: u64,
    rms: f64,
) -> Result<Difference> {
    let bytes = expected.len_bytes();
    let got = got.part(offset, offset + bytes);
    session.differ.borrow_mut().difference(expected, got, work.written_dtype(), rms, session.gpu_stream())
}

fn within(work: &Work, difference: Difference, whose: &str) -> Result<()> {
    let (dtype, problem) = (work.written_dtype(), work.problem());
    let (precision, length) = (problem.precision(), problem.accumulation_length());
    let (l2, element) = (limit_l2(dtype, precision, length), limit_element(dtype, precision, length));
    if difference.l2().is_nan() || difference.l2() > l2 || difference.most > element {
        bail!(
            "differs from {whose} by {:.2e} (limit {l2:.2e}), in one element by {:.2e} (limit {element:.2e})",
            difference.l2(),
            difference.most
        );
    }
    Ok(())
}

/// The convolutions of the first and the last image alone.
fn images(problem: &ConvProblem) -> Result<Vec<Part>> {
    let desc = problem.desc();
    let (x, y) = (first_of(problem.x(), 0, 1)?, first_of(problem.y(), 0, 1)?);
    let images = problem.x().dims()[0];
    let mut parts = Vec::new();
    for image in [0, images - 1] {
        let x_at = image as u64 * bytes_of_step(problem.x(), 0);
        let y_at = image as u64 * bytes_of_step(problem.y(), 0);
        let (part, offsets) = match problem.conv_pass() {
            ConvPass::Fprop => (ConvProblem::fprop(&desc, &x, problem.w(), &y)?, vec![x_at, 0, y_at]),
            ConvPass::Dgrad => (ConvProblem::dgrad(&desc, &y, problem.w(), &x)?, vec![y_at, 0, x_at]),
            ConvPass::Wgrad => bail!("expected a pass that works image by image, given wgrad"),
        };
        parts.push(Part { work: Work::Conv(part), offsets });
        if images == 1 {
            break;
        }
    }
    Ok(parts)
}

/// The first and the last rows of a product.
fn rows(problem: &MatmulProblem) -> Result<Vec<Part>> {
    let rows = ROWS.min(problem.gemm_m());
    let a_axis = problem.a().rank() - if problem.desc().transpose_a { 1 } else { 2 };
    let c_axis = problem.c().rank() - 2;
    let part = problem.desc().problem(
        &first_of(problem.a(), a_axis, rows)?,
        problem.b(),
        &first_of(problem.c(), c_axis, rows)?,
    )?;
    let offsets = |row: i64| {
        vec![row as u64 * bytes_of_step(problem.a(), a_axis), 0, row as u64 * bytes_of_step(problem.c(), c_axis)]
    };
    Ok([0, problem.gemm_m() - rows]
        .into_iter()
        .map(|row| Part { work: Work::Matmul(part.clone()), offsets: offsets(row) })
        .collect())
}

/// The tensor with only so many of the first indices of one axis.
fn first_of(desc: &TensorDesc, axis: usize, extent: i64) -> Result<TensorDesc> {
    let mut dims = desc.dims().to_vec();
    dims[axis] = extent;
    Ok(TensorDesc::strided(desc.dtype(), &dims, desc.strides())?)
}

fn bytes_of_step(desc: &TensorDesc, axis: usize) -> u64 {
    desc.strides()[axis] as u64 * desc.dtype().size_bytes() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_lie_at_the_ends() {
        let problem: ConvProblem =
            "conv:fprop pad=1x1 stride=2x2 x=5x4x7x7:bf16:nhwc w=6x4x3x3:bf16:nhwc y=5x6x4x4:bf16:nhwc"
                .parse()
                .unwrap();
        let parts = images(&problem).unwrap();
        assert_eq!(parts[1].offsets, [4 * 4 * 49 * 2, 0, 4 * 6 * 16 * 2]);
        assert_eq!(parts[1].work.problem().operands()[2].desc.dims(), [1, 6, 4, 4]);
        let problem: MatmulProblem = "matmul:forward trans=tn a=64x300:f32 b=64x20:f32 c=300x20:f32".parse().unwrap();
        let parts = rows(&problem).unwrap();
        assert_eq!(parts[1].offsets, [172 * 4, 0, 172 * 20 * 4]);
        assert_eq!(parts[1].work.problem().operands()[0].desc.dims(), [64, 128]);
    }
}
