//! `cargo xtask test`: everything CI tests, in one command.

use crate::{process, setup, simulate};
use anyhow::Result;
use std::collections::BTreeSet;
use std::path::Path;

/// Every test but those of documentation.
const TESTS: [&str; 5] = ["test", "--workspace", "--lib", "--bins", "--tests"];

/// Builds the kernels with their gates, then runs every test of the workspace and counts what was skipped, and what
/// ran on a simulated device.
pub fn run(root: &Path, kernels: bool, simulates: bool) -> Result<()> {
    if kernels {
        setup::run(root)?;
        // The compiler of the kernels keeps one core busy for minutes. What fails to compile here does so again below.
        let mut ahead = process::cargo(root).args(TESTS).args(["--no-run", "--quiet"]).spawn().ok();
        let checked = crate::build_ptx::check(root);
        if let Some(ahead) = &mut ahead {
            ahead.wait()?;
        }
        checked?;
    }
    crate::tidy::run(root)?;
    let folder = if simulates && !has_gpu() { Some(simulate::library(root)?) } else { None };
    let [skipped, simulated] = ["skipped", "simulated"].map(|what| root.join(format!("target/{what}.txt")));
    for list in [&skipped, &simulated] {
        if list.exists() {
            std::fs::remove_file(list)?;
        }
    }
    let mut command = process::cargo(root);
    command.args(TESTS).arg("--no-fail-fast");
    command.env("OXIDNN_SKIPPED", &skipped).env("OXIDNN_SIMULATED", &simulated);
    if let Some(folder) = &folder {
        simulate::on_simulator(&mut command, root, folder)?;
    }
    let tests = process::run(&mut command);
    let onnx = crate::onnx::command(root).and_then(|mut runner| process::run(runner.env("OXIDNN_SKIPPED", &skipped)));
    let random = crate::onnx::random(root);
    println!("skipped: no GPU, or another than a test is for: {} tests", names(&skipped).len());
    if folder.is_some() {
        println!("no GPU here: {} tests ran on a simulated device", names(&simulated).len());
    }
    tests?;
    onnx?;
    random?;
    process::run(process::cargo(root).args(["test", "--workspace", "--doc"]))
}

/// Whether the kernel's part of a driver is there.
fn has_gpu() -> bool {
    ["/dev/nvidiactl", "/dev/dxg"].iter().any(|device| Path::new(device).exists())
}

/// The tests that a list names.
fn names(list: &Path) -> BTreeSet<String> {
    std::fs::read_to_string(list).unwrap_or_default().lines().map(str::to_owned).collect()
}
