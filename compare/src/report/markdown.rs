//! A table for readers.

use super::row::{Row, number};
use super::summary::Summary;
use super::table::Provenance;
use std::fmt::Write as _;

/// The table with its figures, as Markdown.
pub fn markdown(provenance: &Provenance, summary: &Summary, rows: &[Row]) -> String {
    let mut text = format!("# {}\n\n", summary.title);
    // Writing to a string does not fail.
    let _ = writeln!(text, "{summary}.\n");
    for (name, value) in provenance.lines() {
        let _ = writeln!(text, "- {name}: {value}");
    }
    text.push_str("\n| layer | problem | ours, us | peer, us | ratio | TFLOP/s | of copy | ours | peer's | error | peer's error | note |\n");
    text.push_str("| --- | --- | ---: | ---: | ---: | ---: | ---: | --- | --- | ---: | ---: | --- |\n");
    for row in rows {
        let error = |error: f64| if error.is_finite() { format!("{error:.1e}") } else { String::new() };
        let cells = [
            row.layer.clone(),
            row.problem.clone(),
            number(row.ours_us, 1),
            number(row.peer_us, 1),
            number(row.ratio(), 3),
            number(row.tflops, 0),
            number(row.fraction_of_copy, 2),
            row.algorithm.clone(),
            row.peer_algorithm.clone(),
            error(row.max_rel_err),
            error(row.peer_rel_err),
            row.note.clone(),
        ];
        let cells = cells.map(|cell| cell.replace('|', "/"));
        let _ = writeln!(text, "| {} |", cells.join(" | "));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_table_has_every_cell() {
        let mut row = Row { ours_us: 1.0, peer_us: 2.0, ..Row::unmeasured() };
        row.remark("a | b");
        let rows = [row];
        let text = markdown(&Provenance::default(), &Summary::new("t", &rows), &rows);
        let lines: Vec<&str> = text.lines().filter(|line| line.starts_with('|')).collect();
        assert_eq!(lines.len(), 3);
        assert!(lines.iter().all(|line| line.matches('|').count() == 13), "{text}");
    }
}
