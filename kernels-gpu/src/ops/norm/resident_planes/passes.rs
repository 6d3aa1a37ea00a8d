//! What forward and backward add up, make of the sums, and write.

use super::{Block, walk};
use crate::math::approximate::inverse_sqrt;
use crate::math::element::Element;
use crate::math::vector::{for_each, widened};
use crate::ops::norm::channelwise::{blend, finish_row, gradient, parameter, prefetch_running};
use cuda_std::math::{max_nan_f32, min_nan_f32};
use cuda_std::shared;
use kernel_abi::ops::norm::channelwise::tensor;

/// A pass: two sums of each channel, and results by what they make known.
pub(super) trait Pass {
    const BACKWARD: bool;

    /// What is known of a channel of the team's group `k` before its sums.
    unsafe fn known_ahead(b: &Block<'_>, channel: u32, k: u32) -> f32;

    /// The number that a channel's sums are relative to, by the first of its elements here, or what is known ahead.
    unsafe fn origin<T: Element<Acc = f32>>(first: u32, ahead: f32) -> f32;

    /// Adds a vector to the sums.
    unsafe fn add<T: Element<Acc = f32>, const V: usize, const N: usize>(
        b: &Block<'_>,
        origin: f32,
        words: &[[u32; 4]; N],
        sums: &mut [[f32; V]; 2],
    );

    /// The part of a block, by the number of its elements and their sums.
    fn part(count: f32, origin: f32, sums: [f32; 2]) -> [f32; 2];

    /// What finishing a channel takes, read beside the parts.
    unsafe fn parameters<T: Element<Acc = f32>>(b: &Block<'_>, channel: u32) -> [f32; 3];

    /// Whether parts are joined relative to the first block's.
    const RELATIVE: bool;

    /// A part with so many elements beside a reference, as what is to be added up.
    fn share(count: f32, reference: f32, part: [f32; 2]) -> [f32; 2];

    /// The factors of a channel by all of its sums. The first block of a team also writes what there is of the channel.
    unsafe fn finish<T: Element<Acc = f32>>(
        b: &Block<'_>,
        channel: u32,
        reference: f32,
        sums: [f32; 2],
        parameters: [f32; 3],
    ) -> [f32; 4];

    /// Writes a vector's results to where it was.
    unsafe fn write<T: Element<Acc = f32>, const V: usize, const N: usize>(
        b: &Block<'_>,
        factors: &[f32; 4],
        words: &[[u32; 4]; N],
        at: u32,
    );
}

/// Statistics, and y = (x - mean) · factor + bias + z.
pub(super) struct Forward;

impl Pass for Forward {
    const BACKWARD: bool = false;
    const RELATIVE: bool = true;

    #[inline(always)]
    unsafe fn known_ahead(_: &Block<'_>, _: u32, _: u32) -> f32 {
        0.0
    }

    /// Squares of large numbers would lose the digits of small ones.
    #[inline(always)]
    unsafe fn origin<T: Element<Acc = f32>>(first: u32, _: f32) -> f32 {
        let word = if size_of::<T>() == 4 { shared::load_u32(first) } else { u32::from(shared::load_u16(first)) };
        widened::<T, 1>(&[word, 0, 0, 0])[0]
    }

    #[inline(always)]
    unsafe fn add<T: Element<Acc = f32>, const V: usize, const N: usize>(
        _: &Block<'_>,
        origin: f32,
        words: &[[u32; 4]; N],
        [sums, squares]: &mut [[f32; V]; 2],
    ) {
        let x = widened::<T, V>(words.get_unchecked(0));
        for_each!(I < V, {
            let difference = *x.get_unchecked(I) - origin;
            *sums.get_unchecked_mut(I) += difference;
            *squares.get_unchecked_mut(I) += difference * difference;
        });
    }

    /// Mean and sum of squared deviations.
    #[inline(always)]
    fn part(count: f32, origin: f32, [sum, squares]: [f32; 2]) -> [f32; 2] {
        let mean = sum / count;
        let spread = squares - sum * mean;
        [origin + mean, if spread < 0.0 { 0.0 } else { spread }]
    }

    /// Scale and bias.
    #[inline(always)]
    unsafe fn parameters<T: Element<Acc = f32>>(b: &Block<'_>, channel: u32) -> [f32; 3] {
        let p = &b.p.channels;
        if b.block == 0 {
            prefetch_running::<T>(p, channel);
        }
        let (wide, strides) = (p.parameters_are_wide, &p.parameter_strides);
        [
            parameter::<T>(p.scale, wide, strides[0], channel, 1.0),
            parameter::<T>(p.bias, wide, strides[1], channel, 0.0),
            0.0,
        ]
    }

    #[inline(always)]
    fn share(count: f32, reference: f32, [mean, squares]: [f32; 2]) -> [f32; 2] {
        let difference = mean - reference;
        [count * difference, count * difference * difference + squares]
    }

    #[inline(always)]
    unsafe fn finish<T: Element<Acc = f32>>(
        b: &Block<'_>,
        channel: u32,
        reference: f32,
        [sum, squares]: [f32; 2],
        [scale, bias, _]: [f32; 3],
    ) -> [f32; 4] {
        let p = &b.p.channels;
        let mean = sum * p.row_share;
        let spread = squares - sum * mean;
        let (mean, spread) = (reference + mean, if spread < 0.0 { 0.0 } else { spread });
        if b.block == 0 {
            finish_row::<T>(p, channel, [0.0, mean, spread]);
        }
        [mean, inverse_sqrt(spread * p.row_share + p.epsilon) * scale, bias, 0.0]
    }

    #[inline(always)]
    unsafe fn write<T: Element<Acc = f32>, const V: usize, const N: usize>(
        b: &Block<'_>,
        [mean, factor, bias, _]: &[f32; 4],
        words: &[[u32; 4]; N],
        at: u32,
    ) {
        let p = &b.p.channels;
        let mut y = widened::<T, V>(words.get_unchecked(0));
        for_each!(I < V, {
            let y = y.get_unchecked_mut(I);
            *y = (*y - mean) * factor + bias;
        });
        if N > 1 {
            let z = widened::<T, V>(words.get_unchecked(N - 1));
            for_each!(I < V, {
                *y.get_unchecked_mut(I) += *z.get_unchecked(I);
            });
        }
        if p.low > f32::NEG_INFINITY || p.high < f32::INFINITY {
            for_each!(I < V, {
                let y = y.get_unchecked_mut(I);
                *y = min_nan_f32(max_nan_f32(*y, p.low), p.high);
            });
        }
        walk::store::<T, V>(at, &y);
    }
}

/// Gradients: dx = factor · g - shift - tilt · (x - mean), with Σ g and Σ g (x - mean).
pub(super) struct Backward;

impl Pass for Backward {
    const BACKWARD: bool = true;
    const RELATIVE: bool = false;

    /// The mean.
    #[inline(always)]
    unsafe fn known_ahead(b: &Block<'_>, channel: u32, k: u32) -> f32 {
        *(b.p.channels.mean as *const f32).add((b.channel(k) + channel) as usize)
    }

    #[inline(always)]
    unsafe fn origin<T: Element<Acc = f32>>(_: u32, ahead: f32) -> f32 {
        ahead
    }

    #[inline(always)]
    unsafe fn add<T: Element<Acc = f32>, const V: usize, const N: usize>(
        b: &Block<'_>,
        mean: f32,
        words: &[[u32; 4]; N],
        [g_sums, gx_sums]: &mut [[f32; V]; 2],
    ) {
        let (x, g) = (widened::<T, V>(words.get_unchecked(0)), gradient::<T, V, N>(&b.p.channels, words));
        for_each!(I < V, {
            let g = *g.get_unchecked(I);
            *g_sums.get_unchecked_mut(I) += g;
            *gx_sums.get_unchecked_mut(I) += g * (*x.get_unchecked(I) - mean);
        });
    }

    #[inline(always)]
    fn part(_: f32, _: f32, sums: [f32; 2]) -> [f32; 2] {
        sums
    }

    /// Scale, mean and inverse standard deviation.
    #[inline(always)]
    unsafe fn parameters<T: Element<Acc = f32>>(b: &Block<'_>, channel: u32) -> [f32; 3] {
        let p = &b.p.channels;
        let of_row = |address: u64| *(address as *const f32).add(channel as usize);
        let scale = parameter::<T>(p.scale, p.parameters_are_wide, p.parameter_strides[0], channel, 1.0);
        [scale, of_row(p.mean), of_row(p.inv_std)]
    }

    #[inline(always)]
    fn share(_: f32, _: f32, part: [f32; 2]) -> [f32; 2] {
        part
    }

    #[inline(always)]
    unsafe fn finish<T: Element<Acc = f32>>(
        b: &Block<'_>,
        channel: u32,
        _: f32,
        [g, gx]: [f32; 2],
        [scale, mean, inv_std]: [f32; 3],
    ) -> [f32; 4] {
        let p = &b.p.channels;
        let gx = gx * inv_std;
        if b.block == 0 {
            blend::<T>(p, p.dscale, p.parameter_strides[2], channel, gx);
            blend::<T>(p, p.dbias, p.parameter_strides[3], channel, g);
        }
        let factor = scale * inv_std;
        let share = factor * p.row_share;
        [mean, factor, share * g, share * gx * inv_std]
    }

    #[inline(always)]
    unsafe fn write<T: Element<Acc = f32>, const V: usize, const N: usize>(
        b: &Block<'_>,
        [mean, factor, shift, tilt]: &[f32; 4],
        words: &[[u32; 4]; N],
        at: u32,
    ) {
        let (x, g) = (widened::<T, V>(words.get_unchecked(0)), gradient::<T, V, N>(&b.p.channels, words));
        let mut dx = g;
        for_each!(I < V, {
            let dx = dx.get_unchecked_mut(I);
            *dx = factor * *dx - shift - tilt * (*x.get_unchecked(I) - mean);
        });
        walk::store::<T, V>(at, &dx);
        // Without an activation it is dy.
        if N > 2 && b.p.channels.addresses[tensor::DZ] != 0 {
            walk::store::<T, V>(at + b.p.pitch, &g);
        }
    }
}
