//! The file: records are only ever added at its end, under a lock, and read without one.
//!
//! A reader skips what is not whole, so that a writer that died, or one that is at work, does no harm. The lock is a
//! file of its own, since the log itself is replaced when it is compacted.

use super::Entry;
use super::record::{Line, Record, decode, encode};
use kernel_abi::layout::{FNV_START, fnv};
use std::collections::HashMap;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The log of one scope: one device under one driver with one build of the library.
#[derive(Debug)]
pub(super) struct Log {
    path: PathBuf,
    scope: String,
    /// Length of the file when it was last read or written by this handle; None before that.
    seen_bytes: Option<u64>,
    /// How long to wait for the lock.
    patience: Duration,
    /// The length from which on a writer looks whether the file should be compacted.
    compact_at: u64,
}

/// How long to wait for other processes that write. A write takes microseconds.
const LOCK_PATIENCE: Duration = Duration::from_secs(10);

/// A log is compacted when it is longer than this, and less than half of it is of use. Looking takes reading all of it,
/// so a writer that has looked does so again when what was of use then would be less than half.
const COMPACT_BYTES: u64 = 1 << 20;

impl Log {
    /// The log of a scope in a folder. Touches nothing.
    pub(super) fn new(folder: &Path, scope: &str) -> Self {
        let name = format!("find-{:016x}.log", fnv(FNV_START, scope.as_bytes()));
        let path = folder.join(name);
        let (scope, patience, compact_at) = (scope.to_owned(), LOCK_PATIENCE, COMPACT_BYTES);
        Log { path, scope, seen_bytes: None, patience, compact_at }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Every whole record, oldest first, when the file is not as this handle last saw it.
    pub(super) fn read_if_changed(&mut self) -> io::Result<Option<Vec<Record>>> {
        let there = match std::fs::metadata(&self.path) {
            Ok(metadata) => metadata.len(),
            Err(e) if e.kind() == ErrorKind::NotFound => 0,
            Err(e) => return Err(e),
        };
        if self.seen_bytes == Some(there) {
            return Ok(None);
        }
        let bytes = self.read_bytes()?;
        self.seen_bytes = Some(bytes.len() as u64);
        let records = bytes.split(|&byte| byte == b'\n').filter_map(|line| match decode(line, &self.scope) {
            Line::Record(record) => Some(record),
            Line::Comment | Line::Foreign | Line::Spoilt => None,
        });
        Ok(Some(records.collect()))
    }

    /// Adds a record. Makes the folder and the file when they are not there.
    pub(super) fn append(&mut self, record: &Record) -> io::Result<()> {
        let line = encode(record, &self.scope)
            .ok_or_else(|| io::Error::new(ErrorKind::InvalidInput, "expected a record without tabs and line ends"))?;
        let lock = self.lock()?;
        let mut file = OpenOptions::new().create(true).read(true).append(true).open(&self.path)?;
        let before = file.metadata()?.len();
        let mut text = String::new();
        if before == 0 {
            text = self.header();
        } else {
            file.seek(SeekFrom::Start(before - 1))?;
            let mut last = [0];
            file.read_exact(&mut last)?;
            if last != [b'\n'] {
                // Somebody died while writing: what they left must not swallow this record.
                text.push('\n');
            }
        }
        text.push_str(&line);
        text.push('\n');
        file.write_all(text.as_bytes())?;
        let after = before + text.len() as u64;
        if self.seen_bytes == Some(before) || before == 0 {
            self.seen_bytes = Some(after);
        }
        if after > self.compact_at {
            self.compact(|kept| kept < after / 2)?;
        }
        drop(lock);
        Ok(())
    }

    /// Replaces the file by one with a record a problem, when `worthwhile` says so of its length. Needs the lock.
    fn compact(&mut self, worthwhile: impl FnOnce(u64) -> bool) -> io::Result<()> {
        let bytes = self.read_bytes()?;
        let mut text = self.header().into_bytes();
        let mut records: Vec<Record> = Vec::new();
        let mut places: HashMap<String, usize> = HashMap::new();
        for line in bytes.split(|&byte| byte == b'\n') {
            match decode(line, &self.scope) {
                Line::Record(record) => match places.get(&record.problem) {
                    Some(&at) => merge(&mut records[at].entries, record.entries),
                    None => {
                        places.insert(record.problem.clone(), records.len());
                        records.push(record);
                    }
                },
                Line::Foreign => {
                    text.extend(line);
                    text.push(b'\n');
                }
                Line::Comment | Line::Spoilt => {}
            }
        }
        for line in records.iter().filter_map(|record| encode(record, &self.scope)) {
            text.extend(line.as_bytes());
            text.push(b'\n');
        }
        self.compact_at = COMPACT_BYTES.max(2 * text.len() as u64);
        if !worthwhile(text.len() as u64) {
            return Ok(());
        }
        // Whoever holds the lock is alone, so the name need not be unique; what a dead one left is overwritten.
        let part = self.path.with_extension("part");
        let mut file = File::create(&part)?;
        file.write_all(&text)?;
        file.sync_all()?;
        std::fs::rename(&part, &self.path)?;
        self.seen_bytes = None;
        Ok(())
    }

    fn read_bytes(&self) -> io::Result<Vec<u8>> {
        match std::fs::read(&self.path) {
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(Vec::new()),
            outcome => outcome,
        }
    }

    /// What a person who opens the file wants to know.
    fn header(&self) -> String {
        let mut text = "# Times measured by oxidnn's policy Find. Safe to delete. Valid for:\n".to_owned();
        for line in self.scope.lines() {
            text.push_str("#   ");
            text.push_str(line);
            text.push('\n');
        }
        text
    }

    /// The exclusive lock, released when dropped. Waits for a while.
    fn lock(&self) -> io::Result<File> {
        if let Some(folder) = self.path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        let path = self.path.with_extension("lock");
        let file = OpenOptions::new().create(true).truncate(false).write(true).open(path)?;
        let start = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                Err(TryLockError::WouldBlock) if start.elapsed() < self.patience => {
                    std::thread::sleep(Duration::from_millis(2));
                }
                Err(TryLockError::WouldBlock) => {
                    let message = format!("another process has held the lock for {:?}", self.patience);
                    return Err(io::Error::new(ErrorKind::WouldBlock, message));
                }
                Err(TryLockError::Error(e)) => return Err(e),
            }
        }
    }
}

