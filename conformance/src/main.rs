//! `oxidnn-onnx`: ONNX's node tests, computed by oxidnn's operators on every device.
//!
//! A [case](wheel::Case) is a model and values of its inputs and outputs, read from ONNX's [package](wheel). Its
//! [nodes](graph) are mapped to problems of our operators, a file a family in [`ops`]; what our operators lack is
//! [refused](stop::Stop) with the reason. [`report`] prints the lines and writes `docs/onnx.md`, which a run is checked
//! against.

mod device;
mod graph;
mod judge;
mod layout;
mod node;
mod ops;
mod proto;
mod random;
mod report;
mod stop;
mod value;
mod wheel;

use anyhow::{Context as _, Result, bail};
use clap::{Parser, ValueEnum};
use device::Device;
use oxidnn::Context;
use report::{Counts, Line};
use std::path::PathBuf;
use std::process::ExitCode;
use wheel::{Case, Wheel};

/// Runs ONNX's node tests over oxidnn's operators: one line a case, then how many passed, were refused and failed
#[derive(Parser)]
#[command(name = "oxidnn-onnx", version)]
struct Cli {
    /// Only cases whose names contain one of these words
    words: Vec<String>,
    /// ONNX's package of version 1.22.0, a zip archive: `cargo xtask onnx` fetches it and names it here
    #[arg(long, required_unless_present = "random")]
    cases: Option<PathBuf>,
    /// So many random nodes instead, judged by loops written from the specification
    #[arg(long, conflicts_with_all = ["words", "write_docs"])]
    random: Option<u64>,
    /// What random nodes are drawn by
    #[arg(long, default_value_t = 20)]
    seed: u64,
    /// Of random nodes the one with this number
    #[arg(long, requires = "random")]
    only: Option<u64>,
    /// Writes random nodes with inputs and results to this folder, a model each
    #[arg(long, requires = "random")]
    export: Option<PathBuf>,
    /// Where to compute
    #[arg(long, value_enum, default_value = "all")]
    device: Devices,
    /// The page of docs that says what must pass; every device is held against it, unless words are given
    #[arg(long)]
    docs: Option<PathBuf>,
    /// Write that page anew
    #[arg(long, requires = "docs", conflicts_with = "words")]
    write_docs: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Devices {
    /// The CPU, and the first GPU where there is one
    All,
    Cpu,
    Gpu,
}

fn main() -> ExitCode {
    match run(&Cli::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(e) => {
            eprintln!("error: {e:#}");
            ExitCode::from(2)
        }
    }
}

/// Whether nothing failed, and every device made of the cases what the page says.
fn run(options: &Cli) -> Result<bool> {
    if let Some(count) = options.random {
        return random_nodes(options, count);
    }
    let cases = cases(options)?;
    let mut good = true;
    for (name, context) in devices(options.device)? {
        let device = Device::new(&context)?;
        let mut lines = Vec::new();
        for (op, case) in &cases {
            let line = Line { op, case: case.name.clone(), outcome: graph::run(case, &device) };
            println!("{name}  {line}");
            lines.push(line);
        }
        let counts = Counts::of(&lines);
        println!("{name}: {counts} ({})", context.info().name);
        good &= counts.failed == 0;
        if let Some(path) = options.docs.as_ref().filter(|_| options.words.is_empty()) {
            let page = report::page(&lines);
            if options.write_docs && counts.failed == 0 {
                std::fs::write(path, &page).with_context(|| format!("writing {}", path.display()))?;
            }
            let committed = std::fs::read_to_string(path).unwrap_or_default();
            if let Some(difference) = report::first_difference(&committed, &page) {
                println!("{name}: this is not what {} says; {difference}", path.display());
                good = false;
            }
        }
    }
    Ok(good)
}

/// Whether no random node was wrong on any device.
fn random_nodes(options: &Cli, count: u64) -> Result<bool> {
    let nodes = options.only.map_or(0..count, |only| only..only + 1);
    if let Some(folder) = &options.export {
        std::fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
    }
    let mut good = true;
    for (name, context) in devices(options.device)? {
        let device = Device::new(&context)?;
        let counts = random::run(options.seed, nodes.clone(), options.export.as_deref(), &device)?;
        for (reason, n) in &counts.refused {
            println!("{name}  refused {n} times  {reason}");
        }
        let (right, wrong, refused) = (counts.right, counts.wrong, counts.refused.values().sum::<usize>());
        println!("{name}: {right} random nodes right, {refused} refused, {wrong} wrong");
        good &= wrong == 0;
    }
    Ok(good)
}

/// The cases of this project, each with the operator that it is listed under.
fn cases(options: &Cli) -> Result<Vec<(&'static str, Case)>> {
    let path = options.cases.as_ref().context("expected ONNX's package, given none")?;
    let mut wheel = Wheel::open(path)?;
    let mut cases = Vec::new();
    for name in wheel.names() {
        if !options.words.is_empty() && !options.words.iter().any(|word| name.contains(word)) {
            continue;
        }
        let model = wheel.model(&name)?;
        if let Some(op) = graph::listed_under(&name, &model) {
            cases.push((op, wheel.case(&name, model)?));
        }
    }
    if cases.is_empty() {
        bail!("expected a case, given none for {:?}", options.words);
    }
    Ok(cases)
}

fn devices(which: Devices) -> Result<Vec<(&'static str, Context)>> {
    let mut devices = Vec::new();
    if which != Devices::Gpu {
        devices.push(("cpu", Context::cpu()));
    }
    match which {
        Devices::Cpu => {}
        Devices::Gpu => devices.push(("gpu", Context::gpu(0)?)),
        Devices::All => devices.extend(oxidnn_tests::gpu("onnx").map(|context| ("gpu", context))),
    }
    Ok(devices)
}
