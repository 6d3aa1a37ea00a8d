//! Statistics of rows, and y.

use super::place::{Place, elements, join_block, load, number, parameter, set_parameter, store};
use crate::math::element::Element;
use crate::math::vector::for_each;
use cuda_std::math::{max_nan_f32, min_nan_f32};
use cuda_std::thread::{grid_threads_1d, index_1d, lane_id};
use cuda_std::{shared_array, warp};
use kernel_abi::ops::norm::channelwise::{BLOCK, ChannelwiseParams, tensor};

const LANES: u32 = 32;

/// Number of elements, mean, sum of squared deviations from it.
type Moments = [f32; 3];

/// Those of both together.
#[inline(always)]
fn join(a: Moments, b: Moments) -> Moments {
    let n = a[0] + b[0];
    if b[0] == 0.0 {
        return a;
    }
    let (difference, share) = (b[1] - a[1], b[0] / n);
    [n, a[1] + difference * share, a[2] + b[2] + difference * difference * a[0] * share]
}

/// Mean and sum of squared deviations of every channel of a part.
pub unsafe fn statistics<T: Element<Acc = f32>, const V: usize>(p: &ChannelwiseParams) {
    let place = Place::new::<V>(p);
    let slots = shared_array![f32; 3 * BLOCK as usize];
    // Sums of differences from the thread's first elements: squares of large numbers would lose the digits of small ones.
    let mut origin = [0.0f32; V];
    let mut sums = [0.0f32; V];
    let mut squares = [0.0f32; V];
    let mut count = 0u32;
    place.walk(
        |_| (),
        |image, at| load::<T, V>(place.address::<T>(p, tensor::X, image, at)),
        |(), _, _, words| {
            let x = elements::<T, V>(&words);
            if count == 0 {
                origin = x;
            }
            count += 1;
            for_each!(I < V, {
                let difference = *x.get_unchecked(I) - *origin.get_unchecked(I);
                *sums.get_unchecked_mut(I) += difference;
                *squares.get_unchecked_mut(I) += difference * difference;
            });
        },
    );
    let n = count as f32;
    let moments = |i: usize| -> Moments {
        if count == 0 {
            return [0.0; 3];
        }
        let mean = *sums.get_unchecked(i) / n;
        let spread = *squares.get_unchecked(i) - *sums.get_unchecked(i) * mean;
        [n, *origin.get_unchecked(i) + mean, if spread < 0.0 { 0.0 } else { spread }]
    };
    let write = |channel: u32, [_, mean, squares]: Moments| {
        let to = (p.partials as *mut f32).add((place.part * p.share.channels + channel) as usize);
        *to = mean;
        *to.add((p.share.n_parts * p.share.channels) as usize) = squares;
    };
    let is_first = cuda_std::thread::thread_idx_x() < place.apart && place.there;
    if p.share.along_channels != 0 {
        for_each!(I < V, {
            let joined = join_block(slots, place.apart, moments(I), join);
            if is_first {
                write(place.channel + I as u32, joined);
            }
        });
    } else {
        let mut own = moments(0);
        for_each!(I < V, {
            if I > 0 {
                own = join(own, moments(I));
            }
        });
        let joined = join_block(slots, place.apart, own, join);
        if is_first {
            write(place.channel, joined);
        }
    }
}

/// Mean and inverse standard deviation of every row, and running statistics. A warp a row.
pub unsafe fn finish_statistics<T: Element<Acc = f32>, const V: usize>(p: &ChannelwiseParams) {
    let s = &p.share;
    let n_warps = (grid_threads_1d() / u64::from(LANES)) as u32;
    let mut row = (index_1d() / u64::from(LANES)) as u32;
    while row < p.n_rows {
        let (first_part, n_parts, first_channel) = parts_of_row(p, row);
        let channels = p.channels_per_row.divisor;
        let mut own = [0.0; 3];
        let mut i = lane_id();
        while i < n_parts * channels {
            let (part, channel) = p.channels_per_row.div_rem(i);
            let at = (first_part + part) * s.channels + first_channel + channel;
            let squares = number(p.partials, s.n_parts * s.channels + at);
            own = join(own, [s.part_elems(first_part + part) as f32, number(p.partials, at), squares]);
            i += LANES;
        }
        warp::sync_warp();
        let mut lane = LANES / 2;
        while lane > 0 {
            let other = own.map(|v| warp::shuffle_xor_f32(v, lane));
            // In one order for both lanes of a pair: they end with the same bits.
            own = if lane_id() & lane == 0 { join(own, other) } else { join(other, own) };
            lane /= 2;
        }
        if lane_id() == 0 {
            let variance = own[2] * p.row_share;
            *(p.mean as *mut f32).add(row as usize) = own[1];
            *(p.inv_std as *mut f32).add(row as usize) = 1.0 / cuda_std::math::sqrt_f32(variance + p.epsilon);
            if p.running_mean != 0 {
                let stride = p.parameter_strides[4];
                let update = |address: u64, new: f32| {
                    let prior = parameter::<T>(address, p.running_is_wide, stride, row, 0.0);
                    let blended = (1.0 - p.factor) * prior + p.factor * new;
                    set_parameter::<T>(address, p.running_is_wide, stride, row, blended);
                };
                update(p.running_mean, own[1]);
                update(p.running_var, p.correction * variance);
            }
        }
        row += n_warps;
    }
}

