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
    /// Integers from -128 to 127. Conversions round to nearest, ties to even, and saturate; NaN becomes 0.
    I8 = 4,
    /// 32-bit integers, converted like [`DType::I8`].
    I32 = 5,
    /// 4 exponent bits, 3 stored mantissa bits, up to 448, no infinities. Conversions saturate: [`crate::fp8`].
    F8E4M3 = 6,
    /// 5 exponent bits, 2 stored mantissa bits, up to 57344. Conversions saturate: [`crate::fp8`].
    F8E5M2 = 7,
    /// Integers from 0 to 255, converted like [`DType::I8`].
    U8 = 8,
    /// 64-bit integers, converted like [`DType::I8`].
    I64 = 9,
    /// A byte that is 0 or 1. Every number but 0 becomes 1, NaN too.
    Bool = 10,
}

impl DType {
    /// Every element type.
    pub const ALL: [DType; 11] = [
        DType::F32,
        DType::F64,
        DType::F16,
        DType::BF16,
        DType::I8,
        DType::I32,
        DType::F8E4M3,
        DType::F8E5M2,
        DType::U8,
        DType::I64,
        DType::Bool,
    ];

    /// The element types that every operator takes; the others are for products, masks, indices and what moves data.
    pub const GENERAL: [DType; 4] = [DType::F32, DType::F64, DType::F16, DType::BF16];

    /// Whether every operator takes it: whether it is one of [`DType::GENERAL`].
    pub const fn is_general(self) -> bool {
        matches!(self, DType::F32 | DType::F64 | DType::F16 | DType::BF16)
    }

    /// Whether it is a floating-point type of 8 bits.
    pub const fn is_fp8(self) -> bool {
        matches!(self, DType::F8E4M3 | DType::F8E5M2)
    }

    /// Whether it stores integers.
    pub const fn is_integer(self) -> bool {
        matches!(self, DType::I8 | DType::I32 | DType::U8 | DType::I64)
    }

    /// Size of one element.
    pub const fn size_bytes(self) -> usize {
        match self {
            DType::F64 | DType::I64 => 8,
            DType::F32 | DType::I32 => 4,
            DType::F16 | DType::BF16 => 2,
            DType::I8 | DType::F8E4M3 | DType::F8E5M2 | DType::U8 | DType::Bool => 1,
        }
    }

    /// The type sums of products are kept in: `f64` for `f64`, `i32` for integers, `f32` for everything else.
    pub const fn accumulator(self) -> DType {
        match self {
            DType::F64 => DType::F64,
            DType::I8 | DType::I32 | DType::U8 | DType::I64 => DType::I32,
            DType::F32 | DType::F16 | DType::BF16 | DType::F8E4M3 | DType::F8E5M2 | DType::Bool => DType::F32,
        }
    }

    /// The type that arithmetic between these types is done in, but for sums of products: `f64` where one of them is `f64`
    /// or an integer, which it holds up to 2⁵³, else `f32`.
    pub fn computing(dtypes: impl IntoIterator<Item = DType>) -> DType {
        let is_wide = |dtype: DType| dtype == DType::F64 || dtype.is_integer();
        if dtypes.into_iter().any(is_wide) { DType::F64 } else { DType::F32 }
    }

    /// The same for operators that compute exactly with integers: `i64`, which wraps, where all are integers or truth
    /// values and one is an integer.
    pub fn computing_exactly(dtypes: impl IntoIterator<Item = DType> + Clone) -> DType {
        let all = || dtypes.clone().into_iter();
        let exact = all().all(|dtype| dtype.is_integer() || dtype == DType::Bool) && all().any(DType::is_integer);
        if exact { DType::I64 } else { DType::computing(all()) }
    }

    /// Relative distance between 1 and the next larger number; 0 for integers, whose distance is never less than 1.
    pub const fn epsilon(self) -> f64 {
        match self {
            DType::F64 => f64::EPSILON,
            DType::F32 => f32::EPSILON as f64,
            DType::F16 => 1.0 / 1024.0,
            DType::BF16 => 1.0 / 128.0,
            DType::F8E4M3 => 1.0 / 8.0,
            DType::F8E5M2 => 1.0 / 4.0,
            DType::I8 | DType::I32 | DType::U8 | DType::I64 | DType::Bool => 0.0,
        }
    }

    /// The largest n such that every integer of magnitude at most n is stored exactly.
    pub const fn max_exact_integer(self) -> u64 {
        match self {
            DType::F64 => 1 << 53,
            DType::F32 => 1 << 24,
            DType::F16 => 1 << 11,
            DType::BF16 => 1 << 8,
            DType::F8E4M3 => 1 << 4,
            DType::F8E5M2 => 1 << 3,
            DType::I8 => i8::MAX as u64,
            DType::I32 => i32::MAX as u64,
            DType::U8 => u8::MAX as u64,
            DType::I64 => i64::MAX as u64,
            DType::Bool => 1,
        }
    }

    /// The name used in problem texts and kernel symbols.
    pub const fn name(self) -> &'static str {
        match self {
            DType::F32 => "f32",
            DType::F64 => "f64",
            DType::F16 => "f16",
            DType::BF16 => "bf16",
            DType::I8 => "i8",
            DType::I32 => "i32",
            DType::F8E4M3 => "f8e4m3",
            DType::F8E5M2 => "f8e5m2",
            DType::U8 => "u8",
            DType::I64 => "i64",
            DType::Bool => "bool",
        }
    }
}

impl core::fmt::Display for DType {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.name())
    }
}

/// Maps the type words of the kernel lists (`f32`, `bf16`, `f8e4m3`, …) to a [`DType`].
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
    (i8) => {
        $crate::DType::I8
    };
    (i32) => {
        $crate::DType::I32
    };
    (f8e4m3) => {
        $crate::DType::F8E4M3
    };
    (f8e5m2) => {
        $crate::DType::F8E5M2
    };
    (u8) => {
        $crate::DType::U8
    };
    (i64) => {
        $crate::DType::I64
    };
    (bool) => {
        $crate::DType::Bool
    };
}

#[cfg(not(target_arch = "nvptx64"))]
impl std::str::FromStr for DType {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        DType::ALL.into_iter().find(|dtype| dtype.name() == text).ok_or_else(|| {
            let names = DType::ALL.map(DType::name);
            format!("expected one of {}, given {text:?}", names.join(", "))
        })
    }
}
