//! Operators that the project is to have and does not have yet.

use super::{By, Op};

pub const OPS: &[Op] = &[
    nothing("AffineGrid"),
    nothing("Attention"),
    nothing("DeformConv"),
    nothing("GRU"),
    nothing("GridSample"),
    nothing("LSTM"),
    nothing("LinearAttention"),
    nothing("LpNormalization"),
    nothing("LpPool"),
    nothing("MaxUnpool"),
    nothing("Pad"),
    nothing("RNN"),
    nothing("ReduceL1"),
    nothing("ReduceL2"),
    nothing("ReduceLogSum"),
    nothing("ReduceLogSumExp"),
    nothing("ReduceMax"),
    nothing("ReduceMean"),
    nothing("ReduceMin"),
    nothing("ReduceProd"),
    nothing("ReduceSum"),
    nothing("ReduceSumSquare"),
    nothing("Resize"),
    nothing("RotaryEmbedding"),
    nothing("Upsample"),
    nothing("ai.onnx.preview.FlexAttention"),
    nothing("ai.onnx.preview.training.Adagrad"),
];

const fn nothing(name: &'static str) -> Op {
    Op { name, by: By::Nothing }
}
