//! Executables that cargo builds, and where it puts them.

use crate::process;
use anyhow::{Context as _, Result};
use std::path::{Path, PathBuf};

/// An executable that cargo built.
pub struct Artifact {
    /// Its package's folder.
    pub package: String,
    /// What the package calls it.
    pub target: String,
    is_test: bool,
    /// Where it is.
    pub executable: PathBuf,
}

impl Artifact {
    /// The name of a test executable; None for anything else.
    pub fn test_name(&self) -> Option<String> {
        let name =
            if self.package == self.target { self.target.clone() } else { format!("{}-{}", self.package, self.target) };
        self.is_test.then_some(name)
    }
}

/// Runs a cargo build and lists the executables it made.
pub fn build(root: &Path, args: &[&str]) -> Result<Vec<Artifact>> {
    let text = process::output(
        process::cargo(root).arg("build").args(args).args(["--message-format", "json-render-diagnostics"]),
    )?;
    let mut artifacts = Vec::new();
    for line in text.lines().filter(|line| line.starts_with('{')) {
        let message: serde_json::Value = serde_json::from_str(line).context("reading cargo's messages")?;
        if let Some(executable) = message["executable"].as_str() {
            let manifest = Path::new(message["manifest_path"].as_str().unwrap_or_default());
            let package =
                manifest.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy().into_owned();
            artifacts.push(Artifact {
                package,
                target: message["target"]["name"].as_str().unwrap_or_default().to_owned(),
                is_test: message["profile"]["test"].as_bool().unwrap_or(false),
                executable: PathBuf::from(executable),
            });
        }
    }
    Ok(artifacts)
}
