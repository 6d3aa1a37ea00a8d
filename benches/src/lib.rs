//! Benchmarks of the operators and their peers.
//!
//! Plain programs, one an operator, so that they run where there is a driver and no cargo. Ours goes through the public
//! API. Both sides are timed in one run, taking turns, as replays of CUDA graphs of several calls: timed call by
//! call, a slow host would count as a slow kernel. Operands are random normal numbers, since a GPU draws less power,
//! and runs faster, on zeros; they rotate through more memory than the L2 cache holds. Results are checked.

pub mod cublas;
pub mod options;
pub mod random;
pub mod report;
