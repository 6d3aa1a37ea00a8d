//! Batches in parts: the whole's result from any division and algorithms, and what cannot be divided.

use kernel_abi::ops::conv::ConvProblem;
use oxidnn::driver::Graph;
use oxidnn::operators::{AnyProblem, Operation, parse_problem};
use oxidnn::{
    Args, BatchSizes, Context, DeviceInfo, Division, Error, FindOptions, MicroBatch, Network, Policy, StoreLocation,
    TensorDesc, Verdict,
};
use oxidnn_reference::Judge;
use oxidnn_tests::oracle::check_divided;
use oxidnn_tests::{Case, Fill, contexts, gpu, problems};
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng as _;
use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::thread::ThreadId;
use std::time::Instant;

/// A part of so many images by one of the algorithms that take it.
fn part(context: &Context, problem: &dyn AnyProblem, images: i64, rng: &mut Xoshiro256PlusPlus) -> MicroBatch {
    let candidates = problem.candidates(context);
    let start = rng.random_range(0..candidates.len());
    let turned = candidates.iter().cycle().skip(start).take(candidates.len());
    let able = turned.filter(|candidate| matches!(candidate.verdict, Verdict::Able { .. }));
    able.filter_map(|candidate| problem.micro_batch(context, images, candidate.algorithm, candidate.config).ok())
        .next()
        .expect("the naive algorithm takes every part")
}

/// A division of at most so many parts.
fn divide(context: &Context, problem: &dyn AnyProblem, n_parts: i64, rng: &mut Xoshiro256PlusPlus) -> Division {
    let batch = problem.batch(context).unwrap();
    let (mut left, mut parts) = (batch.images, Vec::new());
    for i in (1..n_parts).rev() {
        let most = (left - i).min(left - 1) / batch.unit;
        if most >= 1 {
            let images = rng.random_range(1..=most) * batch.unit;
            parts.push(part(context, problem, images, rng));
            left -= images;
        }
    }
    parts.push(part(context, problem, left, rng));
    Division::new(parts)
}

/// A random division against the reference; or the reason why there is none, which a plan then gives too.
fn check<P: Operation + Judge>(problem: &P, case: &Case) -> Result<(), TestCaseError> {
    for context in contexts() {
        if let Err(error) = problem.batch(context) {
            let request = Policy::Heuristic.micro_batches(BatchSizes::PowerOfTwo);
            let refused = context.plan(problem, request).unwrap_err();
            prop_assert_eq!(refused.to_string(), error.to_string());
            return Ok(());
        }
    }
    // Sums are rounded to their type after every part.
    let beta = [0.0, -0.75][case.seed as usize % 2];
    let case = Case { slack: 4.0 * case.slack, ..*case }.scaled(1.5, beta);
    check_divided(problem, &case, |context| {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(case.seed);
        let n_parts = rng.random_range(2..=4);
        vec![divide(context, problem, n_parts, &mut rng)]
    })
}

macro_rules! every_operator {
    ($($name:ident: $problem:expr, $case:expr;)*) => {
        proptest! {
            #![proptest_config(oxidnn_tests::config())]
            $(
                #[test]
                fn $name(problem in $problem, seed in any::<u64>()) {
                    check(&problem, &$case(&problem, seed))?;
                }
            )*
        }
    };
}

/// Operands of any numbers.
fn normal<P>(_: &P, seed: u64) -> Case {
    Case::normal(seed)
}

every_operator! {
    activation: problems::activation::any(), normal;
    affinegrid: problems::affinegrid::any(), normal;
    bias: problems::bias::any(), normal;
    conv: problems::conv::any(), normal;
    conv_for_tensor_cores: problems::conv::for_tensor_cores(super::conv::reference::any_pass()), normal;
    conv_of_groups: problems::conv::grouped(super::conv::reference::any_pass()), normal;
    conv_with_epilogue: problems::epilogue::conv(), normal;
    crossentropy: problems::crossentropy::any(), normal;
    ctc: problems::ctc::any(), normal;
    gather: problems::gather::any(), normal;
    gridsample: problems::gridsample::any(), normal;
    lrn: problems::lrn::any(), normal;
    matmul: problems::matmul::any(), normal;
    matmul_with_epilogue: problems::epilogue::matmul(), normal;
    norm: problems::norm::any(), normal;
    pad: problems::pad::any(), normal;
    pointwise: problems::pointwise::any(), super::pointwise::case;
    pool: problems::pool::any(), normal;
    reduce: problems::reduce::any(), super::reduce::case;
    resample: problems::resample::any(), normal;
    softmax: problems::softmax::any(), normal;
    transform: problems::transform::any(), normal;
    unpool: problems::unpool::any(), normal;
}

