//! What is known of rows: a pivot, and what moments relative to it make of the row.

use super::forward::parts_of_row;
use super::place::{LANES, Place};
use crate::math::approximate::inverse_sqrt;
use crate::math::element::Element;
use crate::math::scale::is_finite;
use crate::math::statistics::{is_usual, moments};
use core::intrinsics::{unchecked_div, unchecked_rem};
use cuda_std::math::fma_f32;
use cuda_std::thread::lane_id;
use cuda_std::{guarded, warp};
use kernel_abi::ops::norm::channelwise::{ChannelwiseParams, tensor};

/// What is known of a row: x̂ = (x − mean) · inv_std + shift, where the shift makes up for what the mean is rounded by.
#[derive(Clone, Copy, Default)]
pub struct OfRow {
    pub mean: f32,
    pub variance: f32,
    pub inv_std: f32,
    pub shift: f32,
}

/// The image that a row is of, 0 where rows are of all images.
#[inline(always)]
pub fn image_of_row(p: &ChannelwiseParams, row: u32) -> u32 {
    // SAFETY: there is at least one row an image.
    if p.share.by_image == 0 { 0 } else { unsafe { unchecked_div(row, p.rows_per_image) } }
}

/// A channel's pivot.
#[inline(always)]
pub unsafe fn pivot<T: Element<Acc = f32>>(p: &ChannelwiseParams, image: u32, channel: u32) -> f32 {
    element::<T>(p, image, 0, channel)
}

/// Those of a thread's channels, a vector; of one channel the first element alone.
#[inline(always)]
pub unsafe fn pivots<T: Element<Acc = f32>, const V: usize>(p: &ChannelwiseParams, place: &Place) -> [u32; 4] {
    let image = if p.share.by_image == 0 { 0 } else { p.share.chunks.div_rem(place.part).0 };
    let at = place.address::<T>(p, tensor::X, image, 0);
    match if p.share.along_channels != 0 { V * size_of::<T>() } else { size_of::<T>() } {
        2 => [u32::from(*(at as *const u16)), 0, 0, 0],
        4 => [*(at as *const u32), 0, 0, 0],
        _ => guarded::load_x4(at, 1),
    }
}

/// An element of x.
#[inline(always)]
unsafe fn element<T: Element<Acc = f32>>(p: &ChannelwiseParams, image: u32, position: u32, channel: u32) -> f32 {
    let strides = p.strides.get_unchecked(tensor::X);
    let offset = i64::from(image) * strides[0] + i64::from(position) * strides[1] + i64::from(channel) * strides[2];
    (*(*p.addresses.get_unchecked(tensor::X) as *const T).offset(offset as isize)).widen()
}

/// What is known of a row by its pivot and moments, for lanes that are `there`. Where squares are beyond what f32 holds, the warp
/// goes along the row once more, if x `stays` where it was until then. All lanes of a warp call it together.
#[inline(always)]
pub unsafe fn settle<T: Element<Acc = f32>>(
    p: &ChannelwiseParams,
    row: u32,
    pivot: f32,
    [_, mean, squares]: [f32; 3],
    there: bool,
    stays: bool,
) -> OfRow {
    let mut known = OfRow::default();
    let mut high = 0.0;
    if there {
        // The sum of both, and what it is rounded by.
        high = pivot + mean;
        let more = high - pivot;
        let low = (pivot - (high - more)) + (mean - more);
        let variance = squares * p.row_share;
        let inv_std = inverse_sqrt(variance + p.epsilon);
        known = OfRow { mean: high, variance, inv_std, shift: -(low * inv_std) };
    }
    let mut left = warp::ballot(there && stays && !is_usual(squares, p.epsilon));
    while left != 0 {
        let lane = left.trailing_zeros();
        left &= left - 1;
        let anew = anew::<T>(p, warp::shuffle(row, lane), f32::from_bits(warp::shuffle(high.to_bits(), lane)));
        if lane_id() == lane {
            known = anew;
        }
    }
    known
}

/// The same of a row whose elements are read once more, by a warp.
#[inline(always)]
unsafe fn anew<T: Element<Acc = f32>>(p: &ChannelwiseParams, row: u32, high: f32) -> OfRow {
    let s = &p.share;
    let first_channel = parts_of_row(p, row).2;
    let (first_image, images) = if s.by_image == 0 { (0, s.images) } else { (image_of_row(p, row), 1) };
    let n = u64::from(p.channels_per_row.divisor) * u64::from(images) * u64::from(s.positions);
    let found = moments(
        true,
        p.row_share,
        p.epsilon,
        high,
        #[inline(always)]
        |scale, high, _| {
            let (mut sum, mut squares) = (0.0f32, 0.0f32);
            let mut begin = 0;
            while begin < n {
                let i = begin + u64::from(lane_id());
                let mut difference = 0.0;
                if i < n {
                    let (positions, images) = (u64::from(s.positions), u64::from(images));
                    let (rest, position) = (unchecked_div(i, positions), unchecked_rem(i, positions));
                    let (channel, image) = (unchecked_div(rest, images), unchecked_rem(rest, images));
                    let x =
                        element::<T>(p, first_image + image as u32, position as u32, first_channel + channel as u32);
                    difference = fma_f32(x, scale, -high);
                }
                sum += difference;
                squares += difference * difference;
                begin += u64::from(LANES);
                // Of a row that holds an infinity or no number nothing else will come.
                if warp::any(!is_finite(sum)) && scale < 1.0 {
                    break;
                }
            }
            [warp::sum_f32(sum), warp::sum_f32(squares)]
        },
    );
    let mean = found.mean();
    let normal = found.normal(p.epsilon, inverse_sqrt);
    let inv_std = normal.inv_std();
    let low = (fma_f32(-mean, found.scale, found.high) + found.low) / found.scale;
    OfRow { mean, variance: found.variance(), inv_std, shift: -(low * inv_std) }
}
