//! Statistics of rows, and y.

use super::join::{SLOTS, join_block};
use super::place::{LANES, Place, neighbours, parameter, prefetch, set_parameter, store, store_where};
use super::rows::{OfRow, image_of_row, pivot, pivots, settle};
use crate::math::approximate::{inverse_sqrt, inverse_sqrts};
use crate::math::element::Element;
use crate::math::vector::{for_each, widened};
use core::intrinsics::unchecked_div;
use cuda_std::math::{max_nan_f32, min_nan_f32, reciprocal_approx};
use cuda_std::thread::{block_idx_x, grid_dim_x, grid_threads_1d, index_1d, lane_id, sync_threads, thread_idx_x};
use cuda_std::{guarded, shared_array, warp};
use kernel_abi::ops::norm::channelwise::{BLOCK, ChannelwiseParams, RUN, tensor};

/// Number of elements, mean less the channel's pivot, sum of squared deviations from it.
///
/// The pivot is x at the first position, of the image whose statistics are its own: all threads and blocks know it. What is
/// left of the mean is of the size of differences, and keeps their digits.
type Moments = [f32; 3];

/// Those of both together.
#[inline(always)]
fn join(a: Moments, b: Moments) -> Moments {
    if b[0] == 0.0 {
        return a;
    }
    if a[0] == 0.0 {
        return b;
    }
    let n = a[0] + b[0];
    // A share of a difference need not be exact to the last bit.
    let (difference, share) = (b[1] - a[1], b[0] * reciprocal_approx(n));
    [n, a[1] + difference * share, a[2] + b[2] + difference * difference * a[0] * share]
}

/// Vectors of a thread that are under way: of x alone, and of x and z.
const ALONE: usize = 4;
/// Of x alone where nothing is read again, twice: some are loaded while others are written.
const ONCE: usize = 3;
const WITH_Z: usize = 2;

/// Numbers of shared memory that moments are joined in.
pub const MOMENT_SLOTS: usize = 3 * 8 * SLOTS;

