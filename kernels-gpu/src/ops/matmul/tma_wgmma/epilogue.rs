//! The way of a consumer's sums into c, or into the workspace.
//!
//! Register i of thread t (warp w = t / 32, lane l = t % 32) is the sum of row 16 w + l / 4 + 8 ((i / 2) % 2) and column
//! 8 (i / 4) + 2 (l % 4) + i % 2 of the consumer's 64 rows.

use super::{Sharers, Tiled, WARPGROUP, cluster_sum, coordinates};
use crate::math::fused_epilogue::{Added, bias};
use cuda_std::barrier::{fence_proxy_async_shared, sync_named};
use cuda_std::memory::{X2, X4};
use cuda_std::thread::thread_idx_x;
use cuda_std::tma::{self, MapAddress};
use cuda_std::{ldmatrix, shared, warp};
use kernel_abi::epilogue::FusedEpilogueParam;
use kernel_abi::ops::matmul::{
    MatmulTile, MatmulTmaParams, OUTPUT_CLUSTER, OUTPUT_MAP, OUTPUT_PARTIALS, OUTPUT_THREADS, Place,
};

/// What all sums of a consumer's unit share.
pub(super) struct Out {
    first_row: u32,
    first_col: u32,
    /// Address of the matrix of c.
    pub(super) matrix: u64,
    /// Address of the matrix of the residual.
    residual: u64,
    /// Number of the matrix, among those of all slices.
    part: u32,
    pub(super) slice: u32,
    pub(super) sharers: Sharers,
    batch: [i32; 3],
    map: MapAddress,
    panels: u32,
    pub(super) consumer: u32,
    pub(super) thread: u32,
}

impl Out {
    #[inline(always)]
    #[allow(clippy::too_many_arguments)]
    pub(super) fn new(
        p: &MatmulTmaParams,
        map: MapAddress,
        place: Place,
        first_row: u32,
        slice: u32,
        sharers: Sharers,
        consumer: u32,
        panels: u32,
    ) -> Self {
        let [outer, middle, inner] = place.batch;
        Out {
            first_row: place.m + first_row,
            first_col: place.n,
            matrix: matrix_address(p, place.batch),
            residual: residual_address(p, place.batch),
            part: slice * p.n_batch + (outer * p.batch_dims[1] + middle) * p.batch_dims[2] + inner,
            slice,
            sharers,
            batch: coordinates(place.batch, [1; 3]),
            map,
            panels,
            consumer,
            thread: thread_idx_x() % WARPGROUP,
        }
    }

    /// The same of the 64 rows below.
    #[inline(always)]
    pub(super) fn below(&self) -> Self {
        Out { first_row: self.first_row + MatmulTile::SUBTILE, ..*self }
    }

    /// The barrier of this consumer's threads.
    #[inline(always)]
    fn barrier(&self) -> u32 {
        1 + self.consumer
    }

    /// The first of this thread's rows; the second lies 8 below.
    #[inline(always)]
    pub(super) fn row(&self) -> u32 {
        self.first_row + self.thread / 32 * 16 + self.thread % 32 / 4
    }

    /// The first of this thread's columns in each 8.
    #[inline(always)]
    pub(super) fn col(&self) -> u32 {
        self.first_col + self.thread % 4 * 2
    }
}

/// Sends the sums on their way. `stages` is the memory of the ring.
///
/// # Safety
/// As `consume`: all threads of one consumer, or with [`OUTPUT_CLUSTER`] of the cluster's consumers.
#[inline(always)]
pub(super) unsafe fn leave<P: Tiled, const R: usize>(p: &MatmulTmaParams, d: &mut [f32; R], out: &Out, stages: u32) {
    if p.output == OUTPUT_PARTIALS {
        partials::<R, 0>(p, d, out);
        if R > 32 {
            partials::<R, 1>(p, d, out);
        }
        if R > 64 {
            partials::<R, 2>(p, d, out);
        }
        if R > 96 {
            partials::<R, 3>(p, d, out);
        }
    } else if P::TILE.forms_clusters() && p.output == OUTPUT_CLUSTER {
        cluster_sum::add_up::<P, R>(p, d, out, stages);
    } else if R >= 32 && p.output == OUTPUT_MAP && p.beta == 0.0 && !follows::<P, R>(p) {
        // One test and then straight on: with tests in between, the instructions that are jumped to come too late.
        if p.alpha != 1.0 {
            let mut i = 0;
            while i < R {
                *d.get_unchecked_mut(i) *= p.alpha;
                i += 1;
            }
        }
        if p.transposed == 0 {
            plain_panel::<P, R, 0>(p, d, out);
            if R > 32 {
                plain_panel::<P, R, 1>(p, d, out);
            }
            if R > 64 {
                plain_panel::<P, R, 2>(p, d, out);
            }
            if R > 96 {
                plain_panel::<P, R, 3>(p, d, out);
            }
        } else {
            transposed_panel::<P, R, 0>(p, d, out);
            if R > 32 {
                transposed_panel::<P, R, 1>(p, d, out);
            }
            if R > 64 {
                transposed_panel::<P, R, 2>(p, d, out);
            }
            if R > 96 {
                transposed_panel::<P, R, 3>(p, d, out);
            }
        }
    } else {
        panel::<P, R, 0>(p, d, out);
        if R > 32 {
            panel::<P, R, 1>(p, d, out);
        }
        if R > 64 {
            panel::<P, R, 2>(p, d, out);
        }
        if R > 96 {
            panel::<P, R, 3>(p, d, out);
        }
    }
}

