//! One warp a row, any strides: three passes over the row forward (maximum, sum, result), two backward. Lanes take
//! every 32nd element and combine by shuffles in a fixed order.

use crate::math::element::{Accumulator, Element, blend, load};
use crate::math::index::offsets;
use crate::math::warp_rows::{self, for_each_lane, reduce, sum};
use kernel_abi::ops::softmax::{SoftmaxKind, SoftmaxParams};

/// y = softmax(x).
pub unsafe fn forward<T: Element>(p: &SoftmaxParams) {
    for_each_row(p, |out_row, in_row, _| {
        let x = |e: i64| load::<T>(p.in_row.address, in_row + offsets([&p.in_row], e)[0]);
        let fast = p.kind == SoftmaxKind::Fast as u32;
        let max = if fast { T::Acc::ZERO } else { reduce(p.row_elems, T::Acc::NEG_INFINITY, x, |a, b| a.max(b)) };
        let sum = sum(p.row_elems, |e| (x(e) - max).exp());
        let log = p.kind == SoftmaxKind::Log as u32;
        let shift = if log { sum.ln() } else { T::Acc::ZERO };
        for_each_lane(p.row_elems, |e| {
            let centred = x(e) - max;
            let result = if log { centred - shift } else { centred.exp() / sum };
            blend::<T>(p.out_row.address, out_row + offsets([&p.out_row], e)[0], result, p.alpha, p.beta);
        });
    });
}

/// dx from y and dy.
pub unsafe fn backward<T: Element>(p: &SoftmaxParams) {
    for_each_row(p, |out_row, in_row, dy_row| {
        let y = |e: i64| load::<T>(p.in_row.address, in_row + offsets([&p.in_row], e)[0]);
        let dy = |e: i64| load::<T>(p.dy_row.address, dy_row + offsets([&p.dy_row], e)[0]);
        let log = p.kind == SoftmaxKind::Log as u32;
        let sum = sum(p.row_elems, |e| if log { dy(e) } else { y(e) * dy(e) });
        for_each_lane(p.row_elems, |e| {
            let result = if log { dy(e) - y(e).exp() * sum } else { y(e) * (dy(e) - sum) };
            blend::<T>(p.out_row.address, out_row + offsets([&p.out_row], e)[0], result, p.alpha, p.beta);
        });
    });
}

/// Calls `body` with the offsets of each row that is this warp's, in what is written, the input and dy.
#[inline(always)]
unsafe fn for_each_row(p: &SoftmaxParams, mut body: impl FnMut(i64, i64, i64)) {
    warp_rows::for_each_row(p.n_rows, |row| {
        let [out, input, dy] = offsets([&p.out_rows, &p.in_rows, &p.dy_rows], row);
        body(out, input, dy);
    });
}