/// Shapes whose images are multiples of 16 bytes, so that parts may begin anywhere on every device.
const CONVS: [&str; 6] = [
    "{pass} pad=1x1 {x}=7x8x5x4:f32 {w}=4x8x3x3:f32 {y}=7x4x5x4:f32",
    "{pass} pad=1x1 stride=2x1 dil=1x2 groups=2 {x}=7x8x6x7:f32:nhwc {w}=8x4x3x3:f32:nhwc {y}=7x8x3x5:f32:nhwc",
    "{pass} pad=1 {x}=7x8x6:f16:nhwc {w}=16x8x3:f16:nhwc {y}=7x16x6:f16:nhwc",
    "{pass} pad=1x0x1 {x}=7x8x3x4x3:bf16:nhwc {w}=8x8x3x1x3:bf16:nhwc {y}=7x8x3x4x3:bf16:nhwc",
    "{pass} {x}=7x8x4x4:f64:s200x25x5x1 {w}=6x8x1x1:f64 {y}=7x6x4x4:f64:s96x16x4x1",
    "{pass} pad=1x1 groups=8 {x}=7x8x4x4:bf16:nhwc {w}=8x1x3x3:bf16:nhwc {y}=7x8x4x4:bf16:nhwc",
];

/// Every shape in every pass.
fn convs() -> Vec<ConvProblem> {
    let passes = [("fprop", "x", "w", "y"), ("dgrad", "dx", "w", "dy"), ("wgrad", "x", "dw", "dy")];
    let of = |shape: &str| {
        passes.map(|(pass, x, w, y)| {
            let text = shape.replace("{pass}", &format!("conv:{pass}"));
            text.replace("{x}", x).replace("{w}", w).replace("{y}", y).parse().unwrap()
        })
    };
    CONVS.iter().flat_map(|shape| of(shape)).collect()
}

#[test]
fn one_to_seven_parts_give_the_whole_with_every_beta() {
    for (problem, seed) in convs().iter().zip(0u64..) {
        for beta in [0.0, 0.5, 1.0] {
            let is_narrow = problem.x().dtype().size_bytes() == 2;
            // In 16 bits, sums beyond 256 would be rounded, and so would fractions and odd numbers beside them.
            let fill = Fill::Integers { max: if is_narrow { 1 } else { 3 } };
            let exact =
                Case { fill, exact: !is_narrow || beta == 0.0, slack: 4.0, ..Case::normal(seed) }.scaled(2.0, beta);
            let normal = Case { slack: 4.0, ..Case::normal(seed).scaled(1.0, beta) };
            for case in [exact, normal] {
                check_divided(problem, &case, |context| {
                    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
                    (1..=7).map(|n_parts| divide(context, problem, n_parts, &mut rng)).collect()
                })
                .unwrap();
            }
        }
    }
}

#[test]
fn a_limit_divides_the_batch_and_the_plan_says_how() {
    for context in contexts() {
        for problem in convs() {
            let whole = context.plan(&problem, Policy::Heuristic).unwrap();
            for sizes in [BatchSizes::PowerOfTwo, BatchSizes::All] {
                for limit in [0, whole.workspace_bytes() / 2, whole.workspace_bytes(), u64::MAX] {
                    let request = Policy::Heuristic.workspace_limit(limit).micro_batches(sizes);
                    let undivided = context.plan(&problem, Policy::Heuristic.workspace_limit(limit));
                    let plan = match context.plan(&problem, request) {
                        Ok(plan) => plan,
                        Err(error) => {
                            assert!(undivided.is_err(), "{error}");
                            assert!(error.to_string().contains("bytes of workspace, the limit is"), "{error}");
                            continue;
                        }
                    };
                    assert!(plan.workspace_bytes() <= limit);
                    let parts = plan.micro_batches();
                    let text = plan.explain();
                    assert!(text.contains(sizes.name()), "{text}");
                    if !parts.is_empty() {
                        assert_eq!(plan.algorithm(), "micro_batches");
                        assert_eq!(parts.iter().map(|part| part.batch).sum::<i64>(), 7);
                        assert!(text.contains("* images 0 to ") && text.contains(" to 6: "), "{text}");
                    }
                }
            }
        }
    }
}

