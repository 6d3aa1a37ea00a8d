//! Which problems the kernels that gather with `cp.async` take, and how they are cut into tiles.

use kernel_abi::ops::conv::cp_async_mma::{CP_ASYNC_K, CpAsyncMmaParams, CpAsyncTile};
use kernel_abi::ops::conv::{ConvMode, ConvPass, ConvProblem, ConvShape};

/// Indices of pixels, positions with their padding and numbers of blocks stay below this.
const LIMIT: i64 = 1 << 30;
/// Taps of a filter: their table has 20 bytes for each, of some 100 KB.
pub(in crate::ops::conv) const MAX_TAPS: i64 = 800;
/// Blocks of `wgrad` to aim at, on however large a device, since a workspace's size may not depend on that: as many
/// small tiles as 132 multiprocessors hold, or half as many large ones.
const WGRAD_BLOCKS: u64 = 528;
/// The most partial sums of `wgrad`, in bytes, beyond those of one slab.
const MAX_PARTIALS_BYTES: u64 = 256 << 20;

/// Refuses tensors whose channels do not lie together, or that have gaps.
pub(in crate::ops::conv) fn check_channels_last(problem: &ConvProblem) -> Result<(), String> {
    let tensors = [("x", problem.x()), ("w", problem.w()), ("y", problem.y())];
    if let Some((name, desc)) = tensors.iter().find(|(_, desc)| !desc.is_channels_last()) {
        return Err(format!("needs {name} densely channels-last, its strides are {:?}", desc.strides()));
    }
    Ok(())
}

/// Judges layouts and sizes: why the kernels do not take a problem.
pub(in crate::ops::conv) fn judge(problem: &ConvProblem) -> Result<(), String> {
    check_channels_last(problem)?;
    let shape = problem.shape();
    let product = |values: &[i64]| values.iter().fold(1i64, |product, &value| product.saturating_mul(value));
    let taps = product(&shape.filter);
    if taps > MAX_TAPS {
        return Err(format!("has room for the table of {MAX_TAPS} taps, the filter has {taps}"));
    }
    let padded = |i: usize| {
        let axis = shape.axes[i];
        axis.padding.saturating_add(axis.padding_end).saturating_add(shape.image[i])
    };
    for (name, value) in [
        ("pixels of x", product(&[shape.n, product(&shape.image)])),
        ("pixels of y", product(&[shape.n, product(&shape.output)])),
        ("channels of x", shape.c),
        ("channels of y", shape.k),
        ("filter elements of a channel", product(&[taps, shape.group_c().max(shape.group_k())])),
        ("a padded depth", padded(0)),
        ("a padded height", padded(1)),
        ("a padded width", padded(2)),
    ] {
        if value >= LIMIT {
            return Err(format!("needs {name} below {LIMIT}, given {value}"));
        }
    }
    let blocks = blocks(&params(problem, CpAsyncTile::new(64, 2)));
    if blocks >= LIMIT as u64 {
        return Err(format!("needs fewer than {LIMIT} blocks, here they are {blocks}"));
    }
    Ok(())
}

/// The most elements of a copy: what divides the channels that a thread's copies run along.
pub(in crate::ops::conv) fn copy_elems(problem: &ConvProblem) -> u32 {
    let shape = problem.shape();
    let divides = |v: &i64| match problem.conv_pass() {
        ConvPass::Fprop => shape.group_c() % v == 0,
        _ => shape.group_c() % v == 0 && shape.group_k() % v == 0,
    };
    [8, 4, 2].into_iter().find(divides).unwrap_or(1) as u32
}

/// All parameters but addresses and scalars, of a problem that [`judge`] lets pass.
pub(in crate::ops::conv) fn params(problem: &ConvProblem, tile: CpAsyncTile) -> CpAsyncMmaParams {
    let (pass, shape) = (problem.conv_pass(), problem.shape());
    let numbers = |values: [i64; 3]| values.map(|value| value as u32);
    let axis = |i: usize| {
        let axis = shape.axes[i];
        // Where there is one position or one tap, its distance to the next has no meaning, and may be any number.
        let stride = if shape.output[i] == 1 { 1 } else { axis.stride };
        let dilation = if shape.filter[i] == 1 { 1 } else { axis.dilation };
        [axis.padding, stride, dilation]
    };
    let axes = [axis(0), axis(1), axis(2)];
    let column = |i: usize| [axes[0][i] as u32, axes[1][i] as u32, axes[2][i] as u32];
    let (image, output) = (numbers(shape.image), numbers(shape.output));
    let (group_c, group_k) = (shape.group_c() as u32, shape.group_k() as u32);
    let (stride, taps) = (column(1), shape.filter.iter().product::<i64>() as u64);
    let (mut source, mut target) = ((image, group_c), (output, group_k));
    let mut classes = [1; 3];
    let size = u64::from(tile.size);
    let (mut m_tiles, mut n_tiles) = (pixels(shape.n, output).div_ceil(size), u64::from(group_k).div_ceil(size));
    match pass {
        ConvPass::Fprop => {}
        ConvPass::Dgrad => {
            (source, target) = (target, source);
            classes = [0, 1, 2].map(|i| stride[i].min(image[i]));
            // The first class has most positions.
            let extents = [0, 1, 2].map(|i| image[i].div_ceil(stride[i]));
            (m_tiles, n_tiles) = (pixels(shape.n, extents).div_ceil(size), u64::from(group_c).div_ceil(size));
        }
        ConvPass::Wgrad => {
            (m_tiles, n_tiles) = (u64::from(group_k).div_ceil(size), (taps * u64::from(group_c)).div_ceil(size));
        }
    }
    let (slabs, slab_pixels) = match pass {
        ConvPass::Wgrad => slabs(problem, &shape, tile, m_tiles * n_tiles * shape.groups as u64),
        _ => (1, 0),
    };
    CpAsyncMmaParams {
        source: 0,
        filter: 0,
        target: 0,
        partials: 0,
        n: shape.n as u32,
        groups: shape.groups as u32,
        source_group: source.1,
        target_group: target.1,
        source_extents: source.0,
        target_extents: target.0,
        filter_extents: numbers(shape.filter),
        padding: column(0).map(|padding| padding as i32),
        stride,
        dilation: column(2),
        classes,
        spread_classes: 0,
        flip: u32::from(problem.mode() == ConvMode::Convolution),
        m_tiles: m_tiles.min(u64::from(u32::MAX)) as u32,
        n_tiles: n_tiles.min(u64::from(u32::MAX)) as u32,
        slab_pixels,
        slabs,
        // A group's channels begin at an even one where their number is even.
        wide_stores: u32::from(target.1 % 2 == 0),
        source_elems: 0,
        other_elems: 0,
        alpha: 1.0,
        beta: 0.0,
    }
}

