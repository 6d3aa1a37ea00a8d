//! Tensor maps: what `cuTensorMapEncodeTiled` and `cuTensorMapEncodeIm2col` accept, and the 128 bytes they make.
//!
//! The layout of the bytes is this library's own, as the hardware's is no program's business:
//!
//! | word of 64 bits | holds |
//! |---|---|
//! | 0 | a mark |
//! | 1 | bits 0–2 rank, 3–6 element type, 7–8 swizzle, 9 fill, 10 im2col; bit 21 stays 0, since programs clear it to mend maps of older drivers |
//! | 2 | address |
//! | 3–5 | extents less one, 32 bits each |
//! | 6–9 | strides in bytes of all dimensions but the first |
//! | 10, 11 | extents of the box, 16 bits each, four and one; steps from bit 16 of word 11 on, 8 bits each |
//! | 12, 13 | lower and upper corner, 16 bits each |
//! | 14 | channels, pixels, 16 bits each |
//! | 15 | a checksum, so that other bytes are not taken for a map |

/// Dimensions at most.
pub const MAX_RANK: usize = 5;

/// `CUtensorMapDataType`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum ElementType {
    U8 = 0,
    U16 = 1,
    U32 = 2,
    S32 = 3,
    U64 = 4,
    S64 = 5,
    F16 = 6,
    F32 = 7,
    F64 = 8,
    Bf16 = 9,
    /// f32 whose subnormal numbers become zero on the way.
    F32Ftz = 10,
    /// f32 that is rounded to tf32 on the way.
    Tf32 = 11,
    Tf32Ftz = 12,
}

impl ElementType {
    const ALL: [ElementType; 13] = [
        ElementType::U8,
        ElementType::U16,
        ElementType::U32,
        ElementType::S32,
        ElementType::U64,
        ElementType::S64,
        ElementType::F16,
        ElementType::F32,
        ElementType::F64,
        ElementType::Bf16,
        ElementType::F32Ftz,
        ElementType::Tf32,
        ElementType::Tf32Ftz,
    ];

    /// Bytes of an element.
    pub fn bytes(self) -> u32 {
        match self {
            ElementType::U8 => 1,
            ElementType::U16 | ElementType::F16 | ElementType::Bf16 => 2,
            ElementType::U64 | ElementType::S64 | ElementType::F64 => 8,
            _ => 4,
        }
    }

    fn is_float(self) -> bool {
        self as u32 >= ElementType::F16 as u32
    }
}

/// `CUtensorMapSwizzle`: how chunks of 16 bytes are permuted in shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Swizzle {
    /// Not at all.
    None = 0,
    /// Within 32 bytes.
    B32 = 1,
    /// Within 64 bytes.
    B64 = 2,
    /// Within 128 bytes.
    B128 = 3,
}

impl Swizzle {
    const ALL: [Swizzle; 4] = [Swizzle::None, Swizzle::B32, Swizzle::B64, Swizzle::B128];

    /// Bytes of a row of the pattern, if there is one.
    pub fn span(self) -> Option<u32> {
        (self != Swizzle::None).then(|| 16 << self as u32)
    }

    /// Where the byte that belongs to a shared-memory address lies. The pattern is fixed to addresses, not to tiles.
    pub fn apply(self, address: u32) -> u32 {
        let mask = (1 << self as u32) - 1;
        address ^ (address >> 7 & mask) << 4
    }
}

/// How elements are visited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Boxes of these extents.
    Tiled([u32; MAX_RANK]),
    /// Runs of pixels, spatial dimensions fastest first.
    Im2col {
        /// Where the first filter base lies.
        lower: [i32; 3],
        /// Where the last lies, counted from the far end.
        upper: [i32; 3],
        /// Channels of a copy.
        channels: u32,
        /// Pixels of a copy.
        pixels: u32,
    },
}

/// A tensor and how it is copied, dimensions fastest first. Dimensions beyond the rank have extent 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TensorMap {
    /// Element type.
    pub element: ElementType,
    /// Dimensions, 1 to 5.
    pub rank: usize,
    /// Address of the first element.
    pub address: u64,
    /// Extents.
    pub dims: [u64; MAX_RANK],
    /// Distances in bytes between neighbours; of the first dimension the element's size.
    pub strides: [u64; MAX_RANK],
    /// Steps between elements that are visited.
    pub steps: [u32; MAX_RANK],
    /// Permutation in shared memory.
    pub swizzle: Swizzle,
    /// Whether elements outside of the tensor are NaN, else zero.
    pub fills_nan: bool,
    /// Boxes or pixels.
    pub access: Access,
}

