//! Problems whose times are a formula: what is measured of them, and what that makes of the choice.

use super::recalled::{Part, Recalled};
use super::times::{Name, Times, name};
use super::{Aim, BatchSizes, Network};
use crate::operators::AnyProblem;
use crate::select::{Judged, over_limit};
use crate::{
    Batch, Candidate, Context, Division, Divisions, Error, FindOptions, Measured, MicroBatch, NetworkChoice, Operand,
    Origin, Plan, PlanRequest, Policy, Precision, StoreLocation, Verdict,
};
use rand::{RngExt as _, SeedableRng as _};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

/// A candidate: more images take no less time, and a + b no longer than a and then b.
#[derive(Clone, Debug)]
struct Kind {
    start_us: f64,
    /// Time of a round of blocks, and images that one takes.
    round: (f64, i64),
    image_us: f64,
    bytes: u64,
    bytes_per_image: u64,
    /// Parts that it takes have so many images at most.
    most: i64,
}

impl Kind {
    fn random(rng: &mut Xoshiro256PlusPlus, batch: i64) -> Self {
        let fast = rng.random_range(1.0..4.0);
        let needs = rng.random_range(0..3u64);
        Kind {
            start_us: rng.random_range(0.0..8.0),
            round: (fast * rng.random_range(0.0..16.0), rng.random_range(1..24)),
            image_us: fast / (1.0 + needs as f64),
            bytes: needs * rng.random_range(0..2000),
            bytes_per_image: needs * rng.random_range(0..1000),
            most: if rng.random_bool(0.8) { batch } else { rng.random_range(1..=batch) },
        }
    }

    fn us(&self, images: i64) -> f64 {
        let (us, share) = self.round;
        self.start_us + us * (images as u64).div_ceil(share as u64) as f64 + self.image_us * images as f64
    }
}

/// What of a problem is measured.
type Done = Arc<Mutex<HashSet<(i64, usize)>>>;

/// A problem of these candidates.
#[derive(Clone)]
struct Synthetic {
    text: String,
    batch: i64,
    kinds: Vec<Kind>,
    /// Whether all times are in the store from the start.
    is_known: bool,
    /// How long a measurement takes.
    wait: Duration,
    done: Done,
}

impl Synthetic {
    fn random(rng: &mut Xoshiro256PlusPlus, number: usize, batch: i64) -> Self {
        let mut kinds: Vec<Kind> = (1..rng.random_range(2..=NAMES.len())).map(|_| Kind::random(rng, batch)).collect();
        // One that always can: naive.
        kinds.push(Kind { bytes: 0, bytes_per_image: 0, most: batch, image_us: 9.0, ..Kind::random(rng, batch) });
        let text = format!("synthetic {number}");
        Synthetic { text, batch, kinds, is_known: false, wait: Duration::ZERO, done: Done::default() }
    }

    fn knows(&self, images: i64, kind: usize) -> bool {
        self.is_known || self.done.lock().unwrap().contains(&(images, kind))
    }

    /// Its part of so many images, by its first candidate of this name.
    fn us(&self, part: &MicroBatch) -> f64 {
        self.kinds[NAMES.iter().position(|&name| name == part.algorithm).unwrap()].us(part.batch)
    }
}