#[test]
fn what_cannot_be_divided_says_why() {
    let cases = [
        ("norm:forward mode=batch x=4x3x5x5:f32 scale=3:f32 bias=3:f32", "takes statistics of all 4 images"),
        ("norm:backward mode=layer x=4x8:f32 scale=8:f32 dscale=8:f32", "one beta cannot do for both"),
        ("dropout:forward x=4x8:f32", "by the place of an element"),
        ("sgd:update w=4x8:f32", "has no batch"),
        ("reduce:max x=4x8:f32 y=1x8:f32", "is no sum of parts"),
        ("pointwise:gen_index axis=0 c=4x8:f32", "counts the images"),
        ("pad:forward mode=constant before=1x0 x=4x8:f32 y=6x8:f32", "moves the images"),
        ("crossentropy:forward reduction=mean x=4x8:f32 target=4:i32 loss=1:f32 total=1:f32", "of the whole batch"),
    ];
    let context = Context::cpu();
    for (text, reason) in cases {
        let problem = parse_problem(text).unwrap_or_else(|e| panic!("{text}: {e}"));
        let request = Policy::Heuristic.micro_batches(BatchSizes::All);
        let error = problem.plan(&context, &request).unwrap_err();
        assert!(matches!(error, Error::Unsupported { .. }), "{error}");
        assert!(error.to_string().contains(reason), "{error}");
        // A network leaves it whole.
        let found = problem.divisions(&context, &request).unwrap();
        assert!(found.refusal.is_some_and(|given| given.contains(reason)));
        assert!(found.front.iter().all(|division| division.parts.len() == 1) && !found.front.is_empty());
    }
}

#[test]
fn parts_begin_where_addresses_are_aligned() {
    let Some(context) = gpu("parts_begin_where_addresses_are_aligned") else { return };
    // An image of x has 27 elements of 4 bytes: four of them are a multiple of 16.
    let problem = parse_problem("conv:fprop pad=1x1 x=10x3x3x3:f32 w=4x3x3x3:f32").unwrap();
    let batch = problem.batch(&context).unwrap();
    assert_eq!((batch.images, batch.unit), (10, 4));
    let part = |images| problem.micro_batch(&context, images, "naive", "conv_fprop_naive_f32").unwrap();
    let plan =
        |sizes: &[i64]| problem.plan_division(&context, &Division::new(sizes.iter().map(|&n| part(n)).collect()));
    assert!(plan(&[4, 4, 2]).is_ok());
    let error = plan(&[5, 5]).unwrap_err().to_string();
    assert!(error.contains("multiples of 4"), "{error}");
    assert!(plan(&[4, 4]).is_err());
    // Every algorithm is content with the divisions that are offered.
    let found = problem.divisions(&context, &Policy::Heuristic.micro_batches(BatchSizes::All)).unwrap();
    for division in &found.front {
        assert!(problem.plan_division(&context, division).is_ok());
    }
}

#[test]
fn a_divided_plan_is_captured_as_one() {
    let Some(context) = gpu("a_divided_plan_is_captured_as_one") else { return };
    let problem = parse_problem("conv:wgrad pad=1x1 x=6x8x4x4:f32 dw=4x8x3x3:f32 dy=6x4x4x4:f32").unwrap();
    let division = divide(&context, problem.as_ref(), 3, &mut Xoshiro256PlusPlus::seed_from_u64(1));
    assert_eq!(division.parts.len(), 3);
    let plan = problem.plan_division(&context, &division).unwrap();
    let stream = context.stream().unwrap();
    let descs: Vec<TensorDesc> = plan.operands().iter().map(|operand| operand.desc).collect();
    let integers = |desc: &TensorDesc| (0..desc.n_elems()).map(|i| (i * 7 % 5 - 2) as f32).collect::<Vec<_>>();
    let [x, dy] = [0, 1].map(|i: usize| context.tensor_from(&descs[i], &integers(&descs[i])).unwrap());
    let [mut dw, mut replayed] = [0, 1].map(|_| context.tensor(&descs[2]).unwrap());
    let mut workspace = plan.workspace().unwrap();
    let args = || Args::new().input("x", &x).input("dy", &dy);
    plan.run(&stream, args().output("dw", &mut dw), &mut workspace).unwrap();
    let gpu_stream = stream.gpu_stream().unwrap();
    let record = || plan.run(&stream, args().output("dw", &mut replayed), &mut workspace);
    let graph = Graph::capture::<Error>(gpu_stream, record).unwrap();
    graph.launch(gpu_stream).unwrap();
    graph.launch(gpu_stream).unwrap();
    assert_eq!(replayed.to_vec::<f32>(&stream).unwrap(), dw.to_vec::<f32>(&stream).unwrap());
}

/// Counts the parts that are begun, by their problems' texts.
fn counted(begun: &Arc<Mutex<Vec<String>>>) -> FindOptions {
    let begun = begun.clone();
    FindOptions::new().observer(move |progress| {
        assert!(progress.part < progress.n_parts);
        if progress.step == 0 {
            begun.lock().unwrap().push(progress.problem.to_owned());
        }
    })
}

