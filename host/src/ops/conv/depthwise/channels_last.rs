//! How the kernels for channels-last images and square filters of 3, 5 or 7 cut the work.

use super::geometry::{Action, Geometry, action};
use crate::DType;
use crate::launch::div_ceil;
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
            action: action!($action),
            filter: $r,
            stride: $stride,
            ring: $ring,
            vec: $vec,
            strip: $strip,
            dtype: kernel_abi::dtype_of!($dtype),
        }),*]
    };
}
const KERNELS: &[Row] = kernel_abi::depthwise_channels_last_kernels!(rows);

impl Row {
    /// A step's time, relative to those of the other rows for the same filter; measured on an H200.
    fn step_time(&self) -> f64 {
        match (self.action, self.filter, self.stride, self.strip) {
            (Action::Gather, 3, 1, 7) => 2.0,
            (Action::Gather, 3, 2, 4) => 1.8,
            _ => 1.0,
        }
    }
}

/// How a kernel cuts a problem.
pub(super) struct RowCut {
    pub(super) row: &'static Row,
    pub(super) params: DepthwiseParams,
    pub(super) n_blocks: u64,
    /// Relative to those of the other kernels for the problem.
    time: f64,
}

/// The kernels for a problem, best first.
pub(super) fn cuts(geometry: &Geometry) -> Vec<RowCut> {
    let Some((r, stride)) = geometry.square().filter(|_| geometry.channels_last) else { return Vec::new() };
    let (action, params) = (geometry.action(), geometry.params());
    let fits = |row: &&Row| {
        (row.action, row.filter, row.stride, row.dtype) == (action, r, stride, geometry.dtype)
            && params.c % row.vec == 0
    };
    let mut cuts: Vec<_> = KERNELS.iter().filter(fits).filter_map(|row| cut(geometry, row)).collect();
    cuts.sort_by(|a, b| a.time.total_cmp(&b.time));
    cuts
}

/// None for more items than the kernel counts.
fn cut(geometry: &Geometry, row: &'static Row) -> Option<RowCut> {
    let mut params = geometry.params();
    let groups = params.c / row.vec;
    let group_bytes = row.vec * geometry.dtype.size_bytes() as i32;
    params.channel_run = channel_run(groups, group_bytes);
    let runs = div_ceil(i64::from(groups), i64::from(params.channel_run));
    let slots = i64::from(THREADS as i32 / params.channel_run);
    let ceil = |a: i64, b: i32| div_ceil(a, i64::from(b));
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
    let blocks = |items: i64| div_ceil(items, slots);
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
    // The columns between strips are loaded twice, which costs most where blocks share sectors: long strips then.
    let shared = shares_sectors(groups, params.channel_run, group_bytes);
    let time = if shared { 1.0 / f64::from(row.strip) } else { row.step_time() * cost(params.item_rows) };
    Some(RowCut { row, params, n_blocks: n_blocks as u64 * runs as u64, time })
}

/// Whether blocks meet within what the memory moves at once.
fn shares_sectors(groups: i32, run: i32, group_bytes: i32) -> bool {
    const SECTOR_BYTES: i32 = 32;
    groups > run && run * group_bytes % SECTOR_BYTES != 0
}

/// How many groups of channels, of so many bytes, a block walks: many, so that accesses are long, but few threads left
/// over, and no sector shared between two blocks.
fn channel_run(groups: i32, group_bytes: i32) -> i32 {
    /// Share of the rate that is left where sectors are moved twice.
    const SHARED_SECTORS: f64 = 0.85;
    let used = |run: i32| {
        let runs = (groups + run - 1) / run;
        let threads = THREADS as i32;
        let sectors = if shares_sectors(groups, run, group_bytes) { SHARED_SECTORS } else { 1.0 };
        sectors * f64::from(groups) / f64::from(runs * run) * f64::from(threads / run * run) / f64::from(threads)
    };
    if groups <= RUN_MAX / 2 {
        return groups;
    }
    (RUN_MAX / 2..=RUN_MAX.min(groups)).max_by(|&a, &b| used(a).total_cmp(&used(b))).unwrap_or(RUN_MAX / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_leave_few_threads_over() {
        for (groups, run) in [(1, 1), (9, 9), (16, 16), (32, 32), (36, 18), (48, 16), (72, 24), (96, 32), (100, 16)] {
            assert_eq!(channel_run(groups, 4), run, "{groups} groups");
        }
        for groups in 1..600 {
            let run = channel_run(groups, 4);
            assert!((1..=RUN_MAX).contains(&run) && run <= groups.max(1));
        }
    }
}