/// Why a map is not made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// `CUDA_ERROR_INVALID_VALUE`: a documented rule is broken.
    Invalid(String),
    /// `CUDA_ERROR_NOT_SUPPORTED`: a real driver may accept it, this one does not.
    Unsupported(String),
}

fn invalid<T>(reason: String) -> Result<T, Refusal> {
    Err(Refusal::Invalid(reason))
}

/// Arguments that both functions have, as the driver gets them.
#[derive(Clone, Copy, Debug)]
pub struct Arguments<'a> {
    /// `tensorDataType`.
    pub data_type: u32,
    /// `globalAddress`.
    pub address: u64,
    /// `globalDim`, `tensorRank` of them.
    pub dims: &'a [u64],
    /// `globalStrides`, one less.
    pub strides: &'a [u64],
    /// `elementStrides`, `tensorRank` of them.
    pub steps: &'a [u32],
    /// `interleave`.
    pub interleave: u32,
    /// `swizzle`.
    pub swizzle: u32,
    /// `l2Promotion`.
    pub l2_promotion: u32,
    /// `oobFill`.
    pub fill: u32,
}

impl Arguments<'_> {
    /// Checks all that is common; the access is the caller's.
    fn check(&self, ranks: std::ops::RangeInclusive<usize>) -> Result<TensorMap, Refusal> {
        let rank = self.dims.len();
        if !ranks.contains(&rank) || self.strides.len() + 1 != rank || self.steps.len() != rank {
            let given = (rank, self.strides.len(), self.steps.len());
            return invalid(format!("the rank is in {ranks:?}, given (dims, strides, steps) {given:?}"));
        }
        let element = match ElementType::ALL.get(self.data_type as usize) {
            Some(&element) => element,
            None if self.data_type < 16 => {
                return Err(Refusal::Unsupported(format!("element type {} is of a later GPU", self.data_type)));
            }
            None => return invalid(format!("there is no element type {}", self.data_type)),
        };
        let swizzle = match Swizzle::ALL.get(self.swizzle as usize) {
            Some(&swizzle) => swizzle,
            None if self.swizzle < 7 => {
                return Err(Refusal::Unsupported(format!("swizzle {} is of a later GPU", self.swizzle)));
            }
            None => return invalid(format!("there is no swizzle {}", self.swizzle)),
        };
        if self.interleave > 2 || self.l2_promotion > 3 || self.fill > 1 {
            let given = (self.interleave, self.l2_promotion, self.fill);
            return invalid(format!("no such (interleave, L2 promotion, fill): {given:?}"));
        }
        if self.interleave != 0 {
            return Err(Refusal::Unsupported(format!("interleave {}", self.interleave)));
        }
        if self.fill == 1 && !element.is_float() {
            return invalid(format!("{element:?} has no NaN to fill with"));
        }
        if self.address == 0 || !self.address.is_multiple_of(16) {
            return invalid(format!("the address is a multiple of 16 and not null, given {:#x}", self.address));
        }
        if let Some(dim) = self.dims.iter().find(|&&dim| dim == 0 || dim > 1 << 32) {
            return invalid(format!("extents lie in 1..=2^32, given {dim}"));
        }
        if let Some(stride) = self.strides.iter().find(|&&stride| stride % 16 != 0 || stride >= 1 << 40) {
            return invalid(format!("strides are multiples of 16 below 2^40 bytes, given {stride}"));
        }
        if self.steps.iter().any(|&step| step == 0 || step > 8) {
            return invalid(format!("element strides lie in 1..=8, given {:?}", self.steps));
        }
        let padded = |values: &[u64], with: u64| std::array::from_fn(|i| values.get(i).copied().unwrap_or(with));
        let mut strides = [u64::from(element.bytes()); MAX_RANK];
        strides[1..rank].copy_from_slice(self.strides);
        strides[rank..].fill(0);
        let mut steps = [1; MAX_RANK];
        // Without interleaving the first dimension has no step.
        steps[1..rank].copy_from_slice(&self.steps[1..]);
        Ok(TensorMap {
            element,
            rank,
            address: self.address,
            dims: padded(self.dims, 1),
            strides,
            steps,
            swizzle,
            fills_nan: self.fill == 1,
            access: Access::Tiled([1; MAX_RANK]),
        })
    }
}

