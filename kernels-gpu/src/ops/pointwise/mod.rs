//! Pointwise operations and chains, formulas in `kernel_abi::ops::pointwise`.

mod entry;
mod naive;
mod specialized;
mod streamed;
