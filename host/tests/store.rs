//! Find and its store, as a program sees them. Everything runs on the CPU.

use oxidnn::ops::conv::ConvProblem;
use oxidnn::{
    Context, FindOptions, FindStage, Measured, Origin, Plan, PlanRequest, Policy, StoreLocation, StoreStatus, Verdict,
};
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};

/// Problems that two CPU algorithms compute, of which one needs more workspace than [`LIMIT`].
fn problem(c: usize) -> ConvProblem {
    format!("conv:fprop pad=1x1 x=1x{c}x6x6:f32 w=4x{c}x3x3:f32").parse().unwrap()
}

const LIMIT: u64 = 1000;

fn context(folder: &Path) -> Context {
    let context = Context::cpu();
    context.use_store(StoreLocation::Folder(folder.to_path_buf()));
    context
}

fn find(context: &Context, c: usize) -> Plan {
    context.plan(&problem(c), Policy::Find).unwrap()
}

/// The able candidates with their times.
fn measured(plan: &Plan) -> Vec<(&'static str, u64, Measured)> {
    let able = plan.candidates().iter().filter_map(|candidate| match candidate.verdict {
        Verdict::Able { workspace_bytes, measured, .. } => {
            Some((candidate.algorithm, workspace_bytes, measured.expect("Find measures every candidate")))
        }
        Verdict::Refused(_) => None,
    });
    able.collect()
}

fn origins(plan: &Plan) -> Vec<Origin> {
    let mut origins: Vec<Origin> = measured(plan).iter().map(|(_, _, measured)| measured.origin).collect();
    origins.dedup();
    origins
}

#[test]
fn times_come_from_the_device_then_from_memory_then_from_the_store() {
    let folder = tempfile::tempdir().unwrap();
    let first = context(folder.path());
    let plan = find(&first, 3);
    assert_eq!(origins(&plan), [Origin::Now], "{plan:?}");
    assert_eq!(origins(&find(&first, 3)), [Origin::Context]);
    let later = find(&context(folder.path()), 3);
    assert_eq!(origins(&later), [Origin::Store]);
    let times = |plan| measured(plan).into_iter().map(|(name, _, measured)| (name, measured.us)).collect::<Vec<_>>();
    assert_eq!(times(&plan), times(&later));
    assert_eq!(plan.algorithm(), later.algorithm());
    let text = later.explain();
    assert!(text.contains("from the store") && text.contains(&folder.path().display().to_string()), "{text}");
    assert!(matches!(first.store_status(), StoreStatus::Open { path } if path.starts_with(folder.path())));
}

#[test]
fn the_chosen_is_the_fastest_that_is_allowed() {
    let folder = tempfile::tempdir().unwrap();
    // The run with little workspace comes first, and must not decide for the one with more.
    let capped = context(folder.path()).plan(&problem(5), Policy::Find.workspace_limit(LIMIT)).unwrap();
    assert!(capped.workspace_bytes() <= LIMIT);
    assert!(capped.explain().contains("the limit is 1000"), "{capped:?}");
    let free = find(&context(folder.path()), 5);
    let times = measured(&free);
    assert!(times.len() >= 2 && times.iter().any(|(_, bytes, _)| *bytes > LIMIT), "{free:?}");
    let fastest = times.iter().min_by(|a, b| a.2.us.total_cmp(&b.2.us)).unwrap();
    assert_eq!(free.algorithm(), fastest.0);
    let again = context(folder.path()).plan(&problem(5), Policy::Find.workspace_limit(LIMIT)).unwrap();
    assert!(again.workspace_bytes() <= LIMIT);
}

#[test]
fn without_a_store_nothing_is_written_and_find_works() {
    let folder = tempfile::tempdir().unwrap();
    let context = Context::cpu();
    context.use_store(StoreLocation::Off);
    assert_eq!(origins(&find(&context, 3)), [Origin::Now]);
    assert_eq!(origins(&find(&context, 3)), [Origin::Context]);
    assert_eq!(context.store_status(), StoreStatus::Off);
    // A folder cannot be made below a file.
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    context.use_store(StoreLocation::Folder(file.join("store")));
    assert_eq!(origins(&find(&context, 3)), [Origin::Now]);
    assert_eq!(origins(&find(&context, 3)), [Origin::Context]);
    match context.store_status() {
        StoreStatus::Unwritable { path: Some(path), reason } => assert!(path.starts_with(&file) && !reason.is_empty()),
        other => panic!("expected an unwritable store, given {other:?}"),
    }
    assert!(find(&context, 3).explain().contains("cannot be used"));
}

