//! Matmul against the reference, exactly where it is exact, and its refusals.

use kernel_abi::ops::matmul::{MatmulDesc, MatmulProblem};
use kernel_abi::{Problem, TensorDesc};
use oxidnn::{Args, Policy, Verdict};
use oxidnn_tests::{check, check_exact, problems};
use proptest::prelude::*;

/// The largest magnitude of integer operands such that every sum, and `2 · sum - c`, is stored exactly.
fn exact_max(problem: &MatmulProblem) -> Option<i64> {
    let exact = problem.c().dtype().max_exact_integer() as i64;
    [3i64, 2, 1].into_iter().find(|max| 2 * max * max * problem.gemm_k() + max <= exact)
}

proptest! {
    #![proptest_config(oxidnn_tests::config())]

    #[test]
    fn every_algorithm_matches_the_reference(problem in problems::matmul::any(), seed in any::<u64>()) {
        check(&problem, seed)?;
    }

    #[test]
    fn integers_come_out_exactly(problem in problems::matmul::any(), seed in any::<u64>()) {
        if let Some(max) = exact_max(&problem) {
            check_exact(&problem, seed, max)?;
        }
    }
}

proptest! {
    #![proptest_config(oxidnn_tests::config())]

    #[test]
    fn tiles_match_the_reference(problem in problems::matmul::tiled(), seed in any::<u64>()) {
        check(&problem, seed)?;
    }

    #[test]
    fn tiles_are_exact_on_integers(problem in problems::matmul::tiled(), seed in any::<u64>()) {
        if let Some(max) = exact_max(&problem) {
            check_exact(&problem, seed, max)?;
        }
    }
}

/// Shapes that tiles of 128 × 256 × 64 fit exactly, overlap a little, or leave nearly empty, in all orientations.
#[test]
fn tensor_core_shapes_come_out_exactly() {
    for text in [
        "a=128x64:bf16 b=64x256:bf16",
        "a=128x128:f16 b=128x128:f16",
        "trans=nt a=256x64:bf16 b=512x64:bf16",
        "trans=tn a=72x136:bf16 b=72x264:bf16",
        "trans=tt a=128x128:f16 b=256x128:f16",
        "a=1x64:bf16 b=64x8:bf16",
        "a=130x72:bf16 b=72x200:bf16",
        "trans=nt a=200x120:f16 b=392x120:f16",
        "a=3x140x40:bf16 b=3x40x264:bf16",
        "a=2x3x33x128:bf16:s0x4224x128x1 b=2x3x128x64:bf16:s24576x0x64x1",
        "a=2x2x2x64x64:f16 b=2x2x2x64x72:f16",
        "a=64x64:bf16 b=64x33:bf16:s40x1 c=64x33:bf16:s48x1",
        "a=64x64:bf16 b=64x128:bf16 c=64x128:bf16:s1x64",
        "a=8x16:bf16 b=16x1:bf16",
        // More tiles than multiprocessors, and sums that go round the ring of stages several times.
        "a=40x130x72:bf16 b=40x72x264:bf16",
        "trans=nt a=24x260x200:f16 b=24x136x200:f16",
        "a=136x1608:bf16 b=1608x264:bf16",
        // A sum that ends within 16 bytes, with poison behind it.
        "a=64x67:bf16:s72x1 b=67x64:bf16",
        "trans=nt a=64x67:f16:s72x1 b=48x67:f16:s80x1",
        "trans=tn a=67x60:bf16:s64x1 b=67x40:bf16",
        // Rows that are no multiple of 16 bytes: inputs are copied first, the output is stored by threads.
        "a=65x67:bf16 b=67x129:bf16",
        "trans=tt a=67x65:f16 b=130x67:f16",
        "trans=nt a=131x200:bf16 b=77x200:bf16",
        "a=2x33x35:bf16:s0x35x1 b=2x35x20:bf16",
        "a=64x64:f16:s130x2 b=64x36:f16 c=64x36:f16:s80x2",
        // Long and narrow, wide and low, with sums long enough to be split.
        "a=300x640:bf16 b=640x16:bf16",
        "trans=tn a=640x300:f16 b=640x8:f16",
        "trans=nt a=260x1100:bf16 b=31x1100:bf16:s1104x1",
        "trans=tt a=1104x136:bf16 b=64x1104:bf16",
        "a=16x640:bf16 b=640x300:bf16",
        "a=35x520:bf16 b=520x257:bf16",
        "trans=tn a=1100x1:bf16 b=1100x1:bf16",
        "a=3x40x1300:f16 b=3x1300x24:f16",
        // Scalar f32: whole and partial tiles, copies of four and of one, split sums.
        "a=128x16:f32 b=16x128:f32",
        "trans=tn a=100x132:f32 b=100x68:f32",
        "trans=nt a=129x300:f32 b=65x300:f32",
        "trans=tt a=301x65:f32 b=67x301:f32",
        "a=2x65x33:f32:s0x66x2 b=2x33x130:f32",
        "a=66x520:f32 b=520x30:f32 c=66x30:f32:s1x68",
        // Columns of c contiguous along m, with and without a map.
        "a=136x520:bf16 b=520x24:bf16 c=136x24:bf16:s1x136",
        "a=137x520:bf16 b=520x200:bf16 c=137x200:bf16:s1x137",
        // Columns that tiles of 112 leave fewer of over.
        "a=260x72:bf16 b=72x224:bf16",
        "trans=tn a=40x300:f16 b=40x332:f16",
        "trans=tt a=136x264:bf16 b=216x136:bf16",
        "a=2x200x72:bf16 b=2x72x104:bf16",
        "a=224x64:bf16 b=64x264:bf16 c=224x264:bf16:s1x224",
        "a=260x64:bf16 b=64x205:bf16",
        // Blocks have several tiles each, which their consumers take in turns: an odd number of rows of tiles, tails,
        // several matrices, and stores by threads and of columns.
        "a=1700x200:bf16 b=200x1800:bf16",
        "trans=tt a=136x2100:f16 b=1500x136:f16",
        "trans=tn a=3x72x700:bf16 b=3x72x1500:bf16",
        "trans=nt a=1700x72:f16 b=1801x72:f16",
        "a=1700x72:bf16 b=72x1800:bf16 c=1700x1800:bf16:s1x1700",
    ] {
        let problem: MatmulProblem = format!("matmul:forward {text}").parse().unwrap();
        let max = exact_max(&problem).unwrap_or(1);
        check_exact_within(&problem, max);
    }
}

