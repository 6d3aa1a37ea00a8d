//! Convolution, formula in [`kernel_abi::ops::conv`].

use crate::{Judge, epilogue};
use kernel_abi::ops::conv::{ConvMode, ConvPass, ConvProblem, ConvShape};

impl Judge for ConvProblem {
    fn judge(&self, operands: &[Vec<f64>]) -> Vec<Vec<f64>> {
        Judge::judge_scaled(self, operands, 1.0, 0.0)
    }

    fn judge_scaled(&self, operands: &[Vec<f64>], alpha: f64, beta: f64) -> Vec<Vec<f64>> {
        epilogue::judge(self, product(self, operands), operands, (alpha, beta))
    }

    fn judge_magnitudes(&self, operands: &[Vec<f64>], alpha: f64, beta: f64) -> Vec<Vec<f64>> {
        epilogue::magnitudes(self, product(self, operands), operands, (alpha, beta))
    }
}

/// What the pass computes, alpha, beta and epilogue left out.
fn product(problem: &ConvProblem, operands: &[Vec<f64>]) -> Vec<f64> {
    let pass = match problem.conv_pass() {
        ConvPass::Fprop => fprop,
        ConvPass::Dgrad => dgrad,
        ConvPass::Wgrad => wgrad,
    };
    pass(problem, &operands[0], &operands[1])
}

/// y = conv(x, w).
pub fn fprop(problem: &ConvProblem, x: &[f64], w: &[f64]) -> Vec<f64> {
    let mut y = vec![0.0; problem.y().n_elems() as usize];
    for_each_product(problem, |i, j, o| y[o] += x[i] * w[j]);
    y
}

/// dx = gradient of Σ dy · conv(x, w) by x.
pub fn dgrad(problem: &ConvProblem, dy: &[f64], w: &[f64]) -> Vec<f64> {
    let mut dx = vec![0.0; problem.x().n_elems() as usize];
    for_each_product(problem, |i, j, o| dx[i] += dy[o] * w[j]);
    dx
}

/// dw = gradient of Σ dy · conv(x, w) by w.
pub fn wgrad(problem: &ConvProblem, x: &[f64], dy: &[f64]) -> Vec<f64> {
    let mut dw = vec![0.0; problem.w().n_elems() as usize];
    for_each_product(problem, |i, j, o| dw[j] += x[i] * dy[o]);
    dw
}

/// Calls `body` with the row-major indices of the elements of x, w and y of every product in the formula.
///
/// The three passes are one set of products, each summed by another of its factors.
fn for_each_product(problem: &ConvProblem, mut body: impl FnMut(usize, usize, usize)) {
    let ConvShape { n: n_images, c: all_c, k: all_k, groups, image, filter, output, axes } = problem.shape();
    let (group_c, group_k) = (all_c / groups, all_k / groups);
    let [depth, height, width] = image;
    let [nt, nr, ns] = filter;
    let [nz, np, nq] = output;
    for n in 0..n_images {
        for g in 0..groups {
            for k in g * group_k..(g + 1) * group_k {
                for z in 0..nz {
                    for p in 0..np {
                        for q in 0..nq {
                            for c in 0..group_c {
                                for t in 0..nt {
                                    for r in 0..nr {
                                        for s in 0..ns {
                                            let d = z * axes[0].stride + t * axes[0].dilation - axes[0].padding;
                                            let h = p * axes[1].stride + r * axes[1].dilation - axes[1].padding;
                                            let w = q * axes[2].stride + s * axes[2].dilation - axes[2].padding;
                                            let inside = (0..depth).contains(&d)
                                                && (0..height).contains(&h)
                                                && (0..width).contains(&w);
                                            if !inside {
                                                continue;
                                            }
                                            let [ft, fr, fs] = match problem.mode() {
                                                ConvMode::CrossCorrelation => [t, r, s],
                                                ConvMode::Convolution => [nt - 1 - t, nr - 1 - r, ns - 1 - s],
                                            };
                                            let x_idx =
                                                (((n * all_c + g * group_c + c) * depth + d) * height + h) * width + w;
                                            let w_idx = (((k * group_c + c) * nt + ft) * nr + fr) * ns + fs;
                                            let y_idx = (((n * all_k + k) * nz + z) * np + p) * nq + q;
                                            body(x_idx as usize, w_idx as usize, y_idx as usize);
                                        }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}
