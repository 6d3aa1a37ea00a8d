//! Rows and columns, 16 bytes a load and four loads under way in each thread.
//!
//! `rows`: grid `[groups of results, parts]`; some lanes of a warp, or a block, have the items of one result. `columns`:
//! grid `[blocks of columns, parts]`; a block's threads stand `lanes` beside one another along what lies contiguous, the
//! others above them along the items. `runs`: as `rows`, of items that are runs and begin alike: neighbouring lanes have the
//! pieces of one, the others those of the next. Numbers are combined in a thread, then by shuffles or through shared memory,
//! then, where the items of a result are split into parts, by `finish`: always in the same order. The operation is a constant
//! of all of it but the way out: branches on it would take longer than short rows.

mod columns;
mod first;
mod rounds;
mod rows;
mod runs;
mod state;

use crate::math::element::{Accumulator, Element};
use crate::math::index::row_offsets;
use crate::math::reduction::{self, Part};
use crate::math::typed::blend;
use crate::math::{rows::Vector, vector::put as put_element};
use cuda_std::thread::block_idx_y;
use kernel_abi::TensorParam;
use kernel_abi::ops::reduce::{ReducePartsParams, ReducePass};

/// Threads of a block, as in `entry.rs`.
pub(super) const BLOCK: usize = 256;

/// The same where a block has one long row, all of whose loads shall be under way together.
pub(super) const WIDE_BLOCK: usize = 1024;

/// Bytes of shared memory: an accumulator for each thread and element of 16 bytes.
pub(super) const SHARED: usize = BLOCK * 8 * size_of::<f32>();

/// Threads of a warp.
const WARP: u32 = 32;

/// Loads that are under way together.
const UNROLL: usize = 4;

/// Writes a body out for each operation, with its number as a constant.
macro_rules! for_op {
    ($number:expr, $op:ident, $body:expr) => {
        for_op!(@ $number, $op, $body, [Mul, Min, Max, Amax, Norm1, Norm2, MulNoZeros, SumSquare])
    };
    (@ $number:expr, $op:ident, $body:expr, [$($pass:ident),*]) => {
        match $number {
            $(number if number == ReducePass::$pass as u32 => {
                const $op: u32 = ReducePass::$pass as u32;
                $body
            })*
            // Sums, whatever becomes of them.
            _ => {
                const $op: u32 = ReducePass::Add as u32;
                $body
            }
        }
    };
}

/// What follows the last item of this block's part.
#[inline(always)]
fn part_end(p: &ReducePartsParams) -> u32 {
    let end = (block_idx_y() + 1) * p.part_items;
    // The last parts may have fewer items, or none.
    if p.items < end { p.items } else { end }
}

/// 16 bytes of one element.
#[inline(always)]
unsafe fn filled<T: Element>(value: T::Acc) -> [u32; 4] {
    let (mut words, element) = ([0; 4], T::narrow(value));
    let mut i = 0;
    while i < 16 / size_of::<T>() {
        put_element(&mut words, i, &element);
        i += 1;
    }
    words
}

/// Where a result, or what it is made of, begins in a tensor; mostly nothing is looked up for it.
#[inline(always)]
fn offset_of(p: &ReducePartsParams, tensor: &TensorParam, pitch: i64, output: i64) -> i64 {
    if p.is_pitched != 0 {
        return output * pitch;
    }
    let [offset] = row_offsets([tensor], output);
    offset
}

/// Stores a result.
#[inline(always)]
unsafe fn put<A: Accumulator>(p: &ReducePartsParams, output: i64, result: A) {
    let y = offset_of(p, &p.y, p.y_pitch, output);
    blend(p.y_dtype, p.y.address, y, result, p.alpha, p.beta);
}

/// Stores a result, or the part of it.
#[inline(always)]
unsafe fn put_part<A: Accumulator>(p: &ReducePartsParams, output: i64, part: Part<A>) {
    if p.partials != 0 {
        let slot = i64::from(block_idx_y()) * p.n_outputs + output;
        *(p.partials as *mut Part<A>).offset(slot as isize) = part;
    } else {
        put(p, output, reduction::finish(p.op, part, p.n_reduced));
    }
}

/// Items that lie one behind the other.
///
/// # Safety
/// As the kernels.
#[inline(always)]
pub(super) unsafe fn rows<T: Element, const THREADS: usize>(p: &ReducePartsParams, shared: *mut u8) {
    for_op!(p.op, OP, rows::reduce::<T, state::Folded<T::Acc, OP>, THREADS>(p, shared))
}

/// Runs that begin alike.
///
/// # Safety
/// As the kernels.
#[inline(always)]
pub(super) unsafe fn runs<T: Element>(p: &ReducePartsParams, shared: *mut u8) {
    for_op!(p.op, OP, runs::reduce::<T, state::Folded<T::Acc, OP>, BLOCK>(p, shared))
}

/// The same, for the place of the smallest or largest element.
///
/// # Safety
/// As the kernels.
#[inline(always)]
pub(super) unsafe fn first<T: Element>(p: &ReducePartsParams, shared: *mut u8) {
    macro_rules! of {
        ($pass:ident) => {
            first::reduce::<T, { ReducePass::$pass as u32 }>(p, shared)
        };
    }
    match p.op {
        op if op == ReducePass::Min as u32 => of!(Min),
        op if op == ReducePass::Max as u32 => of!(Max),
        _ => of!(Amax),
    }
}

/// The same, for the logarithm of the sum of exponentials.
///
/// # Safety
/// As the kernels.
#[inline(always)]
pub(super) unsafe fn log_sum_exp<T: Vector>(p: &ReducePartsParams, shared: *mut u8) {
    rows::reduce::<T, state::Exponentials<T>, BLOCK>(p, shared)
}

/// Items above one another.
///
/// # Safety
/// As the kernels.
#[inline(always)]
pub(super) unsafe fn columns<T: Element, const V: usize>(p: &ReducePartsParams, shared: *mut u8) {
    for_op!(p.op, OP, columns::reduce::<T, V, OP>(p, shared.cast()))
}

/// The parts of every result, in a fixed order.
///
/// # Safety
/// As the kernels.
#[inline(always)]
pub(super) unsafe fn finish<A: Accumulator>(p: &ReducePartsParams, shared: *mut u8) {
    for_op!(p.op, OP, columns::finish::<A, OP>(p, shared.cast()))
}
