//! Epilogues, formula in [`kernel_abi::epilogue`].

use crate::ops::activation;
use kernel_abi::Problem;
use kernel_abi::ops::activation::{Activation, ActivationMode};

/// What a problem's run writes, when its bare product is `product`.
///
/// `operands` holds all operands, with the prior value of y. Of a problem without an epilogue, the product itself.
pub(crate) fn judge<P: Problem>(
    problem: &P,
    product: Vec<f64>,
    operands: &[Vec<f64>],
    (alpha, beta): (f64, f64),
) -> Vec<Vec<f64>> {
    let Some(epilogue) = problem.epilogue() else { return vec![product] };
    let activation = Activation::from(epilogue.mode());
    written(problem, product, operands, (alpha, beta), |value| activation::value(&activation, value))
}

/// The size of the numbers that the results are made of: [`judge`] of magnitudes, without the activation, which may give
/// a small number for a large one that was rounded.
pub(crate) fn magnitudes<P: Problem>(
    problem: &P,
    product: Vec<f64>,
    operands: &[Vec<f64>],
    (alpha, beta): (f64, f64),
) -> Vec<Vec<f64>> {
    let Some(epilogue) = problem.epilogue() else { return vec![product] };
    // By how much an activation may enlarge a difference.
    let slope = match epilogue.mode() {
        (ActivationMode::Elu, c) => c.abs().max(1.0),
        (ActivationMode::Swish, _) => 1.1,
        _ => 1.0,
    };
    written(problem, product, operands, (alpha.abs(), beta.abs()), |value| slope * value)
}

fn written<P: Problem>(
    problem: &P,
    product: Vec<f64>,
    operands: &[Vec<f64>],
    (alpha, beta): (f64, f64),
    activation: impl Fn(f64) -> f64,
) -> Vec<Vec<f64>> {
    let Some(epilogue) = problem.epilogue() else { return vec![product] };
    let y_desc = problem.operands()[2].desc;
    let mut y = product;
    for i in 0..y.len() {
        let mut value = alpha * y[i];
        if beta != 0.0 {
            value += beta * operands[2][i];
        }
        if let Some(bias) = epilogue.bias_operand() {
            value += operands[bias][epilogue.channel_of(&y_desc, i)];
        }
        if let Some(z) = epilogue.residual_operand() {
            value += operands[z][i];
        }
        y[i] = activation(value);
    }
    if !epilogue.has_sums() {
        return vec![y];
    }
    let channels = y_desc.dims()[epilogue.channel_axis()] as usize;
    let (mut sum, mut sum_squares) = (vec![0.0; channels], vec![0.0; channels]);
    for (i, value) in y.iter().enumerate() {
        let channel = epilogue.channel_of(&y_desc, i);
        sum[channel] += value;
        sum_squares[channel] += value * value;
    }
    vec![y, sum, sum_squares]
}
