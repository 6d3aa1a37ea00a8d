//! Contexts, streams and plans shared among threads, graphs, and a caller's own CUDA objects.

use oxidnn::driver::Graph;
use oxidnn::ops::activation::{ActivationMode, ActivationProblem};
use oxidnn::{Args, Context, Error, Plan, Policy, Stream, Tensor, TensorDesc, Verdict, Workspace};
use oxidnn_tests::{contexts, gpu};

fn assert_shareable<T: Send + Sync>() {}

#[test]
fn everything_is_send_and_sync() {
    assert_shareable::<Context>();
    assert_shareable::<Plan>();
    assert_shareable::<Stream>();
    assert_shareable::<Tensor>();
    assert_shareable::<Workspace>();
    assert_shareable::<Error>();
}

#[test]
fn many_threads_share_one_context_and_plan() {
    for context in contexts() {
        let desc: TensorDesc = "64x65:f32".parse().unwrap();
        let problem = ActivationProblem::forward(ActivationMode::Relu, &desc, &desc).unwrap();
        // A new context, so that threads also race for loading the kernels.
        let context = if context.is_gpu() { Context::gpu(0).unwrap() } else { Context::cpu() };
        let plan = context.plan(&problem, Policy::Heuristic).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let (context, plan, problem) = (&context, &plan, &problem);
                scope.spawn(move || {
                    let stream = context.stream().unwrap();
                    let values: Vec<f32> = (0..64 * 65).map(|i| (i - 2000 + thread) as f32).collect();
                    let x = context.tensor_from(problem.x(), &values).unwrap();
                    let mut y = context.tensor(problem.x()).unwrap();
                    let own = context.plan(problem, Policy::Heuristic).unwrap();
                    let mut workspace = plan.workspace().unwrap();
                    for round in 0..50 {
                        let plan = if round % 2 == 0 { plan } else { &own };
                        plan.run(&stream, Args::new().input("x", &x).output("y", &mut y), &mut workspace).unwrap();
                    }
                    let expected: Vec<f32> = values.iter().map(|v| v.max(0.0)).collect();
                    assert_eq!(y.to_vec::<f32>(&stream).unwrap(), expected);
                });
            }
        });
    }
}

#[test]
fn find_measures_and_remembers() {
    let problems = [
        "conv:fprop pad=1x1 x=1x4x9x9:f32 w=4x4x3x3:f32",
        "conv:wgrad pad=1x1 x=2x64x14x14:bf16:nhwc dw=64x64x3x3:bf16:nhwc dy=2x64x14x14:bf16:nhwc",
        "matmul:forward a=256x128:bf16 b=128x256:bf16 c=256x256:bf16",
        "transform:forward x=64x64:f32 y=64x64:f32",
    ];
    for context in contexts() {
        context.use_store(oxidnn::StoreLocation::Off);
        for text in problems {
            let problem = oxidnn::operators::parse_problem(text).unwrap();
            let plan = problem.plan(context, &Policy::Find.into()).unwrap();
            let again = problem.plan(context, &Policy::Find.into()).unwrap();
            assert_eq!((plan.algorithm(), plan.config()), (again.algorithm(), again.config()));
            let explained = plan.explain();
            assert!(explained.contains(" * ") && explained.contains("refused"), "{explained}");
            let able = plan.candidates().iter().filter_map(|candidate| match candidate.verdict {
                Verdict::Able { measured, .. } => Some(measured),
                Verdict::Refused(_) => None,
            });
            let times: Vec<_> = able.collect();
            // The only candidate is chosen without a measurement.
            assert!(times.len() == 1 || times.iter().all(Option::is_some), "{explained}");
            assert!(times.iter().flatten().all(|measured| measured.us > 0.0), "{explained}");
            assert!(!explained.contains("could not be measured"), "{explained}");
        }
    }
}

#[test]
fn a_run_can_be_captured_into_a_graph() {
    let Some(context) = gpu("a_run_can_be_captured_into_a_graph") else { return };
    let desc: TensorDesc = "1000:f32".parse().unwrap();
    let problem = ActivationProblem::forward(ActivationMode::Relu, &desc, &desc).unwrap();
    let plan = context.plan(&problem, Policy::Heuristic).unwrap();
    let stream = context.stream().unwrap();
    let values: Vec<f32> = (0..1000).map(|i| i as f32 - 500.0).collect();
    let x = context.tensor_from(&desc, &values).unwrap();
    let mut y = context.tensor(&desc).unwrap();
    let mut workspace = plan.workspace().unwrap();
    let gpu_stream = stream.gpu_stream().unwrap();
    // Other threads allocate meanwhile, which a capture must survive.
    let other = std::thread::spawn({
        let context = context.clone();
        move || (0..200).for_each(|_| drop(context.tensor(&"64:f32".parse().unwrap()).unwrap()))
    });
    let graph = Graph::capture::<Error>(gpu_stream, || {
        plan.run(&stream, Args::new().input("x", &x).output("y", &mut y), &mut workspace)
    })
    .unwrap();
    assert!(y.to_vec::<f32>(&stream).unwrap().iter().all(|&v| v == 0.0), "capture only records");
    graph.launch(gpu_stream).unwrap();
    let expected: Vec<f32> = values.iter().map(|v| v.max(0.0)).collect();
    assert_eq!(y.to_vec::<f32>(&stream).unwrap(), expected);
    other.join().unwrap();
}

#[test]
fn a_callers_context_stream_and_memory_are_used() {
    let Some(owner) = gpu("a_callers_context_stream_and_memory_are_used") else { return };
    let owner_stream = owner.stream().unwrap();
    let desc: TensorDesc = "256:f32".parse().unwrap();
    let values: Vec<f32> = (0..256).map(|i| i as f32 - 128.0).collect();
    let x = owner.tensor_from(&desc, &values).unwrap();
    let y = owner.tensor(&desc).unwrap();
    // SAFETY: the owner's objects outlive all that is made of them here.
    let (context, stream) = unsafe {
        let context = Context::from_raw_cuda(owner.gpu_context().unwrap().raw()).unwrap();
        let stream = Stream::from_raw_cuda(&context, owner_stream.gpu_stream().unwrap().raw()).unwrap();
        (context, stream)
    };
    let problem = ActivationProblem::forward(ActivationMode::Relu, &desc, &desc).unwrap();
    let plan = context.plan(&problem, Policy::Heuristic).unwrap();
    // SAFETY: both tensors outlive the run, and nobody else uses them meanwhile.
    let views = unsafe {
        (
            oxidnn::TensorView::from_raw(&context, desc, x.address()).unwrap(),
            oxidnn::TensorViewMut::from_raw(&context, desc, y.address()).unwrap(),
        )
    };
    let mut workspace = plan.workspace().unwrap();
    plan.run(&stream, Args::new().input("x", views.0).output("y", views.1), &mut workspace).unwrap();
    let expected: Vec<f32> = values.iter().map(|v| v.max(0.0)).collect();
    assert_eq!(y.to_vec::<f32>(&owner_stream).unwrap(), expected);
    // SAFETY: null is refused.
    assert!(unsafe { Context::from_raw_cuda(std::ptr::null_mut()) }.is_err());
}
