//! Bad input to the library's own objects: every refusal names argument, expected and given, and leaves outputs alone.

use oxidnn::driver::{GpuContext, Module};
use oxidnn::operators::parse_problem;
use oxidnn::ops::activation::{ActivationMode, ActivationProblem};
use oxidnn::{Args, Context, DType, Error, Plan, Policy, Tensor, TensorDesc, TensorView, TensorViewMut, Workspace};
use oxidnn_tests::{contexts, gpu};

fn desc(text: &str) -> TensorDesc {
    text.parse().unwrap()
}

/// A plan of a relu, its operands, and its output filled with 7.
fn relu(context: &Context, shape: &str) -> (Plan, Tensor, Tensor) {
    let desc = desc(shape);
    let problem = ActivationProblem::forward(ActivationMode::Relu, &desc, &desc).unwrap();
    let plan = context.plan(&problem, Policy::Heuristic).unwrap();
    let x = context.tensor(&desc).unwrap();
    let sevens = vec![7.0f32; desc.n_elems() as usize];
    (plan, x, context.tensor_from(&desc, &sevens).unwrap())
}

/// Runs and expects a refusal that contains `words`; the output must still hold 7.
fn refused(context: &Context, y: &Tensor, outcome: Result<(), Error>, words: &str) {
    let message = outcome.expect_err(words).to_string();
    assert!(message.contains(words), "{message:?} does not say {words:?}");
    let stream = context.stream().unwrap();
    assert!(y.to_vec::<f32>(&stream).unwrap().iter().all(|&value| value == 7.0), "{words}: the output was touched");
}

#[test]
fn operands_are_checked_before_anything_is_written() {
    for context in contexts() {
        let stream = context.stream().unwrap();
        let (plan, x, mut y) = relu(context, "4x5:f32");
        let mut workspace = plan.workspace().unwrap();
        let other = context.tensor(&desc("5x4:f32")).unwrap();
        let half = context.tensor(&desc("4x5:f16")).unwrap();
        let mut go = |args: Args<'_>| plan.run(&stream, args, &mut workspace);
        let outcome = go(Args::new().output("y", &mut y));
        refused(context, &y, outcome, "bad x: expected a tensor 4x5:f32, given none");
        let outcome = go(Args::new().input("x", &x).input("z", &x).output("y", &mut y));
        refused(context, &y, outcome, "bad z: expected only x, y, given also z");
        let outcome = go(Args::new().input("x", &x).input("x", &x).output("y", &mut y));
        refused(context, &y, outcome, "given also x");
        let outcome = go(Args::new().input("x", &other).output("y", &mut y));
        refused(context, &y, outcome, "bad x: expected 4x5:f32, given 5x4:f32");
        let outcome = go(Args::new().input("x", &half).output("y", &mut y));
        refused(context, &y, outcome, "given 4x5:f16");
        let outcome = go(Args::new().input("x", &x).input("y", &x));
        refused(context, &y, outcome, "bad y: expected an output, given as an input");
        let mut scratch = context.tensor(&desc("4x5:f32")).unwrap();
        let outcome = go(Args::new().output("x", &mut scratch).output("y", &mut y));
        refused(context, &y, outcome, "bad x: expected an input, given as an output");
        let mut many = Args::new();
        for _ in 0..20 {
            many = many.input("x", &x);
        }
        let outcome = go(many);
        refused(context, &y, outcome, "bad");
    }
}

#[test]
fn a_small_workspace_is_refused() {
    for context in contexts() {
        let stream = context.stream().unwrap();
        let (plan, x, mut y) = relu(context, "4x5:f32");
        if plan.workspace_bytes() == 0 {
            continue;
        }
        let mut workspace = Workspace::new(context, plan.workspace_bytes() - 1).unwrap();
        let outcome = plan.run(&stream, Args::new().input("x", &x).output("y", &mut y), &mut workspace);
        let words = format!("needs {} bytes, given {}", plan.workspace_bytes(), plan.workspace_bytes() - 1);
        refused(context, &y, outcome, &words);
        let problem = parse_problem(plan.problem()).unwrap();
        let refused = problem.plan(context, &Policy::Heuristic.workspace_limit(0)).unwrap_err().to_string();
        assert!(refused.contains("bytes of workspace, the limit is 0"), "{refused}");
    }
}

