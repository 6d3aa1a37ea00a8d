//! That blocks and their windows are what the formula says.

use super::*;
use kernel_abi::ops::conv::index::{input_position, output_position};

/// What a written position meets: a position that is read, and a tap.
type Met = [[i64; 3]; 2];

fn formula(problem: &ConvProblem, at: [i64; 3]) -> Vec<Met> {
    let shape = problem.shape();
    let mut met = Vec::new();
    let fprop = problem.conv_pass() == ConvPass::Fprop;
    let along = |i: usize| {
        let ConvAxis { padding, stride, dilation, .. } = shape.axes[i];
        let extent = if fprop { shape.image[i] } else { shape.output[i] };
        let meets = move |tap: i64| {
            let read = match fprop {
                true => input_position(at[i], tap, padding, stride, dilation),
                false => output_position(at[i], tap, padding, stride, dilation),
            };
            (read, tap)
        };
        (0..shape.filter[i]).map(meets).filter(|&(p, _)| p >= 0 && p < extent).collect::<Vec<_>>()
    };
    for (z, t) in along(0) {
        for &(p, r) in &along(1) {
            met.extend(along(2).into_iter().map(|(q, s)| [[z, p, q], [t, r, s]]));
        }
    }
    met.sort_unstable();
    met
}

/// The tap of a column at a position of the window, as the packing kernel finds it.
fn tap(p: &ConvPackSpreadParams, column: i64, [t, i, j]: [i64; 3]) -> Option<(i64, [i64; 3])> {
    let (rest, c) = (column / p.channels, column % p.channels);
    let (a, b) = (rest / p.block[1], rest % p.block[1]);
    let (r, s) = (p.tap(0, a, i), p.tap(1, b, j));
    let inside = r >= 0 && r < p.filter[0] && s >= 0 && s < p.filter[1];
    // Distances along the depth, taken as 1.
    let depth = (p.depth[1] + t * p.depth[2]) / p.depth[2].abs().max(1);
    inside.then_some((c, [depth, r, s]))
}

fn check(problem: &ConvProblem, packing: &Packing, view: &View) {
    let (shape, params) = (problem.shape(), packing.params(problem));
    let spread = view.spread.unwrap();
    let [class] = view.classes[..] else { panic!("{problem}: one class") };
    let mut written = 0;
    let blocks = view.written.extents;
    for (z, h, w) in
        (0..blocks[0]).flat_map(|z| (0..blocks[1]).flat_map(move |h| (0..blocks[2]).map(move |w| (z, h, w))))
    {
        for column in 0..packing.columns {
            let (rest, c) = (column / spread.counts[2], column % spread.counts[2]);
            let (a, b) = (rest / spread.counts[1], rest % spread.counts[1]);
            let at = [z, h * spread.counts[0] + a, w * spread.counts[1] + b];
            if at[1] >= spread.extents[0] || at[2] >= spread.extents[1] {
                continue;
            }
            written += 1;
            let mut met = Vec::new();
            for t in 0..class.axes[0].n_taps {
                for i in 0..class.axes[1].n_taps {
                    for j in 0..class.axes[2].n_taps {
                        let (block, tap_at) = ([z, h, w], [t, i, j]);
                        let read: [i64; 3] = std::array::from_fn(|x| {
                            let axis = class.axes[x];
                            axis.base + block[x] * view.step[x] + tap_at[x] * axis.tap_offset
                        });
                        let fprop = packing.pass == ConvPass::Fprop;
                        let extents = if fprop { shape.image } else { shape.output };
                        let inside = (0..3).all(|x| read[x] >= 0 && read[x] < extents[x]);
                        if let Some((channel, filter)) = tap(&params, column, tap_at).filter(|_| inside) {
                            assert_eq!(channel, c);
                            met.push([read, filter]);
                        }
                    }
                }
            }
            met.sort_unstable();
            assert_eq!(met, formula(problem, at), "{problem}: {packing:?} {at:?}");
        }
    }
    assert_eq!(written, packing.channels * packing.written_extents(problem).iter().product::<i64>(), "{problem}");
}