/// Whether the sums become more than a blend.
#[inline(always)]
fn follows<P: Tiled, const R: usize>(p: &MatmulTmaParams) -> bool {
    P::TILE.has_epilogues() && p.epilogue.follows != 0
}

/// The buffer of panel `N`.
#[inline(always)]
fn buffer<P: Tiled, const R: usize, const N: usize>(out: &Out) -> u32 {
    out.panels + (N as u32 % P::TILE.panel_buffers()) * P::TILE.panel_bytes()
}

/// Waits until this thread's copy that last read the buffer in turn has done so: it was queued as many panels ago as there
/// are buffers.
///
/// # Safety
/// As [`leave`].
#[inline(always)]
unsafe fn wait_for_buffer<P: Tiled, const R: usize>() {
    match P::TILE.panel_buffers() {
        1 => tma::wait_group_read::<0>(),
        2 => tma::wait_group_read::<1>(),
        _ => tma::wait_group_read::<2>(),
    }
}

/// Panel `N` of a consumer's sums, rows as they lie in c. Every warp sends the 16 rows that it holds, and waits for
/// nobody; one of its threads queues the copy, so that its address is computed once for all of them.
///
/// # Safety
/// As [`leave`].
#[inline(always)]
unsafe fn plain_panel<P: Tiled, const R: usize, const N: usize>(p: &MatmulTmaParams, d: &[f32; R], out: &Out) {
    let col = out.first_col + P::TILE.panel_column(N as u32);
    let warp_row = warp::uniform(out.thread / 32) * MatmulTile::OUT_ROWS;
    let row = out.first_row + warp_row;
    let buffer = buffer::<P, R, N>(out) + warp_row * 128;
    let leads = warp::elect();
    if leads {
        wait_for_buffer::<P, R>();
    }
    warp::sync_warp();
    let first = P::TILE.panel_column(N as u32) as usize / 16;
    plain_chunk::<P, R>(d, out, buffer, first, 0);
    plain_chunk::<P, R>(d, out, buffer, first, 1);
    plain_chunk::<P, R>(d, out, buffer, first, 2);
    plain_chunk::<P, R>(d, out, buffer, first, 3);
    fence_proxy_async_shared();
    warp::sync_warp();
    if leads {
        if col < p.gemm_n && row < p.gemm_m {
            let [inner, middle, outer] = out.batch;
            tma::store_5d(out.map, buffer, [col as i32, row as i32, inner, middle, outer]);
        }
        // Also where nothing was stored: the wait counts groups.
        tma::commit_group();
    }
}

/// Columns `16 j` to `16 j + 15` of a panel that begins with the tile's columns `16 first`, at their place in the 16 rows
/// of the warp.
///
/// # Safety
/// As [`leave`].
#[inline(always)]
unsafe fn plain_chunk<P: Tiled, const R: usize>(d: &[f32; R], out: &Out, buffer: u32, first: usize, j: usize) {
    let (lane, row) = (out.thread % 32, out.thread % 16);
    let chunk = (2 * j as u32 + lane / 16) ^ (row % 8);
    ldmatrix::store_x4(buffer + row * 128 + chunk * 16, packed::<P, R>(d, first + j));
}

/// This thread's sums of columns `16 i` to `16 i + 15`, two of a row in each.
#[inline(always)]
unsafe fn packed<P: Tiled, const R: usize>(d: &[f32; R], i: usize) -> [u32; 4] {
    let pair = |at: usize| P::pack(*d.get_unchecked(8 * i + at), *d.get_unchecked(8 * i + at + 1));
    [pair(0), pair(2), pair(4), pair(6)]
}

