//! What launcher and kernels of `winograd` agree on: convolution with 3 × 3 taps by the minimal filtering algorithms
//! F(2×2, 3×3) and F(4×4, 3×3) (Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", 2015).
//!
//! A tile of m × m results is `Aᵀ [(G w Gᵀ) ⊙ (Bᵀ x B)] A`, summed over channels between the brackets: of each tile and
//! each filter (m + 2)² elements are multiplied instead of 9 m². The matrices are those of interpolation (Toom and Cook):
//! a row of A and G is a point's powers, a row of B the polynomial that is zero at the other points. Points of F(2×2)
//! are 0, 1, -1 and infinity: images are transformed by additions alone. Those of F(4×4) are 0, ±5/8, ±3/2 and infinity,
//! which lose the fewest digits of the sets with short fractions (docs/numerics.md); all numbers of Bᵀ and Aᵀ are f32.
//!
//! The gradient of the filter is the transposed of all that: `Gᵀ [(A dy Aᵀ) ⊙ (Bᵀ x B)] G`, summed over tiles.
//!
//! Transformed images are `[tile][(m + 2)²][packed C]`, sums `[tile][(m + 2)²][packed K]`, and transformed filters
//! `[(m + 2)²][packed K][packed C]`: a convolution of one tap with (m + 2)² groups, whose positions are tiles.

use crate::division::Divisor;

/// What the transforms compute with: numbers, or several beside one another.
pub trait Lane: Copy {
    /// `self + other`.
    fn plus(self, other: Self) -> Self;
    /// `self - other`.
    fn minus(self, other: Self) -> Self;
    /// `factor · self`.
    fn times(self, factor: f64) -> Self;
    /// `factor · self + other`, rounded once.
    fn times_plus(self, factor: f64, other: Self) -> Self;
}

/// The transforms along one axis: `M` results of `N = M + 2` elements and 3 taps.
pub trait Minimal<const M: usize, const N: usize> {
    /// `Bᵀ x`.
    fn image<T: Lane>(x: [T; N]) -> [T; N];
    /// `G w`.
    fn filter<T: Lane>(w: [T; 3]) -> [T; N];
    /// `Aᵀ s`.
    fn output<T: Lane>(s: [T; N]) -> [T; M];
    /// `A y`.
    fn gradient<T: Lane>(y: [T; M]) -> [T; N];
    /// `Gᵀ s`.
    fn taps<T: Lane>(s: [T; N]) -> [T; 3];
}

/// F(2, 3).
pub struct F2;

impl Minimal<2, 4> for F2 {
    #[inline(always)]
    fn image<T: Lane>([x0, x1, x2, x3]: [T; 4]) -> [T; 4] {
        [x0.minus(x2), x1.plus(x2), x2.minus(x1), x3.minus(x1)]
    }

    #[inline(always)]
    fn filter<T: Lane>([w0, w1, w2]: [T; 3]) -> [T; 4] {
        let even = w0.plus(w2);
        [w0, even.plus(w1).times(0.5), even.minus(w1).times(0.5), w2]
    }

    #[inline(always)]
    fn output<T: Lane>([s0, s1, s2, s3]: [T; 4]) -> [T; 2] {
        [s0.plus(s1.plus(s2)), s1.minus(s2).plus(s3)]
    }

    #[inline(always)]
    fn gradient<T: Lane>([y0, y1]: [T; 2]) -> [T; 4] {
        [y0, y0.plus(y1), y0.minus(y1), y1]
    }

    #[inline(always)]
    fn taps<T: Lane>([s0, s1, s2, s3]: [T; 4]) -> [T; 3] {
        let even = s1.plus(s2);
        [even.times_plus(0.5, s0), s1.minus(s2).times(0.5), even.times_plus(0.5, s3)]
    }
}

/// F(4, 3).
pub struct F4;

