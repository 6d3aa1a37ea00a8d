//! Gradients: sums of parts, what rows and parameters make of them, and dx.

use super::forward::{FINISHED, PARTS, in_block, join_parts, pair, parts_of_row};
use super::join::{SLOTS, join_block};
use super::place::{LANES, Place, number, parameter, prefetch, set_parameter, store};
use crate::math::element::Element;
use crate::math::vector::{for_each, widened};
use cuda_std::thread::{block_idx_x, grid_dim_x, grid_threads_1d, index_1d, lane_id, sync_threads, thread_idx_x};
use cuda_std::{shared_array, warp};
use kernel_abi::ops::norm::channelwise::{BLOCK, ChannelwiseParams, tensor};

/// Places of a thread that are under way: of x and dy, and of y with them.
const OF_PAIRS: usize = 3;
const WITH_Y: usize = 2;

/// dy · act' of what x, dy, and y where there is an activation, have at a place.
#[inline(always)]
pub unsafe fn gradient<T: Element<Acc = f32>, const V: usize, const N: usize>(
    p: &ChannelwiseParams,
    words: &[[u32; 4]; N],
) -> [f32; V] {
    let mut g = widened::<T, V>(words.get_unchecked(1));
    if N > 2 {
        let y = widened::<T, V>(words.get_unchecked(N - 1));
        for_each!(I < V, {
            let y = *y.get_unchecked(I);
            // No number is at least a bound that is none.
            *g.get_unchecked_mut(I) *= if y > p.low && !(y >= p.high) { 1.0 } else { 0.0 };
        });
    }
    g
}

/// Numbers of shared memory that sums are joined in.
pub const SUM_SLOTS: usize = 2 * 8 * SLOTS;

/// What x̂ is more than (x - mean) · inv_std, of a vector's rows.
#[inline(always)]
unsafe fn rests<const V: usize>(p: &ChannelwiseParams, place: &Place) -> [f32; V] {
    if p.rest == 0 { [0.0; V] } else { place.of_rows::<V>(p, p.rest) }
}

/// Σ g and Σ g x̂ of a part: thread t has those of channel t of the block's. All threads of the block call it, with
/// [`SUM_SLOTS`] numbers of shared memory.
#[inline(always)]
unsafe fn part_sums<T: Element<Acc = f32>, const V: usize, const N: usize, const K: usize>(
    p: &ChannelwiseParams,
    place: &Place,
    tensors: [usize; N],
    slots: *mut f32,
) -> [f32; 2] {
    let mut sums = [[0.0f32; 2]; V];
    place.walk::<T, V, N, K, false, false, _>(
        p,
        tensors,
        || place.of_rows::<V>(p, p.mean),
        #[inline(always)]
        |mean, _, _, words| {
            let (x, g) = (widened::<T, V>(words.get_unchecked(0)), gradient::<T, V, N>(p, words));
            for_each!(I < V, {
                let [g_sum, gx_sum] = sums.get_unchecked_mut(I);
                *g_sum += *g.get_unchecked(I);
                *gx_sum += *g.get_unchecked(I) * (*x.get_unchecked(I) - *mean.get_unchecked(I));
            });
        },
    );
    if place.there {
        let (inv_std, rest) = (place.of_rows::<V>(p, p.inv_std), rests::<V>(p, place));
        for_each!(I < V, {
            let [g, gx] = sums.get_unchecked_mut(I);
            *gx = *gx * *inv_std.get_unchecked(I) + *g * *rest.get_unchecked(I);
        });
    }
    let add = #[inline(always)]
    |a: [f32; 2], b: [f32; 2]| [a[0] + b[0], a[1] + b[1]];
    if p.share.along_channels != 0 {
        return join_block::<V, 2>(slots, place.apart, sums, add);
    }
    let mut all = [0.0; 2];
    for_each!(I < V, {
        all = add(all, *sums.get_unchecked(I));
    });
    join_block::<1, 2>(slots, place.apart, [all], add)
}

