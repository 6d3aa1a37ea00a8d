//! Maps of channels-last tensors for methods that have the copy engine bring rows of 128 bytes of channels.

use super::PoolProblem;
use super::planes::Shape;
use crate::driver::{GpuContext, Swizzle, TensorMap, Tiled, TmaType};
use crate::plan::Call;
use crate::select::Refusal;
use crate::{DType, Error, TensorDesc};
use kernel_abi::ops::pool::ROWS_MMA_COLUMN_BYTES;

/// The most that the copy engine counts to along an axis.
const MAX_EXTENT: i64 = 1 << 30;
/// What the copy engine's distances are below, in bytes.
const MAX_STRIDE_BYTES: i64 = 1 << 40;

/// x, dy and dx.
pub(super) struct RowMaps {
    data_type: TmaType,
    tensors: [TensorDesc; 3],
}

impl RowMaps {
    /// Whether the copy engine takes a problem's tensors, of images of one plane.
    pub(super) fn check(problem: &PoolProblem, shape: &Shape<'_>) -> Result<(), Refusal> {
        let planes = shape.axes[0].image;
        if planes > 1 {
            return Err(Refusal::new(format!("takes images of one plane, given {planes}")));
        }
        if shape.dx.dims().iter().any(|&dim| dim > MAX_EXTENT) {
            return Err(Refusal::new(format!("takes extents up to {MAX_EXTENT}, given {}", shape.dx)));
        }
        // Of channels, their places are what matters, and of what there is one of nothing.
        let max_stride = MAX_STRIDE_BYTES / shape.dx.dtype().size_bytes() as i64;
        let far = |desc: &TensorDesc| {
            let axes = (0..desc.rank()).filter(|&axis| axis != 1 && desc.dims()[axis] > 1);
            axes.map(|axis| desc.strides()[axis]).any(|stride| !(1..max_stride).contains(&stride))
        };
        if let Some(desc) = [problem.x(), problem.y(), shape.dx].into_iter().find(|desc| far(desc)) {
            return Err(Refusal::new(format!("takes distances from 1 to below {max_stride} elements, given {desc}")));
        }
        Ok(())
    }

    pub(super) fn new(problem: &PoolProblem) -> Self {
        let dx = problem.dx().unwrap_or(problem.x());
        let data_type = match dx.dtype() {
            DType::F32 => TmaType::F32,
            DType::F16 => TmaType::F16,
            _ => TmaType::BF16,
        };
        RowMaps { data_type, tensors: [problem.x(), problem.y(), dx].map(TensorDesc::clone) }
    }

    /// The map `[C, W, H, N]` of an operand, for so many columns of a row of so many images.
    pub(super) fn of(
        &self,
        context: &GpuContext,
        call: &Call<'_>,
        operand: usize,
        [columns, images]: [u32; 2],
    ) -> Result<[u64; 16], Error> {
        let desc = &self.tensors[operand];
        let (spatial, element_bytes) = (desc.rank() - 2, desc.dtype().size_bytes() as u64);
        // Of one spatial dimension, or several of which the first are 1.
        let axis = |back: usize| {
            if back < spatial { (desc.dims()[1 + spatial - back], desc.strides()[1 + spatial - back]) } else { (1, 0) }
        };
        let dims = [desc.dims()[1], axis(0).0, axis(1).0, desc.dims()[0]].map(|dim| dim as u64);
        let channels_bytes = dims[0] * element_bytes;
        // The distance of what there is one of is of no account, but not of any size.
        let strides = [(axis(0).1, dims[1]), (axis(1).1, dims[2]), (desc.strides()[0], dims[3])]
            .map(|(stride, dim)| if dim > 1 { stride as u64 * element_bytes } else { channels_bytes });
        let tiled = Tiled {
            data_type: self.data_type,
            address: call.address(operand),
            dims: &dims,
            strides_bytes: &strides,
            box_dims: &[ROWS_MMA_COLUMN_BYTES / element_bytes as u32, columns, 1, images],
            element_strides: &[],
            swizzle: Swizzle::B128,
        };
        Ok(TensorMap::tiled(context, &tiled)?.words())
    }
}
