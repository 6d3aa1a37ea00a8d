//! Epilogues: what becomes of a product before it is stored.
//!
//! For element i of a tensor y, in channel k:
//!
//! `y[i] = act(alpha · product[i] + beta · y[i] + bias[k] + z[i])`
//!
//! all of it in the accumulator, with one rounding at the end. Every part may be left out. The activation is one of those
//! of [`activation`](crate::ops::activation) that [`EPILOGUE`](crate::ops::activation::ActivationMode::EPILOGUE) lists, by
//! the same names and with the same coefficient (`relu` with its default parameters); a NaN stays a NaN. With
//! channel sums a run also gives, of y as it is stored,
//!
//! `sum[k] = Σ y`, `sum_squares[k] = Σ y²`
//!
//! over all elements of channel k, in a fixed order: what a batch normalization begins with.
//!
//! | operand | extents | element type |
//! | --- | --- | --- |
//! | bias | `[K]`, any stride | y's, or its accumulator's |
//! | z | y's, any strides | y's |
//! | sum, sum_squares | `[K]` | both y's accumulator's, or both f64 |
//!
//! The variance of a channel is a difference of these sums. Sums in f32 keep it while the mean is below some 2⁸ standard
//! deviations; sums in f64, which add y in f64, keep it up to 2²².
//!
//! As operands of a run they stand behind y, in this order.

mod kernels;
mod params;

#[cfg(not(target_arch = "nvptx64"))]
mod description;

pub use params::{EpilogueParam, EpilogueSumsParams, FusedEpilogueParam, SeparateEpilogueParams};

#[cfg(not(target_arch = "nvptx64"))]
pub use description::Epilogue;
