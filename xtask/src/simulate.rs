//! `cargo xtask simulate`: programs on a simulated device.

use crate::process;
use anyhow::{Context as _, Result, bail};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Cases of a property test on the simulated device, where `OXIDNN_CASES` says nothing else.
const CASES: &str = "12";

/// Runs the GPU tests, or with `run` any command, with the simulator in the driver's place.
pub fn run(root: &Path, run: bool, args: &[String]) -> Result<()> {
    let folder = library(root)?;
    let (program, rest) = match args {
        [program, rest @ ..] if run => (program, rest),
        _ if run => bail!("expected a command after --run"),
        _ => {
            let mut command = process::cargo(root);
            // Of the workspace, whose features `cargo xtask test` builds with: else all would be built twice.
            command.args(["test", "--workspace", "--test", "operators", "--test", "units", "--"]).args(args);
            return process::run(on_simulator(&mut command, root, &folder)?);
        }
    };
    let mut command = Command::new(program);
    command.args(rest);
    process::run(on_simulator(&mut command, root, &folder)?)
}

/// Builds the simulator under the driver's name and gives its folder.
///
/// It is built for this machine's processor, whose vector instructions do a warp's work, and in a folder of its own,
/// since other flags would have everything else built anew.
pub fn library(root: &Path) -> Result<PathBuf> {
    let folder = root.join("target/simulator");
    let mut flags = std::env::var("RUSTFLAGS").unwrap_or_default();
    flags.push_str(" -C target-cpu=native");
    process::run(
        process::cargo(root)
            .args(["build", "--quiet", "--release", "--package", "cuda-simulator"])
            .env("RUSTFLAGS", flags.trim())
            .env("CARGO_TARGET_DIR", folder.join("build")),
    )?;
    // A process that has the old file open keeps it.
    let (built, new) = (folder.join("build/release/libcuda_simulator.so"), folder.join("libcuda.so.1.new"));
    std::fs::copy(&built, &new).with_context(|| format!("copying {}", built.display()))?;
    std::fs::rename(&new, folder.join("libcuda.so.1")).context("putting the simulator in its place")?;
    Ok(folder)
}

/// Has a program find the simulator where it looks for the driver.
pub fn on_simulator<'c>(command: &'c mut Command, root: &Path, folder: &Path) -> Result<&'c mut Command> {
    let mut paths = vec![folder.to_path_buf()];
    paths.extend(std::env::var_os("LD_LIBRARY_PATH").iter().flat_map(std::env::split_paths));
    command.env("LD_LIBRARY_PATH", std::env::join_paths(paths)?);
    // What is measured there is of no use elsewhere.
    let defaults =
        [("OXIDNN_CASES", OsString::from(CASES)), ("OXIDNN_STORE", root.join("target/simulator/store").into())];
    for (name, value) in defaults {
        if std::env::var_os(name).is_none() {
            command.env(name, value);
        }
    }
    Ok(command)
}
