//! Tensor descriptors and the error for illegal ones.

use crate::DType;
use crate::layout::{MAX_RANK, TensorParam};
use std::fmt;
use std::str::FromStr;

/// An illegal descriptor or argument: which check failed, with both numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadDescriptor {
    /// The operator, or `tensor`.
    pub op: &'static str,
    /// The argument as the caller knows it, e.g. `w` or `stride`.
    pub argument: String,
    /// Lower-case sentence with what was expected and what was given.
    pub reason: String,
}

impl BadDescriptor {
    /// Makes the error.
    pub fn new(op: &'static str, argument: impl Into<String>, reason: impl Into<String>) -> Self {
        BadDescriptor { op, argument: argument.into(), reason: reason.into() }
    }
}

impl fmt::Display for BadDescriptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: bad {}: {}", self.op, self.argument, self.reason)
    }
}

impl std::error::Error for BadDescriptor {}

/// Extents, strides and element type of a tensor of 1 to 8 dimensions.
///
/// Dimensions are outermost first, `[N, C, H, W]` for images in every layout: the layout is a matter of strides.
/// Strides are in elements, at least 0; a stride of 0 repeats an input along that dimension.
/// Equality is that of extents, strides and type, so two ways of saying NHWC are equal.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TensorDesc {
    dtype: DType,
    rank: usize,
    dims: [i64; MAX_RANK],
    strides: [i64; MAX_RANK],
}

impl TensorDesc {
    /// A tensor with the given strides.
    ///
    /// # Errors
    /// `BadDescriptor` for a rank outside 1..=8, unequal lengths, an extent below 1, a negative stride, or a size in
    /// bytes beyond 2⁶³ - 1.
    pub fn strided(dtype: DType, dims: &[i64], strides: &[i64]) -> Result<Self, BadDescriptor> {
        let bad = |argument: &str, reason: String| Err(BadDescriptor::new("tensor", argument, reason));
        if dims.is_empty() || dims.len() > MAX_RANK {
            return bad("dims", format!("expected 1 to {MAX_RANK} dimensions, given {}", dims.len()));
        }
        if strides.len() != dims.len() {
            return bad(
                "strides",
                format!("expected {} strides, one a dimension, given {}", dims.len(), strides.len()),
            );
        }
        let mut desc = TensorDesc { dtype, rank: dims.len(), dims: [1; MAX_RANK], strides: [0; MAX_RANK] };
        let (mut elems, mut last) = (1i64, 0i64);
        for (i, (&dim, &stride)) in dims.iter().zip(strides).enumerate() {
            if dim < 1 {
                return bad("dims", format!("expected every extent to be at least 1, given {dim} in dimension {i}"));
            }
            if stride < 0 {
                return bad(
                    "strides",
                    format!("expected every stride to be at least 0, given {stride} in dimension {i}"),
                );
            }
            let sizes =
                elems.checked_mul(dim).zip((dim - 1).checked_mul(stride).and_then(|step| last.checked_add(step)));
            let Some((new_elems, new_last)) = sizes else {
                return bad("dims", format!("expected a size below 2^63, given {dims:?} with strides {strides:?}"));
            };
            (elems, last) = (new_elems, new_last);
            desc.dims[i] = dim;
            desc.strides[i] = stride;
        }
        let item = dtype.size_bytes() as i64;
        if last.checked_add(1).and_then(|span| span.checked_mul(item)).is_none() || elems.checked_mul(item).is_none() {
            return bad("dims", format!("expected a size below 2^63 bytes, given {dims:?} with strides {strides:?}"));
        }
        Ok(desc)
    }

    /// A row-major tensor without gaps: the last dimension is contiguous. For `[N, C, H, W]` this is NCHW.
    ///
    /// # Errors
    /// As [`TensorDesc::strided`].
    pub fn packed(dtype: DType, dims: &[i64]) -> Result<Self, BadDescriptor> {
        Self::in_order(dtype, dims, (0..dims.len()).rev())
    }

    /// A tensor `[N, C, spatial...]` whose channels are contiguous: NHWC, and NWC or NDHWC for other ranks.
    ///
    /// # Errors
    /// As [`TensorDesc::strided`]; also for a rank below 2.
    pub fn channels_last(dtype: DType, dims: &[i64]) -> Result<Self, BadDescriptor> {
        if dims.len() < 2 {
            let reason = format!("expected at least 2 dimensions for a channels-last tensor, given {}", dims.len());
            return Err(BadDescriptor::new("tensor", "dims", reason));
        }
        Self::in_order(dtype, dims, std::iter::once(1).chain((2..dims.len()).rev()).chain([0]))
    }

