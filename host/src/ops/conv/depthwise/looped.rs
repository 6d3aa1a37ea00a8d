//! How the kernels with loops over taps cut the work.

use super::geometry::Geometry;
use crate::ops::conv::ConvPass;
use kernel_abi::ops::conv::{DepthwiseParams, LOOPED_STRIP};

/// Blocks that keep a large device busy.
const ENOUGH_BLOCKS: u64 = 2048;

/// Parameters and number of blocks.
pub(super) fn cut(geometry: &Geometry) -> (DepthwiseParams, u64) {
    let mut params = geometry.params();
    let (slide, stay) = if geometry.channels_last { (1, 0) } else { (0, 1) };
    let c = params.c as u64;
    let strips = |extent: i32| (extent as u64).div_ceil(LOOPED_STRIP as u64);
    // Channels-last warps take 32 channels of a row, others 32 columns of a channel.
    let (runs, planes, columns) = if geometry.channels_last {
        (c.div_ceil(32), params.n as u64, params.target_dims[stay] as u64)
    } else {
        (1, params.n as u64 * c, (params.target_dims[stay] as u64).div_ceil(32))
    };
    if geometry.pass != ConvPass::Wgrad {
        let items = planes * columns * strips(params.target_dims[slide]);
        return (params, items.div_ceil(8) * runs);
    }
    let (runs, lines) =
        if geometry.channels_last { (runs, params.n as u64 * columns) } else { (c, params.n as u64 * columns) };
    let blocks = runs * strips(params.filter[slide]) * params.filter[stay] as u64;
    let slabs = ENOUGH_BLOCKS.div_ceil(blocks).min(lines.div_ceil(8)).max(1);
    params.n_slabs = slabs as i32;
    (params, blocks * slabs)
}
