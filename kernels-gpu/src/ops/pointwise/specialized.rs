//! One operation that the compiler knows, on tensors without gaps that are alike in memory: an access of 16 bytes of the
//! widest operand a thread, or two, under way before it computes. What is left behind the last access goes an element a
//! thread, by the last blocks.
//!
//! Grid: exact, for the block size and items of a block that the host chooses. No shared memory. Blocks of one access
//! a thread leave the memory no pause at the end: as soon as one is done, the next one loads.

use crate::math::element::{Accumulator, Element};
use crate::math::pointwise::one;
use crate::math::vector::{element, for_each, stored};
use cuda_std::tma::policy_of;
use cuda_std::{memory, schedule, thread};
use kernel_abi::ops::activation::ActivationMode;
use kernel_abi::ops::pointwise::PointwiseSpecializedParams as Params;

/// Words of an access.
const WORDS: usize = 4;

/// f(a').
pub const UNARY: u32 = 0;
/// f(a', b').
pub const BINARY: u32 = 1;
/// f(a' + b') + t, b repeated or not, t there or not.
pub const BIASED: u32 = 2;

/// c of what is this thread's. `T` is the inputs' type, `C` the output's, `A` what is computed with; `OP` and `MODE` are
/// those of [`one`]; `HOPPER` where a kernel may begin while the one
/// before it ends, and has cache policies.
#[inline(always)]
pub unsafe fn specialized<
    T,
    C,
    A,
    const V: usize,
    const FORM: u32,
    const OP: u32,
    const MODE: u32,
    const HOPPER: bool,
>(
    p: &Params,
) where
    T: Element,
    C: Element,
    A: Accumulator,
{
    if HOPPER {
        schedule::launch_dependents();
        schedule::wait_for_predecessors();
    }
    // Products with numbers that are 1 would be half of a simple operation's instructions.
    if p.plain != 0 {
        of_block::<T, C, A, V, FORM, OP, MODE, true, HOPPER>(p)
    } else {
        of_block::<T, C, A, V, FORM, OP, MODE, false, HOPPER>(p)
    }
}

/// The items of a block. `PLAIN` where every factor is 1, beta is 0, and relu the usual one.
#[inline(always)]
unsafe fn of_block<
    T,
    C,
    A,
    const V: usize,
    const FORM: u32,
    const OP: u32,
    const MODE: u32,
    const PLAIN: bool,
    const HOPPER: bool,
>(
    p: &Params,
) where
    T: Element,
    C: Element,
    A: Accumulator,
{
    let threads = thread::block_dim_x();
    let begin = thread::block_idx_x() * p.block_items;
    let end = begin + p.block_items;
    let first = begin + thread::thread_idx_x();
    if p.block_items > threads && end <= p.pieces {
        return compute::<T, C, A, V, V, 2, FORM, OP, MODE, PLAIN, HOPPER>(p, [first, first + threads], 0);
    }
    let mut item = first;
    while item < end {
        if item < p.pieces {
            compute::<T, C, A, V, V, 1, FORM, OP, MODE, PLAIN, HOPPER>(p, [item], 0);
        } else if item - p.pieces < p.singles {
            compute::<T, C, A, V, 1, 1, FORM, OP, MODE, PLAIN, HOPPER>(p, [item - p.pieces], p.pieces);
        }
        item += threads;
    }
}

/// `N` items of `V` elements each, behind pieces of `W` elements.
#[inline(always)]
unsafe fn compute<
    T,
    C,
    A,
    const W: usize,
    const V: usize,
    const N: usize,
    const FORM: u32,
    const OP: u32,
    const MODE: u32,
    const PLAIN: bool,
    const HOPPER: bool,
