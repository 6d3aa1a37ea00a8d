//! Parts of a tensor and other ways of seeing it: offsets and strides, no operator.
//!
//! What a [`slice`](TensorDesc::slice) gives is what a window of a tensor takes, to be read or written; so a concatenation
//! is a [`transform`](crate::ops::transform) of each tensor into its slice of the result, and a split the other way round.

use crate::desc::{BadDescriptor, TensorDesc};
use crate::text::join;

impl TensorDesc {
    /// The elements `start + step · i` along each dimension, for i below `dims`: where the first lies, in elements, and the
    /// tensor that begins there.
    ///
    /// # Errors
    /// `BadDescriptor` naming the argument: other numbers of them than dimensions, steps below 1, elements outside of the
    /// tensor. Steps below 0, which strides cannot say, are `pad`'s.
    pub fn slice(&self, start: &[i64], step: &[i64], dims: &[i64]) -> Result<(i64, TensorDesc), BadDescriptor> {
        let bad = |argument: &str, reason: String| Err(BadDescriptor::new("tensor", argument, reason));
        for (name, numbers) in [("start", start), ("step", step), ("dims", dims)] {
            if numbers.len() != self.rank() {
                return bad(
                    name,
                    format!("expected {} numbers, one a dimension, given {}", self.rank(), numbers.len()),
                );
            }
        }
        let (mut offset, mut strides) = (0, self.strides().to_vec());
        for i in 0..self.rank() {
            let extent = self.dims()[i];
            if step[i] < 1 {
                return bad("step", format!("expected steps of at least 1, given {} in dimension {i}", step[i]));
            }
            let last =
                dims[i].checked_sub(1).and_then(|n| n.checked_mul(step[i])).and_then(|n| n.checked_add(start[i]));
            if start[i] < 0 || dims[i] < 1 || last.is_none_or(|last| last >= extent) {
                let (start, step, n) = (start[i], step[i], dims[i]);
                return bad(
                    "start",
                    format!(
                        "expected elements 0 to {} in dimension {i}, given {n} from {start} in steps of {step}",
                        extent - 1
                    ),
                );
            }
            offset += start[i] * strides[i];
            // One element has no neighbours, whose stride could be beyond what is legal.
            strides[i] *= if dims[i] > 1 { step[i] } else { 1 };
        }
        Ok((offset, Self::strided(self.dtype(), dims, &strides)?))
    }

    /// The parts that tensors of these extents along `axis` have of this one, one behind the other: where each lies, and the
    /// tensor that begins there. They are what is concatenated, or what it is split into.
    ///
    /// # Errors
    /// `BadDescriptor` for an axis that there is not, extents below 1, or extents whose sum is another than this tensor's.
    pub fn split(&self, axis: usize, extents: &[i64]) -> Result<Vec<(i64, TensorDesc)>, BadDescriptor> {
        let bad = |argument: &str, reason: String| Err(BadDescriptor::new("tensor", argument, reason));
        let Some(&whole) = self.dims().get(axis) else {
            return bad("axis", format!("expected one below the rank {}, given {axis}", self.rank()));
        };
        let sum =
            extents.iter().try_fold(0i64, |sum, &extent| (extent >= 1).then(|| sum.checked_add(extent)).flatten());
        if sum != Some(whole) {
            return bad(
                "extents",
                format!("expected ones of at least 1 with the sum {whole}, given {}", join(extents)),
            );
        }
        let (mut start, mut dims) = (vec![0; self.rank()], self.dims().to_vec());
        let steps = vec![1; self.rank()];
        let part = |&extent: &i64| {
            dims[axis] = extent;
            let part = self.slice(&start, &steps, &dims);
            start[axis] += extent;
            part
        };
        extents.iter().map(part).collect()
    }

    /// The same elements with the dimensions in another order: dimension `i` is this tensor's `order[i]`.
    ///
    /// # Errors
    /// `BadDescriptor` where `order` does not name every dimension once.
    pub fn permuted(&self, order: &[usize]) -> Result<TensorDesc, BadDescriptor> {
        let mut sorted = order.to_vec();
        sorted.sort_unstable();
        if !sorted.iter().copied().eq(0..self.rank()) {
            let reason = format!("expected every dimension below {} once, given {order:?}", self.rank());
            return Err(BadDescriptor::new("tensor", "order", reason));
        }
        let pick = |numbers: &[i64]| order.iter().map(|&i| numbers[i]).collect::<Vec<_>>();
        Self::strided(self.dtype(), &pick(self.dims()), &pick(self.strides()))
    }

