//! Networks: one total of workspace for all layers, or a limit for each; the text that keeps a choice.

use oxidnn::operators::{AnyProblem, parse_problem};
use oxidnn::{
    Args, BatchSizes, Context, DeviceInfo, Error, Network, NetworkChoice, PlanRequest, Policy, TensorDesc, Verdict,
};
use oxidnn_tests::contexts;

const LAYERS: [&str; 6] = [
    "conv:fprop pad=1x1 x=12x8x8x8:f32 w=8x8x3x3:f32",
    "conv:dgrad pad=1x1 dx=12x8x8x8:f32 w=8x8x3x3:f32",
    "conv:wgrad pad=1x1 x=12x8x8x8:f32 dw=8x8x3x3:f32 dy=12x8x8x8:f32",
    "conv:wgrad pad=1x1 x=12x8x8x8:f32 dw=8x8x3x3:f32 dy=12x8x8x8:f32",
    "norm:forward mode=batch x=12x8x8x8:f32 scale=8:f32 bias=8:f32",
    "softmax:forward x=12x40:f32",
];

fn layers() -> Vec<Box<dyn AnyProblem>> {
    LAYERS.iter().map(|text| parse_problem(text).unwrap()).collect()
}

fn network(context: &Context, sizes: BatchSizes) -> Network {
    Network::new(context, layers(), PlanRequest::from(Policy::Heuristic).micro_batches(sizes))
}

/// A GPU that is not there has candidates with and without workspace to choose among.
fn described() -> Context {
    Context::described(DeviceInfo::h200())
}

/// Convolutions of a size at which a GPU's candidates need workspace.
fn large() -> Vec<Box<dyn AnyProblem>> {
    let tensors = [("fprop", "x", "w", "y"), ("dgrad", "dx", "w", "dy"), ("wgrad", "x", "dw", "dy")];
    let text = |(pass, x, w, y): (&str, &str, &str, &str)| {
        format!("conv:{pass} pad=1x1 {x}=64x128x28x28:f32 {w}=128x128x3x3:f32 {y}=64x128x28x28:f32")
    };
    tensors.map(|words| parse_problem(&text(words)).unwrap()).into()
}

#[test]
fn a_total_is_shared_out_into_segments() {
    let context = described();
    let mut network = Network::new(&context, large(), Policy::Heuristic.micro_batches(BatchSizes::PowerOfTwo));
    let unlimited = network.divide(u64::MAX).unwrap();
    let mut before: Option<f64> = None;
    let mut n_divided = 0;
    for share in (0..=8).rev() {
        let total = unlimited.workspace_bytes / 8 * share;
        let choice = match network.divide(total) {
            Ok(choice) => choice,
            Err(Error::WorkspaceTotal { needed_bytes, total_bytes }) => {
                assert!(needed_bytes > total && total_bytes == total);
                continue;
            }
            Err(error) => panic!("{error}"),
        };
        assert_eq!(choice, network.divide(total).unwrap(), "the same problems and total give the same choice");
        assert!(choice.workspace_bytes <= total);
        let mut end = 0;
        for layer in &choice.layers {
            assert!(layer.offset >= end && layer.offset % 256 == 0);
            end = layer.offset + layer.division.workspace_bytes;
            assert!(end <= choice.workspace_bytes);
            n_divided += usize::from(layer.division.parts.len() > 1);
        }
        // Less workspace never makes it faster, and a division is never slower than none.
        assert!(before.is_none_or(|before| choice.time_us() >= before));
        assert!(choice.undivided_us().is_none_or(|undivided| choice.time_us() <= undivided));
        before = Some(choice.time_us());
    }
    assert!(n_divided > 0, "some total divides a batch");
}

#[test]
fn a_changed_layer_changes_the_choice() {
    let context = described();
    let mut network = Network::new(&context, large(), Policy::Heuristic.micro_batches(BatchSizes::PowerOfTwo));
    let before = network.reuse(64 << 20).unwrap();
    assert!(before.layers.iter().all(|layer| layer.offset == 0 && layer.division.workspace_bytes <= 64 << 20));
    network.replace(1, parse_problem(LAYERS[0]).unwrap()).unwrap();
    let after = network.reuse(64 << 20).unwrap();
    assert_eq!((&before.layers[0], &before.layers[2]), (&after.layers[0], &after.layers[2]));
    assert_eq!(after.layers[1].problem, parse_problem(LAYERS[0]).unwrap().text());
    assert!(network.replace(3, parse_problem(LAYERS[0]).unwrap()).unwrap_err().to_string().contains("below 3"));
}

