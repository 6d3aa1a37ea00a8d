//! Packs the filter for `spread_columns`: see [`ConvPackSpreadParams`].
//!
//! Grid: one-dimensional, one thread for an element. Block: 256.

use crate::math::index::{div_rem, for_each_index};
use cuda_std::schedule;
use kernel_abi::ops::conv::ConvPackSpreadParams;

/// The tap that a column meets at a position of the window.
pub struct Tap {
    /// Whether there is one.
    pub inside: bool,
    /// Where it lies in w, for the first channel of the sum.
    pub offset: i64,
}

impl Tap {
    /// The tap of `column` at position `window`.
    #[inline(always)]
    pub fn new(p: &ConvPackSpreadParams, column: i64, window: [i64; 2]) -> Self {
        let (rest, c) = div_rem(column, p.channels);
        let (a, b) = div_rem(rest, p.block[1]);
        let (r, s) = (p.tap(0, a, window[0]), p.tap(1, b, window[1]));
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
        let (rest, k) = div_rem(i, p.sums[1]);
        let (rest, j) = div_rem(rest, p.window[1]);
        let (rest, i_window) = div_rem(rest, p.window[0]);
        let (column, t) = div_rem(rest, p.depth[0]);
        let tap = Tap::new(p, column, [i_window, j]);
        let value = if tap.inside && k < p.sums[0] {
            let depth = p.depth[1] + t * p.depth[2];
            *(p.from as *const u16).offset((tap.offset + depth + k * p.strides[0]) as isize)
        } else {
            0
        };
        *(p.to as *mut u16).offset(i as isize) = value;
    });
}
