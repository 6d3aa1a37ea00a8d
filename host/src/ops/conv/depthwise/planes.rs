//! How the kernels for packed planes and square filters of 3, 5 or 7 cut the work.

use super::geometry::{Action, Geometry, action};
use crate::DType;
use crate::launch::div_ceil;
use kernel_abi::ops::conv::{DepthwiseParams, REGION_BYTES};

/// Threads of a block.
pub(super) const THREADS: u32 = 256;

/// Planes are copied in words of so many bytes.
pub(super) const ALIGN_BYTES: u64 = 16;

/// Warps of a block.
const WARPS: i64 = THREADS as i64 / 32;

/// Warps that a large device runs at once.
const ENOUGH_WARPS: i64 = 4224;

/// What of a warp's region is left when two copies begin anywhere in a word.
const ROOM: i64 = REGION_BYTES as i64 - 4 * ALIGN_BYTES as i64;

/// A row of the kernel list.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub(super) symbol: &'static str,
    action: Action,
    filter: i32,
    stride: i32,
    /// Rows under way at once.
    ring: i32,
    dtype: DType,
}

macro_rules! rows {
    ($(($symbol:ident, $action:ident, $r:literal, $stride:literal, $ring:literal, $dtype:ident)),* $(,)?) => {
        &[$(Row {
            symbol: stringify!($symbol),
            action: action!($action),
            filter: $r,
            stride: $stride,
            ring: $ring,
            dtype: kernel_abi::dtype_of!($dtype),
        }),*]
    };
}
const KERNELS: &[Row] = kernel_abi::depthwise_planes_kernels!(rows);

/// The kernel for a problem.
pub(super) fn row(geometry: &Geometry) -> Option<&'static Row> {
    let (r, stride) = geometry.square().filter(|_| !geometry.channels_last)?;
    let wanted = (geometry.action(), r, stride, geometry.dtype);
    KERNELS.iter().find(|row| (row.action, row.filter, row.stride, row.dtype) == wanted)
}

/// Parameters and number of blocks; None for rows wider than a warp's region, or more work than the kernel counts.
pub(super) fn cut(geometry: &Geometry, row: &Row) -> Option<(DepthwiseParams, u64)> {
    let mut params = geometry.params();
    let c = i64::from(params.c);
    let size = geometry.dtype.size_bytes() as i64;
    let [source, target] = [params.source_dims, params.target_dims].map(|dims| dims.map(i64::from));
    let [filter, stride, ring] = [row.filter, row.stride, row.ring].map(i64::from);
    // What a warp steps over, the lanes that a row of a plane takes, and the bytes that steps and planes take.
    let padding: [i64; 2] = std::array::from_fn(|i| filter - 1 - i64::from(params.padding[i]));
    let (steps, lanes, plane_bytes) = match row.action {
        Action::Gather => (target[0], target[1], source[0] * source[1] * size),
        Action::Spread => {
            ((target[0] + padding[0] + 1) / 2, (target[1] + padding[1] + 1) / 2, source[0] * source[1] * size)
        }
        Action::Wgrad => (target[0], target[1], (source[0] * source[1] + target[0] * target[1]) * size),
    };
    let band_bytes = |rows: i64| match row.action {
        Action::Gather => ((rows - 1) * stride + filter) * source[1] * size,
        Action::Spread => (rows + ring - 1) * source[1] * size,
        Action::Wgrad => (((rows - 1) * stride + filter) * source[1] + rows * target[1]) * size,
    };
    let planes = params.n.checked_mul(c).filter(|&planes| planes <= i64::from(i32::MAX))?;
    let (mut run, mut rows) = (1, steps);
    if plane_bytes <= ROOM {
        run = (32 / lanes).min(ROOM / plane_bytes).clamp(1, c);
    } else {
        let most = (1..=steps.min(256)).rev().find(|&rows| band_bytes(rows) <= ROOM)?;
        let bands = div_ceil(steps, most);
        rows = div_ceil(steps, bands);
    }
    let n_items = if row.action == Action::Wgrad {
        let (groups, bands) = (div_ceil(c, run), params.n.checked_mul(div_ceil(steps, rows))?);
        // Every slab has the same number of bands, but for the last ones.
        let rounds = div_ceil(bands, (ENOUGH_WARPS / groups).clamp(1, bands));
        let slabs = div_ceil(bands, rounds);
        if bands > i64::from(i32::MAX) / 2 {
            return None;
        }
        params.n_slabs = slabs as i32;
        groups * slabs
    } else {
        // Small problems are cut finer.
        while run > 1 && div_ceil(planes, run) < ENOUGH_WARPS {
            run -= 1;
        }
        while run == 1 && rows > 4 && planes * div_ceil(steps, rows) < ENOUGH_WARPS / 2 {
            rows = div_ceil(rows, 2);
        }
        div_ceil(planes, run).checked_mul(div_ceil(steps, rows))?
    };
    (params.channel_run, params.item_rows) = (run as i32, i32::try_from(rows).ok()?);
    params.n_items = n_items;
    (n_items <= i64::from(i32::MAX)).then(|| (params, div_ceil(n_items, WARPS) as u64))
}
