//! The only lists of ctc kernels.

/// Calls `$callback!` with one row per kernel: symbol, what it computes, element type of x.
#[macro_export]
macro_rules! ctc_kernels {
    ($callback:ident) => {
        $callback! {
            (ctc_lse_naive_f32, lse, f32),
            (ctc_lse_naive_f64, lse, f64),
            (ctc_lse_naive_f16, lse, f16),
            (ctc_lse_naive_bf16, lse, bf16),
            (ctc_states_naive_f32, states, f32),
            (ctc_states_naive_f64, states, f64),
            (ctc_states_naive_f16, states, f16),
            (ctc_states_naive_bf16, states, bf16),
            (ctc_loss_naive_f32, loss, f32),
            (ctc_loss_naive_f64, loss, f64),
            (ctc_loss_naive_f16, loss, f16),
            (ctc_loss_naive_bf16, loss, bf16),
            (ctc_gradient_naive_f32, gradient, f32),
            (ctc_gradient_naive_f64, gradient, f64),
            (ctc_gradient_naive_f16, gradient, f16),
            (ctc_gradient_naive_bf16, gradient, bf16),
        }
    };
}
