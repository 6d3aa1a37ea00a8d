//! The taps of a slice, from memory through shared memory to registers: neighbours in memory are taps of a channel, and
//! those of neighbouring threads are not.

use crate::math::tensor_core::TensorCore;
use cuda_std::thread::{block_dim_x, thread_idx_x};
use cuda_std::{guarded, shared};
use kernel_abi::ops::conv::depthwise_tma::ConvDepthwiseTmaParams;
use kernel_abi::ops::conv::index;

/// Loads of taps that a thread has under way at once.
const AT_ONCE: usize = 4;
/// Bytes of a tap in shared memory.
const TAP_BYTES: u32 = 4;

/// Brings the taps of the channels from `channel` on, times alpha, to shared memory, `[channel][tap]`; zeros where there
/// are no such channels.
///
/// # Safety
/// As [`run`](super::run).
#[inline(always)]
pub(super) unsafe fn stage<T: TensorCore, const R: usize>(p: &ConvDepthwiseTmaParams, channel: i32, to: u32) {
    let taps = (R * R) as u32;
    let n_taps = p.tile.channels * taps;
    let flip = p.flip != 0;
    let mut first = thread_idx_x();
    while first < n_taps {
        let mut bits = [0; AT_ONCE];
        let mut i = 0;
        while i < AT_ONCE {
            let at = first + i as u32 * block_dim_x();
            let (c, tap) = (channel + (at / taps) as i32, at % taps);
            let (r, s) = (tap / R as u32, tap % R as u32);
            let offset = i64::from(c) * p.w_strides[0]
                + index::filter_index(i64::from(r), R as i64, flip) * p.w_strides[1]
                + index::filter_index(i64::from(s), R as i64, flip) * p.w_strides[2];
            let inside = u32::from(at < n_taps && c < p.c);
            *bits.get_unchecked_mut(i) = guarded::load_u16(p.w.wrapping_add(2 * offset as u64), inside);
            i += 1;
        }
        let mut i = 0;
        while i < AT_ONCE {
            let at = first + i as u32 * block_dim_x();
            if at < n_taps {
                let [value, _] = T::unpack(u32::from(*bits.get_unchecked(i)));
                shared::store_f32(to + TAP_BYTES * at, p.alpha * value);
            }
            i += 1;
        }
        first += AT_ONCE as u32 * block_dim_x();
    }
}

/// The taps of a pair of channels.
///
/// # Safety
/// As [`run`](super::run); [`stage`] is done.
#[inline(always)]
pub(super) unsafe fn read<const R: usize>(from: u32, pair: u32) -> [[[f32; 2]; R]; R] {
    let of_channel = TAP_BYTES * (R * R) as u32;
    let first = from + 2 * pair * of_channel;
    let mut values = [[[0.0; 2]; R]; R];
    let mut r = 0;
    while r < R {
        let mut s = 0;
        while s < R {
            let at = first + TAP_BYTES * (r * R + s) as u32;
            let both = [shared::load_f32(at), shared::load_f32(at + of_channel)];
            *values.get_unchecked_mut(r).get_unchecked_mut(s) = both;
            s += 1;
        }
        r += 1;
    }
    values
}
