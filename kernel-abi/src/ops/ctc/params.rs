//! Launch parameters of the ctc kernels.

crate::abi_struct! {
    /// Launch parameters of all ctc kernels.
    pub struct CtcParams {
        /// T.
        pub n_steps: i64,
        /// N.
        pub n_sequences: i64,
        /// C.
        pub n_classes: i64,
        /// Labels that there is room for in a sequence.
        pub n_labels: i64,
        /// The class that is no label.
        pub blank: i64,
        /// Whether infinite losses count as 0.
        pub zero_infinity: u32,
        /// A [`LossReduction`](crate::ops::crossentropy::LossReduction) as a number.
        pub reduction: u32,
        /// Factor of the result.
        pub alpha: f64,
        /// Factor of the output's prior value.
        pub beta: f64,
        /// x.
        pub x: u64,
        /// Between steps, sequences and classes of x.
        pub x_strides: [i64; 3],
        /// Labels, lengths of x, lengths of labels.
        pub indices: [u64; 3],
        /// Bytes of an element of each: 4 or 8.
        pub index_bytes: [u32; 3],
        /// The loss's [`DType`](crate::DType) as a number: x's or its accumulator's.
        pub loss_dtype: u32,
        /// Between sequences of each.
        pub index_strides: [i64; 3],
        /// Between labels of a sequence.
        pub label_stride: i64,
        /// loss or dloss.
        pub loss: u64,
        /// Between sequences of it; 0 where it is one number.
        pub loss_stride: i64,
        /// dx.
        pub dx: u64,
        /// Between steps, sequences and classes of dx.
        pub dx_strides: [i64; 3],
        /// ln Σ eˣ of each row, `[N][T]`; 0 where x holds logarithms of probabilities.
        pub lse: u64,
        /// ln α of each state, `[N][rows][2 n_labels + 1]`.
        pub alphas: u64,
        /// ln β of each state, `[N][T][2 n_labels + 1]`; 0 forward.
        pub betas: u64,
        /// Steps that `alphas` has room for: T, or 2 forward, taken in turns.
        pub alpha_rows: i64,
        /// The sequences' losses, of the accumulator type.
        pub losses: u64,
    }
}
