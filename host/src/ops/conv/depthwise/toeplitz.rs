//! How the kernels whose filter rows are Toeplitz matrices cut the work.

use super::geometry::{Action, Geometry, action};
use crate::DType;
use crate::launch::div_ceil;
use kernel_abi::ops::conv::{DepthwiseParams, TOEPLITZ_MAX_LINES, TOEPLITZ_REGION, toeplitz_pitch};

/// Blocks that a large device runs at once.
const ENOUGH_BLOCKS: i64 = 528;

/// Target rows of a product.
const TILE_ROWS: i64 = 16;

/// Target rows of a product of `wgrad`.
const WGRAD_TILE_ROWS: i64 = 8;

/// A row of the kernel list.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub(super) symbol: &'static str,
    action: Action,
    /// Whether the target too goes through shared memory.
    staged: bool,
    filter: i32,
    dtype: DType,
}

impl Row {
    /// Threads of a block.
    pub(super) fn threads(&self) -> u32 {
        if self.staged { 128 } else { 256 }
    }

    /// Warps that a large device runs at once.
    fn enough_warps(&self) -> i64 {
        ENOUGH_BLOCKS * i64::from(self.threads() / 32)
    }

    /// What images may take of a warp's region; a word of zeros lies behind them.
    fn room(&self) -> i64 {
        i64::from(if self.staged { TOEPLITZ_REGION } else { TOEPLITZ_REGION / 2 }) - 16
    }

    /// Bytes that an image takes where an item has so many target rows.
    fn image_bytes(&self, params: &DepthwiseParams, rows: i64) -> i64 {
        let [source, target] = [params.source_dims[1], params.target_dims[1]].map(i64::from);
        let staged = if self.staged { toeplitz_pitch(rows, 1, target) } else { 0 };
        toeplitz_pitch(rows, i64::from(self.filter), source) + staged
    }
}

macro_rules! rows {
    ($(($symbol:ident, $action:ident, $staged:literal, $r:literal, $dtype:ident)),* $(,)?) => {
        &[$(Row {
            symbol: stringify!($symbol),
            action: action!($action),
            staged: $staged,
            filter: $r,
            dtype: kernel_abi::dtype_of!($dtype),
        }),*]
    };
}
const KERNELS: &[Row] = kernel_abi::depthwise_toeplitz_kernels!(rows);

/// The kernel for a problem.
pub(super) fn row(geometry: &Geometry) -> Option<&'static Row> {
    let [r, s] = geometry.filter;
    let params = geometry.params();
    let pairs = [params.source_dims[1], params.target_dims[1]].iter().all(|width| width % 2 == 0);
    let plain = geometry.stride == [1; 2] && geometry.dilation == [1; 2];
    // In wgrad the target's columns are shifted as for a padding of half the filter.
    let shifts = geometry.action() != Action::Wgrad || (params.padding[1] - r / 2) % 2 == 0;
    if geometry.channels_last || r != s || !(plain && pairs && shifts) || !geometry.counts_bytes_in_32_bits() {
        return None;
    }
    let wanted = (geometry.action(), r, geometry.dtype);
    let fits = |row: &&Row| (row.action, row.filter, row.dtype) == wanted;
    // Planes that no region holds have wide rows.
    let wide = |row: &&Row| row.staged == (row.image_bytes(&params, i64::from(params.target_dims[0])) > row.room());
    KERNELS.iter().filter(fits).find(wide).or_else(|| KERNELS.iter().find(fits))
}

/// Parameters and number of blocks; None for rows wider than a warp's region, or more work than the kernel counts.
pub(super) fn cut(geometry: &Geometry, row: &Row) -> Option<(DepthwiseParams, u64)> {
    let params = match row.action {
        Action::Wgrad => cut_wgrad(geometry, row),
        _ => cut_gather(geometry, row),
    }?;
    let blocks = div_ceil(params.n_items, i64::from(row.threads() / 32));
    (params.n_items <= i64::from(i32::MAX)).then_some((params, blocks as u64))
}

fn cut_gather(geometry: &Geometry, row: &Row) -> Option<DepthwiseParams> {
    let mut params = geometry.params();
    let (n, c, height) = (params.n, i64::from(params.c), i64::from(params.target_dims[0]));
    let most_lines = i64::from(TOEPLITZ_MAX_LINES);
    // Products one below the other, and about as much for what an item begins with.
    let effort = |lines: i64| div_ceil(lines, TILE_ROWS) + 1;
    let (mut images, mut rows) = (1, height);
    if height <= most_lines && row.image_bytes(&params, height) <= row.room() {
        let most = (row.room() / row.image_bytes(&params, height)).min(most_lines / height).min(n);
        let enough = |images: &i64| *images == 1 || div_ceil(n, *images) * c >= row.enough_warps();
        images = (1..=most).filter(enough).min_by_key(|&images| div_ceil(n, images) * effort(images * height))?;
    } else {
        // Rows that two bands share are copied twice.
        let filter = i64::from(params.filter[0]);
        let effort = |rows: &i64| div_ceil(height, *rows) * (TILE_ROWS * effort(*rows) + *rows + filter);
        let fits = |rows: &i64| row.image_bytes(&params, *rows) <= row.room();
        rows = (1..=height.min(most_lines)).filter(fits).min_by_key(effort)?;
    }
    if rows > TILE_ROWS && n.checked_mul(c)? * div_ceil(height, rows) < row.enough_warps() {
        rows = TILE_ROWS;
    }
    let n_items = div_ceil(n, images).checked_mul(c)?.checked_mul(div_ceil(height, rows))?;
    (params.channel_run, params.item_rows, params.n_items) = (images as i32, rows as i32, n_items);
    Some(params)
}

fn cut_wgrad(geometry: &Geometry, row: &Row) -> Option<DepthwiseParams> {
    let mut params = geometry.params();
    let (n, c, height) = (params.n, i64::from(params.c), i64::from(params.target_dims[0]));
    let tiles = |rows: i64| div_ceil(rows, WGRAD_TILE_ROWS) * WGRAD_TILE_ROWS;
    let mut rows = tiles(height.min(row.room()));
    while rows > 0 && row.image_bytes(&params, rows) > row.room() {
        rows -= WGRAD_TILE_ROWS;
    }
    if rows == 0 {
        return None;
    }
    let bands = div_ceil(height, rows);
    rows = tiles(div_ceil(height, bands));
    let mut images = if bands == 1 { (row.room() / row.image_bytes(&params, rows)).min(n) } else { 1 };
    let parts = |images: i64| div_ceil(n, images).checked_mul(bands).filter(|&parts| parts <= i64::from(i32::MAX) / 2);
    while images > 1 && c * parts(images)? < row.enough_warps() {
        images -= 1;
    }
    let parts = parts(images)?;
    // Every slab has the same number of parts, but for the last ones.
    let slabs = div_ceil(parts, div_ceil(parts, (row.enough_warps() / c).clamp(1, parts)));
    (params.channel_run, params.item_rows, params.n_slabs) = (images as i32, rows as i32, slabs as i32);
    params.n_items = c * slabs;
    Some(params)
}
