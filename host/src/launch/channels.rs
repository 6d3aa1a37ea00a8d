//! Images whose channels or columns lie together, read and written 16 bytes or an element at a time.

use crate::plan::{Call, Launch};
use crate::select::Refusal;
use crate::{DType, Error, Stream, TensorDesc};
use kernel_abi::ChannelTensor;

/// Bytes of an access where channels lie together.
pub(crate) const ACCESS_BYTES: u64 = 16;

/// A launch for operands at multiples of some bytes, and one for any others.
pub(crate) struct Aligned<F, G> {
    pub(crate) fast: F,
    pub(crate) align: u64,
    pub(crate) general: G,
}

impl<F: Launch, G: Launch> Launch for Aligned<F, G> {
    fn launch(&self, stream: &Stream, call: &mut Call<'_>) -> Result<(), Error> {
        if call.is_aligned(self.align) { self.fast.launch(stream, call) } else { self.general.launch(stream, call) }
    }
}

/// How tensors are read: elements an access, and which tensors these are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChannelLayout {
    /// More than 1 where channels lie together.
    pub(crate) vec: i64,
}

impl ChannelLayout {
    /// The layout that all these tensors have.
    pub(crate) fn of(tensors: &[&TensorDesc]) -> Result<Self, Refusal> {
        let dtype = tensors[0].dtype();
        if !matches!(dtype, DType::F32 | DType::F16 | DType::BF16) {
            return Err(Refusal::new(format!("takes f32, f16 and bf16, the element type is {dtype}")));
        }
        let vec = ACCESS_BYTES as i64 / dtype.size_bytes() as i64;
        let by_channels = |desc: &&TensorDesc| {
            let others = (0..desc.rank()).filter(|&i| i != 1 && desc.dims()[i] > 1);
            let contiguous = desc.dims()[1] == 1 || desc.strides()[1] == 1;
            contiguous && desc.dims()[1] % vec == 0 && others.map(|i| desc.strides()[i]).all(|stride| stride % vec == 0)
        };
        let by_columns = |desc: &&TensorDesc| {
            let last = desc.rank() - 1;
            desc.dims()[last] == 1 || desc.strides()[last] == 1
        };
        if tensors.iter().all(by_channels) {
            Ok(ChannelLayout { vec })
        } else if tensors.iter().all(by_columns) {
            Ok(ChannelLayout { vec: 1 })
        } else {
            let list: Vec<String> = tensors.iter().map(ToString::to_string).collect();
            Err(Refusal::new(format!(
                "takes channels that lie together, in multiples of {vec} and all else at multiples of {vec}, or columns \
                 that do, given {}",
                list.join(" and ")
            )))
        }
    }

    /// What addresses must be multiples of.
    pub(crate) fn align(self) -> u64 {
        if self.vec > 1 { ACCESS_BYTES } else { 1 }
    }

    /// A tensor at address 0.
    pub(crate) fn tensor(self, desc: &TensorDesc) -> ChannelTensor {
        let mut strides = [0; 5];
        let absent = 5 - desc.rank();
        (strides[0], strides[1]) = (desc.strides()[0], desc.strides()[1] * self.vec);
        if self.vec > 1 {
            // Also where there is but one vector.
            strides[1] = self.vec;
        }
        strides[2 + absent..].copy_from_slice(&desc.strides()[2..]);
        ChannelTensor { address: 0, strides }
    }
}
