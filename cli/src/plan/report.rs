//! What was chosen for each layer, as a table and as JSON.

use anyhow::Result;
use oxidnn::{Context, Division, Effort, LayerChoice, NetworkChoice};
use serde::Serialize;
use std::io::Write as _;

/// All layers with their sums.
#[derive(Serialize)]
pub(super) struct Report {
    pub(super) device: String,
    pub(super) layers: Vec<Row>,
    workspace_bytes: u64,
    time_us: f64,
    /// Where no batch is divided; none where that is not possible within the workspace.
    undivided_us: Option<f64>,
    /// Parts that were measured, in so many rounds.
    measured_parts: usize,
    rounds: usize,
    /// Parts that have no time and could be worth it.
    unmeasured: usize,
}

/// A layer.
#[derive(Serialize)]
pub(super) struct Row {
    pub(super) name: String,
    pub(super) problem: String,
    undivided_us: Option<f64>,
    undivided_bytes: Option<u64>,
    undivided: Option<String>,
    parts: Vec<Part>,
    time_us: f64,
    workspace_bytes: u64,
    /// Where the workspace begins in the buffer of all layers.
    offset: u64,
    /// Time undivided by the time divided.
    gain: Option<f64>,
    /// Why the batch cannot be divided.
    refusal: Option<String>,
}

/// A part of a batch.
#[derive(Serialize)]
struct Part {
    images: i64,
    algorithm: &'static str,
    kernel: &'static str,
    time_us: f64,
    workspace_bytes: u64,
}

impl Report {
    pub(super) fn new(context: &Context, names: &[String], choice: &NetworkChoice) -> Self {
        Report {
            device: context.info().name.clone(),
            layers: names.iter().zip(&choice.layers).map(|(name, layer)| Row::new(name, layer)).collect(),
            workspace_bytes: choice.workspace_bytes,
            time_us: choice.time_us(),
            undivided_us: choice.undivided_us(),
            measured_parts: 0,
            rounds: 0,
            unmeasured: 0,
        }
    }

    /// The same with what was measured for it, and how many parts were not.
    pub(super) fn measured(self, Effort { rounds, parts }: Effort, unmeasured: usize) -> Self {
        Report { measured_parts: parts, rounds, unmeasured, ..self }
    }

    pub(super) fn print(&self, json: bool) -> Result<()> {
        let mut out = std::io::stdout().lock();
        if json {
            serde_json::to_writer_pretty(&mut out, self)?;
            writeln!(out)?;
            return Ok(());
        }
        writeln!(out, "on {}; times in us, workspace in KiB", self.device)?;
        let width = self.layers.iter().map(|row| row.name.len()).max().unwrap_or(0);
        for row in &self.layers {
            let pass = row.problem.split(' ').next().unwrap_or_default();
            let whole = match (row.undivided_us, row.undivided_bytes) {
                (Some(us), Some(bytes)) => format!("{us:>10.1} {:>10}", kib(bytes)),
                _ => format!("{:>10} {:>10}", "-", "-"),
            };
            let gain = row.gain.map_or("-".to_owned(), |gain| format!("{gain:.2}"));
            let (us, bytes, split) = (row.time_us, kib(row.workspace_bytes), row.split());
            writeln!(out, "{:width$} {pass:12} {whole} -> {us:>10.1} {bytes:>10}  x{gain:<5} {split}", row.name)?;
        }
        let whole = self.undivided_us.map_or("not possible".to_owned(), |us| format!("{us:.1} us"));
        let gain = self.undivided_us.map_or(String::new(), |us| format!(", gain {:.3}", us / self.time_us));
        let (us, bytes) = (self.time_us, kib(self.workspace_bytes));
        writeln!(out, "all layers: undivided {whole}, chosen {us:.1} us, workspace {bytes} KiB{gain}")?;
        if self.measured_parts + self.unmeasured > 0 {
            let Report { measured_parts, rounds, unmeasured, .. } = self;
            writeln!(
                out,
                "measured {measured_parts} parts in {rounds} rounds; {unmeasured} without a time could be worth it"
            )?;
        }
        Ok(())
    }
}

fn kib(bytes: u64) -> u64 {
    bytes.div_ceil(1 << 10)
}

impl Row {
    fn new(name: &str, layer: &LayerChoice) -> Self {
        let LayerChoice { problem, division, undivided, offset, refusal } = layer;
        let undivided_us = undivided.as_ref().map(Division::time_us);
        Row {
            name: name.to_owned(),
            problem: problem.clone(),
            undivided_us,
            undivided_bytes: undivided.as_ref().map(|whole| whole.workspace_bytes),
            undivided: undivided.as_ref().map(Division::to_string),
            parts: (division.parts.iter())
                .map(|part| Part {
                    images: part.batch,
                    algorithm: part.algorithm,
                    kernel: part.config,
                    time_us: part.time_us,
                    workspace_bytes: part.workspace_bytes,
                })
                .collect(),
            time_us: division.time_us(),
            workspace_bytes: division.workspace_bytes,
            offset: *offset,
            gain: undivided_us.map(|us| us / division.time_us()),
            refusal: refusal.clone(),
        }
    }

    /// `2 x 128 im2col_wgmma`, and so on.
    pub(super) fn split(&self) -> String {
        let same = |a: &Part, b: &Part| (a.images, a.algorithm) == (b.images, b.algorithm);
        let runs = self.parts.chunk_by(same).map(|run| match (run.len(), self.parts.len()) {
            (1, 1) => run[0].algorithm.to_owned(),
            (n, _) => format!("{n} x {} {}", run[0].images, run[0].algorithm),
        });
        runs.collect::<Vec<_>>().join(" + ")
    }
}
