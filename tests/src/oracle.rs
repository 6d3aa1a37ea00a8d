//! Runs every algorithm of an operator on a problem and compares it with the reference.

use crate::fill::{Fill, round};
use kernel_abi::{DType, Domain, Precision, Problem, Role, TensorDesc};
use oxidnn::operators::{AnyProblem, Operation};
use oxidnn::{Args, Context, Division, Plan, Policy, Tensor, Verdict, Workspace};
use oxidnn_reference::{Judge, integers, tolerance};
use proptest::test_runner::TestCaseError;
use std::sync::OnceLock;

/// Elements of poison on each side of every tensor, at least.
const GUARD: i64 = 64;

/// Bytes of poison behind the workspace.
const WORKSPACE_GUARD: u64 = 256;

/// The byte that the workspace's poison is made of: as any float type, a NaN or a huge number that no sum forgets.
const POISON: u8 = 0xff;

/// The byte that poison around a tensor is made of: for integers, which know no NaN, what no sum forgets either.
fn poison(dtype: DType) -> u8 {
    if dtype.is_integer() { 0x81 } else { POISON }
}

/// Every device of this machine, made once.
pub fn contexts() -> &'static [Context] {
    static CONTEXTS: OnceLock<Vec<Context>> = OnceLock::new();
    let contexts = CONTEXTS.get_or_init(Context::all);
    contexts.iter().for_each(crate::skip::note_simulated);
    contexts
}

/// How a problem is run and judged.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// What operands hold.
    pub fill: Fill,
    /// Where they come from.
    pub seed: u64,
    /// Factor of the result.
    pub alpha: f64,
    /// Factor of the prior value.
    pub beta: f64,
    /// Whether every bit must agree.
    pub exact: bool,
    /// An operator's own factor on the tolerance.
    pub slack: f64,
    /// Additions that its method takes beside those of the sum.
    pub additions: f64,
    /// Elements that the first operand lies behind a multiple of 16 bytes; of the others each has as many more.
    pub shift: i64,
}

impl Case {
    /// Normal values, alpha 1, beta 0.
    pub fn normal(seed: u64) -> Self {
        Case { fill: Fill::Normal, seed, alpha: 1.0, beta: 0.0, exact: false, slack: 1.0, additions: 0.0, shift: 0 }
    }

    /// Integers and bitwise equality.
    pub fn integers(seed: u64, max: i64) -> Self {
        Case { fill: Fill::Integers { max }, exact: true, ..Case::normal(seed) }
    }

    /// The case for a config whose method loses digits: F(4 × 4) transforms with fractions, and not all of its numbers
    /// are exact, whatever the operands hold. F(2 × 2) is judged as any other. Fourier transforms rotate by roots, and
    /// however short the sum, each of the three adds in as many steps as its number of positions has bits.
    fn by_method(&self, config: &str) -> Self {
        if config.contains("+f4x4") {
            Case { exact: false, slack: 4.0 * self.slack, ..*self }
        } else if config.starts_with("convfft_") {
            const BITS_OF_LARGEST: f64 = 14.0;
            Case { exact: false, additions: 3.0 * BITS_OF_LARGEST, ..*self }
        } else {
            *self
        }
    }

    /// Other addresses.
    pub fn shifted(self, shift: i64) -> Self {
        Case { shift, ..self }
    }

    /// Other scalars.
    pub fn scaled(self, alpha: f64, beta: f64) -> Self {
        Case { alpha, beta, ..self }
    }
}

/// Normal values through every algorithm that takes `problem`, on every device: plainly, and with alpha and beta.
///
/// # Errors
/// A failed case, with the line that reproduces it.
pub fn check<P: Operation + Judge>(problem: &P, seed: u64) -> Result<(), TestCaseError> {
    check_case(problem, &Case::normal(seed))?;
    check_case(problem, &Case::normal(seed ^ 1).scaled(1.5, -0.75))
}

