//! Random descriptors.

use kernel_abi::{DType, TensorDesc};
use proptest::prelude::*;

/// Any element type that every operator takes.
pub fn dtype() -> impl Strategy<Value = DType> {
    prop::sample::select(&DType::GENERAL[..])
}

/// Any element type at all.
pub fn any_dtype() -> impl Strategy<Value = DType> {
    prop::sample::select(&DType::ALL[..])
}

/// Element types of a product of 8-bit numbers: both factors', and the result's.
pub fn narrow_product() -> impl Strategy<Value = [DType; 3]> {
    use DType::{BF16, F8E4M3, F8E5M2, F16, F32, I8, I32};
    let fp8 = || prop::sample::select(&[F8E4M3, F8E5M2][..]);
    prop_oneof![
        1 => prop::sample::select(&[I8, I32, F32][..]).prop_map(|c| [I8, I8, c]),
        1 => (fp8(), fp8(), prop::sample::select(&[F32, F16, BF16, F8E4M3, F8E5M2][..])).prop_map(|(a, b, c)| [a, b, c]),
    ]
}

/// Extents of rank 1 to `max_rank` with at most about `max_elems` elements.
pub fn dims(max_rank: usize, max_elems: i64) -> impl Strategy<Value = Vec<i64>> {
    prop::collection::vec(1i64..=9, 1..=max_rank).prop_map(move |mut dims| {
        while dims.iter().product::<i64>() > max_elems {
            if let Some(largest) = dims.iter_mut().max() {
                *largest = (*largest + 1) / 2;
            }
        }
        dims
    })
}

/// A way of laying out extents: packed, channels-last where there are channels, or any order with gaps.
#[derive(Clone, Debug)]
pub enum Layout {
    /// Row-major.
    Packed,
    /// Channels-last; packed below rank 2.
    ChannelsLast,
    /// Dimensions in an order given by keys, each with some elements left out behind it.
    Gaps(Vec<(u32, i64)>),
}

/// Any layout.
pub fn layout() -> impl Strategy<Value = Layout> {
    prop_oneof![
        3 => Just(Layout::Packed),
        3 => Just(Layout::ChannelsLast),
        2 => prop::collection::vec((any::<u32>(), 0i64..3), 8).prop_map(Layout::Gaps),
    ]
}

impl Layout {
    /// The descriptor for `dims` laid out this way.
    pub fn apply(&self, dtype: DType, dims: &[i64]) -> TensorDesc {
        let desc = match self {
            Layout::Packed => TensorDesc::packed(dtype, dims),
            Layout::ChannelsLast if dims.len() >= 2 => TensorDesc::channels_last(dtype, dims),
            Layout::ChannelsLast => TensorDesc::packed(dtype, dims),
            Layout::Gaps(keys) => {
                let mut order: Vec<usize> = (0..dims.len()).collect();
                order.sort_by_key(|&i| keys[i].0);
                let mut strides = vec![0; dims.len()];
                let mut stride = 1 + keys[0].1;
                for i in order {
                    strides[i] = stride;
                    stride = stride * dims[i] + keys[i].1;
                }
                TensorDesc::strided(dtype, dims, &strides)
            }
        };
        desc.expect("random extents are legal")
    }
}
