//! Launch parameters of the cross-entropy kernels.

use crate::TensorParam;

crate::abi_struct! {
    /// Launch parameters of the cross-entropy kernels, both passes. Tensors are given by their positions, unused
    /// dimensions first, and where they have classes, by the distance between those.
    pub struct CrossEntropyParams {
        /// Positions.
        pub n_rows: i64,
        /// C.
        pub n_classes: i64,
        /// The class that does not count.
        pub ignore_index: i64,
        /// Whether there is such a class.
        pub has_ignore_index: u32,
        /// 1 where x holds logarithms of probabilities.
        pub log_probs: u32,
        /// One of the numbers in [`target`](super::target).
        pub target_kind: u32,
        /// A [`LossReduction`](super::LossReduction) as a number.
        pub reduction: u32,
        /// The loss's [`DType`](crate::DType) as a number: x's or its accumulator's.
        pub loss_dtype: u32,
        /// The weights' likewise.
        pub weight_dtype: u32,
        /// Factor of the result.
        pub alpha: f64,
        /// Factor of the output's prior value.
        pub beta: f64,
        /// Share of the loss that all classes have.
        pub smoothing: f64,
        /// Between classes of x.
        pub x_class_stride: i64,
        /// Between classes of the target's probabilities.
        pub target_class_stride: i64,
        /// Between classes of dx.
        pub dx_class_stride: i64,
        /// Between weights.
        pub weight_stride: i64,
        /// Weights of classes; 0 where there are none.
        pub weight: u64,
        /// Sum of the rows' weights, for the backward pass of the mean of classes.
        pub total: u64,
        /// Pairs of loss and weight, f64, a pair a row or a block, where they are to be added up.
        pub partials: u64,
        /// What parts of rows leave: two numbers each.
        pub parts: u64,
        /// Parts that a row is cut into, where several blocks share it.
        pub n_parts: u32,
        /// Pieces of 16 bytes in a part.
        pub part_pieces: u32,
        /// x.
        pub x: TensorParam,
        /// Classes or probabilities.
        pub target: TensorParam,
        /// loss or dloss, stride 0 where it is one number.
        pub loss: TensorParam,
        /// lse; address 0 where it is not wanted.
        pub lse: TensorParam,
        /// dx.
        pub dx: TensorParam,
    }
}

impl CrossEntropyParams {
    /// Parameters of the kernel that adds so many pairs up.
    #[inline(always)]
    pub fn sum(&self, n_partials: i64) -> CrossEntropySumParams {
        CrossEntropySumParams {
            n_partials,
            partials: self.partials,
            loss: self.loss.address,
            total: self.total,
            alpha: self.alpha,
            beta: self.beta,
            reduction: self.reduction,
            loss_dtype: self.loss_dtype,
        }
    }
}

crate::abi_struct! {
    /// Launch parameters of the kernel that adds losses and weights up.
    pub struct CrossEntropySumParams {
        /// Pairs.
        pub n_partials: i64,
        /// Their address.
        pub partials: u64,
        /// The loss.
        pub loss: u64,
        /// The sum of weights; 0 where it is not wanted.
        pub total: u64,
        /// Factor of the result.
        pub alpha: f64,
        /// Factor of the output's prior value.
        pub beta: f64,
        /// A [`LossReduction`](super::LossReduction) as a number.
        pub reduction: u32,
        /// The loss's [`DType`](crate::DType) as a number: x's or its accumulator's.
        pub loss_dtype: u32,
    }
}