/// The points but for 0 and infinity are ± these.
const P: f64 = 5.0 / 8.0;
const Q: f64 = 3.0 / 2.0;
const P2: f64 = P * P;
const Q2: f64 = Q * Q;
/// What the polynomials of B are divided by, that are not zero at 0, ±P and ±Q, to be 1 there.
const AT_0: f64 = 1.0 / (P2 * Q2);
const AT_P: f64 = 1.0 / (2.0 * P2 * (P2 - Q2));
const AT_Q: f64 = 1.0 / (2.0 * Q2 * (Q2 - P2));

impl Minimal<4, 6> for F4 {
    #[inline(always)]
    fn image<T: Lane>([x0, x1, x2, x3, x4, x5]: [T; 6]) -> [T; 6] {
        let ends = |a: T, b: T, c: T| a.times_plus(P2 * Q2, b.times_plus(-(P2 + Q2), c));
        let (p_even, p_odd) = (x2.times_plus(-Q2, x4), x1.times_plus(-Q2, x3));
        let (q_even, q_odd) = (x2.times_plus(-P2, x4), x1.times_plus(-P2, x3));
        [
            ends(x0, x2, x4),
            p_odd.times_plus(P, p_even),
            p_odd.times_plus(-P, p_even),
            q_odd.times_plus(Q, q_even),
            q_odd.times_plus(-Q, q_even),
            ends(x1, x3, x5),
        ]
    }

    #[inline(always)]
    fn filter<T: Lane>([w0, w1, w2]: [T; 3]) -> [T; 6] {
        let (p_even, q_even) = (w2.times_plus(P2, w0), w2.times_plus(Q2, w0));
        [
            w0.times(AT_0),
            w1.times_plus(P, p_even).times(AT_P),
            w1.times_plus(-P, p_even).times(AT_P),
            w1.times_plus(Q, q_even).times(AT_Q),
            w1.times_plus(-Q, q_even).times(AT_Q),
            w2,
        ]
    }

    #[inline(always)]
    fn output<T: Lane>([s0, s1, s2, s3, s4, s5]: [T; 6]) -> [T; 4] {
        let (p_even, p_odd, q_even, q_odd) = (s1.plus(s2), s1.minus(s2), s3.plus(s4), s3.minus(s4));
        [
            s0.plus(p_even.plus(q_even)),
            p_odd.times_plus(P, q_odd.times(Q)),
            p_even.times_plus(P2, q_even.times(Q2)),
            p_odd.times_plus(P2 * P, q_odd.times_plus(Q2 * Q, s5)),
        ]
    }

    #[inline(always)]
    fn gradient<T: Lane>([y0, y1, y2, y3]: [T; 4]) -> [T; 6] {
        let (p_even, p_odd) = (y2.times_plus(P2, y0), y3.times_plus(P2, y1));
        let (q_even, q_odd) = (y2.times_plus(Q2, y0), y3.times_plus(Q2, y1));
        [
            y0,
            p_odd.times_plus(P, p_even),
            p_odd.times_plus(-P, p_even),
            q_odd.times_plus(Q, q_even),
            q_odd.times_plus(-Q, q_even),
            y3,
        ]
    }

    #[inline(always)]
    fn taps<T: Lane>([s0, s1, s2, s3, s4, s5]: [T; 6]) -> [T; 3] {
        let (p_even, p_odd, q_even, q_odd) = (s1.plus(s2), s1.minus(s2), s3.plus(s4), s3.minus(s4));
        [
            s0.times_plus(AT_0, p_even.times_plus(AT_P, q_even.times(AT_Q))),
            p_odd.times_plus(P * AT_P, q_odd.times(Q * AT_Q)),
            p_even.times_plus(P2 * AT_P, q_even.times_plus(Q2 * AT_Q, s5)),
        ]
    }
}

