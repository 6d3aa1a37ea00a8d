//! Sums in parts, which a second kernel or the workers add: every cut of `wgrad`, and of `fprop` and `dgrad` few tiles and the
//! tiles of the last round; whatever the workspace held, run after run.

use kernel_abi::ops::conv::ConvProblem;
use oxidnn::driver::Graph;
use oxidnn::operators::AnyProblem;
use oxidnn::{Args, Context, Error, Plan, Policy, Stream, Tensor, Verdict, Workspace};
use oxidnn_reference::Judge;
use oxidnn_tests::{Fill, hopper};

/// The configs of both forms of `wgrad` for a problem.
fn configs(context: &Context, problem: &ConvProblem) -> Vec<&'static str> {
    configs_of(context, problem, "wgrad_im2col_")
}

/// The configs for a problem whose names begin so.
fn configs_of(context: &Context, problem: &ConvProblem, kind: &str) -> Vec<&'static str> {
    let candidates = AnyProblem::candidates(problem, context);
    let able = candidates.iter().filter(|candidate| matches!(candidate.verdict, Verdict::Able { .. }));
    let mut configs: Vec<_> = able.map(|candidate| candidate.config).collect();
    configs.retain(|config| config.starts_with(kind));
    configs.dedup();
    configs
}

/// Operands of a problem, on a device.
struct Operands {
    x: Tensor,
    dy: Tensor,
    dw: Tensor,
}

impl Operands {
    fn new(context: &Context, stream: &Stream, problem: &ConvProblem, values: [&[f64]; 3]) -> Self {
        let [x, dy, dw] = [problem.x(), problem.y(), problem.w()].map(|desc| context.tensor(desc).unwrap());
        let mut operands = Operands { x, dy, dw };
        for (tensor, values) in [&mut operands.x, &mut operands.dy, &mut operands.dw].into_iter().zip(values) {
            tensor.write(stream, values).unwrap();
        }
        operands
    }

    fn run(
        &mut self,
        stream: &Stream,
        plan: &Plan,
        (alpha, beta): (f64, f64),
        workspace: &mut Workspace,
    ) -> Result<(), Error> {
        let args = Args::new().input("x", &self.x).input("dy", &self.dy).output("dw", &mut self.dw);
        plan.run(stream, args.alpha(alpha).beta(beta), workspace)
    }
}

/// A workspace full of anything.
fn garbage(context: &Context, stream: &Stream, plan: &Plan, seed: u8) -> Workspace {
    let mut workspace = Workspace::new(context, plan.workspace_bytes()).unwrap();
    let mut byte = seed;
    let mut next = || {
        byte = byte.wrapping_mul(5).wrapping_add(seed | 1);
        byte
    };
    let bytes: Vec<u8> = (0..workspace.len_bytes()).map(|_| next()).collect();
    workspace.write_bytes(stream, &bytes).unwrap();
    workspace
}