/// Panel `N` of a consumer's sums, whose columns lie in c as rows: each row has sums of all warps, and one thread sends
/// them all.
///
/// # Safety
/// As [`leave`].
#[inline(always)]
unsafe fn transposed_panel<P: Tiled, const R: usize, const N: usize>(p: &MatmulTmaParams, d: &[f32; R], out: &Out) {
    let col = out.first_col + P::TILE.panel_column(N as u32);
    let buffer = buffer::<P, R, N>(out);
    let warp = warp::uniform(out.thread / 32);
    let leads = warp == 0 && warp::elect();
    if leads {
        wait_for_buffer::<P, R>();
    }
    sync_named(out.barrier(), WARPGROUP);
    let first = P::TILE.panel_column(N as u32) as usize / 16;
    let chunk =
        |j| ldmatrix::store_x4_transposed(buffer + transposed_at(out, j), packed::<P, R>(d, first + j as usize));
    chunk(0);
    chunk(1);
    chunk(2);
    chunk(3);
    fence_proxy_async_shared();
    sync_named(out.barrier(), WARPGROUP);
    if leads {
        if col < p.gemm_n && out.first_row < p.gemm_m {
            let [inner, middle, outer] = out.batch;
            tma::store_5d(out.map, buffer, [out.first_row as i32, col as i32, inner, middle, outer]);
        }
        // Also where nothing was stored: the wait counts groups.
        tma::commit_group();
    }
}

/// Where this thread's part of columns `16 j` to `16 j + 15` goes in a panel whose rows they are: in each of these, a
/// warp's 16 rows of the tile are two chunks.
#[inline(always)]
fn transposed_at(out: &Out, j: u32) -> u32 {
    let (warp, lane) = (out.thread / 32, out.thread % 32);
    let row = 16 * j + lane / 16 * 8 + lane % 8;
    let chunk = (2 * warp + lane / 8 % 2) ^ (row % 8);
    row * 128 + chunk * 16
}

/// Stores the sums of panel `N` as they are into their slice's part of the workspace.
///
/// # Safety
/// As [`leave`].
#[inline(always)]
unsafe fn partials<const R: usize, const N: usize>(p: &MatmulTmaParams, d: &[f32; R], out: &Out) {
    let first = u64::from(out.part) * u64::from(p.gemm_m) + u64::from(out.row());
    let (pitch, col) = (u64::from(p.partial_pitch), out.col() + N as u32 * MatmulTile::PANEL);
    let upper = (p.partials + (first * pitch + u64::from(col)) * 4) as *mut X2<f32>;
    let lower = (p.partials + ((first + 8) * pitch + u64::from(col)) * 4) as *mut X2<f32>;
    let (upper_there, lower_there) = (out.row() < p.gemm_m, out.row() + 8 < p.gemm_m);
    let mut group = 0;
    while group < 8 && 8 * N + group < R / 4 {
        // A pair's second column may lie in the gap up to the pitch, which is even.
        if col + 8 * (group as u32) < p.gemm_n {
            let sum = |i: usize| *d.get_unchecked(4 * (8 * N + group) + i);
            if upper_there {
                *upper.add(4 * group) = X2([sum(0), sum(1)]);
            }
            if lower_there {
                *lower.add(4 * group) = X2([sum(2), sum(3)]);
            }
        }
        group += 1;
    }
}

