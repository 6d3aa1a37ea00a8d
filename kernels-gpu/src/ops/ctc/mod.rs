//! Connectionist temporal classification, formula in `kernel_abi::ops::ctc`.

mod entry;
mod naive;
