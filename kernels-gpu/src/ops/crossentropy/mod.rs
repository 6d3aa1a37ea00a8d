//! Cross-entropy, formula in `kernel_abi::ops::crossentropy`.

mod entry;
mod looped_rows;
mod naive;
mod split_rows;
