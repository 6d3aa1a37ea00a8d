//! Every element is met once, however tensors are shared out.

use super::*;
use crate::DeviceInfo;

fn layout(text: &str) -> Result<Layout, Refusal> {
    let problem: NormProblem = text.parse().unwrap();
    Layout::of(&problem, &Context::cpu())
}

/// A device of two multiprocessors.
fn small_device() -> Context {
    Context::described(DeviceInfo { n_units: 2, ..DeviceInfo::h200() })
}

/// What all threads of all blocks visit, as the kernels do: every element once.
fn covers(text: &str) {
    covers_on(text, &Context::cpu());
}

fn covers_on(text: &str, context: &Context) {
    let problem: NormProblem = text.parse().unwrap();
    let layout = Layout::of(&problem, context).unwrap();
    let run = VECTOR_BYTES / problem.x().dtype().size_bytes() as i64;
    for shares in [&layout.summing, &layout.applying] {
        for (share, run, blocks) in
            shares.vectors.iter().map(|s| (s, run, shares.blocks[0])).chain([(&shares.single, 1, shares.blocks[1])])
        {
            assert!(share.sweeping == 0 || share.rows > 0, "{text}");
            share_covers(&problem, &layout, share, run as u32, blocks);
        }
    }
}

/// Positions of a part, one of each vector where those lie along positions; `k` of a thread in a run, if there are any.
fn positions_of(share: &Share, part: u32, run: u32, k: u32) -> Vec<u32> {
    if share.sweeping != 0 {
        // Whole runs, and a row at a time.
        let of_run = share.rows * k;
        let in_runs = share.rounds * share.n_parts * of_run;
        let runs = (0..in_runs).filter(|at| at / of_run.max(1) % share.n_parts == part);
        let left = (in_runs..share.positions).filter(|at| (at - in_runs) / share.rows % share.n_parts == part);
        return runs.chain(left).collect();
    }
    let (_, chunk) = share.chunks.div_rem(part);
    let positions = chunk * share.part_positions..((chunk + 1) * share.part_positions).min(share.positions);
    if share.along_channels != 0 {
        return positions.collect();
    }
    assert_eq!((positions.len() as u32 % run, positions.start % run), (0, 0));
    positions.collect()
}

fn share_covers(problem: &NormProblem, layout: &Layout, share: &Share, run: u32, blocks: u32) {
    let mut found = Vec::new();
    let mut elems = 0u64;
    for part in 0..share.n_parts {
        let (of_images, _) = share.chunks.div_rem(part);
        let images = if share.sweeping != 0 {
            0..1
        } else {
            of_images * share.part_images..((of_images + 1) * share.part_images).min(share.images)
        };
        let positions = positions_of(share, part, run, SumRuns::of(problem).map_or(1, |runs| runs.run));
        if share.lanes.is_power_of_two() {
            elems += u64::from(share.part_elems(part));
            assert_eq!(u64::from(share.part_elems(part)), (images.len() * positions.len()) as u64, "{problem}");
        }
        for (image, block) in images.flat_map(|image| (0..blocks).map(move |block| (image, block))) {
            let channels = if share.along_channels != 0 {
                let first = block * share.lanes * run;
                first..(first + share.lanes * run).min(share.channels)
            } else {
                block..block + 1
            };
            for (&at, c) in positions.iter().flat_map(|at| channels.clone().map(move |c| (at, c))) {
                let s = layout.strides[tensor::X];
                found.push(i64::from(image) * s[0] + i64::from(at) * s[1] + i64::from(c) * s[2]);
            }
        }
    }
    if share.lanes.is_power_of_two() {
        assert_eq!(elems * u64::from(share.channels), problem.x().n_elems() as u64, "{problem}");
    }
    let mut expected: Vec<i64> = (0..problem.x().n_elems()).map(|i| problem.x().offset_of(i)).collect();
    found.sort_unstable();
    expected.sort_unstable();
    assert_eq!(found, expected, "{problem}");
}

#[test]
fn runs_meet_every_element_once() {
    for (x, z) in [("1x72x10x9:bf16:nhwc", ""), ("2x64x5x7:f16:nhwc", " z=2x64x5x7:f16:nhwc"), ("70x16:f32", "")] {
        let c = x.split('x').nth(1).and_then(|c| c.split(':').next()).unwrap();
        let of_channels = format!("scale={c}:f32 bias={c}:f32 running_mean={c}:f32 running_var={c}:f32");
        let text = format!("norm:inference mode=batch x={x} {of_channels}{z}");
        let layout = layout(&text).unwrap();
        let share = layout.applying.vectors.unwrap();
        assert_eq!(layout.run_threads, BLOCK, "{text}");
        assert!(share.n_parts * share.part_positions >= share.positions);
        assert!((share.n_parts - 1) * share.part_positions < share.positions);
        let rows = BLOCK / share.lanes;
        assert_eq!(share.part_positions, rows * positions_of_run(&text.parse().unwrap()));
    }
    for x in ["5x72x40x31:bf16:nhwc", "2x24x70x70:f16:nhwc", "3x4104x5x3:bf16:nhwc"] {
        let c = x.split('x').nth(1).unwrap();
        covers(&format!(
            "norm:inference mode=batch x={x} scale={c}:f32 bias={c}:f32 running_mean={c}:f32 running_var={c}:f32"
        ));
    }
    let forward = "norm:forward mode=batch x=90x72x40x31:bf16:nhwc scale=72:f32 bias=72:f32";
    assert_eq!(layout(forward).unwrap().run_threads, RUN_BLOCK);
    covers(forward);
    let threads = |x: &str, known: &str| {
        let known = format!("scale={known} bias={known} running_mean={known} running_var={known}");
        layout(&format!("norm:inference mode=batch x={x} {known}")).unwrap().run_threads
    };
    assert_eq!(threads("640x72x40x31:bf16:nhwc", "72:f32"), RUN_BLOCK);
    assert_eq!(threads("640x72x40x31:bf16:nhwc", "72:bf16"), 0);
    assert_eq!(threads("3x13x5x5:bf16:nhwc", "13:f32"), 0);
    assert_eq!(threads("3x16x8x8:bf16", "16:f32"), 0);
}

