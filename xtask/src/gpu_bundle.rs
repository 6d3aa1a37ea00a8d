//! `cargo xtask gpu-bundle`: one folder with everything needed to test and bench where there is only a driver.

use crate::artifact::build;
use crate::process;
use anyhow::{Context as _, Result, bail};
use liblzma::stream::{Check, Filters, LzmaOptions, Stream};
use liblzma::write::XzEncoder;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The bundle must stay below this to travel easily.
const MAX_BYTES: u64 = 60_000_000;

/// Writes `gpu-bundle/` in the workspace's root.
///
/// `programs.tar.xz` holds, in `bin/`, test executables (`test-*`), benchmarks (`bench-*`), `oxidnn` and
/// `oxidnn-onnx`, stripped, with PTX embedded; `unpack.sh` unpacks it. `onnx.zip` has ONNX's cases; `run.sh` runs all
/// tests, ONNX's too, and exits non-zero on any failure; `measure.sh` measures the tables of `benches/results`,
/// `sanitize.sh` runs a problem of each algorithm under compute-sanitizer;
/// `judge_pytorch.py` times problems through PyTorch.
pub fn run(root: &Path, cubin: bool) -> Result<()> {
    let bundle = root.join("gpu-bundle");
    if bundle.exists() {
        std::fs::remove_dir_all(&bundle).context("removing the old bundle")?;
    }
    std::fs::create_dir(&bundle)?;
    pack(&programs(root, cubin)?, &bundle.join("programs.tar.xz"))?;
    crate::onnx::write_cases(root, &bundle.join("onnx.zip"))?;
    for script in [
        "xtask/gpu-bundle/run.sh",
        "xtask/gpu-bundle/unpack.sh",
        "xtask/gpu-bundle/measure.sh",
        "xtask/gpu-bundle/sanitize.sh",
        "docs/onnx.md",
        "benches/judge_pytorch.py",
        "benches/torch_operators.py",
    ] {
        let from = root.join(script);
        let name = from.file_name().with_context(|| format!("expected a file, given {script}"))?;
        std::fs::copy(&from, bundle.join(name)).with_context(|| format!("copying {script}"))?;
    }
    let commit = process::output(Command::new("git").current_dir(root).args([
        "describe",
        "--always",
        "--dirty",
        "--abbrev=12",
    ]))?;
    std::fs::write(bundle.join("commit.txt"), commit)?;
    let mut total_bytes = 0;
    for entry in std::fs::read_dir(&bundle)? {
        total_bytes += entry?.metadata()?.len();
    }
    println!("{}: {:.1} MB", bundle.display(), total_bytes as f64 / 1e6);
    if total_bytes > MAX_BYTES {
        bail!("expected a bundle of at most {MAX_BYTES} bytes, given {total_bytes}");
    }
    Ok(())
}

/// Builds and strips the executables, by the names that they have in the bundle.
fn programs(root: &Path, cubin: bool) -> Result<Vec<(String, PathBuf)>> {
    let folder = root.join("target/gpu-bundle");
    std::fs::create_dir_all(&folder)?;
    let features: &[&str] = if cubin { &["--features", "oxidnn/cubin"] } else { &[] };
    // One build, with the features that the workspace's tests have: all of it is there where they were built before.
    let packages = ["oxidnn", "oxidnn-tests", "oxidnn-cli", "oxidnn-benches", "oxidnn-conformance"];
    let packages: Vec<&str> = packages.into_iter().flat_map(|package| ["-p", package]).collect();
    let mut programs = Vec::new();
    for artifact in build(root, &[&packages[..], &["--bins", "--tests"], features].concat())? {
        let name = match artifact.test_name() {
            Some(name) if ["host", "tests"].contains(&artifact.package.as_str()) => format!("test-{name}"),
            // The programs have tests too, which stay here.
            Some(_) => continue,
            None if artifact.target.starts_with("oxidnn") => artifact.target,
            None => format!("bench-{}", artifact.target),
        };
        let stripped = folder.join(&name);
        process::run(Command::new("strip").arg("-o").arg(&stripped).arg(&artifact.executable))?;
        programs.push((name, stripped));
    }
    Ok(programs)
}

/// Packs executables into `bin/` of an archive.
///
/// They share most of what they are made of, the embedded PTX first of all: a window as large as all of them keeps it
/// once, which makes 15 MB of 110.
fn pack(programs: &[(String, PathBuf)], to: &Path) -> Result<()> {
    let mut options = LzmaOptions::new_preset(1)?;
    options.dict_size(256 << 20);
    let encoder = Stream::new_stream_encoder(Filters::new().lzma2(&options), Check::Crc64)?;
    let file = std::fs::File::create(to).with_context(|| format!("writing {}", to.display()))?;
    let mut archive = tar::Builder::new(XzEncoder::new_stream(file, encoder));
    for (name, executable) in programs {
        archive.append_path_with_name(executable, Path::new("bin").join(name))?;
    }
    archive.into_inner()?.finish()?;
    Ok(())
}
