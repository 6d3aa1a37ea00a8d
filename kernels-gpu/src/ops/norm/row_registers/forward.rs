//! y and statistics of rows in registers.

use super::{
    BOTH, LANES, Place, anew, are_simple, given_or, load_row, parameter_words, parameters, rows_of_block, statistics,
    store, store_statistics, streams,
};
use crate::math::element::Element;
use crate::math::vector::for_each;
use cuda_std::memory::prefetch_l2;
use cuda_std::schedule;
use cuda_std::thread::{block_idx_x, grid_dim_x};
use kernel_abi::ops::norm::row_registers::{NormRowsParams, SHORT_ROWS};

/// Blocks before which no other has brought parameters to the cache.
const FIRST_BLOCKS: u32 = 128;

/// y and statistics.
#[inline(always)]
pub unsafe fn forward<
    T: Element<Acc = f32>,
    const E: usize,
    const THREADS: u32,
    const VECTORS: usize,
    const SCARCE: bool,
>(
    p: &NormRowsParams,
) {
    // Long rows of such parameters are lean ones.
    if (VECTORS == 1 || THREADS <= LANES) && are_simple::<E>(p) {
        forward_with::<T, E, THREADS, VECTORS, SCARCE, true>(p)
    } else {
        forward_with::<T, E, THREADS, VECTORS, SCARCE, false>(p)
    }
}

#[inline(always)]
unsafe fn forward_with<
    T: Element<Acc = f32>,
    const E: usize,
    const THREADS: u32,
    const VECTORS: usize,
    const SCARCE: bool,
    const SIMPLE: bool,
>(
    p: &NormRowsParams,
) {
    if VECTORS == 1 && THREADS <= LANES {
        forward_rows::<T, E, THREADS, VECTORS, SCARCE, SIMPLE, { SHORT_ROWS as usize }>(p)
    } else {
        forward_rows::<T, E, THREADS, VECTORS, SCARCE, SIMPLE, 1>(p)
    }
}

/// Of up to `ROWS` rows of a place, all of whose loads are under way together.
#[inline(always)]
unsafe fn forward_rows<
    T: Element<Acc = f32>,
    const E: usize,
    const THREADS: u32,
    const VECTORS: usize,
    const SCARCE: bool,
    const SIMPLE: bool,
    const ROWS: usize,
>(
    p: &NormRowsParams,
) {
    let places = |r: usize| Place::new::<THREADS>(block_idx_x() + r as u32 * grid_dim_x());
    let mut rows = [[[0u32; 4]; VECTORS]; ROWS];
    for_each!(R < ROWS, {
        *rows.get_unchecked_mut(R) = load_row::<T, E, THREADS, VECTORS>(p, &places(R), p.x, p.x_pitch);
    });
    let beside = SIMPLE && loads_parameters_beside(VECTORS);
    let mut given = [[0u32; 4]; BOTH];
    if beside {
        let column = places(0).column::<E, THREADS>(0);
        let there = column < p.row_elems;
        // Opaque: else the compiler puts these loads where they are used.
        given = [p.scale, p.bias].map(|address| parameter_words::<T>(address, column, there).map(schedule::opaque));
    } else if SIMPLE {
        prefetch_parameters::<T, E, THREADS, VECTORS>(p, &places(0));
    }
    for_each!(R < ROWS, {
        // The same for all threads of a block, which meet within.
        let first = (block_idx_x() + R as u32 * grid_dim_x()) * rows_of_block::<THREADS>();
        if R == 0 || first < p.n_rows {
            finish_row::<T, E, THREADS, VECTORS, SCARCE, SIMPLE>(p, &places(R), rows.get_unchecked(R), &given);
        }
    });
}

/// y and statistics of a row, with the words of its parameters where threads have loaded those beside it.
#[inline(always)]
unsafe fn finish_row<
    T: Element<Acc = f32>,
    const E: usize,
    const THREADS: u32,
    const VECTORS: usize,
    const SCARCE: bool,
    const SIMPLE: bool,
>(
    p: &NormRowsParams,
    at: &Place,
    x: &[[u32; 4]; VECTORS],
    given: &[[u32; 4]; BOTH],
) {
    let beside = SIMPLE && loads_parameters_beside(VECTORS);
    let (mean, normal) = statistics::<T, E, THREADS, VECTORS, SCARCE>(p, at, x);
    if at.row >= p.n_rows {
        return;
    }
    if at.thread == 0 {
        store_statistics(p, at.row, mean, normal.inv_std());
    }
    for_each!(J < VECTORS, {
        let at = if SCARCE { at.anew() } else { *at };
        let column = at.column::<E, THREADS>(J);
        if column < p.row_elems {
            let mut y = anew::<T, E, SCARCE>(x.get_unchecked(J));
            let [scale, bias] = if beside {
                [given_or::<T, E>(p.scale, &given[0], 1.0), given_or::<T, E>(p.bias, &given[1], 0.0)]
            } else {
                [(p.scale, 1.0), (p.bias, 0.0)].map(
                    #[inline(always)]
                    |(address, or)| parameters::<T, E, SIMPLE>(p, address, at.row, column, or),
                )
            };
            for_each!(I < E, {
                let y = y.get_unchecked_mut(I);
                *y = normal.of(*y) * *scale.get_unchecked(I) + *bias.get_unchecked(I);
            });
            store::<T, E>(p, at.row, column, y, streams(THREADS, VECTORS));
        }
    });
}

/// Whether forward loads the parameters together with x: where threads have registers for both.
#[inline(always)]
const fn loads_parameters_beside(vectors: usize) -> bool {
    vectors == 1
}

/// Brings the row's parameters near while it is read and summed up: few rows wait for them otherwise.
#[inline(always)]
pub(super) unsafe fn prefetch_parameters<T, const E: usize, const THREADS: u32, const VECTORS: usize>(
    p: &NormRowsParams,
    at: &Place,
) {
    if block_idx_x() >= FIRST_BLOCKS {
        return;
    }
    for_each!(J < VECTORS, {
        let column = at.column::<E, THREADS>(J);
        let offset = u64::from(column) * if p.parameters_are_wide != 0 { 4 } else { size_of::<T>() as u64 };
        for address in [p.scale, p.bias] {
            if column < p.row_elems && address != 0 {
                prefetch_l2((address + offset) as *const u8);
            }
        }
    });
}
