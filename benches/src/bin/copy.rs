//! A plain copy through the operator `transform` against `cuMemcpyDtoD`.

use anyhow::{Context as _, Result, bail};
use oxidnn::driver::{DeviceMemory, Graph};
use oxidnn::operators::{AnyProblem, parse_problem};
use oxidnn::{Args, Context, Plan, PlanRequest, Policy, Stream, TensorView, TensorViewMut, Workspace};
use oxidnn_benches::options::Options;
use oxidnn_benches::random::Pool;
use oxidnn_benches::report::{Report, Row};
use oxidnn_compare::device;
use oxidnn_compare::timing::{Clock, calls};

/// One gibibyte to another.
const PROBLEM: &str = "transform:forward x=268435456:f32 y=268435456:f32";

/// Pairs of buffers in rotation.
const SETS: usize = 2;

fn main() -> Result<()> {
    let options = Options::from_args()?;
    let context = Context::gpu(0)?;
    let stream = context.stream()?;
    let (Some(gpu), Some(gpu_stream)) = (context.gpu_context(), stream.gpu_stream()) else {
        bail!("expected a GPU, given {}", context.info().name);
    };
    let problem = parse_problem(options.problem.as_deref().unwrap_or(PROBLEM))?;
    let operands = problem.operands();
    let [x, y] = operands.as_slice() else { bail!("expected an operator with x and y, given {}", problem.text()) };
    if x.desc != y.desc || !x.desc.is_packed() {
        bail!("expected packed x and y of one type, which a copy makes equal, given {}", problem.text());
    }
    let policy = options.algorithm.as_ref().map_or(Policy::Heuristic, Policy::fixed);
    let plan = problem.plan(&context, &PlanRequest::from(policy))?;
    let bytes = x.desc.span_bytes() as usize;
    let mut pool = Pool::new(x.desc.dtype(), 1);
    let content = pool.bytes(x.desc.n_elems() as usize);
    let mut sets = Vec::new();
    for _ in 0..SETS {
        let set = (DeviceMemory::alloc(gpu, bytes)?, DeviceMemory::alloc(gpu, bytes)?);
        set.0.span().write(gpu_stream, &content)?;
        sets.push(set);
    }
    // Copies on a stream ask for it.
    device::make_current(gpu)?;
    let workspace = std::cell::RefCell::new(plan.workspace()?);
    let ours = |set: &Set| run(&context, &stream, &*problem, &plan, set, &mut workspace.borrow_mut());
    ours(&sets[0])?;
    let mut copied = vec![0; bytes];
    sets[0].1.span().read(gpu_stream, &mut copied)?;
    if copied != content {
        let at = copied.iter().zip(&content).position(|(a, b)| a != b);
        bail!("the copy differs from the first byte {at:?} on");
    }
    let calls = calls(SETS);
    let graph = Graph::capture(gpu_stream, || {
        sets.iter().cycle().take(calls).try_for_each(|set| ours(set).map_err(|e| Recorded(e.to_string())))
    })
    .map_err(|Recorded(text)| anyhow::anyhow!(text))
    .context("recording")?;
    let our_side = || Ok(graph.launch(gpu_stream)?);
    // Queued one by one: as a node of a graph, the driver's copy is much slower.
    let their_side =
        || sets.iter().cycle().take(calls).try_for_each(|(x, y)| device::copy(y.span(), x.span(), gpu_stream));
    let times =
        Clock::new(gpu, gpu_stream)?.interleaved(&[(&our_side, calls), (&their_side, calls)], options.rounds)?;
    let gbps = |us: f64| 2.0 * bytes as f64 / us / 1e3;
    eprintln!("{:.0} GB/s, cuMemcpyDtoD {:.0}", gbps(times[0].us), gbps(times[1].us));
    let mut report = Report::new(gpu, "cuMemcpyDtoD");
    report.push(&Row {
        suite: "copy",
        problem: problem.text(),
        pass: problem.pass().to_owned(),
        dtype: x.desc.dtype().to_string(),
        layout: "packed".to_owned(),
        ours_us: times[0].us,
        peer: "cuMemcpyDtoD".to_owned(),
        peer_us: times[1].us,
        algorithm: plan.config().to_owned(),
        workspace_bytes: plan.workspace_bytes(),
        max_rel_err: 0.0,
        gbps: gbps(times[0].us),
        fraction_of_copy: times[1].us / times[0].us,
    });
    report.finish(&options)
}

/// Where a copy reads and writes.
type Set = (DeviceMemory, DeviceMemory);

fn run(
    context: &Context,
    stream: &Stream,
    problem: &dyn AnyProblem,
    plan: &Plan,
    (x, y): &Set,
    workspace: &mut Workspace,
) -> Result<()> {
    let operands = problem.operands();
    // SAFETY: both buffers have the operands' sizes, are filled or zeroed, and outlive the work; nobody else writes y.
    let (x, y) = unsafe {
        (
            TensorView::from_raw(context, operands[0].desc, x.span().address())?,
            TensorViewMut::from_raw(context, operands[1].desc, y.span().address())?,
        )
    };
    Ok(plan.run(stream, Args::new().input(operands[0].name, x).output(operands[1].name, y), workspace)?)
}

/// What went wrong while the graph was recorded.
struct Recorded(String);

impl From<oxidnn::driver::DriverError> for Recorded {
    fn from(error: oxidnn::driver::DriverError) -> Self {
        Recorded(error.to_string())
    }
}
