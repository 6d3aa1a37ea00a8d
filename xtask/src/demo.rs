//! `cargo xtask demo`: trains the digits network on the best device there is.

use crate::process;
use anyhow::Result;
use std::path::Path;

/// Builds the command-line tool and trains. Needs neither a GPU nor a kernel compiler: the repository carries PTX.
pub fn run(root: &Path, args: &[String]) -> Result<()> {
    process::run(process::cargo(root).args(["run", "--quiet", "--package", "oxidnn-cli", "--", "train"]).args(args))
}