#[test]
fn blocks_meet_what_the_formula_says() {
    for text in [
        "conv:dgrad pad=1x1 stride=1x1 dx=1x3x9x11:bf16:nhwc w=16x3x3x3:bf16:nhwc",
        "conv:dgrad pad=3x3 stride=2x2 dx=1x3x13x12:bf16:nhwc w=64x3x7x7:bf16",
        "conv:dgrad pad=2x0 stride=3x1 dil=1x2 dx=1x2x10x9:bf16 w=32x2x5x3:bf16 dy=1x32x4x5:bf16:nhwc",
        "conv:dgrad pad=0x0 stride=4x4 dx=1x1x9x10:bf16:nhwc w=16x1x2x3:bf16:nhwc",
        "conv:dgrad pad=1x1x1 stride=1x1x1 dx=1x1x4x9x10:bf16:nhwc w=32x1x3x3x3:bf16:nhwc",
        "conv:dgrad pad=0x0x0 stride=1x1x1 dx=1x3x5x8x9:bf16:nhwc w=32x3x3x3x3:bf16:nhwc",
        "conv:fprop pad=1x1 stride=1x1 x=2x16x9x11:bf16:nhwc w=12x16x3x3:bf16:nhwc",
        "conv:fprop pad=2x0 stride=2x1 dil=1x2 x=1x16x13x12:bf16:nhwc w=3x16x5x3:bf16",
        "conv:fprop pad=1x1x1 stride=1x1x1 x=1x32x4x9x10:bf16:nhwc w=32x32x3x3x3:bf16:nhwc",
        "conv:fprop pad=1x0x1 stride=2x1x2 dil=2x1x1 x=1x8x8x9x10:bf16:nhwc w=5x8x2x3x2:bf16:nhwc",
        "conv:dgrad pad=2x1x1 stride=1x2x2 dil=2x1x1 dx=1x4x5x8x9:bf16:nhwc w=40x4x2x3x3:bf16:nhwc",
    ] {
        let problem: ConvProblem = text.parse().unwrap();
        for tile in TILES {
            let packing = Packing::of(&problem, Kernel::Gather(tile));
            let packing = packing.unwrap_or_else(|refusal| panic!("{text}: {}", refusal.0));
            let view = packing.gathered_view(&problem);
            let view = view.unwrap_or_else(|refusal| panic!("{text}: {}", refusal.0));
            assert!(packing.columns <= i64::from(tile.gemm_n));
            assert!(view.step.iter().all(|&step| step <= MAX_STEP));
            check(&problem, &packing, &view);
        }
        let mut with_halo = 0;
        for row in halo_wgmma::KERNELS {
            let Ok(packing) = Packing::of(&problem, Kernel::Halo(row.form)) else { continue };
            with_halo += 1;
            assert!(packing.columns <= i64::from(row.form.gemm_n()));
            check(&problem, &packing, &packing.view(&problem).unwrap());
        }
        assert!(with_halo > 0, "{text}");
        for steps in [[1, 1], [2, 1], [3, 2], [1, 5], [4, 4]] {
            let packing = Packing::by(&problem, 8, steps).unwrap();
            let view = packing.gathered_view(&problem);
            if (0..2).any(|i| packing.step(i)[1] * steps[i] > MAX_STEP) {
                assert!(view.unwrap_err().0.contains("strides up to 8"));
                continue;
            }
            let view = view.unwrap();
            check(&problem, &packing, &view);
        }
    }
}

#[test]
fn blocks_are_large_where_columns_are_few() {
    let packing = |text: &str, tile: ConvTile| {
        let problem = text.parse().unwrap();
        let packing = Packing::of(&problem, Kernel::Gather(tile)).unwrap();
        (packing.columns, packing.steps, packing.products(&problem, tile))
    };
    let same = packing("conv:fprop pad=1x1x1 x=2x32x128x128x128:bf16:nhwc w=32x32x3x3x3:bf16:nhwc", GATHER_128X128_P32);
    assert_eq!((same.0, same.1), (128, [2, 2]));
    let one = packing("conv:dgrad pad=1x1x1 dx=2x1x128x128x128:bf16:nhwc w=32x1x3x3x3:bf16:nhwc", GATHER_256X64_P32);
    assert!(one.0 >= 40 && one.2 <= 300, "{one:?}");
    let three = packing("conv:dgrad dx=1x3x116x132x132:bf16:nhwc w=32x3x3x3x3:bf16:nhwc", GATHER_256X64_P32);
    assert!(three.0 >= 36 && three.2 <= 300, "{three:?}");
    // A strided one has its columns.
    let stem = "conv:dgrad pad=3 stride=2 dx=256x3x224x224:bf16:nhwc w=64x3x7x7:bf16:nhwc";
    println!("{one:?} {three:?} {:?}", packing(stem, GATHER_256X64));
    // With the halo, four by four positions of three channels.
    let problem = stem.parse().unwrap();
    let wide = |row: &&halo_wgmma::Row| row.symbol == "halo_fprop_wgmma_bf16_64x256_sm90";
    let form = halo_wgmma::KERNELS.iter().find(wide).unwrap().form;
    assert_eq!(Packing::of(&problem, Kernel::Halo(form)).unwrap().block(), [4, 4]);
}

#[test]
fn refusals_say_why() {
    let refusal = |text: &str| Packing::of(&text.parse().unwrap(), Kernel::Gather(GATHER_256X64)).err().unwrap().0;
    let strided = refusal("conv:dgrad pad=1 stride=2x1x1 dx=1x1x4x9x10:bf16:nhwc w=32x1x3x3x3:bf16:nhwc");
    assert!(strided.contains("dgrad of stride 1 along the depth, given 2"), "{strided}");
    assert!(refusal("conv:dgrad pad=1 dx=1x1x9:bf16:nhwc w=32x1x3:bf16:nhwc").contains("two or three axes"));
    assert!(refusal("conv:dgrad pad=1 dx=1x72x9x9:bf16:nhwc w=32x72x3x3:bf16:nhwc").contains("up to 64 columns"));
    assert!(refusal("conv:fprop pad=1 x=1x64x9x9:bf16:nhwc w=64x64x3x3:bf16:nhwc").contains("given 64 columns"));
}
