//! Rows and columns, 16 bytes a load and four loads under way in each thread.
//!
//! `rows`: grid `[groups of results, parts]`; a warp or a block has the items of one result. `columns`: grid
//! `[blocks of columns, parts]`; a block's threads stand `lanes` beside one another along what lies contiguous, the others
//! above them along the items. Numbers are combined in a thread, then by shuffles or through shared memory, then, where
//! the items of a result are split into parts, by `finish`: always in the same order.

use crate::math::element::{Accumulator, Element};
use crate::math::index::offsets;
use crate::math::reduction::{self, join, start, term};
use crate::math::typed::blend;
use crate::math::vector::{for_each, read};
use cuda_std::thread::{block_idx_x, block_idx_y, sync_threads, thread_idx_x};
use kernel_abi::ops::reduce::{ReducePartsParams, ReducePass};

/// Threads of a block, as in `entry.rs`.
pub(super) const BLOCK: usize = 256;

/// Threads of a warp.
const WARP: u32 = 32;

/// Loads that are under way together.
const UNROLL: u32 = 4;

/// Offset of an item, in elements.
#[inline(always)]
fn item_offset(p: &ReducePartsParams, item: u32) -> i64 {
    let (rest, i0) = p.inner.div_rem(item);
    let (i2, i1) = p.middle.div_rem(rest);
    i64::from(i0) * p.strides[0] + i64::from(i1) * p.strides[1] + i64::from(i2) * p.strides[2]
}

/// The items from `first` on, every `step`-th, of this block's part, combined element by element.
#[inline(always)]
unsafe fn over_items<T: Element, const V: usize>(
    p: &ReducePartsParams,
    from: u64,
    first: u32,
    step: u32,
) -> [T::Acc; V] {
    macro_rules! by_pass {
        ($($pass:ident),*) => {
            match p.op {
                $(op if op == ReducePass::$pass as u32 => {
                    combine::<{ ReducePass::$pass as u32 }, T, V>(p, from, first, step)
                })*
                // Sums, whatever becomes of them.
                _ => combine::<{ ReducePass::Add as u32 }, T, V>(p, from, first, step),
            }
        };
    }
    by_pass!(Mul, Min, Max, Amax, Norm1, Norm2, MulNoZeros, SumSquare)
}

/// The same for an operation: the branch is outside of the loop.
#[inline(always)]
unsafe fn combine<const OP: u32, T: Element, const V: usize>(
    p: &ReducePartsParams,
    from: u64,
    first: u32,
    step: u32,
) -> [T::Acc; V] {
    let mut sums = [start::<T::Acc>(OP); V];
    let begin = block_idx_y() * p.part_items;
    // The last parts may have fewer items, or none.
    let end = if p.items < begin + p.part_items { p.items } else { begin + p.part_items };
    let at = |item: u32| read::<T, V>(from + (item_offset(p, item) * size_of::<T>() as i64) as u64);
    let mut add = |values: [T::Acc; V]| {
        for_each!(I < V, {
            let sum = sums.get_unchecked_mut(I);
            *sum = join(OP, *sum, term(OP, *values.get_unchecked(I)));
        });
    };
    let mut item = begin + first;
    while item + (UNROLL - 1) * step < end {
        let (a, b, c, d) = (at(item), at(item + step), at(item + 2 * step), at(item + 3 * step));
        add(a);
        add(b);
        add(c);
        add(d);
        item += UNROLL * step;
    }
    while item < end {
        add(at(item));
        item += step;
    }
    sums
}

/// Stores a result, or the part of it.
#[inline(always)]
unsafe fn put<A: Accumulator>(p: &ReducePartsParams, output: i64, whole: A) {
    if p.partials != 0 {
        let slot = i64::from(block_idx_y()) * p.n_outputs + output;
        *(p.partials as *mut A).offset(slot as isize) = whole;
    } else {
        let [y] = offsets([&p.y], output);
        blend(p.y_dtype, p.y.address, y, reduction::finish(p.op, whole, p.n_reduced), p.alpha, p.beta);
    }
}