#[allow(private_interfaces)]
impl AnyProblem for Synthetic {
    fn text(&self) -> String {
        self.text.clone()
    }
    fn recall(&self, context: &Context, request: &PlanRequest) -> Recalled {
        let part = |images| {
            let (judged, missing) = self.recall_part(context, images, request);
            Part { images, judged, missing, is_given_up: false }
        };
        let parts = request.batch_sizes.of(self.batch, 1).into_iter().map(part).collect();
        let first = BatchSizes::PowerOfTwo.of(self.batch, 1);
        Recalled::new(self.text.clone(), (self.batch, 1), parts, first, None)
    }
    fn recall_part(&self, _: &Context, images: i64, request: &PlanRequest) -> (Judged, Vec<usize>) {
        let limit = request.workspace_limit_bytes.unwrap_or(u64::MAX);
        let (mut order, mut missing) = (Vec::new(), Vec::new());
        let judge = |(i, kind): (usize, &Kind)| {
            let workspace_bytes = kind.bytes + kind.bytes_per_image * images as u64;
            let us = kind.us(images);
            let measured = self.knows(images, i).then_some(Measured { us, cut_short: false, origin: Origin::Store });
            let verdict = match measured {
                _ if images > kind.most => Verdict::Refused("too many".to_owned()),
                _ if workspace_bytes > limit => Verdict::Refused(over_limit(workspace_bytes, limit)),
                _ => Verdict::Able { workspace_bytes, estimate_us: f64::INFINITY, measured },
            };
            match (&verdict, measured) {
                (Verdict::Refused(_), _) => {}
                (_, Some(_)) => order.push((i, us)),
                (_, None) => missing.push(i),
            }
            Candidate { algorithm: NAMES[i], config: "", spread: crate::Spread::None, verdict }
        };
        let candidates = self.kinds.iter().enumerate().map(judge).collect();
        (Judged { candidates, order }, missing)
    }
    fn measure_part(
        &self,
        context: &Context,
        (images, names): (i64, Option<&[Name]>),
        request: &PlanRequest,
        times: &Mutex<Times>,
    ) -> Result<(), Error> {
        std::thread::sleep(self.wait);
        let (judged, missing) = self.recall_part(context, images, request);
        let hopeless = times.lock().unwrap().hopeless(images, &judged.candidates);
        let is_asked_for = |i: &usize| match names {
            Some(names) => names.contains(&name(&judged.candidates[*i])),
            None => !hopeless.contains(i),
        };
        let measured = missing.into_iter().filter(is_asked_for).map(|i| (images, i));
        self.done.lock().unwrap().extend(measured);
        times.lock().unwrap().add(images, &self.recall_part(context, images, request).0.candidates);
        Ok(())
    }
    fn none_within(&self, _: &Context, _: &PlanRequest) -> Error {
        Error::Unsupported { problem: self.text(), reasons: Vec::new() }
    }
    // What follows is not asked for by a choice.
    fn op(&self) -> &'static str {
        "synthetic"
    }
    fn pass(&self) -> &'static str {
        ""
    }
    fn operands(&self) -> Vec<Operand> {
        Vec::new()
    }
    fn flops(&self) -> f64 {
        0.0
    }
    fn bytes(&self) -> f64 {
        0.0
    }
    fn accumulation_length(&self) -> f64 {
        0.0
    }
    fn precision(&self) -> Precision {
        Precision::of([])
    }
    fn plan(&self, context: &Context, request: &PlanRequest) -> Result<Plan, Error> {
        Err(self.none_within(context, request))
    }
    fn candidates(&self, _: &Context) -> Vec<Candidate> {
        Vec::new()
    }
    fn divisions(&self, context: &Context, request: &PlanRequest) -> Result<Divisions, Error> {
        Err(self.none_within(context, request))
    }
    fn batch(&self, context: &Context) -> Result<Batch, Error> {
        Err(self.none_within(context, &Policy::Find.into()))
    }
    fn micro_batch(&self, context: &Context, _: i64, _: &str, _: &str) -> Result<MicroBatch, Error> {
        Err(self.none_within(context, &Policy::Find.into()))
    }
    fn plan_division(&self, context: &Context, _: &Division) -> Result<Plan, Error> {
        Err(self.none_within(context, &Policy::Find.into()))
    }
}

/// A network of these problems, with parts of any size.
fn network(problems: &[Synthetic], find: FindOptions) -> Network {
    network_of(problems, BatchSizes::All, find)
}

fn network_of(problems: &[Synthetic], sizes: BatchSizes, find: FindOptions) -> Network {
    let context = Context::cpu();
    context.use_store(StoreLocation::Off);
    let layers = problems.iter().map(|problem| -> Box<dyn AnyProblem> { Box::new(problem.clone()) });
    Network::new(&context, layers, Policy::Find.micro_batches(sizes).find_options(find))
}

/// The same problems with all their times known.
fn all_known(problems: &[Synthetic]) -> Vec<Synthetic> {
    problems.iter().map(|problem| Synthetic { is_known: true, ..problem.clone() }).collect()
}

/// Random problems, of which the last is the first again.
fn problems(seed: u64, batch: i64) -> Vec<Synthetic> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut problems: Vec<Synthetic> = (0..3).map(|number| Synthetic::random(&mut rng, number, batch)).collect();
    problems.push(problems[0].clone());
    problems
}

/// Workspace for a choice to be made within: some images of a batch fit.
fn limits(batch: i64) -> [u64; 4] {
    [0, 150, 500, 3000].map(|share| share * batch as u64)
}

/// That the parts are measured and their times the true ones; gives the time of all.
fn checked_us(problems: &[Synthetic], choice: &NetworkChoice) -> f64 {
    for (layer, problem) in choice.layers.iter().zip(problems) {
        assert_eq!(layer.division.parts.iter().map(|part| part.batch).sum::<i64>(), problem.batch);
        for part in &layer.division.parts {
            let kind = NAMES.iter().position(|&name| name == part.algorithm).unwrap();
            assert!(problem.knows(part.batch, kind));
            assert!((part.time_us - problem.us(part)).abs() < 1e-5);
        }
    }
    choice.time_us()
}

/// What a choice may take beyond the best: what is not worth a measurement, and picoseconds.
fn is_as_good(us: f64, best: f64) -> bool {
    (best - 1e-3..=best / (1.0 - 1.0 / 200.0) + 1e-3).contains(&us)
}

