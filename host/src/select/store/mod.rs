//! Measurements that outlive a process.
//!
//! What is kept are times, never choices: a choice is made anew of the times of the candidates that are allowed at
//! the moment, so a run with little workspace does not spoil one with more. A store belongs to a context; on disk it
//! is a log ([`log`]) of records ([`record`]) for one scope ([`scope`]): this device, this driver, this library.
//! Whatever is wrong with the disk, measurements go on in memory, and [`StoreStatus`] tells what was wrong.

mod log;
mod record;
pub(crate) mod scope;

use super::candidate::{Candidate, Measured, Origin, Verdict};
use crate::Context;
use crate::settings::{self, StoreSetting};
use log::{Log, merge};
use record::Record;
use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Where [`Policy::Find`](crate::Policy::Find) keeps its measurements.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum StoreLocation {
    /// As the environment variable `OXIDNN_STORE` says: a folder, or `off`; the folder `oxidnn` in the user's cache
    /// folder unless it is set.
    #[default]
    Standard,
    /// Only in memory, for the life of the context.
    Off,
    /// In this folder, which is made when it is not there.
    Folder(PathBuf),
}

/// How the store of a context is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreStatus {
    /// Measurements are kept in memory, as asked for.
    Off,
    /// Measurements are read from and written to this file, which is made when there is something to write.
    Open {
        /// The file.
        path: PathBuf,
    },
    /// New measurements are kept only in memory. What the file holds is used where it can be read.
    Unwritable {
        /// The file; None where there is no place for one.
        path: Option<PathBuf>,
        /// What is wrong.
        reason: String,
    },
}

impl fmt::Display for StoreStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreStatus::Off => f.write_str("in memory"),
            StoreStatus::Open { path } => write!(f, "in {}", path.display()),
            StoreStatus::Unwritable { path: Some(path), reason } => {
                write!(f, "in memory, since {} cannot be used: {reason}", path.display())
            }
            StoreStatus::Unwritable { path: None, reason } => write!(f, "in memory: {reason}"),
        }
    }
}

/// A measured time of a candidate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Timing {
    pub(crate) us: f64,
    /// What the candidate needed then: another need means other code.
    pub(crate) workspace_bytes: u64,
    /// Whether only its first runs were timed, since they took many times as long as another candidate.
    pub(crate) cut_short: bool,
}

/// A candidate with its time.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    pub(crate) algorithm: String,
    pub(crate) config: String,
    pub(crate) timing: Timing,
}

/// The measurements of one context, or of several devices of a kind that measure together.
#[derive(Debug, Default)]
pub(crate) struct Store {
    state: Mutex<Arc<Mutex<State>>>,
    measuring: Mutex<()>,
}

#[derive(Debug, Default)]
struct State {
    location: StoreLocation,
    disk: Option<Disk>,
    problems: HashMap<String, Arc<Problem>>,
}

/// What is known of a problem, by where it comes from. Candidates are in at most one of the lists of times.
#[derive(Clone, Debug, Default)]
struct Problem {
    measured: Vec<Entry>,
    read: Vec<Entry>,
    /// What could not be measured, and why; this is not kept on disk.
    failed: Vec<Failure>,
}

/// A candidate that could not be measured.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Failure {
    pub(crate) algorithm: &'static str,
    pub(crate) config: &'static str,
    pub(crate) reason: String,
}

#[derive(Debug)]
enum Disk {
    Off,
    NoPlace(String),
    Log { log: Log, fault: Option<String> },
}

impl Store {
    /// Held while candidates are timed, since two threads that do so on one device disturb each other.
    pub(super) fn measuring(&self) -> MutexGuard<'_, ()> {
        lock(&self.measuring)
    }

    /// Forgets everything and uses another place.
    pub(crate) fn move_to(&self, location: StoreLocation) {
        *lock(&self.state) = Arc::new(Mutex::new(State { location, ..State::default() }));
    }

    /// Uses the measurements of another store, which is of the same scope, and adds to them.
    pub(crate) fn share(&self, other: &Store) {
        let shared = other.state();
        *lock(&self.state) = shared;
    }

    fn state(&self) -> Arc<Mutex<State>> {
        lock(&self.state).clone()
    }

    /// How the store is, after an attempt to read it.
    pub(crate) fn status(&self, context: &Context) -> StoreStatus {
        let state = self.state();
        let mut state = lock(&state);
        state.refresh(context);
        match &state.disk {
            None | Some(Disk::Off) => StoreStatus::Off,
            Some(Disk::NoPlace(reason)) => StoreStatus::Unwritable { path: None, reason: reason.clone() },
            Some(Disk::Log { log, fault: None }) => StoreStatus::Open { path: log.path().to_path_buf() },
            Some(Disk::Log { log, fault: Some(reason) }) => {
                StoreStatus::Unwritable { path: Some(log.path().to_path_buf()), reason: reason.clone() }
            }
        }
    }

    /// What is known of a problem, also what other processes have added meanwhile.
    pub(crate) fn lookup(&self, context: &Context, problem: &str) -> Known {
        let state = self.state();
        let mut state = lock(&state);
        state.refresh(context);
        Known(state.problems.get(problem).cloned().unwrap_or_default())
    }

    /// Adds measurements.
    pub(crate) fn add(&self, context: &Context, problem: &str, entries: Vec<Entry>) {
        if entries.is_empty() {
            return;
        }
        let state = self.state();
        let mut state = lock(&state);
        state.refresh(context);
        let of_problem = state.problem(problem);
        of_problem.read.retain(|there| !entries.iter().any(|entry| same(there, entry)));
        merge(&mut of_problem.measured, entries.clone());
        // A disk that failed once is left alone: waiting for it again and again would be worse.
        if let Some(Disk::Log { log, fault: fault @ None }) = &mut state.disk
            && let Err(e) = log.append(&Record { problem: problem.to_owned(), entries })
        {
            *fault = Some(e.to_string());
        }
    }

    /// Remembers what could not be measured, so that this is not tried again.
    pub(crate) fn add_failures(&self, problem: &str, failures: Vec<Failure>) {
        if !failures.is_empty() {
            let state = self.state();
            lock(&state).problem(problem).failed.extend(failures);
        }
    }
}

