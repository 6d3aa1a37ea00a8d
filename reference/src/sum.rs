//! Sums that are more exact than those they judge.

/// The sum of numbers, with what rounding took from it added at the end (Neumaier, 1974): of thousands of equal terms
/// one addition after the other loses as much as f64 kernels may lose in all.
pub(crate) fn sum(terms: impl IntoIterator<Item = f64>) -> f64 {
    let (mut sum, mut lost) = (0.0f64, 0.0);
    for term in terms {
        let next = sum + term;
        lost += if sum.abs() >= term.abs() { (sum - next) + term } else { (term - next) + sum };
        sum = next;
    }
    // An infinity leaves NaN among what was lost.
    if sum.is_finite() { sum + lost } else { sum }
}

/// ln Σ eˣ, by differences from the largest x, so that nothing overflows; no number where that is infinite.
pub(crate) fn log_sum_exp(terms: impl IntoIterator<Item = f64> + Clone) -> f64 {
    let largest = terms.clone().into_iter().fold(f64::NEG_INFINITY, f64::max);
    largest + sum(terms.into_iter().map(|x| (x - largest).exp())).ln()
}

#[cfg(test)]
mod tests {
    use super::{log_sum_exp, sum};

    #[test]
    fn many_equal_terms_lose_nothing() {
        let term = 0.25 / 7351.0;
        let plain: f64 = std::iter::repeat_n(term, 7351).sum();
        assert!((plain - 0.25).abs() > 100.0 * f64::EPSILON * 0.25);
        assert!((sum(std::iter::repeat_n(term, 7351)) - 0.25).abs() <= f64::EPSILON * 0.25);
        assert_eq!(sum([1e100, 1.0, -1e100]), 1.0);
    }

    #[test]
    fn infinities_stay() {
        assert_eq!(sum([1.0, f64::INFINITY, 2.0]), f64::INFINITY);
        assert_eq!(sum([f64::NEG_INFINITY, 2.0]), f64::NEG_INFINITY);
        assert!(sum([f64::INFINITY, f64::NEG_INFINITY]).is_nan() && sum([f64::NAN, 1.0]).is_nan());
        assert_eq!(sum([]), 0.0);
    }

    #[test]
    fn powers_do_not_overflow() {
        assert_eq!(log_sum_exp([1000.0, f64::NEG_INFINITY, 1000.0]), 1000.0 + 2f64.ln());
        assert!(log_sum_exp([f64::NEG_INFINITY]).is_nan() && log_sum_exp([f64::INFINITY, 1.0]).is_nan());
    }
}
