use super::for_each_product;
use kernel_abi::ops::conv::ConvProblem;

/// dx = gradient of Σ dy · conv(x, w) by x.
pub fn dgrad(problem: &ConvProblem, dy: &[f64], w: &[f64]) -> Vec<f64> {
    let mut dx = vec![0.0; problem.x().n_elems() as usize];
    for_each_product(problem, |i, j, o| dx[i] += dy[o] * w[j]);
    dx
}
