//! Element types.

/// The type in which a tensor's elements are stored.
///
/// Sums are kept in [`DType::accumulator`], whatever the storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u32)]
pub enum DType {
    /// IEEE binary32.
    F32 = 0,
    /// IEEE binary64.
    F64 = 1,
    /// IEEE binary16.
    F16 = 2,
    /// The upper half of binary32: 8 exponent bits, 7 stored mantissa bits.
    BF16 = 3,
}

impl DType {
    /// Every element type.
    pub const ALL: [DType; 4] = [DType::F32, DType::F64, DType::F16, DType::BF16];

    /// Size of one element.
    pub const fn size_bytes(self) -> usize {
        match self {
            DType::F64 => 8,
            DType::F32 => 4,
            DType::F16 | DType::BF16 => 2,
        }
    }

    /// The type sums are kept in: `f64` for `f64`, `f32` for everything else.
    pub const fn accumulator(self) -> DType {
        match self {
            DType::F64 => DType::F64,
            DType::F32 | DType::F16 | DType::BF16 => DType::F32,
        }
    }

    /// Relative distance between 1 and the next larger number.
    pub const fn epsilon(self) -> f64 {
        match self {
            DType::F64 => f64::EPSILON,
            DType::F32 => f32::EPSILON as f64,
            DType::F16 => 1.0 / 1024.0,
            DType::BF16 => 1.0 / 128.0,
        }
    }

    /// The largest n such that every integer of magnitude at most n is stored exactly.
    pub const fn max_exact_integer(self) -> u64 {
        match self {
            DType::F64 => 1 << 53,
            DType::F32 => 1 << 24,
            DType::F16 => 1 << 11,
            DType::BF16 => 1 << 8,
        }
    }

    /// The name used in problem texts and kernel symbols.
    pub const fn name(self) -> &'static str {
        match self {
            DType::F32 => "f32",
            DType::F64 => "f64",
            DType::F16 => "f16",
            DType::BF16 => "bf16",
        }
    }
}

impl core::fmt::Display for DType {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.name())
    }
}

/// Maps the type words of the kernel lists (`f32`, `f64`, `f16`, `bf16`) to a [`DType`].
#[macro_export]
macro_rules! dtype_of {
    (f32) => {
        $crate::DType::F32
    };
    (f64) => {
        $crate::DType::F64
    };
    (f16) => {
        $crate::DType::F16
    };
    (bf16) => {
        $crate::DType::BF16
    };
}

#[cfg(not(target_arch = "nvptx64"))]
impl std::str::FromStr for DType {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        DType::ALL
            .into_iter()
            .find(|dtype| dtype.name() == text)
            .ok_or_else(|| format!("expected f32, f64, f16 or bf16, given {text:?}"))
    }
}
