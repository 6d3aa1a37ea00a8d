//! Neighbouring elements as words, loaded under a condition.

use crate::math::element::Element;
use crate::math::vector;
use cuda_std::{guarded, math};

/// `V` neighbours of 16 or 4 bytes, or a single one; those that `fill` stands for where `condition` is false.
///
/// # Safety
/// As [`load_words`].
#[inline(always)]
pub unsafe fn load<T: Element<Acc = f32>, const V: usize>(
    address: u64,
    offset: i64,
    condition: bool,
    fill: u32,
) -> [f32; V] {
    vector::widened::<T, V>(&load_words::<T, V>(address, offset, condition, fill))
}

/// The same as they lie in memory: what waits to be used takes fewer registers so.
///
/// # Safety
/// They exist where it is true, at a multiple of their bytes, and nobody writes them.
#[inline(always)]
pub unsafe fn load_words<T: Element, const V: usize>(
    address: u64,
    offset: i64,
    condition: bool,
    fill: u32,
) -> [u32; 4] {
    let from = address.wrapping_add((offset as u64).wrapping_mul(size_of::<T>() as u64));
    let mut words = [fill; 4];
    if V == 1 && size_of::<T>() == 2 {
        let loaded = u32::from(guarded::load_u16(from, condition as u32));
        words[0] = if condition { loaded } else { fill };
    } else if V * size_of::<T>() == 4 {
        let [loaded] = guarded::load_x1(from, condition as u32);
        words[0] = if condition { loaded } else { fill };
    } else {
        words = guarded::load_x4_or(from, condition as u32, fill);
    }
    words
}

/// Writes `alpha · results + beta · prior`.
///
/// # Safety
/// As [`load`], but that nobody else touches them.
#[inline(always)]
pub unsafe fn store<T: Element<Acc = f32>, const V: usize>(
    address: u64,
    offset: i64,
    results: [f32; V],
    alpha: f32,
    beta: f32,
) {
    let to = address.wrapping_add((offset as u64).wrapping_mul(size_of::<T>() as u64));
    let mut values = results;
    vector::for_each!(I < V, {
        *values.get_unchecked_mut(I) *= alpha;
    });
    if beta != 0.0 {
        let prior = vector::read::<T, V>(to);
        vector::for_each!(I < V, {
            *values.get_unchecked_mut(I) = math::fma_f32(beta, *prior.get_unchecked(I), *values.get_unchecked(I));
        });
    }
    vector::write_narrowed::<T, V>(to, &values);
}
