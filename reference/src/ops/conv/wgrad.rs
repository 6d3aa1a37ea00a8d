use super::for_each_product;
use kernel_abi::ops::conv::ConvProblem;

/// dw = gradient of Σ dy · conv(x, w) by w.
pub fn wgrad(problem: &ConvProblem, x: &[f64], dy: &[f64]) -> Vec<f64> {
    let mut dw = vec![0.0; problem.w().n_elems() as usize];
    for_each_product(problem, |i, j, o| dw[j] += x[i] * dy[o]);
    dw
}
