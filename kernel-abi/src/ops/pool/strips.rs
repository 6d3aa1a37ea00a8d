//! What host and kernels agree on for `strips` and `tiles`: axes in 32 bits, and how threads are spread over a tensor.

use super::PoolAxis;
use crate::ChannelTensor;
use crate::division::Divisor;

crate::abi_struct! {
    /// An axis of windows without dilation, in 32 bits.
    pub struct WindowAxis {
        /// Extent of x.
        pub image: i32,
        /// Extent of y.
        pub output: i32,
        /// Positions of a window.
        pub window: i32,
        /// Padding at the begin.
        pub padding: i32,
        /// Extent of x with the padding at the end.
        pub padded: i32,
        /// Positions between the begins of neighbouring windows.
        pub stride: Divisor,
    }
}

/// The largest extent, window, stride or padding of such an axis: sums of a few fit 32 bits.
pub const MAX_EXTENT: i64 = 1 << 28;

impl WindowAxis {
    /// The axis in 32 bits; none with a dilation, with bins of unequal size, or with numbers beyond [`MAX_EXTENT`].
    pub fn new(axis: &PoolAxis) -> Option<Self> {
        let PoolAxis { image, output, padding, padding_end, .. } = *axis;
        let (window, stride) = if axis.bins == 0 {
            (axis.window, axis.stride)
        } else if image % output == 0 {
            (image / output, image / output)
        } else {
            return None;
        };
        let numbers = [image, output, padding, padding_end, window, stride];
        if (axis.dilation != 1 && window != 1) || numbers.into_iter().any(|number| number > MAX_EXTENT) {
            return None;
        }
        Some(WindowAxis {
            image: image as i32,
            output: output as i32,
            window: window as i32,
            padding: padding as i32,
            padded: (image + padding_end) as i32,
            stride: Divisor::new(stride as u32),
        })
    }

    /// Where an output's window begins, padding included.
    #[inline(always)]
    pub const fn start(&self, output: i32) -> i32 {
        output * self.stride.divisor as i32 - self.padding
    }

    /// The positions `begin..end` of an output's window inside the image.
    #[inline(always)]
    pub const fn inside(&self, output: i32) -> (i32, i32) {
        let start = self.start(output);
        let end = start + self.window;
        (if start < 0 { 0 } else { start }, if end > self.image { self.image } else { end })
    }

    /// How many positions of an output's window count: those inside the image, or inside its padding too.
    #[inline(always)]
    pub const fn count(&self, output: i32, with_padding: bool) -> i32 {
        let (begin, end) = self.inside(output);
        if !with_padding {
            return end - begin;
        }
        let (start, room) = (self.start(output), self.padded);
        if start + self.window > room { room - start } else { self.window }
    }

    /// The outputs `begin..end` whose windows hold an image position.
    #[inline(always)]
    pub const fn covering(&self, at: i32) -> (i32, i32) {
        let (last, _) = self.stride.div_rem((at + self.padding) as u32);
        let before = at + self.padding - self.window;
        let begin = if before < 0 { 0 } else { self.stride.div_rem(before as u32).0 as i32 + 1 };
        (begin, if (last as i32) < self.output { last as i32 + 1 } else { self.output })
    }
}

crate::abi_struct! {
    /// Launch parameters of `strips`. Spatial arrays are depth, height, width.
    pub struct PoolStripParams {
        /// Threads that have something to do.
        pub n_threads: u32,
        /// Outputs of a column that a thread computes, forward.
        pub strip: u32,
        /// Vectors of channels, or channels.
        pub channels: Divisor,
        /// Columns of what is written.
        pub columns: Divisor,
        /// Strips of a column of it.
        pub strips: Divisor,
        /// Planes of it.
        pub planes: Divisor,
        /// The spatial axes.
        pub axes: [WindowAxis; 3],
        /// 1 where an average counts padding.
        pub with_padding: u32,
        /// 1 where a maximum ignores NaNs.
        pub ignore_nan: u32,
        /// What stands for elements outside the image, in each half for elements of 16 bits: it changes no maximum, no sum.
        pub fill: u32,
        /// Factor of the result.
        pub alpha: f32,
        /// Factor of the output's prior value.
        pub beta: f32,
        /// Nothing.
        pub unused: u32,
        /// What is read: x, or dy.
        pub from: ChannelTensor,
        /// What is written: y, or dx.
        pub to: ChannelTensor,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_the_same_axis() {
        for (image, window, stride, padding, padding_end, extra) in
            [(7, 3, 2, 1, 1, 0), (9, 2, 3, 0, 0, 0), (4, 4, 1, 3, 2, 0), (1, 1, 1, 0, 0, 0), (6, 3, 4, 1, 1, 1)]
        {
            let output = (image + padding + padding_end - window) / stride + 1 + extra;
            let axis = PoolAxis { image, output, window, stride, padding, padding_end, ..PoolAxis::ABSENT };
            let narrow = WindowAxis::new(&axis).unwrap();
            for o in 0..output {
                let (begin, end) = narrow.inside(o as i32);
                assert_eq!((i64::from(begin), i64::from(end)), axis.window(o));
                assert_eq!(i64::from(narrow.count(o as i32, false)), axis.inside(o));
                assert_eq!(i64::from(narrow.count(o as i32, true)), axis.padded(o));
            }
            for at in 0..image {
                let (begin, end) = narrow.covering(at as i32);
                assert_eq!((i64::from(begin), i64::from(end)), axis.covering(at));
            }
        }
        let bins = |image, output| PoolAxis { image, output, bins: 1, ..PoolAxis::ABSENT };
        let even = WindowAxis::new(&bins(6, 3)).unwrap();
        assert_eq!((even.inside(1), even.covering(3), even.count(2, true)), ((2, 4), (1, 2), 2));
        assert_eq!(WindowAxis::new(&bins(7, 3)), None);
        assert_eq!(WindowAxis::new(&PoolAxis { dilation: 2, window: 2, ..PoolAxis::ABSENT }), None);
    }
}
