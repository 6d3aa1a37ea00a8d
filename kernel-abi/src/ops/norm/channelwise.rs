//! What host and device agree on about sums over channels and passes that follow them.

use crate::division::Divisor;

/// Threads of a block.
pub const BLOCK: u32 = 256;

/// The most threads of a block that writes a run of positions in one go.
pub const RUN_BLOCK: u32 = 512;

/// Positions of a thread of it, of x and z; of x alone it has twice as many.
pub const RUN: u32 = 2;

/// The same backward, of x and dy.
pub const GRADIENT_RUN: u32 = 2;

/// Threads of a block that goes over runs of x and sums up, and positions of a thread of it in each run.
pub const STATISTICS_BLOCK: u32 = 512;
/// As above.
pub const STATISTICS_RUN: u32 = 4;

/// The same backward, of x and dy.
pub const GRADIENT_SUM_BLOCK: u32 = 256;
/// As above.
pub const GRADIENT_SUM_RUN: u32 = 3;

/// Places of the tensors of x's extents in [`ChannelwiseParams`].
pub mod tensor {
    /// x.
    pub const X: usize = 0;
    /// y, or dx.
    pub const OUT: usize = 1;
    /// dy; forward, the residual z.
    pub const DY: usize = 2;
    /// y, backward.
    pub const Y: usize = 3;
    /// dz.
    pub const DZ: usize = 4;
    /// How many.
    pub const COUNT: usize = 5;
}

/// How elements are shared out: images, positions and channels, and which threads take which.
///
/// A block has `lanes` threads beside each other along what is contiguous, channels or positions, and `BLOCK / lanes` rows
/// of them along the other, or along images. It takes a part: some images' run of positions, of its channels.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C)]
pub struct Share {
    /// Images.
    pub images: u32,
    /// Positions of an image.
    pub positions: u32,
    /// Channels.
    pub channels: u32,
    /// Images of a part.
    pub part_images: u32,
    /// Positions of a part.
    pub part_positions: u32,
    /// Parts along the positions.
    pub chunks: Divisor,
    /// All parts.
    pub n_parts: u32,
    /// 1 where parts have images of their own, whose statistics are their own.
    pub by_image: u32,
    /// Threads beside each other: a power of two, unless nothing is summed where blocks sweep.
    pub lanes: u32,
    /// The same, to divide by.
    pub by_lanes: Divisor,
    /// 1 where lanes stand along channels, 0 where they do along positions.
    pub along_channels: u32,
    /// 1 where rows stand along images, 0 where they do along positions.
    pub rows_along_images: u32,
    /// 1 where 16 bytes are accessed at a time.
    pub vectors: u32,
    /// 1 where all blocks go over the positions together, each some of them at a time: parts are every so many rounds'
    /// positions of a block. Images follow one another like positions, and are counted as one.
    pub sweeping: u32,
    /// Positions that are left for a last round.
    pub rest: u32,
    /// Positions of a block at a time.
    pub rows: u32,
    /// Whole runs of each part, where these are summed up one after another.
    pub rounds: u32,
}

impl Share {
    /// Elements of a part of one channel, where these are summed up.
    pub const fn part_elems(&self, part: u32) -> u32 {
        if self.sweeping != 0 {
            let left = self.rest.saturating_sub(part * self.rows);
            return self.part_positions + if left < self.rows { left } else { self.rows };
        }
        let (of_images, chunk) = self.chunks.div_rem(part);
        let (first_image, first) = (of_images * self.part_images, chunk * self.part_positions);
        let images =
            if first_image + self.part_images > self.images { self.images - first_image } else { self.part_images };
        let positions =
            if first + self.part_positions > self.positions { self.positions - first } else { self.part_positions };
        images * positions
    }
}

crate::abi_struct! {
    /// Launch parameters of all these kernels. Addresses are 0 for what is not there.
    pub struct ChannelwiseParams {
        /// How elements are shared out.
        pub share: Share,
        /// Rows of statistics: `image · rows_per_image + channel / channels_per_row`.
        pub rows_per_image: u32,
        /// Channels of a row.
        pub channels_per_row: Divisor,
        /// Tensors of x's extents, by [`tensor`].
        pub addresses: [u64; 5],
        /// For each, elements between neighbouring images, positions and channels.
        pub strides: [[i64; 3]; 5],
        /// scale.
        pub scale: u64,
        /// bias.
        pub bias: u64,
        /// dscale.
        pub dscale: u64,
        /// dbias.
        pub dbias: u64,
        /// Elements between neighbours of scale, bias, dscale, dbias and running statistics.
        pub parameter_strides: [i64; 5],
        /// Means of the rows.
        pub mean: u64,
        /// Inverse standard deviations; for inference, variances.
        pub inv_std: u64,
        /// What x̂ is more than (x − mean) · inv_std of every row, since the mean is rounded; 0 where statistics are given.
        pub rest: u64,
        /// running_mean.
        pub running_mean: u64,
        /// running_var.
        pub running_var: u64,
        /// Backward: Σ h / m of the rows. With a slope, what is added to dx.
        pub shift: u64,
        /// Backward: Σ h x̂ / m of the rows. With a slope, the share of x in dx.
        pub tilt: u64,
        /// Backward, where dx is written in runs: the share of dy in dx. Rows are channels.
        pub slope: u64,
        /// Mean and sum of squared deviations, or Σ g and Σ g x̂: `[which][part][channel]`.
        pub partials: u64,
        /// Rows.
        pub n_rows: u32,
        /// 1 where scale, bias and their gradients are f32, 0 where they are of x's type.
        pub parameters_are_wide: u32,
        /// The same for running statistics.
        pub running_is_wide: u32,
        /// What y is at least: 0 for `relu` and `clipped_relu`.
        pub low: f32,
        /// What y is at most; backward not a number where there is no such bound.
        pub high: f32,
        /// What is added to the variance.
        pub epsilon: f32,
        /// Share of the new statistics in the running ones.
        pub factor: f32,
        /// Factor of the variance in the running one.
        pub correction: f32,
        /// 1 / elements of a row.
        pub row_share: f32,
        /// Factor of the result.
        pub alpha: f32,
        /// Factor of the output's prior value.
        pub beta: f32,
        /// Neighbouring channels that have one parameter: several where a channel's positions are taken for channels.
        pub channels_per_parameter: Divisor,
    }
}

impl ChannelwiseParams {
    /// Whether every channel is a row with parameters of its own, of which all parts have some.
    #[inline(always)]
    pub const fn finishes_channels(&self) -> bool {
        self.share.by_image == 0 && self.channels_per_row.divisor == 1 && self.channels_per_parameter.divisor == 1
    }
}
