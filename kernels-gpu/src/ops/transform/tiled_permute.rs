//! Any permutation: tiles of 32 × 32 elements through shared memory, between the dimension that is contiguous in what is
//! read and the one that is in what is written.
//!
//! Grid: a block for a tile. Block: 256 threads, 32 beside and 8 above one another; each has four elements under way.
//! Rows of shared memory are one element longer than a tile's, so that its columns lie in different banks.

use cuda_std::thread::{block_idx_x, sync_threads, thread_idx_x};
use kernel_abi::ops::transform::{PERMUTE_LEVELS, PERMUTE_TILE, PermuteParams};

/// Elements of a thread.
const STEPS: u32 = 4;

/// Rows of threads.
const ABOVE: u32 = PERMUTE_TILE / STEPS;

/// From row to row of shared memory.
const PITCH: u32 = PERMUTE_TILE + 1;

/// Elements of shared memory.
pub(super) const SHARED: usize = (PERMUTE_TILE * PITCH) as usize;

/// A tile.
///
/// # Safety
/// The host passes live tensors of these extents and distances, of elements of T's size.
#[inline(always)]
pub(super) unsafe fn forward<T: Copy + Default>(p: &PermuteParams, tile: *mut T) {
    let (across, above) = (thread_idx_x() % PERMUTE_TILE, thread_idx_x() / PERMUTE_TILE);
    let (rest, col_tile) = p.col_tiles.div_rem(block_idx_x());
    let (mut rest, row_tile) = p.row_tiles.div_rem(rest);
    let (first_row, first_col) = (row_tile * PERMUTE_TILE, col_tile * PERMUTE_TILE);
    let (mut from, mut to) = (0, 0);
    let mut level = 0;
    while level < PERMUTE_LEVELS {
        let (quotient, i) = p.extents[level].div_rem(rest);
        rest = quotient;
        from += i64::from(i) * p.from_strides[level];
        to += i64::from(i) * p.to_strides[level];
        level += 1;
    }
    let (from, to) = ((p.from as *const T).offset(from as isize), (p.to as *mut T).offset(to as isize));
    let mut values = [T::default(); STEPS as usize];
    let mut step = 0;
    while step < STEPS {
        let (row, col) = (first_row + above + step * ABOVE, first_col + across);
        if row < p.rows && col < p.cols {
            values[step as usize] = *from.offset((i64::from(row) * p.from_row + i64::from(col)) as isize);
        }
        step += 1;
    }
    step = 0;
    while step < STEPS {
        *tile.add(((above + step * ABOVE) * PITCH + across) as usize) = values[step as usize];
        step += 1;
    }
    sync_threads();
    step = 0;
    while step < STEPS {
        let (row, col) = (first_row + across, first_col + above + step * ABOVE);
        if row < p.rows && col < p.cols {
            let value = *tile.add((across * PITCH + above + step * ABOVE) as usize);
            *to.offset((i64::from(col) * p.to_col + i64::from(row)) as isize) = value;
        }
        step += 1;
    }
}
