//! The lines of a run, its counts, and the page of docs that says what must pass.

use crate::graph::{EXPANDED, Outcome};
use crate::ops::{self, By};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// What became of one case.
pub struct Line {
    /// The operator under which it is listed.
    pub op: &'static str,
    pub case: String,
    pub outcome: Outcome,
}

/// How many cases passed, were refused, and failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub passed: usize,
    pub refused: usize,
    pub failed: usize,
}

impl Counts {
    /// Counts lines.
    pub fn of<'a>(lines: impl IntoIterator<Item = &'a Line>) -> Self {
        let mut counts = Counts::default();
        for line in lines {
            match line.outcome {
                Outcome::Passed => counts.passed += 1,
                Outcome::Refused(_) => counts.refused += 1,
                Outcome::Failed(_) => counts.failed += 1,
            }
        }
        counts
    }
}

impl std::fmt::Display for Counts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} passed, {} refused, {} failed", self.passed, self.refused, self.failed)
    }
}

impl std::fmt::Display for Line {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.outcome {
            Outcome::Passed => write!(f, "passed   {}", self.case),
            Outcome::Refused(reason) => write!(f, "refused  {}: {reason}", self.case),
            Outcome::Failed(reason) => write!(f, "FAILED   {}: {reason}", self.case),
        }
    }
}

const HEAD: &str = "\
# ONNX conformance

`cargo xtask onnx` computes the node tests that ONNX's project publishes (the package `onnx==1.22.0`) with the operators of this library, on the CPU and on a GPU if there is one, and compares the results with the expected ones.
`cargo xtask onnx --write-docs` writes this page; a run that differs from it on any device fails, so the page lists the cases that must pass, and every refusal with its reason.

- A case counts as passed only if operators of ours computed it, and every output has the expected type, extents and elements.
  What the runner does besides is to look at tensors in other ways: transposed, repeated along a stride of 0, in part, with other extents.
- f32 and f64 are compared with ONNX's own tolerances, relative 1e-3 and absolute 1e-7; integers and truth values must be equal.
  f16 and bf16 may be off by two neighbouring numbers (relative 2⁻⁹ and 2⁻⁶), since expected values were rounded after each step of a formula, and ours are rounded once.
- The cases are those of every ONNX operator in the table below: all of this library's, and those that it is to have.
  Cases named `…_expanded` are such operators written as graphs of others; they are run where each node of the graph is ours, or only names the same elements in another way, and are listed as `expanded`.
- Beside them, 3,000 random nodes are drawn by seed, of every operator that is computed, old versions of them and nodes that are refused among them.
  Loops written from the specification, in f64 and i128, judge them; onnxruntime and ONNX's own evaluator judge 500 of them.
  A wrong one is printed with the seed and number that draw it again: `oxidnn-onnx --random 1 --seed 20 --only 157`.
- Before version 11 the nearest pixel of `Resize` and `Upsample` is the one below where an axis grows, and the one above where it shrinks, as in onnxruntime.
  `BatchNormalization` before 14 that trains, and the mask of `Dropout` before 10, are refused.
- `GridSample` refuses cubic places beyond an image that its border pads, and `MaxUnpool` indices outside their own windows.
- Attributes are f32, and so are their defaults, also where tensors are f64.
";