#[test]
fn every_size_is_measured_once_and_kept() {
    let folder = std::env::temp_dir().join(format!("oxidnn-microbatch-{}", std::process::id()));
    let problem = parse_problem("conv:fprop pad=1x1 x=5x3x6x6:f32 w=4x3x3x3:f32").unwrap();
    let measured = |sizes: BatchSizes| {
        let context = Context::cpu();
        context.use_store(StoreLocation::Folder(folder.clone()));
        let begun = Arc::default();
        let request = Policy::Find.micro_batches(sizes).find_options(counted(&begun));
        let plan = problem.plan(&context, &request).unwrap();
        let n_parts = begun.lock().unwrap().len();
        assert!(plan.explain().contains("from the store") || n_parts > 0);
        n_parts
    };
    // Of parts of 1, 2, 4 and 5 images the whole is measured, and the others unless it tells enough of them.
    assert!((1..=4).contains(&measured(BatchSizes::PowerOfTwo)));
    assert_eq!(measured(BatchSizes::PowerOfTwo), 0);
    // Then 3, which alone is new.
    assert!(measured(BatchSizes::All) <= 1);
    assert_eq!(measured(BatchSizes::All), 0);
    std::fs::remove_dir_all(folder).unwrap();
}

/// Small layers of which each is another problem, and the last the first again.
fn small_network(context: &Context, find: FindOptions) -> Network {
    let text = |channels: i64| format!("conv:fprop pad=1x1 x=4x{channels}x6x6:f32 w=4x{channels}x3x3:f32");
    let layers = [3, 4, 5, 6, 7, 8, 3].map(|channels| parse_problem(&text(channels)).unwrap());
    Network::new(context, layers, Policy::Find.micro_batches(BatchSizes::PowerOfTwo).find_options(find))
}

#[test]
fn devices_of_a_kind_measure_a_network_together() {
    // Two handles of the CPU; on a machine with several GPUs of a kind, those.
    for context in contexts() {
        let alike = if context.is_gpu() { context.alike() } else { vec![Context::cpu(), Context::cpu()] };
        context.use_store(StoreLocation::Off);
        let begun: Arc<Mutex<Vec<String>>> = Arc::default();
        let threads: Arc<Mutex<HashSet<ThreadId>>> = Arc::default();
        let (counts, seen) = (begun.clone(), threads.clone());
        let find = FindOptions::new().devices(alike.clone()).observer(move |progress| {
            if progress.step == 0 {
                seen.lock().unwrap().insert(std::thread::current().id());
                counts.lock().unwrap().push(progress.problem.to_owned());
            }
        });
        let choice = small_network(context, find).reuse(u64::MAX).unwrap();
        let begun = begun.lock().unwrap();
        let distinct: HashSet<&String> = begun.iter().collect();
        // A part is measured on one device; now and then a candidate is looked at twice.
        assert!(begun.len() < 2 * distinct.len(), "{begun:?}");
        assert!(begun.len() >= 6, "six layers differ");
        assert!((1..=1 + alike.len()).contains(&threads.lock().unwrap().len()));
        // Each device knows what the others measured, and chooses the same.
        for device in alike.iter().chain([context]) {
            let again: Arc<Mutex<Vec<String>>> = Arc::default();
            assert_eq!(small_network(device, counted(&again)).reuse(u64::MAX).unwrap(), choice);
            assert!(again.lock().unwrap().is_empty());
        }
        context.use_store(StoreLocation::Standard);
    }
    let other = Context::described(DeviceInfo::h200());
    let refused = small_network(&Context::cpu(), FindOptions::new().remeasure(true).devices([other])).reuse(u64::MAX);
    assert!(refused.unwrap_err().to_string().contains("devices"));
}

#[test]
fn what_was_measured_until_the_deadline_is_chosen_among() {
    let context = Context::cpu();
    context.use_store(StoreLocation::Off);
    let over = || FindOptions::new().until(Instant::now());
    let error = small_network(&context, over()).reuse(u64::MAX).unwrap_err();
    assert!(matches!(&error, Error::Unsupported { .. }) && error.to_string().contains("was not measured"), "{error}");
    // What is known is enough for a choice, though not all parts are.
    let mut network = small_network(&context, FindOptions::new());
    for layer in 0..network.layers().len() {
        let problem = network.layers().nth(layer).unwrap().text();
        parse_problem(&problem).unwrap().plan(&context, &Policy::Find.into()).unwrap();
    }
    let mut limited = small_network(&context, over());
    assert!(limited.reuse(u64::MAX).unwrap().layers.iter().all(|layer| layer.division.parts.len() == 1));
    let unmeasured = |network: &mut Network| network.divisions(0, u64::MAX).unwrap().unmeasured;
    assert!(unmeasured(&mut limited) <= 2);
    assert_eq!(unmeasured(&mut network), 0);
}