/// Integers, so that every sum is exact: a part that is missing, added twice, or left from the run before shows.
#[test]
fn parts_of_every_cut_are_added() {
    let Some(context) = hopper("parts_of_every_cut_are_added") else { return };
    let texts = [
        // Rows and columns with tails; several parts a tile, and parts of two tiles a worker.
        "conv:wgrad pad=1x1 x=8x72x16x16:bf16:nhwc dw=136x72x3x3:bf16:nhwc",
        // One tap, in pairs of blocks, the last with few rows.
        "conv:wgrad x=9x256x12x13:f16:nhwc dw=264x256x1x1:f16:nhwc",
        // Groups, a stride, a filter that is read from its far end.
        "conv:wgrad mode=convolution pad=1x1 stride=2x1 groups=2 x=5x128x30x15:bf16:nhwc dw=256x64x3x2:bf16:nhwc",
        // Whole tiles between two parts.
        "conv:wgrad x=4x640x8x8:bf16:nhwc dw=2120x640x1x1:bf16:nhwc",
        // A dw with gaps.
        "conv:wgrad x=8x64x16x16:bf16:nhwc dw=64x64x2x2:bf16:s320x1x160x80 dy=8x64x15x15:bf16:nhwc",
    ];
    for text in texts {
        let problem: ConvProblem = text.parse().unwrap();
        let dtype = problem.x().dtype();
        let fill = |i: u64, max: i64, n: i64| Fill::Integers { max }.values(n as usize, dtype, i);
        let x = fill(1, 1, problem.x().n_elems());
        let dy = fill(2, 1, problem.y().n_elems());
        let minus_dy: Vec<f64> = dy.iter().map(|v| -v).collect();
        let prior: Vec<f64> = fill(3, 4, problem.w().n_elems()).iter().map(|v| 2.0 * v).collect();
        let sums = problem.judge(&[x.clone(), dy.clone(), vec![]]).remove(0);
        let stream = context.stream().unwrap();
        let configs = configs(&context, &problem);
        assert!(configs.iter().any(|config| config.contains("_fixup_")), "{text}");
        for (i, config) in configs.into_iter().enumerate() {
            let plan = context.plan(&problem, Policy::fixed(config)).unwrap();
            let mut workspace = garbage(&context, &stream, &plan, i as u8);
            for (alpha, beta) in [(1.0, 0.0), (1.0, 1.0), (-0.5, 0.5)] {
                for (sign, dy) in [(1.0, &dy), (-1.0, &minus_dy)] {
                    let mut operands = Operands::new(&context, &stream, &problem, [&x, dy, &prior]);
                    operands.run(&stream, &plan, (alpha, beta), &mut workspace).unwrap();
                    let expected = sums.iter().zip(&prior);
                    let expected = expected.map(|(sum, prior)| alpha * sign * sum + beta * prior);
                    let got = operands.dw.to_vec::<f64>(&stream).unwrap();
                    let wrong = got.iter().zip(expected).enumerate().find(|(_, (got, expected))| **got != *expected);
                    assert_eq!(wrong, None, "{config} alpha {alpha} beta {beta} {text}");
                }
            }
        }
    }
}

/// The bits of a sum depend neither on the run, nor on the plan, nor on what the workspace held; a recorded launch finds
/// its flags as it needs them every time.
#[test]
fn parts_are_added_in_the_same_order_in_every_run() {
    let Some(context) = hopper("parts_are_added_in_the_same_order_in_every_run") else { return };
    let problem: ConvProblem = "conv:wgrad pad=1x1 x=8x64x16x16:bf16:nhwc dw=136x64x3x3:bf16:nhwc".parse().unwrap();
    let values = |i: u64, n: i64| Fill::Normal.values(n as usize, problem.x().dtype(), i);
    let (x, dy) = (values(1, problem.x().n_elems()), values(2, problem.y().n_elems()));
    let nothing = vec![0.0; problem.w().n_elems() as usize];
    let stream = context.stream().unwrap();
    let gpu_stream = stream.gpu_stream().unwrap();
    let mut taken_back = 0;
    for config in configs(&context, &problem) {
        let mut first = None;
        for seed in 0..2 {
            let plan = context.plan(&problem, Policy::fixed(config)).unwrap();
            let mut workspace = garbage(&context, &stream, &plan, seed);
            let mut operands = Operands::new(&context, &stream, &problem, [&x, &dy, &nothing]);
            let held = workspace.to_bytes(&stream).unwrap();
            let graph =
                Graph::capture::<Error>(gpu_stream, || operands.run(&stream, &plan, (1.0, 0.0), &mut workspace))
                    .unwrap();
            for _ in 0..2 {
                operands.dw.write(&stream, &nothing).unwrap();
                graph.launch(gpu_stream).unwrap();
                let got = operands.dw.to_vec::<f64>(&stream).unwrap();
                assert!(got == *first.get_or_insert_with(|| got.clone()), "{config}");
            }
            if config.contains("_fixup_") && plan.workspace_bytes() > 0 {
                // The last part's flags: those that its worker has raised are taken back, and of its own share it has none.
                let bytes = workspace.to_bytes(&stream).unwrap();
                let flags = bytes.len() - 64..bytes.len();
                let flags: Vec<_> = bytes[flags.clone()].chunks(8).zip(held[flags].chunks(8)).collect();
                assert!(flags.iter().all(|(now, held)| **now == [0; 8] || now == held), "{config} {flags:?}");
                taken_back += u32::from(flags.iter().any(|(now, _)| **now == [0; 8]));
            }
        }
    }
    assert!(taken_back >= 4, "{taken_back}");
}

