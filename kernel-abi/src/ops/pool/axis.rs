//! One axis of a pooling: which positions a window holds, and which windows hold a position.

use super::IndexBase;

crate::abi_struct! {
    /// One axis of a pooling. An absent axis is [`PoolAxis::ABSENT`].
    #[derive(Eq, Hash)]
    pub struct PoolAxis {
        /// Extent of x.
        pub image: i64,
        /// Extent of y.
        pub output: i64,
        /// Positions of a window; the most that a bin has.
        pub window: i64,
        /// Positions between the begins of neighbouring windows.
        pub stride: i64,
        /// Positions between neighbours in a window.
        pub dilation: i64,
        /// Padding at the begin.
        pub padding: i64,
        /// Padding at the end.
        pub padding_end: i64,
        /// 1 where the outputs share the image out (adaptive pooling); stride, dilation and padding do not count then.
        pub bins: i64,
    }
}

impl PoolAxis {
    /// One position.
    pub const ABSENT: PoolAxis =
        PoolAxis { image: 1, output: 1, window: 1, stride: 1, dilation: 1, padding: 0, padding_end: 0, bins: 0 };

    /// The positions inside the image of an output's window: `begin`, then every `dilation`-th below `end`. At least one.
    #[inline(always)]
    pub const fn window(&self, output: i64) -> (i64, i64) {
        if self.bins != 0 {
            return (output * self.image / self.output, ((output + 1) * self.image - 1) / self.output + 1);
        }
        let start = output * self.stride - self.padding;
        let end = start + (self.window - 1) * self.dilation + 1;
        let begin = if start >= 0 {
            start
        } else if self.dilation == 1 {
            0
        } else {
            start + (self.dilation - 1 - start) / self.dilation * self.dilation
        };
        (begin, if end > self.image { self.image } else { end })
    }

    /// How many positions that are.
    #[inline(always)]
    pub const fn inside(&self, output: i64) -> i64 {
        let (begin, end) = self.window(output);
        if self.dilation == 1 { end - begin } else { (end - begin + self.dilation - 1) / self.dilation }
    }

    /// How many positions of the window lie inside the image or its padding: all, but for windows that `ceil` lets reach
    /// beyond.
    #[inline(always)]
    pub const fn padded(&self, output: i64) -> i64 {
        if self.bins != 0 {
            return self.inside(output);
        }
        let room = self.image + self.padding + self.padding_end - output * self.stride;
        if (self.window - 1) * self.dilation < room {
            return self.window;
        }
        (room + self.dilation - 1) / self.dilation
    }

    /// The outputs `begin..end` whose windows may hold position `at`; with a dilation, those that [`holds`](Self::holds)
    /// confirms.
    #[inline(always)]
    pub const fn covering(&self, at: i64) -> (i64, i64) {
        if self.bins != 0 {
            return (at * self.output / self.image, ((at + 1) * self.output - 1) / self.image + 1);
        }
        let last = (at + self.padding) / self.stride;
        let first = at + self.padding - (self.window - 1) * self.dilation;
        let begin = if first <= 0 { 0 } else { (first - 1) / self.stride + 1 };
        (begin, if last < self.output { last + 1 } else { self.output })
    }

    /// Whether the window of an output that [`covering`](Self::covering) names holds position `at`.
    #[inline(always)]
    pub const fn holds(&self, output: i64, at: i64) -> bool {
        self.dilation == 1 || (at + self.padding - output * self.stride) % self.dilation == 0
    }

    /// The most windows that hold one position.
    pub const fn most_covering(&self) -> i64 {
        if self.bins != 0 {
            return (self.output + self.image - 1) / self.image + 1;
        }
        let windows = (self.window - 1) * self.dilation / self.stride + 1;
        if windows < self.window { windows } else { self.window }
    }
}

/// The row-major number of a position in its image plane.
#[inline(always)]
pub fn place(axes: &[PoolAxis; 3], at: [i64; 3]) -> i64 {
    (at[0] * axes[1].image + at[1]) * axes[2].image + at[2]
}

/// The number that the first position of an image plane has in `index`: of channel c of image n, of `channels` each.
#[inline(always)]
pub fn first_place(axes: &[PoolAxis; 3], base: u32, channels: i64, n: i64, c: i64) -> i64 {
    if base == IndexBase::Plane as u32 {
        return 0;
    }
    (n * channels + c) * (axes[0].image * axes[1].image * axes[2].image)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axes() -> Vec<PoolAxis> {
        let mut axes = Vec::new();
        for (image, window, stride, dilation, padding, padding_end, extra) in [
            (7, 3, 2, 1, 1, 1, 0),
            (9, 2, 3, 1, 0, 0, 0),
            (4, 4, 1, 1, 3, 2, 0),
            (1, 1, 1, 1, 0, 0, 0),
            (12, 3, 2, 3, 4, 2, 0),
            (5, 2, 1, 4, 3, 3, 0),
            (6, 3, 4, 1, 0, 0, 1),
            (32, 5, 3, 2, 0, 0, 1),
        ] {
            let output = (image + padding + padding_end - (window - 1) * dilation - 1) / stride + 1 + extra;
            axes.push(PoolAxis { image, output, window, stride, dilation, padding, padding_end, bins: 0 });
        }
        for (image, output) in [(7, 3), (3, 7), (5, 5), (1, 4), (10, 1)] {
            let window = (image + output - 1) / output + 1;
            axes.push(PoolAxis { image, output, window, bins: 1, ..PoolAxis::ABSENT });
        }
        axes
    }

    /// What a window holds, position by position.
    fn positions(axis: &PoolAxis, o: i64) -> Vec<i64> {
        if axis.bins != 0 {
            let (image, output) = (axis.image as f64, axis.output as f64);
            let begin = (o as f64 * image / output).floor() as i64;
            return (begin..((o + 1) as f64 * image / output).ceil() as i64).collect();
        }
        let all = (0..axis.window).map(|t| o * axis.stride - axis.padding + t * axis.dilation);
        all.filter(|at| (0..axis.image).contains(at)).collect()
    }

    #[test]
    fn windows_hold_what_the_formula_says() {
        for axis in axes() {
            for o in 0..axis.output {
                let (begin, end) = axis.window(o);
                let expected = positions(&axis, o);
                assert_eq!((begin..end).step_by(axis.dilation as usize).collect::<Vec<_>>(), expected, "{axis:?} {o}");
                assert_eq!(axis.inside(o), expected.len() as i64, "{axis:?} {o}");
                if axis.bins == 0 {
                    let padded = (0..axis.window)
                        .filter(|t| o * axis.stride - axis.padding + t * axis.dilation < axis.image + axis.padding_end);
                    assert_eq!(axis.padded(o), padded.count() as i64, "{axis:?} {o}");
                }
            }
        }
    }

    #[test]
    fn covering_inverts_window() {
        for axis in axes() {
            for at in 0..axis.image {
                let expected: Vec<i64> = (0..axis.output).filter(|&o| positions(&axis, o).contains(&at)).collect();
                let (begin, end) = axis.covering(at);
                let found: Vec<i64> = (begin..end).filter(|&o| axis.holds(o, at)).collect();
                assert_eq!(found, expected, "{axis:?} at {at}");
                assert!(found.len() as i64 <= axis.most_covering(), "{axis:?} at {at}");
            }
        }
    }
}
