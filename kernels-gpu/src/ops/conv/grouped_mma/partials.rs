//! The second kernel of `wgrad`: adds up the slabs of partial sums, in their order, so that results repeat.
//!
//! Grid: one block for 32 elements. Block: 256 threads: 8 rows of 32, which take every eighth slab each. Shared
//! memory: 1 KB.

use crate::math::element::Element;
use cuda_std::shared;
use cuda_std::thread::{block_idx_x, grid_dim_x, sync_threads, thread_idx_x};
use kernel_abi::ops::conv::grouped_mma::{REDUCE_ELEMS, REDUCE_ROWS, SplitReduceParams};

/// target = alpha · Σ partials + beta · target. `rows` has room for a number a thread.
///
/// # Safety
/// The host passes partial sums that are written, and a live target.
#[inline(always)]
pub(crate) unsafe fn add_partials<T: Element<Acc = f32>>(p: &SplitReduceParams, rows: *mut f32) {
    let rows = shared::address(rows);
    let (row, column) = (thread_idx_x() / REDUCE_ELEMS, thread_idx_x() % REDUCE_ELEMS);
    let mut first = u64::from(block_idx_x()) * u64::from(REDUCE_ELEMS);
    while first < p.n_elems {
        let element = first + u64::from(column);
        let mut sum = 0.0;
        if element < p.n_elems {
            let mut slab = row;
            let mut at = (p.partials as *const f32).add((u64::from(row) * p.n_elems + element) as usize);
            let step = (u64::from(REDUCE_ROWS) * p.n_elems) as usize;
            // Four at a time are under way together.
            while slab + 3 * REDUCE_ROWS < p.slabs {
                let (a, b, c, d) = (*at, *at.add(step), *at.add(2 * step), *at.add(3 * step));
                sum += (a + b) + (c + d);
                at = at.add(4 * step);
                slab += 4 * REDUCE_ROWS;
            }
            while slab < p.slabs {
                sum += *at;
                at = at.add(step);
                slab += REDUCE_ROWS;
            }
        }
        shared::store_f32(rows + 4 * thread_idx_x(), sum);
        sync_threads();
        if row == 0 && element < p.n_elems {
            let mut total = 0.0;
            let mut i = 0;
            while i < REDUCE_ROWS {
                total += shared::load_f32(rows + 4 * (i * REDUCE_ELEMS + column));
                i += 1;
            }
            let to = (p.target as *mut T).add(element as usize);
            let mut value = p.alpha * total;
            if p.beta != 0.0 {
                value += p.beta * (*to).widen();
            }
            *to = T::narrow(value);
        }
        sync_threads();
        first += u64::from(grid_dim_x()) * u64::from(REDUCE_ELEMS);
    }
}
