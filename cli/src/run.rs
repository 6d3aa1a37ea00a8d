//! `oxidnn run`: one problem, verified and timed.

use anyhow::{Result, bail};
use clap::Args;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use oxidnn::operators::{AnyProblem, parse_problem};
use oxidnn::{
    Args as RunArgs, Context, FindOptions, FindStage, NonFinite, Plan, PlanRequest, Policy, Role, StoreStatus, Stream,
    Tensor, Workspace,
};
use oxidnn_reference::{integers, tolerance};
use rand::{RngExt as _, SeedableRng as _};
use rand_distr::StandardNormal;
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::Serialize;
use std::io::Write as _;

/// What `oxidnn run` takes.
#[derive(Args)]
pub struct Options {
    /// The problem, e.g. "conv:fprop pad=1x1 x=8x16x28x28:f32 w=32x16x3x3:f32"
    problem: String,
    /// cpu, gpu or gpu:<ordinal>; the best there is unless given
    #[arg(long)]
    device: Option<String>,
    /// heuristic, find, or the name of an algorithm or kernel
    #[arg(long, default_value = "heuristic")]
    policy: String,
    /// With `--policy find`: measure again what has been measured before
    #[arg(long)]
    remeasure: bool,
    /// The most workspace the algorithm may need, in bytes
    #[arg(long)]
    workspace_limit: Option<u64>,
    /// Where the random data come from
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Factor of the result
    #[arg(long, default_value_t = 1.0, allow_hyphen_values = true)]
    alpha: f64,
    /// Factor of the output's prior value
    #[arg(long, default_value_t = 0.0, allow_hyphen_values = true)]
    beta: f64,
    /// Do not compare with the reference
    #[arg(long, conflicts_with = "verify")]
    no_verify: bool,
    /// Compare with the reference however long it takes
    #[arg(long)]
    verify: bool,
    /// What infinities and NaNs of operands may reach: default, strict (what the formula says) or any
    #[arg(long, default_value_t)]
    nonfinite: NonFinite,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Above this many operations the reference, one thread of plain loops, takes minutes.
const VERIFY_FLOPS: f64 = 2e10;

/// Timed runs; the median counts.
const RUNS: usize = 11;

#[derive(Serialize)]
struct Report {
    problem: String,
    device: String,
    algorithm: &'static str,
    kernel: &'static str,
    workspace_bytes: u64,
    time_us: f64,
    tflops: f64,
    gbps: f64,
    /// Largest error relative to |expected| + scale (docs/numerics.md), and what is allowed; none when not verified.
    max_rel_err: Option<f64>,
    limit: Option<f64>,
    verified: Option<bool>,
    explain: String,
}

/// Runs, verifies and times; false when the result is wrong.
pub fn run(options: &Options) -> Result<bool> {
    let problem = parse_problem(&options.problem)?;
    let context = crate::device(options.device.as_deref())?;
    let policy = match options.policy.as_str() {
        "heuristic" => Policy::Heuristic,
        "find" => Policy::Find,
        name => Policy::fixed(name),
    };
    let finds = policy == Policy::Find;
    let mut request = PlanRequest::from(policy).nonfinite(options.nonfinite);
    request.workspace_limit_bytes = options.workspace_limit;
    if finds {
        request = request.find_options(find_options(options));
    }
    let plan = problem.plan(&context, &request)?;
    if finds && let status @ StoreStatus::Unwritable { .. } = context.store_status() {
        eprintln!("warning: measurements are kept {status}");
    }
    let mut trial = Trial::new(&context, problem.as_ref(), &plan, options)?;
    let verify = options.verify || (!options.no_verify && problem.flops() <= VERIFY_FLOPS);
    trial.run(&plan)?;
    let error = if verify { Some(trial.error(problem.as_ref())?) } else { None };
    let time_us = trial.time(&plan)?;
    let report = Report {
        problem: problem.text(),
        device: context.info().name.clone(),
        algorithm: plan.algorithm(),
        kernel: plan.config(),
        workspace_bytes: plan.workspace_bytes(),
        time_us,
        tflops: problem.flops() / time_us / 1e6,
        gbps: problem.bytes() / time_us / 1e3,
        max_rel_err: error.map(|(error, _)| error),
        limit: error.map(|(_, limit)| limit),
        verified: error.map(|(error, limit)| error <= limit),
        explain: plan.explain(),
    };
    print(&report, options.json)?;
    Ok(report.verified != Some(false))
}

/// Find with a bar on the terminal.
fn find_options(options: &Options) -> FindOptions {
    let bar = ProgressBar::hidden();
    bar.set_style(
        ProgressStyle::with_template("{elapsed_precise} {bar:32} {pos}/{len} {wide_msg}")
            .unwrap_or_else(|_| ProgressStyle::default_bar()),
    );
    FindOptions::new().remeasure(options.remeasure).observer(move |progress| {
        if progress.step == 0 {
            // Only now is it known that there is something to measure. It draws nothing where there is no terminal.
            bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        bar.set_length(progress.n_steps as u64);
        bar.set_position(progress.step as u64);
        match progress.stage {
            FindStage::Trying { algorithm, config } => bar.set_message(format!("trying {algorithm} ({config})")),
            FindStage::Timing { round, n_rounds } => bar.set_message(format!("round {} of {n_rounds}", round + 1)),
            FindStage::Done => bar.finish_and_clear(),
        }
    })
}

fn print(report: &Report, json: bool) -> Result<()> {
    let mut out = std::io::stdout().lock();
    if json {
        serde_json::to_writer_pretty(&mut out, report)?;
        writeln!(out)?;
        return Ok(());
    }
    write!(out, "{}", report.explain)?;
    let Report { time_us, tflops, gbps, .. } = report;
    writeln!(out, "time      {time_us:.1} us, {tflops:.3} TFLOP/s, {gbps:.1} GB/s")?;
    match (report.max_rel_err, report.limit, report.verified) {
        (Some(error), Some(limit), Some(true)) => writeln!(out, "verified  error {error:.2e}, limit {limit:.2e}")?,
        (Some(error), Some(limit), _) => writeln!(out, "WRONG     error {error:.2e}, limit {limit:.2e}")?,
        _ => writeln!(out, "not compared with the reference (--verify does, however long it takes)")?,
    }
    Ok(())
}

/// Operands with random data.
struct Trial {
    stream: Stream,
    tensors: Vec<Tensor>,
    prior: Vec<Vec<f64>>,
    workspace: Workspace,
    alpha: f64,
    beta: f64,
}

impl Trial {
    fn new(context: &Context, problem: &dyn AnyProblem, plan: &Plan, options: &Options) -> Result<Self> {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(options.seed);
        let stream = context.stream()?;
        let (mut tensors, mut prior, mut values) = (Vec::new(), Vec::new(), Vec::new());
        for operand in problem.operands() {
            if operand.desc.self_overlaps() {
                bail!(
                    "{}: expected elements of its own to fill with random data, given {}",
                    operand.name,
                    operand.desc
                );
            }
            let mut draw = || operand.domain.map(rng.sample(StandardNormal));
            values.push((0..operand.desc.n_elems()).map(|_| draw()).collect::<Vec<f64>>());
        }
        oxidnn_reference::judge(&problem.text())?.make_admissible(&mut values);
        for (operand, values) in problem.operands().iter().zip(&values) {
            let tensor = context.tensor_from(&operand.desc, values)?;
            // What is stored, after rounding to the element type.
            prior.push(tensor.to_vec::<f64>(&stream)?);
            tensors.push(tensor);
        }
        let workspace = plan.workspace()?;
        Ok(Trial { stream, tensors, prior, workspace, alpha: options.alpha, beta: options.beta })
    }

    fn run(&mut self, plan: &Plan) -> Result<()> {
        let mut args = RunArgs::new().alpha(self.alpha).beta(self.beta);
        for (operand, tensor) in plan.operands().iter().zip(&mut self.tensors) {
            args = match operand.role {
                Role::Input => args.input(operand.name, &*tensor),
                Role::Output | Role::Update | Role::Result => args.output(operand.name, tensor),
            };
        }
        plan.run(&self.stream, args, &mut self.workspace)?;
        Ok(())
    }

    /// The largest relative error of any output after one run, and what is allowed.
    fn error(&self, problem: &dyn AnyProblem) -> Result<(f64, f64)> {
        let judge = oxidnn_reference::judge(&problem.text())?;
        let bare = judge.judge_scaled(&self.prior, self.alpha, self.beta);
        let scales = tolerance::scales(&problem.operands(), &self.prior, (self.alpha, self.beta), |values| {
            judge.judge_magnitudes(values, self.alpha, self.beta)
        });
        let whole = |values: &Vec<f64>| values.iter().map(|&value| value as i128).collect();
        let mut exact = judge.judge_integers(&self.prior.iter().map(whole).collect::<Vec<_>>()).map(Vec::into_iter);
        let (mut worst, mut limit) = (0.0f64, 0.0f64);
        let written = problem.operands().into_iter().zip(&self.tensors).zip(&self.prior);
        for (((((operand, tensor), prior), bare), scales), rounded_to) in written
            .filter(|((operand, _), _)| operand.role != Role::Input)
            .zip(bare)
            .zip(scales)
            .zip(judge.rounded_to())
        {
            let expected: Vec<f64> = bare
                .iter()
                .zip(prior)
                .map(|(bare, prior)| match operand.role {
                    Role::Output if self.beta != 0.0 => self.alpha * bare + self.beta * prior,
                    Role::Output => self.alpha * bare,
                    _ => *bare,
                })
                .collect();
            let got = tensor.to_vec::<f64>(&self.stream)?;
            let dtype = operand.desc.dtype();
            let scalars = if operand.role == Role::Output { (self.alpha, self.beta) } else { (1.0, 0.0) };
            let expected: Vec<f64> = match exact.as_mut().and_then(Iterator::next) {
                Some(results) => results
                    .into_iter()
                    .zip(prior)
                    .map(|(r, p)| integers::stored(dtype, (r, *p as i128), scalars, judge.cast()) as f64)
                    .collect(),
                None if dtype.is_integer() => {
                    expected.iter().map(|value| integers::rounded(dtype, *value, judge.cast()) as f64).collect()
                }
                None => expected,
            };
            let stored = |(&expected, &got): (&f64, &f64)| tolerance::as_stored(operand.desc.dtype(), expected, got);
            let expected: Vec<f64> = expected.iter().zip(&got).map(stored).collect();
            let error = tolerance::error(&expected, &got, &scales);
            if error.is_nan() || error > worst {
                worst = error;
            }
            let length = problem.accumulation_length();
            limit = limit.max(tolerance::relative(rounded_to, problem.precision(), length, 1.0));
        }
        Ok((worst, limit))
    }

    /// Median time of a run, in microseconds.
    fn time(&mut self, plan: &Plan) -> Result<f64> {
        let mut times = Vec::new();
        for _ in 0..RUNS {
            let stream = self.stream.clone();
            let timer = stream.timer()?;
            self.run(plan)?;
            times.push(timer.stop_us()?);
        }
        times.sort_by(f64::total_cmp);
        Ok(times[times.len() / 2])
    }
}
