//! Views of tensors: other extents and strides over the same elements, which no arithmetic is needed for.

use crate::stop::Stop;
use oxidnn::{DType, TensorDesc};

/// Where the elements of a view lie in the memory of an [`Array`](crate::device::Array).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The first element's place.
    pub offset: i64,
    /// Extents and strides from there.
    pub desc: TensorDesc,
}

impl Layout {
    /// A row-major tensor. A scalar, which has no extents, becomes `[1]`: descriptors have at least one dimension.
    pub fn packed(dtype: DType, dims: &[i64]) -> Result<Self, Stop> {
        let dims = if dims.is_empty() { &[1] } else { dims };
        if let Some(axis) = dims.iter().position(|&dim| dim == 0) {
            return Err(Stop::refused(format!("tensors have elements, and dimension {axis} has the extent 0")));
        }
        Ok(Layout { offset: 0, desc: TensorDesc::packed(dtype, dims)? })
    }

    /// Extents.
    pub fn dims(&self) -> &[i64] {
        self.desc.dims()
    }

    fn with(&self, dims: &[i64], strides: &[i64]) -> Result<Self, Stop> {
        Ok(Layout { offset: self.offset, desc: TensorDesc::strided(self.desc.dtype(), dims, strides)? })
    }

    /// Dimensions in another order.
    pub fn permuted(&self, order: &[usize]) -> Result<Self, Stop> {
        let pick = |values: &[i64]| order.iter().map(|&axis| values[axis]).collect::<Vec<_>>();
        self.with(&pick(self.dims()), &pick(self.desc.strides()))
    }

    /// Other extents for as many elements, of a tensor without gaps.
    pub fn reshaped(&self, dims: &[i64]) -> Result<Self, Stop> {
        let reshaped = Self::packed(self.desc.dtype(), dims)?;
        if !self.desc.is_packed() || reshaped.desc.n_elems() != self.desc.n_elems() {
            return Err(Stop::failed(format!("expected a packed tensor of {dims:?}, given {}", self.desc)));
        }
        Ok(Layout { offset: self.offset, ..reshaped })
    }

    /// As many dimensions as `rank`, those added in front having extent 1.
    pub fn of_rank(&self, rank: usize) -> Result<Self, Stop> {
        let n_new = rank.checked_sub(self.desc.rank());
        let n_new =
            n_new.ok_or_else(|| Stop::failed(format!("expected at most {rank} dimensions in {}", self.desc)))?;
        let pad = |value: i64, values: &[i64]| [&vec![value; n_new], values].concat();
        self.with(&pad(1, self.dims()), &pad(0, self.desc.strides()))
    }

    /// Repeated to these extents by the rules of numpy: with a stride of 0 where there is only one element.
    pub fn broadcast(&self, dims: &[i64]) -> Result<Self, Stop> {
        let dims = if dims.is_empty() { &[1] } else { dims };
        let whole = self.of_rank(dims.len())?;
        let mut strides = whole.desc.strides().to_vec();
        for ((stride, &from), &to) in strides.iter_mut().zip(whole.dims()).zip(dims) {
            if from != to {
                if from != 1 {
                    return Err(Stop::failed(format!("expected what repeats to {dims:?}, given {}", self.desc)));
                }
                *stride = 0;
            }
        }
        whole.with(dims, &strides)
    }

    /// Every `step`-th index of an axis, `len` of them from `start` on.
    pub fn part(&self, axis: usize, start: i64, len: i64, step: i64) -> Result<Self, Stop> {
        let dim = self.dims()[axis];
        if start < 0 || step < 1 || len < 1 || start + (len - 1) * step >= dim {
            let what = format!("{len} indices from {start} in steps of {step}");
            return Err(Stop::failed(format!("expected a part of dimension {axis} of {}, given {what}", self.desc)));
        }
        let (mut dims, mut strides) = (self.dims().to_vec(), self.desc.strides().to_vec());
        let offset = self.offset + start * strides[axis];
        dims[axis] = len;
        strides[axis] *= step;
        Ok(Layout { offset, ..self.with(&dims, &strides)? })
    }

    /// An axis as several, of these extents, outermost first.
    pub fn split(&self, axis: usize, extents: &[i64]) -> Result<Self, Stop> {
        let (mut dims, mut strides) = (self.dims().to_vec(), self.desc.strides().to_vec());
        if extents.iter().product::<i64>() != dims[axis] {
            return Err(Stop::failed(format!("expected {} indices of axis {axis}, given {extents:?}", dims[axis])));
        }
        let inner = |i: usize| strides[axis] * extents[i + 1..].iter().product::<i64>();
        let split: Vec<i64> = (0..extents.len()).map(inner).collect();
        dims.splice(axis..=axis, extents.iter().copied());
        strides.splice(axis..=axis, split);
        self.with(&dims, &strides)
    }
}

/// The extents to which all of `shapes` repeat, by the rules of numpy.
pub fn broadcast_dims<'a>(shapes: impl IntoIterator<Item = &'a [i64]>) -> Result<Vec<i64>, Stop> {
    let mut dims: Vec<i64> = Vec::new();
    for shape in shapes {
        while dims.len() < shape.len() {
            dims.insert(0, 1);
        }
        let behind = dims.len() - shape.len();
        for (to, &from) in dims[behind..].iter_mut().zip(shape) {
            if *to == 1 {
                *to = from;
            } else if from != 1 && from != *to {
                return Err(Stop::failed(format!("expected extents that repeat to each other, given {to} and {from}")));
            }
        }
    }
    Ok(dims)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn views_name_the_right_elements() {
        let x = Layout::packed(DType::F32, &[2, 3, 4]).unwrap();
        let elements = |layout: &Layout| -> Vec<i64> {
            (0..layout.desc.n_elems()).map(|i| layout.offset + layout.desc.offset_of(i)).collect()
        };
        assert_eq!(elements(&x.part(2, 1, 2, 2).unwrap().part(1, 2, 1, 1).unwrap()), [9, 11, 21, 23]);
        assert_eq!(elements(&x.permuted(&[2, 0, 1]).unwrap())[..4], [0, 4, 8, 12]);
        assert_eq!(elements(&x.split(2, &[2, 2]).unwrap().permuted(&[0, 1, 3, 2]).unwrap())[..4], [0, 2, 1, 3]);
        assert_eq!(elements(&x.reshaped(&[24]).unwrap()), elements(&x));
        let row = Layout::packed(DType::F32, &[2]).unwrap();
        assert_eq!(elements(&row.broadcast(&[2, 2]).unwrap()), [0, 1, 0, 1]);
        assert!(row.broadcast(&[3]).is_err());
        assert!(matches!(Layout::packed(DType::F32, &[2, 0]), Err(Stop::Refused(_))));
    }

    #[test]
    fn extents_repeat() {
        assert_eq!(broadcast_dims([&[3, 1][..], &[4], &[2, 1, 1]]).unwrap(), [2, 3, 4]);
        assert!(broadcast_dims([&[3][..], &[4]]).is_err());
    }
}
