//! A dimension as the tuned kernels go through it: in 32 bits, and without a division.

use super::{PadAxis, PadMode};
use crate::division::Divisor;

/// A [`PadAxis`] in 32 bits, with what its elements outside and its copies are found by.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct PadLine {
    /// Extent of x.
    pub x: i32,
    /// Extent of y.
    pub y: Divisor,
    /// Positions before x's first.
    pub before: i32,
    /// Positions from one element of y to the next; not 0.
    pub step: i32,
    /// After how many positions the elements outside come again: x's extent, or twice the steps between its ends.
    period: Divisor,
    /// The first of the elements of x of which y has the one copy in their place, and no other, where steps are 1.
    pub single: i32,
    /// How many they are.
    pub n_single: i32,
}

impl PadLine {
    /// What all numbers stay below.
    const MOST: i64 = 1 << 29;

    /// A dimension of extent 1 that is kept.
    pub const NONE: Self = match Self::new(&PadAxis::NONE, PadMode::Constant) {
        Some(line) => line,
        None => panic!("an extent of 1 fits 32 bits"),
    };

    /// Of a dimension whose numbers fit.
    pub const fn new(axis: &PadAxis, mode: PadMode) -> Option<Self> {
        let PadAxis { x, y, before, step } = *axis;
        if x >= Self::MOST || before.unsigned_abs() >= Self::MOST as u64 || step.unsigned_abs() >= Self::MOST as u64 {
            return None;
        }
        if y >= Self::MOST || (step * y).unsigned_abs() >= Self::MOST as u64 {
            return None;
        }
        let last = x - 1;
        let period = if matches!(mode, PadMode::Reflect) { 2 * last } else { x };
        // Those that an element of y stands for in their place, without those that one outside stands for too.
        let (mut low, mut high) = (-before, y - 1 - before);
        match mode {
            PadMode::Constant => {}
            PadMode::Edge => {
                low = if before > 0 { most(low, 1) } else { low };
                high = if y - 1 - before > last { least(high, last - 1) } else { high };
            }
            PadMode::Wrap => (low, high) = (most(low, high + 1 - x), least(high, low + x - 1)),
            PadMode::Reflect => {
                // Neither end is mirrored where nothing is beyond it.
                low = if before > 0 { most(low, before + 1) } else { low };
                high = if y - 1 - before > last { least(high, before + period - y) } else { high };
                low = most(low, y - period - before);
                high = least(high, period - before - 1);
            }
        }
        (low, high) = (most(low, 0), least(high, last));
        let (single, n_single) = if low > high { (0, 0) } else { (low as i32, (high - low + 1) as i32) };
        let (x, y, before, step) = (x as i32, Divisor::new(y as u32), before as i32, step as i32);
        Some(PadLine { x, y, before, step, period: Divisor::new(period as u32), single, n_single })
    }

    /// The element of x that element `i` of y is, or -1.
    #[inline(always)]
    pub const fn source(&self, mode: u32, i: i32) -> i32 {
        let p = self.step * i - self.before;
        if (p as u32) < self.x as u32 { p } else { self.outside(mode, p) }
    }

    /// The same of a position outside.
    #[inline(always)]
    const fn outside(&self, mode: u32, p: i32) -> i32 {
        let last = self.x - 1;
        if mode == PadMode::Constant as u32 {
            -1
        } else if mode == PadMode::Edge as u32 {
            if p < 0 { 0 } else { last }
        } else if mode == PadMode::Wrap as u32 {
            self.rest(p)
        } else {
            // Mirrored at 0 first: it comes to the same.
            let (_, rest) = self.period.div_rem(p.unsigned_abs());
            let rest = rest as i32;
            if rest > last { 2 * last - rest } else { rest }
        }
    }

    /// A position within the first period.
    #[inline(always)]
    const fn rest(&self, p: i32) -> i32 {
        let (_, rest) = self.period.div_rem(p.unsigned_abs());
        if p < 0 && rest > 0 { (self.period.divisor - rest) as i32 } else { rest as i32 }
    }

    /// Whether y has element `at` of x once, in its place, where steps are 1.
    #[inline(always)]
    pub const fn is_single(&self, at: i32) -> bool {
        ((at - self.single) as u32) < self.n_single as u32
    }

