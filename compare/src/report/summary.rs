//! What a table comes to.

use super::row::Row;
use crate::timing::geometric_mean;
use std::fmt;

/// The figures of one table.
#[derive(Clone, Debug)]
pub struct Summary {
    /// What it is about.
    pub title: String,
    /// Rows.
    pub problems: usize,
    /// Rows with both times.
    pub compared: usize,
    /// The smallest ratio, with its layer.
    pub least: Option<(f64, String)>,
    /// The geometric mean of the ratios.
    pub mean: f64,
    /// Rows with a ratio below 1.
    pub below_one: usize,
    /// Rows where the heuristic's choice was timed, and those where it is within 5 % of the best.
    pub heuristic: (usize, usize),
    /// Rows whose error is above the peer's by more than sampling explains.
    pub less_accurate: usize,
    /// Rows where something went wrong.
    pub noted: usize,
}

/// Errors of few samples differ by chance.
const SAME_ERROR: f64 = 1.1;

impl Summary {
    /// Sums up.
    pub fn new(title: &str, rows: &[Row]) -> Self {
        let mut compared: Vec<(f64, &Row)> =
            rows.iter().map(|row| (row.ratio(), row)).filter(|(ratio, _)| ratio.is_finite()).collect();
        compared.sort_by(|a, b| a.0.total_cmp(&b.0));
        let ratios: Vec<f64> = compared.iter().map(|(ratio, _)| *ratio).collect();
        let losses: Vec<f64> = rows.iter().map(Row::heuristic_loss).filter(|loss| loss.is_finite()).collect();
        Summary {
            title: title.to_owned(),
            problems: rows.len(),
            compared: ratios.len(),
            least: compared.first().map(|(ratio, row)| (*ratio, row.layer.clone())),
            mean: geometric_mean(&ratios),
            below_one: ratios.iter().filter(|ratio| **ratio < 1.0).count(),
            heuristic: (losses.len(), losses.iter().filter(|loss| **loss <= 1.05).count()),
            less_accurate: rows.iter().filter(|row| row.max_rel_err > SAME_ERROR * row.peer_rel_err).count(),
            noted: rows.iter().filter(|row| !row.note.is_empty()).count(),
        }
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} of {} problems compared", self.title, self.compared, self.problems)?;
        if let Some((least, layer)) = &self.least {
            write!(f, ", least {least:.3} ({layer}), geometric mean {:.3}, {} below 1.000", self.mean, self.below_one)?;
        }
        if self.heuristic.0 > 0 {
            write!(f, "; heuristic within 5 % on {} of {}", self.heuristic.1, self.heuristic.0)?;
        }
        if self.less_accurate > 0 {
            write!(f, "; {} with a larger error than the peer's", self.less_accurate)?;
        }
        if self.noted > 0 {
            write!(f, "; {} with a note", self.noted)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures() {
        let row = |ours_us, peer_us, heuristic_us, layer: &str| Row {
            ours_us,
            peer_us,
            heuristic_us,
            layer: layer.to_owned(),
            ..Row::unmeasured()
        };
        let mut rows = vec![
            row(1.0, 2.0, 1.0, "a"),
            row(2.0, 1.0, 3.0, "b"),
            row(f64::NAN, 1.0, f64::NAN, "c"),
            row(1.0, f64::NAN, 1.04, "d"),
        ];
        rows[2].remark("no luck");
        let summary = Summary::new("suite", &rows);
        assert_eq!((summary.problems, summary.compared, summary.below_one, summary.noted), (4, 2, 1, 1));
        assert_eq!(summary.least, Some((0.5, "b".to_owned())));
        assert!((summary.mean - 1.0).abs() < 1e-12);
        assert_eq!(summary.heuristic, (3, 2));
        assert!(summary.to_string().contains("least 0.500 (b)"));
        assert!(Summary::new("none", &[]).to_string().contains("0 of 0"));
    }
}
