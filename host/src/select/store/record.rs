//! One line of the log: a problem's measurements, which tell by themselves whether they are whole.
//!
//! `oxidnn-find <version> <checksum> <bytes> <payload>`; the payload is the problem and five fields a candidate,
//! between tabs. The checksum is over the scope and the payload: a record is only ever read under the scope that it
//! was written for, whatever file it turns up in.

use super::{Entry, Timing};
use kernel_abi::layout::{FNV_START, fnv};
use std::fmt::Write as _;

/// What every record begins with.
const MARK: &str = "oxidnn-find";

/// Of the format. Records of other versions are skipped when reading and kept when compacting.
const VERSION: &str = "1";

/// A problem with the measurements of some of its candidates.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Record {
    pub(super) problem: String,
    pub(super) entries: Vec<Entry>,
}

/// What a line of the log is.
#[derive(Debug, PartialEq)]
pub(super) enum Line {
    /// A whole record of this scope.
    Record(Record),
    /// A remark for people.
    Comment,
    /// A record of another version: nothing for us, and not ours to remove.
    Foreign,
    /// Torn, overwritten or of another scope.
    Spoilt,
}

/// The line of a record, without its end; None where a text would break it.
pub(super) fn encode(record: &Record, scope: &str) -> Option<String> {
    let mut payload = record.problem.clone();
    for Entry { algorithm, config, timing } in &record.entries {
        let kind = if timing.cut_short { "first" } else { "median" };
        let Timing { us, workspace_bytes, .. } = timing;
        // Writing to a string does not fail.
        let _ = write!(payload, "\t{algorithm}\t{config}\t{us}\t{workspace_bytes}\t{kind}");
    }
    let tabs = payload.matches('\t').count();
    if tabs != FIELDS * record.entries.len() || payload.contains(['\n', '\r']) {
        return None;
    }
    Some(format!("{MARK} {VERSION} {:016x} {} {payload}", checksum(scope, &payload), payload.len()))
}

/// Fields of a candidate.
const FIELDS: usize = 5;

/// Reads a line, given without its end.
pub(super) fn decode(line: &[u8], scope: &str) -> Line {
    if line.starts_with(b"#") {
        return Line::Comment;
    }
    let Ok(line) = std::str::from_utf8(line) else { return Line::Spoilt };
    let mut words = line.splitn(5, ' ');
    if words.next() != Some(MARK) {
        return Line::Spoilt;
    }
    match words.next() {
        Some(VERSION) => {}
        // A torn version is a number too; it only means that compaction keeps the fragment.
        Some(version) if version.parse::<u32>().is_ok() => return Line::Foreign,
        _ => return Line::Spoilt,
    }
    let (Some(sum), Some(bytes), Some(payload)) = (words.next(), words.next(), words.next()) else {
        return Line::Spoilt;
    };
    let whole = bytes.parse() == Ok(payload.len()) && sum == format!("{:016x}", checksum(scope, payload));
    match whole.then(|| fields(payload)).flatten() {
        Some(record) => Line::Record(record),
        None => Line::Spoilt,
    }
}

fn fields(payload: &str) -> Option<Record> {
    let mut fields = payload.split('\t');
    let problem = fields.next()?.to_owned();
    let fields: Vec<&str> = fields.collect();
    let entries = fields
        .chunks(FIELDS)
        .map(|chunk| {
            let &[algorithm, config, us, workspace_bytes, kind] = chunk else { return None };
            let us: f64 = us.parse().ok()?;
            let cut_short = match kind {
                "first" => true,
                "median" => false,
                _ => return None,
            };
            let timing = Timing { us, workspace_bytes: workspace_bytes.parse().ok()?, cut_short };
            (us.is_finite() && us >= 0.0).then(|| Entry {
                algorithm: algorithm.to_owned(),
                config: config.to_owned(),
                timing,
            })
        })
        .collect::<Option<_>>()?;
    Some(Record { problem, entries })
}

fn checksum(scope: &str, payload: &str) -> u64 {
    fnv(fnv(fnv(FNV_START, scope.as_bytes()), b"\n"), payload.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Record {
        let entry = |config: &str, us, cut_short| Entry {
            algorithm: "naive".to_owned(),
            config: config.to_owned(),
            timing: Timing { us, workspace_bytes: 7, cut_short },
        };
        Record {
            problem: "conv:fprop x=1".to_owned(),
            entries: vec![entry("a", 0.1 + 0.2, false), entry("b", 3e9, true)],
        }
    }

    #[test]
    fn a_record_comes_back_bit_for_bit() {
        let line = encode(&record(), "s").unwrap();
        assert_eq!(decode(line.as_bytes(), "s"), Line::Record(record()));
    }

    #[test]
    fn nothing_but_the_whole_record_is_read() {
        let line = encode(&record(), "s").unwrap();
        for end in 0..line.len() {
            assert!(!matches!(decode(&line.as_bytes()[..end], "s"), Line::Record(_)), "{end}");
        }
        for at in 0..line.len() {
            let mut bytes = line.clone().into_bytes();
            bytes[at] ^= 1;
            assert!(!matches!(decode(&bytes, "s"), Line::Record(_)), "{at}");
        }
        assert_eq!(decode(line.as_bytes(), "another scope"), Line::Spoilt);
        assert_eq!(decode(line.replace("find 1 ", "find 2 ").as_bytes(), "s"), Line::Foreign);
    }

    #[test]
    fn texts_that_would_break_the_line_are_not_written() {
        for problem in ["a\tb", "a\nb"] {
            assert_eq!(encode(&Record { problem: problem.to_owned(), ..record() }, "s"), None);
        }
    }
}