    /// A tensor of other extents, without gaps, whose dimensions lie in the order of this one's.
    ///
    /// # Errors
    /// As [`TensorDesc::strided`]; also for another rank.
    pub fn of_extents(&self, dims: &[i64]) -> Result<Self, BadDescriptor> {
        if dims.len() != self.rank {
            let reason = format!("expected {} dimensions, given {}", self.rank, dims.len());
            return Err(BadDescriptor::new("tensor", "dims", reason));
        }
        // Exact equality first: with an extent of 1 a tensor can be both, and its strides then say which was meant.
        if Self::packed(self.dtype, self.dims()).as_ref() == Ok(self) {
            return Self::packed(self.dtype, dims);
        }
        if Self::channels_last(self.dtype, self.dims()).as_ref() == Ok(self) {
            return Self::channels_last(self.dtype, dims);
        }
        let mut order: Vec<usize> = (0..self.rank).rev().collect();
        order.sort_by_key(|&i| self.strides[i]);
        Self::in_order(self.dtype, dims, order.into_iter())
    }

    /// Strides for dimensions laid out without gaps, `order` naming them from the innermost out.
    fn in_order(dtype: DType, dims: &[i64], order: impl Iterator<Item = usize>) -> Result<Self, BadDescriptor> {
        if dims.is_empty() || dims.len() > MAX_RANK {
            return Self::strided(dtype, dims, &[]);
        }
        let mut strides = [0i64; MAX_RANK];
        let mut stride = 1i64;
        for dim in order {
            strides[dim] = stride;
            // A saturated stride is refused by the size check of `strided`.
            stride = stride.saturating_mul(dims[dim].max(0));
        }
        Self::strided(dtype, dims, &strides[..dims.len()])
    }

    /// An image batch `[n, c, h, w]` in NCHW order.
    ///
    /// # Errors
    /// As [`TensorDesc::strided`].
    pub fn nchw(dtype: DType, n: i64, c: i64, h: i64, w: i64) -> Result<Self, BadDescriptor> {
        Self::packed(dtype, &[n, c, h, w])
    }

    /// An image batch `[n, c, h, w]` in NHWC order.
    ///
    /// # Errors
    /// As [`TensorDesc::strided`].
    pub fn nhwc(dtype: DType, n: i64, c: i64, h: i64, w: i64) -> Result<Self, BadDescriptor> {
        Self::channels_last(dtype, &[n, c, h, w])
    }

    /// Element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Number of dimensions.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// Extents, outermost dimension first.
    pub fn dims(&self) -> &[i64] {
        &self.dims[..self.rank]
    }

    /// Strides in elements.
    pub fn strides(&self) -> &[i64] {
        &self.strides[..self.rank]
    }

    /// Number of elements.
    pub fn n_elems(&self) -> i64 {
        self.dims().iter().product()
    }

    /// Distance from the first element to one past the last, in elements.
    pub fn span_elems(&self) -> i64 {
        1 + self.dims().iter().zip(self.strides()).map(|(dim, stride)| (dim - 1) * stride).sum::<i64>()
    }

    /// Bytes of memory the tensor reaches over, gaps included.
    pub fn span_bytes(&self) -> u64 {
        self.span_elems() as u64 * self.dtype.size_bytes() as u64
    }

    /// Bytes of its elements, gaps not counted.
    pub fn data_bytes(&self) -> u64 {
        self.n_elems() as u64 * self.dtype.size_bytes() as u64
    }

    /// Whether elements lie row-major without gaps. Strides of dimensions of extent 1 do not matter.
    pub fn is_packed(&self) -> bool {
        self.lies_like(&Self::packed(self.dtype, self.dims()))
    }

    /// Whether elements lie channels-last without gaps. Strides of dimensions of extent 1 do not matter.
    pub fn is_channels_last(&self) -> bool {
        self.lies_like(&Self::channels_last(self.dtype, self.dims()))
    }

    fn lies_like(&self, other: &Result<Self, BadDescriptor>) -> bool {
        other
            .as_ref()
            .is_ok_and(|other| (0..self.rank).all(|i| self.dims[i] == 1 || self.strides[i] == other.strides[i]))
    }

    /// Whether the elements fill their span without gap or overlap, in whatever order of dimensions.
    pub fn is_dense(&self) -> bool {
        !self.self_overlaps() && self.span_elems() == self.n_elems()
    }

