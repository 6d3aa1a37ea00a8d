//! Benchmarks of the operators and their peers.
