//! A line of a table.

use crate::case::Table;

/// One timed problem. What was not measured is NaN or empty.
#[derive(Clone, Debug, Default)]
pub struct Row {
    /// The suite.
    pub suite: String,
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
    /// Their time a call.
    pub peer_us: f64,
    /// Our kernel.
    pub algorithm: String,
    /// Our workspace.
    pub workspace_bytes: u64,
    /// Relative error of our samples against f64, in the Euclidean norm.
    pub max_rel_err: f64,
    /// Bytes of every operand once, by our time.
    pub gbps: f64,
    /// The same by a plain copy's rate.
    pub fraction_of_copy: f64,
    /// Their algorithm.
    pub peer_algorithm: String,
    /// Relative error of theirs.
    pub peer_rel_err: f64,
    /// Distance of the quartiles of our turns, by the median.
    pub ours_spread: f64,
    /// That of theirs.
    pub peer_spread: f64,
    /// What the heuristic chose.
    pub heuristic_algorithm: String,
    /// Its time.
    pub heuristic_us: f64,
    /// Our rate.
    pub tflops: f64,
    /// Another judge's time of the peer.
    pub torch_us: f64,
    /// What the result was compared with besides the samples.
    pub verified: String,
    /// The layer's name.
    pub layer: String,
    /// How often it stands in the network.
    pub count: u32,
    /// Floating-point operations.
    pub flops: f64,
    /// Bytes of every operand once.
    pub bytes: f64,
    /// What went wrong.
    pub note: String,
}

/// The columns of a table, in their order.
pub const COLUMNS: [&str; 26] = [
    "suite",
    "problem",
    "pass",
    "dtype",
    "layout",
    "ours_us",
    "peer",
    "peer_us",
    "ratio",
    "algorithm",
    "workspace_bytes",
    "max_rel_err",
    "gbps",
    "fraction_of_copy",
    "tflops",
    "peer_algorithm",
    "peer_rel_err",
    "ours_spread",
    "peer_spread",
    "heuristic_algorithm",
    "heuristic_us",
    "torch_us",
    "verified",
    "layer",
    "count",
    "note",
];

impl Row {
    /// A row in which nothing was measured yet.
    pub fn unmeasured() -> Self {
        let nan = f64::NAN;
        Row {
            ours_us: nan,
            peer_us: nan,
            max_rel_err: nan,
            gbps: nan,
            fraction_of_copy: nan,
            peer_rel_err: nan,
            ours_spread: nan,
            peer_spread: nan,
            heuristic_us: nan,
            tflops: nan,
            torch_us: nan,
            ..Row::default()
        }
    }

    /// Such a row of a table.
    pub(crate) fn of_table(table: &Table) -> Self {
        Row {
            suite: table.suite.clone(),
            pass: table.pass.to_owned(),
            dtype: table.dtype.map_or(String::new(), |dtype| dtype.to_string()),
            layout: table.layout.to_owned(),
            ..Row::unmeasured()
        }
    }

    /// The peer's time over ours: above 1 we are faster.
    pub fn ratio(&self) -> f64 {
        self.peer_us / self.ours_us
    }

    /// The heuristic's time over the best candidate's.
    pub fn heuristic_loss(&self) -> f64 {
        self.heuristic_us / self.ours_us
    }

    /// Adds to what went wrong.
    pub fn remark(&mut self, text: &str) {
        if !self.note.is_empty() {
            self.note.push_str("; ");
        }
        self.note.push_str(&text.replace(['\n', '\r'], " "));
    }

    /// The cells, by [`COLUMNS`].
    pub fn cells(&self) -> [String; COLUMNS.len()] {
        let scientific = |value: f64| if value.is_finite() { format!("{value:.2e}") } else { String::new() };
        [
            self.suite.clone(),
            self.problem.clone(),
            self.pass.clone(),
            self.dtype.clone(),
            self.layout.clone(),
            number(self.ours_us, 2),
            self.peer.clone(),
            number(self.peer_us, 2),
            number(self.ratio(), 3),
            self.algorithm.clone(),
            self.workspace_bytes.to_string(),
            scientific(self.max_rel_err),
            number(self.gbps, 1),
            number(self.fraction_of_copy, 3),
            number(self.tflops, 1),
            self.peer_algorithm.clone(),
            scientific(self.peer_rel_err),
            number(self.ours_spread, 3),
            number(self.peer_spread, 3),
            self.heuristic_algorithm.clone(),
            number(self.heuristic_us, 2),
            number(self.torch_us, 2),
            self.verified.clone(),
            self.layer.clone(),
            self.count.to_string(),
            self.note.clone(),
        ]
    }

    /// A short line for the terminal.
    pub fn line(&self) -> String {
        let or_dash = |text: String| if text.is_empty() { "-".to_owned() } else { text };
        let time = |us: f64| or_dash(number(us, 1));
        let mut line = format!(
            "{:>6} x | ours {:>9} us {:>6} TF/s {:>5} of copy | peer {:>9} us | {} {} | {} vs {} | err {:.1e} / {:.1e}",
            or_dash(number(self.ratio(), 3)),
            time(self.ours_us),
            or_dash(number(self.tflops, 0)),
            or_dash(number(self.fraction_of_copy, 2)),
            time(self.peer_us),
            self.pass,
            self.layer,
            or_dash(self.algorithm.clone()),
            or_dash(self.peer_algorithm.clone()),
            self.max_rel_err,
            self.peer_rel_err,
        );
        if !self.heuristic_algorithm.is_empty() && self.heuristic_loss() > 1.05 {
            line.push_str(&format!(" | heuristic {} {}", self.heuristic_algorithm, number(self.heuristic_loss(), 2)));
        }
        if self.torch_us.is_finite() {
            line.push_str(&format!(" | torch {} us", number(self.torch_us, 1)));
        }
        if !self.note.is_empty() {
            line.push_str(&format!(" | NOTE {}", self.note));
        }
        line
    }
}

/// A number, or nothing for what was not measured.
pub(super) fn number(value: f64, digits: usize) -> String {
    if value.is_finite() { format!("{value:.digits$}") } else { String::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_stand_under_their_columns() {
        let mut row = Row { ours_us: 2.0, peer_us: 3.0, layer: "conv1".to_owned(), ..Row::unmeasured() };
        row.remark("first");
        row.remark("second\nline");
        let cells = row.cells();
        let cell = |name: &str| &cells[COLUMNS.iter().position(|column| *column == name).unwrap()];
        assert_eq!(cell("ours_us"), "2.00");
        assert_eq!(cell("ratio"), "1.500");
        assert_eq!(cell("max_rel_err"), "");
        assert_eq!(cell("layer"), "conv1");
        assert_eq!(cell("note"), "first; second line");
        assert!(row.line().contains("1.500 x"));
    }
}
