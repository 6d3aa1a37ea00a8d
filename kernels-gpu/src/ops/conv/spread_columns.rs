//! Packs the filter for `spread_columns`: see [`ConvPackSpreadParams`].
//!
//! Grid: one-dimensional, one thread for an element. Block: 256.

use crate::math::index::{div_rem, for_each_index};
use cuda_std::schedule;
use kernel_abi::ops::conv::ConvPackSpreadParams;
use kernel_abi::ops::conv::index::output_position;

/// The tap that a column meets at a position of the window.
pub struct Tap {
    /// Whether there is one.
    pub inside: bool,
    /// Where it lies in w, for the first k.
    pub offset: i64,
}

impl Tap {
    /// The tap of `column` at position `window`.
    #[inline(always)]
    pub fn new(p: &ConvPackSpreadParams, column: i64, window: [i64; 2]) -> Self {
        let (rest, c) = div_rem(column, p.c);
        let (a, b) = div_rem(rest, p.block[1]);
        // Position a of a block reads dy's position first + i with tap r where a + padding - r · dilation is that many
        // strides: solved for r, it is an output position of a convolution whose stride is the dilation.
        let r = output_position(a - p.stride[0] * (p.first[0] + window[0]), 0, p.padding[0], p.dilation[0], 1);
        let s = output_position(b - p.stride[1] * (p.first[1] + window[1]), 0, p.padding[1], p.dilation[1], 1);
        Tap {
            inside: r >= 0 && r < p.filter[0] && s >= 0 && s < p.filter[1],
            offset: c * p.strides[1] + r * p.strides[2] + s * p.strides[3],
        }
    }
}

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
        let (rest, i_window) = div_rem(rest, p.window[0]);
        let (column, t) = div_rem(rest, p.depth[0]);
        let tap = Tap::new(p, column, [i_window, j]);
        let value = if tap.inside && k < p.k[0] {
            let depth = (p.depth[0] - 1 - t) * p.depth[1];
            *(p.from as *const u16).offset((tap.offset + depth + k * p.strides[0]) as isize)
        } else {
            0
        };
        *(p.to as *mut u16).offset(i as isize) = value;
    });
}
