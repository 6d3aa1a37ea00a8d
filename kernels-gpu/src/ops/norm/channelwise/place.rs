//! Which elements are a thread's, and what goes with their channels.

use crate::math::chunks;
use crate::math::element::Element;
use crate::math::vector::{for_each, narrowed, read, widened, write_narrowed};
use core::intrinsics::unchecked_div;
use cuda_std::memory::prefetch_l2;
use cuda_std::thread::{block_dim_x, block_idx_x, block_idx_y, thread_idx_x};
use cuda_std::{guarded, memory};
use kernel_abi::ops::norm::channelwise::{BLOCK, ChannelwiseParams};

/// Threads of a warp.
pub const LANES: u32 = 32;

/// Where a thread stands.
pub struct Place {
    /// The first of its channels.
    pub channel: u32,
    /// Whether it has any.
    pub there: bool,
    /// Images, in steps.
    pub images: [u32; 3],
    /// Positions, in steps.
    pub positions: [u32; 3],
    /// The part.
    pub part: u32,
    /// Threads of this block with the same channels stand so far apart, a power of two up to 32.
    pub apart: u32,
}

impl Place {
    /// The thread's, where vectors have `V` elements. With `LAST_FIRST` the first blocks have the last parts: what a pass
    /// before this one read last may still lie in the cache.
    #[inline(always)]
    pub fn new<const V: usize, const LAST_FIRST: bool>(p: &ChannelwiseParams) -> Self {
        if p.share.sweeping != 0 { Place::sweep::<V>(p) } else { Place::of_part::<V, LAST_FIRST>(p) }
    }

    /// The thread's in a run of positions that is the block's own.
    #[inline(always)]
    fn of_part<const V: usize, const LAST_FIRST: bool>(p: &ChannelwiseParams) -> Self {
        let s = &p.share;
        let thread = thread_idx_x();
        let shift = s.lanes.trailing_zeros();
        let (lane, row, rows) = (thread & (s.lanes - 1), thread >> shift, BLOCK >> shift);
        let part = if LAST_FIRST { s.n_parts - 1 - block_idx_y() } else { block_idx_y() };
        let (of_images, chunk) = s.chunks.div_rem(part);
        let ends = |first: u32, step: u32, all: u32| [first, if first + step < all { first + step } else { all }];
        let [first_image, end_image] = ends(of_images * s.part_images, s.part_images, s.images);
        let [first, end] = ends(chunk * s.part_positions, s.part_positions, s.positions);
        if s.along_channels != 0 {
            let channel = (block_idx_x() * s.lanes + lane) * V as u32;
            Place {
                channel,
                there: channel < s.channels,
                images: [first_image, 1, end_image],
                positions: [first + row, rows, end],
                part,
                apart: s.lanes,
            }
        } else if s.rows_along_images != 0 {
            Place {
                channel: block_idx_x(),
                there: true,
                images: [first_image + row, rows, end_image],
                positions: [first + lane * V as u32, s.lanes * V as u32, end],
                part,
                apart: 1,
            }
        } else {
            Place {
                channel: block_idx_x(),
                there: true,
                images: [first_image, 1, end_image],
                positions: [first + thread * V as u32, BLOCK * V as u32, end],
                part,
                apart: 1,
            }
        }
    }

    /// The thread's where all blocks go over the positions together, each `BLOCK / lanes` of them at a time: neighbouring
    /// blocks are at neighbouring addresses, as those of a copy. Lanes stand along channels of one image.
    #[inline(always)]
    fn sweep<const V: usize>(p: &ChannelwiseParams) -> Self {
        let (place, row, rows) = Place::of_lane::<V>(p, block_idx_x(), block_idx_y(), BLOCK);
        Place { positions: [place.part * rows + row, p.share.n_parts * rows, p.share.positions], ..place }
    }

    /// The thread's where a block, of any number of threads, has a run of the positions of one image; parts are along x.
    #[inline(always)]
    pub fn of_run<const V: usize, const LAST_FIRST: bool>(p: &ChannelwiseParams) -> Self {
        let part = if LAST_FIRST { p.share.n_parts - 1 - block_idx_x() } else { block_idx_x() };
        let (place, row, rows) = Place::of_lane::<V>(p, block_idx_y(), part, block_dim_x());
        Place { positions: [place.part * p.share.part_positions + row, rows, p.share.positions], ..place }
    }