#[test]
fn sums_in_runs_meet_every_element_once() {
    let context = small_device();
    for (x, c) in [
        ("30x72x31x17:bf16:nhwc", 72),
        ("45x8x31x33:bf16:nhwc", 8),
        ("16x16x41x37:f16:nhwc", 16),
        ("9x264x17x11:bf16:nhwc", 264),
        ("16x36x31x17:f32:nhwc", 36),
        ("5x2056x16x13:f16:nhwc", 2056),
    ] {
        let p = format!("{c}:f32");
        for (text, block, run) in [
            (format!("norm:forward mode=batch x={x} scale={p} bias={p}"), STATISTICS_BLOCK, STATISTICS_RUN),
            (
                format!("norm:backward mode=batch x={x} scale={p} mean={p} inv_std={p} dscale={p} dbias={p}"),
                GRADIENT_SUM_BLOCK,
                GRADIENT_SUM_RUN,
            ),
        ] {
            let problem: NormProblem = text.parse().unwrap();
            let layout = Layout::of(&problem, &context).unwrap();
            let share = layout.summing.vectors.unwrap();
            assert_eq!((layout.sum_threads, share.rows), (block, block / share.lanes), "{text}");
            assert!(share.rounds > 0 && layout.run_threads > 0, "{text}");
            let left = share.positions - share.rounds * share.n_parts * share.rows * run;
            assert!(left < share.n_parts * share.rows * run, "{text}");
            // Most threads have channels.
            let blocks = layout.summing.blocks[0];
            let vectors = share.channels / (VECTOR_BYTES / problem.x().dtype().size_bytes() as i64) as u32;
            assert!(vectors * share.rows * 10 >= blocks * block * 8, "{text}: {share:?}");
            covers_on(&text, &context);
        }
    }
    let threads = |text: &str| Layout::of(&text.parse().unwrap(), &context).unwrap().sum_threads;
    let x = "x=30x72x31x17:bf16:nhwc";
    assert_eq!(threads(&format!("norm:forward mode=batch {x} z=30x72x31x17:bf16:nhwc")), STATISTICS_BLOCK);
    for text in [
        format!("norm:backward mode=batch {x}"),
        format!("norm:backward mode=batch act=relu {x} y=30x72x31x17:bf16:nhwc mean=72:f32 inv_std=72:f32"),
        format!("norm:forward mode=instance {x}"),
        "norm:forward mode=batch x=30x72x31x17:bf16".to_owned(),
        "norm:forward mode=batch x=30x73x31x17:bf16:nhwc".to_owned(),
        "norm:forward mode=batch x=1x72x31x17:bf16:nhwc".to_owned(),
    ] {
        assert_eq!(threads(&text), 0, "{text}");
    }
}

#[test]
fn every_element_is_met_once() {
    for x in [
        "5x16x9x7:f16:nhwc",
        "5x16x8x8:f16",
        "5x3x7x7:f32",
        "9x5x1x1:bf16",
        "1x40x3x3:f32:nhwc",
        "70x2x16:f16",
        "40x8x7x7:bf16",
        "33x4x3x5:f32",
        "2x24x70x70:f16:nhwc",
        "3x72x40x31:bf16:nhwc",
    ] {
        for mode in ["batch", "instance", "per_activation"] {
            if mode == "per_activation" && x.contains("nhwc") {
                continue;
            }
            covers(&format!("norm:forward mode={mode} x={x}"));
        }
    }
    covers("norm:forward mode=group groups=4 x=3x16x5x5:f16:nhwc");
    covers("norm:forward mode=batch x=3x16x5x5:f16:s800x1x80x16");
}

#[test]
fn refusals_name_the_layouts() {
    let refusal = |text: &str| layout(text).unwrap_err().0;
    assert!(refusal("norm:forward mode=layer x=4x8:f32").contains("given layer"));
    assert!(refusal("norm:forward mode=batch x=4x8x3x3:f32 y=4x8x3x3:f32:nhwc").contains("contiguous channels"));
    assert!(refusal("norm:forward mode=batch x=4x8x3x3:f32:s216x27x9x2").contains("one dimension, given 4x8"));
    assert!(refusal("norm:forward mode=per_activation x=4x8x3x3:f32:nhwc").contains("one dimension"));
}
