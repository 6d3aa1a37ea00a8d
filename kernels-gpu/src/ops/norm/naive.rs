//! Any strides and modes. One warp a row, or a parameter; lanes take every 32nd element and combine by shuffles in a fixed
//! order. The mean is found in two passes, the second with squared deviations, so that no digits are lost where it is large.

use crate::math::activation::{slope_of_value, value};
use crate::math::element::{Accumulator, Element, blend, load};
use crate::math::index::{div_rem, for_each_index};
use crate::math::statistics::{Moments, Normal, moments};
use crate::math::warp_rows::{for_each_lane, for_each_row, join_lanes, sum};
use cuda_std::thread;
use kernel_abi::MAX_RANK;
use kernel_abi::ops::norm::{NormFinalizeParams, NormParams, Walk, slot};

/// y, and what else is asked of statistics.
pub unsafe fn forward<T: Element>(p: &NormParams) {
    for_each_row(p.n_outer, |row| {
        let at = offsets(&p.outer, row);
        let moments = row_moments::<T>(p, &at);
        let normal = normal_of::<T>(p, &moments);
        if thread::lane_id() == 0 {
            store_statistics::<T>(p, &at, moments.mean(), &normal);
            if p.running_mean != 0 {
                update_running::<T>(p, p.running_mean, at[slot::RUNNING], moments.mean());
                let variance = T::Acc::from_f64(p.correction) * moments.variance();
                update_running::<T>(p, p.running_var, at[slot::RUNNING], variance);
            }
        }
        for_each_lane(p.n_inner, |i| {
            let to = offsets(&p.inner, i);
            let x = load::<T>(p.x, at[slot::X] + to[slot::X]);
            finish::<T>(p, &at, &to, normal.of(x));
        });
    });
}

/// y by running statistics, or none. One thread an element.
pub unsafe fn inference<T: Element>(p: &NormParams) {
    for_each_index(p.n_outer, |i| {
        let at = offsets(&p.outer, i);
        let mut normal = load::<T>(p.x, at[slot::X]);
        if p.running_mean != 0 {
            let mean = parameter::<T>(p.running_mean, p.running_is_wide, at[slot::RUNNING]);
            let variance = parameter::<T>(p.running_var, p.running_is_wide, at[slot::RUNNING]);
            normal = (normal - mean) / (variance + T::Acc::from_f64(p.epsilon)).sqrt();
        }
        finish::<T>(p, &at, &[0; slot::COUNT], normal);
    });
}

/// dx and dz; statistics where they are not given.
pub unsafe fn backward<T: Element>(p: &NormParams) {
    let n = T::Acc::from_i64(p.n_inner);
    for_each_row(p.n_outer, |row| {
        let at = offsets(&p.outer, row);
        let known = if p.statistics_are_given != 0 {
            let (mean, inv_std) = given_statistics::<T>(p, at[slot::STATISTIC]);
            Normal::given(mean, inv_std)
        } else {
            let moments = row_moments::<T>(p, &at);
            let known = normal_of::<T>(p, &moments);
            if thread::lane_id() == 0 {
                store_statistics::<T>(p, &at, moments.mean(), &known);
            }
            known
        };
        let inv_std = known.inv_std();
        let normal = |to: &[i64; slot::COUNT]| known.of(load::<T>(p.x, at[slot::X] + to[slot::X]));
        let scaled = |to: &[i64; slot::COUNT]| {
            let g = gradient::<T>(p, &at, to);
            if p.scale == 0 {
                return g;
            }
            g * parameter::<T>(p.scale, p.parameters_are_wide, at[slot::SCALE] + to[slot::SCALE])
        };
        let shift = if p.has_mean != 0 { sum(p.n_inner, |i| scaled(&offsets(&p.inner, i))) / n } else { T::Acc::ZERO };
        let tilt = sum(p.n_inner, |i| {
            let to = offsets(&p.inner, i);
            scaled(&to) * normal(&to)
        }) / n;
        for_each_lane(p.n_inner, |i| {
            let to = offsets(&p.inner, i);
            let dx = inv_std * (scaled(&to) - shift - normal(&to) * tilt);
            blend::<T>(p.out, at[slot::OUT] + to[slot::OUT], dx, p.alpha, p.beta);
            if p.dz != 0 {
                blend::<T>(p.dz, at[slot::DZ] + to[slot::DZ], gradient::<T>(p, &at, &to), p.alpha, p.beta);
            }
        });
    });
}

