//! How exactly operands are multiplied.

/// What a product of `f32` operands may be computed with.
///
/// A permission and not a command: an algorithm that is more exact may always be chosen, and some problems have no
/// other. Each value permits what those before it do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Math {
    /// Every bit of the operands counts.
    #[default]
    Full,
    /// Convolutions may be computed by minimal filtering in tiles of 4 × 4 results, F(4 × 4, 3 × 3), whose errors are a few
    /// times those of sums of products.
    Winograd4x4,
    /// Tensor cores may read `f32` operands as tf32: 8 exponent bits, and the first 10 of 23 mantissa bits.
    Tf32,
}

crate::text_enum!(Math { Full = "full", Winograd4x4 = "winograd4x4", Tf32 = "tf32" });

#[cfg(not(target_arch = "nvptx64"))]
impl Math {
    /// Refuses all but `full` for operands of another type than `f32`.
    ///
    /// # Errors
    /// `BadDescriptor` naming the type.
    pub fn check(self, op: &'static str, operand: &crate::TensorDesc) -> Result<(), crate::BadDescriptor> {
        if self != Math::Full && operand.dtype() != crate::DType::F32 {
            let reason = format!("expected math={self} with f32 operands only, given {}", operand.dtype());
            return Err(crate::BadDescriptor::new(op, "math", reason));
        }
        Ok(())
    }
}
