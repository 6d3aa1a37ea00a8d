//! Statistics of rows, which kernels of norms share: the mean in two numbers, and squares that neither overflow nor vanish.
//!
//! The mean rounded to one number is off by up to half a unit in its last place, which is much of a deviation that is small
//! beside it. So it is `high + low`, where `low` is the mean of the differences from `high`, and
//! Σ (x − mean)² = Σ (x − high)² − (Σ (x − high))² / n, whose second term is small.
//! Differences from `high` are exact where elements are near it. `high` itself is found relative to an element of the row,
//! so that of equal numbers it is that number, and all differences are 0.
//!
//! Where the sum of squares overflows, or is so small that squares vanish, all is done again with elements times a power of
//! two. That is rare, and takes the same branch in all threads of a row.

use crate::math::element::Accumulator;
use crate::math::scale::{down, is_finite, least, up};
use cuda_std::warp;

/// Makes elements normal: x̂ = (x · scale − high) · inverse + shift, with shift = −low · inverse.
#[derive(Clone, Copy)]
pub struct Normal<A> {
    pub scale: A,
    pub high: A,
    pub inverse: A,
    pub shift: A,
}

impl<A: Accumulator> Normal<A> {
    /// By statistics that the host passed.
    #[inline(always)]
    pub fn given(mean: A, inv_std: A) -> Self {
        Normal { scale: A::ONE, high: mean, inverse: inv_std, shift: A::ZERO }
    }

    /// x̂.
    #[inline(always)]
    pub fn of(&self, x: A) -> A {
        x.mul_add(self.scale, -self.high).mul_add(self.inverse, self.shift)
    }

    /// The inverse standard deviation.
    #[inline(always)]
    pub fn inv_std(&self) -> A {
        self.inverse * self.scale
    }

    /// What x̂ is more than (x − mean) · inv_std, of the mean as it is stored: what its rounding takes away.
    #[inline(always)]
    pub fn rest(&self, mean: A) -> A {
        self.of(mean)
    }
}

/// Mean and variance of a row's elements times `scale`.
#[derive(Clone, Copy)]
pub struct Moments<A> {
    pub scale: A,
    pub high: A,
    pub low: A,
    pub variance: A,
}

impl<A: Accumulator> Moments<A> {
    /// The mean, rounded.
    #[inline(always)]
    pub fn mean(&self) -> A {
        (if is_finite(self.high) { self.high + self.low } else { self.high }) / self.scale
    }

    /// The variance, infinite where the type does not hold it.
    #[inline(always)]
    pub fn variance(&self) -> A {
        self.variance / self.scale / self.scale
    }

    /// What makes elements normal, with a function for 1/√x.
    #[inline(always)]
    pub fn normal(&self, epsilon: A, inverse_sqrt: impl Fn(A) -> A) -> Normal<A> {
        let inverse = inverse_sqrt(self.variance + epsilon * self.scale * self.scale);
        Normal { scale: self.scale, high: self.high, inverse, shift: -(self.low * inverse) }
    }
}

/// Whether a sum of squares neither overflowed, nor lost what is not small beside epsilon.
#[inline(always)]
pub fn is_usual<A: Accumulator>(squares: A, epsilon: A) -> bool {
    is_finite(squares) && (squares >= least() || epsilon >= least())
}

/// Where [`moments`] stands with a row.
#[derive(Clone, Copy, PartialEq)]
enum Stage {
    First,
    /// The mean of scaled elements is looked for.
    Mean,
    Last,
}

/// Mean and variance of a row with a mean near `high`, where `share` is 1 / its number of elements.
/// `sums(scale, high, again)` gives Σ (x · scale − high) and Σ (x · scale − high)² over the row, the same in all of its
/// threads; `again` tells that it was called for this row before. All threads of a warp call it together.
#[inline(always)]
pub fn moments<A: Accumulator>(
    has_mean: bool,
    share: A,
    epsilon: A,
    high: A,
    mut sums: impl FnMut(A, A, bool) -> [A; 2],
) -> Moments<A> {
    let mut found = Moments { scale: A::ONE, high, low: A::ZERO, variance: A::ZERO };
    let (mut stage, mut again) = (Stage::First, false);
    loop {
        let [sum, squares] = sums(found.scale, found.high, again);
        let mean = sum * share;
        let mut more = false;
        if stage == Stage::First && !is_usual(squares, epsilon) {
            if !is_finite(squares) {
                (found.scale, found.high) = (down(), A::ZERO);
                (stage, more) = (if has_mean { Stage::Mean } else { Stage::Last }, true);
            } else if is_finite(found.high * up()) {
                // Of others, whose last places are larger, differences are 0.
                (found.scale, found.high) = (up(), found.high * up());
                (stage, more) = (Stage::Last, true);
            }
        } else if stage == Stage::Mean {
            found.high = mean;
            (stage, more) = (Stage::Last, true);
        }
        // Rows of a warp stay together: one that is done comes to the same sums again.
        if !warp::any(more) {
            found.low = if has_mean { mean } else { A::ZERO };
            let spread = if has_mean { squares - sum * mean } else { squares };
            // A comparison and not a maximum, which would drop a NaN.
            found.variance = if spread < A::ZERO { A::ZERO } else { spread * share };
            return found;
        }
        again = true;
    }
}