/// dscale and dbias, by given statistics.
pub unsafe fn parameters<T: Element>(p: &NormParams) {
    for_each_row(p.n_outer, |param| {
        let at = offsets(&p.outer, param);
        let dbias = sum(p.n_inner, |i| gradient::<T>(p, &at, &offsets(&p.inner, i)));
        if p.dbias != 0 && thread::lane_id() == 0 {
            blend_parameter::<T>(p, p.dbias, at[slot::BIAS], dbias);
        }
        if p.dscale == 0 {
            return;
        }
        let dscale = sum(p.n_inner, |i| {
            let to = offsets(&p.inner, i);
            let row = at[slot::STATISTIC] + to[slot::STATISTIC];
            let (mean, inv_std) = given_statistics::<T>(p, row);
            let rest = if p.rest != 0 { *(p.rest as *const T::Acc).offset(row as isize) } else { T::Acc::ZERO };
            let normal = (load::<T>(p.x, at[slot::X] + to[slot::X]) - mean).mul_add(inv_std, rest);
            gradient::<T>(p, &at, &to) * normal
        });
        if thread::lane_id() == 0 {
            blend_parameter::<T>(p, p.dscale, at[slot::SCALE], dscale);
        }
    });
}

/// Statistics of channel sums, in f64: a thread a channel.
pub unsafe fn finalize<S: Element, T: Element>(p: &NormFinalizeParams) {
    for_each_index(p.channels, |c| {
        let read = |address: u64, stride: i64, or: f64| {
            if address == 0 { or } else { (*(address as *const T).offset((c * stride) as isize)).to_f64() }
        };
        let write =
            |address: u64, stride: i64, v: f64| *(address as *mut T).offset((c * stride) as isize) = T::from_f64(v);
        let sum = |address: u64| (*(address as *const S).offset(c as isize)).to_f64();
        let mean = sum(p.sum) / p.count;
        let spread = sum(p.sum_squares) / p.count - mean * mean;
        let variance = if spread < 0.0 { 0.0 } else { spread };
        let inv_std = 1.0 / Accumulator::sqrt(variance + p.epsilon);
        let eq_scale = read(p.scale, p.strides[0], 1.0) * inv_std;
        write(p.mean, 1, mean);
        write(p.inv_std, 1, inv_std);
        write(p.eq_scale, 1, eq_scale);
        write(p.eq_bias, 1, read(p.bias, p.strides[1], 0.0) - mean * eq_scale);
        if p.running_mean != 0 {
            let blend = |prior: f64, new: f64| (1.0 - p.factor) * prior + p.factor * new;
            let stride = p.strides[2];
            write(p.running_mean, stride, blend(read(p.running_mean, stride, 0.0), mean));
            write(p.running_var, stride, blend(read(p.running_var, stride, 0.0), p.correction * variance));
        }
    });
}

/// Offsets of all tensors.
#[inline(always)]
fn offsets(walk: &Walk, linear: i64) -> [i64; slot::COUNT] {
    let mut offsets = [0; slot::COUNT];
    let mut rest = linear;
    let mut dim = MAX_RANK;
    while dim > 0 && rest > 0 {
        dim -= 1;
        // SAFETY: `dim` is below MAX_RANK, and `t` below the number of tensors.
        unsafe {
            let (quotient, index) = div_rem(rest, *walk.dims.get_unchecked(dim));
            rest = quotient;
            let mut t = 0;
            while t < slot::COUNT {
                *offsets.get_unchecked_mut(t) += index * *walk.strides.get_unchecked(t).get_unchecked(dim);
                t += 1;
            }
        }
    }
    offsets
}

/// Mean and variance of a row.
#[inline(always)]
unsafe fn row_moments<T: Element>(p: &NormParams, at: &[i64; slot::COUNT]) -> Moments<T::Acc> {
    let share = T::Acc::ONE / T::Acc::from_i64(p.n_inner);
    let x = |i: i64| load::<T>(p.x, at[slot::X] + offsets(&p.inner, i)[slot::X]);
    let mut high = T::Acc::ZERO;
    if p.has_mean != 0 {
        let first = x(0);
        high = first + sum(p.n_inner, |i| x(i) - first) * share;
    }
    moments(p.has_mean != 0, share, T::Acc::from_f64(p.epsilon), high, |scale, high, _| {
        let (mut differences, mut squares) = (T::Acc::ZERO, T::Acc::ZERO);
        for_each_lane(p.n_inner, |i| {
            let difference = x(i).mul_add(scale, -high);
            differences = differences + difference;
            squares = difference.mul_add(difference, squares);
        });
        [differences, squares].map(|own| join_lanes(own, |a, b| a + b))
    })
}

