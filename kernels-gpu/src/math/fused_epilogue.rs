//! Epilogues of tensor-core kernels with 16-bit outputs, formula in `kernel_abi::epilogue`.
//!
//! A thread holds sums as the product instructions leave them: of 16 neighbouring columns, columns `c`, `c + 1`, `c + 8` and
//! `c + 9` of two rows. What is added to 64 columns is loaded at once, before it is needed.
//!
//! Activations use the approximations of the special-function unit, whose errors are below the rounding of the element
//! types but for `tanh` and `elu`, where they may reach half a unit in the last place of f16.

use cuda_std::{guarded, math};
use kernel_abi::epilogue::FusedEpilogueParam;
use kernel_abi::ops::activation::ActivationMode;

/// What is added to the sums that a thread holds of 64 columns.
pub struct Added {
    /// Of the bias, four columns for each 16.
    bias: [f32; 16],
    /// Of the residual, as pairs of elements: both pairs of the first row, then both of the second, for each 16.
    z: [u32; 16],
}

impl Added {
    /// Nothing.
    pub const NONE: Self = Added { bias: [0.0; 16], z: [0; 16] };

    /// Loads what is there of columns `col`, `col + 1`, `col + 8`, … below `end`; `channel` is `col`'s in the bias. `rows`
    /// are the addresses of the residual's rows at column 0, 0 behind the last. `end` is even where there is a residual.
    ///
    /// # Safety
    /// Bias and residual are as the parameters say, the latter's rows contiguous at multiples of 4.
    #[inline(always)]
    pub unsafe fn load(
        p: &FusedEpilogueParam,
        col: u32,
        channel: u32,
        end: u32,
        rows: [u64; 2],
        unpack: impl Fn(u16) -> f32,
    ) -> Self {
        let mut added = Added::NONE;
        if p.bias != 0 {
            let mut i = 0;
            while i < 16 {
                let offset = column(i);
                *added.bias.get_unchecked_mut(i) = bias(p, channel + offset, u32::from(col + offset < end), &unpack);
                i += 1;
            }
        }
        if p.z != 0 {
            let mut i = 0;
            while i < 16 {
                let at = col + 16 * (i as u32 / 4) + 8 * (i as u32 % 2);
                let row = if i % 4 < 2 { rows[0] } else { rows[1] };
                let [pair] = guarded::load_x1(row + u64::from(at) * 2, u32::from(row != 0 && at < end));
                *added.z.get_unchecked_mut(i) = pair;
                i += 1;
            }
        }
        added
    }

    /// Finishes the sums of 16 columns, the `j`-th of the 64: both columns of a pair, of the first row and of
    /// the second, then of the pair 8 columns on.
    #[inline(always)]
    pub fn finish(&self, p: &FusedEpilogueParam, j: usize, v: &mut [f32; 8], unpack: impl Fn(u16) -> f32) {
        let mut i = 0;
        while i < 8 {
            // Sum i lies in pair i / 4, row i / 2 % 2, column i % 2 of the pair.
            let (pair, row, second) = (i / 4, i / 2 % 2, i % 2);
            // SAFETY: `j` is below 4 and `i` below 8.
            unsafe {
                let z = *self.z.get_unchecked(4 * j + 2 * row + pair) >> (16 * second);
                let bias = *self.bias.get_unchecked(4 * j + 2 * pair + second);
                *v.get_unchecked_mut(i) += bias + unpack(z as u16);
            }
            i += 1;
        }
        activate(p, v);
    }
}

/// Distance of the `i`-th of a thread's columns from its first.
#[inline(always)]
const fn column(i: usize) -> u32 {
    (16 * (i / 4) + 8 * (i % 4 / 2) + i % 2) as u32
}

/// The bias of a channel; 0 where `there` is.
///
/// # Safety
/// There is a bias, and unless `there` is 0 it has that channel.
#[inline(always)]
pub unsafe fn bias(p: &FusedEpilogueParam, channel: u32, there: u32, unpack: impl Fn(u16) -> f32) -> f32 {
    let offset = i64::from(channel) * p.bias_stride;
    if p.bias_is_wide != 0 {
        let [bits] = guarded::load_x1(p.bias + offset as u64 * 4, there);
        f32::from_bits(bits)
    } else {
        unpack(guarded::load_u16(p.bias + offset as u64 * 2, there))
    }
}

/// Applies the activation.
#[inline(always)]
pub fn activate(p: &FusedEpilogueParam, v: &mut [f32; 8]) {
    // Numbers, not the enum: an address may hold anything, and a kernel must not have a value outside an enum.
    if p.mode <= ActivationMode::ClippedRelu as u32 {
        let mut i = 0;
        while i < 8 {
            v[i] = math::min_nan_f32(math::max_nan_f32(v[i], p.low), p.high);
            i += 1;
        }
    } else if p.mode == ActivationMode::Tanh as u32 {
        let mut i = 0;
        while i < 8 {
            v[i] = math::tanh_approx(v[i]);
            i += 1;
        }
    } else if p.mode == ActivationMode::Elu as u32 {
        let mut i = 0;
        while i < 8 {
            let x = v[i];
            // Near 0 the difference from 1 has few digits, and x is as near.
            let below = if x > -1.0 / 1024.0 { x } else { math::exp_approx(x) - 1.0 };
            v[i] = if x > 0.0 { x } else { p.coefficient * below };
            i += 1;
        }
    } else {
        // Sigmoid, or swish: x times the sigmoid of c x.
        let gates = p.mode == ActivationMode::Swish as u32;
        let scale = -core::f32::consts::LOG2_E * p.coefficient;
        let mut i = 0;
        while i < 8 {
            // A factor of 0 is the gate's middle for infinities too, and a shut gate lets none through.
            let power = if p.coefficient == 0.0 && v[i].abs() == f32::INFINITY { 0.0 } else { scale * v[i] };
            let sigmoid = math::reciprocal_approx(1.0 + math::exp2_approx(power));
            let gated = if sigmoid == 0.0 { 0.0 } else { sigmoid * v[i] };
            v[i] = if gates { gated } else { sigmoid };
            i += 1;
        }
    }
}
