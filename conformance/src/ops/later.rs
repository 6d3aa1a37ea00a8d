//! Operators that the project is to have and does not have yet.

use super::{By, Op};

pub const OPS: &[Op] = &[
    nothing("Attention"),
    nothing("DeformConv"),
    nothing("GRU"),
    nothing("LSTM"),
    nothing("LinearAttention"),
    nothing("RNN"),
    nothing("RotaryEmbedding"),
    nothing("ai.onnx.preview.FlexAttention"),
    nothing("ai.onnx.preview.training.Adagrad"),
];

const fn nothing(name: &'static str) -> Op {
    Op { name, by: By::Nothing }
}
