//! Cross-entropy, formula in `kernel_abi::ops::crossentropy`.

mod entry;
mod naive;
