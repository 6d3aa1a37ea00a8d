//! Estimates corrected by times that were measured.
//!
//! A model of a kernel is right about what it counts and wrong about the rest, in a way that problems of like extents
//! share. `calibration/h200.tsv.zst` keeps what the candidates of the suites' problems took on an H200, each with the
//! estimate of the model, and `h100.tsv.zst` of some of them on an H100; an estimate for a problem is multiplied with the
//! mean error of the same candidate's estimates for problems around it, in logarithms: Nadaraya and Watson's estimator
//! with a Gaussian weight.
//! `oxidnn compare --calibrate` writes a file. What was not measured on one of the two is as far off as on the other.

use std::collections::HashMap;
use std::sync::OnceLock;

/// A word of a GPU's name and its file, as text: a problem, then its candidates, `tab estimate tab time tab algorithm tab
/// config`, both in us. The first counts for GPUs of other names.
const FILES: [(&str, &[u8]); 2] =
    [("H200", include_bytes!("calibration/h200.tsv.zst")), ("H100", include_bytes!("calibration/h100.tsv.zst"))];

/// How far measurements reach: extents whose logarithms to base 2 differ by this, in the Euclidean norm. With a problem's
/// own measurements left out, picks are best at 1.0 to 1.4 (`what_was_left_out_is_guessed_from_its_neighbours`).
const REACH: f64 = 1.0;

/// Weight of measurements of a problem itself, where that of its nearest neighbour is 1 at the most.
const ITSELF: f64 = 6.0;

/// Weight of the candidate's median error over all problems.
const COMMON: f64 = 0.03;

/// The most that a correction multiplies or divides by: a model that is further off wants mending.
const MOST: f64 = 4.0;

/// Weights below this are none.
const LEAST: f64 = 1e-4;

/// A problem that was measured.
struct Measured {
    place: Vec<f64>,
    /// Candidate, and the logarithm of time over estimate.
    errors: Vec<(u32, f64)>,
}

/// Everything that was measured.
#[derive(Default)]
struct Table {
    /// By names without their type.
    candidates: HashMap<String, u32>,
    /// Median error of each candidate.
    common: Vec<f64>,
    kinds: HashMap<String, Vec<Measured>>,
}

/// Which file is a GPU's.
fn file_of(gpu: &str) -> usize {
    FILES.iter().position(|(word, _)| gpu.contains(word)).unwrap_or(0)
}

/// The text of a GPU's table.
pub(crate) fn text(gpu: &str) -> String {
    zstd::decode_all(FILES[file_of(gpu)].1).ok().and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_default()
}

fn table(file: usize) -> &'static Table {
    static TABLES: [OnceLock<Table>; FILES.len()] = [const { OnceLock::new() }; FILES.len()];
    TABLES[file].get_or_init(|| Table::read(Box::leak(text(FILES[file].0).into_boxed_str())))
}

impl Table {
    fn read(text: &'static str) -> Self {
        let mut table = Table::default();
        let mut all: Vec<Vec<f64>> = Vec::new();
        let mut last: Option<&mut Measured> = None;
        for line in text.lines() {
            let Some(cells) = line.strip_prefix('\t') else {
                let (kind, place) = kind_and_place(line);
                let list = table.kinds.entry(kind).or_default();
                list.push(Measured { place, errors: Vec::new() });
                last = list.last_mut();
                continue;
            };
            let mut cells = cells.split('\t');
            let mut number = || cells.next().and_then(|cell| cell.parse::<f64>().ok());
            let (estimate, time) = (number(), number());
            let (Some(estimate), Some(time), Some(algorithm), Some(config)) =
                (estimate, time, cells.next(), cells.next())
            else {
                continue;
            };
            let next = table.candidates.len() as u32;
            let candidate = *table.candidates.entry(of_type(&format!("{algorithm}\t{config}"))).or_insert(next);
            all.resize_with(table.candidates.len(), Vec::new);
            let error = (time / estimate).ln();
            if let (Some(measured), true) = (last.as_mut(), error.is_finite()) {
                measured.errors.push((candidate, error));
                all[candidate as usize].push(error);
            }
        }
        let median = |mut errors: Vec<f64>| {
            errors.sort_by(f64::total_cmp);
            errors.get(errors.len() / 2).copied().unwrap_or(0.0)
        };
        table.common = all.into_iter().map(median).collect();
        table
    }

