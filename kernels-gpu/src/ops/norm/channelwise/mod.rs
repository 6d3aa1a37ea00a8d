//! Channels-last and planar images: sums over parts of channels, then one pass.
//!
//! Grid: channels along x, parts along y, as `kernel_abi::ops::norm::channelwise` shares them out; blocks of 256 threads.
//! A thread keeps to the channels of one vector, or to one channel whose vectors lie along positions. Means and squared
//! deviations of threads and of parts are joined by Chan's formula (Chan, Golub and LeVeque 1979), in a fixed order.

mod backward;
mod forward;
mod join;
mod place;

pub use backward::{apply_gradients, blend, finish_gradients, gradient, gradient_sums, whole_backward};
pub use forward::{apply, finish_row, finish_statistics, infer, prefetch_running, statistics, whole_forward};
pub use place::parameter;
