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

#[cfg(test)]
mod tests {
    use super::sum;

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
}
