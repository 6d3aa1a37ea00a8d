//! A short row an element a lane, `G` lanes of a warp: one load, a few shuffles, one store, wherever a row begins.
//!
//! Grid: exact, one-dimensional. Block: as many rows as fit its threads.

use super::register_rows::{Results, gradient_of};
use crate::math::rows::{Vector, reduce};
use core::mem::size_of;
use core::ptr::null_mut;
use cuda_std::{guarded, math, thread};
use kernel_abi::ops::softmax::{LANES_BLOCK, SoftmaxKind, SoftmaxLanesParams};

/// Where a thread stands.
struct Place {
    row: u32,
    lane: u32,
    /// Whether there is an element for it.
    there: bool,
}

impl Place {
    #[inline(always)]
    fn new<const G: u32>(p: &SoftmaxLanesParams) -> Self {
        let me = thread::thread_idx_x();
        let (row, lane) = (thread::block_idx_x() * (LANES_BLOCK / G) + me / G, me % G);
        Place { row, lane, there: row < p.n_rows && lane < p.row_elems }
    }

    #[inline(always)]
    fn address<T>(&self, tensor: u64, pitch: i64) -> u64 {
        tensor + (i64::from(self.row) * pitch + i64::from(self.lane)) as u64 * size_of::<T>() as u64
    }

    /// The thread's element, `fill` where there is none.
    #[inline(always)]
    unsafe fn load<T: Vector>(&self, tensor: u64, pitch: i64, fill: f32) -> f32 {
        let (at, there) = (self.address::<T>(tensor, pitch), u32::from(self.there));
        let bits =
            if size_of::<T>() == 2 { u32::from(guarded::load_u16(at, there)) } else { guarded::load_x1(at, there)[0] };
        if self.there { T::unpack([bits, 0, 0, 0])[0] } else { fill }
    }

    /// Writes `alpha · value + beta · prior`.
    #[inline(always)]
    unsafe fn store<T: Vector>(&self, p: &SoftmaxLanesParams, value: f32) {
        if self.there {
            let to = self.address::<T>(p.out, p.out_pitch) as *mut T;
            let prior = if p.beta != 0.0 { (*to).widen() } else { 0.0 };
            *to = T::narrow(math::fma_f32(p.beta, prior, p.alpha * value));
        }
    }
}

/// y = softmax(x).
#[inline(always)]
pub unsafe fn forward<T: Vector, const G: u32>(p: &SoftmaxLanesParams) {
    let place = Place::new::<G>(p);
    let x = place.load::<T>(p.input, p.in_pitch, f32::NEG_INFINITY);
    let mut max = 0.0;
    if p.kind != SoftmaxKind::Fast as u32 {
        max = reduce::<G>(x, null_mut(), math::max_nan_f32);
    }
    let sum = reduce::<G>(T::exp(x - max), null_mut(), |a, b| a + b);
    place.store::<T>(p, Results::new::<T>(p.kind, max, sum).of_one::<T>(x));
}

/// dx from y and dy.
#[inline(always)]
pub unsafe fn backward<T: Vector, const G: u32>(p: &SoftmaxLanesParams) {
    let place = Place::new::<G>(p);
    let y = place.load::<T>(p.input, p.in_pitch, 0.0);
    let dy = place.load::<T>(p.dy, p.dy_pitch, 0.0);
    let log = p.kind == SoftmaxKind::Log as u32;
    let sum = reduce::<G>(if log { dy } else { y * dy }, null_mut(), |a, b| a + b);
    place.store::<T>(p, gradient_of::<T>(y, dy, sum, log));
}
