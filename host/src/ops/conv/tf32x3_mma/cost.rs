//! How long a kernel takes: what a step of a sum takes a block that is alone, and a multiprocessor that is full. Figures
//! are reckoned from the instructions of a step, for an H200; none is fitted to times yet.

use super::{Cut, Variant, geometry};
use crate::ops::conv::{ConvPass, ConvProblem};
use crate::{Context, Problem};
use kernel_abi::ops::conv::cp_async_mma::{CP_ASYNC_K, CpAsyncMmaParams};

/// Launch, tables, and the last tile's way out.
const ENDS_US: f64 = 4.0;
/// A step of 32 terms of a block that is alone: small tile and large one.
const STEP_US: [f64; 2] = [1.1, 2.3];
/// The same of a small tile whose terms two groups of warps share, one block a multiprocessor.
const SHARED_STEP_US: f64 = 0.75;
/// A multiprocessor's time for one when it is full: 50 TFLOP/s of 132 of them.
const SHARE_US: [f64; 2] = [0.70, 2.77];
/// Blocks of a multiprocessor.
const RESIDENT: [f64; 2] = [3.0, 1.0];
/// What a step takes more where an operand is copied two elements at a time, or one: instructions of copies.
const COPIES: [f64; 2] = [0.1, 0.3];
/// Writing a tile: 64 rows and columns.
const OUT_US: f64 = 0.8;
/// Bytes of the operands in a microsecond.
const MEMORY: f64 = 3.5e6;
/// Meeting in a cluster, and reading 64 rows and columns of sums of each other.
const EXCHANGE_US: [f64; 2] = [3.0, 0.4];
/// The second kernel of `wgrad`, and the bytes of partial sums that are written and read again in a microsecond.
const SECOND_US: f64 = 2.0;
const PARTIALS: f64 = 0.93e6;

/// tf32 products of a multiprocessor in a microsecond, relative to an H200's.
fn rate(compute_capability: (u32, u32)) -> f64 {
    match compute_capability {
        (9, 0) => 1.0,
        (8, 0) => 0.65,
        (8, 9) => 0.4,
        _ => 0.25,
    }
}

/// The estimate of a kernel that leaves so many bytes of partial sums.
pub(super) fn estimate_us(
    problem: &ConvProblem,
    params: &CpAsyncMmaParams,
    variant: &Variant,
    partials: f64,
    context: &Context,
) -> f64 {
    let (info, large) = (context.info(), usize::from(variant.tile.size > 64));
    let copies = [params.source_elems, params.other_elems].map(|elems| match elems {
        4 => 0.0,
        2 => COPIES[0],
        _ => COPIES[1],
    });
    let step = (1.0 + copies[0] + copies[1]) / rate(info.compute_capability);
    // Terms of the average sum, and of the longest: classes of a strided dgrad meet some of the taps each.
    let group = f64::from(params.source_group);
    let classes = params.classes.map(f64::from).iter().product::<f64>();
    let most: f64 = (0..3).map(|i| f64::from(params.filter_extents[i].div_ceil(params.classes[i].max(1)))).product();
    let (sum, longest) = match problem.conv_pass() {
        ConvPass::Wgrad => (f64::from(params.slab_pixels), f64::from(params.slab_pixels)),
        _ if params.spread_classes > 0 => {
            let distances = (0..3).map(|axis| f64::from(params.spread(axis).1)).product::<f64>();
            (distances * group, distances * group)
        }
        _ => (f64::from(params.taps()) / classes * group, most * group),
    };
    let steps = |sum: f64| (sum / f64::from(CP_ASYNC_K)).ceil().max(1.0);
    let mut units = info.n_units as f64;
    if let Cut::Cluster(blocks) = variant.cut {
        units = (context.active_clusters(blocks) * u64::from(blocks)) as f64;
    }
    let blocks = geometry::blocks(params) as f64 / units;
    let tile = (f64::from(variant.tile.size) / 64.0).powi(2);
    let (resident, alone) =
        if variant.tile.depth > 1 { (1.0, SHARED_STEP_US) } else { (RESIDENT[large], STEP_US[large]) };
    let rounds = (blocks / resident).ceil() * steps(sum) * alone * step;
    let shared = blocks.ceil() * (steps(sum) * SHARE_US[large] * step + OUT_US * tile);
    let products = rounds.max(shared).max(steps(longest) * alone * step);
    let memory = problem.bytes() / MEMORY.min(info.bytes_per_us);
    let behind = match variant.cut {
        Cut::Whole => 0.0,
        Cut::Cluster(_) => (blocks / resident).ceil() * (EXCHANGE_US[0] + EXCHANGE_US[1] * tile),
        Cut::Slabs => SECOND_US + partials / PARTIALS,
    };
    ENDS_US + (products.powi(3) + memory.powi(3)).cbrt() + behind
}