/// Integers of magnitude at most `max` through every algorithm, compared bit by bit.
///
/// # Errors
/// As [`check`].
pub fn check_exact<P: Operation + Judge>(problem: &P, seed: u64, max: i64) -> Result<(), TestCaseError> {
    check_case(problem, &Case::integers(seed, max))?;
    check_case(problem, &Case::integers(seed ^ 1, max).scaled(2.0, -1.0))
}

/// One case through every algorithm that takes `problem`, on every device.
///
/// # Errors
/// As [`check`]; also when no algorithm takes the problem on some device, or its text does not parse back.
pub fn check_case<P: Operation + Judge>(problem: &P, case: &Case) -> Result<(), TestCaseError> {
    let fail = |what: String| TestCaseError::fail(format!("{problem}: {what}"));
    let (values, expected) = expect(problem, case)?;
    for context in contexts() {
        let candidates = AnyProblem::candidates(problem, context);
        let able: Vec<_> = candidates.iter().filter(|c| matches!(c.verdict, Verdict::Able { .. })).collect();
        if able.is_empty() {
            return Err(fail(format!("no algorithm on {}: {candidates:?}", context.info().name)));
        }
        for candidate in able {
            let name = if context.is_gpu() { candidate.config } else { candidate.algorithm };
            let case = &case.by_method(name);
            let plan = context.plan(problem, Policy::fixed(name)).map_err(|e| e.to_string());
            plan.and_then(|plan| run(problem, &plan, case, &values, &expected)).map_err(|what| {
                fail(format!(
                    "{} ({}) on {}, {case:?}: {what}",
                    candidate.algorithm,
                    candidate.config,
                    context.info().name
                ))
            })?;
        }
    }
    Ok(())
}

/// One case through the divisions of the batch that `divide` makes on each device.
///
/// # Errors
/// As [`check`].
pub fn check_divided<P: Operation + Judge>(
    problem: &P,
    case: &Case,
    divide: impl Fn(&Context) -> Vec<Division>,
) -> Result<(), TestCaseError> {
    let (values, expected) = expect(problem, case)?;
    for context in contexts() {
        for division in divide(context) {
            let case = division.parts.iter().fold(*case, |case, part| case.by_method(part.config));
            let plan = AnyProblem::plan_division(problem, context, &division).map_err(|e| e.to_string());
            plan.and_then(|plan| run(problem, &plan, &case, &values, &expected)).map_err(|what| {
                TestCaseError::fail(format!("{problem}: {division} on {}, {case:?}: {what}", context.info().name))
            })?;
        }
    }
    Ok(())
}

