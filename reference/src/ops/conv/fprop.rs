use super::for_each_product;
use kernel_abi::ops::conv::ConvProblem;

/// y = conv(x, w).
pub fn fprop(problem: &ConvProblem, x: &[f64], w: &[f64]) -> Vec<f64> {
    let mut y = vec![0.0; problem.y().n_elems() as usize];
    for_each_product(problem, |i, j, o| y[o] += x[i] * w[j]);
    y
}