/// Exact where sums of this length are, else within the tolerance.
fn check_exact_within(problem: &MatmulProblem, max: i64) {
    let outcome = if exact_max(problem).is_some() { check_exact(problem, 7, max) } else { check(problem, 7) };
    outcome.unwrap_or_else(|e| panic!("{e}"));
}

/// (a b)ᵀ = bᵀ aᵀ, and a transposed operand is the same as one with exchanged strides.
#[test]
fn transposes_agree_with_strides() {
    let a: TensorDesc = "5x3:f32".parse().unwrap();
    let b: TensorDesc = "5x7:f32".parse().unwrap();
    let c: TensorDesc = "3x7:f32".parse().unwrap();
    let problem = MatmulDesc { transpose_a: true, ..MatmulDesc::default() }.problem(&a, &b, &c).unwrap();
    let exchanged: TensorDesc = "3x5:f32:s1x3".parse().unwrap();
    assert_eq!(problem.a_matrix(), exchanged);
    assert_eq!(MatmulProblem::new(&exchanged, &b, &c).unwrap().flops(), problem.flops());
}

/// Tensor maps need addresses that are multiples of 16 bytes, which only a run knows: the fast kernels then refuse by
/// name and with the number, and the naive one computes.
#[test]
fn misaligned_addresses_are_refused_by_the_fast_kernels() {
    let Some(context) = oxidnn_tests::gpu("misaligned_addresses_are_refused_by_the_fast_kernels") else { return };
    let problem: MatmulProblem = "matmul:forward a=64x64:bf16 b=64x64:bf16".parse().unwrap();
    let whole: TensorDesc = "4104:bf16".parse().unwrap();
    let stream = context.stream().unwrap();
    let ones = vec![1.0f32; 4104];
    let (a, b) = (context.tensor_from(&whole, &ones).unwrap(), context.tensor_from(&whole, &ones).unwrap());
    let mut c = context.tensor(&whole).unwrap();
    let mut run = |algorithm: &str| {
        let plan = context.plan(&problem, Policy::fixed(algorithm))?;
        let args = Args::new()
            .input("a", a.window(8, problem.a())?)
            .input("b", b.window(1, problem.b())?)
            .output("c", c.window_mut(0, problem.c())?);
        plan.run(&stream, args, &mut plan.workspace()?)?;
        c.to_vec::<f32>(&stream)
    };
    if context.info().compute_capability == (9, 0) {
        let refusal = run("tma_wgmma").unwrap_err().to_string();
        assert!(refusal.contains("matmul: bad b: expected an address that is a multiple of 16"), "{refusal}");
    }
    let product = run("naive").unwrap();
    assert!(product[..4096].iter().all(|&v| v == 64.0) && product[4096..].iter().all(|&v| v == 0.0));
}