/// What operands hold, and what outputs should hold then.
fn expect<P: Operation + Judge>(problem: &P, case: &Case) -> Result<(Vec<Vec<f64>>, Vec<Expected>), TestCaseError> {
    let fail = |what: String| TestCaseError::fail(format!("{problem}: {what}"));
    let parsed = problem.to_string().parse::<P>().map_err(|e| fail(format!("its text does not parse: {e}")))?;
    if parsed != *problem {
        return Err(fail(format!("its text parses to another problem, {parsed:?}")));
    }
    let operands = problem.operands();
    let mut values: Vec<Vec<f64>> = operands
        .iter()
        .zip(0u64..)
        .map(|(operand, i)| {
            let seed = case.seed.wrapping_add(i.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            let dtype = operand.desc.dtype();
            let mut values = case.fill.values(operand.desc.n_elems() as usize, dtype, seed);
            if operand.domain != Domain::Real {
                values.iter_mut().for_each(|value| *value = round(operand.domain.map(*value), dtype));
            }
            values
        })
        .collect();
    Judge::make_admissible(problem, &mut values);
    operands.iter().zip(&mut values).for_each(|(operand, values)| share(&operand.desc, values));
    let bare = Judge::judge_scaled(problem, &values, case.alpha, case.beta);
    let cast = Judge::cast(problem);
    let mut expected = Vec::new();
    let written = operands.iter().zip(&values).filter(|(operand, _)| operand.role != Role::Input);
    let judge = |values: &[Vec<f64>]| Judge::judge_magnitudes(problem, values, case.alpha, case.beta);
    let scales = tolerance::scales(&operands, &values, (case.alpha, case.beta), judge);
    for ((((operand, prior), result), scales), rounded_to) in
        written.zip(bare).zip(scales).zip(Judge::rounded_to(problem))
    {
        let blend = |(result, prior): (f64, &f64)| match operand.role {
            Role::Output if case.beta != 0.0 => case.alpha * result + case.beta * prior,
            Role::Output => case.alpha * result,
            _ => result,
        };
        let mut values: Vec<f64> = result.into_iter().zip(prior).map(blend).collect();
        if operand.desc.dtype().is_integer() {
            let stored = |value: &mut f64| *value = integers::rounded(operand.desc.dtype(), *value, cast) as f64;
            values.iter_mut().for_each(stored);
        }
        expected.push(Expected { values, scales, rounded_to, exact: false });
    }
    let whole: Vec<Vec<i128>> = values.iter().map(|values| values.iter().map(|&v| v as i128).collect()).collect();
    if let Some(results) = Judge::judge_integers(problem, &whole) {
        let written = operands.iter().zip(&whole).filter(|(operand, _)| operand.role != Role::Input);
        for ((expected, result), (operand, prior)) in expected.iter_mut().zip(results).zip(written) {
            let scalars = if operand.role == Role::Output { (case.alpha, case.beta) } else { (1.0, 0.0) };
            let stored = |pair| integers::stored(operand.desc.dtype(), pair, scalars, cast) as f64;
            expected.values = result.into_iter().zip(prior.iter().copied()).map(stored).collect();
            expected.exact = true;
        }
    }
    Ok((values, expected))
}

/// Why an algorithm does not take a problem on a device; empty where it does, or where there is none of the name.
pub fn refusal<P: Operation>(context: &Context, problem: &P, algorithm: &str) -> String {
    let candidates = AnyProblem::candidates(problem, context);
    let of = candidates.into_iter().filter(|candidate| candidate.algorithm == algorithm);
    of.map(|candidate| if let Verdict::Refused(reason) = candidate.verdict { reason } else { String::new() }).collect()
}

/// What an output should hold.
struct Expected {
    values: Vec<f64>,
    /// The sizes of the numbers that they are made of.
    scales: Vec<f64>,
    /// The least exact type through which they went.
    rounded_to: DType,
    /// Whether they are integers without any error.
    exact: bool,
}

/// Gives indices that share an element, as with a stride of 0, the value of the first of them.
fn share(desc: &TensorDesc, values: &mut [f64]) {
    if desc.self_overlaps() {
        let mut stored = std::collections::HashMap::new();
        for (linear, value) in values.iter_mut().enumerate() {
            *value = *stored.entry(desc.offset_of(linear as i64)).or_insert(*value);
        }
    }
}

/// Runs one candidate between poisoned borders and compares.
fn run<P: Operation>(
    problem: &P,
    plan: &Plan,
    case: &Case,
    values: &[Vec<f64>],
    expected: &[Expected],
) -> Result<(), String> {
    let text = |e: oxidnn::Error| e.to_string();
    let context = plan.context();
    let stream = context.stream().map_err(text)?;
    let mut workspace = Workspace::new(context, plan.workspace_bytes() + WORKSPACE_GUARD).map_err(text)?;
    workspace.write_bytes(&stream, &vec![POISON; workspace.len_bytes() as usize]).map_err(text)?;
    let mut tensors = Vec::new();
    for ((operand, values), i) in plan.operands().iter().zip(values).zip(1..) {
        // Outputs that are not read must be written whatever they held.
        // So it is with a formula that has beta; sums of channels have none, and it cannot be told whether they are read.
        let unread = matches!(operand.role, Role::Output | Role::Result) && case.beta == 0.0;
        let before = GUARD + i * case.shift % 8;
        tensors.push(Guarded::new(context, &stream, &operand.desc, before, if unread { None } else { Some(values) })?);
    }
    run_plan(plan, &stream, case, &mut tensors, &mut workspace).map_err(text)?;
    let spill = workspace.to_bytes(&stream).map_err(text)?;
    if spill[plan.workspace_bytes() as usize..].iter().any(|&byte| byte != POISON) {
        return Err("wrote behind its workspace".to_owned());
    }
    let mut expected = expected.iter();
    for ((operand, tensor), values) in plan.operands().iter().zip(&tensors).zip(values) {
        let got = tensor.read(&stream)?;
        if operand.role == Role::Input {
            if got != *values {
                return Err(format!("changed its input {}", operand.name));
            }
            continue;
        }
        let expected = expected.next().ok_or("the reference has too few outputs")?;
        compare(
            &operand.desc,
            operand.name,
            expected,
            &got,
            case,
            (Problem::accumulation_length(problem), Problem::precision(problem)),
        )?;
    }
    Ok(())
}

fn run_plan(
    plan: &Plan,
    stream: &oxidnn::Stream,
    case: &Case,
    tensors: &mut [Guarded],
    workspace: &mut Workspace,
) -> Result<(), oxidnn::Error> {
    let mut args = Args::new().alpha(case.alpha).beta(case.beta);
    for (operand, tensor) in plan.operands().iter().zip(tensors) {
        args = match operand.role {
            Role::Input => args.input(operand.name, tensor.memory.window(tensor.before, &operand.desc)?),
            Role::Output | Role::Update | Role::Result => {
                args.output(operand.name, tensor.memory.window_mut(tensor.before, &operand.desc)?)
            }
        };
    }
    plan.run(stream, args, workspace)?;
    stream.synchronize()
}

/// A tensor in the middle of poisoned memory, its own gaps poisoned too.
struct Guarded {
    desc: TensorDesc,
    /// Elements of poison before it.
    before: i64,
    memory: Tensor,
}

impl Guarded {
    fn new(
        context: &Context,
        stream: &oxidnn::Stream,
        desc: &TensorDesc,
        before: i64,
        values: Option<&Vec<f64>>,
    ) -> Result<Self, String> {
        let text = |e: oxidnn::Error| e.to_string();
        let whole =
            TensorDesc::packed(desc.dtype(), &[before + desc.span_elems() + GUARD]).map_err(|e| e.to_string())?;
        let mut memory = context.tensor(&whole).map_err(text)?;
        let mut bytes = vec![poison(desc.dtype()); whole.span_bytes() as usize];
        if let Some(values) = values {
            for (linear, &value) in values.iter().enumerate() {
                let at = (before + desc.offset_of(linear as i64)) as usize;
                put(&mut bytes, desc.dtype(), at, value);
            }
        }
        memory.write_bytes(stream, &bytes).map_err(text)?;
        Ok(Guarded { desc: *desc, before, memory })
    }

    /// The elements in row-major order, after a look at everything around them.
    fn read(&self, stream: &oxidnn::Stream) -> Result<Vec<f64>, String> {
        let mut bytes = self.memory.to_bytes(stream).map_err(|e| e.to_string())?;
        let dtype = self.desc.dtype();
        let mut values = Vec::new();
        for linear in 0..self.desc.n_elems() {
            let at = (self.before + self.desc.offset_of(linear)) as usize;
            values.push(get(&bytes, dtype, at));
        }
        let item = dtype.size_bytes();
        for linear in 0..self.desc.n_elems() {
            let at = (self.before + self.desc.offset_of(linear)) as usize * item;
            bytes[at..at + item].fill(poison(dtype));
        }
        match bytes.iter().position(|&byte| byte != poison(dtype)) {
            None => Ok(values),
            Some(at) => Err(format!(
                "wrote outside its output, at byte {} from its start",
                at as i64 - self.before * item as i64
            )),
        }
    }
}

fn put(bytes: &mut [u8], dtype: DType, at: usize, value: f64) {
    use oxidnn::half::{bf16, f16};
    use oxidnn::{f8e4m3, f8e5m2};
    match dtype {
        DType::F64 => bytes[at * 8..][..8].copy_from_slice(&value.to_ne_bytes()),
        DType::F32 => bytes[at * 4..][..4].copy_from_slice(&(value as f32).to_ne_bytes()),
        DType::F16 => bytes[at * 2..][..2].copy_from_slice(&f16::from_f64(value).to_ne_bytes()),
        DType::BF16 => bytes[at * 2..][..2].copy_from_slice(&bf16::from_f64(value).to_ne_bytes()),
        DType::I8 => bytes[at] = value as i8 as u8,
        DType::I32 => bytes[at * 4..][..4].copy_from_slice(&(value as i32).to_ne_bytes()),
        DType::U8 | DType::Bool => bytes[at] = value as u8,
        DType::I64 => bytes[at * 8..][..8].copy_from_slice(&(value as i64).to_ne_bytes()),
        DType::F8E4M3 => bytes[at] = f8e4m3::from_f64(value).to_bits(),
        DType::F8E5M2 => bytes[at] = f8e5m2::from_f64(value).to_bits(),
    }
}

fn get(bytes: &[u8], dtype: DType, at: usize) -> f64 {
    use oxidnn::half::{bf16, f16};
    use oxidnn::{f8e4m3, f8e5m2};
    let part = |size: usize| &bytes[at * size..][..size];
    match dtype {
        DType::F64 => f64::from_ne_bytes(part(8).try_into().unwrap_or_default()),
        DType::F32 => f64::from(f32::from_ne_bytes(part(4).try_into().unwrap_or_default())),
        DType::F16 => f16::from_ne_bytes(part(2).try_into().unwrap_or_default()).to_f64(),
        DType::BF16 => bf16::from_ne_bytes(part(2).try_into().unwrap_or_default()).to_f64(),
        DType::I8 => f64::from(bytes[at] as i8),
        DType::I32 => f64::from(i32::from_ne_bytes(part(4).try_into().unwrap_or_default())),
        DType::U8 => f64::from(bytes[at]),
        DType::I64 => i64::from_ne_bytes(part(8).try_into().unwrap_or_default()) as f64,
        DType::Bool => f64::from(u8::from(bytes[at] != 0)),
        DType::F8E4M3 => f8e4m3::from_bits(bytes[at]).to_f64(),
        DType::F8E5M2 => f8e5m2::from_bits(bytes[at]).to_f64(),
    }
}

fn compare(
    desc: &TensorDesc,
    name: &str,
    Expected { values: expected, scales, rounded_to, exact }: &Expected,
    got: &[f64],
    case: &Case,
    (length, precision): (f64, Precision),
) -> Result<(), String> {
    let relative = tolerance::relative(*rounded_to, precision, length + case.additions, case.slack);
    let absolute = tolerance::absolute(desc.dtype());
    let mut worst = None;
    for (linear, ((&expected, &got), scale)) in expected.iter().zip(got).zip(scales).enumerate() {
        let rounded = round(expected, desc.dtype());
        let limit = if case.exact || *exact { 0.0 } else { relative * (expected.abs() + scale) + absolute };
        let error = (got - if case.exact || absolute != 0.0 { rounded } else { expected }).abs();
        let same = got == rounded || (got.is_nan() && rounded.is_nan());
        // A NaN on either side alone makes the error one too, which is a failure.
        if !same && (error.is_nan() || error > limit) {
            let excess = if error.is_nan() { f64::INFINITY } else { error / limit };
            if worst.as_ref().is_none_or(|&(_, _, _, _, _, most)| excess > most) {
                worst = Some((linear, expected, got, error, limit, excess));
            }
        }
    }
    match worst {
        None => Ok(()),
        Some((linear, expected, got, error, limit, _)) => Err(format!(
            "{name} at linear index {linear}: expected {expected}, given {got}, error {error:e}, limit {limit:e}"
        )),
    }
}
