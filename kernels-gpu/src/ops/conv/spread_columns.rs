//! Packs the filter for `spread_columns`: see [`ConvPackSpreadParams`].
//!
//! Grid: one-dimensional, one thread for an element. Block: 256.

use crate::math::index::{div_rem, for_each_index};
use cuda_std::schedule;
use kernel_abi::ops::conv::ConvPackSpreadParams;
use kernel_abi::ops::conv::index::output_position;

/// Elements of 2 bytes.
///
/// # Safety
/// The host passes live tensors of these extents.
#[inline(always)]
pub unsafe fn pack(p: &ConvPackSpreadParams) {
    schedule::launch_dependents();
    schedule::wait_for_predecessors();
    for_each_index(p.n_elems, |i| {
        let (rest, k) = div_rem(i, p.k[1]);
        let (rest, j) = div_rem(rest, p.window[1]);
        let (column, i_window) = div_rem(rest, p.window[0]);
        let (rest, c) = div_rem(column, p.c);
        let (a, b) = div_rem(rest, p.stride[1]);
        // Position a of a step reads dy's position first + i with tap r where a + padding - r · dilation is that many
        // strides: solved for r, it is an output position of a convolution whose stride is the dilation.
        let r = output_position(a - p.stride[0] * (p.first[0] + i_window), 0, p.padding[0], p.dilation[0], 1);
        let s = output_position(b - p.stride[1] * (p.first[1] + j), 0, p.padding[1], p.dilation[1], 1);
        let inside = r >= 0 && r < p.filter[0] && s >= 0 && s < p.filter[1] && k < p.k[0];
        let value = if inside {
            let at = k * p.strides[0] + c * p.strides[1] + r * p.strides[2] + s * p.strides[3];
            *(p.from as *const u16).offset(at as isize)
        } else {
            0
        };
        *(p.to as *mut u16).offset(i as isize) = value;
    });
}