    /// A lane along channels of one image, of any number of them; with its row, and how many there are.
    #[inline(always)]
    pub fn of_lane<const V: usize>(p: &ChannelwiseParams, block: u32, part: u32, threads: u32) -> (Self, u32, u32) {
        let s = &p.share;
        let thread = thread_idx_x();
        let ((row, lane), (rows, _)) = (s.by_lanes.div_rem(thread), s.by_lanes.div_rem(threads));
        let channel = (block * s.lanes + lane) * V as u32;
        let there = row < rows && channel < s.channels;
        (Place { channel, there, images: [0, 1, 1], positions: [0; 3], part, apart: s.lanes }, row, rows)
    }

    /// Its lane among those of a block along channels.
    #[inline(always)]
    pub fn lane<const V: usize>(&self, p: &ChannelwiseParams, block: u32) -> u32 {
        self.channel / V as u32 - block * p.share.lanes
    }

    /// Loads the vectors of some tensors at the first `K` of the thread's places in its first image, and calls `consume`
    /// with each place's, its address in `out`, and whether it is there. Calls `begin` once, behind the loads: what it
    /// reads is under way with them.
    ///
    /// # Safety
    /// As [`walk`](Self::walk); all the tensors are there.
    #[inline(always)]
    pub unsafe fn once<T: Element<Acc = f32>, const V: usize, const N: usize, const K: usize, I>(
        &self,
        p: &ChannelwiseParams,
        tensors: [usize; N],
        out: usize,
        begin: impl FnOnce() -> I,
        consume: impl Fn(&I, u64, &[[u32; 4]; N], bool),
    ) {
        let ([image, ..], [first, step, end]) = (self.images, self.positions);
        if !self.there {
            return;
        }
        // An address a tensor, from which others are so many bytes away: each of its own would take as long as its vector.
        let at = #[inline(always)]
        |tensor: usize| {
            let apart = i64::from(step) * p.strides[tensor][1] * size_of::<T>() as i64;
            (self.address::<T>(p, tensor, image, first), apart as u64)
        };
        let mut loaded = [[[0u32; 4]; N]; K];
        for_each!(M < N, {
            let (from, apart) = at(*tensors.get_unchecked(M));
            for_each!(J < K, {
                let there = first + J as u32 * step < end;
                *loaded.get_unchecked_mut(J).get_unchecked_mut(M) =
                    load::<T, V>(from.wrapping_add((J as u64).wrapping_mul(apart)), there);
            });
        });
        let of_channels = begin();
        let (to, apart) = at(out);
        for_each!(J < K, {
            let there = first + (J as u32 * step) < end;
            consume(&of_channels, to.wrapping_add((J as u64).wrapping_mul(apart)), loaded.get_unchecked(J), there);
        });
    }

    /// Loads the vectors of some tensors at all of the thread's places, those of `K` places under way at a time, and calls
    /// `consume` with each place's; zeros where there is no tensor. Calls `begin` once, behind the first loads: what it
    /// reads is under way with them. With `LAST_FIRST` it goes from the last place to the first, with `AHEAD` the loads of
    /// `K` places are under way while those before are consumed.
    ///
    /// # Safety
    /// The tensors that there are have what the thread's places say, at multiples of 16 bytes unless `V` is 1.
    #[inline(always)]
    pub unsafe fn walk<
        T: Element<Acc = f32>,
        const V: usize,
        const N: usize,
        const K: usize,
        const LAST_FIRST: bool,
        const AHEAD: bool,
        I,
    >(
        &self,
        p: &ChannelwiseParams,
        tensors: [usize; N],
        begin: impl FnOnce() -> I,
        mut consume: impl FnMut(&I, u32, u32, &[[u32; 4]; N]),
    ) {
        let count = #[inline(always)]
        |[first, step, end]: [u32; 3]| {
            if first >= end {
                0
            } else if step.is_power_of_two() {
                (end - first + step - 1) >> step.trailing_zeros()
            } else {
                unchecked_div(end - first + step - 1, step)
            }
        };
        let place = #[inline(always)]
        |[first, step, _]: [u32; 3], n: u32, i: u32| {
            first + (if LAST_FIRST { n.wrapping_sub(1 + i) } else { i }).wrapping_mul(step)
        };
        let (n_images, n) = (count(self.images), count(self.positions));
        if !self.there || n_images == 0 || n == 0 {
            return;
        }
        let load_some = #[inline(always)]
        |i: u32, k: u32| {
            let image = place(self.images, n_images, i);
            let mut loaded = [[[0u32; 4]; N]; K];
            for_each!(J < K, {
                let at = place(self.positions, n, k + J as u32);
                for_each!(M < N, {
                    let tensor = *tensors.get_unchecked(M);
                    let there = k + (J as u32) < n && *p.addresses.get_unchecked(tensor) != 0;
                    *loaded.get_unchecked_mut(J).get_unchecked_mut(M) =
                        load::<T, V>(self.address::<T>(p, tensor, image, at), there);
                });
            });
            loaded
        };
        let (mut i, mut k) = (0, 0);
        let mut loaded = load_some(i, k);
        let of_channels = begin();
        loop {
            let (next_i, next_k) = if k + (K as u32) < n { (i, k + K as u32) } else { (i + 1, 0) };
            let mut next = loaded;
            if AHEAD && next_i < n_images {
                next = load_some(next_i, next_k);
            }
            let image = place(self.images, n_images, i);
            for_each!(J < K, {
                if k + (J as u32) < n {
                    consume(&of_channels, image, place(self.positions, n, k + J as u32), loaded.get_unchecked(J));
                }
            });
            if next_i == n_images {
                return;
            }
            (i, k) = (next_i, next_k);
            loaded = if AHEAD { next } else { load_some(i, k) };
        }
    }