#[test]
fn values_and_windows_are_checked() {
    for context in contexts() {
        let mut tensor = context.tensor(&desc("2x3:f32")).unwrap();
        let stream = context.stream().unwrap();
        let message = tensor.write(&stream, &[1.0f32; 5]).unwrap_err().to_string();
        assert!(message.contains("expected 6 values for 2x3:f32, given 5"), "{message}");
        assert!(tensor.write_bytes(&stream, &[0; 23]).unwrap_err().to_string().contains("expected 24 bytes"));
        for (offset, part) in [(1, "2x3:f32"), (-1, "1x3:f32"), (0, "2x3:f16"), (i64::MAX, "1:f32")] {
            let message = tensor.window(offset, &desc(part)).unwrap_err().to_string();
            assert!(message.contains("expected a part of 2x3:f32"), "{message}");
        }
        assert!(tensor.window(3, &desc("1x3:f32")).is_ok());
        assert!(tensor.view().reshape(&desc("7:f32")).is_err());
        assert!(tensor.view().reshape(&desc("6:f32")).is_ok());
    }
}

#[test]
fn a_callers_memory_is_checked() {
    for context in contexts() {
        let tensor_desc = desc("4x5:f32");
        // SAFETY: null and misaligned addresses are refused before anything is made of them.
        let view = |address: u64| unsafe { TensorView::from_raw(context, tensor_desc, address) };
        assert!(view(0).unwrap_err().to_string().contains("not null and a multiple of 4, given 0x0"));
        assert!(view(0x1002).unwrap_err().to_string().contains("multiple of 4, given 0x1002"));
        if context.is_gpu() {
            assert!(view(0x1000).unwrap_err().to_string().contains("which the driver does not know"));
        }
    }
}

#[test]
fn a_callers_host_memory_works() {
    let context = Context::cpu();
    let stream = context.stream().unwrap();
    let (plan, _, _) = relu(&context, "2x2:f32");
    let (x, mut y) = ([-1.0f32, 2.0, -3.0, 4.0], [0.0f32; 4]);
    // SAFETY: both arrays have the tensor's bytes, outlive the run and are not otherwise used during it.
    let views = unsafe {
        (
            TensorView::from_raw(&context, desc("2x2:f32"), x.as_ptr() as u64).unwrap(),
            TensorViewMut::from_raw(&context, desc("2x2:f32"), y.as_mut_ptr() as u64).unwrap(),
        )
    };
    plan.run(&stream, Args::new().input("x", views.0).output("y", views.1), &mut plan.workspace().unwrap()).unwrap();
    assert_eq!(y, [0.0, 2.0, 0.0, 4.0]);
}

#[test]
fn too_much_memory_is_an_error() {
    for context in contexts() {
        let huge = TensorDesc::packed(DType::F32, &[1 << 60]).unwrap();
        match context.tensor(&huge) {
            Err(Error::OutOfMemory { bytes, .. }) => assert_eq!(bytes, 1 << 62),
            other => panic!("expected out of memory, given {other:?}"),
        }
    }
}

#[test]
fn a_missing_device_is_an_error() {
    match Context::gpu(1000) {
        Err(Error::NoDevice { reason }) => assert!(!reason.is_empty()),
        other => panic!("expected no device, given {other:?}"),
    }
    assert!(matches!(GpuContext::primary(1000), Err(e) if e.is_no_device()));
}

#[test]
fn problems_of_no_operator_are_refused() {
    let message = parse_problem("cube:forward x=3:f32").err().unwrap().to_string();
    assert!(message.contains("expected one of activation") && message.contains("given \"cube\""), "{message}");
}

