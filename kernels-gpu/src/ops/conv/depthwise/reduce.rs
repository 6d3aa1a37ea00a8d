//! Adds up the slabs of `wgrad`, in an order that does not depend on the device.
//!
//! Grid: 32 elements of dw a block. Block: 32 × 32 threads, lanes on neighbouring elements, a warp on every 32nd slab.

use crate::math::element::{Element, blend};
use crate::math::index::div_rem;
use cuda_std::{barrier, thread};
use kernel_abi::ops::conv::{DepthwiseParams, index};

/// Elements of shared memory.
pub const SUMS: usize = 32 * 32;

/// dw = alpha · Σ slabs + beta · dw.
pub unsafe fn run<T: Element<Acc = f32>>(p: &DepthwiseParams, sums: *mut f32) {
    let (lane, row) = (thread::lane_id() as usize, thread::warp_idx() as usize);
    let n_elems = p.filter[0] as i64 * p.filter[1] as i64 * p.c as i64;
    let element = thread::block_idx_x() as i64 * 32 + lane as i64;
    let mut total = 0.0;
    if element < n_elems {
        let partials = p.partials as *const f32;
        let mut slab = row as i64;
        while slab < p.n_slabs as i64 {
            total += *partials.offset((slab * n_elems + element) as isize);
            slab += 32;
        }
    }
    *sums.add(row * 32 + lane) = total;
    barrier::sync_threads();
    if row == 0 && element < n_elems {
        let mut total = 0.0;
        let mut row = 0;
        while row < 32 {
            total += *sums.add(row * 32 + lane);
            row += 1;
        }
        let (tap, c) = div_rem(element, p.c as i64);
        write::<T>(p, tap, c, total);
    }
}

/// A slab's sum of a tap: an element of dw where the slab is the only one, else a part of it in the workspace.
#[inline(always)]
pub unsafe fn write_or_leave<T: Element<Acc = f32>>(p: &DepthwiseParams, slab: i64, tap: i64, c: i64, sum: f32) {
    if p.n_slabs == 1 {
        write::<T>(p, tap, c, sum);
    } else {
        let taps = p.filter[0] as i64 * p.filter[1] as i64;
        *(p.partials as *mut f32).offset(((slab * taps + tap) * p.c as i64 + c) as isize) = sum;
    }
}

/// Writes an element of dw.
#[inline(always)]
pub unsafe fn write<T: Element<Acc = f32>>(p: &DepthwiseParams, tap: i64, c: i64, total: f32) {
    let (r, s) = div_rem(tap, p.filter[1] as i64);
    let flip = p.flip != 0;
    let at = c * p.w_strides[0]
        + index::filter_index(r, p.filter[0] as i64, flip) * p.w_strides[1]
        + index::filter_index(s, p.filter[1] as i64, flip) * p.w_strides[2];
    blend::<T>(p.w, at, total, p.alpha as f64, p.beta as f64);
}
