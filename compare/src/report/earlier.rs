//! What earlier tables say of the peer.

use anyhow::{Context as _, Result};
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// The peer's best algorithm of problems that were searched before.
#[derive(Clone, Debug, Default)]
pub struct Earlier(HashMap<String, String>);

impl Earlier {
    /// Reads a table, or every table of a folder.
    ///
    /// # Errors
    /// When one cannot be read.
    pub fn read(path: &Path) -> Result<Self> {
        let mut earlier = Earlier::default();
        for file in tables(path)? {
            let text = std::fs::read_to_string(&file).with_context(|| format!("reading {}", file.display()))?;
            earlier.parse(&text).with_context(|| file.display().to_string())?;
        }
        Ok(earlier)
    }

    fn parse(&mut self, text: &str) -> Result<()> {
        let mut reader = csv::ReaderBuilder::new().comment(Some(b'#')).from_reader(text.as_bytes());
        let columns = reader.headers()?.clone();
        let place = |name: &str| columns.iter().position(|column| column == name);
        // Other tables may lie in the folder.
        let (Some(problem), Some(algorithm)) = (place("problem"), place("peer_algorithm")) else { return Ok(()) };
        for record in reader.records() {
            let record = record?;
            if let (Some(problem), Some(algorithm)) = (record.get(problem), record.get(algorithm))
                && !algorithm.is_empty()
            {
                self.0.insert(problem.to_owned(), algorithm.to_owned());
            }
        }
        Ok(())
    }

    /// The peer's best algorithm for a problem.
    pub fn peer_algorithm(&self, problem: &str) -> Option<&str> {
        self.0.get(problem).map(String::as_str)
    }
}

fn tables(path: &Path) -> Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_path_buf()]);
    }
    let mut files = Vec::new();
    for entry in std::fs::read_dir(path).with_context(|| format!("reading {}", path.display()))? {
        let file = entry?.path();
        if file.extension().is_some_and(|ending| ending == "csv") {
            files.push(file);
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn algorithms_are_found_by_problem() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        write("a.csv", "# gpu: x\nproblem,peer_algorithm\nconv:a,graph:eng1\nconv:b,\n");
        write("b.csv", "other\n1\n");
        write("c.md", "problem,peer_algorithm\nconv:c,graph:eng2\n");
        let earlier = Earlier::read(folder.path()).unwrap();
        assert_eq!(earlier.peer_algorithm("conv:a"), Some("graph:eng1"));
        assert_eq!(earlier.peer_algorithm("conv:b"), None);
        assert_eq!(earlier.peer_algorithm("conv:c"), None);
        assert!(Earlier::read(&folder.path().join("none.csv")).is_err());
    }
}
