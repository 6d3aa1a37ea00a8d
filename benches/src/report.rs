//! The table every benchmark writes.

use crate::options::Options;
use anyhow::{Context as _, Result};
use oxidnn::driver::{GpuContext, driver_version};
use std::fmt::Write as _;

/// One timed problem.
#[derive(Clone, Debug)]
pub struct Row {
    /// The benchmark.
    pub suite: &'static str,
    /// The problem's text.
    pub problem: String,
    /// Its pass.
    pub pass: String,
    /// Element type.
    pub dtype: String,
    /// Orientation or layout.
    pub layout: String,
    /// Our time a call.
    pub ours_us: f64,
    /// Who we are compared with.
    pub peer: String,
    /// Their time a call; NaN for none.
    pub peer_us: f64,
    /// Our kernel.
    pub algorithm: String,
    /// Our workspace.
    pub workspace_bytes: u64,
    /// The largest error, relative to the expected value plus the root mean square.
    pub max_rel_err: f64,
    /// Bytes of every operand once, by our time.
    pub gbps: f64,
    /// The same by a plain copy's rate; NaN where that was not measured.
    pub fraction_of_copy: f64,
}

const COLUMNS: &str = "suite,problem,pass,dtype,layout,ours_us,peer,peer_us,ratio,algorithm,workspace_bytes,\
max_rel_err,gbps,fraction_of_copy";

/// The table: comments on where it was made, then one line a problem.
#[derive(Debug)]
pub struct Report(String);

impl Report {
    /// Says where it is made.
    pub fn new(context: &GpuContext, peer: &str) -> Self {
        let mut text = String::new();
        let driver = driver_version().unwrap_or(0);
        let commit = std::env::var("OXIDNN_COMMIT").unwrap_or_else(|_| "unknown".to_owned());
        let command = std::env::args().collect::<Vec<_>>().join(" ");
        for (name, value) in [
            ("gpu", context.name()),
            ("driver", &format!("CUDA {}.{}", driver / 1000, driver % 1000 / 10)),
            ("peer", peer),
            ("commit", &commit),
            ("command", &command),
        ] {
            // Writing to a string does not fail.
            let _ = writeln!(text, "# {name}: {value}");
        }
        let _ = writeln!(text, "{COLUMNS}");
        print!("{text}");
        Report(text)
    }

    /// Adds a line, and shows it.
    pub fn push(&mut self, row: &Row) {
        let number = |value: f64, digits: usize| {
            if value.is_finite() { format!("{value:.digits$}") } else { String::new() }
        };
        let line = format!(
            "{},{},{},{},{},{},{},{},{},{},{},{:.2e},{},{}",
            row.suite,
            row.problem,
            row.pass,
            row.dtype,
            row.layout,
            number(row.ours_us, 2),
            row.peer,
            number(row.peer_us, 2),
            number(row.peer_us / row.ours_us, 3),
            row.algorithm,
            row.workspace_bytes,
            row.max_rel_err,
            number(row.gbps, 1),
            number(row.fraction_of_copy, 3),
        );
        println!("{line}");
        self.0.push_str(&line);
        self.0.push('\n');
    }

    /// Writes the file that was asked for.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn finish(self, options: &Options) -> Result<()> {
        match &options.out {
            Some(path) => std::fs::write(path, self.0).with_context(|| format!("writing {}", path.display())),
            None => Ok(()),
        }
    }
}
