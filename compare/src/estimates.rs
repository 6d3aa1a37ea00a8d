//! Estimates against times, without a GPU.
//!
//! What `oxidnn compare … --verbose` printed on an H200 names every problem and what each candidate took. Here the
//! estimates of today's code, for a described H200, are held against those times: how often the least estimate is as good
//! as the best time, which choices cost most, and where each algorithm's estimates are. Whoever changes a kernel or an
//! estimate runs the suites once more and reads this.

use crate::ours::name;
use crate::timing::geometric_mean;
use anyhow::{Context as _, Result, bail};
use oxidnn::operators::parse_problem;
use oxidnn::{Context, DeviceInfo, Verdict};
use rayon::prelude::*;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

/// A choice that takes at most this many times the best candidate's time is a good one.
const GOOD: f64 = 1.05;

/// Lines of the list of the worst choices.
const WORST: usize = 40;

/// A problem of a log, and the times of its candidates by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Timed {
    table: String,
    pub(crate) problem: String,
    pub(crate) times: BTreeMap<String, f64>,
}

/// The problems of a log, those without times left out.
pub(crate) fn read(log: &str) -> Vec<Timed> {
    let mut all: Vec<Timed> = Vec::new();
    let mut table = String::new();
    for line in log.lines() {
        let indented = line.starts_with(' ');
        if !indented && parse_problem(line).is_ok() {
            all.push(Timed { table: table.clone(), problem: line.to_owned(), times: BTreeMap::new() });
        } else if !indented && let Some((title, _)) = line.split_once(", ") {
            title.clone_into(&mut table);
        } else if let (Some(timed), true) = (all.last_mut(), indented) {
            if let Some((us, name)) = candidate(line) {
                timed.times.insert(name.to_owned(), us);
            } else if let Some((us, name)) = choice(line) {
                timed.times.entry(name.to_owned()).or_insert(us);
            }
        }
    }
    all.retain(|timed| !timed.times.is_empty());
    all
}

/// `12.3 us name, workspace …`.
fn candidate(line: &str) -> Option<(f64, &str)> {
    let (us, rest) = line.trim_start().split_once(" us ")?;
    let (name, _) = rest.split_once(", workspace ")?;
    Some((us.parse().ok()?, name))
}

/// The heuristic's choice at the end of a row, `… | ours 12.3 us … | heuristic name 1.23`, where it was not timed as a
/// candidate.
fn choice(line: &str) -> Option<(f64, &str)> {
    let (_, ours) = line.split_once("| ours ")?;
    let us: f64 = ours.trim_start().split_once(' ')?.0.parse().ok()?;
    let (_, choice) = line.rsplit_once("| heuristic ")?;
    let (name, loss) = choice.trim_end().split_once(' ')?;
    Some((us * loss.parse::<f64>().ok()?, name))
}

/// A problem with estimates.
struct Judged {
    timed: Timed,
    /// Candidates that are able: name, algorithm, estimate, and time where it is known; least estimate first.
    candidates: Vec<(String, &'static str, f64, Option<f64>)>,
}

impl Judged {
    fn new(timed: Timed, context: &Context) -> Result<Self> {
        let problem = parse_problem(&timed.problem)?;
        let mut candidates = Vec::new();
        for candidate in problem.candidates(context) {
            if let Verdict::Able { estimate_us, .. } = candidate.verdict {
                let name = name(candidate.algorithm, candidate.config);
                let time = timed.times.get(&name).copied();
                candidates.push((name, candidate.algorithm, estimate_us, time));
            }
        }
        // As the library does: equal estimates keep the order of the list.
        candidates.sort_by(|a, b| a.2.total_cmp(&b.2));
        Ok(Judged { timed, candidates })
    }

