//! Matmul against cuBLAS.

use anyhow::{Context as _, Result, bail};
use oxidnn::driver::{DeviceMemory, GpuContext, GpuStream, Graph};
use oxidnn::ops::matmul::MatmulProblem;
use oxidnn::{Args, Context, Plan, Policy, Problem, Stream, TensorDesc, TensorView, TensorViewMut, Workspace};
use oxidnn_benches::cublas::{Cublas, Gemm};
use oxidnn_benches::options::Options;
use oxidnn_benches::random::{Pool, number};
use oxidnn_benches::report::{Report, Row};
use oxidnn_compare::timing::{Clock, Work, calls, rotation};

/// What is timed unless something else is asked for.
const PROBLEMS: [&str; 9] = [
    "matmul:forward a=8192x8192:bf16 b=8192x8192:bf16",
    "matmul:forward a=4096x4096:bf16 b=4096x4096:bf16",
    "matmul:forward trans=nt a=4096x4096:bf16 b=4096x4096:bf16",
    "matmul:forward trans=tn a=4096x4096:bf16 b=4096x4096:bf16",
    "matmul:forward trans=tt a=4096x4096:bf16 b=4096x4096:bf16",
    "matmul:forward a=2048x2048:bf16 b=2048x2048:bf16",
    "matmul:forward a=16384x4096:bf16 b=4096x8192:bf16",
    "matmul:forward a=1024x1024:bf16 b=1024x1024:bf16",
    "matmul:forward a=8192x8192:f16 b=8192x8192:f16",
];

fn main() -> Result<()> {
    let options = Options::from_args()?;
    let context = Context::gpu(0)?;
    let stream = context.stream()?;
    let (Some(gpu), Some(gpu_stream)) = (context.gpu_context(), stream.gpu_stream()) else {
        bail!("expected a GPU, given {}", context.info().name);
    };
    let cublas = Cublas::new(gpu, gpu_stream);
    if let Err(e) = &cublas {
        eprintln!("without a peer: {e:#}");
    }
    let cublas = cublas.ok();
    let peer = cublas.as_ref().map_or("none".to_owned(), Cublas::name);
    let mut report = Report::new(gpu, &peer);
    let problems = options.problem.iter().map(String::as_str).chain(PROBLEMS);
    let n_problems = if options.problem.is_some() { 1 } else { PROBLEMS.len() };
    for text in problems.take(n_problems).filter(|text| text.contains(&options.filter)) {
        let problem: MatmulProblem = text.parse()?;
        let bench = Bench::new(&context, &stream, problem, cublas.as_ref(), &options)?;
        report.push(&bench.run(gpu, gpu_stream, &options).with_context(|| text.to_owned())?);
    }
    report.finish(&options)
}

/// Operands of one call: inputs, and an output of each side.
struct Set {
    a: DeviceMemory,
    b: DeviceMemory,
    ours: DeviceMemory,
    theirs: DeviceMemory,
}

struct Bench<'a> {
    context: &'a Context,
    stream: &'a Stream,
    problem: MatmulProblem,
    plan: Plan,
    cublas: Option<&'a Cublas>,
    sets: Vec<Set>,
    /// The first set's inputs.
    inputs: [Vec<u8>; 2],
}