/// Panel `N` of a consumer's sums: 64 columns, scaled and blended, with what follows, through shared memory.
///
/// # Safety
/// As [`leave`].
#[inline(always)]
unsafe fn panel<P: Tiled, const R: usize, const N: usize>(p: &MatmulTmaParams, d: &mut [f32; R], out: &Out) {
    let col = out.first_col + P::TILE.panel_column(N as u32);
    if col >= p.gemm_n || out.first_row >= p.gemm_m {
        if out.thread % 32 == 0 {
            // Also where nothing is stored: the wait counts groups.
            tma::commit_group();
        }
        return;
    }
    let buffer = buffer::<P, R, N>(out);
    let (added, row_bias) = if follows::<P, R>(p) { added::<P, R>(p, out, col) } else { (Added::NONE, [0.0; 2]) };
    if out.thread % 32 == 0 {
        wait_for_buffer::<P, R>();
    }
    sync_named(out.barrier(), WARPGROUP);
    chunk::<P, R, N, 0>(p, d, out, buffer, col, &added, row_bias);
    if R > 8 {
        chunk::<P, R, N, 1>(p, d, out, buffer, col, &added, row_bias);
    }
    if R > 16 {
        chunk::<P, R, N, 2>(p, d, out, buffer, col, &added, row_bias);
        chunk::<P, R, N, 3>(p, d, out, buffer, col, &added, row_bias);
    }
    if p.output == OUTPUT_MAP {
        fence_proxy_async_shared();
    }
    sync_named(out.barrier(), WARPGROUP);
    if p.output == OUTPUT_THREADS {
        copy_out::<P, R>(p, out, buffer, col);
    } else if p.transposed != 0 {
        if out.thread == 0 {
            let [inner, middle, outer] = out.batch;
            tma::store_5d(out.map, buffer, [out.first_row as i32, col as i32, inner, middle, outer]);
            tma::commit_group();
        }
    } else if out.thread % 32 == 0 {
        let [inner, middle, outer] = out.batch;
        let warp_row = out.thread / 32 * MatmulTile::OUT_ROWS;
        if out.first_row + warp_row < p.gemm_m {
            let row = out.first_row + warp_row;
            tma::store_5d(out.map, buffer + warp_row * 128, [col as i32, row as i32, inner, middle, outer]);
        }
        tma::commit_group();
    }
}

/// Loads what is added to this thread's sums of a panel, and the bias of its rows.
///
/// # Safety
/// As [`leave`].
#[inline(always)]
unsafe fn added<P: Tiled, const R: usize>(p: &MatmulTmaParams, out: &Out, panel_col: u32) -> (Added, [f32; 2]) {
    let e = &p.epilogue;
    let (row, col) = (out.row(), panel_col + out.thread % 4 * 2);
    let residual_row = |row: u32| {
        let offset = i64::from(row) * p.z_row_stride;
        if row < p.gemm_m { out.residual + offset as u64 * 2 } else { 0 }
    };
    let rows = if e.z != 0 { [residual_row(row), residual_row(row + 8)] } else { [0; 2] };
    if p.bias_along_rows == 0 || e.bias == 0 {
        return (Added::load(e, col, col, p.gemm_n, rows, P::unpack), [0.0; 2]);
    }
    let of_row = |row: u32| bias(e, row, u32::from(row < p.gemm_m), P::unpack);
    let none = FusedEpilogueParam { bias: 0, ..*e };
    (Added::load(&none, col, col, p.gemm_n, rows, P::unpack), [of_row(row), of_row(row + 8)])
}

/// Columns `16 J` to `16 J + 15` of panel `N`: eight sums a thread.
///
/// # Safety
/// As [`leave`].
#[inline(always)]
unsafe fn chunk<P: Tiled, const R: usize, const N: usize, const J: usize>(
    p: &MatmulTmaParams,
    d: &mut [f32; R],
    out: &Out,
    buffer: u32,
    panel_col: u32,
    added: &Added,
    row_bias: [f32; 2],
) {
    let own = P::TILE.panel_column(N as u32) as usize / 16 + J;
    let at = 8 * own;
    // The panel before has made these what they become, of a prior value that is gone.
    let is_done = own < 4 * N;
    let alpha = if is_done { 1.0 } else { p.alpha };
    let sum = |i: usize| alpha * *d.get_unchecked(at + i);
    let mut v = [sum(0), sum(1), sum(2), sum(3), sum(4), sum(5), sum(6), sum(7)];
    if p.beta != 0.0 && !is_done {
        let col = panel_col + 16 * J as u32 + out.thread % 4 * 2;
        let [upper, lower] = [prior::<P, R>(p, out, out.row(), col), prior::<P, R>(p, out, out.row() + 8, col)];
        v[0] += upper[0];
        v[1] += upper[1];
        v[2] += lower[0];
        v[3] += lower[1];
        v[4] += upper[2];
        v[5] += upper[3];
        v[6] += lower[2];
        v[7] += lower[3];
    }
    if follows::<P, R>(p) && !is_done {
        let [upper, lower] = row_bias;
        let rows = [upper, upper, lower, lower, upper, upper, lower, lower];
        let mut i = 0;
        while i < 8 {
            v[i] += rows[i];
            i += 1;
        }
        added.finish(&p.epilogue, J, &mut v, P::unpack);
    }
    if P::TILE.panel_column(N as u32 + 1) < (N as u32 + 1) * MatmulTile::PANEL {
        let mut i = 0;
        while i < 8 {
            *d.get_unchecked_mut(at + i) = v[i];
            i += 1;
        }
    }
    let packed = [P::pack(v[0], v[1]), P::pack(v[2], v[3]), P::pack(v[4], v[5]), P::pack(v[6], v[7])];
    if p.transposed != 0 {
        ldmatrix::store_x4_transposed(buffer + transposed_at(out, J as u32), packed);
    } else {
        let (warp, lane) = (out.thread / 32, out.thread % 32);
        // Each lane addresses one row of the 16 that the warp writes at a time, and 16 bytes of two.
        let row = 16 * warp + lane % 16;
        let chunk = (2 * J as u32 + lane / 16) ^ (row % 8);
        ldmatrix::store_x4(buffer + row * 128 + chunk * 16, packed);
    }
}

