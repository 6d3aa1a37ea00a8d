//! Channels-last and planar images: sums over parts of channels, then one pass.
//!
//! Grid: channels along x, parts along y (of blocks that write a run each the other way round), as
//! `kernel_abi::ops::norm::channelwise` shares them out; blocks of 256 threads, of those for runs up to 512.
//! A thread keeps to the channels of one vector, or to one channel whose vectors lie along positions. Means and squared
//! deviations of threads and of parts are joined by Chan's formula (Chan, Golub and LeVeque 1979), in a fixed order.

mod backward;
mod forward;
mod join;
mod place;
pub(super) mod resident;
mod rows;
mod runs;

pub use backward::{apply_gradients, finish_gradients, gradient_sums, whole_backward};
pub use forward::{apply, apply_runs, finish_statistics, infer, infer_runs, statistics, whole_forward};
pub(super) use place::neighbours;
pub use runs::{apply_gradients_runs, gradient_sums_runs, statistics_runs};

use backward::{blend, gradient};
use forward::{finish_row, prefetch_running};
use place::parameter;
use rows::{pivot, settle};
