//! The CPU algorithms by criterion: `cargo bench -p oxidnn-benches`.

use criterion::{Criterion, criterion_group, criterion_main};
use oxidnn::operators::parse_problem;
use oxidnn::{Args, Context, PlanRequest, Policy, Role, Tensor};
use std::hint::black_box;

/// One layer of ordinary size for each operator that training spends its time in.
const PROBLEMS: [&str; 6] = [
    "conv:fprop pad=1x1 x=4x64x28x28:f32 w=64x64x3x3:f32",
    "conv:dgrad pad=1x1 dx=4x64x28x28:f32 w=64x64x3x3:f32",
    "conv:wgrad pad=1x1 x=4x64x28x28:f32 dw=64x64x3x3:f32",
    "matmul:forward a=512x512:f32 b=512x512:f32",
    "pool:forward mode=max window=2x2 x=16x64x28x28:f32",
    "softmax:forward x=512x1000:f32",
];

fn cpu(criterion: &mut Criterion) {
    let context = Context::cpu();
    let stream = context.stream().expect("the CPU has streams");
    for text in PROBLEMS {
        let problem = parse_problem(text).expect("the problem is legal");
        let plan = problem.plan(&context, &PlanRequest::from(Policy::Heuristic)).expect("the CPU computes everything");
        let mut workspace = plan.workspace().expect("there is memory");
        let mut tensors: Vec<Tensor> = plan
            .operands()
            .iter()
            .map(|operand| {
                let values: Vec<f32> = (0..operand.desc.n_elems()).map(|i| (i % 17) as f32 - 8.0).collect();
                context.tensor_from(&operand.desc, &values).expect("there is memory")
            })
            .collect();
        criterion.bench_function(text, |bencher| {
            bencher.iter(|| {
                let mut args = Args::new();
                for (operand, tensor) in plan.operands().iter().zip(&mut tensors) {
                    args = match operand.role {
                        Role::Input => args.input(operand.name, &*tensor),
                        Role::Output | Role::Update | Role::Result => args.output(operand.name, tensor),
                    };
                }
                plan.run(&stream, black_box(args), &mut workspace).expect("operands fit");
            });
        });
    }
}

criterion_group!(benches, cpu);
criterion_main!(benches);
