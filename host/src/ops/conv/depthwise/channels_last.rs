//! How the kernels for channels-last images and square filters of 3, 5 or 7 cut the work.

use super::geometry::{Action, Geometry};
use crate::DType;
use kernel_abi::ops::conv::{DepthwiseParams, RUN_MAX};

/// Threads of a block.
pub(super) const THREADS: u32 = 256;

/// Blocks that a large device runs at once.
const BLOCKS_AT_ONCE: f64 = 264.0;

/// Blocks of `wgrad`, each with sums of its own.
const WGRAD_BLOCKS: i64 = 528;

/// A row of the kernel list.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub(super) symbol: &'static str,
    pub(super) action: Action,
    pub(super) filter: i32,
    pub(super) stride: i32,
    /// Rows under way at once.
    pub(super) ring: i32,
    /// Channels of an access.
    pub(super) vec: i32,
    /// Columns of a strip.
    pub(super) strip: i32,
    pub(super) dtype: DType,
}

macro_rules! rows {
    ($(($symbol:ident, $action:ident, $r:literal, $stride:literal, $ring:literal, $vec:literal, $strip:literal,
        $columns:literal, $dtype:ident)),* $(,)?) => {
        &[$(Row {
            symbol: stringify!($symbol),
            action: rows!(@$action),
            filter: $r,
            stride: $stride,
            ring: $ring,
            vec: $vec,
            strip: $strip,
            dtype: kernel_abi::dtype_of!($dtype),
        }),*]
    };
    (@gather) => { Action::Gather };
    (@spread) => { Action::Spread };
    (@wgrad) => { Action::Wgrad };
}
const KERNELS: &[Row] = kernel_abi::depthwise_channels_last_kernels!(rows);

/// The kernel for a problem.
pub(super) fn row(geometry: &Geometry) -> Option<&'static Row> {
    let [r, s] = geometry.filter;
    let [stride, other] = geometry.stride;
    let action = geometry.action();
    if !geometry.channels_last || r != s || stride != other || geometry.dilation != [1; 2] {
        return None;
    }
    let params = geometry.params();
    if !geometry.counts_bytes_in_32_bits() {
        return None;
    }
    let fits = |row: &&Row| {
        (row.action, row.filter, row.stride, row.dtype) == (action, r, stride, geometry.dtype)
            && params.c % row.vec == 0
    };
    KERNELS.iter().find(fits)
}

/// Parameters and number of blocks; None for more items than the kernel counts.
pub(super) fn cut(geometry: &Geometry, row: &Row) -> Option<(DepthwiseParams, u64)> {
    let mut params = geometry.params();
    let groups = params.c / row.vec;
    params.channel_run = channel_run(groups);
    let runs = (i64::from(groups) + i64::from(params.channel_run) - 1) / i64::from(params.channel_run);
    let slots = i64::from(THREADS as i32 / params.channel_run);
    let ceil = |a: i64, b: i32| (a + i64::from(b) - 1) / i64::from(b);
    // What a thread steps over, and how far a strip reaches, in target positions.
    let (rows, columns) = if row.action == Action::Spread {
        // The gather's padding, turned around again.
        let padding: [i64; 2] = std::array::from_fn(|i| i64::from(row.filter - 1 - params.padding[i]));
        let reach = |i: usize| i64::from(params.target_dims[i]) + padding[i];
        (ceil(reach(0), 2), ceil(reach(1), 2 * row.strip))
    } else {
        (i64::from(params.target_dims[0]), ceil(i64::from(params.target_dims[1]), row.strip))
    };
    let items = |item_rows: i32| params.n.checked_mul(ceil(rows, item_rows))?.checked_mul(columns);
    let blocks = |items: i64| (items + slots - 1) / slots;
    // The more rows an item has, the fewer rows are loaded twice; the fewer, the better the device is filled.
    let cost = |item_rows: i32| {
        let Some(items) = items(item_rows) else { return f64::INFINITY };
        let steps = f64::from(item_rows + row.ring - 1 + 2);
        let rounds = if row.action == Action::Wgrad {
            // Every slot of every block takes the same number of items.
            let slabs = WGRAD_BLOCKS / runs;
            ceil(items, (slabs.max(1) * slots).min(i64::from(i32::MAX)) as i32) as f64
        } else {
            let waves = (blocks(items) * runs) as f64 / BLOCKS_AT_ONCE;
            if waves < 4.0 { waves.ceil() } else { waves + 0.5 }
        };
        rounds * steps
    };
    let most = rows.clamp(1, 64) as i32;
    params.item_rows = (1..=most).min_by(|&a, &b| cost(a).total_cmp(&cost(b))).unwrap_or(1);
    params.n_items = items(params.item_rows)?;
    if params.n_items > i64::from(i32::MAX) {
        return None;
    }
    let mut n_blocks = blocks(params.n_items);
    if row.action == Action::Wgrad {
        n_blocks = n_blocks.min((WGRAD_BLOCKS / runs).max(1));
        params.n_slabs = n_blocks as i32;
    }
    Some((params, n_blocks as u64 * runs as u64))
}

/// How many groups of channels a block walks: many, so that accesses are long, but few threads left over.
fn channel_run(groups: i32) -> i32 {
    let used = |run: i32| {
        let runs = (groups + run - 1) / run;
        let threads = THREADS as i32;
        f64::from(groups) / f64::from(runs * run) * f64::from(threads / run * run) / f64::from(threads)
    };
    if groups <= RUN_MAX / 2 {
        return groups;
    }
    (RUN_MAX / 2..=RUN_MAX).max_by(|&a, &b| used(a).total_cmp(&used(b))).unwrap_or(RUN_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_leave_few_threads_over() {
        for (groups, run) in [(1, 1), (9, 9), (16, 16), (32, 32), (48, 16), (96, 32)] {
            assert_eq!(channel_run(groups), run, "{groups} groups");
        }
        for groups in 1..600 {
            let run = channel_run(groups);
            assert!((1..=RUN_MAX).contains(&run) && run <= groups.max(1));
        }
    }
}
