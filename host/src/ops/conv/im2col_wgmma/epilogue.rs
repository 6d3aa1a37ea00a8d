//! Epilogues as the kernels for `fprop` take them.

use super::tensors::Positions;
use crate::Problem;
use crate::epilogue::fused;
use crate::ops::conv::ConvProblem;
use crate::select::Refusal;
use kernel_abi::epilogue::FusedEpilogueParam;

/// An epilogue but for addresses.
#[derive(Clone, Copy, Debug)]
pub(in crate::ops::conv) struct Fused {
    pub(super) param: FusedEpilogueParam,
    pub(super) z_image_stride: i64,
    pub(super) z_strides: [i64; 3],
}

impl Fused {
    /// The epilogue of a problem, if it has one, or why the kernels do not compute it.
    pub(super) fn of(problem: &ConvProblem) -> Result<Option<Self>, Refusal> {
        let Some(epilogue) = problem.epilogue() else { return Ok(None) };
        let mut of_all = Fused { param: fused(epilogue, problem.y().dtype())?, z_image_stride: 0, z_strides: [0; 3] };
        if let Some(z) = epilogue.residual_desc() {
            let channels = z.dims()[1];
            if (z.strides()[1] != 1 && channels > 1) || channels % 2 != 0 {
                let reason =
                    format!("reads pairs of channels of z, given {channels} of them with strides {:?}", z.strides());
                return Err(Refusal::new(reason));
            }
            let positions = Positions::anyhow(z);
            let odd = positions.strides.into_iter().chain([positions.image_stride]).find(|stride| stride % 2 != 0);
            if let Some(odd) = odd {
                return Err(Refusal::new(format!("needs z with even strides between positions, one is {odd}")));
            }
            (of_all.z_image_stride, of_all.z_strides) = (positions.image_stride, positions.strides);
        }
        Ok(Some(of_all))
    }
}