/// Items that lie one behind the other.
///
/// # Safety
/// As the kernels.
#[inline(always)]
pub(super) unsafe fn rows<T: Element, const V: usize>(p: &ReducePartsParams, shared: *mut T::Acc) {
    let thread = thread_idx_x();
    // Both are powers of two.
    let shift = p.lanes.trailing_zeros();
    let (group, lane) = (thread >> shift, thread & (p.lanes - 1));
    let output = i64::from(block_idx_x()) * i64::from(BLOCK as u32 >> shift) + i64::from(group);
    let there = output < p.n_outputs;
    let mut sum = start::<T::Acc>(p.op);
    if there {
        let [x] = offsets([&p.kept], output);
        let from = p.x + (x * size_of::<T>() as i64) as u64;
        let sums = over_items::<T, V>(p, from, lane, p.lanes);
        for_each!(I < V, {
            sum = join(p.op, sum, *sums.get_unchecked(I));
        });
    }
    cuda_std::warp::sync_warp();
    let mut other = WARP / 2;
    while other > 0 {
        sum = join(p.op, sum, sum.shuffle_xor(other));
        other /= 2;
    }
    if p.lanes > WARP {
        // The same for all threads of the block.
        let warp = (thread / WARP) as usize;
        if thread % WARP == 0 {
            *shared.add(warp) = sum;
        }
        sync_threads();
        sum = *shared;
        let mut i = 1;
        while i < BLOCK / WARP as usize {
            sum = join(p.op, sum, *shared.add(i));
            i += 1;
        }
    }
    if there && lane == 0 {
        put(p, output, sum);
    }
}

/// Items above one another.
///
/// # Safety
/// As the kernels.
#[inline(always)]
pub(super) unsafe fn columns<T: Element, const V: usize>(p: &ReducePartsParams, shared: *mut T::Acc) {
    let thread = thread_idx_x();
    let shift = p.lanes.trailing_zeros();
    let (row, lane) = (thread >> shift, thread & (p.lanes - 1));
    let rows = BLOCK as u32 >> shift;
    // Blocks of columns of one run of outputs, then the next run: no vector reaches beyond its own.
    let vectors = p.columns / V as u32;
    let blocks = (vectors + p.lanes - 1) >> shift;
    let (run, block) = (block_idx_x() / blocks, block_idx_x() % blocks);
    let vector = (block << shift) + lane;
    let there = vector < vectors;
    let output = i64::from(run) * i64::from(p.columns) + i64::from(vector) * V as i64;
    let mut sums = [start::<T::Acc>(p.op); V];
    if there {
        let [x] = offsets([&p.kept], output);
        let from = p.x + (x * size_of::<T>() as i64) as u64;
        sums = over_items::<T, V>(p, from, row, rows);
    }
    for_each!(I < V, {
        let sum = over_rows(p, shared, rows, *sums.get_unchecked(I));
        if there && row == 0 {
            put(p, output + I as i64, sum);
        }
    });
}

/// The numbers of a block's rows combined, for the threads of row 0. All threads of the block call it.
#[inline(always)]
unsafe fn over_rows<A: Accumulator>(p: &ReducePartsParams, shared: *mut A, rows: u32, sum: A) -> A {
    if rows == 1 {
        return sum;
    }
    let thread = thread_idx_x() as usize;
    *shared.add(thread) = sum;
    sync_threads();
    let mut half = (rows / 2 * p.lanes) as usize;
    while half >= p.lanes as usize {
        if thread < half {
            *shared.add(thread) = join(p.op, *shared.add(thread), *shared.add(thread + half));
        }
        sync_threads();
        half /= 2;
    }
    let whole = *shared.add(thread);
    // Nobody may begin the next numbers while these are still read.
    sync_threads();
    whole
}

/// The parts of every result, in their order.
///
/// # Safety
/// As the kernels.
#[inline(always)]
pub(super) unsafe fn finish<A: Accumulator>(p: &ReducePartsParams) {
    crate::math::index::for_each_index(p.n_outputs, |output| {
        let mut whole = start::<A>(p.op);
        let mut from = (p.partials as *const A).offset(output as isize);
        let mut part = 0;
        while part < p.n_parts {
            whole = join(p.op, whole, *from);
            from = from.offset(p.n_outputs as isize);
            part += 1;
        }
        let [y] = offsets([&p.y], output);
        blend(p.y_dtype, p.y.address, y, reduction::finish(p.op, whole, p.n_reduced), p.alpha, p.beta);
    });
}
