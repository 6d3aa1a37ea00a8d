//! `cargo xtask onnx`: ONNX's node tests over our operators.

use crate::artifact::build;
use crate::{process, setup};
use anyhow::{Context as _, Result};
use std::fs::File;
use std::path::Path;
use std::process::Command;
use zip::{ZipArchive, ZipWriter};

/// The program that runs the cases.
const RUNNER: &str = "oxidnn-onnx";

/// Runs the cases on every device and compares with the page that is committed.
pub fn run(root: &Path, args: &[String]) -> Result<()> {
    process::run(command(root)?.args(args))
}

/// The runner with everything it needs, built; the cases are fetched where they are missing.
pub fn command(root: &Path) -> Result<Command> {
    let cases = setup::onnx_cases(root)?;
    // Beside a test, with the features that all tests are built with: else the library would be built once more.
    let built = build(root, &["--quiet", "--workspace", "--bin", RUNNER, "--test", "store"])?;
    let found = built.iter().find(|artifact| artifact.target == RUNNER);
    let mut runner = Command::new(&found.with_context(|| format!("cargo built no {RUNNER}"))?.executable);
    runner.current_dir(root).args(["--docs", "docs/onnx.md", "--cases"]).arg(cases);
    Ok(runner)
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
