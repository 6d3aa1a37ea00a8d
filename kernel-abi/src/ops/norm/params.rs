//! Launch parameters of the normalization kernels.

use crate::MAX_RANK;

/// Places of the tensors in a [`Walk`].
pub mod slot {
    /// What is written: y, or dx.
    pub const OUT: usize = 0;
    /// x.
    pub const X: usize = 1;
    /// dy; forward, the residual z.
    pub const DY: usize = 2;
    /// y, backward.
    pub const Y: usize = 3;
    /// dz.
    pub const DZ: usize = 4;
    /// scale; for the gradients of parameters dscale.
    pub const SCALE: usize = 5;
    /// bias; for the gradients of parameters dbias.
    pub const BIAS: usize = 6;
    /// Mean and inverse standard deviation.
    pub const STATISTIC: usize = 7;
    /// Running statistics.
    pub const RUNNING: usize = 8;
    /// How many.
    pub const COUNT: usize = 9;
}

/// Some of x's dimensions, and the distances of all tensors along them; unused dimensions first.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct Walk {
    /// Extents.
    pub dims: [i64; MAX_RANK],
    /// Elements between neighbours, by [`slot`] and dimension; 0 where a tensor repeats its elements.
    pub strides: [[i64; MAX_RANK]; slot::COUNT],
}

crate::abi_struct! {
    /// Launch parameters of the kernels for any strides. Addresses are 0 for what is not there.
    pub struct NormParams {
        /// Elements across which kernels are parallel: rows, parameters, or elements of x.
        pub n_outer: i64,
        /// Elements of each: of a row, or sharing a parameter, or 1.
        pub n_inner: i64,
        /// Dimensions across.
        pub outer: Walk,
        /// Dimensions within.
        pub inner: Walk,
        /// x.
        pub x: u64,
        /// y, dx.
        pub out: u64,
        /// dy; forward, z.
        pub dy: u64,
        /// y, backward.
        pub y: u64,
        /// dz.
        pub dz: u64,
        /// scale.
        pub scale: u64,
        /// bias.
        pub bias: u64,
        /// dscale.
        pub dscale: u64,
        /// dbias.
        pub dbias: u64,
        /// Mean, in the accumulator's type.
        pub mean: u64,
        /// Inverse standard deviation.
        pub inv_std: u64,
        /// What x̂ is more than (x − mean) · inv_std of every row, since the mean is rounded; 0 where statistics are given.
        pub rest: u64,
        /// running_mean.
        pub running_mean: u64,
        /// running_var.
        pub running_var: u64,
        /// 1 where mean and inverse standard deviation are read, 0 where they are written.
        pub statistics_are_given: u32,
        /// 1 where the mean is subtracted.
        pub has_mean: u32,
        /// 1 where scale and bias are of the accumulator's type, 0 where they are of x's.
        pub parameters_are_wide: u32,
        /// The same for running statistics.
        pub running_is_wide: u32,
        /// An [`ActivationMode`](crate::ops::activation::ActivationMode) as a number.
        pub mode: u32,
        /// Unused, keeps the next field aligned.
        pub reserved: u32,
        /// The activation's coefficient.
        pub coefficient: f64,
        /// What is added to the variance.
        pub epsilon: f64,
        /// Share of the new statistics in the running ones.
        pub factor: f64,
        /// Factor of the variance in the running one.
        pub correction: f64,
        /// Factor of the result.
        pub alpha: f64,
        /// Factor of the output's prior value.
        pub beta: f64,
    }
}

crate::abi_struct! {
    /// Launch parameters of the kernels that make statistics of channel sums. Addresses are 0 for what is not there.
    pub struct NormFinalizeParams {
        /// Channels.
        pub channels: i64,
        /// Sums.
        pub sum: u64,
        /// Sums of squares.
        pub sum_squares: u64,
        /// scale.
        pub scale: u64,
        /// bias.
        pub bias: u64,
        /// Elements between neighbours of scale, bias, and running statistics.
        pub strides: [i64; 3],
        /// Mean.
        pub mean: u64,
        /// Inverse standard deviation.
        pub inv_std: u64,
        /// scale · inv_std.
        pub eq_scale: u64,
        /// bias - mean · eq_scale.
        pub eq_bias: u64,
        /// running_mean.
        pub running_mean: u64,
        /// running_var.
        pub running_var: u64,
        /// Elements of a channel.
        pub count: f64,
        /// What is added to the variance.
        pub epsilon: f64,
        /// Share of the new statistics in the running ones.
        pub factor: f64,
        /// Factor of the variance in the running one.
        pub correction: f64,
    }
}
