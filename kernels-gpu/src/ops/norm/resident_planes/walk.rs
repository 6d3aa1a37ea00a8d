//! The vectors of a stage that are a thread's.

use super::Block;
use crate::math::element::Element;
use crate::math::vector::{for_each, narrowed};
use core::intrinsics::{unchecked_div, unchecked_rem};
use cuda_std::shared;
use kernel_abi::ops::norm::resident_planes::ROLE;

/// Of the threads of a role, as many neighbours as there are channels of a group's share of them have the vectors of one
/// channel, in turn.
pub(super) struct Walk {
    /// The channel of the group, and where its first unit begins in a stage.
    pub(super) channel: u32,
    pub(super) begin: u32,
    /// Where the thread's first vector lies, which of its run it is, and how many there are.
    first: u32,
    place: u32,
    count: u32,
    /// Vectors of a run: those of a unit, or of the whole stage where there is one channel.
    run: u32,
    /// To the next vector: bytes, and places in the run; bytes more behind the end of a run.
    step: u32,
    places: u32,
    gap: u32,
}

impl Walk {
    /// That of a thread, counted within its role.
    #[inline(always)]
    pub(super) unsafe fn new<T, const V: usize>(b: &Block<'_>, thread: u32) -> Self {
        let (p, bytes) = (b.p, (V * size_of::<T>()) as u32);
        let threads = ROLE >> p.group.trailing_zeros();
        let (channel, thread) = (thread / threads, thread % threads);
        let all = b.n_units * p.unit_vectors;
        // Neighbouring units lie side by side.
        let run = if p.group == 1 { all } else { p.unit_vectors };
        // SAFETY: every block has a unit, and every unit vectors.
        let (units, place) = (unchecked_div(thread, run), unchecked_rem(thread, run));
        let (step_units, places) = (unchecked_div(threads, run), unchecked_rem(threads, run));
        let channel_bytes = p.unit_vectors * bytes;
        let begin = channel * channel_bytes;
        Walk {
            channel,
            begin,
            first: begin + units * p.unit_bytes + place * bytes,
            place,
            count: if thread < all { unchecked_div(all - thread + threads - 1, threads) } else { 0 },
            run,
            step: step_units * p.unit_bytes + places * bytes,
            places,
            gap: if p.group == 1 { 0 } else { p.unit_bytes - channel_bytes },
        }
    }

    /// Calls `visit` with the places in a stage of up to `K` vectors at a time, and how many are left.
    #[inline(always)]
    pub(super) unsafe fn visit<const K: usize>(&self, mut visit: impl FnMut(&[u32; K], u32)) {
        let (mut at, mut place, mut left) = (self.first, self.place, self.count);
        while left > 0 {
            let mut offsets = [0; K];
            for_each!(J < K, {
                *offsets.get_unchecked_mut(J) = at;
                (at, place) = (at + self.step, place + self.places);
                if place >= self.run {
                    (at, place) = (at + self.gap, place - self.run);
                }
            });
            visit(&offsets, left);
            left = left.saturating_sub(K as u32);
        }
    }
}

/// The vectors of `N` tensors at up to `K` places of a stage; zeros beyond those that are left.
#[inline(always)]
pub(super) unsafe fn load<T, const V: usize, const N: usize, const K: usize>(
    stage: u32,
    pitch: u32,
    offsets: &[u32; K],
    left: u32,
) -> [[[u32; 4]; N]; K] {
    let mut words = [[[0u32; 4]; N]; K];
    for_each!(J < K, {
        if (J as u32) < left {
            for_each!(M < N, {
                let at = stage + M as u32 * pitch + *offsets.get_unchecked(J);
                *words.get_unchecked_mut(J).get_unchecked_mut(M) = match V * size_of::<T>() {
                    16 => shared::load_x4(at),
                    8 => {
                        let [a, b] = shared::load_x2(at);
                        [a, b, 0, 0]
                    }
                    4 => [shared::load_u32(at), 0, 0, 0],
                    _ => [u32::from(shared::load_u16(at)), 0, 0, 0],
                };
            });
        }
    });
    words
}

/// Writes a vector.
#[inline(always)]
pub(super) unsafe fn store<T: Element<Acc = f32>, const V: usize>(at: u32, values: &[f32; V]) {
    let words = narrowed::<T, V>(values);
    match V * size_of::<T>() {
        16 => shared::store_x4(at, words),
        8 => shared::store_x2(at, [words[0], words[1]]),
        4 => shared::store_u32(at, words[0]),
        _ => shared::store_u16(at, words[0] as u16),
    }
}