/// With y where there is an activation.
#[inline(always)]
unsafe fn sums_of_part<T: Element<Acc = f32>, const V: usize>(
    p: &ChannelwiseParams,
    place: &Place,
    slots: *mut f32,
) -> [f32; 2] {
    if p.addresses[tensor::Y] == 0 {
        part_sums::<T, V, 2, OF_PAIRS>(p, place, [tensor::X, tensor::DY], slots)
    } else {
        part_sums::<T, V, 3, WITH_Y>(p, place, [tensor::X, tensor::DY, tensor::Y], slots)
    }
}

/// Σ g and Σ g x̂ of every channel of a part.
#[inline(always)]
pub unsafe fn gradient_sums<T: Element<Acc = f32>, const V: usize>(p: &ChannelwiseParams) {
    gradient_sums_in::<T, V>(p, shared_array![f32; SUM_SLOTS]);
}

/// The same, joined in `slots`, [`SUM_SLOTS`] numbers of shared memory.
#[inline(always)]
pub unsafe fn gradient_sums_in<T: Element<Acc = f32>, const V: usize>(p: &ChannelwiseParams, slots: *mut f32) {
    let place = Place::new::<V, false>(p);
    let [g, gx] = sums_of_part::<T, V>(p, &place, slots);
    if let Some(channel) = place.channel_of_thread::<V>(p) {
        let to = (p.partials as *mut f32).add((place.part * p.share.channels + channel) as usize);
        *to = g;
        *to.add((p.share.n_parts * p.share.channels) as usize) = gx;
    }
}

/// Whether what is added to dx holds the mean: of types whose own rounding is far more than what that costs.
#[inline(always)]
pub const fn holds_mean<T>() -> bool {
    size_of::<T>() <= 2
}

/// Leaves the slope of dx = slope · dy + tilt · (x - mean) + shift, of a channel that is a row, and gives shift and tilt, of
/// Σ h / m and Σ h x̂ / m.
#[inline(always)]
unsafe fn leave_slope<T>(p: &ChannelwiseParams, channel: u32, scale: f32, shift: f32, tilt: f32) -> (f32, f32) {
    let (mean, inv_std) = (number(p.mean, channel), number(p.inv_std, channel));
    *(p.slope as *mut f32).add(channel as usize) = scale * inv_std;
    let rest = if p.rest == 0 { 0.0 } else { number(p.rest, channel) };
    let (shift, tilt) = (-(shift + tilt * rest) * inv_std, -tilt * inv_std * inv_std);
    (if holds_mean::<T>() { shift - tilt * mean } else { shift }, tilt)
}

/// The same where every channel is a row: a block some channels.
#[inline(always)]
unsafe fn finish_gradients_of_channels<T: Element<Acc = f32>>(p: &ChannelwiseParams) {
    let slots = shared_array![f32; 2 * SLOTS];
    let mut first = block_idx_x() * FINISHED;
    while first < p.share.channels {
        let add = #[inline(always)]
        |a: [f32; 2], b: [f32; 2]| [a[0] + b[0], a[1] + b[1]];
        let channel = first + thread_idx_x();
        let finishes = thread_idx_x() < FINISHED && channel < p.share.channels;
        if finishes {
            prefetch::<T>(p.scale, p.parameters_are_wide, p.parameter_strides[0], channel);
            if p.slope != 0 {
                prefetch::<T>(p.mean, 1, 1, channel);
                prefetch::<T>(p.inv_std, 1, 1, channel);
            }
        }
        let [g, gx] = join_parts::<2>(p, first, slots, |pair, _| pair, add);
        if finishes {
            let scale = parameter::<T>(p.scale, p.parameters_are_wide, p.parameter_strides[0], channel, 1.0);
            let share = scale * p.row_share;
            let (mut shift, mut tilt) = (share * g, share * gx);
            if p.slope != 0 {
                (shift, tilt) = leave_slope::<T>(p, channel, scale, shift, tilt);
            }
            *(p.shift as *mut f32).add(channel as usize) = shift;
            *(p.tilt as *mut f32).add(channel as usize) = tilt;
            blend::<T>(p, p.dscale, p.parameter_strides[2], channel, gx);
            blend::<T>(p, p.dbias, p.parameter_strides[3], channel, g);
        }
        first += grid_dim_x() * FINISHED;
    }
}