/// Numbers between -1 and 1 without a pattern.
fn scattered(n: i64, seed: u32) -> Vec<f32> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / (1 << 23) as f32 - 1.0
    };
    (0..n).map(|_| next()).collect()
}

/// c of one run of `name` on scattered operands.
fn product(context: &oxidnn::Context, problem: &MatmulProblem, name: &str) -> Vec<f32> {
    let stream = context.stream().unwrap();
    let a = context.tensor_from(problem.a(), &scattered(problem.a().n_elems(), 1)).unwrap();
    let b = context.tensor_from(problem.b(), &scattered(problem.b().n_elems(), 2)).unwrap();
    let mut c = context.tensor(problem.c()).unwrap();
    let plan = context.plan(problem, Policy::fixed(name)).unwrap();
    let args = Args::new().input("a", &a).input("b", &b).output("c", &mut c);
    plan.run(&stream, args, &mut plan.workspace().unwrap()).unwrap();
    c.to_vec::<f32>(&stream).unwrap()
}

/// Blocks draw their tiles, of which each has several: the same sums as in turns, run after run in one workspace, and with
/// tails, several matrices and columns that are contiguous.
#[test]
fn tiles_that_blocks_draw() {
    let Some(context) = oxidnn_tests::hopper("tiles_that_blocks_draw") else { return };
    // As many tiles of 128 rows as all multiprocessors have in seven rounds.
    let rows = 128 * 7 * context.info().n_units - 55;
    let tall = 2 * rows;
    let matrices = 2 * context.info().n_units;
    for (text, kernels) in [
        (
            format!("matmul:forward trans=nt a={rows}x72:bf16 b=40x72:bf16"),
            &["matmul64draws_forward_tma_wgmma_bf16f32bf16_128x64x64_s8_nt_sm90"][..],
        ),
        (
            format!("matmul:forward a={matrices}x140x72:f16 b={matrices}x72x264:f16:s0x264x1"),
            &[
                "matmul128draws_forward_tma_wgmma_f16f32f16_128x128x64_s6_nn_sm90",
                "matmul256draws_forward_tma_wgmma_f16f32f16_128x256x64_s4_nn_sm90",
            ],
        ),
        (
            format!("matmul:forward trans=tt a=72x{rows}:bf16 b=24x72:bf16 c={rows}x24:bf16:s1x{rows}"),
            &["matmul64draws_forward_tma_wgmma_bf16f32bf16_128x64x64_s8_tt_sm90"],
        ),
        (
            format!("matmul:forward trans=nt a={tall}x72:bf16 b=104x72:bf16"),
            &[
                "matmul128draws_forward_tma_wgmma_bf16f32bf16_192x128x64_s5_nt_sm90",
                "matmul112draws_forward_tma_wgmma_bf16f32bf16_256x112x64_s4_nt_sm90",
            ],
        ),
    ] {
        let problem: MatmulProblem = text.parse().unwrap();
        for kernel in kernels {
            let expected = product(&context, &problem, &kernel.replace("draws", ""));
            let stream = context.stream().unwrap();
            let a = context.tensor_from(problem.a(), &scattered(problem.a().n_elems(), 1)).unwrap();
            let b = context.tensor_from(problem.b(), &scattered(problem.b().n_elems(), 2)).unwrap();
            let plan = context.plan(&problem, Policy::fixed(*kernel)).unwrap();
            let mut workspace = plan.workspace().unwrap();
            workspace.write_bytes(&stream, &vec![0xff; workspace.len_bytes() as usize]).unwrap();
            let mut outputs = [(); 3].map(|()| context.tensor(problem.c()).unwrap());
            for c in &mut outputs {
                let args = Args::new().input("a", &a).input("b", &b).output("c", c);
                plan.run(&stream, args, &mut workspace).unwrap();
            }
            for c in &outputs {
                assert!(c.to_vec::<f32>(&stream).unwrap() == expected, "{text}: {kernel}");
            }
        }
    }
}

