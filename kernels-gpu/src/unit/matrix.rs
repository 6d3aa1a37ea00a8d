//! `ldmatrix` and `stmatrix`.

use cuda_std::{kernel, ldmatrix, shared, shared_array, thread};

/// Loads four 8×8 matrices of u16, given row by row, in six ways: rows of `out` are the registers, lane by lane.
///
/// # Safety
/// 32 threads; `x` has 256 u16, `out` 14 rows of 32 numbers: x4, x2, x1, then the same transposed.
#[kernel(threads = 32)]
pub unsafe fn unit_matrix_load(x: u64, out: u64) {
    let lane = thread::lane_id();
    let base = shared::address(shared_array![u32; 128]);
    for i in 0..4 {
        shared::store_u32(base + 4 * (4 * lane + i), *(x as *const u32).add((4 * lane + i) as usize));
    }
    thread::sync_threads();
    let row = base + 16 * lane;
    let at = (out as *mut u32).add(lane as usize);
    let [a, b, c, d] = ldmatrix::load_x4(row);
    let [e, f] = ldmatrix::load_x2(row);
    let g = ldmatrix::load_x1(row);
    let [h, i, j, k] = ldmatrix::load_x4_transposed(row);
    let [l, m] = ldmatrix::load_x2_transposed(row);
    let n = ldmatrix::load_x1_transposed(row);
    for (r, v) in [a, b, c, d, e, f, g, h, i, j, k, l, m, n].into_iter().enumerate() {
        *at.add(32 * r) = v;
    }
}

/// Stores four 8×8 matrices from registers, as they are and transposed.
///
/// # Safety
/// 32 threads; `x` has 4 rows of 32 registers; `out` 512 u16: the matrices, and the transposed ones.
#[kernel(threads = 32, arch = "sm_90a")]
pub unsafe fn unit_matrix_store(x: u64, out: u64) {
    let lane = thread::lane_id();
    let base = shared::address(shared_array![u32; 256]);
    let from = (x as *const u32).add(lane as usize);
    let v = [*from, *from.add(32), *from.add(64), *from.add(96)];
    let row = base + 16 * lane;
    ldmatrix::store_x4(row, v);
    // The same in three parts: matrices 0 and 1 by x2, 2 and 3 by x1; only the first lanes' addresses count.
    ldmatrix::store_x2_transposed(row + 512, [v[0], v[1]]);
    ldmatrix::store_x1_transposed(base + 512 + 256 + 16 * (lane % 8), v[2]);
    ldmatrix::store_x1_transposed(base + 512 + 384 + 16 * (lane % 8), v[3]);
    thread::sync_threads();
    for i in 0..8 {
        *(out as *mut u32).add((8 * lane + i) as usize) = shared::load_u32(base + 4 * (8 * lane + i));
    }
}