>(
    p: &Params,
    items: [u32; N],
    behind: u32,
) where
    T: Element,
    C: Element,
    A: Accumulator,
{
    let first = |item: u32| u64::from(item) * V as u64 + u64::from(behind) * W as u64;
    let mut a = [[0u32; WORDS]; N];
    let mut b = [[0u32; WORDS]; N];
    // Where there is no t, the zero that changes no sign: an addition is less than a branch for each element.
    let mut t = [[minus_zeros::<T>(); WORDS]; N];
    for_each!(I < N, {
        let item = *items.get_unchecked(I);
        let at = first(item) * size_of::<T>() as u64;
        *a.get_unchecked_mut(I) = read_input::<T, V, HOPPER>(p, p.a + at);
        if FORM == BINARY {
            *b.get_unchecked_mut(I) = read_input::<T, V, HOPPER>(p, p.b + at);
        }
        if FORM == BIASED {
            let (place, _) = p.period.div_rem(item);
            let (_, place) = p.places.div_rem(place);
            *b.get_unchecked_mut(I) = if V > 1 && p.place_runs == 0 {
                repeated::<T>(p.b + u64::from(place) * size_of::<T>() as u64)
            } else {
                read::<T, V>(p.b + u64::from(place) * (V * size_of::<T>()) as u64)
            };
            if p.t != 0 {
                *t.get_unchecked_mut(I) = read_input::<T, V, HOPPER>(p, p.t + at);
            }
        }
    });
    let number = #[inline(always)]
    |value: f32| A::of::<f32>(value);
    let given = [p.factor_a, p.factor_b, p.alpha, p.beta];
    let [factor_a, factor_b, alpha, beta] = if PLAIN { [1.0, 1.0, 1.0, 0.0] } else { given };
    let usual = PLAIN && MODE == ActivationMode::Relu as u32;
    let [l, m, n] = if usual { [0.0, f32::INFINITY, 0.0] } else { p.parameters };
    let parameters = [number(l), number(m), number(n)];
    for_each!(I < N, {
        let (a, b, t) = (a.get_unchecked(I), b.get_unchecked(I), t.get_unchecked(I));
        let to = p.c + first(*items.get_unchecked(I)) * size_of::<C>() as u64;
        let mut values = [A::ZERO; V];
        for_each!(E < V, {
            let mut x = number(factor_a) * A::of(element::<T>(a, E));
            let mut y = x;
            if FORM != UNARY {
                y = number(factor_b) * A::of(element::<T>(b, E));
            }
            if FORM == BIASED {
                x = x + y;
            }
            let mut value = one::<A, OP, MODE>(parameters, x, y);
            if FORM == BIASED {
                value = value + A::of(element::<T>(t, E));
            }
            *values.get_unchecked_mut(E) = number(alpha) * value;
        });
        if beta != 0.0 {
            let before = read::<C, V>(to);
            for_each!(E < V, {
                let before = A::of(element::<C>(&before, E));
                *values.get_unchecked_mut(E) = number(beta).mul_add(before, *values.get_unchecked(E));
            });
        }
        write::<C, V>(to, stored::<C, A, V>(&values));
    });
}

/// A word of elements that are -0.
const fn minus_zeros<T: Element>() -> u32 {
    if size_of::<T>() == 2 { 0x8000_8000 } else { 0x8000_0000 }
}

/// The bytes of `V` elements of an input that has as many as the output.
#[inline(always)]
unsafe fn read_input<T: Element, const V: usize, const HOPPER: bool>(p: &Params, at: u64) -> [u32; WORDS] {
    if HOPPER && V * size_of::<T>() == 16 {
        memory::load_x4_cached(at as *const u32, policy_of(p.keep != 0))
    } else {
        read::<T, V>(at)
    }
}

/// The bytes of `V` elements.
#[inline(always)]
unsafe fn read<T: Element, const V: usize>(at: u64) -> [u32; WORDS] {
    let from = at as *const u32;
    match V * size_of::<T>() {
        16 => memory::load_x4(from),
        8 => {
            let [x, y] = memory::load_x2(from);
            [x, y, 0, 0]
        }
        4 => [memory::load_x1(from), 0, 0, 0],
        _ => [u32::from(*(at as *const u16)), 0, 0, 0],
    }
}

/// One element in all places.
#[inline(always)]
unsafe fn repeated<T: Element>(at: u64) -> [u32; WORDS] {
    let [word, ..] = read::<T, 1>(at);
    [if size_of::<T>() == 2 { word * 0x0001_0001 } else { word }; WORDS]
}

/// Stores the bytes of `V` elements.
#[inline(always)]
unsafe fn write<C: Element, const V: usize>(at: u64, words: [u32; WORDS]) {
    let (to, [x, y, ..]) = (at as *mut u32, words);
    match V * size_of::<C>() {
        16 => memory::store_x4(to, words),
        8 => memory::store_x2(to, [x, y]),
        4 => memory::store_x1(to, x),
        _ => *(at as *mut u16) = x as u16,
    }
}