/// Puts newer measurements in the place of older ones.
pub(super) fn merge(entries: &mut Vec<Entry>, newer: Vec<Entry>) {
    for entry in newer {
        match entries.iter_mut().find(|there| there.algorithm == entry.algorithm && there.config == entry.config) {
            Some(there) => *there = entry,
            None => entries.push(entry),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Timing;
    use super::*;

    fn record(problem: &str, us: f64) -> Record {
        let timing = Timing { us, workspace_bytes: 0, cut_short: false };
        let entry = Entry { algorithm: "a".to_owned(), config: "c".to_owned(), timing };
        Record { problem: problem.to_owned(), entries: vec![entry] }
    }

    fn read(folder: &Path, scope: &str) -> Vec<Record> {
        Log::new(folder, scope).read_if_changed().unwrap().unwrap()
    }

    #[test]
    fn records_come_back_in_order_and_are_read_once() {
        let folder = tempfile::tempdir().unwrap();
        let (mut ours, mut theirs) = (Log::new(folder.path(), "s"), Log::new(folder.path(), "s"));
        assert_eq!(ours.read_if_changed().unwrap(), Some(vec![]));
        ours.append(&record("p", 1.0)).unwrap();
        assert_eq!(ours.read_if_changed().unwrap(), None);
        theirs.append(&record("q", 2.0)).unwrap();
        let both = vec![record("p", 1.0), record("q", 2.0)];
        assert_eq!(ours.read_if_changed().unwrap(), Some(both.clone()));
        assert_eq!(read(folder.path(), "s"), both);
    }

    #[test]
    fn a_log_cut_anywhere_gives_its_whole_records_and_can_be_continued() {
        let folder = tempfile::tempdir().unwrap();
        let mut log = Log::new(folder.path(), "s");
        let records: Vec<Record> = (0..3).map(|i| record(&format!("p{i}"), f64::from(i))).collect();
        let mut ends = Vec::new();
        for record in &records {
            log.append(record).unwrap();
            ends.push(std::fs::metadata(log.path()).unwrap().len() as usize);
        }
        let whole = std::fs::read(log.path()).unwrap();
        for cut in 0..=whole.len() {
            std::fs::write(log.path(), &whole[..cut]).unwrap();
            // A record is whole without the end of its line.
            let n = ends.iter().filter(|&&end| end - 1 <= cut).count();
            assert_eq!(read(folder.path(), "s"), records[..n], "cut at {cut}");
            log.append(&record("later", 9.0)).unwrap();
            let mut expected = records[..n].to_vec();
            expected.push(record("later", 9.0));
            assert_eq!(read(folder.path(), "s"), expected, "continued at {cut}");
        }
    }

    #[test]
    fn garbage_is_survived() {
        let folder = tempfile::tempdir().unwrap();
        let mut log = Log::new(folder.path(), "s");
        std::fs::write(log.path(), [0, 255, b'\n', b'o', b'x', 200, b'\n', b'\n']).unwrap();
        log.append(&record("p", 1.0)).unwrap();
        assert_eq!(read(folder.path(), "s"), [record("p", 1.0)]);
    }

    #[test]
    fn another_scope_sees_nothing_even_in_the_same_file() {
        let folder = tempfile::tempdir().unwrap();
        let mut log = Log::new(folder.path(), "driver 1");
        log.append(&record("p", 1.0)).unwrap();
        assert!(read(folder.path(), "driver 2").is_empty());
        let other = Log::new(folder.path(), "driver 2");
        std::fs::copy(log.path(), other.path()).unwrap();
        assert!(read(folder.path(), "driver 2").is_empty());
    }

    #[test]
    fn writers_with_handles_of_their_own_lose_nothing() {
        const WRITERS: usize = 4;
        const RECORDS: usize = 200;
        let folder = tempfile::tempdir().unwrap();
        std::thread::scope(|scope| {
            for writer in 0..WRITERS {
                let folder = folder.path();
                scope.spawn(move || {
                    let mut log = Log::new(folder, "s");
                    for i in 0..RECORDS {
                        log.append(&record(&format!("p{writer}-{i}"), 1.0)).unwrap();
                        if i % 50 == 0 {
                            let lock = log.lock().unwrap();
                            log.compact(|_| true).unwrap();
                            drop(lock);
                        }
                    }
                });
            }
        });
        let mut names: Vec<String> = read(folder.path(), "s").into_iter().map(|record| record.problem).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), WRITERS * RECORDS);
    }

    #[test]
    fn compacting_keeps_the_newest_of_each_and_what_is_not_ours() {
        let folder = tempfile::tempdir().unwrap();
        let mut log = Log::new(folder.path(), "s");
        for us in [1.0, 2.0, 3.0] {
            log.append(&record("p", us)).unwrap();
            log.append(&record("q", us)).unwrap();
        }
        let mut file = OpenOptions::new().append(true).open(log.path()).unwrap();
        file.write_all(b"oxidnn-find 2 something newer\nspoilt\n").unwrap();
        let lock = log.lock().unwrap();
        log.compact(|_| true).unwrap();
        drop(lock);
        assert_eq!(read(folder.path(), "s"), [record("p", 3.0), record("q", 3.0)]);
        let text = std::fs::read_to_string(log.path()).unwrap();
        assert!(text.starts_with("# Times") && text.contains("something newer") && !text.contains("spoilt"), "{text}");
    }

    #[test]
    fn a_long_log_is_compacted_by_its_writers() {
        let folder = tempfile::tempdir().unwrap();
        let mut log = Log::new(folder.path(), "s");
        log.append(&record("p", 1.0)).unwrap();
        let line = std::fs::read(log.path()).unwrap();
        std::fs::write(log.path(), line.repeat(COMPACT_BYTES as usize / line.len() + 1)).unwrap();
        log.append(&record("p", 2.0)).unwrap();
        assert_eq!(read(folder.path(), "s"), [record("p", 2.0)]);
    }

    #[test]
    fn a_lock_that_is_not_released_is_an_error_and_no_hang() {
        let folder = tempfile::tempdir().unwrap();
        let mut log = Log::new(folder.path(), "s");
        log.append(&record("p", 1.0)).unwrap();
        let held = Log::new(folder.path(), "s").lock().unwrap();
        log.patience = Duration::from_millis(20);
        assert_eq!(log.append(&record("q", 1.0)).unwrap_err().kind(), ErrorKind::WouldBlock);
        drop(held);
        log.append(&record("q", 1.0)).unwrap();
    }
}
