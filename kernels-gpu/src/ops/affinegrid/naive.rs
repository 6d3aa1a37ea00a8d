//! Forward one thread an element of grid; backward one warp an element of dtheta, whose lanes take every 32nd position and
//! combine by shuffles in a fixed order.

use crate::math::element::{Accumulator, Element, blend, load};
use crate::math::index::{div_rem, for_each_index};
use crate::math::sum::Sum;
use crate::math::warp_rows::{for_each_lane, for_each_row, join_lanes};
use cuda_std::thread;
use kernel_abi::ops::affinegrid::{AffineGridParams, coordinate};

/// The normalized coordinates of a position: column, row, plane.
#[inline(always)]
unsafe fn coordinates(p: &AffineGridParams, at: [i64; 3]) -> [f64; 3] {
    let along = |a: usize| coordinate(at[a], p.extents[a], p.align_corners != 0);
    [along(2), along(1), along(0)]
}

/// Row-major positions by depth, height, width.
#[inline(always)]
unsafe fn position(p: &AffineGridParams, linear: i64) -> (i64, [i64; 3]) {
    let (rest, w) = div_rem(linear, p.extents[2]);
    let (rest, h) = div_rem(rest, p.extents[1]);
    let (n, d) = div_rem(rest, p.extents[0]);
    (n, [d, h, w])
}

#[inline(always)]
unsafe fn grid_offset(p: &AffineGridParams, n: i64, at: [i64; 3], i: i64) -> i64 {
    let s = &p.grid.strides;
    n * s[0] + at[0] * s[1] + at[1] * s[2] + at[2] * s[3] + i * s[4]
}

/// grid from theta.
pub unsafe fn forward<T: Element>(p: &AffineGridParams) {
    for_each_index(p.n_elems, |linear| {
        let (rest, i) = div_rem(linear, p.n_axes);
        let (n, at) = position(p, rest);
        let [x, y, z] = coordinates(p, at);
        let theta = |j: i64| {
            let offset = n * p.theta.strides[0] + i * p.theta.strides[1] + j * p.theta.strides[2];
            load::<T>(p.theta.address, offset)
        };
        let mut place = T::Acc::from_f64(x).mul_add(theta(0), T::Acc::from_f64(y) * theta(1));
        if p.n_axes == 3 {
            place = T::Acc::from_f64(z).mul_add(theta(2), place);
        }
        blend::<T>(p.grid.address, grid_offset(p, n, at, i), place + theta(p.n_axes), p.alpha, p.beta);
    });
}

/// dtheta from dgrid.
pub unsafe fn backward<T: Element>(p: &AffineGridParams) {
    let n_positions = p.extents[0] * p.extents[1] * p.extents[2];
    for_each_row(p.n_elems, |element| {
        let (rest, j) = div_rem(element, p.n_axes + 1);
        let (n, i) = div_rem(rest, p.n_axes);
        let mut sum = Sum::EMPTY;
        for_each_lane(n_positions, |linear| {
            let (_, at) = position(p, linear);
            let dgrid = load::<T>(p.grid.address, grid_offset(p, n, at, i));
            let [x, y, z] = coordinates(p, at);
            let factor = if j == p.n_axes {
                1.0
            } else if j == 0 {
                x
            } else if j == 1 {
                y
            } else {
                z
            };
            sum.push_product(T::Acc::from_f64(factor), dgrid);
        });
        let sum = T::Acc::from_f64(join_lanes(sum.finish(), |a, b| a + b));
        if thread::lane_id() == 0 {
            let to = n * p.theta.strides[0] + i * p.theta.strides[1] + j * p.theta.strides[2];
            blend::<T>(p.theta.address, to, sum, p.alpha, p.beta);
        }
    });
}
