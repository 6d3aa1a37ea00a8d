//! What kernels whose blocks stay add up of channels, make of the sums, and write, forward and backward: two sums of each
//! channel, four factors by them, and one or two results of each vector.

use super::{blend, finish_row, gradient, parameter, pivot, prefetch_running, settle};
use crate::math::element::Element;
use crate::math::vector::{for_each, widened};
use cuda_std::math::{max_nan_f32, min_nan_f32};
use kernel_abi::ops::norm::channelwise::{ChannelwiseParams, tensor};

/// A pass.
pub trait Pass {
    const BACKWARD: bool;
    /// Whether parts are joined relative to the first block's.
    const RELATIVE: bool;

    /// Adds a vector to the sums of its channels, relative to their origins.
    unsafe fn add<T: Element<Acc = f32>, const V: usize, const N: usize>(
        p: &ChannelwiseParams,
        origin: &[f32; V],
        words: &[[u32; 4]; N],
        sums: &mut [[f32; V]; 2],
    );

    /// The part of a block, by the number of its elements of a channel, their sums, and what these are relative to beside
    /// the channel's pivot.
    fn part(count: f32, origin: f32, sums: [f32; 2]) -> [f32; 2];

    /// What finishing a channel takes, read beside other things.
    unsafe fn parameters<T: Element<Acc = f32>>(p: &ChannelwiseParams, channel: u32, is_first: bool) -> [f32; 3];

    /// A part with so many elements beside a reference, as what is to be added up.
    fn share(count: f32, reference: f32, part: [f32; 2]) -> [f32; 2];

    /// The factors of a channel by all of its sums, where it is `there`. The first block also writes what there is of the
    /// channel. All lanes of a warp call it together.
    #[allow(clippy::too_many_arguments)]
    unsafe fn finish<T: Element<Acc = f32>>(
        p: &ChannelwiseParams,
        channel: u32,
        there: bool,
        is_first: bool,
        reference: f32,
        sums: [f32; 2],
        parameters: [f32; 3],
    ) -> [f32; 4];

    /// A vector's results by its channels' factors: y, or dx and dz.
    unsafe fn results<T: Element<Acc = f32>, const V: usize, const N: usize>(
        p: &ChannelwiseParams,
        factors: &[[f32; V]; 4],
        words: &[[u32; 4]; N],
        z: Option<&[u32; 4]>,
    ) -> [[f32; V]; 2];
}

/// Of three numbers the one between.
#[inline(always)]
pub fn between(a: f32, b: f32, c: f32) -> f32 {
    let (low, high) = if a < b { (a, b) } else { (b, a) };
    if c < low {
        low
    } else if c > high {
        high
    } else {
        c
    }
}

/// Statistics, and y = (x - mean) · factor + bias + z.
pub struct Forward;

impl Pass for Forward {
    const BACKWARD: bool = false;
    const RELATIVE: bool = true;

    #[inline(always)]
    unsafe fn add<T: Element<Acc = f32>, const V: usize, const N: usize>(
        _: &ChannelwiseParams,
        origin: &[f32; V],
        words: &[[u32; 4]; N],
        [sums, squares]: &mut [[f32; V]; 2],
    ) {
        let x = widened::<T, V>(words.get_unchecked(0));
        for_each!(I < V, {
            let difference = *x.get_unchecked(I) - *origin.get_unchecked(I);
            *sums.get_unchecked_mut(I) += difference;
            *squares.get_unchecked_mut(I) += difference * difference;
        });
    }

    /// Mean, less the pivot, and sum of squared deviations.
    #[inline(always)]
    fn part(count: f32, origin: f32, [sum, squares]: [f32; 2]) -> [f32; 2] {
        let mean = sum / count;
        let spread = squares - sum * mean;
        [origin + mean, if spread < 0.0 { 0.0 } else { spread }]
    }

    /// Scale, bias and pivot.
    #[inline(always)]
    unsafe fn parameters<T: Element<Acc = f32>>(p: &ChannelwiseParams, channel: u32, is_first: bool) -> [f32; 3] {
        if is_first {
            prefetch_running::<T>(p, channel);
        }
        let (wide, strides) = (p.parameters_are_wide, &p.parameter_strides);
        [
            parameter::<T>(p.scale, wide, strides[0], channel, 1.0),
            parameter::<T>(p.bias, wide, strides[1], channel, 0.0),
            pivot::<T>(p, 0, channel),
        ]
    }

