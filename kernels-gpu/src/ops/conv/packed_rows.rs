//! Packs images of few channels, and filters, for `packed_rows_wgmma`: see [`ConvPackRowsParams`].
//!
//! Grid: one-dimensional, one thread for a run of 8 written elements. Block: 256.

use crate::math::index::{div_rem, for_each_index};
use cuda_std::schedule;
use kernel_abi::ops::conv::ConvPackRowsParams;

/// Elements of 2 bytes.
///
/// # Safety
/// The host passes live tensors of these extents.
#[inline(always)]
pub unsafe fn pack(p: &ConvPackRowsParams) {
    schedule::launch_dependents();
    schedule::wait_for_predecessors();
    for_each_index(p.n_runs, |run| {
        let (row, first) = div_rem(run, i64::from(p.packed_w * p.packed_c / 8));
        let (n, h) = div_rem(row, i64::from(p.h));
        let row = p.from as *const u16;
        let row = row.offset((n * p.strides[0] + h * p.strides[2]) as isize);
        let mut packed = [0u32; 4];
        let mut i = 0;
        while i < 4 {
            *packed.get_unchecked_mut(i) = {
                // Two neighbouring channels of one position.
                let at = first as u32 * 8 + 2 * i as u32;
                let (position, c) = (at >> p.packed_c.trailing_zeros(), at & (p.packed_c - 1));
                let w = position.wrapping_sub(p.padding);
                let element = |c: u32| {
                    if w < p.w && c < p.c {
                        u32::from(*row.offset((i64::from(w) * p.strides[3] + i64::from(c) * p.strides[1]) as isize))
                    } else {
                        0
                    }
                };
                element(c) | element(c + 1) << 16
            };
            i += 1;
        }
        cuda_std::memory::store_x4((p.to + run as u64 * 16) as *mut u32, packed);
    });
}