/// Few tiles, and whole tiles and shared ones, in equal parts and not: a tile that is left out, or computed twice, shows.
#[test]
fn tiles_are_shared() {
    let Some(context) = hopper("tiles_are_shared") else { return };
    for (text, kind) in [
        // As many tiles as groups: 38 are left of a round of 132 blocks, or of two rounds of 66 pairs of blocks.
        ("conv:fprop pad=1x2 groups=170 x=1x10880x2x5:bf16:nhwc w=21760x64x3x5:bf16:nhwc", "+last"),
        (
            "conv:dgrad pad=1x2 groups=170 dy=1x10880x2x5:f16:nhwc w=10880x128x3x5:f16:nhwc dx=1x21760x2x5:f16:nhwc",
            "+last",
        ),
        // Rows and columns with tails, in 11 parts of unlike lengths.
        ("conv:fprop pad=1x1 x=2x320x9x9:bf16:nhwc w=200x320x3x3:bf16:nhwc", "+equal"),
        ("conv:dgrad pad=1x1 dy=2x320x9x9:f16:nhwc w=320x200x3x3:f16:nhwc dx=2x200x9x9:f16:nhwc", "+equal"),
        // Two tiles along the columns, the second with a tail in its narrow panel, or in the panel before it.
        ("conv:fprop pad=1x1 x=2x320x9x9:bf16:nhwc w=296x320x3x3:bf16:nhwc", "+equal"),
        ("conv:dgrad pad=1x1 dy=2x320x9x9:f16:nhwc w=320x480x3x3:f16:nhwc dx=2x480x9x9:f16:nhwc", "+equal"),
        ("conv:fprop pad=1x1 x=2x320x9x9:f16:nhwc w=136x320x3x3:f16:nhwc y=2x136x9x9:f16", "+equal"),
        // Two parts, and two of so many stages that each has half of the panels, but for pairs of blocks.
        ("conv:fprop pad=1x1 x=40x64x14x14:bf16:nhwc w=128x64x3x3:bf16:nhwc", "+equal"),
        ("conv:fprop pad=1x1 x=11x512x7x7:f16:nhwc w=1104x512x3x3:f16:nhwc", "+equal"),
    ] {
        let problem: ConvProblem = text.parse().unwrap();
        let fprop = text.contains("fprop");
        let (read, written) = if fprop { (problem.x(), problem.y()) } else { (problem.y(), problem.x()) };
        let fill = |i: u64, n: i64| Fill::Integers { max: 1 }.values(n as usize, read.dtype(), i);
        let (values, w) = (fill(1, read.n_elems()), fill(2, problem.w().n_elems()));
        let sums = problem.judge(&[values.clone(), w.clone(), vec![]]).remove(0);
        let stream = context.stream().unwrap();
        let [mut input, mut filter, mut output] =
            [read, problem.w(), written].map(|desc| context.tensor(desc).unwrap());
        input.write(&stream, &values).unwrap();
        filter.write(&stream, &w).unwrap();
        let configs = configs_of(&context, &problem, "convstreamk_");
        for tile in ["128x128_sm90", "128x128_c2_sm90"] {
            assert!(configs.iter().any(|config| config.ends_with(&format!("{tile}{kind}"))), "{tile}{kind} {text}");
        }
        let narrow = ["w=296x", "w=320x480x", "w=136x"].iter().any(|w| text.contains(w));
        assert_eq!(configs.iter().any(|config| config.contains("128x160")), narrow, "{text}");
        for (i, config) in configs.into_iter().enumerate() {
            let plan = context.plan(&problem, Policy::fixed(config)).unwrap();
            let mut workspace = garbage(&context, &stream, &plan, i as u8);
            for run in 0..2 {
                output.write(&stream, &vec![f64::from(run); sums.len()]).unwrap();
                let names = if fprop { ["x", "y"] } else { ["dy", "dx"] };
                let args = Args::new().input(names[0], &input).input("w", &filter).output(names[1], &mut output);
                plan.run(&stream, args, &mut workspace).unwrap();
                let got = output.to_vec::<f64>(&stream).unwrap();
                let wrong = got.iter().zip(&sums).enumerate().find(|(_, (got, expected))| got != expected);
                assert_eq!(wrong, None, "{config} run {run} {text}");
            }
        }
    }
}
