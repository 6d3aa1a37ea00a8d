//! oxidnn against its peers, cuDNN and cuBLASLt, on the layers of known networks.
//!
//! A [suite](suites) is a list of layers; with a pass, an element type and a layout, each layer is a
//! [case](case::Case). For every case, ours and the peer work on the same random normal data, which rotates through
//! more memory than the second-level cache holds. Every algorithm of either side that can do the work is tried; those
//! that may be the best are timed again in short rounds, and the best of these in longer ones, whose order changes from
//! round to round: a call has the clocks that those before it have left. All of it is replays of CUDA graphs of several
//! calls, so that no host time counts on either side. Every timed result is checked: samples against sums in f64, all of
//! it against the naive kernel.
//!
//! Foreign calls stand in [`peers`], and in [`device`] for memory that both sides see.

pub mod case;
pub mod device;
pub mod network;
pub mod options;
pub mod peers;
pub mod random;
pub mod report;
pub mod run;
pub mod suites;
pub mod timing;
pub mod verify;

mod calibrate;
mod contest;
mod estimates;
mod measure;
mod ours;
mod reference;
mod session;

pub use options::Options;
pub use run::run;