/// The bytes of a row in shared memory, which the copy engine moves by 16.
fn check_row(count: u32, map: &TensorMap) -> Result<(), Refusal> {
    let bytes = count * map.element.bytes();
    if !bytes.is_multiple_of(16) {
        return invalid(format!("a row of the box is a multiple of 16 bytes, given {bytes}"));
    }
    match map.swizzle.span() {
        Some(span) if bytes > span => invalid(format!("a row of the box has up to {span} bytes, given {bytes}")),
        _ => Ok(()),
    }
}

/// `cuTensorMapEncodeTiled`.
///
/// # Errors
/// Where the documentation forbids the arguments, or interleaved layouts are asked for.
pub fn encode_tiled(arguments: &Arguments<'_>, box_dims: &[u32]) -> Result<[u64; 16], Refusal> {
    let mut map = arguments.check(1..=MAX_RANK)?;
    if box_dims.len() != map.rank || box_dims.iter().any(|dim| !(1..=256).contains(dim)) {
        return invalid(format!("{} extents of the box lie in 1..=256, given {box_dims:?}", map.rank));
    }
    check_row(box_dims[0], &map)?;
    map.access = Access::Tiled(std::array::from_fn(|i| box_dims.get(i).copied().unwrap_or(1)));
    Ok(map.encode())
}

/// `cuTensorMapEncodeIm2col`.
///
/// # Errors
/// As [`encode_tiled`].
pub fn encode_im2col(
    arguments: &Arguments<'_>,
    lower: &[i32],
    upper: &[i32],
    channels: u32,
    pixels: u32,
) -> Result<[u64; 16], Refusal> {
    let mut map = arguments.check(3..=MAX_RANK)?;
    let spatial = map.rank - 2;
    if lower.len() != spatial || upper.len() != spatial {
        return invalid(format!("corners have {spatial} entries, given {} and {}", lower.len(), upper.len()));
    }
    // What the fields of the instruction and the map hold.
    let bits = [15, 7, 4][spatial - 1];
    let limits = -(1 << bits)..1 << bits;
    if let Some(corner) = lower.iter().chain(upper).find(|corner| !limits.contains(*corner)) {
        return invalid(format!("corners lie in {limits:?}, given {corner}"));
    }
    for i in 0..spatial {
        let last = map.dims[1 + i] as i64 - 1 + i64::from(upper[i]);
        if last < i64::from(lower[i]) {
            return invalid(format!("the pixel box is empty: from {} to {last} in dimension {}", lower[i], 1 + i));
        }
    }
    if !(1..=256).contains(&channels) || !(1..=1024).contains(&pixels) {
        return invalid(format!("1 to 256 channels and 1 to 1024 pixels, given {channels} and {pixels}"));
    }
    check_row(channels, &map)?;
    let three = |corner: &[i32]| std::array::from_fn(|i| corner.get(i).copied().unwrap_or(0));
    map.access = Access::Im2col { lower: three(lower), upper: three(upper), channels, pixels };
    Ok(map.encode())
}

const MARK: u64 = u64::from_le_bytes(*b"oxiDnn\x90m");

/// Packs 16-bit fields.
fn fields(values: [u32; 4]) -> u64 {
    values.iter().rev().fold(0, |word, &value| word << 16 | u64::from(value & 0xffff))
}

fn field(word: u64, i: usize) -> u32 {
    (word >> (16 * i)) as u32 & 0xffff
}

fn checksum(words: &[u64]) -> u64 {
    words.iter().fold(MARK, |sum, &word| (sum ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29))
}

