//! One thread an element of what is written, any strides and types. Backward, each looks through all indices, so that it
//! adds in their order.

use crate::math::index::{div_rem, for_each_index, offsets};
use crate::math::number::{Number, Total};
use kernel_abi::ops::gather::{GatherParams, row_of};

/// The row of x that row `n` of y is, or -1.
#[inline(always)]
unsafe fn row(p: &GatherParams, n: i64) -> i64 {
    row_at(p.indices, p.index_stride, p.index_bytes, p.rows, n)
}

/// The row among `rows` that the index number `n` means, or -1.
#[inline(always)]
pub unsafe fn row_at(indices: u64, stride: i64, bytes: u32, rows: i64, n: i64) -> i64 {
    let at = (n * stride) as isize;
    let index =
        if bytes == 4 { i64::from(*(indices as *const i32).offset(at)) } else { *(indices as *const i64).offset(at) };
    row_of(index, rows)
}

/// y from x.
pub unsafe fn forward<A: Number>(p: &GatherParams) {
    for_each_index(p.n_elems, |linear| {
        let (n, within) = div_rem(linear, p.row_elems);
        let [y, x] = offsets([&p.y, &p.x], within);
        let row = row(p, n);
        let value = if row < 0 { A::ZERO } else { A::load(p.dtype, p.x.address, x + row * p.x_stride) };
        value.blend(p.dtype, p.y.address, y + n * p.y_stride, (p.alpha, p.beta), 0);
    });
}

/// dx from dy.
pub unsafe fn backward<A: Number>(p: &GatherParams) {
    for_each_index(p.n_elems, |linear| {
        let (mine, within) = div_rem(linear, p.row_elems);
        let [y, x] = offsets([&p.y, &p.x], within);
        let mut sum = Total::<A>::EMPTY;
        let mut n = 0;
        while n < p.n_indices {
            if row(p, n) == mine {
                sum.push(A::load(p.dtype, p.y.address, y + n * p.y_stride));
            }
            n += 1;
        }
        sum.finish().blend(p.dtype, p.x.address, x + mine * p.x_stride, (p.alpha, p.beta), 0);
    });
}
