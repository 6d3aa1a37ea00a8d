//! Element types, functions of one number and index arithmetic.

pub mod activation;
pub mod approximate;
pub mod chunks;
pub mod element;
pub mod epilogue;
pub mod fused_epilogue;
pub mod index;
pub mod kmajor;
pub mod lists;
pub mod number;
pub mod pointwise;
pub mod reduction;
pub mod ring;
pub mod row_most;
pub mod rows;
pub mod scale;
pub mod statistics;
pub mod sum;
pub mod tensor_core;
pub mod tickets;
pub mod typed;
pub mod vector;
pub mod warp_rows;
pub mod words;