/// Σ h / m and Σ h x̂ / m of every row, dscale and dbias of every channel. A warp a row, then a warp a channel.
#[inline(always)]
pub unsafe fn finish_gradients<T: Element<Acc = f32>, const V: usize>(p: &ChannelwiseParams) {
    if p.finishes_channels() {
        return finish_gradients_of_channels::<T>(p);
    }
    let s = &p.share;
    let (wide, strides) = (p.parameters_are_wide, &p.parameter_strides);
    let n_warps = (grid_threads_1d() / u64::from(LANES)) as u32;
    let second = u64::from(s.n_parts) * u64::from(s.channels);
    let of_channels = p.channels_per_parameter;
    let wants_parameters = p.dscale != 0 || p.dbias != 0;
    let n_items = p.n_rows + if wants_parameters { of_channels.div_rem(s.channels).0 } else { 0 };
    let mut item = (index_1d() / u64::from(LANES)) as u32;
    while item < n_items {
        let of_row = item < p.n_rows;
        let (first_part, n_parts, first_channel) =
            if of_row { parts_of_row(p, item) } else { (0, s.n_parts, (item - p.n_rows) * of_channels.divisor) };
        let channels = if of_row { p.channels_per_row } else { of_channels };
        let n = n_parts * channels.divisor;
        let (mut g, mut gx) = (0.0f32, 0.0f32);
        let mut i = lane_id();
        while i < n {
            let mut loaded = [[0.0f32; 2]; PARTS];
            for_each!(J < PARTS, {
                let k = i + J as u32 * LANES;
                let (part, channel) = channels.div_rem(k);
                let at = u64::from((first_part + part) * s.channels + first_channel + channel);
                *loaded.get_unchecked_mut(J) = pair(p, at, second, k < n);
            });
            for_each!(J < PARTS, {
                let k = i + J as u32 * LANES;
                let index = of_channels.div_rem(first_channel + channels.div_rem(k).1).0;
                let factor = if of_row && k < n { parameter::<T>(p.scale, wide, strides[0], index, 1.0) } else { 1.0 };
                let [of_g, of_gx] = *loaded.get_unchecked(J);
                g += factor * of_g;
                gx += factor * of_gx;
            });
            i += PARTS as u32 * LANES;
        }
        warp::sync_warp();
        let (g, gx) = (warp::sum_f32(g), warp::sum_f32(gx));
        if lane_id() == 0 {
            if of_row {
                *(p.shift as *mut f32).add(item as usize) = g * p.row_share;
                *(p.tilt as *mut f32).add(item as usize) = gx * p.row_share;
            } else {
                blend::<T>(p, p.dscale, strides[2], item - p.n_rows, gx);
                blend::<T>(p, p.dbias, strides[3], item - p.n_rows, g);
            }
        }
        item += n_warps;
    }
}

/// Writes `alpha · result + beta · prior` where that is wanted.
#[inline(always)]
pub unsafe fn blend<T: Element<Acc = f32>>(
    p: &ChannelwiseParams,
    address: u64,
    stride: i64,
    channel: u32,
    result: f32,
) {
    if address == 0 {
        return;
    }
    let wide = p.parameters_are_wide;
    let mut value = p.alpha * result;
    if p.beta != 0.0 {
        value += p.beta * parameter::<T>(address, wide, stride, channel, 0.0);
    }
    set_parameter::<T>(address, wide, stride, channel, value);
}

/// dx and dz.
#[inline(always)]
pub unsafe fn apply_gradients<T: Element<Acc = f32>, const V: usize>(p: &ChannelwiseParams) {
    let place = Place::new::<V, true>(p);
    finish::<T, V>(p, &place, || (place.of_rows(p, p.shift), place.of_rows(p, p.tilt)));
}

