//! `cargo xtask test`: everything CI tests, in one command.

use crate::{process, setup};
use anyhow::Result;
use std::path::Path;

/// Builds the kernels with their gates, then runs every test of the workspace and counts what was skipped.
pub fn run(root: &Path, kernels: bool) -> Result<()> {
    if kernels {
        setup::run(root)?;
        crate::build_ptx::check(root)?;
    }
    crate::tidy::run(root)?;
    let skipped = root.join("target/skipped.txt");
    if skipped.exists() {
        std::fs::remove_file(&skipped)?;
    }
    let mut command = process::cargo(root);
    command.args(["test", "--workspace", "--no-fail-fast", "--lib", "--bins", "--tests"]);
    let tests = process::run(command.env("OXIDNN_SKIPPED", &skipped));
    let onnx = crate::onnx::command(root).and_then(|mut runner| process::run(runner.env("OXIDNN_SKIPPED", &skipped)));
    let n_skipped = std::fs::read_to_string(&skipped).map_or(0, |text| text.lines().count());
    println!("skipped: no GPU: {n_skipped} tests");
    tests?;
    onnx?;
    process::run(process::cargo(root).args(["test", "--workspace", "--doc"]))
}