/// A lock whose holder panicked guards measurements that are as good as ever.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl State {
    fn problem(&mut self, problem: &str) -> &mut Problem {
        Arc::make_mut(self.problems.entry(problem.to_owned()).or_default())
    }

    /// Opens the disk the first time, and reads what has been added since the last.
    fn refresh(&mut self, context: &Context) {
        let disk = self.disk.get_or_insert_with(|| open(&self.location, context));
        let Disk::Log { log, fault } = disk else { return };
        match log.read_if_changed() {
            Ok(None) => {}
            Ok(Some(records)) => {
                for Record { problem, mut entries } in records {
                    let of_problem = Arc::make_mut(self.problems.entry(problem).or_default());
                    // What this context measured itself is in the file too, and remains its own.
                    entries.retain(|entry| !of_problem.measured.iter().any(|own| same(own, entry)));
                    merge(&mut of_problem.read, entries);
                }
            }
            Err(e) => *fault = Some(e.to_string()),
        }
    }
}

fn same(a: &Entry, b: &Entry) -> bool {
    a.algorithm == b.algorithm && a.config == b.config
}

fn open(location: &StoreLocation, context: &Context) -> Disk {
    let folder = match location {
        StoreLocation::Off => return Disk::Off,
        StoreLocation::Folder(folder) => folder.clone(),
        StoreLocation::Standard => match settings::store() {
            StoreSetting::Off => return Disk::Off,
            StoreSetting::Folder(folder) => folder,
            StoreSetting::NoCacheFolder => {
                return Disk::NoPlace("this user has no cache folder; OXIDNN_STORE names another".to_owned());
            }
        },
    };
    Disk::Log { log: Log::new(&folder, &scope::of(context)), fault: None }
}

/// What is known of a problem's candidates.
#[derive(Debug, Default)]
pub(crate) struct Known(Arc<Problem>);

impl Known {
    /// The time of a candidate that needs this much workspace.
    pub(crate) fn get(&self, algorithm: &str, config: &str, workspace_bytes: u64) -> Option<Measured> {
        let of = |entries: &[Entry], origin| {
            entries.iter().find_map(|entry| {
                let Timing { us, cut_short, workspace_bytes: bytes } = entry.timing;
                let is = entry.config == config && entry.algorithm == algorithm && bytes == workspace_bytes;
                is.then_some(Measured { us, cut_short, origin })
            })
        };
        of(&self.0.read, Origin::Store).or_else(|| of(&self.0.measured, Origin::Context))
    }

    /// Why a candidate could not be measured, where that was tried.
    pub(crate) fn failure(&self, algorithm: &str, config: &str) -> Option<&str> {
        let is = |failure: &&Failure| failure.config == config && failure.algorithm == algorithm;
        self.0.failed.iter().find(is).map(|failure| &*failure.reason)
    }
}

impl Context {
    /// Keeps the measurements of [`Policy::Find`](crate::Policy::Find) elsewhere; those made so far are forgotten by
    /// this context and its clones, and stay where they are on disk.
    pub fn use_store(&self, location: StoreLocation) {
        self.store().move_to(location);
    }

    /// Adds times that were measured elsewhere: those of the candidates that have one, for the problem of this text.
    pub fn add_measurements(&self, problem: &str, candidates: &[Candidate]) {
        let entry = |candidate: &Candidate| {
            let Verdict::Able { workspace_bytes, measured: Some(measured), .. } = candidate.verdict else {
                return None;
            };
            let Measured { us, cut_short, .. } = measured;
            let timing = Timing { us, workspace_bytes, cut_short };
            let (algorithm, config) = (candidate.algorithm.to_owned(), candidate.config.to_owned());
            Some(Entry { algorithm, config, timing })
        };
        self.store().add(self, problem, candidates.iter().filter_map(entry).collect());
    }

    /// Where measurements are kept. Nothing is ever printed about it, so that a program that cares asks here.
    pub fn store_status(&self) -> StoreStatus {
        self.store().status(self)
    }
}