/// Sums, dscale and dbias, and dx and dz, where a block has all of its channels' rows, each of one channel.
#[inline(always)]
pub unsafe fn whole_backward<T: Element<Acc = f32>, const V: usize>(p: &ChannelwiseParams) {
    let place = Place::new::<V, false>(p);
    let rows = shared_array![f32; 2 * BLOCK as usize];
    let (wide, strides) = (p.parameters_are_wide, &p.parameter_strides);
    if let Some(channel) = place.channel_of_thread::<V>(p) {
        prefetch::<T>(p.scale, wide, strides[0], channel);
    }
    let [g, gx] = sums_of_part::<T, V>(p, &place, shared_array![f32; SUM_SLOTS]);
    if let Some(channel) = place.channel_of_thread::<V>(p) {
        blend::<T>(p, p.dscale, strides[2], channel, gx);
        blend::<T>(p, p.dbias, strides[3], channel, g);
        let share = parameter::<T>(p.scale, wide, strides[0], channel, 1.0) * p.row_share;
        *rows.add(thread_idx_x() as usize) = share * g;
        *rows.add((BLOCK + thread_idx_x()) as usize) = share * gx;
    }
    sync_threads();
    let first = place.first_of_thread::<V>(p);
    finish::<T, V>(p, &place, || (in_block::<V>(p, rows, first), in_block::<V>(p, rows, BLOCK + first)));
}

/// Writes dx and dz; `sums` gives Σ h / m and Σ h x̂ / m.
#[inline(always)]
unsafe fn finish<T: Element<Acc = f32>, const V: usize>(
    p: &ChannelwiseParams,
    place: &Place,
    sums: impl Fn() -> ([f32; V], [f32; V]),
) {
    if p.addresses[tensor::Y] == 0 {
        finish_some::<T, V, 2, OF_PAIRS>(p, place, [tensor::X, tensor::DY], sums);
    } else {
        finish_some::<T, V, 3, WITH_Y>(p, place, [tensor::X, tensor::DY, tensor::Y], sums);
    }
}

/// With or without y.
#[inline(always)]
unsafe fn finish_some<T: Element<Acc = f32>, const V: usize, const N: usize, const K: usize>(
    p: &ChannelwiseParams,
    place: &Place,
    tensors: [usize; N],
    sums: impl Fn() -> ([f32; V], [f32; V]),
) {
    let (wide, stride) = (p.parameters_are_wide, p.parameter_strides[0]);
    place.walk::<T, V, N, K, true, false, _>(
        p,
        tensors,
        || {
            // dx = factor g - shift - tilt (x - mean), with factors that hold what a channel's elements share.
            let (mut shift, mut tilt) = sums();
            let (inv_std, rest) = (place.of_rows::<V>(p, p.inv_std), rests::<V>(p, place));
            let mut factor = place.parameters::<T, V>(p, p.scale, wide, stride, 1.0);
            for_each!(I < V, {
                let inv_std = *inv_std.get_unchecked(I);
                *factor.get_unchecked_mut(I) *= inv_std;
                let shift = shift.get_unchecked_mut(I);
                *shift = (*shift + *tilt.get_unchecked(I) * *rest.get_unchecked(I)) * inv_std;
                *tilt.get_unchecked_mut(I) *= inv_std;
                *tilt.get_unchecked_mut(I) *= inv_std;
            });
            (place.of_rows::<V>(p, p.mean), factor, shift, tilt)
        },
        #[inline(always)]
        |(mean, factor, shift, tilt), image, at, words| {
            let (x, g) = (widened::<T, V>(words.get_unchecked(0)), gradient::<T, V, N>(p, words));
            let mut dx = g;
            for_each!(I < V, {
                let from_mean = *x.get_unchecked(I) - *mean.get_unchecked(I);
                let dx = dx.get_unchecked_mut(I);
                *dx = *factor.get_unchecked(I) * *dx - *shift.get_unchecked(I) - *tilt.get_unchecked(I) * from_mean;
            });
            store::<T, V>(p, place.address::<T>(p, tensor::OUT, image, at), dx);
            if p.addresses[tensor::DZ] != 0 {
                store::<T, V>(p, place.address::<T>(p, tensor::DZ, image, at), g);
            }
        },
    );
}