/// The moments of a part: thread t has those of channel t of the block's. All threads of the block call it, with
/// [`MOMENT_SLOTS`] numbers of shared memory.
#[inline(always)]
unsafe fn part_moments<T: Element<Acc = f32>, const V: usize>(
    p: &ChannelwiseParams,
    place: &Place,
    slots: *mut f32,
) -> Moments {
    // Sums of differences from the thread's first elements: squares of large numbers would lose the digits of small ones.
    let pivots = if place.there { pivots::<T, V>(p, place) } else { [0; 4] };
    let mut origin = [0.0f32; V];
    let mut sums = [0.0f32; V];
    let mut squares = [0.0f32; V];
    let mut count = 0u32;
    place.walk::<T, V, 1, ALONE, false, false, ()>(
        p,
        [tensor::X],
        || (),
        #[inline(always)]
        |_, _, _, words| {
            let x = widened::<T, V>(words.get_unchecked(0));
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
    let each = 1.0 / n;
    let pivots = widened::<T, V>(&pivots);
    let moments = #[inline(always)]
    |i: usize| -> Moments {
        if count == 0 {
            return [0.0; 3];
        }
        let mean = *sums.get_unchecked(i) * each;
        let spread = *squares.get_unchecked(i) - *sums.get_unchecked(i) * mean;
        let pivot = *pivots.get_unchecked(if p.share.along_channels != 0 { i } else { 0 });
        [n, (*origin.get_unchecked(i) - pivot) + mean, if spread < 0.0 { 0.0 } else { spread }]
    };
    let mut own = [[0.0; 3]; V];
    for_each!(I < V, {
        *own.get_unchecked_mut(I) = moments(I);
    });
    if p.share.along_channels != 0 {
        return join_block::<V, 3>(slots, place.apart, own, join);
    }
    let mut all = *own.get_unchecked(0);
    for_each!(I < V, {
        if I > 0 {
            all = join(all, *own.get_unchecked(I));
        }
    });
    join_block::<1, 3>(slots, place.apart, [all], join)
}

/// Mean and sum of squared deviations of every channel of a part.
#[inline(always)]
pub unsafe fn statistics<T: Element<Acc = f32>, const V: usize>(p: &ChannelwiseParams) {
    statistics_in::<T, V>(p, shared_array![f32; MOMENT_SLOTS]);
}

/// The same, joined in `slots`, [`MOMENT_SLOTS`] numbers of shared memory.
#[inline(always)]
pub unsafe fn statistics_in<T: Element<Acc = f32>, const V: usize>(p: &ChannelwiseParams, slots: *mut f32) {
    let place = Place::new::<V, false>(p);
    let [_, mean, squares] = part_moments::<T, V>(p, &place, slots);
    if let Some(channel) = place.channel_of_thread::<V>(p) {
        let to = (p.partials as *mut f32).add((place.part * p.share.channels + channel) as usize);
        *to = mean;
        *to.add((p.share.n_parts * p.share.channels) as usize) = squares;
    }
}

/// Channels of a block, and the parts of each that a thread has under way, where every channel is a row: all that a wave
/// of blocks makes on a large GPU.
pub const FINISHED: u32 = 8;
const FINISHED_PARTS: usize = 13;

/// What all parts of some channels have together: thread t ends with that of channel `first + t`. Neighbouring threads
/// read neighbouring channels. All threads of the block call it.
#[inline(always)]
pub unsafe fn join_parts<const N: usize>(
    p: &ChannelwiseParams,
    first: u32,
    slots: *mut f32,
    from: impl Fn([f32; 2], u32) -> [f32; N],
    join: impl Fn([f32; N], [f32; N]) -> [f32; N],
) -> [f32; N] {
    const STEP: u32 = BLOCK / FINISHED;
    let s = &p.share;
    let channel = first + thread_idx_x() % FINISHED;
    let second = u64::from(s.n_parts) * u64::from(s.channels);
    let mut own = [0.0; N];
    let mut part = thread_idx_x() / FINISHED;
    while part < s.n_parts {
        let mut loaded = [[0.0f32; 2]; FINISHED_PARTS];
        for_each!(J < FINISHED_PARTS, {
            let part = part + J as u32 * STEP;
            let there = part < s.n_parts && channel < s.channels;
            *loaded.get_unchecked_mut(J) = pair(p, u64::from(part * s.channels + channel), second, there);
        });
        for_each!(J < FINISHED_PARTS, {
            let part = part + J as u32 * STEP;
            if part < s.n_parts {
                own = join(own, from(*loaded.get_unchecked(J), part));
            }
        });
        part += FINISHED_PARTS as u32 * STEP;
    }
    // What was read before is read no more.
    sync_threads();
    join_block::<1, N>(slots, FINISHED, [own], join)
}

/// The same where every channel is a row: a block some channels.
#[inline(always)]
unsafe fn finish_statistics_of_channels<T: Element<Acc = f32>>(p: &ChannelwiseParams) {
    let slots = shared_array![f32; 3 * SLOTS];
    let mut first = block_idx_x() * FINISHED;
    while first < p.share.channels {
        let moments = |[mean, squares]: [f32; 2], part: u32| [p.share.part_elems(part) as f32, mean, squares];
        let channel = first + thread_idx_x();
        let finishes = thread_idx_x() < FINISHED && channel < p.share.channels;
        if finishes {
            prefetch_running::<T>(p, channel);
        }
        let own = join_parts::<3>(p, first, slots, moments, join);
        let of_channel = if finishes { pivot::<T>(p, 0, channel) } else { 0.0 };
        let of_row = settle::<T>(p, channel, of_channel, own, finishes, true);
        if finishes {
            finish_row::<T>(p, channel, &of_row);
        }
        first += grid_dim_x() * FINISHED;
    }
}

/// Mean and inverse standard deviation of every row, and running statistics. A warp a row.
#[inline(always)]
pub unsafe fn finish_statistics<T: Element<Acc = f32>, const V: usize>(p: &ChannelwiseParams) {
    if p.finishes_channels() {
        return finish_statistics_of_channels::<T>(p);
    }
    let s = &p.share;
    let n_warps = (grid_threads_1d() / u64::from(LANES)) as u32;
    let second = u64::from(s.n_parts) * u64::from(s.channels);
    let mut row = (index_1d() / u64::from(LANES)) as u32;
    while row < p.n_rows {
        let (first_part, n_parts, first_channel) = parts_of_row(p, row);
        let n = n_parts * p.channels_per_row.divisor;
        let part = |i: u32| {
            let (part, channel) = p.channels_per_row.div_rem(i);
            (first_part + part, first_channel + channel)
        };
        let image = image_of_row(p, row);
        let of_row = pivot::<T>(p, image, first_channel);
        let mut own = [0.0; 3];
        let mut i = lane_id();
        while i < n {
            let mut loaded = [[0.0f32; 2]; PARTS];
            for_each!(J < PARTS, {
                let k = i + J as u32 * LANES;
                let (part, channel) = part(k);
                *loaded.get_unchecked_mut(J) = pair(p, u64::from(part * s.channels + channel), second, k < n);
            });
            for_each!(J < PARTS, {
                let k = i + J as u32 * LANES;
                if k < n {
                    let [mut mean, squares] = *loaded.get_unchecked(J);
                    let (part, channel) = part(k);
                    if channel != first_channel {
                        mean += pivot::<T>(p, image, channel) - of_row;
                    }
                    own = join(own, [s.part_elems(part) as f32, mean, squares]);
                }
            });
            i += PARTS as u32 * LANES;
        }
        warp::sync_warp();
        let mut lane = LANES / 2;
        while lane > 0 {
            let other = own.map(|v| warp::shuffle_xor_f32(v, lane));
            // In one order for both lanes of a pair: they end with the same bits.
            own = if lane_id() & lane == 0 { join(own, other) } else { join(other, own) };
            lane /= 2;
        }
        let of_row = settle::<T>(p, row, of_row, own, lane_id() == 0, true);
        if lane_id() == 0 {
            finish_row::<T>(p, row, &of_row);
        }
        row += n_warps;
    }
}

/// Parts that a thread has under way.
pub const PARTS: usize = 4;

/// Both numbers of a part and channel, which lie `second` apart; zeros where it is not there.
#[inline(always)]
pub unsafe fn pair(p: &ChannelwiseParams, at: u64, second: u64, there: bool) -> [f32; 2] {
    let read = |at: u64| {
        let [bits] = guarded::load_x1(p.partials + at * 4, u32::from(there));
        f32::from_bits(bits)
    };
    [read(at), read(at + second)]
}

/// Writes a row's statistics.
#[inline(always)]
pub unsafe fn finish_row<T: Element<Acc = f32>>(p: &ChannelwiseParams, row: u32, known: &OfRow) {
    *(p.mean as *mut f32).add(row as usize) = known.mean;
    *(p.inv_std as *mut f32).add(row as usize) = known.inv_std;
    if p.rest != 0 {
        *(p.rest as *mut f32).add(row as usize) = known.shift;
    }
    if p.running_mean != 0 {
        let (wide, stride) = (p.running_is_wide, p.parameter_strides[4]);
        const RUNNING: usize = 2;
        let running: [_; RUNNING] = [(p.running_mean, known.mean), (p.running_var, p.correction * known.variance)];
        // Both are read before one is written.
        let priors = running.map(|(address, _)| parameter::<T>(address, wide, stride, row, 0.0));
        for_each!(I < RUNNING, {
            let (address, new) = running[I];
            set_parameter::<T>(address, wide, stride, row, (1.0 - p.factor) * priors[I] + p.factor * new);
        });
    }
}

/// Brings near what [`finish_row`] reads.
#[inline(always)]
pub unsafe fn prefetch_running<T>(p: &ChannelwiseParams, row: u32) {
    prefetch::<T>(p.running_mean, p.running_is_wide, p.parameter_strides[4], row);
    prefetch::<T>(p.running_var, p.running_is_wide, p.parameter_strides[4], row);
}

/// Statistics and y, where a block has all of its channels' rows.
#[inline(always)]
pub unsafe fn whole_forward<T: Element<Acc = f32>, const V: usize>(p: &ChannelwiseParams) {
    let place = Place::new::<V, false>(p);
    let rows = shared_array![f32; 3 * BLOCK as usize];
    if let Some(channel) = place.channel_of_thread::<V>(p) {
        prefetch::<T>(p.scale, p.parameters_are_wide, p.parameter_strides[0], channel);
        prefetch::<T>(p.bias, p.parameters_are_wide, p.parameter_strides[1], channel);
        prefetch_running::<T>(p, place.images[0] * p.rows_per_image + channel);
    }
    let moments = part_moments::<T, V>(p, &place, shared_array![f32; MOMENT_SLOTS]);
    let channel = place.channel_of_thread::<V>(p);
    let row = place.images[0] * p.rows_per_image + channel.unwrap_or(0);
    let of_channel = channel.map_or(0.0, |channel| pivot::<T>(p, image_of_row(p, row), channel));
    let of_row = settle::<T>(p, row, of_channel, moments, channel.is_some(), true);
    if channel.is_some() {
        finish_row::<T>(p, row, &of_row);
        *rows.add(thread_idx_x() as usize) = of_row.mean;
        *rows.add((BLOCK + thread_idx_x()) as usize) = of_row.inv_std;
        *rows.add((2 * BLOCK + thread_idx_x()) as usize) = of_row.shift;
    }
    sync_threads();
    let first = place.first_of_thread::<V>(p);
    let statistics = #[inline(always)]
    |which: u32| in_block::<V>(p, rows, which * BLOCK + first);
    finish::<T, V, true>(p, &place, statistics);
}

/// What a vector's channels have in shared memory, the first at `first`.
#[inline(always)]
pub unsafe fn in_block<const V: usize>(p: &ChannelwiseParams, rows: *const f32, first: u32) -> [f32; V] {
    let apart = u32::from(p.share.along_channels != 0);
    let mut values = [0.0; V];
    for_each!(I < V, {
        *values.get_unchecked_mut(I) = *rows.add((first + I as u32 * apart) as usize);
    });
    values
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
    let image = unsafe { unchecked_div(row, rows) };
    (image * s.chunks.divisor, s.chunks.divisor, (row - image * rows) * channels)
}

/// y by the statistics of its rows.
#[inline(always)]
pub unsafe fn apply<T: Element<Acc = f32>, const V: usize>(p: &ChannelwiseParams) {
    let place = Place::new::<V, true>(p);
    let statistics = #[inline(always)]
    |which: u32| match which {
        MEAN => place.of_rows::<V>(p, p.mean),
        INV_STD => place.of_rows::<V>(p, p.inv_std),
        _ => place.of_rows::<V>(p, p.rest),
    };
    finish::<T, V, true>(p, &place, statistics);
}

/// y by running statistics.
#[inline(always)]
pub unsafe fn infer<T: Element<Acc = f32>, const V: usize>(p: &ChannelwiseParams) {
    let place = Place::new::<V, false>(p);
    finish::<T, V, false>(p, &place, |which| running::<T, V>(p, &place, which));
}

/// The same by blocks that have a short run of positions each, as those of a copy: no loop, and so fewer registers and
/// more warps at a time. Single elements are left to blocks that stay.
#[inline(always)]
pub unsafe fn infer_runs<T: Element<Acc = f32>, const V: usize>(p: &ChannelwiseParams) {
    if V == 1 {
        return infer::<T, V>(p);
    }
    write_run::<T, V, true>(p, &Place::of_run::<V, false>(p));
}

/// [`apply`] by such blocks, the last positions first.
#[inline(always)]
pub unsafe fn apply_runs<T: Element<Acc = f32>, const V: usize>(p: &ChannelwiseParams) {
    if V == 1 {
        return apply::<T, V>(p);
    }
    write_run::<T, V, false>(p, &Place::of_run::<V, true>(p));
}

/// With or without z.
#[inline(always)]
unsafe fn write_run<T: Element<Acc = f32>, const V: usize, const INFERS: bool>(p: &ChannelwiseParams, place: &Place) {
    if p.addresses[tensor::DY] == 0 {
        write_places::<T, V, INFERS, 1, { 2 * RUN as usize }>(p, place, [tensor::X]);
    } else {
        write_places::<T, V, INFERS, 2, { RUN as usize }>(p, place, [tensor::X, tensor::DY]);
    }
}

/// At `K` places.
#[inline(always)]
unsafe fn write_places<T: Element<Acc = f32>, const V: usize, const INFERS: bool, const N: usize, const K: usize>(
    p: &ChannelwiseParams,
    place: &Place,
    tensors: [usize; N],
) {
    place.once::<T, V, N, K, _>(
        p,
        tensors,
        tensor::OUT,
        || of_run_channels::<T, V, INFERS>(p, place.channel),
        #[inline(always)]
        |of_channels, to, words, there| store_where::<T, V>(p, to, result::<T, V, N>(p, of_channels, words), there),
    );
}

/// What is known of a vector's channels, each a row: all of it is there, f32 in the channels' order at multiples of 16, and
/// under way at once.
#[inline(always)]
unsafe fn of_run_channels<T: Element<Acc = f32>, const V: usize, const INFERS: bool>(
    p: &ChannelwiseParams,
    channel: u32,
) -> OfChannels<V> {
    let (mean, spread) = if INFERS { (p.running_mean, p.running_var) } else { (p.mean, p.inv_std) };
    let at = u64::from(channel) * 4;
    let (mut factor, mean) = (neighbours::<V>(spread + at), neighbours::<V>(mean + at));
    let (scale, mut bias) = (neighbours::<V>(p.scale + at), neighbours::<V>(p.bias + at));
    if !INFERS {
        let shift = neighbours::<V>(p.rest + at);
        for_each!(I < V, {
            *bias.get_unchecked_mut(I) += *shift.get_unchecked(I) * *scale.get_unchecked(I);
        });
    }
    if INFERS {
        for_each!(I < V, {
            *factor.get_unchecked_mut(I) += p.epsilon;
        });
        factor = inverse_sqrts(factor);
    }
    for_each!(I < V, {
        *factor.get_unchecked_mut(I) *= *scale.get_unchecked(I);
    });
    (mean, factor, bias)
}

/// Means and inverse standard deviations by running statistics, 0 and 1 where there are none; and no shift.
#[inline(always)]
unsafe fn running<T: Element<Acc = f32>, const V: usize>(p: &ChannelwiseParams, place: &Place, which: u32) -> [f32; V] {
    let (wide, stride) = (p.running_is_wide, p.parameter_strides[4]);
    match which {
        MEAN if p.running_mean != 0 => place.parameters::<T, V>(p, p.running_mean, wide, stride, 0.0),
        INV_STD if p.running_mean != 0 => {
            let mut inv_std = place.parameters::<T, V>(p, p.running_var, wide, stride, 0.0);
            for_each!(I < V, {
                let variance = inv_std.get_unchecked_mut(I);
                *variance = inverse_sqrt(*variance + p.epsilon);
            });
            inv_std
        }
        INV_STD => [1.0; V],
        _ => [0.0; V],
    }
}

/// What is asked of statistics: the means of a vector's rows, their inverse standard deviations, and what is added to x̂.
const MEAN: u32 = 0;
const INV_STD: u32 = 1;
const SHIFT: u32 = 2;

/// Writes y; `statistics` gives one of [`MEAN`], [`INV_STD`] and [`SHIFT`].
#[inline(always)]
unsafe fn finish<T: Element<Acc = f32>, const V: usize, const LAST_FIRST: bool>(
    p: &ChannelwiseParams,
    place: &Place,
    statistics: impl Fn(u32) -> [f32; V],
) {
    if p.addresses[tensor::DY] == 0 && !LAST_FIRST {
        finish_some::<T, V, 1, ONCE, LAST_FIRST, true>(p, place, [tensor::X], statistics);
    } else if p.addresses[tensor::DY] == 0 {
        finish_some::<T, V, 1, ALONE, LAST_FIRST, false>(p, place, [tensor::X], statistics);
    } else {
        finish_some::<T, V, 2, WITH_Z, LAST_FIRST, false>(p, place, [tensor::X, tensor::DY], statistics);
    }
}

/// With or without z, where so many vectors of each are under way.
#[inline(always)]
unsafe fn finish_some<
    T: Element<Acc = f32>,
    const V: usize,
    const N: usize,
    const K: usize,
    const LAST_FIRST: bool,
    const AHEAD: bool,
>(
    p: &ChannelwiseParams,
    place: &Place,
    tensors: [usize; N],
    statistics: impl Fn(u32) -> [f32; V],
) {
    let begin = || of_channels::<T, V>(p, place, &statistics);
    place.walk::<T, V, N, K, LAST_FIRST, AHEAD, _>(
        p,
        tensors,
        begin,
        #[inline(always)]
        |of_channels, image, at, words| {
            let to = place.address::<T>(p, tensor::OUT, image, at);
            store::<T, V>(p, to, result::<T, V, N>(p, of_channels, words));
        },
    );
}

/// Means, factors and biases of a vector's channels.
type OfChannels<const V: usize> = ([f32; V], [f32; V], [f32; V]);

/// Those, by [`finish`]'s statistics: one vector of these at a time takes the fewest registers.
#[inline(always)]
unsafe fn of_channels<T: Element<Acc = f32>, const V: usize>(
    p: &ChannelwiseParams,
    place: &Place,
    statistics: &impl Fn(u32) -> [f32; V],
) -> OfChannels<V> {
    let (wide, strides) = (p.parameters_are_wide, &p.parameter_strides);
    let mut factor = place.parameters::<T, V>(p, p.scale, wide, strides[0], 1.0);
    let mut bias = statistics(SHIFT);
    let given = place.parameters::<T, V>(p, p.bias, wide, strides[1], 0.0);
    for_each!(I < V, {
        let bias = bias.get_unchecked_mut(I);
        *bias = *bias * *factor.get_unchecked(I) + *given.get_unchecked(I);
    });
    let inv_std = statistics(INV_STD);
    for_each!(I < V, {
        *factor.get_unchecked_mut(I) *= *inv_std.get_unchecked(I);
    });
    (statistics(MEAN), factor, bias)
}

/// y, of x's vector, and z's if `N` is 2.
#[inline(always)]
unsafe fn result<T: Element<Acc = f32>, const V: usize, const N: usize>(
    p: &ChannelwiseParams,
    (mean, factor, bias): &OfChannels<V>,
    words: &[[u32; 4]; N],
) -> [f32; V] {
    let mut y = widened::<T, V>(words.get_unchecked(0));
    for_each!(I < V, {
        let y = y.get_unchecked_mut(I);
        *y = (*y - *mean.get_unchecked(I)) * *factor.get_unchecked(I) + *bias.get_unchecked(I);
    });
    if N > 1 {
        let z = widened::<T, V>(words.get_unchecked(N - 1));
        for_each!(I < V, {
            *y.get_unchecked_mut(I) += *z.get_unchecked(I);
        });
    }
    for_each!(I < V, {
        let y = y.get_unchecked_mut(I);
        *y = min_nan_f32(max_nan_f32(*y, p.low), p.high);
    });
    y
}
