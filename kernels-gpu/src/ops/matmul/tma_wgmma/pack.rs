//! Copies matrices of 2-byte elements to rows that tensor maps can describe.

use crate::math::index::{div_rem, for_each_index};
use cuda_std::memory::{X2, X4};
use cuda_std::schedule;
use kernel_abi::ops::matmul::MatmulPackParams;

/// The kernel: a thread for every 16 bytes of the copy. Behind the last column it writes zeros.
///
/// # Safety
/// The host passes live matrices and room for their copy.
#[inline(always)]
pub unsafe fn pack(p: &MatmulPackParams) {
    schedule::launch_dependents();
    schedule::wait_for_predecessors();
    let elems = i64::from(MatmulPackParams::ELEMS);
    let chunks = p.pitch as i64 / elems;
    let [d0, d1, d2] = p.batch_dims;
    for_each_index((d0 * d1 * d2 * p.rows) as i64 * chunks, |index| {
        let (row, chunk) = div_rem(index, chunks);
        let (matrix, row) = div_rem(row, p.rows as i64);
        let (rest, inner) = div_rem(matrix, d2 as i64);
        let (outer, middle) = div_rem(rest, d1 as i64);
        let [s0, s1, s2] = p.batch_strides;
        let col = chunk * elems;
        let start = outer * s0 + middle * s1 + inner * s2 + row * p.row_stride + col * p.col_stride;
        let from = p.from + start as u64 * 2;
        let whole = p.col_stride == 1 && col + elems <= p.cols as i64;
        let words = if whole && from % 16 == 0 {
            (*(from as *const X4<u32>)).0
        } else if whole && from % 8 == 0 {
            let [a, b] = (*(from as *const X2<u32>)).0;
            let [c, d] = (*((from + 8) as *const X2<u32>)).0;
            [a, b, c, d]
        } else if whole && from % 4 == 0 {
            let word = |i: u64| *((from + 4 * i) as *const u32);
            [word(0), word(1), word(2), word(3)]
        } else {
            let element = |i: i64| {
                if col + i < p.cols as i64 {
                    u32::from(*(from as *const u16).offset((i * p.col_stride) as isize))
                } else {
                    0
                }
            };
            let pair = |i: i64| element(i) | element(i + 1) << 16;
            [pair(0), pair(2), pair(4), pair(6)]
        };
        *(p.to as *mut X4<u32>).add(index as usize) = X4(words);
    });
}
