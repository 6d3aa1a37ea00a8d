//! Micro-batches: a batch computed in parts, one after the other, in less workspace.
//!
//! After Oyama, Ben-Nun, Hoefler, Matsuoka, "µ-cuDNN: accelerating deep learning frameworks with micro-batching", 2018.
//! [`pareto`], [`wr`] and [`knapsack`] are arithmetic that knows no device, [`times`] bounds what is not measured by what
//! is, and [`aim`] tells what of it a choice depends on; [`split`] says what a part takes of a problem's operands;
//! [`choice`] brings both together for a problem, [`network`] for many; [`measure`] has devices measure what is not
//! known; [`launch`] runs the parts.

mod aim;
mod choice;
mod division;
mod knapsack;
mod launch;
mod measure;
mod network;
mod pareto;
mod recalled;
mod saved;
mod split;
#[cfg(test)]
mod synthetic;
mod times;
mod wr;

pub use aim::Aim;
pub(crate) use choice::{
    batch, divisions, measure_part, micro_batch, none_within, plan, plan_division, recall, recall_part,
};
pub use division::{Batch, BatchSizes, Division, Divisions, MicroBatch};
pub use measure::Effort;
pub use network::{LayerChoice, Network, NetworkChoice, NetworkPlan};
pub(crate) use recalled::Recalled;
pub(crate) use split::{BatchSplit, Share};
pub(crate) use times::{Name, Times};