    /// A candidate's number and its median error, if it was ever measured.
    fn common_error(&self, algorithm: &str, config: &str) -> Option<(u32, f64)> {
        let candidate = *self.candidates.get(&of_type(&format!("{algorithm}\t{config}")))?;
        Some((candidate, self.common[candidate as usize]))
    }
}

/// The text with the two types of 16 bits as one: their kernels take the same steps, so what one takes tells of the other.
fn of_type(text: &str) -> String {
    text.replace("bf16", "f16")
}

/// What must be equal for problems to be compared (operator, pass, types but for those of 16 bits, layouts, words), and
/// where among its like a problem stands: logarithms of its extents and of its whole numbers, and the type.
fn kind_and_place(problem: &str) -> (String, Vec<f64>) {
    /// How far the other type of 16 bits is: as far as extents that differ by a fifth.
    const OTHER_TYPE: f64 = 0.25;
    let (mut kind, mut place) = (String::new(), Vec::new());
    for word in problem.split_ascii_whitespace() {
        kind.push(' ');
        let Some((name, value)) = word.split_once('=') else {
            kind.push_str(word);
            continue;
        };
        let (extents, form) = value.split_once(':').unwrap_or((value, ""));
        let numbers: Result<Vec<u64>, _> = extents.split('x').map(str::parse).collect();
        match numbers {
            Ok(numbers) => {
                // Strides are as many as tensors; that there are any says enough.
                let strided = form.rsplit(':').next().is_some_and(|layout| layout.starts_with('s'));
                let form = if strided { form.split(':').next().unwrap_or(form) } else { form };
                kind.push_str(&format!("{name}={}:{form}{}", numbers.len(), if strided { ":s" } else { "" }));
                let from = u64::from(form.is_empty());
                place.extend(numbers.iter().map(|&number| ((number + from).max(1) as f64).log2()));
            }
            // Numbers with a point matter to no time.
            Err(_) if value.parse::<f64>().is_ok() => {}
            Err(_) => kind.push_str(word),
        }
    }
    place.push(if kind.contains("bf16") { OTHER_TYPE } else { 0.0 });
    (of_type(&kind), place)
}

/// What measurements say of the estimates for one problem.
pub(super) struct Correction {
    itself: f64,
    problem: String,
    /// Those of its GPU.
    own: Near,
    /// Those of the others, read where a candidate needs them.
    others: OnceLock<Vec<Near>>,
}

impl Correction {
    /// For a GPU and a problem's text.
    pub(super) fn of(gpu: &str, problem: &str) -> Self {
        Self::weighing(file_of(gpu), ITSELF, problem)
    }

    /// The same, with a weight of its own for measurements of the problem itself.
    fn weighing(file: usize, itself: f64, problem: &str) -> Self {
        let own = Near::weighing(file, itself, problem);
        Correction { itself, problem: problem.to_owned(), own, others: OnceLock::new() }
    }

    fn others(&self) -> &[Near] {
        let near = |file| Near::weighing(file, self.itself, &self.problem);
        self.others.get_or_init(|| (0..FILES.len()).filter(|&file| file != self.own.file).map(near).collect())
    }

    /// The factor of a candidate's estimate. One that was not measured around here is taken to be as far off as its median
    /// on this GPU, where the file is the first and has it, else as on another GPU; and no less than the others are here,
    /// or it would be chosen for what is known of them.
    pub(super) fn factor(&self, algorithm: &str, config: &str) -> f64 {
        self.error(algorithm, config).exp().clamp(1.0 / MOST, MOST)
    }

