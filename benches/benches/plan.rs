//! Planning by criterion, for a described H200: `cargo bench -p oxidnn-benches --bench plan`.
//!
//! What is timed is the host's work: judging every candidate of every part, fronts, and the exact choice for the network.

use criterion::{Criterion, criterion_group, criterion_main};
use oxidnn::operators::AnyProblem;
use oxidnn::{BatchSizes, Context, DType, DeviceInfo, Math, Network, PlanRequest, Policy};
use oxidnn_compare::case::{Layout, Pass};
use oxidnn_compare::network::{Making, read};
use std::hint::black_box;

const TOTAL_BYTES: u64 = 120 << 20;

/// All kernels of a network in f32, NCHW, whose algorithms need workspace.
fn layers(name: &str) -> Vec<Box<dyn AnyProblem>> {
    let passes = vec![Pass::Fprop, Pass::Dgrad, Pass::Wgrad];
    let making = Making { passes, batch: Some(256), dtype: Some(DType::F32), math: Math::Full, layout: Layout::Nchw };
    read(name, &making).expect("the suite is known").into_iter().map(|layer| layer.problem).collect()
}

fn plan(criterion: &mut Criterion) {
    let context = Context::described(DeviceInfo::h200());
    let mut group = criterion.benchmark_group("plan");
    group.sample_size(10);
    for (name, sizes) in [("resnet50", BatchSizes::PowerOfTwo), ("alexnet:ucudnn", BatchSizes::All)] {
        let request = PlanRequest::from(Policy::Heuristic).micro_batches(sizes);
        let title = format!("{name} {}", sizes.name());
        group.bench_function(&title, |bencher| {
            bencher.iter_with_setup(
                || Network::new(&context, layers(name), request.clone()),
                |mut network| network.divide(black_box(TOTAL_BYTES)).expect("some division needs nothing"),
            );
        });
        let mut network = Network::new(&context, layers(name), request.clone());
        network.divide(TOTAL_BYTES).expect("some division needs nothing");
        group.bench_function(format!("{title}, another total"), |bencher| {
            bencher.iter(|| network.divide(black_box(TOTAL_BYTES / 2)).expect("some division needs nothing"));
        });
    }
    group.finish();
}

criterion_group!(benches, plan);
criterion_main!(benches);
