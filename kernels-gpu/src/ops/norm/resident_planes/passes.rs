//! What of a pass depends on where planes lie: what sums are relative to, and where results go.

use super::{Block, walk};
use crate::math::element::Element;
use crate::math::vector::widened;
use crate::ops::norm::channelwise::resident::{Pass, between};
use cuda_std::shared;
use kernel_abi::ops::norm::channelwise::tensor;

/// What is known of a channel of the team's group `k` before its sums: backward, the mean.
#[inline(always)]
pub(super) unsafe fn known_ahead<P: Pass>(b: &Block<'_>, channel: u32, k: u32) -> f32 {
    if P::BACKWARD { *(b.p.channels.mean as *const f32).add((b.channel(k) + channel) as usize) } else { 0.0 }
}

/// The number that a channel's sums are relative to, by where its elements begin here, or what is known ahead: squares of
/// large numbers would lose the digits of small ones. Of three elements it is the one between: a single one may be far from
/// all others.
#[inline(always)]
pub(super) unsafe fn origin<T: Element<Acc = f32>, P: Pass>(b: &Block<'_>, first: u32, ahead: f32) -> f32 {
    if P::BACKWARD {
        return ahead;
    }
    let last = b.p.unit_elems - 1;
    let at = #[inline(always)]
    |i: u32| {
        let at = first + (if i < last { i } else { last }) * size_of::<T>() as u32;
        let word = if size_of::<T>() == 4 { shared::load_u32(at) } else { u32::from(shared::load_u16(at)) };
        widened::<T, 1>(&[word, 0, 0, 0])[0]
    };
    between(at(0), at(1), at(2))
}

/// Writes a vector's results to where it was. `N` tensors were brought.
#[inline(always)]
pub(super) unsafe fn write<T: Element<Acc = f32>, P: Pass, const V: usize, const N: usize>(
    b: &Block<'_>,
    factors: &[[f32; V]; 4],
    words: &[[u32; 4]; N],
    at: u32,
) {
    let p = &b.p.channels;
    let z = if N > 1 { Some(words.get_unchecked(N - 1)) } else { None };
    let [out, g] = P::results::<T, V, N>(p, factors, words, z);
    walk::store::<T, V>(at, &out);
    // Without an activation it is dy.
    if P::BACKWARD && N > 2 && p.addresses[tensor::DZ] != 0 {
        walk::store::<T, V>(at + b.p.pitch, &g);
    }
}
