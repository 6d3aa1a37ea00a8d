//! Pooling: the maximum or the average of a window that slides over each channel.
//!
//! Forward, in two spatial dimensions (one and three likewise), with u, v strides and h₀ = p u - pad:
//!
//! - `max`: `y[n,c,p,q] = max over r, s of x[n, c, h₀ + r, w₀ + s]` where that lies inside the image;
//! - `average_include_padding`: the sum of those over R S;
//! - `average_exclude_padding`: the sum of those over their number.
//!
//! Backward is the gradient of Σ dy y by x. For `max` it goes to the first maximum of each window in row-major order;
//! it is found again from x, so y is not an operand. A NaN counts as larger than any number, the first of several
//! wins. Averages need dy only.
//!
//! | dimension | meaning |
//! | --- | --- |
//! | N, C | batch, channels |
//! | D, H, W | input extents; P = (H + pad + pad_end - R) / u + 1, rounded down |
//! | T, R, S | window extents |
//! | Z, P, Q | output extents |
//!
//! Tensors are `[N, C, spatial...]` of rank 3 to 5 with any strides and one element type, sums in the accumulator
//! type. Padding is smaller than the window, so that every window sees some of the image. Deterministic: each element
//! of dx gathers its own sum.

mod kernels;
mod params;
#[cfg(not(target_arch = "nvptx64"))]
mod problem;

pub use params::PoolParams;
#[cfg(not(target_arch = "nvptx64"))]
pub use problem::{PoolDesc, PoolProblem, PoolShape};

/// Which pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PoolPass {
    /// `x` to `y`.
    Forward,
    /// `x` (for max) and `dy` to `dx`.
    Backward,
}

crate::text_enum!(PoolPass { Forward = "forward", Backward = "backward" });

/// What becomes of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum PoolMode {
    /// Its maximum.
    Max = 0,
    /// Its sum over its size, padding counted.
    AverageIncludePadding = 1,
    /// Its sum over the number of its elements inside the image.
    AverageExcludePadding = 2,
}

crate::text_enum!(PoolMode {
    Max = "max",
    AverageIncludePadding = "average_include_padding",
    AverageExcludePadding = "average_exclude_padding",
});

/// The window's positions inside the image, `begin..end`, for output position `output`.
#[inline(always)]
pub const fn window(output: i64, stride: i64, padding: i64, window: i64, image: i64) -> (i64, i64) {
    let start = output * stride - padding;
    let end = start + window;
    (if start < 0 { 0 } else { start }, if end > image { image } else { end })
}

/// The output positions `begin..end` whose windows hold image position `at`.
#[inline(always)]
pub const fn covering(at: i64, stride: i64, padding: i64, window: i64, output: i64) -> (i64, i64) {
    let last = (at + padding) / stride;
    let first = at + padding - window + 1;
    let begin = if first <= 0 { 0 } else { (first - 1) / stride + 1 };
    (begin, if last < output { last + 1 } else { output })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn covering_inverts_window() {
        for (image, extent, stride, padding, padding_end) in
            [(7, 3, 2, 1, 1), (9, 2, 3, 0, 0), (4, 4, 1, 3, 2), (1, 1, 1, 0, 0)]
        {
            let output = (image + padding + padding_end - extent) / stride + 1;
            for at in 0..image {
                let expected: Vec<i64> = (0..output)
                    .filter(|&o| {
                        let (begin, end) = window(o, stride, padding, extent, image);
                        (begin..end).contains(&at)
                    })
                    .collect();
                let (begin, end) = covering(at, stride, padding, extent, output);
                assert_eq!((begin..end).collect::<Vec<_>>(), expected);
            }
        }
    }
}
