//! `cargo xtask setup`: installs what building kernels needs, and fetches ONNX's node tests.

use crate::process;
use anyhow::{Context as _, Result, bail};
use cuda_builder::toolchain;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The assembler's package and version: that of CUDA 13.0. Later ones drop no architecture that is built here.
const PTXAS_PACKAGE: &str = "nvidia-cuda-nvcc==13.0.88";

/// Where the assembler lies in its package.
const PTXAS_MEMBER: &str = "nvidia/cu13/bin/ptxas";

/// The package that has ONNX's node tests as files; later versions make them up when they run.
const ONNX_PACKAGE: &str = "onnx==1.22.0";

/// What computes random nodes once more, beside ONNX's own evaluator.
const JUDGE_PACKAGES: [&str; 2] = ["onnxruntime==1.32.0", "numpy==2.4.6"];

/// Installs a kernel compiler and `ptxas`, and fetches ONNX's cases, where they are missing.
pub fn run(root: &Path) -> Result<()> {
    if let Err(missing) = toolchain::discover() {
        println!("setup: {missing}");
        install_compiler()?;
    }
    let compiler = toolchain::discover().map_err(anyhow::Error::msg)?;
    println!("setup: kernels are compiled by {}", compiler.version);
    if toolchain::ptxas().is_none() {
        // The assembler is a check; where it cannot be had, its gates are left out and the table shows dashes.
        if let Err(e) = install_ptxas(root) {
            println!("setup: no ptxas, kernels are not checked by it: {e:#}");
        }
    }
    if let Some(ptxas) = toolchain::ptxas() {
        println!("setup: and checked by ptxas {}", ptxas.version);
    }
    println!("setup: ONNX's node tests are in {}", onnx_cases(root)?.display());
    Ok(())
}

/// The package with ONNX's node tests, fetched with pip where it is missing.
pub fn onnx_cases(root: &Path) -> Result<PathBuf> {
    let folder = root.join("target/onnx");
    std::fs::create_dir_all(&folder)?;
    if let Some(wheel) = wheel_in(&folder)? {
        return Ok(wheel);
    }
    install_pip()?;
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:", ONNX_PACKAGE, "-d"]).arg(&folder);
    process::run(&mut pip).with_context(|| format!("fetching {ONNX_PACKAGE}"))?;
    wheel_in(&folder)?.with_context(|| format!("expected {ONNX_PACKAGE} in {}, given nothing", folder.display()))
}

/// The folder with Python's packages of the second judge of random nodes, fetched with pip where one is missing.
pub fn onnx_judges(root: &Path) -> Result<PathBuf> {
    let folder = root.join("target/onnx/python");
    let is_there = |package: &&str| folder.join(format!("{}.dist-info", package.replace("==", "-"))).exists();
    let packages = [&[ONNX_PACKAGE], &JUDGE_PACKAGES[..]].concat();
    if packages.iter().all(is_there) {
        return Ok(folder);
    }
    install_pip()?;
    if folder.exists() {
        std::fs::remove_dir_all(&folder)?;
    }
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "install", "-q", "--only-binary=:all:", "--target"]).arg(&folder).args(&packages);
    process::run(&mut pip).with_context(|| format!("fetching {} with pip", packages.join(", ")))?;
    Ok(folder)
}

/// The version of [`ONNX_PACKAGE`] that lies in a folder.
fn wheel_in(folder: &Path) -> Result<Option<PathBuf>> {
    let prefix = format!("{}-", ONNX_PACKAGE.replace("==", "-"));
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.starts_with(&prefix) && name.ends_with(".whl") {
            return Ok(Some(path));
        }
    }
    Ok(None)
}

/// Debian's packages where there is apt, else rustup's nightly.
fn install_compiler() -> Result<()> {
    if !Path::new("/usr/bin/apt-get").exists() {
        return process::run(Command::new("rustup").args([
            "toolchain",
            "install",
            "nightly",
            "--profile",
            "minimal",
            "--component",
            "rust-src,llvm-tools",
        ]));
    }
    apt(&["update"])?;
    apt(&[&["install", "-y", "--no-install-recommends"], &toolchain::DEBIAN_PACKAGES[..]].concat())?;
    // The compiler's LLVM says which tools it needs: the package moves with security updates.
    let about = process::output(Command::new("/usr/bin/rustc").arg("-vV"))?;
    let version = about.lines().find_map(|line| line.strip_prefix("LLVM version: ")).context("reading rustc -vV")?;
    let major = version.split('.').next().unwrap_or_default();
    apt(&["install", "-y", "--no-install-recommends", &format!("llvm-{major}")])
}

fn apt(args: &[&str]) -> Result<()> {
    let is_root = process::output(Command::new("id").arg("-u"))?.trim() == "0";
    let mut command = if is_root { Command::new("apt-get") } else { Command::new("sudo") };
    if !is_root {
        command.arg("apt-get");
    }
    process::run(command.args(args).args(["-q"]).env("DEBIAN_FRONTEND", "noninteractive"))
}

/// pip, where it is missing and apt has it.
fn install_pip() -> Result<()> {
    if Command::new("pip3").arg("--version").output().map_or(true, |output| !output.status.success())
        && Path::new("/usr/bin/apt-get").exists()
    {
        apt(&["install", "-y", "--no-install-recommends", "python3-pip"])?;
    }
    Ok(())
}

/// Fetches the package with pip and unpacks the one file.
fn install_ptxas(root: &Path) -> Result<()> {
    install_pip()?;
    let tools = root.join("target/tools");
    std::fs::create_dir_all(&tools)?;
    let script = format!(
        "import glob, os, shutil, subprocess, sys, tempfile, zipfile\n\
         with tempfile.TemporaryDirectory() as folder:\n\
         \x20   subprocess.check_call([sys.executable, '-m', 'pip', 'download', '-q', '--no-deps', '-d', folder, '{PTXAS_PACKAGE}'])\n\
         \x20   wheel, = glob.glob(folder + '/*.whl')\n\
         \x20   with zipfile.ZipFile(wheel).open('{PTXAS_MEMBER}') as member, open('ptxas.part', 'wb') as file:\n\
         \x20       shutil.copyfileobj(member, file)\n\
         os.chmod('ptxas.part', 0o755)\n\
         os.rename('ptxas.part', 'ptxas')\n"
    );
    let python =
        Command::new("python3").args(["-c", &script]).current_dir(&tools).status().context("starting python3")?;
    if !python.success() {
        bail!("fetching {PTXAS_PACKAGE} with pip failed");
    }
    Ok(())
}
