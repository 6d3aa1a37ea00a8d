//! From a grid's coordinate to a place in the image, its neighbours and their weights, along one axis.

use super::{GridPadding, GridSampleMode};
use crate::ops::resample::{cubic, floor};

/// The coefficient of cubic polynomials.
const CUBIC: f64 = -0.75;

/// Places up to here are computed with; those beyond are on one side of every image.
const MOST: f64 = (1u64 << 52) as f64;

/// A position outside of every image.
const OUTSIDE: i64 = -8;

crate::abi_struct! {
    /// How an image is read, the same along all axes.
    pub struct Sampler {
        /// A [`GridSampleMode`] as a number.
        pub mode: u32,
        /// A [`GridPadding`] as a number.
        pub padding: u32,
        /// 1 where -1 and 1 are the centres of the outermost elements.
        pub align_corners: u64,
    }
}

/// A place on an axis: neighbours `begin..begin + n`, in the image or not.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Place {
    /// Where it is.
    pub centre: f64,
    /// How fast it moves with the coordinate.
    pub slope: f64,
    /// The first neighbour.
    pub begin: i64,
    /// How many neighbours there are.
    pub n: i64,
}

impl Sampler {
    /// The place of a coordinate on an axis.
    #[inline(always)]
    pub fn place(&self, coordinate: f64, extent: i64) -> Place {
        let size = extent as f64;
        // Mirrors bring a place back when its coordinate has moved by 4, for every extent. The remainder is exact.
        let mirrors = self.padding == GridPadding::Reflection as u32;
        let coordinate = if mirrors { coordinate - 4.0 * truncated(coordinate / 4.0) } else { coordinate };
        let (place, slope) = if self.align_corners != 0 {
            ((coordinate + 1.0) / 2.0 * (size - 1.0), (size - 1.0) / 2.0)
        } else {
            (((coordinate + 1.0) * size - 1.0) / 2.0, size / 2.0)
        };
        // Beyond this, positions are no integers of 64 bits any more, or no numbers at all.
        if !(place > -MOST && place < MOST) {
            let begin = if self.padding == GridPadding::Zeros as u32 {
                OUTSIDE
            } else if place >= MOST {
                extent - 1
            } else {
                // Far below the image, or NaN.
                0
            };
            return Place { centre: 0.0, slope: 0.0, begin, n: 1 };
        }
        if self.mode == GridSampleMode::Cubic as u32 {
            return Place { centre: place, slope, begin: floor(place) - 1, n: 4 };
        }
        let (centre, factor) = self.pad(place, extent);
        let below = floor(centre);
        if self.mode == GridSampleMode::Nearest as u32 {
            let rest = centre - below as f64;
            let up = rest > 0.5 || (rest == 0.5 && below & 1 != 0);
            return Place { centre, slope: 0.0, begin: if up { below + 1 } else { below }, n: 1 };
        }
        Place { centre, slope: slope * factor, begin: below, n: 2 }
    }

    /// The position in the image that a neighbour is read at, or -1 where it is zero.
    #[inline(always)]
    pub fn position(&self, neighbour: i64, extent: i64) -> i64 {
        if neighbour >= 0 && neighbour < extent {
            neighbour
        } else if self.padding == GridPadding::Zeros as u32 {
            -1
        } else {
            self.pad(neighbour as f64, extent).0 as i64
        }
    }

    /// The weight of a neighbour.
    #[inline(always)]
    pub fn weight(&self, place: &Place, neighbour: i64) -> f64 {
        let d = neighbour as f64 - place.centre;
        let d = if d < 0.0 { -d } else { d };
        // One neighbour is all there is, nearest or at no place.
        if place.n == 1 {
            1.0
        } else if self.mode == GridSampleMode::Cubic as u32 {
            cubic(CUBIC, d)
        } else {
            1.0 - d
        }
    }

    /// How fast that grows with the coordinate.
    #[inline(always)]
    pub fn weight_slope(&self, place: &Place, neighbour: i64) -> f64 {
        if place.n == 1 {
            return 0.0;
        }
        let d = neighbour as f64 - place.centre;
        let above = d > 0.0;
        let by_distance = if self.mode == GridSampleMode::Cubic as u32 {
            let d = if above { d } else { -d };
            if d <= 1.0 {
                (3.0 * (CUBIC + 2.0) * d - 2.0 * (CUBIC + 3.0)) * d
            } else if d < 2.0 {
                CUBIC * ((3.0 * d - 10.0) * d + 8.0)
            } else {
                0.0
            }
        } else {
            -1.0
        };
        // A neighbour above comes nearer as the place moves up.
        if above { -by_distance * place.slope } else { by_distance * place.slope }
    }

    /// A place as padding has it, and the factor of its slope.
    #[inline(always)]
    fn pad(&self, place: f64, extent: i64) -> (f64, f64) {
        if self.padding == GridPadding::Zeros as u32 {
            return (place, 1.0);
        }
        let last = (extent - 1) as f64;
        let (place, factor) = if self.padding == GridPadding::Reflection as u32 {
            if self.align_corners != 0 { reflect(place, 0.0, last) } else { reflect(place, -0.5, last + 1.0) }
        } else {
            (place, 1.0)
        };
        if place <= 0.0 {
            (0.0, 0.0)
        } else if place >= last {
            (last, 0.0)
        } else {
            (place, factor)
        }
    }
}

/// A place in a mirror at both ends of `[low, low + span]`, and 1 or -1.
#[inline(always)]
fn reflect(place: f64, low: f64, span: f64) -> (f64, f64) {
    if span <= 0.0 {
        return (0.0, 0.0);
    }
    let from_low = place - low;
    let (distance, sign) = if from_low < 0.0 { (-from_low, -1.0) } else { (from_low, 1.0) };
    let flips = floor(distance / span);
    let rest = distance - flips as f64 * span;
    if flips & 1 == 0 { (rest + low, sign) } else { (span - rest + low, -sign) }
}

/// A number without its fraction; infinities and NaN as they are.
#[inline(always)]
fn truncated(x: f64) -> f64 {
    // Larger numbers have no fraction.
    if x > -MOST && x < MOST { (x as i64) as f64 } else { x }
}
