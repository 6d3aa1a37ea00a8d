//! Micro-batches: a batch computed in parts, one after the other, in less workspace.

mod knapsack;
mod pareto;
mod wr;
