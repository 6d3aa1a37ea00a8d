//! How long a kernel takes: what a step of a sum takes a block that is alone, and a multiprocessor that is full.
//!
//! The figures were fitted to 1,800 times on an H200 (all suites of convolutions, by `compare --verbose`); three of four
//! estimates are within 12 % of the times.

use super::{Row, geometry};
use crate::ops::conv::{ConvPass, ConvProblem};
use crate::{DeviceInfo, Problem};
use kernel_abi::ops::conv::cp_async_mma::{CP_ASYNC_K, CpAsyncMmaParams};

/// Launch, tables, and the last tile's way out.
const ENDS_US: f64 = 2.9;
/// A step of a block's sum, of a small tile and a large one, when nothing but its own loads is in its way.
const STEP_US: [f64; 2] = [0.50, 0.78];
/// A multiprocessor's time for one, when other blocks hide the loads.
const SHARE_US: [f64; 2] = [0.23, 0.55];
/// Blocks of a multiprocessor.
const RESIDENT: [f64; 2] = [4.0, 2.0];
/// A small tile's way out.
const OUT_US: f64 = 0.58;
/// Bytes of the operands in a microsecond.
const MEMORY: f64 = 5.6e6;
/// The second kernel of `wgrad`, and the bytes of partial sums that are written and read again in a microsecond.
const SECOND_US: f64 = 0.8;
const PARTIALS: f64 = 0.93e6;

/// How much longer than `fprop` a block that is alone, and a multiprocessor that is full, take a step.
fn pass_factors(pass: ConvPass) -> (f64, f64) {
    match pass {
        ConvPass::Fprop => (1.0, 1.0),
        ConvPass::Dgrad => (1.3, 1.14),
        ConvPass::Wgrad => (1.33, 0.88),
    }
}

/// The same where copies are of fewer elements than 8, and so more of them.
fn copy_factors(elems: u32) -> (f64, f64) {
    match elems {
        8 => (1.0, 1.0),
        4 => (1.4, 1.36),
        2 => (1.5, 2.5),
        _ => (4.0, 5.7),
    }
}

/// The estimate of a kernel that leaves so many bytes of partial sums.
pub(super) fn estimate_us(
    problem: &ConvProblem,
    params: &CpAsyncMmaParams,
    row: &Row,
    partials: f64,
    info: &DeviceInfo,
) -> f64 {
    let pass = problem.conv_pass();
    let large = usize::from(row.tile.size > 64);
    let (alone, full) =
        (pass_factors(pass).0 * copy_factors(row.copy_elems).0, pass_factors(pass).1 * copy_factors(row.copy_elems).1);
    // Terms of the average sum, and of the longest: classes of a strided dgrad meet some of the taps each.
    let group = f64::from(params.source_group);
    let classes = params.classes.map(f64::from).iter().product::<f64>();
    let most: f64 = (0..3).map(|i| f64::from(params.filter_extents[i].div_ceil(params.classes[i].max(1)))).product();
    let (sum, longest) = match pass {
        ConvPass::Wgrad => (f64::from(params.slab_pixels), f64::from(params.slab_pixels)),
        _ => (f64::from(params.taps()) / classes * group, most * group),
    };
    let steps = |sum: f64| (sum / f64::from(CP_ASYNC_K)).ceil().max(1.0);
    let blocks = geometry::blocks(params) as f64 / info.n_units as f64;
    let rounds = (blocks / RESIDENT[large]).ceil() * steps(sum) * STEP_US[large] * alone;
    let out = OUT_US * (f64::from(row.tile.size) / 64.0).powi(2);
    let shared = blocks.ceil() * (steps(sum) * SHARE_US[large] * full + out);
    let products = rounds.max(shared).max(steps(longest) * STEP_US[large] * alone);
    let memory = problem.bytes() / MEMORY.min(1.5 * info.bytes_per_us);
    let second = if pass == ConvPass::Wgrad { SECOND_US + partials / PARTIALS } else { 0.0 };
    ENDS_US + (products.powi(3) + memory.powi(3)).cbrt() + second
}
