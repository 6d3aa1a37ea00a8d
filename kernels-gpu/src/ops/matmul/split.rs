//! Adds up the parts of sums that other kernels split, in the order of the slices.

use crate::math::element::{Element, blend};
use crate::math::index::{div_rem, for_each_index};
use crate::math::vector;
use cuda_std::memory::{X2, X4};
use cuda_std::schedule;
use kernel_abi::ops::matmul::MatmulPartialsParams;

/// Columns that a thread adds up at a time.
const COLUMNS: i64 = 4;

/// The kernel: a thread for every four columns of a row of c. `BESIDE` where it may start beside the end of the kernel
/// before it, which Hopper's launches allow.
///
/// # Safety
/// The host passes the parts that the kernel before this one wrote, and a live c.
#[inline(always)]
pub(super) unsafe fn add_up<T: Element<Acc = f32>, const BESIDE: bool>(p: &MatmulPartialsParams) {
    if BESIDE {
        schedule::launch_dependents();
        schedule::wait_for_predecessors();
    }
    let (gemm_m, gemm_n, pitch) = (i64::from(p.gemm_m), i64::from(p.gemm_n), i64::from(p.partial_pitch));
    let groups = pitch / COLUMNS;
    let slice_elems = i64::from(p.n_batch) * gemm_m * pitch;
    for_each_index(i64::from(p.n_batch) * gemm_m * groups, |index| {
        let mut from = (p.partials as *const f32).add((index * COLUMNS) as usize);
        let mut sums = [0.0f32; 4];
        let mut left = p.n_slices;
        // Several loads under way at a time; the order of the additions stays that of the slices.
        while left >= 8 {
            add_some::<8>(&mut sums, &mut from, slice_elems);
            left -= 8;
        }
        if left >= 4 {
            add_some::<4>(&mut sums, &mut from, slice_elems);
            left -= 4;
        }
        while left > 0 {
            add_some::<1>(&mut sums, &mut from, slice_elems);
            left -= 1;
        }
        let (row, group) = div_rem(index, groups);
        let (matrix, row) = div_rem(row, gemm_m);
        let (rest, inner) = div_rem(matrix, i64::from(p.batch_dims[2]));
        let (outer, middle) = div_rem(rest, i64::from(p.batch_dims[1]));
        let [s0, s1, s2] = p.c.batch_strides;
        let first = outer * s0 + middle * s1 + inner * s2 + row * p.c.row_stride;
        let col = group * COLUMNS;
        let to = p.c.address.wrapping_add((first + col) as u64 * size_of::<T>() as u64);
        let together = p.c.col_stride == 1 && to % (COLUMNS as u64 * size_of::<T>() as u64) == 0;
        if together && p.beta == 0.0 && col + COLUMNS <= gemm_n {
            let words = vector::narrowed::<T, 4>(&sums.map(|sum| p.alpha * sum));
            if size_of::<T>() == 2 {
                *(to as *mut X2<u32>) = X2([words[0], words[1]]);
            } else {
                *(to as *mut X4<u32>) = X4(words);
            }
            return;
        }
        let mut i = 0;
        while i < COLUMNS {
            let col = col + i;
            if col < gemm_n {
                let sum = *sums.get_unchecked(i as usize);
                blend::<T>(p.c.address, first + col * p.c.col_stride, sum, f64::from(p.alpha), f64::from(p.beta));
            }
            i += 1;
        }
    });
}

/// Adds `N` parts, which are loaded together.
///
/// # Safety
/// As [`add_up`].
#[inline(always)]
unsafe fn add_some<const N: usize>(sums: &mut [f32; 4], from: &mut *const f32, slice_elems: i64) {
    let mut parts = [[0.0f32; 4]; N];
    vector::for_each!(I < N, { parts[I] = (*from.offset(I as isize * slice_elems as isize).cast::<X4<f32>>()).0 });
    vector::for_each!(I < N, { add(sums, parts[I]) });
    *from = from.offset(N as isize * slice_elems as isize);
}

#[inline(always)]
fn add(sums: &mut [f32; 4], part: [f32; 4]) {
    sums[0] += part[0];
    sums[1] += part[1];
    sums[2] += part[2];
    sums[3] += part[3];
}