impl TensorMap {
    /// The 128 bytes, as words.
    pub fn encode(&self) -> [u64; 16] {
        let mut words = [0; 16];
        words[0] = MARK;
        words[1] = self.rank as u64
            | (self.element as u64) << 3
            | (self.swizzle as u64) << 7
            | u64::from(self.fills_nan) << 9
            | u64::from(matches!(self.access, Access::Im2col { .. })) << 10;
        words[2] = self.address;
        for (i, dim) in self.dims.into_iter().enumerate() {
            words[3 + i / 2] |= (dim - 1) << (32 * (i % 2));
        }
        words[6..10].copy_from_slice(&self.strides[1..]);
        words[11] = self.steps.iter().rev().fold(0, |word, &step| word << 8 | u64::from(step)) << 16;
        match self.access {
            Access::Tiled([d0, d1, d2, d3, d4]) => {
                words[10] = fields([d0, d1, d2, d3]);
                words[11] |= u64::from(d4);
            }
            Access::Im2col { lower, upper, channels, pixels } => {
                let corner = |[w, h, d]: [i32; 3]| fields([w as u32, h as u32, d as u32, 0]);
                (words[12], words[13]) = (corner(lower), corner(upper));
                words[14] = fields([channels, pixels, 0, 0]);
            }
        }
        words[15] = checksum(&words[..15]);
        words
    }

