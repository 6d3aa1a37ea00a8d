//! Which elements are a thread's, and what goes with their channels.

use crate::math::element::Element;
use crate::math::vector::{for_each, read, widened, write};
use cuda_std::memory::X4;
use cuda_std::thread::{block_idx_x, block_idx_y, sync_threads, thread_idx_x};
use kernel_abi::ops::norm::channelwise::{BLOCK, ChannelwiseParams};

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
    /// Threads of this block with the same channels stand so far apart.
    pub apart: u32,
}

impl Place {
    /// The thread's, where vectors have `V` elements.
    #[inline(always)]
    pub fn new<const V: usize>(p: &ChannelwiseParams) -> Self {
        let s = &p.share;
        let thread = thread_idx_x();
        let shift = s.lanes.trailing_zeros();
        let (lane, row, rows) = (thread & (s.lanes - 1), thread >> shift, BLOCK >> shift);
        let part = block_idx_y();
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

    /// Calls `begin` with each image of the thread, and `consume` with what `load` gives for each of its positions; those of
    /// two positions are under way at a time.
    #[inline(always)]
    pub fn walk<I: Copy, L>(
        &self,
        mut begin: impl FnMut(u32) -> I,
        load: impl Fn(u32, u32) -> L,
        mut consume: impl FnMut(I, u32, u32, L),
    ) {
        if !self.there {
            return;
        }
        let [mut image, image_step, image_end] = self.images;
        let [first, step, end] = self.positions;
        while image < image_end {
            let of_image = begin(image);
            let mut at = first;
            while at + step < end {
                let (a, b) = (load(image, at), load(image, at + step));
                consume(of_image, image, at, a);
                consume(of_image, image, at + step, b);
                at += 2 * step;
            }
            while at < end {
                let loaded = load(image, at);
                consume(of_image, image, at, loaded);
                at += step;
            }
            image += image_step;
        }
    }

    /// The address of an element of a tensor.
    #[inline(always)]
    pub fn address<T>(&self, p: &ChannelwiseParams, tensor: usize, image: u32, at: u32) -> u64 {
        let strides = &p.strides[tensor];
        let offset = i64::from(image) * strides[0] + i64::from(at) * strides[1] + i64::from(self.channel) * strides[2];
        p.addresses[tensor] + offset as u64 * size_of::<T>() as u64
    }

    /// The row of one of the thread's channels.
    #[inline(always)]
    pub fn row(&self, p: &ChannelwiseParams, image: u32, i: u32) -> u32 {
        image * p.rows_per_image + p.channels_per_row.div_rem(self.channel + i).0
    }

    /// A number for each element of a vector, of its channel.
    ///
    /// # Safety
    /// `of` may be called with the thread's channels, counted from its first.
    #[inline(always)]
    pub unsafe fn each<const V: usize>(&self, p: &ChannelwiseParams, of: impl Fn(u32) -> f32) -> [f32; V] {
        let mut values = [0.0; V];
        if p.share.along_channels != 0 {
            for_each!(I < V, {
                *values.get_unchecked_mut(I) = of(I as u32);
            });
            values
        } else {
            [of(0); V]
        }
    }
}

/// The vector at an address, as words.
///
/// # Safety
/// It is there, at a multiple of 16 unless `V` is 1.
#[inline(always)]
pub unsafe fn load<T: Element<Acc = f32>, const V: usize>(address: u64) -> [u32; 4] {
    if V == 1 {
        let [value] = read::<T, 1>(address);
        return [value.to_bits(), 0, 0, 0];
    }
    let X4(words) = *(address as *const X4<u32>);
    words
}

/// The elements of what [`load`] gave.
///
/// # Safety
/// With the same `V`.
#[inline(always)]
pub unsafe fn elements<T: Element<Acc = f32>, const V: usize>(words: &[u32; 4]) -> [f32; V] {
    if V == 1 { [f32::from_bits(words[0]); V] } else { widened::<T, V>(words) }
}

/// Writes `alpha · result + beta · prior`.
///
/// # Safety
/// As [`load`], and no other thread touches it.
#[inline(always)]
pub unsafe fn store<T: Element<Acc = f32>, const V: usize>(p: &ChannelwiseParams, address: u64, result: [f32; V]) {
    let mut prior = [0.0; V];
    if p.beta != 0.0 {
        prior = read::<T, V>(address);
    }
    let mut values = [T::narrow(0.0); V];
    for_each!(I < V, {
        let value = p.alpha * *result.get_unchecked(I) + p.beta * *prior.get_unchecked(I);
        *values.get_unchecked_mut(I) = T::narrow(value);
    });
    write::<T, V>(address, values);
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

/// Joins `N` numbers of all threads that have the same channel, for the first of them. All threads of the block call it.
///
/// # Safety
/// `slots` are `N · BLOCK` numbers of shared memory.
#[inline(always)]
pub unsafe fn join_block<const N: usize>(
    slots: *mut f32,
    apart: u32,
    values: [f32; N],
    join: impl Fn([f32; N], [f32; N]) -> [f32; N],
) -> [f32; N] {
    let thread = thread_idx_x();
    let at = |thread: u32, i: usize| slots.add(i * BLOCK as usize + thread as usize);
    let mut own = values;
    for_each!(I < N, {
        *at(thread, I) = *own.get_unchecked(I);
    });
    sync_threads();
    let mut half = BLOCK / 2;
    while half >= apart {
        if thread < half {
            let mut other = [0.0; N];
            for_each!(I < N, {
                *other.get_unchecked_mut(I) = *at(thread + half, I);
            });
            own = join(own, other);
            for_each!(I < N, {
                *at(thread, I) = *own.get_unchecked(I);
            });
        }
        sync_threads();
        half /= 2;
    }
    // Behind the last barrier only threads that are done read their own registers: the slots are free.
    own
}