fn pixels(n: i64, extents: [u32; 3]) -> u64 {
    n as u64 * extents.into_iter().map(u64::from).product::<u64>()
}

/// The parameters of a strided `dgrad` with the classes as columns beside each other, where few channels fill a tile's
/// columns so sparsely that it takes less time.
pub(in crate::ops::conv) fn with_spread_classes(params: CpAsyncMmaParams, tile: CpAsyncTile) -> CpAsyncMmaParams {
    /// What a step takes longer, since elements of the filter come one by one.
    const LONGER: f64 = 1.5;
    /// Classes that are looked at: more do not fit few tiles, and their distances might not be counted.
    const MOST_CLASSES: u64 = 1 << 10;
    let classes = params.stride.into_iter().fold(1u64, |product, n| product.saturating_mul(n.into()));
    if params.dilation != [1; 3] || classes == 1 || classes > MOST_CLASSES {
        return params;
    }
    let distances: u64 = (0..3).map(|axis| u64::from(params.spread(axis).1)).product();
    let tiles = |columns: u64| columns.div_ceil(tile.size.into());
    let (group, taps) = (u64::from(params.target_group), u64::from(params.taps()));
    // Each tap belongs to one class.
    let (apart, beside) = (tiles(group) * taps, tiles(classes.saturating_mul(group)).saturating_mul(distances));
    if distances > taps || beside as f64 * LONGER >= apart as f64 {
        return params;
    }
    let n_tiles = tiles(classes * group) as u32;
    CpAsyncMmaParams { classes: [1; 3], spread_classes: classes as u32, n_tiles, ..params }
}

/// How many slabs the pixels of `wgrad` are cut into, and how many pixels each has.
fn slabs(problem: &ConvProblem, shape: &ConvShape, tile: CpAsyncTile, tiles: u64) -> (u32, u32) {
    /// Fewer steps than this would not fill the pipeline.
    const LEAST_STEPS: u64 = 8;
    let step = u64::from(CP_ASYNC_K);
    let pixels = pixels(shape.n, shape.output.map(|extent| extent as u32));
    let by_blocks = WGRAD_BLOCKS * 64 / u64::from(tile.size) / tiles;
    let by_bytes = MAX_PARTIALS_BYTES / (4 * problem.w().n_elems() as u64);
    let by_steps = pixels / (LEAST_STEPS * step);
    cut(pixels, by_blocks.min(by_bytes).min(by_steps).max(1))
}

/// So many slabs, or fewer, of as many pixels each.
fn cut(pixels: u64, slabs: u64) -> (u32, u32) {
    let slab_pixels = pixels.div_ceil(slabs).next_multiple_of(u64::from(CP_ASYNC_K));
    (pixels.div_ceil(slab_pixels) as u32, slab_pixels as u32)
}

/// The parameters of a `wgrad` with so many slabs, of which the last may be empty.
pub(in crate::ops::conv) fn with_slabs(params: CpAsyncMmaParams, slabs: u32) -> CpAsyncMmaParams {
    let (_, slab_pixels) = cut(pixels(params.n.into(), params.target_extents), slabs.into());
    CpAsyncMmaParams { slabs, slab_pixels, ..params }
}

/// Blocks of a launch.
pub(in crate::ops::conv) fn blocks(params: &CpAsyncMmaParams) -> u64 {
    let classes = params.classes.into_iter().fold(1u64, |product, n| product.saturating_mul(n.into()));
    [params.m_tiles, params.n_tiles, params.groups, params.slabs]
        .into_iter()
        .fold(classes, |product, n| product.saturating_mul(n.into()))
}