    /// Reads a map.
    ///
    /// # Errors
    /// When the bytes are no map.
    pub fn decode(bytes: &[u8; 128]) -> Result<TensorMap, String> {
        let mut words = [0; 16];
        for (word, bytes) in words.iter_mut().zip(bytes.as_chunks().0) {
            *word = u64::from_le_bytes(*bytes);
        }
        if words[0] != MARK || words[15] != checksum(&words[..15]) {
            return Err(format!("no tensor map: the first words are {:#018x} {:#018x}", words[0], words[1]));
        }
        let rank = words[1] as usize & 7;
        let element = ElementType::ALL[(words[1] >> 3) as usize & 15];
        let corner = |word| std::array::from_fn(|i| i32::from(field(word, i) as i16));
        let access = if words[1] >> 10 & 1 == 1 {
            Access::Im2col {
                lower: corner(words[12]),
                upper: corner(words[13]),
                channels: field(words[14], 0),
                pixels: field(words[14], 1),
            }
        } else {
            Access::Tiled(std::array::from_fn(|i| field(words[10 + i / 4], i % 4)))
        };
        let mut strides = [u64::from(element.bytes()); MAX_RANK];
        strides[1..].copy_from_slice(&words[6..10]);
        Ok(TensorMap {
            element,
            rank,
            address: words[2],
            dims: std::array::from_fn(|i| (words[3 + i / 2] >> (32 * (i % 2)) & 0xffff_ffff) + 1),
            strides,
            steps: std::array::from_fn(|i| (words[11] >> (16 + 8 * i)) as u32 & 0xff),
            swizzle: Swizzle::ALL[(words[1] >> 7) as usize & 3],
            fills_nan: words[1] >> 9 & 1 == 1,
            access,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments<'a>(dims: &'a [u64], strides: &'a [u64], steps: &'a [u32]) -> Arguments<'a> {
        Arguments {
            data_type: 9,
            address: 0x7f12_3456_7890,
            dims,
            strides,
            steps,
            interleave: 0,
            swizzle: 3,
            l2_promotion: 3,
            fill: 0,
        }
    }

    fn decode(words: [u64; 16]) -> TensorMap {
        let mut bytes = [0; 128];
        for (chunk, word) in bytes.chunks_mut(8).zip(words) {
            chunk.copy_from_slice(&word.to_le_bytes());
        }
        TensorMap::decode(&bytes).unwrap()
    }

    #[test]
    fn tiled_maps_come_back() {
        let given = arguments(&[1 << 32, 7, 1, 9, 11], &[1 << 33, 48, 0, 16], &[3, 2, 1, 8, 1]);
        let map = decode(encode_tiled(&given, &[64, 256, 1, 4, 5]).unwrap());
        assert_eq!((map.element, map.rank, map.address), (ElementType::Bf16, 5, 0x7f12_3456_7890));
        assert_eq!((map.dims, map.strides), ([1 << 32, 7, 1, 9, 11], [2, 1 << 33, 48, 0, 16]));
        assert_eq!((map.steps, map.swizzle, map.fills_nan), ([1, 2, 1, 8, 1], Swizzle::B128, false));
        assert_eq!(map.access, Access::Tiled([64, 256, 1, 4, 5]));
        let map = decode(encode_tiled(&arguments(&[40], &[], &[1]), &[8]).unwrap());
        assert_eq!(
            (map.dims, map.strides, map.access),
            ([40, 1, 1, 1, 1], [2, 0, 0, 0, 0], Access::Tiled([8, 1, 1, 1, 1]))
        );
    }

    #[test]
    fn im2col_maps_come_back() {
        let given = arguments(&[64, 7, 9, 3], &[128, 896, 8064], &[1, 2, 2, 1]);
        let words = encode_im2col(&given, &[-128, -3], &[127, -4], 64, 1024).unwrap();
        let map = decode(words);
        let (lower, upper) = ([-128, -3, 0], [127, -4, 0]);
        assert_eq!(map.access, Access::Im2col { lower, upper, channels: 64, pixels: 1024 });
        assert_eq!(map.steps, [1, 2, 2, 1, 1]);
        // The correction that programs make for older drivers.
        assert_eq!(words[1] & 1 << 21, 0);
    }

    #[test]
    fn other_bytes_are_no_map() {
        assert!(TensorMap::decode(&[0; 128]).is_err());
        let mut words = encode_tiled(&arguments(&[40], &[], &[1]), &[8]).unwrap();
        words[6] ^= 16;
        let mut bytes = [0; 128];
        for (chunk, word) in bytes.chunks_mut(8).zip(words) {
            chunk.copy_from_slice(&word.to_le_bytes());
        }
        assert!(TensorMap::decode(&bytes).is_err());
    }

    #[test]
    fn rules_are_checked() {
        let (dims, strides, steps) = ([64, 8], [128], [1, 1]);
        let good = arguments(&dims, &strides, &steps);
        let reason = |arguments: Arguments<'_>, box_dims: &[u32]| match encode_tiled(&arguments, box_dims) {
            Err(Refusal::Invalid(reason)) => reason,
            other => panic!("{other:?}"),
        };
        assert!(encode_tiled(&good, &[64, 8]).is_ok());
        assert!(reason(Arguments { address: 8, ..good }, &[64, 8]).contains("multiple of 16"));
        assert!(reason(Arguments { strides: &[120], ..good }, &[64, 8]).contains("given 120"));
        assert!(reason(Arguments { dims: &[64, 0], ..good }, &[64, 8]).contains("given 0"));
        assert!(reason(Arguments { steps: &[1, 9], ..good }, &[64, 8]).contains("[1, 9]"));
        assert!(reason(Arguments { data_type: 16, ..good }, &[64, 8]).contains("16"));
        assert!(reason(Arguments { data_type: 1, fill: 1, ..good }, &[64, 8]).contains("NaN"));
        assert!(reason(good, &[72, 8]).contains("up to 128 bytes, given 144"));
        assert!(reason(good, &[4, 8]).contains("multiple of 16 bytes, given 8"));
        assert!(reason(good, &[64, 257]).contains("257"));
        assert!(reason(good, &[64]).contains("2 extents"));
        assert!(matches!(encode_tiled(&Arguments { interleave: 1, ..good }, &[64, 8]), Err(Refusal::Unsupported(_))));
        assert!(matches!(encode_tiled(&Arguments { swizzle: 4, ..good }, &[64, 8]), Err(Refusal::Unsupported(_))));
        let image = arguments(&[64, 7, 9, 3], &[128, 896, 8064], &[1; 4]);
        let reason = |lower: [i32; 2], upper: [i32; 2], channels, pixels| match encode_im2col(
            &image, &lower, &upper, channels, pixels,
        ) {
            Err(Refusal::Invalid(reason)) => reason,
            other => panic!("{other:?}"),
        };
        assert!(reason([-129, 0], [0, 0], 64, 8).contains("-129"));
        assert!(reason([2, 0], [-5, 0], 64, 8).contains("from 2 to 1 in dimension 1"));
        assert!(reason([0, 0], [0, 0], 64, 1025).contains("1025"));
        assert!(reason([0, 0], [0, 0], 72, 8).contains("144"));
    }

    #[test]
    fn patterns_permute_chunks_within_their_span() {
        assert_eq!([0x80, 0x390, 0x3f0, 0x400].map(|a| Swizzle::B128.apply(a)), [0x90, 0x3e0, 0x380, 0x400]);
        assert_eq!([0x80, 0x1b0, 0x200].map(|a| Swizzle::B64.apply(a)), [0x90, 0x180, 0x200]);
        assert_eq!([0x80, 0x100, 0x190].map(|a| Swizzle::B32.apply(a)), [0x90, 0x100, 0x180]);
        assert_eq!((Swizzle::None.apply(0xff0), Swizzle::B32.span()), (0xff0, Some(32)));
    }
}