/// Blocks keep their part of b for all of their tiles, alone and with another that has the next columns: the same sums as
/// where b comes with each tile, with tails, several matrices, and columns that fill no block.
#[test]
fn blocks_that_keep_b() {
    let Some(context) = oxidnn_tests::hopper("blocks_that_keep_b") else { return };
    // Tiles of 128 rows that all multiprocessors have in five rounds.
    let rows = 128 * 5 * context.info().n_units - 55;
    let half = rows / 2;
    for (text, kernel, variants) in [
        (format!("trans=nt a={rows}x296:bf16 b=304x296:bf16"), "bf16f32bf16_128x160x64_s6_nt", &["", "+share2"][..]),
        (format!("a={rows}x136:f16 b=136x152:f16"), "f16f32f16_128x160x64_s6_nn", &[""]),
        (format!("a=2x{half}x72:bf16 b=2x72x312:bf16:s0x312x1"), "bf16f32bf16_128x160x64_s6_nn", &["", "+share2"]),
        (format!("trans=nt a={rows}x320:f16 b=600x320:f16"), "f16f32f16_128x160x64_s6_nt", &["", "+share2"]),
    ] {
        let problem: MatmulProblem = format!("matmul:forward {text}").parse().unwrap();
        let other = format!("matmul160turns_forward_tma_wgmma_{}_sm90", kernel.replace("_s6_", "_s4_c2_"));
        let expected = product(&context, &problem, &other);
        for variant in variants {
            let name = format!("matmul160resident_forward_tma_wgmma_{kernel}_sm90{variant}");
            assert!(product(&context, &problem, &name) == expected, "{text}: {name}");
        }
    }
}

/// Also of sums that many blocks share.
#[test]
fn every_variant_repeats_its_bits() {
    let Some(context) = oxidnn_tests::gpu("every_variant_repeats_its_bits") else { return };
    for text in [
        "matmul:forward a=520x2200:bf16 b=2200x24:bf16",
        "matmul:forward trans=tn a=2200x300:f16 b=2200x333:f16",
        "matmul:forward a=130x1100:f32 b=1100x200:f32",
    ] {
        let problem: MatmulProblem = text.parse().unwrap();
        let plan = context.plan(&problem, Policy::Heuristic).unwrap();
        for candidate in plan.candidates() {
            if matches!(candidate.verdict, Verdict::Able { .. }) {
                let runs = [(); 3].map(|()| product(&context, &problem, candidate.config));
                assert!(runs[0] == runs[1] && runs[0] == runs[2], "{text}: {}", candidate.config);
            }
        }
    }
}

/// Whatever the strides, some fast kernel needs no workspace.
#[test]
fn without_workspace_there_are_tensor_cores_still() {
    let Some(context) = oxidnn_tests::gpu("without_workspace_there_are_tensor_cores_still") else { return };
    for text in ["a=35x1760:bf16 b=1760x8457:bf16", "a=512x5000:bf16 b=5000x16:bf16", "a=650x670:f16 b=670x1290:f16"] {
        let problem: MatmulProblem = format!("matmul:forward {text}").parse().unwrap();
        let plan = context.plan(&problem, Policy::Heuristic.workspace_limit(0)).unwrap();
        assert_eq!(plan.workspace_bytes(), 0);
        assert_ne!(plan.algorithm(), "naive", "{}", plan.explain());
    }
}

