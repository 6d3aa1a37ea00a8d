//! One axis of a resampling: where an output position lies in the image, and what its neighbours weigh.

use super::{NearestRound, ResampleMode};

crate::abi_struct! {
    /// The filter.
    pub struct ResampleFilter {
        /// The coefficient of cubic polynomials.
        pub a: f64,
        /// A [`ResampleMode`] as a number.
        pub mode: u32,
        /// A [`NearestRound`] as a number.
        pub round: u32,
        /// 1 where positions outside the image weigh nothing.
        pub exclude_outside: u32,
        /// 1 where weights are divided by their sum.
        pub normalize: u32,
    }
}

crate::abi_struct! {
    /// One axis of a resampling: `c(p) = offset + (p + add) · span · factor / divisor + shift`, in this order.
    ///
    /// Where no scale is given, c(p) is also the fraction `(p · step + first) / denominator` of integers, by which `nearest`
    /// takes its neighbour.
    pub struct ResampleAxis {
        /// Extent of x.
        pub image: i64,
        /// Extent of y.
        pub output: i64,
        /// Added to an output position.
        pub add: f64,
        /// The first factor.
        pub span: f64,
        /// The second factor.
        pub factor: f64,
        /// The divisor.
        pub divisor: f64,
        /// What the quotient is added to.
        pub offset: f64,
        /// What is added at last.
        pub shift: f64,
        /// What distances are multiplied with: below 1 where the filter is wider than 1.
        pub shrink: f64,
        /// 1 where outputs whose place lies outside the image are not of it.
        pub crops: i64,
        /// The numerator of a place grows by this from one output to the next.
        pub step: i64,
        /// The numerator of the first output's place.
        pub first: i64,
        /// The denominator of all places; 0 where they are no fractions.
        pub denominator: i64,
    }
}

/// The neighbours of a place: positions `begin..end`, in the image or not.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Taps {
    /// The place.
    pub centre: f64,
    /// The first neighbour.
    pub begin: i64,
    /// One past the last.
    pub end: i64,
    /// What weights are multiplied with.
    pub norm: f64,
}

impl ResampleFilter {
    /// The largest distance of a neighbour that weighs something, where nothing is shrunk.
    #[inline(always)]
    pub fn radius(&self) -> f64 {
        if self.mode == ResampleMode::Cubic as u32 { 2.0 } else { 1.0 }
    }

    /// The weight at a distance.
    #[inline(always)]
    pub fn weight(&self, distance: f64) -> f64 {
        let d = if distance < 0.0 { -distance } else { distance };
        if self.mode == ResampleMode::Nearest as u32 {
            1.0
        } else if self.mode == ResampleMode::Linear as u32 {
            if d < 1.0 { 1.0 - d } else { 0.0 }
        } else {
            cubic(self.a, d)
        }
    }

    /// Whether `nearest` takes the neighbour above a place that lies by `rest / whole` above the one below, exactly.
    #[inline(always)]
    fn rounds_up(&self, rest: i64, whole: i64) -> bool {
        if self.round == NearestRound::PreferFloor as u32 {
            rest > whole - rest
        } else if self.round == NearestRound::PreferCeil as u32 {
            rest >= whole - rest
        } else {
            self.round == NearestRound::Ceil as u32 && rest > 0
        }
    }

    /// The same for a place in f64.
    #[inline(always)]
    fn rounds_up_place(&self, rest: f64) -> bool {
        if self.round == NearestRound::PreferFloor as u32 {
            rest > 0.5
        } else if self.round == NearestRound::PreferCeil as u32 {
            rest >= 0.5
        } else {
            self.round == NearestRound::Ceil as u32 && rest > 0.0
        }
    }
}

impl ResampleAxis {
    /// One position.
    pub const ABSENT: ResampleAxis = ResampleAxis {
        image: 1,
        output: 1,
        add: 0.0,
        span: 1.0,
        factor: 1.0,
        divisor: 1.0,
        offset: 0.0,
        shift: 0.0,
        shrink: 1.0,
        crops: 0,
        step: 1,
        first: 0,
        denominator: 1,
    };

    /// Where an output position lies in the image.
    #[inline(always)]
    pub fn place(&self, output: i64) -> f64 {
        self.offset + (output as f64 + self.add) * self.span * self.factor / self.divisor + self.shift
    }

    /// Whether a place lies in the region that outputs are taken from.
    #[inline(always)]
    pub fn has(&self, place: f64) -> bool {
        self.crops == 0 || (place >= 0.0 && place <= (self.image - 1) as f64)
    }

