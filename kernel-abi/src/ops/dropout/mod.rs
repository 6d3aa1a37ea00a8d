//! Dropout: elements become 0 with probability p, and the others are divided by 1 - p.
//!
//! `y = x / (1 - p)` where the element is kept, else exactly 0, whatever x was; likewise dx of dy. alpha and beta do not
//! apply. Which elements are kept is decided by the counter-based generator Philox4x32-10 (Salmon, Moraes, Dror, Shaw,
//! "Parallel random numbers: as easy as 1, 2, 3", 2011), so forward, backward, GPU and CPU agree bit by bit:
//!
//! ```text
//! i        place of the element: row-major, or channels-last with `order=channels_last`, whatever the strides
//! key      low and high half of seed
//! counter  low and high half of offset + i / 4 (64 bits, wrapping), 0, 0
//! kept     word i mod 4 of the four ≥ p 2³², rounded down
//! ```
//!
//! `state` is four words of 32 bits on the device: low and high half of seed, low and high half of offset
//! ([`PhiloxState`] makes and reads them). A run uses ⌈n / 4⌉ counters. Where `next` is asked for, the forward pass
//! writes the state behind them there: layers that pass it on, the last to the first, draw anew at every replay of a
//! graph. The backward pass draws the same numbers again from the forward pass' state; or reads `mask`, where the
//! forward pass was asked to store it: bit i mod 32 of word i / 32 is 1 where element i is kept, and bits behind the
//! last element are 0. Any strides and one element type.

mod kernels;
mod params;
pub mod philox;
#[cfg(not(target_arch = "nvptx64"))]
mod problem;

pub use params::DropoutParams;
#[cfg(not(target_arch = "nvptx64"))]
pub use problem::{DropoutDesc, DropoutProblem, PhiloxState};

/// Which pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DropoutPass {
    /// `x` to `y`.
    Forward,
    /// `dy` to `dx`.
    Backward,
}

crate::text_enum!(DropoutPass { Forward = "forward", Backward = "backward" });

/// In which order elements are counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum DropoutOrder {
    /// As the indices run.
    #[default]
    RowMajor,
    /// With dimension 1 fastest: for tensors that lie channels-last, which are fastest in this order.
    ChannelsLast,
}

crate::text_enum!(DropoutOrder { RowMajor = "row_major", ChannelsLast = "channels_last" });