/// The page for what a device made of all cases. Failures are listed too, so that no page with one is ever right.
pub fn page(lines: &[Line]) -> String {
    let mut page = HEAD.to_owned();
    let mut by_op = BTreeMap::<&str, Vec<&Line>>::new();
    for line in lines {
        by_op.entry(line.op).or_default().push(line);
    }
    // Writing to a string does not fail.
    let _ = writeln!(page, "\n{} of {} cases.\n", Counts::of(lines), lines.len());
    let _ = writeln!(page, "| ONNX operator | computed by | passed | refused |\n| --- | --- | --- | --- |");
    for (op, lines) in &by_op {
        let counts = Counts::of(lines.iter().copied());
        let _ = writeln!(page, "| {op} | {} | {} | {} |", computed_by(op), counts.passed, counts.refused);
    }
    let _ = writeln!(page, "\n## Refused");
    for (op, lines) in &by_op {
        let mut reasons = BTreeMap::<String, Vec<&str>>::new();
        for line in lines {
            match &line.outcome {
                Outcome::Passed => {}
                Outcome::Refused(reason) => reasons.entry(reason.clone()).or_default().push(&line.case),
                Outcome::Failed(reason) => reasons.entry(format!("FAILED: {reason}")).or_default().push(&line.case),
            }
        }
        if reasons.is_empty() || is_missing(op) {
            continue;
        }
        let _ = writeln!(page, "\n{op}:\n");
        for (reason, cases) in reasons {
            let _ = writeln!(page, "- {reason}: {}", listed(cases));
        }
    }
    let _ = writeln!(page, "\n## No operator yet\n");
    for (op, lines) in by_op.iter().filter(|(op, _)| is_missing(op)) {
        let _ = writeln!(page, "- {op}: {}", listed(lines.iter().map(|line| &line.case[..]).collect()));
    }
    let _ = writeln!(page, "\n## Passed\n");
    for (op, lines) in &by_op {
        let passed = lines.iter().filter(|line| line.outcome == Outcome::Passed);
        let cases: Vec<&str> = passed.map(|line| &line.case[..]).collect();
        if !cases.is_empty() {
            let _ = writeln!(page, "- {op}: {}", listed(cases));
        }
    }
    page
}

/// Whether nobody computes an operator.
fn is_missing(op: &str) -> bool {
    ops::all().any(|known| known.name == op && matches!(known.by, By::Nothing))
}

fn computed_by(op: &str) -> &'static str {
    match ops::all().find(|known| known.name == op).map(|known| &known.by) {
        Some(By::Operator(ours, _)) => ours,
        Some(By::Nothing) => "no operator yet",
        Some(By::View(_)) | None if op == EXPANDED => "as its nodes are",
        Some(By::View(_)) | None => "",
    }
}

/// Names without what all of them begin with.
fn listed(cases: Vec<&str>) -> String {
    let short = |case: &str| format!("`{}`", case.strip_prefix("test_").unwrap_or(case));
    cases.into_iter().map(short).collect::<Vec<_>>().join(", ")
}

/// The first line in which a page differs from the one that is committed.
pub fn first_difference(committed: &str, page: &str) -> Option<String> {
    if committed == page {
        return None;
    }
    let (old, new) = (committed.lines().collect::<Vec<_>>(), page.lines().collect::<Vec<_>>());
    let at = old.iter().zip(&new).position(|(old, new)| old != new).unwrap_or(old.len().min(new.len()));
    let line = |lines: &[&str]| lines.get(at).copied().unwrap_or("nothing").to_owned();
    Some(format!("line {}: committed: {}\nnow: {}", at + 1, line(&old), line(&new)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_lists_every_case_once() {
        let line = |op, case: &str, outcome| Line { op, case: case.to_owned(), outcome };
        let lines = [
            line("Relu", "test_relu", Outcome::Passed),
            line("GRU", "test_gru_a", Outcome::Refused("no operator yet".to_owned())),
            line("GRU", "test_gru_b", Outcome::Refused("no operator yet".to_owned())),
        ];
        let page = page(&lines);
        assert!(page.contains("1 passed, 2 refused, 0 failed of 3 cases"), "{page}");
        assert!(page.contains("| GRU | no operator yet | 0 | 2 |"), "{page}");
        assert!(page.contains("- GRU: `gru_a`, `gru_b`\n"), "{page}");
        assert!(page.contains("- Relu: `relu`\n"), "{page}");
        assert_eq!(first_difference(&page, &page), None);
        let other = page.replace("gru_b", "gru_c");
        assert!(first_difference(&page, &other).unwrap().contains("now: - GRU: `gru_a`, `gru_c`"));
    }
}
