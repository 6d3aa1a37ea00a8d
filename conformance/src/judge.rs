//! Whether a result is what the case expects.

use crate::stop::Stop;
use crate::value::{ElementType, Value};

/// Relative and absolute tolerance for a result of some element type.
///
/// `1e-3` and `1e-7` are those of ONNX's own runner. Storage of 16 bits has only 11 or 8 bits of mantissa: neighbouring
/// numbers are up to `2⁻¹⁰` or `2⁻⁷` apart, and a case's expected values were rounded after every step of a formula in numpy,
/// where ours are rounded once; two such distances are allowed. Integers must be equal.
fn tolerances(element: ElementType) -> (f64, f64) {
    match element {
        ElementType::Float | ElementType::Double => (1e-3, 1e-7),
        ElementType::Float16 => (2.0 / 1024.0, 1e-4),
        ElementType::Bfloat16 => (2.0 / 128.0, 1e-3),
        _ => (0.0, 0.0),
    }
}

/// Compares a result with what is expected.
///
/// # Errors
/// Fails for another element type or other extents, and names the first element that is off.
pub fn compare(expected: &Value, got: &Value) -> Result<(), Stop> {
    if got.element != expected.element {
        return Err(Stop::failed(format!("expected elements of {:?}, given {:?}", expected.element, got.element)));
    }
    if got.dims != expected.dims {
        return Err(Stop::failed(format!("expected the extents {:?}, given {:?}", expected.dims, got.dims)));
    }
    if let (Ok(wanted), Ok(results)) = (expected.ints(), got.ints()) {
        // Not as real numbers, which hold no integer beyond 2⁵³.
        return first_difference(&wanted, &results, |want, got| want == got);
    }
    let (relative, absolute) = tolerances(expected.element);
    let (wanted, results) = (expected.reals()?, got.reals()?);
    first_difference(&wanted, &results, |&want, &got| {
        let same = want == got || (want.is_nan() && got.is_nan());
        same || want.is_finite() && (got - want).abs() <= absolute + relative * want.abs()
    })
}

/// Names the first pair that is not alike, and counts all of them.
fn first_difference<T: std::fmt::Display>(
    wanted: &[T],
    results: &[T],
    is_alike: impl Fn(&T, &T) -> bool,
) -> Result<(), Stop> {
    let mut off = wanted.iter().zip(results).enumerate().filter(|(_, (want, got))| !is_alike(want, got));
    match off.next() {
        None => Ok(()),
        Some((i, (want, got))) => {
            let (n_off, n) = (1 + off.count(), wanted.len());
            let what = format!("{n_off} of {n} elements are off, the first at {i}: expected {want}, given {got}");
            Err(Stop::failed(what))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn floats(values: &[f32]) -> Value {
        let bytes = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        Value { element: ElementType::Float, dims: vec![values.len() as i64], bytes }
    }

    #[test]
    fn integers_are_compared_as_integers() {
        let ints = |value: i64| Value::of_ints(&[0, value]);
        assert_eq!(compare(&ints(1 << 60), &ints(1 << 60)), Ok(()));
        let Err(Stop::Failed(what)) = compare(&ints((1 << 60) + 3), &ints(1 << 60)) else { panic!() };
        assert_eq!(
            what,
            "1 of 2 elements are off, the first at 1: expected 1152921504606846979, given 1152921504606846976"
        );
    }

    #[test]
    fn near_is_equal_and_the_first_difference_is_named() {
        let inf = f32::INFINITY;
        assert_eq!(compare(&floats(&[1.0, f32::NAN, inf]), &floats(&[1.0005, f32::NAN, inf])), Ok(()));
        for (want, got) in [(1.0, 1.002), (1.0, f32::NAN), (f32::NAN, 1.0), (inf, -inf), (1.0, inf), (inf, 1.0)] {
            assert!(compare(&floats(&[0.0, want]), &floats(&[0.0, got])).is_err(), "{want} {got}");
        }
        let Err(Stop::Failed(what)) = compare(&floats(&[0.0, 1.0]), &floats(&[0.0, 2.0])) else { panic!() };
        assert_eq!(what, "1 of 2 elements are off, the first at 1: expected 1, given 2");
        assert!(compare(&floats(&[1.0]), &floats(&[1.0]).with_dims(&[1, 1])).is_err());
    }
}
