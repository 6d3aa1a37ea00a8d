//! Time from the start of a process to the first result of one convolution.
//!
//! Every measurement is a process of its own: this program starts itself. `startup_cold` has the driver's cache of
//! compiled PTX switched off, `startup_warm` finds in it what an earlier process left. The table has a line a phase,
//! named in the column `layout`; the phases add up to `total`, and medians are of each by itself.

use anyhow::{Context as _, Result, bail};
use oxidnn::operators::parse_problem;
use oxidnn::{Args, Context, PlanRequest, Policy, Role};
use oxidnn_benches::options::Options;
use oxidnn_benches::report::{Report, Row};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime};

/// A layer of ResNet-50.
const PROBLEM: &str = "conv:fprop pad=1x1 x=32x64x56x56:bf16:nhwc w=64x64x3x3:bf16:nhwc";

/// Set for the processes that are measured: when they were started, in nanoseconds since 1970.
const STARTED: &str = "OXIDNN_STARTUP_STARTED";

/// The phases, in the order of their lines.
const PHASES: [&str; 7] = ["process", "context", "plan", "modules", "memory", "first_run", "total"];

/// What one process tells: a time for each phase, then kernel, workspace and what its code was loaded from.
struct Measurement {
    us: Vec<f64>,
    kernel: String,
    workspace_bytes: u64,
    image: String,
}

fn main() -> Result<()> {
    let entered = SystemTime::now();
    if let Ok(started) = std::env::var(STARTED) {
        let started = SystemTime::UNIX_EPOCH + Duration::from_nanos(started.parse()?);
        return measured(entered.duration_since(started).unwrap_or_default());
    }
    let options = Options::from_args()?;
    let text = options.problem.clone().unwrap_or_else(|| PROBLEM.to_owned());
    let problem = parse_problem(&text)?;
    let cache = std::env::temp_dir().join(format!("oxidnn-startup-{}", std::process::id()));
    std::fs::create_dir_all(&cache).with_context(|| format!("making {}", cache.display()))?;
    let cold = (0..options.rounds).map(|_| start(&cache, true)).collect::<Result<Vec<_>>>()?;
    // The first warm one fills the cache.
    start(&cache, false)?;
    let warm = (0..options.rounds).map(|_| start(&cache, false)).collect::<Result<Vec<_>>>()?;
    std::fs::remove_dir_all(&cache).with_context(|| format!("removing {}", cache.display()))?;
    // Only now, so that no context of this process spares the others any work.
    let context = Context::gpu(0)?;
    let Some(gpu) = context.gpu_context() else { bail!("expected a GPU, given {}", context.info().name) };
    let mut report = Report::new(gpu, "none");
    for (suite, runs) in [("startup_cold", cold), ("startup_warm", warm)] {
        for (at, phase) in PHASES.into_iter().enumerate() {
            let last = &runs[runs.len() - 1];
            report.push(&Row {
                suite,
                problem: problem.text(),
                pass: problem.pass().to_owned(),
                dtype: problem.operands()[0].desc.dtype().to_string(),
                layout: phase.to_owned(),
                ours_us: median(runs.iter().map(|run| run.us[at]).collect()),
                peer: String::new(),
                peer_us: f64::NAN,
                algorithm: format!("{} from {}", last.kernel, last.image),
                workspace_bytes: last.workspace_bytes,
                max_rel_err: f64::NAN,
                gbps: f64::NAN,
                fraction_of_copy: f64::NAN,
            });
        }
    }
    report.finish(&options)
}

/// Starts a process and reads what it tells.
fn start(cache: &Path, cold: bool) -> Result<Measurement> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_nanos();
    let output = Command::new(std::env::current_exe()?)
        .args(std::env::args_os().skip(1))
        .env(STARTED, now.to_string())
        .env("CUDA_CACHE_PATH", cache)
        .env("CUDA_CACHE_DISABLE", if cold { "1" } else { "0" })
        .output()
        .context("starting a process to measure")?;
    let text = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        bail!("the measured process failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    let field = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('\t'));
        line.with_context(|| format!("the measured process did not tell {name}: {text}"))
    };
    Ok(Measurement {
        us: PHASES.iter().map(|phase| Ok(field(phase)?.parse()?)).collect::<Result<_>>()?,
        kernel: field("kernel")?.to_owned(),
        workspace_bytes: field("workspace")?.parse()?,
        image: field("image")?.to_owned(),
    })
}

/// The measured process: computes once and tells how long what took.
fn measured(process: Duration) -> Result<()> {
    let start = Instant::now();
    let options = Options::from_args()?;
    let problem = parse_problem(options.problem.as_deref().unwrap_or(PROBLEM))?;
    let policy = options.algorithm.as_ref().map_or(Policy::Heuristic, Policy::fixed);
    let context = Context::best()?;
    let with_context = start.elapsed();
    let plan = problem.plan(&context, &PlanRequest::from(policy))?;
    let with_plan = start.elapsed();
    let stream = context.stream()?;
    let mut tensors =
        problem.operands().iter().map(|operand| context.tensor(&operand.desc)).collect::<Result<Vec<_>, _>>()?;
    let mut workspace = plan.workspace()?;
    let with_memory = start.elapsed();
    let mut args = Args::new();
    for (operand, tensor) in plan.operands().iter().zip(&mut tensors) {
        args = match operand.role {
            Role::Input => args.input(operand.name, &*tensor),
            Role::Output | Role::Update | Role::Result => args.output(operand.name, tensor),
        };
    }
    plan.run(&stream, args, &mut workspace)?;
    stream.synchronize()?;
    let all = start.elapsed();
    let us = |duration: Duration| duration.as_secs_f64() * 1e6;
    let loads = context.loaded_modules();
    let modules = loads.iter().fold(0.0, |sum, load| sum + load.load_us);
    let times = [
        us(process),
        us(with_context),
        us(with_plan - with_context) - modules,
        modules,
        us(with_memory - with_plan),
        us(all - with_memory),
        us(process + all),
    ];
    for (phase, time) in PHASES.iter().zip(times) {
        println!("{phase}\t{time}");
    }
    let image = loads.last().map_or_else(|| "nothing".to_owned(), |load| load.image.to_string());
    println!("kernel\t{}\nworkspace\t{}\nimage\t{image}", plan.config(), plan.workspace_bytes());
    Ok(())
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}
