//! The file of times that estimates are corrected by.

use crate::estimates::read;
use crate::ours::name;
use anyhow::{Context as _, Result};
use oxidnn::operators::parse_problem;
use oxidnn::{Context, DeviceInfo, Verdict};
use rayon::prelude::*;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// zstd's level: the file is written seldom and read by everybody.
const LEVEL: i32 = 19;

/// Times of a problem's candidates, by their names in logs.
type Times = BTreeMap<String, f64>;

/// Writes the times of these logs, and those of the file that they lack if there is one, each with today's estimate.
/// Problems and candidates that do not exist any more are left out.
///
/// # Errors
/// For a log or file that cannot be read, and a file that cannot be written.
pub(crate) fn write(logs: &[PathBuf], path: &Path) -> Result<String> {
    let mut times = BTreeMap::new();
    if path.exists() {
        let text = std::fs::File::open(path).and_then(zstd::decode_all);
        let text = text.with_context(|| format!("reading {}", path.display()))?;
        times = of_text(std::str::from_utf8(&text).with_context(|| format!("reading {}", path.display()))?);
    }
    for path in logs {
        let log = std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
        times.extend(read(&log).into_iter().map(|timed| (timed.problem, timed.times)));
    }
    let text = with_estimates(&times);
    let file = std::fs::File::create(path).with_context(|| format!("writing {}", path.display()))?;
    zstd::stream::copy_encode(text.as_bytes(), file, LEVEL)?;
    Ok(format!("{} problems, {} lines in {}\n", times.len(), text.lines().count(), path.display()))
}

/// The times in the file's text.
fn of_text(text: &str) -> BTreeMap<String, Times> {
    let mut all: BTreeMap<String, Times> = BTreeMap::new();
    let mut problem = String::new();
    for line in text.lines() {
        let Some(cells) = line.strip_prefix('\t') else {
            line.clone_into(&mut problem);
            continue;
        };
        if let [_, time, algorithm, config] = cells.split('\t').collect::<Vec<_>>()[..]
            && let Ok(us) = time.parse()
        {
            all.entry(problem.clone()).or_default().insert(name(algorithm, config), us);
        }
    }
    all
}

/// The file's text: the estimates are those of models alone.
fn with_estimates(times: &BTreeMap<String, Times>) -> String {
    let context = Context::described(DeviceInfo { calibrated: false, ..DeviceInfo::h200() });
    let of = |(problem, times): (&String, &Times)| {
        let parsed = parse_problem(problem).ok()?;
        let mut lines = String::new();
        for candidate in parsed.candidates(&context) {
            let Verdict::Able { estimate_us, .. } = candidate.verdict else { continue };
            let (algorithm, config) = (candidate.algorithm, candidate.config);
            let Some(us) = times.get(&name(algorithm, config)) else { continue };
            // Writing to a string does not fail.
            let _ = writeln!(lines, "\t{estimate_us:.2}\t{us:.2}\t{algorithm}\t{config}");
        }
        (!lines.is_empty()).then(|| format!("{problem}\n{lines}"))
    };
    let texts: Vec<String> = times.par_iter().filter_map(of).collect();
    texts.concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_estimates_of_the_file_are_todays() {
        for gpu in ["H200", "H100"] {
            are_todays(gpu);
        }
    }

    fn are_todays(gpu: &str) {
        let text = oxidnn::measured_times(gpu);
        let every = 16;
        let some: BTreeMap<String, Times> = of_text(&text).into_iter().step_by(every).collect();
        let today = with_estimates(&some);
        let lines: std::collections::HashSet<&str> = text.lines().collect();
        let stale: Vec<&str> = today.lines().filter(|line| !lines.contains(line)).collect();
        assert!(
            stale.is_empty(),
            "a model was changed: run `oxidnn compare --calibrate host/src/select/calibration/{}.tsv.zst`; {stale:?}",
            gpu.to_lowercase()
        );
        assert!(some.len() > 30);
    }

    #[test]
    fn logs_and_the_file_become_one() {
        let folder = tempfile::tempdir().unwrap();
        let (log, path) = (folder.path().join("log"), folder.path().join("out.zst"));
        let problem = "conv:fprop pad=1x1 x=8x64x56x56:bf16:nhwc w=64x64x3x3:bf16:nhwc";
        std::fs::write(
            &log,
            format!("a-table, none\n{problem}\n      7.0 us conv_fprop_naive_bf16, workspace 0 bytes\n"),
        )
        .unwrap();
        let before = oxidnn::measured_times("H200");
        std::fs::write(&path, zstd::encode_all(before.as_bytes(), 1).unwrap()).unwrap();
        write(&[log], &path).unwrap();
        let text = String::from_utf8(zstd::decode_all(std::fs::File::open(&path).unwrap()).unwrap()).unwrap();
        assert!(text.contains(&format!("{problem}\n\t")) && text.contains("\t7.00\tnaive\tconv_fprop_naive_bf16\n"));
        assert!(of_text(&text).len() > of_text(&before).len());
    }
}
