//! One pass over y, in place, with parts of channel sums on the way.
//!
//! Grid: blocks of channels along x, slices of their items along y. Block: 256 threads, `lanes` of them beside each other
//! along the channels, the others above each other along the items. Each keeps to one channel, or to the channels of 16
//! bytes, for which it holds the bias and the sums in registers. Sums go through shared memory: in a fixed order within
//! the block, then into this slice's part of the workspace, which [`add_up`] adds in the order of the slices.

use crate::math::activation::value;
use crate::math::element::{Accumulator, Element};
use crate::math::epilogue::bias;
use crate::math::index::{div_rem, for_each_index};
use crate::math::vector::{for_each, read, write};
use cuda_std::thread::{block_idx_x, block_idx_y, grid_dim_y, sync_threads, thread_idx_x};
use kernel_abi::epilogue::{EpilogueSumsParams, SeparateEpilogueParams};

/// Threads of a block, as in `entry.rs`.
pub(super) const BLOCK: usize = 256;

/// y = act(y + bias + z), `V` elements at a time: 1, or 16 bytes. Channel sums are kept in `S`. `parts` has room for two
/// numbers a thread.
///
/// # Safety
/// As the kernels.
#[inline(always)]
pub(super) unsafe fn pass<T: Element, S: Accumulator, const V: usize>(p: &SeparateEpilogueParams, parts: *mut S) {
    let lanes = p.lanes;
    let thread = thread_idx_x();
    // A power of two.
    let shift = lanes.trailing_zeros();
    let (lane, row) = (thread & (lanes - 1), thread >> shift);
    let rows = BLOCK as u32 >> shift;
    let along = p.along_channels != 0;
    let width = if along { V as i64 } else { 1 };
    let channel = (i64::from(block_idx_x()) * i64::from(lanes) + i64::from(lane)) * width;
    let there = channel < p.channels;
    let mut biases = [T::Acc::ZERO; V];
    if there {
        for_each!(I < V, {
            *biases.get_unchecked_mut(I) = bias::<T>(&p.epilogue, channel + if along { I as i64 } else { 0 });
        });
    }
    let coefficient = T::Acc::from_f64(p.epilogue.coefficient);
    let mut sums = [S::ZERO; V];
    let mut squares = [S::ZERO; V];
    let step = i64::from(grid_dim_y()) * i64::from(rows);
    let mut item = if there { i64::from(block_idx_y()) * i64::from(rows) + i64::from(row) } else { p.n_items };
    while item < p.n_items {
        let [y_at, z_at] = offsets(p, item);
        let y = p.y + ((y_at + channel * p.y_channel_stride) * size_of::<T>() as i64) as u64;
        let z = p.z + ((z_at + channel * p.z_channel_stride) * size_of::<T>() as i64) as u64;
        let values = read::<T, V>(y);
        let mut added = [T::Acc::ZERO; V];
        if p.z != 0 {
            added = read::<T, V>(z);
        }
        let mut stored = [T::narrow(T::Acc::ZERO); V];
        for_each!(I < V, {
            let sum = *values.get_unchecked(I) + *biases.get_unchecked(I) + *added.get_unchecked(I);
            *stored.get_unchecked_mut(I) = T::narrow(value(p.epilogue.mode, coefficient, sum));
        });
        if p.writes != 0 {
            write::<T, V>(y, stored);
        }
        for_each!(I < V, {
            let value = S::of(*stored.get_unchecked(I));
            *sums.get_unchecked_mut(I) = *sums.get_unchecked(I) + value;
            *squares.get_unchecked_mut(I) = value.mul_add(value, *squares.get_unchecked(I));
        });
        item += step;
    }
    if p.partials == 0 {
        return;
    }
    if V > 1 && !along {
        // All of one channel.
        for_each!(I < V, {
            if I > 0 {
                *sums.get_unchecked_mut(0) = *sums.get_unchecked(0) + *sums.get_unchecked(I);
                *squares.get_unchecked_mut(0) = *squares.get_unchecked(0) + *squares.get_unchecked(I);
            }
        });
    }
    let slice = i64::from(block_idx_y()) * 2 * p.channels;
    let to = (p.partials as *mut S).offset((slice + channel) as isize);
    for_each!(I < V, {
        if I == 0 || along {
            let (sum, square) = add_rows::<S>(parts, lanes, rows, *sums.get_unchecked(I), *squares.get_unchecked(I));
            if row == 0 && there {
                *to.add(I) = sum;
                *to.offset(p.channels as isize).add(I) = square;
            }
        }
    });
}

/// The sums over a block's rows of one number and another, for the threads of row 0.
///
/// # Safety
/// As the kernels; all threads of the block.
#[inline(always)]
unsafe fn add_rows<A: Accumulator>(parts: *mut A, lanes: u32, rows: u32, sum: A, square: A) -> (A, A) {
    let thread = thread_idx_x() as usize;
    let others = parts.add(BLOCK);
    *parts.add(thread) = sum;
    *others.add(thread) = square;
    sync_threads();
    let mut half = (rows / 2 * lanes) as usize;
    while half >= lanes as usize {
        if thread < half {
            *parts.add(thread) = *parts.add(thread) + *parts.add(thread + half);
            *others.add(thread) = *others.add(thread) + *others.add(thread + half);
        }
        sync_threads();
        half /= 2;
    }
    let result = (*parts.add(thread), *others.add(thread));
    // Nobody may begin the next sums while these are still read.
    sync_threads();
    result
}

/// Offsets of an item in y and z.
#[inline(always)]
fn offsets(p: &SeparateEpilogueParams, item: i64) -> [i64; 2] {
    let (rest, i3) = div_rem(item, p.extents[3]);
    let (mut y, mut z) = (i3 * p.y_strides[3], i3 * p.z_strides[3]);
    // The outer extents are 1 for most layouts.
    if rest > 0 {
        let (rest, i2) = div_rem(rest, p.extents[2]);
        let (i0, i1) = div_rem(rest, p.extents[1]);
        y += i2 * p.y_strides[2] + i1 * p.y_strides[1] + i0 * p.y_strides[0];
        z += i2 * p.z_strides[2] + i1 * p.z_strides[1] + i0 * p.z_strides[0];
    }
    [y, z]
}

/// Adds up the parts of all channels, slice by slice.
///
/// # Safety
/// As the kernels.
#[inline(always)]
pub(super) unsafe fn add_up<A: Accumulator>(p: &EpilogueSumsParams) {
    for_each_index(2 * p.channels, |i| {
        let mut sum = A::ZERO;
        let mut from = (p.partials as *const A).offset(i as isize);
        let mut slice = 0;
        while slice < p.n_slices {
            sum = sum + *from;
            from = from.offset(2 * p.channels as isize);
            slice += 1;
        }
        let to = if i < p.channels { p.sum } else { p.sum_squares };
        let channel = if i < p.channels { i } else { i - p.channels };
        *(to as *mut A).offset(channel as isize) = sum;
    });
}
