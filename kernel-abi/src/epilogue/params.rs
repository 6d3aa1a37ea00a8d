//! Launch parameters.

/// Bias and activation as a kernel sees them.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct EpilogueParam {
    /// Device address of the bias; 0 for none.
    pub bias: u64,
    /// Elements between neighbouring channels of the bias.
    pub bias_stride: i64,
    /// An [`ActivationMode`](crate::ops::activation::ActivationMode) as a number.
    pub mode: u32,
    /// 1 where the bias is of the accumulator's type, 0 where it is of y's.
    pub bias_is_wide: u32,
    /// The activation's coefficient.
    pub coefficient: f64,
}

impl EpilogueParam {
    /// What changes nothing.
    pub const NONE: Self = EpilogueParam { bias: 0, bias_stride: 0, mode: 0, bias_is_wide: 0, coefficient: 0.0 };
}

/// Bias, residual and activation as tensor-core kernels with 16-bit outputs see them.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct FusedEpilogueParam {
    /// Device address of the bias; 0 for none.
    pub bias: u64,
    /// Elements between neighbouring channels of the bias.
    pub bias_stride: i64,
    /// Device address of the residual; 0 for none.
    pub z: u64,
    /// 1 where sums become more than a blend with the prior values, 0 where all of this is skipped.
    pub follows: u32,
    /// An [`ActivationMode`](crate::ops::activation::ActivationMode) as a number.
    pub mode: u32,
    /// 1 where the bias is f32, 0 where it is of the output's type.
    pub bias_is_wide: u32,
    /// The activation's coefficient; 1 for `sigmoid`.
    pub coefficient: f32,
    /// Lower bound of `identity`, `relu` and `clipped_relu`.
    pub low: f32,
    /// Upper bound.
    pub high: f32,
}

impl FusedEpilogueParam {
    /// What changes nothing.
    pub const NONE: Self = FusedEpilogueParam {
        bias: 0,
        bias_stride: 0,
        z: 0,
        follows: 0,
        mode: 0,
        bias_is_wide: 0,
        coefficient: 0.0,
        low: f32::NEG_INFINITY,
        high: f32::INFINITY,
    };
}

crate::abi_struct! {
    /// Launch parameters of the kernels that pass over y behind a product.
    ///
    /// Elements are counted in channels and, along all other dimensions, in items: single elements, or vectors of 16
    /// bytes where those lie along the innermost of these dimensions.
    pub struct SeparateEpilogueParams {
        /// y.
        pub y: u64,
        /// The residual; 0 for none.
        pub z: u64,
        /// Bias and activation.
        pub epilogue: EpilogueParam,
        /// Items along all dimensions but the channels', outermost first; unused leading ones are 1.
        pub extents: [i64; 4],
        /// Elements between neighbouring items of y.
        pub y_strides: [i64; 4],
        /// The same of z.
        pub z_strides: [i64; 4],
        /// Items of a channel: the product of `extents`.
        pub n_items: i64,
        /// K.
        pub channels: i64,
        /// Elements between neighbouring channels of y.
        pub y_channel_stride: i64,
        /// The same of z.
        pub z_channel_stride: i64,
        /// Threads that stand beside each other along the channels: a power of two.
        pub lanes: u32,
        /// 1 where 16 bytes are accessed at a time.
        pub vectors: u32,
        /// 1 where vectors lie along the channels.
        pub along_channels: u32,
        /// 0 where y stays as it is and only sums are wanted.
        pub writes: u32,
        /// Where the parts of the channel sums go: `[slice][sum, sum of squares][channel]` in the type of the
        /// sums; 0 for no sums.
        pub partials: u64,
    }
}

crate::abi_struct! {
    /// Launch parameters of the kernels that add up the parts of channel sums.
    pub struct EpilogueSumsParams {
        /// `[slice][sum, sum of squares][channel]`.
        pub partials: u64,
        /// Sums.
        pub sum: u64,
        /// Sums of squares.
        pub sum_squares: u64,
        /// Slices.
        pub n_slices: i64,
        /// K.
        pub channels: i64,
    }
}