    /// The channel whose sums [`join_block`](super::join::join_block) leaves to this thread.
    #[inline(always)]
    pub fn channel_of_thread<const V: usize>(&self, p: &ChannelwiseParams) -> Option<u32> {
        let thread = thread_idx_x();
        if p.share.along_channels == 0 {
            return (thread == 0).then_some(self.channel);
        }
        let n = self.apart * V as u32;
        let channel = block_idx_x() * n + thread;
        (thread < n && channel < p.share.channels).then_some(channel)
    }

    /// The thread that [`join_block`](super::join::join_block) leaves the sums of this thread's first channel to.
    #[inline(always)]
    pub fn first_of_thread<const V: usize>(&self, p: &ChannelwiseParams) -> u32 {
        if p.share.along_channels == 0 { 0 } else { (thread_idx_x() & (self.apart - 1)) * V as u32 }
    }

    /// The address of an element of a tensor.
    #[inline(always)]
    pub fn address<T>(&self, p: &ChannelwiseParams, tensor: usize, image: u32, at: u32) -> u64 {
        let strides = &p.strides[tensor];
        let offset = i64::from(image) * strides[0] + i64::from(at) * strides[1] + i64::from(self.channel) * strides[2];
        p.addresses[tensor] + offset as u64 * size_of::<T>() as u64
    }

    /// The row of channel `i` of the thread's. A part whose rows are its own has one image.
    #[inline(always)]
    fn row(&self, p: &ChannelwiseParams, i: u32) -> u32 {
        self.images[0] * p.rows_per_image + p.channels_per_row.div_rem(self.channel + i).0
    }

    /// What the rows of a vector's channels have in a vector of f32.
    ///
    /// # Safety
    /// It is there, for the thread's channels.
    #[inline(always)]
    pub unsafe fn of_rows<const V: usize>(&self, p: &ChannelwiseParams, address: u64) -> [f32; V] {
        if p.share.along_channels == 0 {
            return [number(address, self.row(p, 0)); V];
        }
        let first = address + u64::from(self.row(p, 0)) * 4;
        if V > 1 && p.channels_per_row.divisor == 1 && first.is_multiple_of(16) {
            return neighbours::<V>(first);
        }
        let mut values = [0.0; V];
        for_each!(I < V, {
            *values.get_unchecked_mut(I) = number(address, self.row(p, I as u32));
        });
        values
    }

    /// A parameter for each of a vector's channels; `or` where there are none.
    ///
    /// # Safety
    /// They are there, if the vector is.
    #[inline(always)]
    pub unsafe fn parameters<T: Element<Acc = f32>, const V: usize>(
        &self,
        p: &ChannelwiseParams,
        address: u64,
        is_wide: u32,
        stride: i64,
        or: f32,
    ) -> [f32; V] {
        if address == 0 {
            return [or; V];
        }
        let of = #[inline(always)]
        |i: u32| {
            let index = p.channels_per_parameter.div_rem(self.channel + i).0;
            parameter::<T>(address, is_wide, stride, index, or)
        };
        if p.share.along_channels == 0 {
            return [of(0); V];
        }
        let first = address + u64::from(self.channel) * 4;
        if V > 1 && is_wide != 0 && stride == 1 && p.channels_per_parameter.divisor == 1 && first.is_multiple_of(16) {
            return neighbours::<V>(first);
        }
        let mut values = [or; V];
        for_each!(I < V, {
            *values.get_unchecked_mut(I) = of(I as u32);
        });
        values
    }
}

