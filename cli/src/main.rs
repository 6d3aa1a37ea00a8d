//! The `oxidnn` command: looks at devices, runs single problems, plans networks, compares with the peers, trains a small network.

mod info;
mod plan;
mod run;
mod train;

use anyhow::Result;
use clap::{Parser, Subcommand};
use oxidnn::Context;
use std::process::ExitCode;

/// Deep-learning primitives in Rust: look at devices, run single problems, plan networks, compare with the peers, train a small network
#[derive(Parser)]
#[command(name = "oxidnn", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Show devices, embedded kernels and operators
    Info(info::Options),
    /// Run one problem on random data, verify it against the reference and time it
    Run(run::Options),
    /// Plan a network within a limit of workspace: batches are divided where that is faster
    Plan(Box<plan::Options>),
    /// Time suites of problems against cuDNN and cuBLASLt, in turns, and check every result
    Compare(Box<oxidnn_compare::Options>),
    /// Train a small convolutional network on 8x8 handwritten digits and write a report
    Train(train::Options),
}

/// What was asked for could not be done: a bad problem, no such device.
const REFUSED: u8 = 2;
/// It was done and came out wrong.
const WRONG: u8 = 1;

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Info(options) => info::run(&options).map(|()| true),
        Command::Run(options) => run::run(&options),
        Command::Plan(options) => plan::run(&options).map(|()| true),
        Command::Compare(options) => oxidnn_compare::run(&options),
        Command::Train(options) => train::run(&options).map(|()| true),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(WRONG),
        Err(e) if is_broken_pipe(&e) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("error: {e:#}");
            ExitCode::from(REFUSED)
        }
    }
}

/// Whoever read our output has seen enough.
fn is_broken_pipe(e: &anyhow::Error) -> bool {
    e.chain()
        .any(|cause| cause.downcast_ref::<std::io::Error>().is_some_and(|e| e.kind() == std::io::ErrorKind::BrokenPipe))
}

/// The device for `--device`: `cpu`, `gpu`, `gpu:<ordinal>`, or the best there is.
fn device(word: Option<&str>) -> Result<Context> {
    match word {
        None => Ok(Context::best()?),
        Some("cpu") => Ok(Context::cpu()),
        Some("gpu") => Ok(Context::gpu(0)?),
        Some(word) => match word.strip_prefix("gpu:").and_then(|ordinal| ordinal.parse().ok()) {
            Some(ordinal) => Ok(Context::gpu(ordinal)?),
            None => anyhow::bail!("--device: expected cpu, gpu or gpu:<ordinal>, given {word:?}"),
        },
    }
}