/// The parts of a row: the first, how many, and the first of their channels.
#[inline(always)]
pub fn parts_of_row(p: &ChannelwiseParams, row: u32) -> (u32, u32, u32) {
    let s = &p.share;
    let channels = p.channels_per_row.divisor;
    if s.by_image == 0 {
        return (0, s.n_parts, row * channels);
    }
    let rows = p.rows_per_image;
    // SAFETY: there is at least one row an image.
    let image = unsafe { core::intrinsics::unchecked_div(row, rows) };
    (image * s.chunks.divisor, s.chunks.divisor, (row - image * rows) * channels)
}

/// y by the statistics of its rows.
pub unsafe fn apply<T: Element<Acc = f32>, const V: usize>(p: &ChannelwiseParams) {
    let place = Place::new::<V>(p);
    let of_rows = |image: u32| {
        (
            place.each::<V>(p, |i| number(p.mean, place.row(p, image, i))),
            place.each::<V>(p, |i| number(p.inv_std, place.row(p, image, i))),
        )
    };
    finish::<T, V>(p, &place, of_rows);
}

/// y by running statistics, or none.
pub unsafe fn infer<T: Element<Acc = f32>, const V: usize>(p: &ChannelwiseParams) {
    let place = Place::new::<V>(p);
    let (wide, stride) = (p.running_is_wide, p.parameter_strides[4]);
    if !place.there {
        return;
    }
    let (mut mean, mut inv_std) = ([0.0; V], [1.0; V]);
    if p.running_mean != 0 {
        mean = place.each::<V>(p, |i| parameter::<T>(p.running_mean, wide, stride, place.channel + i, 0.0));
        inv_std = place.each::<V>(p, |i| {
            let variance = parameter::<T>(p.running_var, wide, stride, place.channel + i, 0.0);
            1.0 / cuda_std::math::sqrt_f32(variance + p.epsilon)
        });
    }
    finish::<T, V>(p, &place, |_| (mean, inv_std));
}

/// Writes y; `of_rows` gives an image's means and inverse standard deviations.
#[inline(always)]
unsafe fn finish<T: Element<Acc = f32>, const V: usize>(
    p: &ChannelwiseParams,
    place: &Place,
    of_rows: impl Fn(u32) -> ([f32; V], [f32; V]),
) {
    if !place.there {
        return;
    }
    let (wide, strides) = (p.parameters_are_wide, &p.parameter_strides);
    let scale = place.each::<V>(p, |i| parameter::<T>(p.scale, wide, strides[0], place.channel + i, 1.0));
    let bias = place.each::<V>(p, |i| parameter::<T>(p.bias, wide, strides[1], place.channel + i, 0.0));
    let has_z = p.addresses[tensor::DY] != 0;
    place.walk(
        |image| {
            let (mean, mut factor) = of_rows(image);
            for_each!(I < V, {
                *factor.get_unchecked_mut(I) *= *scale.get_unchecked(I);
            });
            (mean, factor)
        },
        |image, at| {
            let x = load::<T, V>(place.address::<T>(p, tensor::X, image, at));
            let z = if has_z { load::<T, V>(place.address::<T>(p, tensor::DY, image, at)) } else { [0; 4] };
            (x, z)
        },
        |(mean, factor), image, at, (x, z)| {
            let (mut y, z) = (elements::<T, V>(&x), elements::<T, V>(&z));
            for_each!(I < V, {
                let y = y.get_unchecked_mut(I);
                let normal = (*y - *mean.get_unchecked(I)) * *factor.get_unchecked(I);
                let sum = normal + *bias.get_unchecked(I) + *z.get_unchecked(I);
                *y = min_nan_f32(max_nan_f32(sum, p.low), p.high);
            });
            store::<T, V>(p, place.address::<T>(p, tensor::OUT, image, at), y);
        },
    );
}
