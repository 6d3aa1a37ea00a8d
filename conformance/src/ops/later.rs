//! Operators that the project is to have and does not have yet.

use super::{By, Op};

pub const OPS: &[Op] = &[
    nothing("AffineGrid"),
    nothing("Attention"),
    nothing("BatchNormalization"),
    nothing("DeformConv"),
    nothing("Dropout"),
    nothing("GRU"),
    nothing("GridSample"),
    nothing("GroupNormalization"),
    nothing("InstanceNormalization"),
    nothing("LRN"),
    nothing("LSTM"),
    nothing("LayerNormalization"),
    nothing("LinearAttention"),
    nothing("LpNormalization"),
    nothing("LpPool"),
    nothing("MaxUnpool"),
    nothing("MeanVarianceNormalization"),
    nothing("NegativeLogLikelihoodLoss"),
    nothing("Pad"),
    nothing("RMSNormalization"),
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
    nothing("SoftmaxCrossEntropyLoss"),
    nothing("Upsample"),
    nothing("ai.onnx.preview.FlexAttention"),
];

const fn nothing(name: &'static str) -> Op {
    Op { name, by: By::Nothing }
}
