//! Launch parameters of the padding kernels.

use super::PadMode;
use crate::{MAX_RANK, TensorParam};

/// One dimension.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct PadAxis {
    /// Extent of x.
    pub x: i64,
    /// Extent of y.
    pub y: i64,
    /// Positions before x's first.
    pub before: i64,
    /// Positions from one element of y to the next; not 0.
    pub step: i64,
}

impl PadAxis {
    /// A dimension of extent 1 that is kept.
    pub const NONE: Self = PadAxis { x: 1, y: 1, before: 0, step: 1 };

    /// The element of x that element `i` of y is, or -1.
    #[inline(always)]
    pub const fn source(&self, mode: u32, i: i64) -> i64 {
        let p = self.step * i - self.before;
        let last = self.x - 1;
        if p >= 0 && p <= last {
            p
        } else if mode == PadMode::Constant as u32 {
            -1
        } else if mode == PadMode::Edge as u32 || last == 0 {
            if p < 0 { 0 } else { last }
        } else if mode == PadMode::Wrap as u32 {
            let rest = p % self.x;
            if rest < 0 { rest + self.x } else { rest }
        } else {
            let rest = p % (2 * last);
            let rest = if rest < 0 { rest + 2 * last } else { rest };
            if rest > last { 2 * last - rest } else { rest }
        }
    }
}

crate::abi_struct! {
    /// Launch parameters of the padding kernels, both passes.
    pub struct PadParams {
        /// Elements of what is written.
        pub n_elems: i64,
        /// What stands outside where the mode is `constant`.
        pub value: f64,
        /// Factor of the result.
        pub alpha: f64,
        /// Factor of the output's prior value.
        pub beta: f64,
        /// A [`PadMode`](super::PadMode) as a number.
        pub mode: u32,
        /// The element type, a [`DType`](crate::DType) as a number.
        pub dtype: u32,
        /// x, or dx.
        pub x: TensorParam,
        /// y, or dy.
        pub y: TensorParam,
        /// The dimensions, unused ones first.
        pub axes: [PadAxis; MAX_RANK],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_outside_have_their_elements() {
        let axis = PadAxis { x: 4, y: 16, before: 6, step: 1 };
        let sources = |mode: PadMode| (0..16).map(|i| axis.source(mode as u32, i)).collect::<Vec<_>>();
        assert_eq!(sources(PadMode::Constant), [-1, -1, -1, -1, -1, -1, 0, 1, 2, 3, -1, -1, -1, -1, -1, -1]);
        assert_eq!(sources(PadMode::Edge), [0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 3, 3, 3, 3, 3, 3]);
        assert_eq!(sources(PadMode::Reflect), [0, 1, 2, 3, 2, 1, 0, 1, 2, 3, 2, 1, 0, 1, 2, 3]);
        assert_eq!(sources(PadMode::Wrap), [2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1]);
        let backwards = PadAxis { x: 4, y: 2, before: -3, step: -2 };
        assert_eq!([0, 1].map(|i| backwards.source(0, i)), [3, 1]);
    }
}