    fn best(&self) -> Option<(&str, f64)> {
        let timed = self.candidates.iter().filter_map(|(name, _, _, time)| Some((name.as_str(), (*time)?)));
        timed.min_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// The time of the choice over the best one; infinite where the choice was not timed: it was far off by the estimates
    /// of that day, or is new.
    fn loss(&self) -> f64 {
        match (self.candidates.first(), self.best()) {
            (Some((_, _, _, Some(us))), Some((_, best))) => us / best,
            _ => f64::INFINITY,
        }
    }
}

/// Reads logs and says how good the estimates are; with `every`, of each candidate.
///
/// # Errors
/// For a log that cannot be read or has no times.
pub(crate) fn report(logs: &[PathBuf], every: bool) -> Result<String> {
    let mut timed = Vec::new();
    for path in logs {
        let log = std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
        timed.extend(read(&log));
    }
    if timed.is_empty() {
        bail!("expected what compare --verbose prints, found no times in {logs:?}");
    }
    let context = Context::described(DeviceInfo::h200());
    let judged: Vec<Judged> = timed.into_par_iter().map(|timed| Judged::new(timed, &context)).collect::<Result<_>>()?;
    let mut text = String::new();
    if every {
        for judged in &judged {
            writeln!(text, "{}\t{}", judged.timed.table, judged.timed.problem)?;
            for (name, _, estimate, time) in &judged.candidates {
                let time = time.map_or("-".to_owned(), |time| format!("{time:.1}"));
                writeln!(text, "    {estimate:.2}\t{time}\t{name}")?;
            }
        }
    }
    write_worst(&mut text, &judged)?;
    write_algorithms(&mut text, &judged)?;
    write_tables(&mut text, &judged)?;
    Ok(text)
}

/// The choices that cost most.
fn write_worst(text: &mut String, judged: &[Judged]) -> Result<()> {
    let mut worst: Vec<(f64, &Judged)> = judged.iter().map(|judged| (judged.loss(), judged)).collect();
    worst.sort_by(|a, b| b.0.total_cmp(&a.0));
    writeln!(text, "the worst choices: time over the best one's, its time, choice, best")?;
    for (loss, judged) in worst.iter().take(WORST).filter(|(loss, _)| *loss > GOOD) {
        let (best, us) = judged.best().unwrap_or(("-", f64::NAN));
        let choice = judged.candidates.first().map_or("-", |choice| choice.0.as_str());
        writeln!(text, "{loss:8.2} {us:9.1} us  {choice}  {best}  {}", judged.timed.problem)?;
    }
    Ok(())
}

/// Estimate over time of every algorithm.
fn write_algorithms(text: &mut String, judged: &[Judged]) -> Result<()> {
    let mut ratios: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for (_, algorithm, estimate, time) in judged.iter().flat_map(|judged| &judged.candidates) {
        if let Some(time) = time {
            ratios.entry(algorithm).or_default().push(estimate / time);
        }
    }
    writeln!(
        text,
        "\n{:<24} {:>6} {:>7} {:>7} {:>7}  estimate over time",
        "algorithm", "timed", "10 %", "median", "90 %"
    )?;
    for (algorithm, mut ratios) in ratios {
        ratios.sort_by(f64::total_cmp);
        let at = |share: f64| ratios[((ratios.len() - 1) as f64 * share).round() as usize];
        let [low, median, high] = [at(0.1), at(0.5), at(0.9)];
        writeln!(text, "{algorithm:<24} {:>6} {low:>7.2} {median:>7.2} {high:>7.2}", ratios.len())?;
    }
    Ok(())
}

/// How many choices of each table are good; one that was not timed counts as bad.
fn write_tables(text: &mut String, judged: &[Judged]) -> Result<()> {
    let mut tables: Vec<(&str, Vec<f64>)> = Vec::new();
    for judged in judged {
        let table = judged.timed.table.as_str();
        match tables.iter_mut().find(|(title, _)| *title == table) {
            Some((_, losses)) => losses.push(judged.loss()),
            None => tables.push((table, vec![judged.loss()])),
        }
    }
    let all: Vec<f64> = tables.iter().flat_map(|(_, losses)| losses.clone()).collect();
    tables.push(("all", all));
    writeln!(
        text,
        "\n{:<40} {:>9} {:>5} {:>6} {:>8} {:>9}",
        "table", "within 5 %", "of", "share", "mean", "not timed"
    )?;
    for (table, losses) in tables {
        let good = losses.iter().filter(|loss| **loss <= GOOD).count();
        let known: Vec<f64> = losses.iter().copied().filter(|loss| loss.is_finite()).collect();
        let share = 100.0 * good as f64 / losses.len() as f64;
        let mean = geometric_mean(&known);
        let unknown = losses.len() - known.len();
        writeln!(text, "{table:<40} {good:>9} {:>6} {share:>5.1} % {mean:>7.3} {unknown:>9}", losses.len())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "\
NVIDIA H200 (gpu:0): a plain copy moves 4186 GB/s
some-fprop-bf16-nhwc, none
conv:fprop pad=1x1 x=8x64x56x56:bf16:nhwc w=64x64x3x3:bf16:nhwc
    trying fprop_im2col_wgmma_bf16_256x64_sm90
          13.0 us halo_wgmma:halo_fprop_wgmma_bf16_64x256_sm90, workspace 0 bytes
          17.5 us fprop_im2col_wgmma_bf16_128x64_sm90, workspace 0 bytes
     - x | ours      12.5 us     1 TF/s  0.00 of copy | peer - us | fprop a | one vs - | err 1e-3 / NaN | heuristic other 2.00

some-fprop-bf16-nhwc: 0 of 1 problems compared; heuristic within 5 % on 0 of 1
";

    #[test]
    fn a_log_is_read() {
        let all = read(LOG);
        assert_eq!(all.len(), 1);
        assert_eq!(all[0].table, "some-fprop-bf16-nhwc");
        let expected = [
            ("fprop_im2col_wgmma_bf16_128x64_sm90", 17.5),
            ("halo_wgmma:halo_fprop_wgmma_bf16_64x256_sm90", 13.0),
            ("other", 25.0),
        ];
        assert_eq!(all[0].times, expected.map(|(name, us)| (name.to_owned(), us)).into());
    }

    #[test]
    fn candidates_are_held_against_their_times() {
        let context = Context::described(DeviceInfo::h200());
        let judged = Judged::new(read(LOG).remove(0), &context).unwrap();
        assert_eq!(judged.best(), Some(("halo_wgmma:halo_fprop_wgmma_bf16_64x256_sm90", 13.0)));
        assert!(judged.candidates.is_sorted_by(|a, b| a.2 <= b.2));
        assert!(judged.loss() >= 1.0);
    }

    #[test]
    fn what_has_no_times_is_an_error() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(report(&[file.path().to_owned()], false).is_err());
    }
}