    /// The first element of y that is element `at` of x, where steps are 1; at least y's extent if there is none.
    #[inline(always)]
    pub const fn first_copy(&self, mode: u32, at: i32) -> i32 {
        let (i, y) = (at + self.before, self.y.divisor as i32);
        if self.is_single(at) {
            i
        } else if mode == PadMode::Edge as u32 && (at == 0 && i >= 0 || at == self.x - 1) {
            // What is before the first element is a copy of it.
            if at == 0 || i < 0 { 0 } else { i }
        } else if mode == PadMode::Constant as u32 || mode == PadMode::Edge as u32 {
            if i < 0 { y } else { i }
        } else {
            let (plain, mirrored) = (self.rest(i), self.rest(self.before - at));
            if mode == PadMode::Reflect as u32 && mirrored < plain { mirrored } else { plain }
        }
    }

    /// The next one after `i`, which is one.
    #[inline(always)]
    pub const fn next_copy(&self, mode: u32, at: i32, i: i32) -> i32 {
        let (y, last, period) = (self.y.divisor as i32, self.x - 1, self.period.divisor as i32);
        if self.is_single(at) || mode == PadMode::Constant as u32 {
            y
        } else if mode == PadMode::Edge as u32 {
            if at == 0 && i < self.before || at == last { i + 1 } else { y }
        } else if mode == PadMode::Wrap as u32 || at == 0 || at == last {
            i + period
        } else if self.rest(i - self.before) == at {
            i + period - 2 * at
        } else {
            i + 2 * at
        }
    }
}

const fn most(a: i64, b: i64) -> i64 {
    if a > b { a } else { b }
}

const fn least(a: i64, b: i64) -> i64 {
    if a < b { a } else { b }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All small dimensions of a mode.
    fn dimensions() -> impl Iterator<Item = PadAxis> {
        let before = (1..8).flat_map(|x| (1..24).flat_map(move |y| (-9..14).map(move |before| (x, y, before))));
        before.map(|(x, y, before)| PadAxis { x, y, before, step: 1 })
    }

    #[test]
    fn elements_are_those_of_64_bits() {
        for &mode in PadMode::ALL {
            for axis in dimensions().flat_map(|axis| [-2, -1, 1, 3].map(|step| PadAxis { step, ..axis })) {
                let line = PadLine::new(&axis, mode).unwrap();
                for i in 0..axis.y {
                    let source = line.source(mode as u32, i as i32);
                    assert_eq!(i64::from(source), axis.source(mode as u32, i), "{mode} {axis:?} {i}");
                }
            }
        }
        assert_eq!(PadLine::new(&PadAxis { x: 4, y: 4, before: 1 << 40, step: 1 }, PadMode::Wrap), None);
        assert_eq!(PadLine::new(&PadAxis { x: 4, y: 1 << 20, before: 0, step: 1 << 20 }, PadMode::Wrap), None);
    }

    #[test]
    fn copies_are_all_that_have_the_element() {
        for &mode in PadMode::ALL {
            for axis in dimensions() {
                let line = PadLine::new(&axis, mode).unwrap();
                for at in 0..axis.x {
                    let (mode, element) = (mode as u32, at as i32);
                    let mut given = Vec::new();
                    let mut i = line.first_copy(mode, element);
                    while i64::from(i) < axis.y {
                        given.push(i64::from(i));
                        i = line.next_copy(mode, element, i);
                    }
                    let expected: Vec<i64> = (0..axis.y).filter(|&i| axis.source(mode, i) == at).collect();
                    assert_eq!(given, expected, "{mode} {axis:?} {at}");
                    let single = line.is_single(element);
                    assert!(!single || expected == [at + axis.before], "{mode} {axis:?} {at}");
                }
            }
        }
    }

    #[test]
    fn most_elements_have_one_copy() {
        for (&mode, expected) in PadMode::ALL.iter().zip([(0, 56), (1, 54), (2, 52), (1, 54)]) {
            let line = PadLine::new(&PadAxis { x: 56, y: 58, before: 1, step: 1 }, mode).unwrap();
            assert_eq!((line.single, line.n_single), expected, "{mode}");
            let line = PadLine::new(&PadAxis { x: 56, y: 56, before: 0, step: 1 }, mode).unwrap();
            assert_eq!((line.single, line.n_single), (0, 56), "{mode}");
            let line = PadLine::new(&PadAxis { x: 56, y: 50, before: -2, step: 1 }, mode).unwrap();
            assert_eq!((line.single, line.n_single), (2, 50), "{mode}");
        }
    }
}
