//! Some bytes that are moved as they are, whatever they mean.

use super::vector;
use cuda_std::{guarded, math};

/// Words of 16 bytes.
const WORDS: usize = 4;

/// `BYTES` (1, 2, 4, 8 or 16) from an address that is a multiple of them; zeros where `condition` is false.
///
/// # Safety
/// They exist where it is true, and nobody writes them.
#[inline(always)]
pub unsafe fn load<const BYTES: usize>(from: u64, condition: bool) -> [u32; 4] {
    match BYTES {
        16 => guarded::load_x4(from, condition as u32),
        8 => {
            let [low, high] = guarded::load_x2(from, condition as u32);
            [low, high, 0, 0]
        }
        4 => {
            let [word] = guarded::load_x1(from, condition as u32);
            [word, 0, 0, 0]
        }
        2 => [u32::from(guarded::load_u16(from, condition as u32)), 0, 0, 0],
        _ => [if condition { u32::from(*(from as *const u8)) } else { 0 }, 0, 0, 0],
    }
}

/// Stores what [`load`] gave, where `condition` is true.
///
/// # Safety
/// As there, but that nobody else touches them.
#[inline(always)]
pub unsafe fn store<const BYTES: usize>(to: u64, [a, b, c, d]: [u32; 4], condition: bool) {
    match BYTES {
        16 => guarded::store_x4(to, [a, b, c, d], condition as u32),
        8 => guarded::store_x2(to, [a, b], condition as u32),
        4 => guarded::store_x1(to, [a], condition as u32),
        2 => guarded::store_u16(to, a as u16, condition as u32),
        _ => {
            if condition {
                *(to as *mut u8) = a as u8;
            }
        }
    }
}

/// 16 bytes of a tensor from an address that is a multiple of their elements' bytes; zeros where `condition` is false.
///
/// Where they do not lie at a multiple of 16, they are cut out of 24 at a multiple of 8.
///
/// # Safety
/// Where it is true, [`window_lies_in`] the tensor, and nobody writes what of it is used.
#[inline(always)]
pub unsafe fn load_window(from: u64, condition: bool) -> [u32; 4] {
    if from & 15 == 0 {
        return guarded::load_x4(from, condition as u32);
    }
    let at = from & !7;
    let [a, b] = guarded::load_x2(at, condition as u32);
    let [c, d] = guarded::load_x2(at.wrapping_add(8), condition as u32);
    let [e, f] = guarded::load_x2(at.wrapping_add(16), condition as u32);
    let [a, b, c, d, e] = if from & 4 == 0 { [a, b, c, d, e] } else { [b, c, d, e, f] };
    // The bytes of a word and of the next one, from the address's own on.
    let picked = 0x3210 + 0x1111 * (from as u32 & 3);
    let cut = |low, high| math::permute_bytes(low, high, picked);
    [cut(a, b), cut(b, c), cut(c, d), cut(d, e)]
}

/// Whether all that [`load_window`] reads lies between these addresses.
#[inline(always)]
pub fn window_lies_in(from: u64, begin: u64, end: u64) -> bool {
    let at = from & if from & 15 == 0 { !15 } else { !7 };
    at >= begin && at.wrapping_add(if from & 15 == 0 { 16 } else { 24 }) <= end
}

/// Puts an element, which [`load`] gave, into 16 bytes.
///
/// # Safety
/// It is one of theirs.
#[inline(always)]
pub unsafe fn put<const BYTES: usize>(words: &mut [u32; 4], i: usize, element: &[u32; 4]) {
    let (word, shift) = (i * BYTES / 4, 8 * (i * BYTES % 4) as u32);
    vector::for_each!(W < WORDS, {
        let to = words.get_unchecked_mut(W);
        if BYTES == 8 && W == word + 1 {
            *to = element[1];
        } else if W == word {
            let mask = if BYTES < 4 { ((1u32 << (8 * (BYTES % 4))) - 1) << shift } else { u32::MAX };
            *to = *to & !mask | element[0] << shift;
        }
    });
}

/// An element of 16 bytes, as [`load`] gives it.
///
/// # Safety
/// It is one of theirs.
#[inline(always)]
pub unsafe fn get<const BYTES: usize>(words: &[u32; 4], i: usize) -> [u32; 4] {
    if BYTES == 8 {
        [*words.get_unchecked(2 * i), *words.get_unchecked(2 * i + 1), 0, 0]
    } else {
        [*words.get_unchecked(i * BYTES / 4) >> (8 * (i * BYTES % 4)), 0, 0, 0]
    }
}

/// A bit for each number from `first` to below `end`, both 0 to 16.
#[inline(always)]
pub fn bits(first: i32, end: i32) -> u32 {
    if first < end { (1u32 << end) - (1u32 << first) } else { 0 }
}