crate::abi_struct! {
    /// Launch parameters of the kernels that transform images: a thread for two channels of a tile.
    pub struct WinogradImageParams {
        /// The images.
        pub from: u64,
        /// Where the transformed ones of the first tile go.
        pub to: u64,
        /// Distances along N, C, H, W, in elements.
        pub strides: [i64; 4],
        /// The first tile; tiles of a row of an image come first, then rows, then images.
        pub first_tile: u32,
        /// Pairs of channels of all tiles of this launch.
        pub n_units: u32,
        /// Pairs of channels of a tile that are written.
        pub pairs: Divisor,
        /// Tiles along H and W.
        pub tiles: [Divisor; 2],
        /// H and W.
        pub extents: [u32; 2],
        /// How far before the image its first tile begins; less than 0 where within it.
        pub padding: [i32; 2],
        /// Channels.
        pub channels: u32,
        /// Channels that are written, zeros behind those that there are: an even number.
        pub packed_channels: u32,
        /// 1 where two channels can be loaded in one access.
        pub pairwise: u32,
        /// Nothing.
        pub unused: u32,
    }
}

crate::abi_struct! {
    /// Launch parameters of the kernels that transform filters, or back: a thread for two columns of a row.
    pub struct WinogradFilterParams {
        /// The filter, or what it is made of.
        pub from: u64,
        /// The transformed one, or what is made of it.
        pub to: u64,
        /// Distances along rows, the channels of the result, and columns, those that are summed over; in elements.
        pub strides: [i64; 2],
        /// Distances along the taps' two axes; less than 0 where they are turned around.
        pub tap_strides: [i64; 2],
        /// Distance of the first tap.
        pub first_tap: i64,
        /// Rows.
        pub rows: u32,
        /// Columns.
        pub columns: u32,
        /// Rows that are written, zeros behind those that there are.
        pub packed_rows: u32,
        /// The same of columns: a multiple of 2, or of 16 where numbers are taken apart.
        pub packed_columns: u32,
        /// Half of that.
        pub pairs: Divisor,
        /// Pairs of columns of all rows.
        pub n_units: u32,
        /// Factor of the result, where the filter is one.
        pub alpha: f32,
        /// Factor of the prior value, likewise.
        pub beta: f32,
    }
}

