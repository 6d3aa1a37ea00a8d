//! Another judge's times, by problem.

use anyhow::{Context as _, Result};
use std::collections::HashMap;
use std::path::Path;

/// Times from a table with columns `problem` and `torch_us`.
#[derive(Clone, Debug, Default)]
pub struct Judge(HashMap<String, f64>);

impl Judge {
    /// Reads the table.
    ///
    /// # Errors
    /// When it cannot be read, or lacks a column.
    pub fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
        Self::parse(&text).with_context(|| path.display().to_string())
    }

    fn parse(text: &str) -> Result<Self> {
        let mut reader = csv::ReaderBuilder::new().comment(Some(b'#')).from_reader(text.as_bytes());
        let columns = reader.headers()?.clone();
        let place = |name: &str| {
            columns.iter().position(|column| column == name).with_context(|| format!("expected a column {name}"))
        };
        let (problem, us) = (place("problem")?, place("torch_us")?);
        let mut times = HashMap::new();
        for record in reader.records() {
            let record = record?;
            if let (Some(problem), Some(Ok(us))) = (record.get(problem), record.get(us).map(str::parse)) {
                times.insert(problem.to_owned(), us);
            }
        }
        Ok(Judge(times))
    }

    /// Its time for a problem; NaN where it has none.
    pub fn us(&self, problem: &str) -> f64 {
        self.0.get(problem).copied().unwrap_or(f64::NAN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_found_by_problem() {
        let judge = Judge::parse("# torch: 2\nproblem,torch_us,note\nconv:a,12.5,\nconv:b,,failed\n").unwrap();
        assert_eq!(judge.us("conv:a"), 12.5);
        assert!(judge.us("conv:b").is_nan() && judge.us("conv:c").is_nan());
        assert!(Judge::parse("a,b\n").unwrap_err().to_string().contains("problem"));
    }
}
