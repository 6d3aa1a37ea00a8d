//! `cargo xtask onnx`: ONNX's node tests over our operators.

use crate::artifact::build;
use crate::{process, setup};
use anyhow::{Context as _, Result};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use zip::{ZipArchive, ZipWriter};

/// The program that runs the cases.
const RUNNER: &str = "oxidnn-onnx";

/// Runs the cases on every device and compares with the page that is committed.
pub fn run(root: &Path, args: &[String]) -> Result<()> {
    process::run(command(root)?.args(args))?;
    if args.is_empty() { random(root) } else { Ok(()) }
}

/// How many random nodes are drawn, and how many of them the second judge computes.
const RANDOM_NODES: [&str; 2] = ["3000", "500"];

/// Computes random nodes on every device, and has some of the CPU's judged by onnxruntime and ONNX's own evaluator.
pub fn random(root: &Path) -> Result<()> {
    let runner = runner(root)?;
    let [drawn, judged] = RANDOM_NODES;
    let by_loops = process::run(Command::new(&runner).current_dir(root).args(["--random", drawn]));
    let folder = root.join("target/onnx/random");
    if folder.exists() {
        std::fs::remove_dir_all(&folder)?;
    }
    let packages = setup::onnx_judges(root)?;
    let mut export = Command::new(&runner);
    export.current_dir(root).args(["--device", "cpu", "--random", judged, "--export"]).arg(&folder);
    // Its own judge has spoken above.
    export.stdout(Stdio::null()).status().context("exporting random nodes")?;
    let mut script = Command::new("python3");
    script.current_dir(root).env("PYTHONPATH", packages).arg("conformance/random_judge.py").arg(&folder);
    let by_others = process::run(&mut script);
    by_loops?;
    by_others
}

/// The runner with everything it needs, built; the cases are fetched where they are missing.
pub fn command(root: &Path) -> Result<Command> {
    let cases = setup::onnx_cases(root)?;
    let mut runner = Command::new(runner(root)?);
    runner.current_dir(root).args(["--docs", "docs/onnx.md", "--cases"]).arg(cases);
    Ok(runner)
}

/// The program, built.
fn runner(root: &Path) -> Result<PathBuf> {
    // Beside a test, with the features that all tests are built with: else the library would be built once more.
    let built = build(root, &["--quiet", "--workspace", "--bin", RUNNER, "--test", "store"])?;
    let found = built.iter().find(|artifact| artifact.target == RUNNER);
    Ok(PathBuf::from(&found.with_context(|| format!("cargo built no {RUNNER}"))?.executable))
}

/// Writes an archive that has of ONNX's package the cases alone.
pub fn write_cases(root: &Path, to: &Path) -> Result<()> {
    let mut package = ZipArchive::new(File::open(setup::onnx_cases(root)?)?).context("reading ONNX's package")?;
    let mut cases = ZipWriter::new(File::create(to)?);
    for i in 0..package.len() {
        let file = package.by_index_raw(i)?;
        if file.name()?.starts_with("onnx/backend/test/data/node/") {
            cases.raw_copy_file(file)?;
        }
    }
    cases.finish().with_context(|| format!("writing {}", to.display()))?;
    Ok(())
}
