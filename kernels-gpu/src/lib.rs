//! The device code of oxidnn: every kernel, written in Rust and compiled to PTX.
