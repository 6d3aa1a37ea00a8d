//! How exactly operands are multiplied.

/// What a product of `f32` operands may be computed with.
///
/// A permission, no order: an algorithm that is more exact may always be chosen, and some problems have no other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Math {
    /// Every bit of the operands counts.
    #[default]
    Full,
    /// Tensor cores may read `f32` operands as tf32: 8 exponent bits, and the first 10 of 23 mantissa bits.
    Tf32,
}

crate::text_enum!(Math { Full = "full", Tf32 = "tf32" });

#[cfg(not(target_arch = "nvptx64"))]
impl Math {
    /// Refuses `tf32` for operands of another type than `f32`.
    ///
    /// # Errors
    /// `BadDescriptor` naming the type.
    pub fn check(self, op: &'static str, operand: &crate::TensorDesc) -> Result<(), crate::BadDescriptor> {
        if self == Math::Tf32 && operand.dtype() != crate::DType::F32 {
            let reason = format!("expected math=tf32 with f32 operands only, given {}", operand.dtype());
            return Err(crate::BadDescriptor::new(op, "math", reason));
        }
        Ok(())
    }
}
