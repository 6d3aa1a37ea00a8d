//! What host and kernels agree on for `given_tables`: neighbours and weights of every position, made by the host.

use crate::ChannelTensor;
use crate::division::Divisor;

/// The most positions of all axes together.
pub const GIVEN_POSITIONS: usize = 96;

/// The most neighbours of a position along an axis, one behind the other.
pub const GIVEN_NEIGHBOURS: usize = 4;

crate::abi_struct! {
    /// Launch parameters of `given_tables`, both passes. Channels are counted in vectors where they lie together. Positions
    /// are those of planes, then rows, then columns of what is written.
    ///
    /// What comes first for an access stands first: parameters come to a block 64 bytes at a time.
    pub struct ResampleGivenParams {
        /// Vectors of what is written.
        pub n_items: u32,
        /// The most neighbours of a plane.
        pub plane_neighbours: u32,
        /// 1 where neighbouring threads take neighbouring channels, 0 where they take neighbouring columns.
        pub channels_innermost: u32,
        /// Channels, or vectors of them.
        pub channels: Divisor,
        /// Columns.
        pub width: Divisor,
        /// Rows.
        pub height: Divisor,
        /// Planes.
        pub depth: Divisor,
        /// Factor of the result.
        pub alpha: f32,
        /// Factor of the output's prior value.
        pub beta: f32,
        /// Unused, keeps the next field aligned.
        pub reserved: u32,
        /// What is read: x, or dy.
        pub from: ChannelTensor,
        /// What is written: y, or dx.
        pub to: ChannelTensor,
        /// The first neighbour of each position.
        pub first: [i32; GIVEN_POSITIONS],
        /// What its neighbours weigh; 0 for those that are none.
        pub weights: [[f32; GIVEN_NEIGHBOURS]; GIVEN_POSITIONS],
    }
}