    /// Its logarithm.
    fn error(&self, algorithm: &str, config: &str) -> f64 {
        let error = match self.own.errors(algorithm, config) {
            Some((Some(error), _)) => return error,
            // The first file says more about what it has than another.
            Some((None, common)) if self.own.file == 0 => common,
            _ => {
                let of = |near: &Near| {
                    let (error, common) = near.errors(algorithm, config)?;
                    Some(error.unwrap_or_else(|| common.max(near.optimism)))
                };
                self.others().iter().find_map(of).unwrap_or(0.0)
            }
        };
        error.max(self.own.optimism)
    }
}

/// What was measured on one GPU around a problem.
struct Near {
    file: usize,
    /// Sums of weights, and of weighted errors, by candidate.
    sums: HashMap<u32, (f64, f64)>,
    /// The mean error of all of them, where it says that models are optimistic here; 0 where not.
    optimism: f64,
}

impl Near {
    /// See [`Correction::weighing`].
    fn weighing(file: usize, itself: f64, problem: &str) -> Self {
        let (kind, place) = kind_and_place(problem);
        let mut sums: HashMap<u32, (f64, f64)> = HashMap::new();
        for measured in table(file).kinds.get(&kind).into_iter().flatten() {
            let squares: f64 = place.iter().zip(&measured.place).map(|(a, b)| (a - b) * (a - b)).sum();
            let weight = if squares == 0.0 { itself } else { (-squares / (2.0 * REACH * REACH)).exp() };
            if weight < LEAST {
                continue;
            }
            for &(candidate, error) in &measured.errors {
                let (weights, errors) = sums.entry(candidate).or_default();
                *weights += weight;
                *errors += weight * error;
            }
        }
        let (weights, errors) = sums.values().fold((0.0, 0.0), |(w, e), sum| (w + sum.0, e + sum.1));
        let optimism = if weights > 0.0 { (errors / weights).max(0.0) } else { 0.0 };
        Near { file, sums, optimism }
    }