impl<'a> Bench<'a> {
    fn new(
        context: &'a Context,
        stream: &'a Stream,
        problem: MatmulProblem,
        cublas: Option<&'a Cublas>,
        options: &Options,
    ) -> Result<Self> {
        let policy = options.algorithm.as_ref().map_or(Policy::Heuristic, Policy::fixed);
        let plan = context.plan(&problem, policy)?;
        let (Some(gpu), Some(gpu_stream)) = (context.gpu_context(), stream.gpu_stream()) else {
            bail!("expected a GPU, given {}", context.info().name);
        };
        let mut pool = Pool::new(problem.c().dtype(), 1);
        let (mut sets, mut inputs) = (Vec::new(), None);
        for _ in 0..rotation(problem.bytes() as u64) {
            let mut filled = |desc: &TensorDesc| -> Result<(DeviceMemory, Vec<u8>)> {
                let bytes = pool.bytes(desc.span_elems() as usize);
                let memory = DeviceMemory::alloc(gpu, bytes.len())?;
                memory.span().write(gpu_stream, &bytes)?;
                Ok((memory, bytes))
            };
            let ((a, a_bytes), (b, b_bytes)) = (filled(problem.a())?, filled(problem.b())?);
            let c_bytes = problem.c().span_bytes() as usize;
            let (ours, theirs) = (DeviceMemory::alloc(gpu, c_bytes)?, DeviceMemory::alloc(gpu, c_bytes)?);
            sets.push(Set { a, b, ours, theirs });
            inputs.get_or_insert([a_bytes, b_bytes]);
        }
        let inputs = inputs.context("no operands")?;
        Ok(Bench { context, stream, problem, plan, cublas, sets, inputs })
    }

