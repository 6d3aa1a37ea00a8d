//! Planning by criterion, for a described H200: `cargo bench -p oxidnn-benches --bench plan`.
//!
//! What is timed is the host's work: judging every candidate of every part, fronts, and the exact choice for the
//! network; by estimates, and from measurements in a store on disk, which is read anew. These measurements are made up:
//! estimates with noise, since nothing but their number matters here.

use criterion::{Criterion, criterion_group, criterion_main};
use oxidnn::operators::AnyProblem;
use oxidnn::{
    BatchSizes, Candidate, Context, DType, DeviceInfo, Math, Measured, Network, Origin, PlanRequest, Policy,
    StoreLocation, Verdict,
};
use oxidnn_compare::case::{Layout, Pass};
use oxidnn_compare::network::{Making, read};
use rand::{RngExt as _, SeedableRng as _};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::collections::HashSet;
use std::hint::black_box;
use std::path::Path;

const TOTAL_BYTES: u64 = 120 << 20;
const BATCH: i64 = 256;

/// All kernels of a network in f32, NCHW, whose algorithms need workspace.
fn layers(name: &str, batch: i64) -> Vec<Box<dyn AnyProblem>> {
    let passes = vec![Pass::Fprop, Pass::Dgrad, Pass::Wgrad];
    let making = Making { passes, batch: Some(batch), dtype: Some(DType::F32), math: Math::Full, layout: Layout::Nchw };
    read(name, &making).expect("the suite is known").into_iter().map(|layer| layer.problem).collect()
}

/// A context whose measurements are in this folder.
fn stored_in(folder: &Path) -> Context {
    let context = Context::described(DeviceInfo::h200());
    context.use_store(StoreLocation::Folder(folder.to_owned()));
    context
}

/// Puts a time for every candidate of every part of a network's batches into the folder.
fn fill(folder: &Path, name: &str, sizes: impl Iterator<Item = i64>) {
    let context = stored_in(folder);
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
    let mut known = HashSet::new();
    for problem in sizes.flat_map(|images| layers(name, images)) {
        if !known.insert(problem.text()) {
            continue;
        }
        let mut time = |mut candidate: Candidate| {
            if let Verdict::Able { estimate_us, measured, .. } = &mut candidate.verdict {
                let us = *estimate_us * rng.random_range(0.8..1.25);
                *measured = Some(Measured { us, cut_short: false, origin: Origin::Now });
            }
            candidate
        };
        let candidates: Vec<Candidate> = problem.candidates(&context).into_iter().map(&mut time).collect();
        context.add_measurements(&problem.text(), &candidates);
    }
}

fn plan(criterion: &mut Criterion) {
    let context = Context::described(DeviceInfo::h200());
    let mut group = criterion.benchmark_group("plan");
    group.sample_size(10);
    for (name, sizes) in [("resnet50", BatchSizes::PowerOfTwo), ("alexnet:ucudnn", BatchSizes::All)] {
        let title = format!("{name} {}", sizes.name());
        let folder = std::env::temp_dir().join(format!("oxidnn-bench-plan-{}-{}", std::process::id(), sizes.name()));
        match sizes {
            BatchSizes::All => fill(&folder, name, 1..=BATCH),
            _ => fill(&folder, name, (0..=8).map(|power| 1 << power)),
        }
        let request = PlanRequest::from(Policy::Find).micro_batches(sizes);
        group.bench_function(format!("{title}, measured"), |bencher| {
            bencher.iter_with_setup(
                || Network::new(&stored_in(&folder), layers(name, BATCH), request.clone()),
                |mut network| network.divide(black_box(TOTAL_BYTES)).expect("some division needs nothing"),
            );
        });
        std::fs::remove_dir_all(&folder).expect("the folder is ours");
        let request = PlanRequest::from(Policy::Heuristic).micro_batches(sizes);
        group.bench_function(&title, |bencher| {
            bencher.iter_with_setup(
                || Network::new(&context, layers(name, BATCH), request.clone()),
                |mut network| network.divide(black_box(TOTAL_BYTES)).expect("some division needs nothing"),
            );
        });
        let mut network = Network::new(&context, layers(name, BATCH), request.clone());
        network.divide(TOTAL_BYTES).expect("some division needs nothing");
        group.bench_function(format!("{title}, another total"), |bencher| {
            bencher.iter(|| network.divide(black_box(TOTAL_BYTES / 2)).expect("some division needs nothing"));
        });
    }
    group.finish();
}

criterion_group!(benches, plan);
criterion_main!(benches);