    /// The mean error of a candidate around here, if it was measured here, and its median one, if it was anywhere.
    fn errors(&self, algorithm: &str, config: &str) -> Option<(Option<f64>, f64)> {
        let (candidate, common) = table(self.file).common_error(algorithm, config)?;
        let mean = |(weights, errors): &(f64, f64)| (errors + COMMON * common) / (weights + COMMON);
        Some((self.sums.get(&candidate).map(mean), common))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_of_one_kind_differ_in_numbers_only() {
        let near = "conv:fprop pad=1x1 groups=1 x=8x64x56x56:bf16:nhwc w=64x64x3x3:bf16:nhwc";
        let far = "conv:fprop pad=2x2 groups=4 x=9x32x7x7:bf16:nhwc w=64x8x3x3:bf16:nhwc";
        assert_eq!(kind_and_place(near).0, kind_and_place(far).0);
        let (_, place) = kind_and_place(near);
        assert_eq!(place[..5], [1.0, 1.0, 1.0, 3.0, 6.0]);
        for other in [near.replace("nhwc w", "nchw w"), near.replace("bf16", "f32"), near.replace("fprop", "dgrad")] {
            assert_ne!(kind_and_place(near).0, kind_and_place(&other).0);
        }
        let half = kind_and_place(&near.replace("bf16", "f16"));
        assert_eq!(half.0, kind_and_place(near).0);
        assert_ne!(half.1, place);
        let norm = |eps: &str, mode: &str| kind_and_place(&format!("norm:forward mode={mode} eps={eps} x=4x5:f32"));
        assert_eq!(norm("0.001", "rms"), norm("0.1", "rms"));
        assert_ne!(norm("0.001", "rms").0, norm("0.001", "layer").0);
    }

    /// How many problems of the file there are with a choice, for how many of them the estimates' pick takes at most 5 %
    /// longer than the best, and the mean of the logarithms of how much longer picks take.
    fn picks(gpu: &str, itself: f64) -> (f64, f64, f64) {
        let text = text(gpu);
        let (mut n, mut near, mut longer) = (0.0, 0.0, 0.0);
        let mut lines = text.lines().peekable();
        while let Some(problem) = lines.next() {
            let correction = Correction::weighing(file_of(gpu), itself, problem);
            let mut judged = Vec::new();
            while let Some(line) = lines.next_if(|line| line.starts_with('\t')) {
                let cells: Vec<&str> = line.trim_start().split('\t').collect();
                let [estimate, time]: [f64; 2] = [cells[0], cells[1]].map(|cell| cell.parse().unwrap());
                judged.push((estimate * correction.factor(cells[2], cells[3]), time));
            }
            let picked = judged.iter().min_by(|a, b| a.0.total_cmp(&b.0)).unwrap().1;
            let best = judged.iter().map(|&(_, time)| time).min_by(f64::total_cmp).unwrap();
            if judged.len() > 1 && best > 0.0 {
                n += 1.0;
                near += f64::from(picked <= 1.05 * best);
                longer += (picked / best).ln();
            }
        }
        (n, near / n, longer / n)
    }

    #[test]
    fn what_was_measured_is_picked_again() {
        for (gpu, least) in [("H200", 1000.0), ("H100", 500.0)] {
            let (n, near, longer) = picks(gpu, ITSELF);
            println!("{gpu}: {n} problems, {near:.3} of them within 5 %, {longer:.4} longer in the mean");
            assert!(n > least && near > 0.97 && longer < 0.005, "{gpu}: {near} of {n}, {longer}");
        }
    }

    /// What users may expect whose problems are in no suite.
    #[test]
    fn what_was_left_out_is_guessed_from_its_neighbours() {
        for (gpu, least) in [("H200", 1000.0), ("H100", 500.0)] {
            let (n, near, longer) = picks(gpu, 0.0);
            println!("{gpu}: {n} problems, {near:.3} of them within 5 %, {longer:.4} longer in the mean");
            assert!(n > least && near > 0.85 && longer < 0.03, "{gpu}: {near} of {n}, {longer}");
        }
    }

    /// Kernels that came after the last measurements on an H200.
    #[test]
    fn what_one_gpu_never_ran_is_as_far_off_as_on_the_other() {
        let only_there = |name: &&String| !table(0).candidates.contains_key(*name);
        let mut n = 0;
        for name in table(1).candidates.keys().filter(only_there) {
            let (algorithm, config) = name.split_once('\t').unwrap();
            let text = text("H100");
            let is_of = |line: &&str| of_type(line).ends_with(&format!("\t{name}"));
            let lines: Vec<&str> = text.lines().collect();
            let at = lines.iter().position(is_of).unwrap();
            let problem = lines[..at].iter().rfind(|line| !line.starts_with('\t')).unwrap();
            let there = Near::weighing(1, ITSELF, problem).errors(algorithm, config).unwrap().0.unwrap();
            let here = Correction::of("NVIDIA H200", problem);
            assert_eq!(here.error(algorithm, config), there.max(here.own.optimism), "{problem}: {name}");
            n += 1;
        }
        println!("{n} candidates were timed on an H100 only");
    }

    #[test]
    fn what_was_measured_is_found_again() {
        let gpu = "NVIDIA H200";
        let text = text(gpu);
        let mut problem = "";
        let (mut n, mut right) = (0, 0);
        for line in text.lines() {
            let Some(cells) = line.strip_prefix('\t') else {
                problem = line;
                continue;
            };
            let cells: Vec<&str> = cells.split('\t').collect();
            let [estimate, time]: [f64; 2] = [cells[0], cells[1]].map(|cell| cell.parse().unwrap());
            let corrected = estimate * Correction::of(gpu, problem).factor(cells[2], cells[3]);
            n += 1;
            right += usize::from((corrected / time).ln().abs() < 0.25);
        }
        // Neighbours have a say, so not all are met.
        assert!(n > 1000 && right * 10 > n * 9, "{right} of {n}");
        // What was not measured is not better for it.
        assert!(Correction::of(gpu, problem).factor("nobody", "nothing") >= 1.0);
        assert_eq!(Correction::of(gpu, "nothing:forward x=4:f32").factor("nobody", "nothing"), 1.0);
    }
}
