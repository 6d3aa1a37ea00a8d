//! 8-bit floating-point numbers on the host: bits with conversions, whose rules stand in [`kernel_abi::fp8`].

use kernel_abi::fp8;
use std::fmt;

macro_rules! fp8_type {
    ($(#[$meta:meta])* $name:ident, $from_f32:path, $from_f64:path, $to_f32:path) => {
        $(#[$meta])*
        ///
        /// Zeros of both signs and NaNs compare by their bits; convert to compare as numbers.
        #[derive(Clone, Copy, Default, PartialEq, Eq, Hash, bytemuck::Pod, bytemuck::Zeroable)]
        #[repr(transparent)]
        #[allow(non_camel_case_types)]
        pub struct $name(u8);

        impl $name {
            /// The number with these bits.
            pub const fn from_bits(bits: u8) -> Self {
                $name(bits)
            }

            /// Its bits.
            pub const fn to_bits(self) -> u8 {
                self.0
            }

            /// Rounded to nearest, ties to even, saturating.
            pub fn from_f32(value: f32) -> Self {
                $name($from_f32(value))
            }

            /// Rounded once to nearest, ties to even, saturating.
            pub fn from_f64(value: f64) -> Self {
                $name($from_f64(value))
            }

            /// Exactly.
            pub fn to_f32(self) -> f32 {
                $to_f32(self.0)
            }

            /// Exactly.
            pub fn to_f64(self) -> f64 {
                f64::from(self.to_f32())
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.to_f32(), f)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.to_f32(), f)
            }
        }
    };
}

fp8_type! {
    /// A number of [`DType::F8E4M3`](crate::DType::F8E4M3).
    f8e4m3, fp8::e4m3_from_f32, fp8::e4m3_from_f64, fp8::f32_from_e4m3
}

fp8_type! {
    /// A number of [`DType::F8E5M2`](crate::DType::F8E5M2).
    f8e5m2, fp8::e5m2_from_f32, fp8::e5m2_from_f64, fp8::f32_from_e5m2
}
