//! Matmul, formula in [`kernel_abi::ops::matmul`].

use crate::{Judge, epilogue};
use kernel_abi::ops::matmul::MatmulProblem;

impl Judge for MatmulProblem {
    fn judge(&self, operands: &[Vec<f64>]) -> Vec<Vec<f64>> {
        Judge::judge_scaled(self, operands, 1.0, 0.0)
    }

    fn judge_scaled(&self, operands: &[Vec<f64>], alpha: f64, beta: f64) -> Vec<Vec<f64>> {
        epilogue::judge(self, forward(self, &operands[0], &operands[1]), operands, (alpha, beta))
    }

    fn judge_magnitudes(&self, operands: &[Vec<f64>], alpha: f64, beta: f64) -> Vec<Vec<f64>> {
        epilogue::magnitudes(self, forward(self, &operands[0], &operands[1]), operands, (alpha, beta))
    }
}

/// c[…, m, n] = Σₖ a[…, m, k] b[…, k, n].
pub fn forward(problem: &MatmulProblem, a: &[f64], b: &[f64]) -> Vec<f64> {
    let [n_batch, gemm_m, gemm_n, gemm_k] =
        [problem.n_batch(), problem.gemm_m(), problem.gemm_n(), problem.gemm_k()].map(|extent| extent as usize);
    let desc = problem.desc();
    let mut c = Vec::new();
    for batch in 0..n_batch {
        let (a, b) = (&a[batch * gemm_m * gemm_k..], &b[batch * gemm_k * gemm_n..]);
        for m in 0..gemm_m {
            for n in 0..gemm_n {
                let mut sum = 0.0;
                for k in 0..gemm_k {
                    let a = if desc.transpose_a { a[k * gemm_m + m] } else { a[m * gemm_k + k] };
                    let b = if desc.transpose_b { b[n * gemm_k + k] } else { b[k * gemm_n + n] };
                    sum += a * b;
                }
                c.push(sum);
            }
        }
    }
    c
}