    #[inline(always)]
    fn share(count: f32, reference: f32, [mean, squares]: [f32; 2]) -> [f32; 2] {
        let difference = mean - reference;
        [count * difference, count * difference * difference + squares]
    }

    #[inline(always)]
    unsafe fn finish<T: Element<Acc = f32>>(
        p: &ChannelwiseParams,
        channel: u32,
        there: bool,
        is_first: bool,
        reference: f32,
        [sum, squares]: [f32; 2],
        [scale, bias, pivot]: [f32; 3],
    ) -> [f32; 4] {
        let mean = sum * p.row_share;
        let spread = squares - sum * mean;
        let spread = if spread < 0.0 { 0.0 } else { spread };
        // Other blocks may be writing results already.
        let stays = p.addresses[tensor::X] != p.addresses[tensor::OUT];
        let known = settle::<T>(p, channel, pivot, [0.0, reference + mean, spread], there, stays);
        if there && is_first {
            finish_row::<T>(p, channel, &known);
        }
        [known.mean, known.inv_std * scale, bias + known.shift * scale, 0.0]
    }

    #[inline(always)]
    unsafe fn results<T: Element<Acc = f32>, const V: usize, const N: usize>(
        p: &ChannelwiseParams,
        [mean, factor, bias, _]: &[[f32; V]; 4],
        words: &[[u32; 4]; N],
        z: Option<&[u32; 4]>,
    ) -> [[f32; V]; 2] {
        let mut y = widened::<T, V>(words.get_unchecked(0));
        for_each!(I < V, {
            let y = y.get_unchecked_mut(I);
            *y = (*y - *mean.get_unchecked(I)) * *factor.get_unchecked(I) + *bias.get_unchecked(I);
        });
        if let Some(z) = z {
            let z = widened::<T, V>(z);
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
        [y, [0.0; V]]
    }
}

/// Gradients by Σ g and Σ g (x - mean): dx = factor · g - shift - tilt · (x - mean), and dz = g.
pub struct Backward;

impl Pass for Backward {
    const BACKWARD: bool = true;
    const RELATIVE: bool = false;

    #[inline(always)]
    unsafe fn add<T: Element<Acc = f32>, const V: usize, const N: usize>(
        p: &ChannelwiseParams,
        mean: &[f32; V],
        words: &[[u32; 4]; N],
        [g_sums, gx_sums]: &mut [[f32; V]; 2],
    ) {
        let (x, g) = (widened::<T, V>(words.get_unchecked(0)), gradient::<T, V, N>(p, words));
        for_each!(I < V, {
            let g = *g.get_unchecked(I);
            *g_sums.get_unchecked_mut(I) += g;
            *gx_sums.get_unchecked_mut(I) += g * (*x.get_unchecked(I) - *mean.get_unchecked(I));
        });
    }

    #[inline(always)]
    fn part(_: f32, _: f32, sums: [f32; 2]) -> [f32; 2] {
        sums
    }

    /// Scale, mean and inverse standard deviation.
    #[inline(always)]
    unsafe fn parameters<T: Element<Acc = f32>>(p: &ChannelwiseParams, channel: u32, _: bool) -> [f32; 3] {
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
        p: &ChannelwiseParams,
        channel: u32,
        there: bool,
        is_first: bool,
        _: f32,
        [g, gx]: [f32; 2],
        [scale, mean, inv_std]: [f32; 3],
    ) -> [f32; 4] {
        let gx = gx * inv_std;
        if there && is_first {
            blend::<T>(p, p.dscale, p.parameter_strides[2], channel, gx);
            blend::<T>(p, p.dbias, p.parameter_strides[3], channel, g);
        }
        let factor = scale * inv_std;
        let share = factor * p.row_share;
        [mean, factor, share * g, share * gx * inv_std]
    }

    #[inline(always)]
    unsafe fn results<T: Element<Acc = f32>, const V: usize, const N: usize>(
        p: &ChannelwiseParams,
        [mean, factor, shift, tilt]: &[[f32; V]; 4],
        words: &[[u32; 4]; N],
        _: Option<&[u32; 4]>,
    ) -> [[f32; V]; 2] {
        let (x, g) = (widened::<T, V>(words.get_unchecked(0)), gradient::<T, V, N>(p, words));
        let mut dx = g;
        for_each!(I < V, {
            let from_mean = *x.get_unchecked(I) - *mean.get_unchecked(I);
            let dx = dx.get_unchecked_mut(I);
            *dx = *factor.get_unchecked(I) * *dx - *shift.get_unchecked(I) - *tilt.get_unchecked(I) * from_mean;
        });
        [dx, g]
    }
}