    /// Whether two indices may share an element, as with a stride of 0. Outputs must not.
    ///
    /// Decided by sorting dimensions by stride and asking that each stride exceeds the span of the smaller ones:
    /// exact for every layout made by slicing and permuting a packed tensor, and conservative otherwise.
    pub fn self_overlaps(&self) -> bool {
        let mut axes: Vec<(i64, i64)> =
            self.strides().iter().copied().zip(self.dims().iter().copied()).filter(|&(_, dim)| dim > 1).collect();
        axes.sort_unstable();
        let mut reach = 0;
        for (stride, dim) in axes {
            if stride <= reach {
                return true;
            }
            reach += stride * (dim - 1);
        }
        false
    }

    /// The same extents and strides with another element type.
    ///
    /// # Errors
    /// As [`TensorDesc::strided`], for sizes.
    pub fn with_dtype(&self, dtype: DType) -> Result<Self, BadDescriptor> {
        Self::strided(dtype, self.dims(), self.strides())
    }

    /// The same extents and type, row-major without gaps.
    pub fn to_packed(&self) -> Self {
        let mut packed = *self;
        let mut stride = 1;
        for i in (0..self.rank).rev() {
            packed.strides[i] = stride;
            stride *= self.dims[i];
        }
        packed
    }

    /// The offset in elements of the element with row-major index `linear`.
    pub fn offset_of(&self, linear: i64) -> i64 {
        let (mut rest, mut offset) = (linear, 0);
        for i in (0..self.rank).rev() {
            offset += rest % self.dims[i] * self.strides[i];
            rest /= self.dims[i];
        }
        offset
    }

    /// The form kernels take, at `address`.
    pub fn param(&self, address: u64) -> TensorParam {
        TensorParam { address, dims: self.dims, strides: self.strides }
    }
}

/// Tensors of equal extents as kernels that visit every element take them, with as few dimensions as possible.
///
/// Dimensions are sorted by the first tensor's strides, outermost first, and neighbours that all tensors can walk as
/// one are merged: index arithmetic is what such kernels spend their time on. Packed tensors of one layout become
/// one-dimensional. Addresses are 0.
pub fn collapse<const N: usize>(tensors: [&TensorDesc; N]) -> [TensorParam; N] {
    collapse_dims(tensors, &(0..tensors[0].rank()).collect::<Vec<_>>())
}

/// [`collapse`] for some of the dimensions only.
pub fn collapse_dims<const N: usize>(tensors: [&TensorDesc; N], dims: &[usize]) -> [TensorParam; N] {
    let first = tensors[0];
    let mut axes: Vec<usize> = dims.iter().copied().filter(|&i| first.dims()[i] > 1).collect();
    axes.sort_by_key(|&i| std::cmp::Reverse(first.strides()[i]));
    let mut merged: Vec<(i64, [i64; N])> = Vec::new();
    for i in axes {
        let dim = first.dims()[i];
        let strides = tensors.map(|tensor| tensor.strides()[i]);
        match merged.last_mut() {
            Some((outer_dim, outer)) if outer.iter().zip(&strides).all(|(outer, inner)| *outer == inner * dim) => {
                *outer_dim *= dim;
                *outer = strides;
            }
            _ => merged.push((dim, strides)),
        }
    }
    std::array::from_fn(|t| {
        // Unused dimensions stand first, so that the last one is always the innermost.
        let mut param = TensorParam { address: 0, dims: [1; MAX_RANK], strides: [0; MAX_RANK] };
        let unused = MAX_RANK - merged.len();
        for (i, (dim, strides)) in merged.iter().enumerate() {
            param.dims[unused + i] = *dim;
            param.strides[unused + i] = strides[t];
        }
        param
    })
}

/// `2x16x7x7:f16`, with `:nhwc` or `:s784x1x112x16` behind it unless the tensor is packed.
impl fmt::Display for TensorDesc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", crate::text::join(self.dims()), self.dtype)?;
        let same = |other: Result<Self, BadDescriptor>| other.is_ok_and(|other| other == *self);
        if same(Self::packed(self.dtype, self.dims())) {
            Ok(())
        } else if same(Self::channels_last(self.dtype, self.dims())) {
            f.write_str(":nhwc")
        } else {
            write!(f, ":s{}", crate::text::join(self.strides()))
        }
    }
}

impl fmt::Debug for TensorDesc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for TensorDesc {
    type Err = BadDescriptor;