    /// Checks and times.
    fn run(&self, gpu: &GpuContext, stream: &GpuStream, options: &Options) -> Result<Row> {
        let workspace = std::cell::RefCell::new(self.plan.workspace()?);
        let ours = |set: &Set| self.ours(set, &mut workspace.borrow_mut());
        let theirs = |set: &Set| self.theirs(set);
        // The first call of each side loads its kernels, which cannot be recorded.
        let first = &self.sets[0];
        ours(first)?;
        theirs(first)?;
        stream.synchronize()?;
        let max_rel_err = self.error(&first.ours, stream)?;
        let limit = LIMIT * self.problem.c().dtype().epsilon();
        for (side, error) in [
            ("ours", max_rel_err),
            ("cuBLAS", if self.cublas.is_some() { self.error(&first.theirs, stream)? } else { 0.0 }),
        ] {
            if error.is_nan() || error > limit {
                bail!("{side} is wrong: relative error {error:e}, limit {limit:e}");
            }
        }
        let calls = calls(self.sets.len());
        let record = |call: &dyn Fn(&Set) -> Result<()>| {
            Graph::capture(stream, || {
                self.sets.iter().cycle().take(calls).try_for_each(call).map_err(|e| Recorded(e.to_string()))
            })
            .map_err(|Recorded(text)| anyhow::anyhow!(text))
        };
        let our_graph = record(&ours)?;
        let launch = |graph: &Graph| -> Result<()> { Ok(graph.launch(stream)?) };
        let our_side = || launch(&our_graph);
        let mut sides: Vec<(Work<'_>, usize)> = vec![(&our_side, calls)];
        let their_graph = self.cublas.map(|_| record(&theirs)).transpose()?;
        let their_side = || their_graph.as_ref().map_or(Ok(()), launch);
        if their_graph.is_some() {
            sides.push((&their_side, calls));
        }
        let times = Clock::new(gpu, stream)?.interleaved(&sides, options.rounds)?;
        let peer_us = times.get(1).map_or(f64::NAN, |timing| timing.us);
        let tflops = |us: f64| self.problem.flops() / us / 1e6;
        eprintln!("{}: {:.0} TFLOP/s, cuBLAS {:.0}", self.problem, tflops(times[0].us), tflops(peer_us));
        Ok(Row {
            suite: "matmul",
            problem: self.problem.to_string(),
            pass: self.problem.pass().to_owned(),
            dtype: self.problem.c().dtype().to_string(),
            layout: self.problem.desc().to_string(),
            ours_us: times[0].us,
            peer: self.cublas.map_or("none".to_owned(), Cublas::name),
            peer_us,
            algorithm: self.plan.config().to_owned(),
            workspace_bytes: self.plan.workspace_bytes(),
            max_rel_err,
            gbps: self.problem.bytes() / times[0].us / 1e3,
            fraction_of_copy: f64::NAN,
        })
    }

    fn ours(&self, set: &Set, workspace: &mut Workspace) -> Result<()> {
        let at = |memory: &DeviceMemory| memory.span().address();
        let (context, problem) = (self.context, &self.problem);
        // SAFETY: the memory has the tensors' sizes, was filled or zeroed, and lives as long as `self`; outputs of
        // one set are written by nobody else.
        let (a, b, c) = unsafe {
            (
                TensorView::from_raw(context, *problem.a(), at(&set.a))?,
                TensorView::from_raw(context, *problem.b(), at(&set.b))?,
                TensorViewMut::from_raw(context, *problem.c(), at(&set.ours))?,
            )
        };
        let args = Args::new().input("a", a).input("b", b).output("c", c);
        Ok(self.plan.run(self.stream, args, workspace)?)
    }

    fn theirs(&self, set: &Set) -> Result<()> {
        let Some(cublas) = self.cublas else { return Ok(()) };
        let problem = &self.problem;
        if problem.n_batch() != 1 || [problem.a(), problem.b(), problem.c()].iter().any(|desc| !desc.is_packed()) {
            bail!("expected one product of packed matrices to compare with, given {problem}");
        }
        let gemm = Gemm {
            m: i32::try_from(problem.gemm_m())?,
            n: i32::try_from(problem.gemm_n())?,
            k: i32::try_from(problem.gemm_k())?,
            transpose_a: problem.desc().transpose_a,
            transpose_b: problem.desc().transpose_b,
            dtype: problem.c().dtype(),
        };
        let at = |memory: &DeviceMemory| memory.span().address();
        // SAFETY: the memory has the matrices' sizes and lives as long as `self`.
        unsafe { cublas.gemm(&gemm, at(&set.a), at(&set.b), at(&set.theirs)) }
    }

    /// The largest error of sampled rows, by the formula in f64 on the first set's inputs.
    fn error(&self, c: &DeviceMemory, stream: &GpuStream) -> Result<f64> {
        let (problem, dtype) = (&self.problem, self.problem.c().dtype());
        let mut bytes = vec![0; problem.c().span_bytes() as usize];
        c.span().read(stream, &mut bytes)?;
        let (a, b) = (problem.a_matrix(), problem.b_matrix());
        let [m, n, k] = [problem.gemm_m(), problem.gemm_n(), problem.gemm_k()];
        let at = |desc: &TensorDesc, row: i64, col: i64| {
            let last = desc.rank() - 1;
            (row * desc.strides()[last - 1] + col * desc.strides()[last]) as usize
        };
        let mut pairs = Vec::new();
        for row in sample(m, ROWS) {
            for col in sample(n, COLUMNS) {
                let product =
                    |i| number(&self.inputs[0], dtype, at(&a, row, i)) * number(&self.inputs[1], dtype, at(&b, i, col));
                let expected: f64 = (0..k).map(product).sum();
                pairs.push((expected, number(&bytes, dtype, at(problem.c(), row, col))));
            }
        }
        let rms = (pairs.iter().map(|(expected, _)| expected * expected).sum::<f64>() / pairs.len() as f64).sqrt();
        // A NaN must come out as one: `f64::max` would drop it.
        let worse = |most: f64, error: f64| if error > most || error.is_nan() { error } else { most };
        Ok(pairs.iter().map(|(expected, got)| (got - expected).abs() / (expected.abs() + rms)).fold(0.0, worse))
    }
}

/// Rows and columns that are checked.
const ROWS: i64 = 7;
const COLUMNS: i64 = 131;

/// The largest error allowed, in units of the storage type's epsilon: half for the rounding, the rest for sums in f32.
const LIMIT: f64 = 1.0;

/// `count` indices below `extent`, the first and the last among them.
fn sample(extent: i64, count: i64) -> impl Iterator<Item = i64> {
    let count = count.min(extent);
    (0..count).map(move |i| if count == 1 { 0 } else { i * (extent - 1) / (count - 1) })
}

/// What went wrong while a graph was recorded.
struct Recorded(String);

impl From<oxidnn::driver::DriverError> for Recorded {
    fn from(error: oxidnn::driver::DriverError) -> Self {
        Recorded(error.to_string())
    }
}