/// Accesses of 16 bytes: at most.
const FOURS: usize = 2;

/// `V` neighbouring f32, up to eight, in fours: the compiler would take them apart.
///
/// # Safety
/// They are there, at a multiple of 16.
#[inline(always)]
pub unsafe fn neighbours<const V: usize>(address: u64) -> [f32; V] {
    let mut values = [0.0; V];
    for_each!(F < FOURS, {
        if 4 * F < V {
            let four = memory::load_x4((address + 16 * F as u64) as *const u32);
            for_each!(I < V, {
                if I / 4 == F {
                    *values.get_unchecked_mut(I) = f32::from_bits(four[I % 4]);
                }
            });
        }
    });
    values
}

/// The vector at an address, as words; zeros where it is not there.
///
/// # Safety
/// Where it is, it lies at a multiple of 16 unless `V` is 1, and no other thread writes it.
#[inline(always)]
unsafe fn load<T: Element<Acc = f32>, const V: usize>(address: u64, there: bool) -> [u32; 4] {
    if V > 1 {
        chunks::load::<16>(address, there)
    } else if size_of::<T>() == 2 {
        chunks::load::<2>(address, there)
    } else {
        chunks::load::<4>(address, there)
    }
}

/// Writes `alpha · result + beta · prior`.
///
/// # Safety
/// It is there, at a multiple of 16 unless `V` is 1, and no other thread touches it.
#[inline(always)]
pub unsafe fn store<T: Element<Acc = f32>, const V: usize>(p: &ChannelwiseParams, address: u64, result: [f32; V]) {
    let mut prior = [0.0; V];
    if p.beta != 0.0 {
        prior = read::<T, V>(address);
    }
    write_narrowed::<T, V>(address, &blended::<V>(p, result, prior));
}

/// The same of a vector where it is `there`, without a branch of its own, behind which others would wait.
///
/// # Safety
/// As [`store`], where it is.
#[inline(always)]
pub unsafe fn store_where<T: Element<Acc = f32>, const V: usize>(
    p: &ChannelwiseParams,
    address: u64,
    result: [f32; V],
    there: bool,
) {
    let mut prior = [0.0; V];
    if p.beta != 0.0 {
        prior = widened::<T, V>(&guarded::load_x4_own(address, u32::from(there)));
    }
    guarded::store_x4(address, narrowed::<T, V>(&blended::<V>(p, result, prior)), u32::from(there));
}

#[inline(always)]
fn blended<const V: usize>(p: &ChannelwiseParams, result: [f32; V], prior: [f32; V]) -> [f32; V] {
    let mut values = [0.0; V];
    for_each!(I < V, {
        values[I] = p.alpha * result[I] + p.beta * prior[I];
    });
    values
}

/// Element `i` of a vector of f32.
///
/// # Safety
/// It is there.
#[inline(always)]
pub unsafe fn number(address: u64, i: u32) -> f32 {
    *(address as *const f32).add(i as usize)
}

/// Element `i` of a vector of f32 or of the element type; `or` where there is none.
///
/// # Safety
/// It is there, if the vector is.
#[inline(always)]
pub unsafe fn parameter<T: Element<Acc = f32>>(address: u64, is_wide: u32, stride: i64, i: u32, or: f32) -> f32 {
    let offset = (i64::from(i) * stride) as isize;
    if address == 0 {
        or
    } else if is_wide != 0 {
        *(address as *const f32).offset(offset)
    } else {
        (*(address as *const T).offset(offset)).widen()
    }
}

/// Writes it.
///
/// # Safety
/// It is there, and no other thread touches it.
#[inline(always)]
pub unsafe fn set_parameter<T: Element<Acc = f32>>(address: u64, is_wide: u32, stride: i64, i: u32, value: f32) {
    let offset = (i64::from(i) * stride) as isize;
    if is_wide != 0 {
        *(address as *mut f32).offset(offset) = value;
    } else {
        *(address as *mut T).offset(offset) = T::narrow(value);
    }
}

/// Brings element `i` of a vector near before it is needed, if there is one.
///
/// # Safety
/// It is there, if the vector is.
#[inline(always)]
pub unsafe fn prefetch<T>(address: u64, is_wide: u32, stride: i64, i: u32) {
    let size = if is_wide != 0 { 4 } else { size_of::<T>() as i64 };
    if address != 0 {
        prefetch_l2((address as i64 + i64::from(i) * stride * size) as *const u8);
    }
}
