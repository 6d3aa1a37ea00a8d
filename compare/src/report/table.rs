//! A table on disk, which grows a row at a time, so that nothing is lost when the time is up.

use super::row::{COLUMNS, Row};
use anyhow::{Context as _, Result};
use std::fs::File;
use std::io::Write as _;
use std::path::Path;

/// Where and how a table was made: the lines with `#` at its head.
#[derive(Clone, Debug, Default)]
pub struct Provenance {
    /// The GPU's name.
    pub gpu: String,
    /// The driver's version.
    pub driver: String,
    /// Who we are compared with.
    pub peer: String,
    /// Rate of a plain copy, bytes read and written.
    pub copy_gbps: f64,
}

impl Provenance {
    /// Name and value of every line.
    pub fn lines(&self) -> Vec<(&'static str, String)> {
        let commit = std::env::var("OXIDNN_COMMIT").ok().or_else(beside_the_binary);
        vec![
            ("gpu", self.gpu.clone()),
            ("driver", self.driver.clone()),
            ("peer", self.peer.clone()),
            ("commit", commit.unwrap_or_else(|| "unknown".to_owned())),
            ("copy", format!("{:.0} GB/s", self.copy_gbps)),
            ("command", std::env::args().collect::<Vec<_>>().join(" ")),
        ]
    }
}

/// The commit that a bundle was made of stands in a file above its binaries.
fn beside_the_binary() -> Option<String> {
    let folder = std::env::current_exe().ok()?.parent()?.parent()?.to_path_buf();
    Some(std::fs::read_to_string(folder.join("commit.txt")).ok()?.trim().to_owned())
}

/// A table being written.
#[derive(Debug)]
pub struct Writer {
    lines: csv::Writer<File>,
}

impl Writer {
    /// Starts the file.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn create(path: &Path, provenance: &Provenance) -> Result<Self> {
        let mut file = File::create(path).with_context(|| format!("writing {}", path.display()))?;
        for (name, value) in provenance.lines() {
            writeln!(file, "# {name}: {value}")?;
        }
        let mut lines = csv::Writer::from_writer(file);
        lines.write_record(COLUMNS)?;
        lines.flush()?;
        Ok(Writer { lines })
    }

    /// Adds a row; it is on disk when this returns.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn push(&mut self, row: &Row) -> Result<()> {
        self.lines.write_record(row.cells())?;
        Ok(self.lines.flush()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_there_before_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("suite.csv");
        let mut writer =
            Writer::create(&path, &Provenance { gpu: "H200".to_owned(), ..Provenance::default() }).unwrap();
        let mut row = Row { problem: "conv:fprop pad=1x1".to_owned(), ours_us: 1.5, ..Row::unmeasured() };
        row.remark("a, with \"quotes\"");
        writer.push(&row).unwrap();
        // The writer is still open.
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.starts_with("# gpu: H200\n"), "{text}");
        let mut reader = csv::ReaderBuilder::new().comment(Some(b'#')).from_reader(text.as_bytes());
        assert_eq!(reader.headers().unwrap().iter().collect::<Vec<_>>(), COLUMNS);
        let record = reader.records().next().unwrap().unwrap();
        assert_eq!(&record[1], "conv:fprop pad=1x1");
        assert_eq!(&record[5], "1.50");
        assert_eq!(&record[7], "", "what was not measured is empty");
        assert_eq!(&record[COLUMNS.len() - 1], "a, with \"quotes\"");
    }

    #[test]
    fn the_table_starts_with_the_columns_of_every_benchmark() {
        let start = "suite,problem,pass,dtype,layout,ours_us,peer,peer_us,ratio,algorithm,workspace_bytes,\
                     max_rel_err,gbps,fraction_of_copy";
        assert!(COLUMNS.join(",").starts_with(start));
    }
}
