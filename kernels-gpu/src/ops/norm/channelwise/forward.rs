//! Statistics of rows, and y.

use super::join::{SLOTS, join_block};
use super::place::{LANES, Place, neighbours, parameter, prefetch, set_parameter, store, store_where};
use crate::math::approximate::{inverse_sqrt, inverse_sqrts};
use crate::math::element::Element;
use crate::math::vector::{for_each, widened};
use cuda_std::math::{max_nan_f32, min_nan_f32, reciprocal_approx};
use cuda_std::thread::{block_idx_x, grid_dim_x, grid_threads_1d, index_1d, lane_id, sync_threads, thread_idx_x};
use cuda_std::{guarded, shared_array, warp};
use kernel_abi::ops::norm::channelwise::{BLOCK, ChannelwiseParams, RUN, tensor};

/// Number of elements, mean, sum of squared deviations from it.
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
    let moments = #[inline(always)]
    |i: usize| -> Moments {
        if count == 0 {
            return [0.0; 3];
        }
        let mean = *sums.get_unchecked(i) * each;
        let spread = *squares.get_unchecked(i) - *sums.get_unchecked(i) * mean;
        [n, *origin.get_unchecked(i) + mean, if spread < 0.0 { 0.0 } else { spread }]
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
        if finishes {
            finish_row::<T>(p, channel, own);
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
                    let [mean, squares] = *loaded.get_unchecked(J);
                    own = join(own, [s.part_elems(part(k).0) as f32, mean, squares]);
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
        if lane_id() == 0 {
            finish_row::<T>(p, row, own);
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

/// Writes a row's statistics; gives its mean and inverse standard deviation.
#[inline(always)]
pub unsafe fn finish_row<T: Element<Acc = f32>>(
    p: &ChannelwiseParams,
    row: u32,
    [_, mean, squares]: Moments,
) -> [f32; 2] {
    let variance = squares * p.row_share;
    let inv_std = inverse_sqrt(variance + p.epsilon);
    *(p.mean as *mut f32).add(row as usize) = mean;
    *(p.inv_std as *mut f32).add(row as usize) = inv_std;
    if p.running_mean != 0 {
        let (wide, stride) = (p.running_is_wide, p.parameter_strides[4]);
        const RUNNING: usize = 2;
        let running: [_; RUNNING] = [(p.running_mean, mean), (p.running_var, p.correction * variance)];
        // Both are read before one is written.
        let priors = running.map(|(address, _)| parameter::<T>(address, wide, stride, row, 0.0));
        for_each!(I < RUNNING, {
            let (address, new) = running[I];
            set_parameter::<T>(address, wide, stride, row, (1.0 - p.factor) * priors[I] + p.factor * new);
        });
    }
    [mean, inv_std]
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
    let rows = shared_array![f32; 2 * BLOCK as usize];
    if let Some(channel) = place.channel_of_thread::<V>(p) {
        prefetch::<T>(p.scale, p.parameters_are_wide, p.parameter_strides[0], channel);
        prefetch::<T>(p.bias, p.parameters_are_wide, p.parameter_strides[1], channel);
        prefetch_running::<T>(p, place.images[0] * p.rows_per_image + channel);
    }
    let moments = part_moments::<T, V>(p, &place, shared_array![f32; MOMENT_SLOTS]);
    if let Some(channel) = place.channel_of_thread::<V>(p) {
        let [mean, inv_std] = finish_row::<T>(p, place.images[0] * p.rows_per_image + channel, moments);
        *rows.add(thread_idx_x() as usize) = mean;
        *rows.add((BLOCK + thread_idx_x()) as usize) = inv_std;
    }
    sync_threads();
    let first = place.first_of_thread::<V>(p);
    let statistics = || (in_block::<V>(p, rows, first), in_block::<V>(p, rows, BLOCK + first));
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
    let image = unsafe { core::intrinsics::unchecked_div(row, rows) };
    (image * s.chunks.divisor, s.chunks.divisor, (row - image * rows) * channels)
}

/// y by the statistics of its rows.
#[inline(always)]
pub unsafe fn apply<T: Element<Acc = f32>, const V: usize>(p: &ChannelwiseParams) {
    let place = Place::new::<V, true>(p);
    finish::<T, V, true>(p, &place, || (place.of_rows(p, p.mean), place.of_rows(p, p.inv_std)));
}

/// y by running statistics.
#[inline(always)]
pub unsafe fn infer<T: Element<Acc = f32>, const V: usize>(p: &ChannelwiseParams) {
    let place = Place::new::<V, false>(p);
    finish::<T, V, false>(p, &place, || running::<T, V>(p, &place));
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
    let (scale, bias) = (neighbours::<V>(p.scale + at), neighbours::<V>(p.bias + at));
    if INFERS {
        for_each!(I < V, {
            *factor.get_unchecked_mut(I) += p.epsilon;
        });
        factor = inverse_sqrts(factor);
    }
    for_each!(I < V, {
        *factor.get_unchecked_mut(I) *= *scale.get_unchecked(I);
    });
    folded::<T, V>((mean, factor, bias))
}

/// Of types whose own rounding is far more than what it costs, with the mean in the bias: registers are few.
#[inline(always)]
unsafe fn folded<T, const V: usize>((mean, factor, mut bias): OfChannels<V>) -> OfChannels<V> {
    if size_of::<T>() > 2 {
        return (mean, factor, bias);
    }
    for_each!(I < V, {
        *bias.get_unchecked_mut(I) -= *mean.get_unchecked(I) * *factor.get_unchecked(I);
    });
    ([0.0; V], factor, bias)
}

/// Means and inverse standard deviations by running statistics; 0 and 1 where there are none.
#[inline(always)]
unsafe fn running<T: Element<Acc = f32>, const V: usize>(p: &ChannelwiseParams, place: &Place) -> ([f32; V], [f32; V]) {
    if p.running_mean == 0 {
        return ([0.0; V], [1.0; V]);
    }
    let (wide, stride) = (p.running_is_wide, p.parameter_strides[4]);
    let mut inv_std = place.parameters::<T, V>(p, p.running_var, wide, stride, 0.0);
    for_each!(I < V, {
        let variance = inv_std.get_unchecked_mut(I);
        *variance = inverse_sqrt(*variance + p.epsilon);
    });
    (place.parameters::<T, V>(p, p.running_mean, wide, stride, 0.0), inv_std)
}

/// Writes y; `statistics` gives means and inverse standard deviations.
#[inline(always)]
unsafe fn finish<T: Element<Acc = f32>, const V: usize, const LAST_FIRST: bool>(
    p: &ChannelwiseParams,
    place: &Place,
    statistics: impl Fn() -> ([f32; V], [f32; V]),
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
    statistics: impl Fn() -> ([f32; V], [f32; V]),
) {
    let begin = || of_channels::<T, V>(p, place, statistics());
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

/// Those, of means and inverse standard deviations.
#[inline(always)]
unsafe fn of_channels<T: Element<Acc = f32>, const V: usize>(
    p: &ChannelwiseParams,
    place: &Place,
    (mean, mut factor): ([f32; V], [f32; V]),
) -> OfChannels<V> {
    let (wide, strides) = (p.parameters_are_wide, &p.parameter_strides);
    let scale = place.parameters::<T, V>(p, p.scale, wide, strides[0], 1.0);
    for_each!(I < V, {
        *factor.get_unchecked_mut(I) *= *scale.get_unchecked(I);
    });
    (mean, factor, place.parameters::<T, V>(p, p.bias, wide, strides[1], 0.0))
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
