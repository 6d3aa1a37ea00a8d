//! The operators: one folder each, one file an algorithm, entries in `entry.rs`.

/// Entries for the rows of a kernel list with the columns symbol, pass, element type: each calls `naive::<pass>`.
///
/// The module that expands it has `naive` and `Params` in scope.
macro_rules! naive_entries {
    ($(($symbol:ident, $pass:ident, $dtype:ident)),* $(,)?) => { $(
        /// # Safety
        /// The host passes live tensors of the extents and strides in `params`.
        // Without a bound on blocks, ptxas takes fewer registers than there are, and spills.
        #[cuda_std::kernel(threads = 256, min_blocks = 1)]
        pub unsafe fn $symbol(params: Params) {
            naive::$pass::<$dtype>(&params)
        }
    )* };
}

mod activation;
mod adam;
mod affinegrid;
mod bias;
mod conv;
mod crossentropy;
mod ctc;
mod dropout;
mod gather;
mod gridsample;
mod lrn;
mod matmul;
mod norm;
mod pad;
mod pointwise;
mod pool;
mod reduce;
mod resample;
mod sgd;
mod softmax;
mod transform;
mod unpool;