#[inline(always)]
fn normal_of<T: Element>(p: &NormParams, moments: &Moments<T::Acc>) -> Normal<T::Acc> {
    moments.normal(T::Acc::from_f64(p.epsilon), |x| T::Acc::ONE / x.sqrt())
}

/// Mean and inverse standard deviation that the host passed, or an earlier kernel left.
#[inline(always)]
unsafe fn given_statistics<T: Element>(p: &NormParams, offset: i64) -> (T::Acc, T::Acc) {
    let read = |address: u64| *(address as *const T::Acc).offset(offset as isize);
    (if p.has_mean != 0 { read(p.mean) } else { T::Acc::ZERO }, read(p.inv_std))
}

/// Writes them where they are asked for.
#[inline(always)]
unsafe fn store_statistics<T: Element>(p: &NormParams, at: &[i64; slot::COUNT], mean: T::Acc, normal: &Normal<T::Acc>) {
    let offset = at[slot::STATISTIC] as isize;
    if p.mean != 0 {
        *(p.mean as *mut T::Acc).offset(offset) = mean;
    }
    if p.inv_std != 0 {
        *(p.inv_std as *mut T::Acc).offset(offset) = normal.inv_std();
    }
    if p.rest != 0 {
        *(p.rest as *mut T::Acc).offset(offset) = normal.rest(mean);
    }
}

#[inline(always)]
unsafe fn update_running<T: Element>(p: &NormParams, address: u64, offset: i64, new: T::Acc) {
    let prior = parameter::<T>(address, p.running_is_wide, offset);
    let (keep, take) = (T::Acc::from_f64(1.0 - p.factor), T::Acc::from_f64(p.factor));
    write_parameter::<T>(address, p.running_is_wide, offset, keep * prior + take * new);
}

/// Writes y from x̂.
#[inline(always)]
unsafe fn finish<T: Element>(p: &NormParams, at: &[i64; slot::COUNT], to: &[i64; slot::COUNT], normal: T::Acc) {
    let mut sum = normal;
    if p.scale != 0 {
        sum = sum * parameter::<T>(p.scale, p.parameters_are_wide, at[slot::SCALE] + to[slot::SCALE]);
    }
    if p.bias != 0 {
        sum = sum + parameter::<T>(p.bias, p.parameters_are_wide, at[slot::BIAS] + to[slot::BIAS]);
    }
    if p.dy != 0 {
        sum = sum + load::<T>(p.dy, at[slot::DY] + to[slot::DY]);
    }
    let y = value(p.mode, T::Acc::from_f64(p.coefficient), sum);
    blend::<T>(p.out, at[slot::OUT] + to[slot::OUT], y, p.alpha, p.beta);
}

/// dy · act'.
#[inline(always)]
unsafe fn gradient<T: Element>(p: &NormParams, at: &[i64; slot::COUNT], to: &[i64; slot::COUNT]) -> T::Acc {
    let dy = load::<T>(p.dy, at[slot::DY] + to[slot::DY]);
    if p.y == 0 {
        return dy;
    }
    let y = load::<T>(p.y, at[slot::Y] + to[slot::Y]);
    dy * slope_of_value(p.mode, T::Acc::from_f64(p.coefficient), y)
}

/// A number of the element type, or of its accumulator's.
#[inline(always)]
unsafe fn parameter<T: Element>(address: u64, is_wide: u32, offset: i64) -> T::Acc {
    if is_wide != 0 { *(address as *const T::Acc).offset(offset as isize) } else { load::<T>(address, offset) }
}

#[inline(always)]
unsafe fn write_parameter<T: Element>(address: u64, is_wide: u32, offset: i64, value: T::Acc) {
    if is_wide != 0 {
        *(address as *mut T::Acc).offset(offset as isize) = value;
    } else {
        *(address as *mut T).offset(offset as isize) = T::narrow(value);
    }
}

/// Writes `alpha · result + beta · prior`.
#[inline(always)]
unsafe fn blend_parameter<T: Element>(p: &NormParams, address: u64, offset: i64, result: T::Acc) {
    let mut sum = T::Acc::from_f64(p.alpha) * result;
    if p.beta != 0.0 {
        let prior = parameter::<T>(address, p.parameters_are_wide, offset);
        sum = T::Acc::from_f64(p.beta).mul_add(prior, sum);
    }
    write_parameter::<T>(address, p.parameters_are_wide, offset, sum);
}