#[test]
fn devices_do_not_mix() {
    let Some(gpu) = gpu("devices_do_not_mix") else { return };
    let cpu = Context::cpu();
    let name = gpu.info().name.clone();
    let (plan, x, mut y) = relu(&gpu, "4x5:f32");
    let cpu_x = cpu.tensor(&desc("4x5:f32")).unwrap();
    let stream = gpu.stream().unwrap();
    let mut workspace = plan.workspace().unwrap();
    let outcome = plan.run(&stream, Args::new().input("x", &cpu_x).output("y", &mut y), &mut workspace);
    refused(&gpu, &y, outcome, &format!("x: expected memory of {name}"));
    let outcome = plan.run(&cpu.stream().unwrap(), Args::new().input("x", &x).output("y", &mut y), &mut workspace);
    refused(&gpu, &y, outcome, &format!("stream: expected memory of {name}"));
    let mut cpu_workspace = Workspace::none(&cpu).unwrap();
    let outcome = plan.run(&stream, Args::new().input("x", &x).output("y", &mut y), &mut cpu_workspace);
    refused(&gpu, &y, outcome, &format!("workspace: expected memory of {name}"));
}

#[test]
fn overlapping_device_memory_is_refused() {
    let Some(gpu) = gpu("overlapping_device_memory_is_refused") else { return };
    let stream = gpu.stream().unwrap();
    let whole = gpu.tensor(&desc("100:f32")).unwrap();
    let part = desc("4x5:f32");
    let problem: oxidnn::ops::pool::PoolProblem =
        "pool:forward mode=max window=1 x=1x4x5:f32 y=1x4x5:f32".parse().unwrap();
    let plan = gpu.plan(&problem, Policy::Heuristic).unwrap();
    let mut workspace = plan.workspace().unwrap();
    let base = whole.address();
    let image = desc("1x4x5:f32");
    let mut go = |x_at: u64, y_at: u64| {
        // SAFETY: both lie in `whole`, which outlives the run; sharing is what is under test.
        let (x, y) = unsafe {
            (TensorView::from_raw(&gpu, image, x_at).unwrap(), TensorViewMut::from_raw(&gpu, image, y_at).unwrap())
        };
        plan.run(&stream, Args::new().input("x", x).output("y", y), &mut workspace)
    };
    assert!(go(base, base + 80).is_ok());
    let message = go(base, base + 76).unwrap_err().to_string();
    assert!(message.contains("bad y: expected memory of its own, given elements shared with x"), "{message}");
    assert!(go(base, base).is_err(), "pooling does not work in place");
    // An elementwise operator may write where it reads.
    let (relu, _, _) = relu(&gpu, "4x5:f32");
    // SAFETY: as above.
    let (x, y) = unsafe {
        (TensorView::from_raw(&gpu, part, base).unwrap(), TensorViewMut::from_raw(&gpu, part, base).unwrap())
    };
    relu.run(&stream, Args::new().input("x", x).output("y", y), &mut relu.workspace().unwrap()).unwrap();
    stream.synchronize().unwrap();
}

#[test]
fn damaged_ptx_is_an_error_with_the_compilers_words() {
    let Some(gpu) = gpu("damaged_ptx_is_an_error_with_the_compilers_words") else { return };
    let gpu = gpu.gpu_context().unwrap();
    let e = Module::load(gpu, ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k() { nonsense; }\n")
        .unwrap_err();
    assert!(e.log.contains("nonsense") || e.log.contains("syntax error"), "{e}");
    let module =
        Module::load(gpu, ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k() { ret; }\n").unwrap();
    assert!(module.function("other").unwrap_err().to_string().contains("other"));
    assert!(module.global_u64("OXIDNN_ABI_FINGERPRINT").is_err(), "a PTX without the fingerprint is not ours");
}
