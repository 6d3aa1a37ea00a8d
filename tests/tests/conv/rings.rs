//! Rings of buffers whose number goes into nothing that they are shared out by, and sums that blocks send each other: each
//! role waits for its own copies, whichever others overtake.

use super::laws::run;
use kernel_abi::ops::conv::{ConvPass, ConvProblem};
use oxidnn_reference::Judge;
use oxidnn_tests::{Fill, hopper};

/// Run after run exactly: what hardware or the simulator leaves open differs between them.
fn repeats(kernel: &str, text: &str) {
    let Some(context) = hopper(kernel) else { return };
    let problem: ConvProblem = text.parse().unwrap();
    let second = if problem.conv_pass() == ConvPass::Wgrad { problem.y() } else { problem.w() };
    let [a, b] = [problem.x(), second]
        .map(|desc| Fill::Integers { max: 2 }.values(desc.n_elems() as usize, desc.dtype(), desc.n_elems() as u64));
    let expected = problem.judge(&[a.clone(), b.clone(), vec![]]).remove(0);
    for i in 0..12 {
        assert!(run(&context, kernel, &problem, &a, &b) == expected, "{kernel} {text}: run {i}");
    }
}

/// Three buffers of two consumers that take turns, five tiles of four parts: the second consumer ends without a tile.
#[test]
fn three_buffers_in_turns() {
    repeats(
        "halo_fprop_wgmma_f16_256x16_resident_sm90",
        "conv:fprop pad=1x1 stride=2x2 groups=8 x=1x8x7x611:f16:nhwc w=8x1x3x3:f16:nhwc",
    );
}

/// Nine taps a buffer that two consumers take in turns.
#[test]
fn taps_in_turns() {
    repeats("halo_fprop_wgmma_f16_64x64_sm90", "conv:fprop pad=1x1 x=3x128x7x7:f16:nhwc w=64x128x3x3:f16:nhwc");
}

/// Parts of one tap, whose buffer one of two consumers only waits for, and a filter that stays from tile to tile.
#[test]
fn parts_of_single_taps() {
    let strided = "conv:fprop pad=1x1 stride=2x2 x=5x64x13x15:f16:nhwc w=40x64x3x3:f16:nhwc";
    repeats("halo_fprop_wgmma_f16_64x64_sm90", strided);
    repeats("halo_fprop_wgmma_f16_64x256_sm90", strided);
}

/// Input rows that each warp has under way, and two consumers that take strips, or blocks of positions, in turns, of tiles
/// that a block has some of.
#[test]
fn rows_under_way() {
    let tiles = "x=300x3x4x96:f16:nhwc w=8x3x7x7:f16:nhwc";
    repeats("overlap_fprop_rows_f16_n112_i14_sm90", &format!("conv:fprop pad=3x3 stride=2x2 {tiles}"));
    let tiles = "x=300x3x4x32:f16:nhwc dy=300x8x2x16:f16:nhwc dw=8x3x7x7:f16:nhwc";
    repeats("overlap_wgrad_turns_f16_7x32_sm90", &format!("conv:wgrad pad=3x3 stride=2x2 {tiles}"));
}

/// Sums of a slice that other blocks send and the block's own warps leave, of one unit of rows and of several.
#[test]
fn sums_of_a_cluster_meet() {
    let few = "conv:fprop pad=1x1 x=1x64x3x4:f16:nhwc w=16x64x3x3:f16:nhwc";
    repeats("convcluster_fprop_wgmma_f16_64x64_sm90+cluster8", few);
    repeats("convcluster_fprop_wgmma_f16_64x32_sm90+cluster2", few);
    let more = "conv:fprop pad=1x1 x=1x64x3x4:f16:nhwc w=72x64x3x3:f16:nhwc";
    repeats("convcluster_fprop_wgmma_f16_128x128_s5_sm90+cluster4", more);
}
