//! Several neighbouring elements at a time: 16 bytes, 4, or one.

use super::element::{Accumulator, Element};
use core::mem::transmute_copy;
use cuda_std::memory::X4;

/// Writes a body out for every number below a constant, 16 at most: loops that the compiler does not unroll would index
/// arrays in local memory. What is not below it is left out before there are instructions: a body in another's would be
/// there 256 times, of which the optimizer finds out one by one that nobody comes there. `dynamic` is for what is a constant
/// only where it is inlined.
macro_rules! for_each {
    ($i:ident < $n:expr, $body:block) => {
        $crate::math::vector::for_each!(@ $i, $n, $body, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)
    };
    (@ $i:ident, $n:expr, $body:block, $($number:literal),*) => { $(
        // Said of what is left out.
        #[allow(unconditional_panic, arithmetic_overflow)]
        if const { $n > $number } {
            const $i: usize = $number;
            $body
        }
    )* };
    (dynamic $i:ident < $n:ident, $body:block) => {
        $crate::math::vector::for_each!(
            @dynamic $i, $n, $body, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
        )
    };
    (@dynamic $i:ident, $n:ident, $body:block, $($number:literal),*) => { $(
        if $n > $number {
            const $i: usize = $number;
            $body
        }
    )* };
}
pub(crate) use for_each;

/// `V` neighbours, of 16 or 4 bytes unless `V` is 1.
///
/// # Safety
/// They exist, at a multiple of their bytes.
#[inline(always)]
pub unsafe fn read<T: Element, const V: usize>(from: u64) -> [T::Acc; V] {
    if V == 1 {
        return [(*(from as *const T)).widen(); V];
    }
    if V * size_of::<T>() == 4 {
        return widened::<T, V>(&[*(from as *const u32), 0, 0, 0]);
    }
    let X4(words) = *(from as *const X4<u32>);
    widened::<T, V>(&words)
}

/// The elements of 16 bytes.
///
/// # Safety
/// `V` of them are no more than 16 bytes.
#[inline(always)]
pub unsafe fn widened<T: Element, const V: usize>(words: &[u32; 4]) -> [T::Acc; V] {
    let mut values = [element::<T>(words, 0).widen(); V];
    for_each!(I < V, {
        *values.get_unchecked_mut(I) = element::<T>(words, I).widen();
    });
    values
}

/// The elements of 16 bytes that belong to a run of `n`, `first` of them being the run's; `neutral` for the others.
///
/// Words that were loaded count where all of the 16 bytes lie `within` the tensor. Elsewhere elements are read one by one.
///
/// # Safety
/// `V` elements are 16 bytes, of which the run's exist, and nobody writes them.
#[inline(always)]
pub unsafe fn of_run<T: Element, const V: usize>(
    words: &[u32; 4],
    at: u64,
    first: i32,
    n: i32,
    within: bool,
    neutral: T::Acc,
) -> [T::Acc; V] {
    let mut values = widened::<T, V>(words);
    if within {
        // A choice for each takes less than a branch that some lanes of most warps go, where runs are short.
        for_each!(I < V, {
            let value = values.get_unchecked_mut(I);
            *value = if ((first + I as i32) as u32) < n as u32 { *value } else { neutral };
        });
    } else {
        for_each!(I < V, {
            let inside = ((first + I as i32) as u32) < n as u32;
            *values.get_unchecked_mut(I) = if inside { (*(at as *const T).add(I)).widen() } else { neutral };
        });
    }
    values
}

/// Element `v` of some words.
///
/// # Safety
/// It lies among them.
#[inline(always)]
pub unsafe fn element<T: Element>(words: &[u32], v: usize) -> T {
    match size_of::<T>() {
        1 => transmute_copy::<u8, T>(&((*words.get_unchecked(v / 4) >> (8 * (v % 4))) as u8)),
        2 => transmute_copy::<u16, T>(&((*words.get_unchecked(v / 2) >> (16 * (v % 2))) as u16)),
        4 => transmute_copy::<u32, T>(words.get_unchecked(v)),
        _ => {
            let (low, high) = (*words.get_unchecked(2 * v), *words.get_unchecked(2 * v + 1));
            transmute_copy::<u64, T>(&(u64::from(low) | u64::from(high) << 32))
        }
    }
}

/// Puts element `v` into words whose bits for it are 0.
///
/// # Safety
/// It lies among them.
#[inline(always)]
pub unsafe fn put<T: Element>(words: &mut [u32], v: usize, value: &T) {
    match size_of::<T>() {
        1 => *words.get_unchecked_mut(v / 4) |= u32::from(transmute_copy::<T, u8>(value)) << (8 * (v % 4)),
        2 => *words.get_unchecked_mut(v / 2) |= u32::from(transmute_copy::<T, u16>(value)) << (16 * (v % 2)),
        4 => *words.get_unchecked_mut(v) = transmute_copy::<T, u32>(value),
        _ => {
            let bits = transmute_copy::<T, u64>(value);
            *words.get_unchecked_mut(2 * v) = bits as u32;
            *words.get_unchecked_mut(2 * v + 1) = (bits >> 32) as u32;
        }
    }
}

/// The elements that store these numbers, as `V` of them lie in memory: those of 2 bytes are rounded two at a time.
#[inline(always)]
pub fn stored<T: Element, A: Accumulator, const V: usize>(values: &[A; V]) -> [u32; 4] {
    let mut words = [0u32; 4];
    for_each!(I < V, {
        // SAFETY: below V, elements of 16 bytes or one.
        unsafe {
            if size_of::<T>() != 2 || V == 1 {
                put::<T>(&mut words, I, &(*values.get_unchecked(I)).store::<T>());
            } else if I % 2 == 0 {
                let number = |i: usize| (*values.get_unchecked(i)).store::<f32>();
                *words.get_unchecked_mut(I / 2) = T::narrow_pair(number(I), number(I + 1));
            }
        }
    });
    words
}

/// [`stored`] of the numbers that elements are computed in.
#[inline(always)]
pub fn narrowed<T: Element, const V: usize>(values: &[T::Acc; V]) -> [u32; 4] {
    stored::<T, T::Acc, V>(values)
}

/// Stores the elements of these numbers.
///
/// # Safety
/// As [`write`].
#[inline(always)]
pub unsafe fn write_narrowed<T: Element, const V: usize>(to: u64, values: &[T::Acc; V]) {
    if V == 1 {
        *(to as *mut T) = T::narrow(*values.get_unchecked(0));
    } else if V * size_of::<T>() == 4 {
        *(to as *mut u32) = narrowed::<T, V>(values)[0];
    } else {
        *(to as *mut X4<u32>) = X4(narrowed::<T, V>(values));
    }
}

/// Stores what [`read`] would read.
///
/// # Safety
/// As [`read`], and no other thread touches it.
#[inline(always)]
pub unsafe fn write<T: Element, const V: usize>(to: u64, values: [T; V]) {
    if V == 1 {
        *(to as *mut T) = *values.get_unchecked(0);
        return;
    }
    let mut words = [0u32; 4];
    for_each!(I < V, {
        put::<T>(&mut words, I, values.get_unchecked(I));
    });
    *(to as *mut X4<u32>) = X4(words);
}