crate::abi_struct! {
    /// Launch parameters of the kernels that transform sums into results: a thread for two channels of a tile.
    pub struct WinogradOutputParams {
        /// The sums of the first tile.
        pub from: u64,
        /// The results.
        pub to: u64,
        /// Distances along N, K, P, Q, in elements.
        pub strides: [i64; 4],
        /// The first tile.
        pub first_tile: u32,
        /// Pairs of channels of all tiles of this launch.
        pub n_units: u32,
        /// Pairs of channels of a tile.
        pub pairs: Divisor,
        /// Tiles along P and Q.
        pub tiles: [Divisor; 2],
        /// P and Q.
        pub extents: [u32; 2],
        /// Channels.
        pub channels: u32,
        /// Channels of the sums: an even number.
        pub packed_channels: u32,
        /// 1 where two channels can be stored in one access.
        pub pairwise: u32,
        /// Factor of the result.
        pub alpha: f32,
        /// Factor of the prior value.
        pub beta: f32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Lane for f64 {
        fn plus(self, other: Self) -> Self {
            self + other
        }
        fn minus(self, other: Self) -> Self {
            self - other
        }
        fn times(self, factor: f64) -> Self {
            factor * self
        }
        fn times_plus(self, factor: f64, other: Self) -> Self {
            self.mul_add(factor, other)
        }
    }

    impl Lane for f32 {
        fn plus(self, other: Self) -> Self {
            self + other
        }
        fn minus(self, other: Self) -> Self {
            self - other
        }
        fn times(self, factor: f64) -> Self {
            factor as f32 * self
        }
        fn times_plus(self, factor: f64, other: Self) -> Self {
            self.mul_add(factor as f32, other)
        }
    }

    /// Numbers of magnitude up to 1, and whole ones.
    fn numbers(seed: u64) -> impl FnMut() -> f64 {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 11) as f64 / (1u64 << 52) as f64 - 1.0
        }
    }

    fn both_axes<T: Lane, const A: usize, const B: usize>(of: fn([T; A]) -> [T; B], v: [[T; A]; A]) -> [[T; B]; B] {
        let rows = v.map(of);
        let mut out = [rows[0]; B];
        for j in 0..B {
            let column = of(std::array::from_fn(|i| rows[i][j]));
            for i in 0..B {
                out[i][j] = column[i];
            }
        }
        out
    }

    /// The largest error of m × m results summed over `channels`, and the root mean square: relative to that of the
    /// results. Transforms in f32 but for the filter's, sums begun anew every 32 channels, as the kernels do.
    fn error<F: Minimal<M, N>, const M: usize, const N: usize>(channels: usize) -> [f64; 2] {
        let mut number = numbers(3);
        let (mut most, mut squares, mut results) = (0.0f64, 0.0, 0.0);
        for _ in 0..40 {
            let (mut sums, mut part) = ([[0.0f32; N]; N], [[0.0f64; N]; N]);
            let mut expected = [[0.0f64; M]; M];
            for c in 0..channels {
                let x: [[f32; N]; N] = std::array::from_fn(|_| std::array::from_fn(|_| number() as f32));
                let w: [[f64; 3]; 3] = std::array::from_fn(|_| std::array::from_fn(|_| f64::from(number() as f32)));
                let (x_hat, w_hat) = (both_axes(F::image::<f32>, x), both_axes(F::filter::<f64>, w));
                for i in 0..N {
                    for j in 0..N {
                        part[i][j] += f64::from(x_hat[i][j]) * f64::from(w_hat[i][j] as f32);
                        if c % 32 == 31 || c + 1 == channels {
                            sums[i][j] += part[i][j] as f32;
                            part[i][j] = 0.0;
                        }
                    }
                }
                for (p, row) in expected.iter_mut().enumerate() {
                    for (q, sum) in row.iter_mut().enumerate() {
                        *sum += (0..9).map(|t| f64::from(x[p + t / 3][q + t % 3]) * w[t / 3][t % 3]).sum::<f64>();
                    }
                }
            }
            let got = {
                let rows = sums.map(F::output::<f32>);
                let columns: [[f32; M]; M] = std::array::from_fn(|q| F::output(std::array::from_fn(|i| rows[i][q])));
                columns
            };
            for p in 0..M {
                for q in 0..M {
                    let error = f64::from(got[q][p]) - expected[p][q];
                    most = most.max(error.abs());
                    squares += error * error;
                    results += expected[p][q] * expected[p][q];
                }
            }
        }
        let n = (40 * M * M) as f64;
        [most / (results / n).sqrt(), (squares / results).sqrt()]
    }

    fn is_convolution<F: Minimal<M, N>, const M: usize, const N: usize>() {
        let mut number = numbers(1);
        for _ in 0..100 {
            let x: [f64; N] = std::array::from_fn(|_| number());
            let w: [f64; 3] = std::array::from_fn(|_| number());
            let (x_hat, w_hat) = (F::image(x), F::filter(w));
            let y = F::output(std::array::from_fn(|i| x_hat[i] * w_hat[i]));
            for (i, y) in y.iter().enumerate() {
                let expected: f64 = (0..3).map(|t| x[i + t] * w[t]).sum();
                assert!((y - expected).abs() < 1e-14, "{i}: {y} is not {expected}");
            }
        }
    }

    fn is_gradient<F: Minimal<M, N>, const M: usize, const N: usize>() {
        let mut number = numbers(2);
        for _ in 0..100 {
            let x: [f64; N] = std::array::from_fn(|_| number());
            let dy: [f64; M] = std::array::from_fn(|_| number());
            let (x_hat, dy_hat) = (F::image(x), F::gradient(dy));
            let dw = F::taps(std::array::from_fn(|i| x_hat[i] * dy_hat[i]));
            for (t, dw) in dw.iter().enumerate() {
                let expected: f64 = (0..M).map(|i| x[i + t] * dy[i]).sum();
                assert!((dw - expected).abs() < 1e-14, "{t}: {dw} is not {expected}");
            }
        }
    }

    /// The root mean square error of the gradient of a filter, relative to it, summed over so many tiles.
    fn gradient_error<F: Minimal<M, N>, const M: usize, const N: usize>(tiles: usize) -> f64 {
        let mut number = numbers(4);
        let (mut squares, mut results) = (0.0, 0.0);
        for _ in 0..40 {
            let (mut sums, mut part) = ([[0.0f32; N]; N], [[0.0f64; N]; N]);
            let mut expected = [[0.0f64; 3]; 3];
            for t in 0..tiles {
                let x: [[f32; N]; N] = std::array::from_fn(|_| std::array::from_fn(|_| number() as f32));
                let dy: [[f32; M]; M] = std::array::from_fn(|_| std::array::from_fn(|_| number() as f32));
                let x_hat = both_axes(F::image::<f32>, x);
                let rows = dy.map(F::gradient::<f32>);
                for j in 0..N {
                    let column = F::gradient::<f32>(std::array::from_fn(|i| rows[i][j]));
                    for i in 0..N {
                        part[i][j] += f64::from(x_hat[i][j]) * f64::from(column[i]);
                        if t % 32 == 31 || t + 1 == tiles {
                            sums[i][j] += part[i][j] as f32;
                            part[i][j] = 0.0;
                        }
                    }
                }
                for (r, row) in expected.iter_mut().enumerate() {
                    for (s, sum) in row.iter_mut().enumerate() {
                        let product = |at: usize| f64::from(x[r + at / M][s + at % M]) * f64::from(dy[at / M][at % M]);
                        *sum += (0..M * M).map(product).sum::<f64>();
                    }
                }
            }
            let rows = sums.map(|row| F::taps::<f64>(row.map(f64::from)));
            for s in 0..3 {
                let column = F::taps::<f64>(std::array::from_fn(|i| rows[i][s]));
                for r in 0..3 {
                    squares += (column[r] - expected[r][s]).powi(2);
                    results += expected[r][s].powi(2);
                }
            }
        }
        (squares / results).sqrt()
    }

    #[test]
    fn few_digits_of_gradients_are_lost() {
        for tiles in [1, 64, 4096] {
            let (two, four) = (gradient_error::<F2, 2, 4>(tiles), gradient_error::<F4, 4, 6>(tiles));
            println!("{tiles} tiles: root mean square error of F(2x2) {two:.1e}, of F(4x4) {four:.1e}");
            assert!(two < 6e-7 && four < 2e-6, "{tiles}: {two:e} {four:e}");
        }
    }

    #[test]
    fn transforms_make_products_a_convolution() {
        is_gradient::<F2, 2, 4>();
        is_gradient::<F4, 4, 6>();
        is_convolution::<F2, 2, 4>();
        is_convolution::<F4, 4, 6>();
    }

    /// The figures of docs/numerics.md.
    #[test]
    fn few_digits_are_lost() {
        for channels in [1, 64, 256] {
            let [two, four] = [error::<F2, 2, 4>(channels), error::<F4, 4, 6>(channels)];
            for (name, [most, mean]) in [("F(2x2)", two), ("F(4x4)", four)] {
                println!("{name}, {channels} channels: largest error {most:.1e}, root mean square {mean:.1e}");
            }
            assert!(two[1] < 2e-7 && four[1] < 6e-7, "{channels}: {two:?} {four:?}");
        }
    }

    #[test]
    fn small_integers_stay_whole_in_the_smaller_tile() {
        let x = [[3.0f32, -7.0, 2.0, 5.0]; 4];
        assert!(both_axes(F2::image::<f32>, x).iter().flatten().all(|v| v.fract() == 0.0));
        let w = [[1.0f32, -3.0, 2.0]; 3];
        assert!(both_axes_of_filter(w).iter().flatten().all(|v| (4.0 * v).fract() == 0.0));
    }

    fn both_axes_of_filter(w: [[f32; 3]; 3]) -> [[f32; 4]; 4] {
        let rows = w.map(F2::filter::<f32>);
        std::array::from_fn(|j| F2::filter(std::array::from_fn(|i| rows[i][j])))
    }

    /// All factors of images and results are exact in f32.
    #[test]
    fn factors_are_short() {
        for factor in [P, Q, P2, Q2, P2 * Q2, P2 + Q2, P2 * P, Q2 * Q] {
            assert_eq!(f64::from(factor as f32), factor);
        }
    }
}
