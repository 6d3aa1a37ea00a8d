//! Running other programs.

use anyhow::{Context as _, Result, bail};
use std::path::Path;
use std::process::Command;

/// The cargo that runs this xtask, at the workspace's root.
pub fn cargo(root: &Path) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root);
    command
}

/// Runs a program to its end, its output going where ours goes.
pub fn run(command: &mut Command) -> Result<()> {
    let shown = format!("{command:?}");
    let status = command.status().with_context(|| format!("could not start {shown}"))?;
    if !status.success() {
        bail!("{shown} failed: {status}");
    }
    Ok(())
}

/// Runs a program to its end and gives its standard output.
pub fn output(command: &mut Command) -> Result<String> {
    let shown = format!("{command:?}");
    let output =
        command.stderr(std::process::Stdio::inherit()).output().with_context(|| format!("could not start {shown}"))?;
    if !output.status.success() {
        bail!("{shown} failed: {}", output.status);
    }
    String::from_utf8(output.stdout).with_context(|| format!("{shown} printed something that is not UTF-8"))
}