#[test]
fn layers_run_in_their_segments() {
    for context in contexts() {
        let mut network = network(context, BatchSizes::All);
        let least = network.divide(u64::MAX).unwrap().workspace_bytes;
        for choice in [network.divide(least).unwrap(), network.reuse(u64::MAX).unwrap()] {
            let plan = choice.plan(context).unwrap();
            let stream = context.stream().unwrap();
            let mut workspace = plan.workspace().unwrap();
            assert!(choice.layers[4].refusal.as_ref().is_some_and(|reason| reason.contains("12 images")));
            for (at, layer) in plan.plans().iter().enumerate() {
                let values = |desc: &TensorDesc| (0..desc.n_elems()).map(|i| (i % 7) as f32 - 3.0).collect::<Vec<_>>();
                let mut tensors: Vec<_> = (layer.operands().iter())
                    .map(|operand| context.tensor_from(&operand.desc, &values(&operand.desc)).unwrap())
                    .collect();
                let mut expected = context.tensor(tensors.last().unwrap().desc()).unwrap();
                let (out, inputs) = tensors.split_last_mut().unwrap();
                let (name, rest) = layer.operands().split_last().unwrap();
                let args = || rest.iter().zip(&*inputs).fold(Args::new(), |args, (o, t)| args.input(o.name, t));
                plan.run(at, &stream, args().output(name.name, &mut *out), &mut workspace).unwrap();
                let whole = parse_problem(LAYERS[at]).unwrap().plan(context, &Policy::fixed(last(context, at)).into());
                let whole = whole.unwrap();
                let mut own = whole.workspace().unwrap();
                whole.run(&stream, args().output(name.name, &mut expected), &mut own).unwrap();
                let [got, expected] = [&*out, &expected].map(|tensor| tensor.to_vec::<f32>(&stream).unwrap());
                let close = |(a, b): (&f32, &f32)| (a - b).abs() <= 1e-4 * (1.0 + b.abs());
                assert!(got.iter().zip(&expected).all(close), "{}", layer.problem());
            }
        }
        assert!(network.divide(u64::MAX).unwrap().plan(&described()).is_err() || !context.is_gpu());
    }
}

/// The last algorithm of a layer that is able.
fn last(context: &Context, layer: usize) -> &'static str {
    let candidates = parse_problem(LAYERS[layer]).unwrap().candidates(context);
    let able = candidates.iter().rev().find(|candidate| matches!(candidate.verdict, Verdict::Able { .. }));
    able.unwrap().algorithm
}

#[test]
fn a_kept_choice_is_the_same_and_belongs_to_its_device() {
    for context in contexts().iter().chain([&described()]) {
        let mut network = network(context, BatchSizes::PowerOfTwo);
        let choice = network.divide(1 << 30).unwrap();
        let text = choice.to_text(context);
        let loaded = NetworkChoice::from_text(context, &text).unwrap();
        assert_eq!(loaded.to_text(context), text);
        assert_eq!(loaded.workspace_bytes, choice.workspace_bytes);
        for (a, b) in loaded.layers.iter().zip(&choice.layers) {
            assert_eq!((&a.problem, &a.division, a.offset), (&b.problem, &b.division, b.offset));
        }
        let refused = |text: &str, reason: &str| {
            let error = NetworkChoice::from_text(context, text).unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
        };
        refused(&text.replacen("plan 1", "plan 2", 1), "oxidnn network plan 1");
        refused(&text.replacen("device ", "device another ", 1), "expected one made for");
        refused(&text.replacen("library ", "library 9", 1), "expected one made for");
        refused(&text.replacen("\npart ", "\npiece ", 1), "expected workspace, layers and their parts");
        refused(
            &text.replacen(&format!("\npart {}", choice.layers[0].division.parts[0].batch), "\npart x", 1),
            "number",
        );
        let beyond = text.replacen("\nlayer 0 ", "\nlayer 99999999999 ", 1);
        refused(&beyond, "expected segments within");
    }
}

#[test]
fn what_is_too_little_is_told() {
    for context in contexts() {
        let fixed = Policy::fixed(last(context, 2)).micro_batches(BatchSizes::All);
        let least = {
            let found = parse_problem(LAYERS[2]).unwrap().divisions(context, &fixed).unwrap();
            found.front[0].workspace_bytes
        };
        let layers = || vec![parse_problem(LAYERS[2]).unwrap(), parse_problem(LAYERS[2]).unwrap()];
        let mut network = Network::new(context, layers(), fixed);
        if least == 0 {
            assert!(network.divide(0).is_ok());
            continue;
        }
        match network.divide(least) {
            Err(Error::WorkspaceTotal { needed_bytes, total_bytes }) => {
                assert!(needed_bytes >= 2 * least && total_bytes == least);
            }
            other => panic!("expected a refusal, given {other:?}"),
        }
        let error = network.reuse(least - 1).unwrap_err().to_string();
        assert!(error.contains(&format!("needs {least} bytes of workspace, the limit is {}", least - 1)), "{error}");
    }
}
