//! Micro-batches: a batch computed in parts, one after the other, in less workspace.
//!
//! After Oyama, Ben-Nun, Hoefler, Matsuoka, "µ-cuDNN: accelerating deep learning frameworks with micro-batching", 2018.
//! [`pareto`], [`wr`] and [`knapsack`] are arithmetic that knows no device; [`split`] says what a part takes of a
//! problem's operands; [`choice`] brings both together for a problem, [`network`] for many; [`launch`] runs the parts.

mod choice;
mod division;
mod knapsack;
mod launch;
mod network;
mod pareto;
mod saved;
mod split;
mod wr;

pub(crate) use choice::{batch, divisions, micro_batch, none_within, plan, plan_division};
pub use division::{Batch, BatchSizes, Division, Divisions, MicroBatch};
pub use network::{LayerChoice, Network, NetworkChoice, NetworkPlan};
pub(crate) use split::{BatchSplit, Share};
