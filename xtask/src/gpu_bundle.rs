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
    let tests = ["-p", "oxidnn", "-p", "oxidnn-tests", "--no-run", "--lib", "--tests"];
    let others = ["-p", "oxidnn-cli", "-p", "oxidnn-benches", "-p", "oxidnn-conformance", "--bins"];
    let tests = build(root, "test", &[&tests, features].concat())?;
    let others = build(root, "build", &[&others, features].concat())?;
    let tests = tests.into_iter().filter_map(|artifact| {
        let name = artifact.test_name()?;
        Some((format!("test-{name}"), artifact.executable))
    });
    let others = others.into_iter().map(|artifact| {
        let has_name = artifact.target.starts_with("oxidnn");
        (if has_name { artifact.target } else { format!("bench-{}", artifact.target) }, artifact.executable)
    });
    let mut programs = Vec::new();
    for (name, executable) in tests.chain(others) {
        let stripped = folder.join(&name);
        process::run(Command::new("strip").arg("-o").arg(&stripped).arg(&executable))?;
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
