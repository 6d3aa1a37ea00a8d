//! What host and kernels agree on for `planes` and `columns`.

use super::WindowAxis;
use crate::ChannelTensor;
use crate::division::Divisor;

/// Threads of a block of `planes`.
pub const PLANE_THREADS: u32 = 256;

/// Threads of a block of `columns`.
pub const COLUMN_THREADS: u32 = 128;

/// Rows of windows that threads of `columns` read ahead, at most.
pub const POOL_MAX_AHEAD: u32 = 2;

/// The windows before one, along an axis, that meet elements which it is the last to meet.
pub const fn plane_halo(side: u32, stride: u32) -> u32 {
    (side - 1) / stride
}

crate::abi_struct! {
    /// Launch parameters of `planes` and `columns`. Spatial arrays are height, width; planes count as images.
    ///
    /// Window `o` owns the elements from its first one to that of window `o + 1`; behind the last window there are others
    /// that have no gradient, as many as there are elements to own.
    pub struct PoolPlaneParams {
        /// Groups of threads that have something to do.
        pub n_groups: u32,
        /// Columns of windows of a group: 8, 16 or 32. In `planes` each has a thread, in `columns` all have those of a warp.
        pub group: u32,
        /// Rows of windows whose elements a group writes.
        pub steps: u32,
        /// `columns`: rows of windows that are read ahead, 1 or [`POOL_MAX_AHEAD`]; others read in their own way.
        pub ahead: u32,
        /// Groups beside one another.
        pub tiles: Divisor,
        /// Groups above one another.
        pub strips: Divisor,
        /// Planes of an image.
        pub planes: Divisor,
        /// Channels; in `columns`, groups that share their vectors out.
        pub channels: Divisor,
        /// Both spatial axes.
        pub axes: [WindowAxis; 2],
        /// 1 where a maximum ignores NaNs.
        pub ignore_nan: u32,
        /// What stands for elements outside the image: nothing loses to it.
        pub fill: u32,
        /// Factor of the result.
        pub alpha: f32,
        /// Factor of the prior value.
        pub beta: f32,
        /// Channels, or vectors of them.
        pub vectors: u32,
        /// x.
        pub x: ChannelTensor,
        /// dy.
        pub dy: ChannelTensor,
        /// dx.
        pub dx: ChannelTensor,
    }
}