    fn from_str(text: &str) -> Result<Self, BadDescriptor> {
        let bad = |reason: String| BadDescriptor::new("tensor", "text", reason);
        let mut parts = text.split(':');
        let dims = crate::text::split(parts.next().unwrap_or_default()).map_err(bad)?;
        let dtype = parts
            .next()
            .ok_or_else(|| bad(format!("expected <dims>:<type>[:<layout>], given {text:?}")))?
            .parse()
            .map_err(bad)?;
        let layout = parts.next().unwrap_or("nchw");
        if let Some(extra) = parts.next() {
            return Err(bad(format!("expected <dims>:<type>[:<layout>], given also {extra:?}")));
        }
        match layout {
            "nchw" => Self::packed(dtype, &dims),
            "nhwc" => Self::channels_last(dtype, &dims),
            _ => match layout.strip_prefix('s') {
                Some(strides) => Self::strided(dtype, &dims, &crate::text::split(strides).map_err(bad)?),
                None => Err(bad(format!("expected layout nchw, nhwc or s<strides>, given {layout:?}"))),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_round_trips() {
        for text in ["2x16x7x7:f16", "2x16x7x7:bf16:nhwc", "3x4:f64:s8x2", "5:f32", "2x3x4x5x6:f32:nhwc"] {
            assert_eq!(text.parse::<TensorDesc>().unwrap().to_string(), text);
        }
        assert_eq!("2x3:f32:nchw".parse::<TensorDesc>().unwrap().to_string(), "2x3:f32");
    }

    #[test]
    fn refusals_name_both_numbers() {
        let reason = |text: &str| text.parse::<TensorDesc>().unwrap_err().to_string();
        assert!(reason("0x3:f32").contains("at least 1, given 0 in dimension 0"));
        assert!(reason("2x-3:f32").contains("given -3"));
        assert!(reason("1x1x1x1x1x1x1x1x1:f32").contains("1 to 8 dimensions, given 9"));
        assert!(reason("4294967296x4294967296:f32").contains("2^63"));
        assert!(reason("2305843009213693951x4:f64").contains("2^63"));
        assert!(reason("2x3:i7").contains("given \"i7\""));
        assert!(reason("2x3").contains("<type>"));
        assert!(reason("2x3:f32:s1").contains("2 strides"));
        assert!(reason("2x3:f32:s1x-1").contains("given -1"));
    }

    #[test]
    fn other_extents_keep_the_order_of_dimensions() {
        let desc = |text: &str| text.parse::<TensorDesc>().unwrap();
        let of = |text: &str, dims: &[i64]| desc(text).of_extents(dims).unwrap();
        assert_eq!(of("2x3x8x8:f16:nhwc", &[2, 3, 4, 4]), desc("2x3x4x4:f16:nhwc"));
        assert_eq!(of("2x3x8x8:f16", &[2, 3, 4, 4]), desc("2x3x4x4:f16"));
        // H, W, C, N from the outermost in.
        assert_eq!(of("2x3x8x8:f16:s1x2x48x6", &[2, 3, 4, 5]), desc("2x3x4x5:f16:s1x2x30x6"));
        assert!(desc("2x3:f16").of_extents(&[2, 3, 4]).is_err());
    }

    #[test]
    fn collapse_merges_what_all_tensors_walk_alike() {
        let desc = |text: &str| text.parse::<TensorDesc>().unwrap();
        let (a, b) = (desc("2x3x4x5:f32:nhwc"), desc("2x3x4x5:f32:nhwc"));
        let [x, _] = collapse([&a, &b]);
        assert_eq!((x.dims, x.strides), ([1, 1, 1, 1, 1, 1, 1, 120], [0, 0, 0, 0, 0, 0, 0, 1]));
        let packed = desc("2x3x4x5:f32");
        let [x, y] = collapse([&packed, &a]);
        assert_eq!(
            (&x.dims[5..], &x.strides[5..], &y.strides[5..]),
            (&[2, 3, 20][..], &[60, 20, 1][..], &[60, 1, 3][..])
        );
    }

    #[test]
    fn overlap_and_density() {
        let desc = |text: &str| text.parse::<TensorDesc>().unwrap();
        assert!(!desc("2x3x4x5:f32:nhwc").self_overlaps());
        assert!(desc("2x3x4x5:f32:nhwc").is_dense());
        assert!(desc("2x3:f32:s0x1").self_overlaps());
        assert!(desc("3x3:f32:s1x1").self_overlaps());
        assert!(!desc("3x3:f32:s1x4").is_dense());
        assert_eq!(desc("3x3:f32:s1x4").span_elems(), 11);
        assert!(desc("1x3x1x1:f32:s7x1x9x9").is_packed());
    }
}