#[test]
fn few_measurements_find_the_best_division() {
    let (mut n_measured, mut n_all, mut n_exact, mut n_choices) = (0, 0, 0, 0);
    for seed in 0..30 {
        let batch = [37, 64, 100, 256][seed as usize % 4];
        let problems = problems(seed, batch);
        let known = all_known(&problems);
        let mut compare = |choose: fn(&mut Network, u64) -> Result<NetworkChoice, Error>, limit: u64| {
            let best = choose(&mut network(&known, FindOptions::new()), limit);
            let mut lazy = network(&problems, FindOptions::new());
            let choice = choose(&mut lazy, limit);
            let (Ok(best), Ok(choice)) = (&best, &choice) else {
                assert!(best.is_err() && choice.is_err(), "seed {seed}, limit {limit}");
                return;
            };
            let (us, best_us) = (checked_us(&problems, choice), best.time_us());
            assert!(is_as_good(us, best_us), "seed {seed}, limit {limit}: {us} us, the best are {best_us}");
            n_exact += usize::from((us - best_us).abs() < 1e-3);
            n_choices += 1;
        };
        for limit in limits(batch) {
            compare(Network::reuse, limit);
            compare(Network::divide, 4 * limit);
        }
        n_measured += problems[..3].iter().map(|problem| problem.done.lock().unwrap().len()).sum::<usize>();
        n_all += problems[..3].iter().map(|problem| problem.kinds.len() * batch as usize).sum::<usize>();
    }
    assert!(4 * n_measured < n_all, "measured {n_measured} of {n_all}");
    assert!(n_choices > 200 && 2 * n_exact > n_choices, "{n_exact} of {n_choices} are the best exactly");
}

#[test]
fn a_front_is_measured_as_a_whole() {
    for seed in 100..106 {
        let problems = problems(seed, 48);
        let limit = 1000 * 48;
        let mut lazy = network(&problems, FindOptions::new());
        let mut known = network(&all_known(&problems), FindOptions::new());
        for layer in 0..3 {
            let (found, best) = (lazy.divisions(layer, limit).unwrap(), known.divisions(layer, limit).unwrap());
            assert_eq!(found.unmeasured, 0);
            for division in &best.front {
                let within = found.within(division.workspace_bytes).unwrap();
                assert!(is_as_good(within.time_us(), division.time_us()), "seed {seed}: {within} and {division}");
            }
        }
    }
}

#[test]
fn several_aims_are_measured_together() {
    let problems = problems(7, 100);
    let mut lazy = network(&problems, FindOptions::new());
    let aims = limits(100).map(|limit| [Aim::Each(limit), Aim::Total(4 * limit)]);
    lazy.measure(aims.as_flattened()).unwrap();
    let effort = lazy.effort();
    assert!(effort.rounds > 1 && effort.parts > 3 * 7, "{effort:?}");
    for limit in limits(100) {
        lazy.reuse(limit).unwrap();
        assert!(lazy.divide(4 * limit).is_ok());
        assert_eq!(lazy.unmeasured(Aim::Each(limit)).unwrap() + lazy.unmeasured(Aim::Total(4 * limit)).unwrap(), 0);
    }
    assert_eq!(lazy.effort(), effort, "nothing is left to measure");
    // A network with another layer asks for its own times only.
    let another = Synthetic::random(&mut Xoshiro256PlusPlus::seed_from_u64(8), 9, 100);
    lazy.replace(1, Box::new(another)).unwrap();
    lazy.divide(400 * 100).unwrap();
    assert!(lazy.effort().parts > effort.parts);
}

#[test]
fn an_early_end_leaves_what_is_measured() {
    let mut n_early = 0;
    for seed in 200..212 {
        let mut problems = problems(seed, 64);
        let limit = 300 * 64;
        // All powers of two are known, and the deadline leaves no time: that is their best division.
        let mut powers = network_of(&problems, BatchSizes::PowerOfTwo, FindOptions::new());
        let expected = [powers.reuse(limit).unwrap(), powers.divide(limit).unwrap()];
        let mut ended = network(&problems, FindOptions::new().until(Instant::now()));
        let choices = [ended.reuse(limit).unwrap(), ended.divide(limit).unwrap()];
        for (choice, expected) in choices.iter().zip(&expected) {
            assert_eq!(checked_us(&problems, choice), expected.time_us());
        }
        // It says so where they are not sure to be the best of all.
        let best = network(&all_known(&problems), FindOptions::new()).reuse(limit).unwrap();
        let unmeasured = ended.unmeasured(Aim::Each(limit)).unwrap();
        assert!(unmeasured > 0 || is_as_good(choices[0].time_us(), best.time_us()), "seed {seed}");
        assert_eq!(ended.effort().parts, 0);
        // Somewhere in between, whatever was measured by then is chosen among.
        problems.iter_mut().for_each(|problem| problem.wait = Duration::from_micros(200));
        let find = FindOptions::new().until(Instant::now() + Duration::from_millis(seed - 199));
        let mut between = network(&problems, find);
        let us = checked_us(&problems, &between.reuse(limit).unwrap());
        assert!(us <= expected[0].time_us());
        n_early += usize::from(unmeasured > 0 || between.unmeasured(Aim::Each(limit)).unwrap() > 0);
    }
    assert!(n_early > 0);
}
