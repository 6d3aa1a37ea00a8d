//! Epilogues that pass over y behind a product, formula in `kernel_abi::epilogue`.

mod entry;
mod separate;