/// f32 in bf16 parts is as exact as scalar f32, against sums in f64.
#[test]
fn parts_are_as_exact_as_scalar_arithmetic() {
    let Some(context) = oxidnn_tests::hopper("parts_are_as_exact_as_scalar_arithmetic") else { return };
    for k in [64i64, 1000, 4096] {
        let problem: MatmulProblem = format!("matmul:forward a=96x{k}:f32 b={k}x80:f32").parse().unwrap();
        let (a, b) = (scattered(96 * k, 1), scattered(k * 80, 2));
        let at = |row: i64, col: i64| -> f64 {
            let term = |i: i64| f64::from(a[(row * k + i) as usize]) * f64::from(b[(i * 80 + col) as usize]);
            (0..k).map(term).sum()
        };
        let expected: Vec<f64> = (0..96 * 80).map(|i| at(i / 80, i % 80)).collect();
        let error = |name: &str| {
            let got = product(&context, &problem, name);
            let squares = |values: &mut dyn Iterator<Item = f64>| values.map(|v| v * v).sum::<f64>();
            let wrong = squares(&mut got.iter().zip(&expected).map(|(got, expected)| f64::from(*got) - expected));
            (wrong / squares(&mut expected.iter().copied())).sqrt()
        };
        let (parts, scalar) = (error("bf16x3_wgmma"), error("ffma"));
        println!("k = {k}: relative L2 error of bf16x3_wgmma {parts:.2e}, of ffma {scalar:.2e}");
        assert!(parts <= 1.1 * scalar, "k = {k}: {parts:e} against {scalar:e}");
    }
}

#[test]
fn refusals_name_argument_expected_and_given() {
    let desc = |text: &str| text.parse::<TensorDesc>().unwrap();
    let new = |a: &str, b: &str, c: &str| MatmulProblem::new(&desc(a), &desc(b), &desc(c)).unwrap_err().to_string();
    assert_eq!(new("3:f32", "3:f32", "3:f32"), "matmul: bad a: expected a rank of 2 to 5, given 1");
    assert!(new("1x1x1x1x2x3:f32", "3x4:f32", "2x4:f32").contains("bad a: expected a rank of 2 to 5, given 6"));
    assert_eq!(new("2x3:f32", "1x3x4:f32", "2x4:f32"), "matmul: bad b: expected the rank 2 of a, given 3");
    assert_eq!(new("2x3:f32", "3x4:f32", "1x2x4:f32"), "matmul: bad c: expected the rank 2 of a, given 3");
    assert_eq!(new("2x3:f32", "4x5:f32", "2x5:f32"), "matmul: bad b: expected the gemm_k 3 of a, given 4");
    assert_eq!(
        new("2x3:f32", "3x5:f32", "2x4:f32"),
        "matmul: bad c: expected gemm_m 2 of a and gemm_n 5 of b, given 2x4"
    );
    assert_eq!(new("2x3:f32", "3x5:f16", "2x5:f32"), "matmul: bad b: expected the element type f32 of a, given f16");
    assert_eq!(new("4x2x3:f32", "5x3x5:f32", "4x2x5:f32"), "matmul: bad b: expected the batch extents 4 of a, given 5");
    assert!(new("2x3:f32", "3x5:f32", "2x5:f32:s0x1").contains("bad c: expected an output whose elements"));
    assert!(new("4x2x3:f32", "4x3x5:f32", "4x2x5:f32:s0x5x1").contains("bad c: expected an output whose elements"));
    let text = |text: &str| text.parse::<MatmulProblem>().unwrap_err().to_string();
    assert!(text("matmul:backward a=2x3:f32 b=3x4:f32").contains("bad pass: expected forward, given \"backward\""));
    assert!(text("matmul:forward trans=nq a=2x3:f32 b=3x4:f32").contains("given \"nq\""));
    assert!(text("matmul:forward a=2x3:f32").contains("expected b=…"));
    assert!(text("matmul:forward a=2x3:f32 b=3x4:f32 d=1").contains("unknown or repeated key \"d\""));
    assert!(text("matmul:forward a=2x0:f32 b=3x4:f32").contains("at least 1, given 0"));
    assert!(text("matmul:forward a=4294967296x1:f32 b=1x4294967296:f32").contains("2^63"));
}