#[test]
fn a_store_that_can_only_be_read_is_read() {
    let folder = tempfile::tempdir().unwrap();
    find(&context(folder.path()), 3);
    let lock = std::fs::read_dir(folder.path()).unwrap().flatten().map(|entry| entry.path());
    let lock = lock.into_iter().find(|path| path.extension().is_some_and(|word| word == "lock")).unwrap();
    // Permissions do not stop a test that runs as root; a folder in the lock's place does.
    std::fs::remove_file(&lock).unwrap();
    std::fs::create_dir(&lock).unwrap();
    let reader = context(folder.path());
    assert_eq!(origins(&find(&reader, 3)), [Origin::Store]);
    assert_eq!(origins(&find(&reader, 4)), [Origin::Now]);
    assert_eq!(origins(&find(&reader, 4)), [Origin::Context]);
    assert!(matches!(reader.store_status(), StoreStatus::Unwritable { .. }));
}

#[test]
fn remeasuring_replaces_what_is_known() {
    let folder = tempfile::tempdir().unwrap();
    find(&context(folder.path()), 3);
    let context = context(folder.path());
    let request = PlanRequest::from(Policy::Find).find_options(FindOptions::new().remeasure(true));
    assert_eq!(origins(&context.plan(&problem(3), request).unwrap()), [Origin::Now]);
}

#[test]
fn an_observer_sees_every_step() {
    let context = Context::cpu();
    context.use_store(StoreLocation::Off);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let observer = {
        let seen = seen.clone();
        move |progress: &oxidnn::FindProgress<'_>| {
            assert_eq!(progress.problem, problem(3).to_string());
            seen.lock().unwrap().push((progress.step, progress.n_steps, progress.stage));
        }
    };
    let request = PlanRequest::from(Policy::Find).find_options(FindOptions::new().observer(observer));
    let plan = context.plan(&problem(3), request.clone()).unwrap();
    let steps = std::mem::take(&mut *seen.lock().unwrap());
    let tried = steps.iter().filter(|step| matches!(step.2, FindStage::Trying { .. })).count();
    assert_eq!(tried, measured(&plan).len());
    assert!(steps.iter().enumerate().all(|(i, step)| step.0 == i), "{steps:?}");
    assert_eq!(steps.last().unwrap(), &(steps[0].1, steps[0].1, FindStage::Done));
    // What is known takes no steps.
    context.plan(&problem(3), request).unwrap();
    assert!(seen.lock().unwrap().is_empty());
}

/// Names the folder and the writer to the processes that [`processes_side_by_side_lose_nothing`] starts.
const WRITER: &str = "OXIDNN_TEST_STORE_WRITER";

const WRITERS: usize = 3;
const PROBLEMS: usize = 8;

#[test]
fn processes_side_by_side_lose_nothing() {
    if let Ok(job) = std::env::var(WRITER) {
        let (writer, folder) = job.split_once(' ').expect("a number and a folder");
        let writer: usize = writer.parse().unwrap();
        let context = context(Path::new(folder));
        (0..PROBLEMS).for_each(|i| drop(find(&context, 1 + writer * PROBLEMS + i)));
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let start = |writer: usize| {
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "processes_side_by_side_lose_nothing"])
            .env(WRITER, format!("{writer} {}", folder.path().display()))
            .stdout(std::process::Stdio::null())
            .spawn()
            .expect("the test starts itself")
    };
    let children: Vec<_> = (0..WRITERS).map(start).collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let context = context(folder.path());
    for c in 1..=WRITERS * PROBLEMS {
        assert_eq!(origins(&find(&context, c)), [Origin::Store], "problem {c}");
    }
}