    /// The tensor repeated along dimensions of extent 1, without being copied; missing dimensions stand first.
    ///
    /// # Errors
    /// `BadDescriptor` for fewer dimensions than there are, or other extents than this tensor's where that is not 1.
    pub fn expanded(&self, dims: &[i64]) -> Result<TensorDesc, BadDescriptor> {
        let fits = |dims: &[i64]| self.dims().iter().zip(dims).all(|(&mine, &wanted)| mine == 1 || mine == wanted);
        let Some(more) = dims.len().checked_sub(self.rank()).filter(|&more| fits(&dims[more..])) else {
            let reason = format!("expected what {} can be repeated to, given {}", join(self.dims()), join(dims));
            return Err(BadDescriptor::new("tensor", "dims", reason));
        };
        let stride = |i: usize| if i < more || self.dims()[i - more] != dims[i] { 0 } else { self.strides()[i - more] };
        Self::strided(self.dtype(), dims, &(0..dims.len()).map(stride).collect::<Vec<_>>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn desc(text: &str) -> TensorDesc {
        text.parse().unwrap()
    }

    #[test]
    fn slices_are_offsets_and_strides() {
        let x = desc("4x6:f32");
        assert_eq!(x.slice(&[1, 2], &[2, 1], &[2, 3]).unwrap(), (8, desc("2x3:f32:s12x1")));
        assert_eq!(x.slice(&[3, 5], &[9, 9], &[1, 1]).unwrap(), (23, desc("1x1:f32:s6x1")));
        let images = desc("2x3x4x5:f16:nhwc");
        assert_eq!(images.slice(&[0, 1, 0, 0], &[1; 4], &[2, 2, 4, 5]).unwrap(), (1, desc("2x2x4x5:f16:s60x1x15x3")));
    }

    #[test]
    fn parts_lie_one_behind_the_other() {
        let parts = desc("2x5:i8").split(1, &[2, 3]).unwrap();
        assert_eq!(parts, [(0, desc("2x2:i8:s5x1")), (2, desc("2x3:i8:s5x1"))]);
    }

    #[test]
    fn orders_and_repetitions() {
        assert_eq!(desc("2x3x4:f32").permuted(&[2, 0, 1]).unwrap(), desc("4x2x3:f32:s1x12x4"));
        assert_eq!(desc("3x1:f32").expanded(&[2, 3, 4]).unwrap(), desc("2x3x4:f32:s0x1x0"));
        assert_eq!(desc("3x1:f32").expanded(&[3, 1]).unwrap(), desc("3x1:f32"));
    }

    #[test]
    fn refusals_name_expected_and_given() {
        let x = desc("4x6:f32");
        let sliced = |start: &[i64], step: &[i64], dims: &[i64]| x.slice(start, step, dims).unwrap_err().to_string();
        assert!(sliced(&[0], &[1, 1], &[1, 1]).contains("expected 2 numbers, one a dimension, given 1"));
        assert!(sliced(&[0, 0], &[1, 0], &[1, 1]).contains("at least 1, given 0 in dimension 1"));
        assert!(sliced(&[0, 2], &[1, 2], &[4, 3]).contains("0 to 5 in dimension 1, given 3 from 2 in steps of 2"));
        assert!(sliced(&[-1, 0], &[1, 1], &[1, 1]).contains("given 1 from -1"));
        assert!(sliced(&[0, 0], &[1, 1], &[0, 1]).contains("given 0 from 0"));
        assert!(sliced(&[1, 0], &[i64::MAX, 1], &[3, 1]).contains("dimension 0"));
        assert!(x.split(2, &[4]).unwrap_err().to_string().contains("below the rank 2, given 2"));
        assert!(x.split(0, &[2, 3]).unwrap_err().to_string().contains("sum 4, given 2x3"));
        assert!(x.split(0, &[5, -1]).unwrap_err().to_string().contains("at least 1"));
        assert!(x.permuted(&[0, 0]).unwrap_err().to_string().contains("once, given [0, 0]"));
        assert!(x.expanded(&[6]).unwrap_err().to_string().contains("4x6 can be repeated to, given 6"));
        assert!(x.expanded(&[4, 7]).unwrap_err().to_string().contains("given 4x7"));
    }
}
