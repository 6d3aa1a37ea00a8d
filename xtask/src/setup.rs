//! `cargo xtask setup`: installs what building kernels needs.

use crate::process;
use anyhow::{Context as _, Result, bail};
use cuda_builder::toolchain;
use std::path::Path;
use std::process::Command;

/// The assembler's package and version: that of CUDA 13.0. Later ones drop no architecture that is built here.
const PTXAS_PACKAGE: &str = "nvidia-cuda-nvcc==13.0.88";

/// Where the assembler lies in its package.
const PTXAS_MEMBER: &str = "nvidia/cu13/bin/ptxas";

/// Installs a kernel compiler and `ptxas`, where they are missing.
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
    Ok(())
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

/// Fetches the package with pip and unpacks the one file.
fn install_ptxas(root: &Path) -> Result<()> {
    if Command::new("pip3").arg("--version").output().map_or(true, |output| !output.status.success())
        && Path::new("/usr/bin/apt-get").exists()
    {
        apt(&["install", "-y", "--no-install-recommends", "python3-pip"])?;
    }
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