    /// The neighbour that `nearest` takes for an output position, which lies at `centre`.
    #[inline(always)]
    fn nearest(&self, filter: &ResampleFilter, output: i64, centre: f64) -> i64 {
        let mut below = floor(centre);
        let up = if self.denominator > 0 {
            // The place in f64 misses by less than 1, so this is below twice the denominator, though products may wrap.
            let numerator = output.wrapping_mul(self.step).wrapping_add(self.first);
            let mut rest = numerator.wrapping_sub(below.wrapping_mul(self.denominator));
            if rest < 0 {
                (below, rest) = (below - 1, rest + self.denominator);
            } else if rest >= self.denominator {
                (below, rest) = (below + 1, rest - self.denominator);
            }
            filter.rounds_up(rest, self.denominator)
        } else {
            filter.rounds_up_place(centre - below as f64)
        };
        if up { below + 1 } else { below }
    }

    /// The neighbours of an output position.
    #[inline(always)]
    pub fn taps(&self, filter: &ResampleFilter, output: i64) -> Taps {
        let centre = self.place(output);
        if filter.mode == ResampleMode::Nearest as u32 {
            let begin = self.nearest(filter, output, centre);
            return Taps { centre, begin, end: begin + 1, norm: 1.0 };
        }
        let radius = filter.radius() / self.shrink;
        // Where only those inside count, one of next to no weight may be the only one: ends that were rounded must not lose it.
        let more = filter.exclude_outside as i64;
        let (begin, end) = (floor(centre - radius) + 1 - more, -floor(-centre - radius) + more);
        let mut taps = Taps { centre, begin, end, norm: 1.0 };
        if filter.normalize != 0 {
            let (mut sum, mut i) = (0.0, taps.begin);
            while i < taps.end {
                sum += self.weight(filter, &taps, i);
                i += 1;
            }
            taps.norm = if sum == 0.0 { 0.0 } else { 1.0 / sum };
        }
        taps
    }

    /// The weight of a neighbour.
    #[inline(always)]
    pub fn weight(&self, filter: &ResampleFilter, taps: &Taps, i: i64) -> f64 {
        if filter.exclude_outside != 0 && (i < 0 || i >= self.image) {
            return 0.0;
        }
        filter.weight((i as f64 - taps.centre) * self.shrink) * taps.norm
    }

    /// The position in the image that a neighbour is read at.
    #[inline(always)]
    pub fn inside(&self, i: i64) -> i64 {
        if i < 0 {
            0
        } else if i >= self.image {
            self.image - 1
        } else {
            i
        }
    }

    /// The weight of an image position for an output position: of all neighbours that are read there.
    #[inline(always)]
    pub fn weight_at(&self, filter: &ResampleFilter, output: i64, at: i64) -> f64 {
        if !self.has(self.place(output)) {
            return 0.0;
        }
        let taps = self.taps(filter, output);
        let mut i = if at == 0 || at < taps.begin { taps.begin } else { at };
        let end = if at == self.image - 1 || at >= taps.end { taps.end } else { at + 1 };
        let mut sum = 0.0;
        while i < end {
            if self.inside(i) == at {
                sum += self.weight(filter, &taps, i);
            }
            i += 1;
        }
        sum
    }

    /// Output positions `begin..end` beside which none has an image position among its neighbours.
    #[inline(always)]
    pub fn covering(&self, filter: &ResampleFilter, at: i64) -> (i64, i64) {
        let slope = self.span * self.factor / self.divisor;
        let reach = filter.radius() / self.shrink;
        let first = self.place(0);
        if slope == 0.0 || self.image == 1 {
            return (0, self.output);
        }
        // Places are an affine function of positions; positions beside the outermost ones are read there too.
        let (low, high) = ((at as f64 - reach - first) / slope, (at as f64 + reach - first) / slope);
        let (low, high, from_begin, to_end) = if slope > 0.0 {
            (low, high, at == 0, at == self.image - 1)
        } else {
            (high, low, at == self.image - 1, at == 0)
        };
        // One more on both sides, for what is lost by rounding.
        let begin = if from_begin { 0 } else { within(low, self.output) - 1 };
        let end = if to_end { self.output } else { within(high, self.output) + 2 };
        (if begin < 0 { 0 } else { begin }, if end > self.output { self.output } else { end })
    }
}

/// The cubic filter with coefficient a at a distance d of at least 0.
#[inline(always)]
pub fn cubic(a: f64, d: f64) -> f64 {
    if d <= 1.0 {
        ((a + 2.0) * d - (a + 3.0)) * d * d + 1.0
    } else if d < 2.0 {
        ((a * d - 5.0 * a) * d + 8.0 * a) * d - 4.0 * a
    } else {
        0.0
    }
}

/// A number rounded down, brought to -1 to `most`.
#[inline(always)]
fn within(x: f64, most: i64) -> i64 {
    if x < 0.0 {
        -1
    } else if x > most as f64 {
        most
    } else {
        x as i64
    }
}

/// The largest integer that is not above a number; the type's first or last where that is beyond.
#[inline(always)]
pub fn floor(x: f64) -> i64 {
    let towards_zero = x as i64;
    if towards_zero as f64 > x { towards_zero - 1 } else { towards_zero }
}