/// Copies a panel to c, `store_bytes` a thread at a time, neighbours to neighbours.
///
/// # Safety
/// As [`leave`].
#[inline(always)]
unsafe fn copy_out<P: Tiled, const R: usize>(p: &MatmulTmaParams, out: &Out, buffer: u32, panel_col: u32) {
    let least = |a: u32, b: u32| if a < b { a } else { b };
    let n_cols = least(least(P::TILE.gemm_n, MatmulTile::PANEL), p.gemm_n - panel_col);
    let n_rows = least(MatmulTile::SUBTILE, p.gemm_m - out.first_row);
    let corner = element(p, out.matrix, out.first_row, panel_col) as u64;
    let (n_outer, n_inner, outer_stride, inner_stride) = if p.transposed != 0 {
        (n_cols, n_rows, p.c.col_stride, p.c.row_stride)
    } else {
        (n_rows, n_cols, p.c.row_stride, p.c.col_stride)
    };
    // A power of two, as `store_bytes` is.
    let shift = (128 / (p.store_bytes | u32::from(p.store_bytes == 0))).trailing_zeros();
    let mut index = out.thread;
    while index >> shift < n_outer {
        let row = index >> shift;
        let byte = (index - (row << shift)) * p.store_bytes;
        if byte < 2 * n_inner {
            let from = buffer + row * 128 + (((byte / 16) ^ (row % 8)) * 16) + byte % 16;
            let to = corner as i64 + 2 * (i64::from(row) * outer_stride + i64::from(byte / 2) * inner_stride);
            match p.store_bytes {
                16 => *(to as *mut X4<u32>) = X4(shared::load_x4(from)),
                8 => *(to as *mut X2<u32>) = X2(shared::load_x2(from)),
                4 => *(to as *mut u32) = shared::load_u32(from),
                _ => *(to as *mut u16) = shared::load_u16(from),
            }
        }
        index += WARPGROUP;
    }
}

/// Address of a matrix of c.
#[inline(always)]
fn matrix_address(p: &MatmulTmaParams, batch: [u32; 3]) -> u64 {
    let [s0, s1, s2] = p.c.batch_strides;
    let offset = i64::from(batch[0]) * s0 + i64::from(batch[1]) * s1 + i64::from(batch[2]) * s2;
    p.c.address + offset as u64 * 2
}

/// Address of a matrix of the residual.
#[inline(always)]
fn residual_address(p: &MatmulTmaParams, batch: [u32; 3]) -> u64 {
    let [s0, s1, s2] = p.z_batch_strides;
    let offset = i64::from(batch[0]) * s0 + i64::from(batch[1]) * s1 + i64::from(batch[2]) * s2;
    p.epilogue.z + offset as u64 * 2
}

/// Where an element of c lies.
#[inline(always)]
pub(super) fn element(p: &MatmulTmaParams, matrix: u64, row: u32, col: u32) -> *mut u16 {
    let offset = i64::from(row) * p.c.row_stride + i64::from(col) * p.c.col_stride;
    (matrix + offset as u64 * 2) as *mut u16
}

/// What c held before the run, times beta, in columns `col`, `col + 1`, `col + 8` and `col + 9`; 0 outside.
///
/// # Safety
/// As [`leave`].
#[inline(always)]
pub(super) unsafe fn prior<P: Tiled, const R: usize>(p: &MatmulTmaParams, out: &Out, row: u32, col: u32) -> [f32; 4] {
    // Columns that are there from this one on.
    let left = if row < p.gemm_m && col < p.gemm_n { p.gemm_n - col } else { 0 };
    let first = element(p, out.matrix, row, col);
    let value = |i: u32| {
        if i < left {
            // SAFETY: the element exists.
            p.beta * P::unpack(unsafe { *first.offset((i64::from(i) * p.c.col_stride) as isize) })
        } else {
            0.0
        }
    };
    [value(0), value(1), value(8), value(9)]
}
