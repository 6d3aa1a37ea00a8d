//! Epilogues within the kernels of products.

use super::Epilogue;
use crate::DType;
use crate::ops::activation::ActivationMode;
use crate::plan::Call;
use crate::select::Refusal;
use crate::{BadDescriptor, Error};
use kernel_abi::epilogue::FusedEpilogueParam;

/// What the address of a residual is a multiple of, since pairs of elements are read.
pub(crate) const RESIDUAL_ALIGN: u64 = 4;

/// Bias, residual and activation for kernels with outputs of a 16-bit type. Addresses are for the time being the numbers of
/// operands.
pub(crate) fn fused(epilogue: &Epilogue, dtype: DType) -> Result<FusedEpilogueParam, Refusal> {
    if epilogue.has_sums() {
        return Err(Refusal::new("gives no channel sums, the problem has sum and sum_squares"));
    }
    let (mode, coefficient) = epilogue.mode();
    let bias = epilogue.bias_desc();
    Ok(FusedEpilogueParam {
        bias: epilogue.bias_operand().unwrap_or(0) as u64,
        bias_stride: bias.map_or(0, |bias| bias.strides()[0]),
        z: epilogue.residual_operand().unwrap_or(0) as u64,
        follows: 1,
        mode: mode as u32,
        bias_is_wide: bias.map_or(0, |bias| u32::from(bias.dtype() != dtype)),
        coefficient: if mode == ActivationMode::Sigmoid { 1.0 } else { coefficient as f32 },
        low: if mode == ActivationMode::Identity { f32::NEG_INFINITY } else { 0.0 },
        high: if mode == ActivationMode::ClippedRelu { coefficient as f32 } else { f32::INFINITY },
    })
}

/// Puts addresses where the numbers of operands were.
///
/// # Errors
/// `BadDescriptor` for a residual at an address that is no multiple of 4.
pub(crate) fn bind_fused(param: &mut FusedEpilogueParam, op: &'static str, call: &Call<'_>) -> Result<(), Error> {
    super::bind(&mut param.bias, call);
    super::bind(&mut param.z, call);
    if !param.z.is_multiple_of(RESIDUAL_ALIGN) {
        let reason = format!(
            "expected an address that is a multiple of {RESIDUAL_ALIGN} (separate_epilogue takes any), given {:#x}",
            param.z
        );
        return Err(BadDescriptor::new(op, "z", reason).into());
    }
    Ok(())
}
