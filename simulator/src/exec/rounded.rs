//! Arithmetic with the rounding directions of PTX.
//!
//! In single precision the result in double precision, rounded to odd, decides every direction. In double precision
//! the rounded result is moved by what the exact error says.

/// Where digits go that have no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// To the nearest, ties to even.
    Nearest,
    /// Towards zero.
    Zero,
    /// Towards negative infinity.
    Down,
    /// Towards positive infinity.
    Up,
}

/// Zero of the same sign for subnormal numbers.
pub fn flush(a: f32) -> f32 {
    if a.abs() < f32::MIN_POSITIVE { f32::copysign(0.0, a) } else { a }
}

/// `value + error` cut to double precision so that a further rounding is as if of the exact sum.
fn to_odd(value: f64, error: f64) -> f64 {
    if error == 0.0 || !value.is_finite() || !error.is_finite() || value.to_bits() & 1 == 1 {
        return value;
    }
    if value == 0.0 {
        return f64::from_bits(1).copysign(error);
    }
    let outwards = (error > 0.0) == (value > 0.0);
    f64::from_bits(if outwards { value.to_bits() + 1 } else { value.to_bits() - 1 })
}

/// To single precision.
pub fn narrow(value: f64, direction: Direction) -> f32 {
    let nearest = value as f32;
    let error = value - f64::from(nearest);
    if direction == Direction::Nearest || value.is_nan() || value.is_infinite() {
        return nearest;
    }
    if nearest.is_infinite() {
        let inwards = match direction {
            Direction::Up => value < 0.0,
            Direction::Down => value > 0.0,
            _ => true,
        };
        return if inwards { f32::MAX.copysign(nearest) } else { nearest };
    }
    match direction {
        Direction::Up if error > 0.0 => nearest.next_up(),
        Direction::Down if error < 0.0 => nearest.next_down(),
        Direction::Zero if error < 0.0 && value > 0.0 => nearest.next_down(),
        Direction::Zero if error > 0.0 && value < 0.0 => nearest.next_up(),
        _ => nearest,
    }
}

/// The error of a sum: `a + b - (a + b rounded)`.
fn sum_error(a: f64, b: f64) -> f64 {
    let sum = a + b;
    let rest = sum - a;
    (a - (sum - rest)) + (b - rest)
}

/// An exact zero that is a difference is negative only when rounding down.
fn zero_sum(sum: f64, direction: Direction) -> f64 {
    if sum == 0.0 && direction == Direction::Down { -0.0 } else { sum }
}

/// `a + b`.
pub fn add(a: f32, b: f32, direction: Direction) -> f32 {
    fma(a, 1.0, b, direction)
}

/// `a · b`.
pub fn mul(a: f32, b: f32, direction: Direction) -> f32 {
    narrow(f64::from(a) * f64::from(b), direction)
}

/// `a · b + c`, rounded once.
pub fn fma(a: f32, b: f32, c: f32, direction: Direction) -> f32 {
    if direction == Direction::Nearest {
        return a.mul_add(b, c);
    }
    let (product, c) = (f64::from(a) * f64::from(b), f64::from(c));
    let sum = product + c;
    if sum == 0.0 && product != 0.0 {
        return zero_sum(sum, direction) as f32;
    }
    narrow(to_odd(sum, sum_error(product, c)), direction)
}

/// `a / b`.
pub fn div(a: f32, b: f32, direction: Direction) -> f32 {
    if direction == Direction::Nearest {
        return a / b;
    }
    let (a, b) = (f64::from(a), f64::from(b));
    let quotient = a / b;
    let rest = (-quotient).mul_add(b, a);
    narrow(to_odd(quotient, rest * b.signum()), direction)
}

/// The square root.
pub fn sqrt(a: f32, direction: Direction) -> f32 {
    if direction == Direction::Nearest {
        return a.sqrt();
    }
    let a = f64::from(a);
    let root = a.sqrt();
    narrow(to_odd(root, (-root).mul_add(root, a)), direction)
}

/// Moves a result that was rounded to the nearest by the sign of the exact one's difference from it.
fn moved(nearest: f64, error: f64, direction: Direction) -> f64 {
    if !nearest.is_finite() || error == 0.0 || error.is_nan() {
        return nearest;
    }
    match direction {
        Direction::Up if error > 0.0 => nearest.next_up(),
        Direction::Down if error < 0.0 => nearest.next_down(),
        Direction::Zero if error < 0.0 && nearest > 0.0 => nearest.next_down(),
        Direction::Zero if error > 0.0 && nearest < 0.0 => nearest.next_up(),
        _ => nearest,
    }
}

/// `a + b`.
pub fn add64(a: f64, b: f64, direction: Direction) -> f64 {
    let sum = a + b;
    if sum == 0.0 && a != 0.0 { zero_sum(sum, direction) } else { moved(sum, sum_error(a, b), direction) }
}

/// `a · b`.
pub fn mul64(a: f64, b: f64, direction: Direction) -> f64 {
    let product = a * b;
    moved(product, a.mul_add(b, -product), direction)
}

/// `a · b + c`, rounded once.
pub fn fma64(a: f64, b: f64, c: f64, direction: Direction) -> f64 {
    let nearest = a.mul_add(b, c);
    if direction == Direction::Nearest {
        return nearest;
    }
    // The error in two parts, after Boldo and Muller.
    let product = a * b;
    let low = a.mul_add(b, -product);
    let (first, first_error) = (c + low, sum_error(c, low));
    let (second, second_error) = (product + first, sum_error(product, first));
    moved(nearest, ((second - nearest) + second_error) + first_error, direction)
}

/// `a / b`.
pub fn div64(a: f64, b: f64, direction: Direction) -> f64 {
    let quotient = a / b;
    moved(quotient, (-quotient).mul_add(b, a) * b.signum(), direction)
}

/// The square root.
pub fn sqrt64(a: f64, direction: Direction) -> f64 {
    let root = a.sqrt();
    moved(root, (-root).mul_add(root, a), direction)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directions_enclose_the_exact_result() {
        let third = |direction| div(1.0, 3.0, direction);
        assert!(f64::from(third(Direction::Down)) < 1.0 / 3.0 && f64::from(third(Direction::Up)) > 1.0 / 3.0);
        assert_eq!(third(Direction::Zero), third(Direction::Down));
        assert_eq!(add(1.0, 1e-30, Direction::Up), 1.0f32.next_up());
        assert_eq!(add(1.0, 1e-30, Direction::Down), 1.0);
        assert_eq!(add(1.0, -1e-30, Direction::Zero), 1.0f32.next_down());
        assert_eq!(fma(1e30, 1e30, 0.0, Direction::Zero), f32::MAX);
        assert_eq!(sqrt(2.0, Direction::Up), sqrt(2.0, Direction::Down).next_up());
        assert_eq!(add64(1.0, 1e-300, Direction::Up), 1.0f64.next_up());
        assert_eq!(fma64(1.0, 1.0, -1e-300, Direction::Down), 1.0f64.next_down());
        assert!(add(1.0, -1.0, Direction::Down).is_sign_negative());
    }
}
