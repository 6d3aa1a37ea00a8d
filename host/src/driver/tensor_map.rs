//! Descriptors for the TMA unit (Hopper's bulk tensor copies).

use super::GpuContext;
use super::error::{DriverError, check};
use cuda_loader::driver::CUtensorMap;

/// `CUtensorMapDataType`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum TmaType {
    /// 8-bit data of any kind, fp8 included.
    U8 = 0,
    /// f16.
    F16 = 6,
    /// f32.
    F32 = 7,
    /// f64.
    F64 = 8,
    /// bf16.
    BF16 = 9,
    /// f32 rounded to tf32 while it is copied.
    TF32 = 11,
}

impl TmaType {
    /// Size of an element.
    pub fn size_bytes(self) -> u64 {
        match self {
            TmaType::U8 => 1,
            TmaType::F16 | TmaType::BF16 => 2,
            TmaType::F32 | TmaType::TF32 => 4,
            TmaType::F64 => 8,
        }
    }
}

/// `CUtensorMapSwizzle`: how 16-byte chunks of a row are permuted in shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
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
    fn span_bytes(self) -> u64 {
        match self {
            Swizzle::None => u64::MAX,
            Swizzle::B32 => 32,
            Swizzle::B64 => 64,
            Swizzle::B128 => 128,
        }
    }
}

/// A tensor and a box of it, dimensions fastest first.
#[derive(Clone, Copy, Debug)]
pub struct Tiled<'a> {
    /// Element type.
    pub data_type: TmaType,
    /// Address of the first element, a multiple of 16.
    pub address: u64,
    /// Extents; 1 to 5 of them.
    pub dims: &'a [u64],
    /// Byte strides of all dimensions but the first, which is contiguous; multiples of 16.
    pub strides_bytes: &'a [u64],
    /// Extents of the box, at most 256 each; of a dimension with steps, from the first element to the last.
    pub box_dims: &'a [u32],
    /// Steps between elements of each dimension, at most 8; none where all are 1.
    pub element_strides: &'a [u32],
    /// Permutation in shared memory.
    pub swizzle: Swizzle,
}

/// A tensor `[channels, spatial..., images]`, fastest first, for im2col access.
#[derive(Clone, Copy, Debug)]
pub struct Im2col<'a> {
    /// Element type.
    pub data_type: TmaType,
    /// Address of the first element, a multiple of 16.
    pub address: u64,
    /// Extents; 3 to 5 of them.
    pub dims: &'a [u64],
    /// Byte strides of all dimensions but the first; multiples of 16.
    pub strides_bytes: &'a [u64],
    /// Where the first filter base lies, per spatial dimension, fastest first.
    pub lower_corner: &'a [i32],
    /// Where the last filter base lies, counted from the far end.
    pub upper_corner: &'a [i32],
    /// Channels of a load.
    pub channels_per_pixel: u32,
    /// Pixels of a load.
    pub pixels_per_column: u32,
    /// Steps between filter bases, per dimension of the tensor; 1 for channels and images.
    pub element_strides: &'a [u32],
    /// Permutation in shared memory.
    pub swizzle: Swizzle,
}

/// An encoded descriptor, passed to kernels by value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct TensorMap(CUtensorMap);

/// `CU_TENSOR_MAP_L2_PROMOTION_L2_128B`: rows of most boxes are 128 bytes, and where they are asked for as 256, the cache
/// delivers more than is used.
const L2_PROMOTION: u32 = 2;

impl TensorMap {
    /// Encodes a tiled descriptor. Out-of-bounds elements read as zero and are not written.
    ///
    /// # Errors
    /// When a documented limit is broken, naming it with both numbers; from the driver.
    pub fn tiled(context: &GpuContext, tiled: &Tiled<'_>) -> Result<Self, DriverError> {
        let rank = tiled.dims.len();
        check_tensor(1..=5, tiled.data_type, tiled.address, tiled.dims, tiled.strides_bytes)?;
        if tiled.box_dims.len() != rank || tiled.box_dims.iter().any(|&dim| dim == 0 || dim > 256) {
            return Err(invalid(format!("expected {rank} box extents in 1..=256, given {:?}", tiled.box_dims)));
        }
        let row_bytes = u64::from(tiled.box_dims[0]) * tiled.data_type.size_bytes();
        if !row_bytes.is_multiple_of(16) || row_bytes > tiled.swizzle.span_bytes() {
            let reason = format!("expected box rows of a multiple of 16 bytes within the swizzle, given {row_bytes}");
            return Err(invalid(reason));
        }
        let mut steps = [1u32; 5];
        if !tiled.element_strides.is_empty() {
            let given = tiled.element_strides;
            if given.len() != rank || given.iter().any(|&step| step == 0 || step > 8) {
                return Err(invalid(format!("expected {rank} element strides in 1..=8, given {given:?}")));
            }
            steps[..rank].copy_from_slice(given);
        }
        let mut map = CUtensorMap([0; 16]);
        let _bound = context.bind()?;
        // SAFETY: every array has as many entries as the rank asks for; the map is aligned by its type.
        let status = unsafe {
            cuda_loader::driver::tensor_map_encode_tiled(
                &mut map,
                tiled.data_type as u32,
                rank as u32,
                tiled.address,
                tiled.dims.as_ptr(),
                tiled.strides_bytes.as_ptr(),
                tiled.box_dims.as_ptr(),
                steps.as_ptr(),
                0,
                tiled.swizzle as u32,
                L2_PROMOTION,
                0,
            )
        };
        check(status, || format!("cuTensorMapEncodeTiled of {tiled:?}"))?;
        Ok(TensorMap(mended(map, span_bytes(tiled.data_type, tiled.dims, tiled.strides_bytes))))
    }

    /// Encodes an im2col descriptor.
    ///
    /// # Errors
    /// As [`TensorMap::tiled`].
    pub fn im2col(context: &GpuContext, im2col: &Im2col<'_>) -> Result<Self, DriverError> {
        let rank = im2col.dims.len();
        check_tensor(3..=5, im2col.data_type, im2col.address, im2col.dims, im2col.strides_bytes)?;
        let spatial = rank - 2;
        if im2col.lower_corner.len() != spatial || im2col.upper_corner.len() != spatial {
            let given = (im2col.lower_corner.len(), im2col.upper_corner.len());
            return Err(invalid(format!("expected {spatial} entries in both corners, given {given:?}")));
        }
        if im2col.element_strides.len() != rank || im2col.element_strides.iter().any(|&step| step == 0 || step > 8) {
            return Err(invalid(format!(
                "expected {rank} element strides in 1..=8, given {:?}",
                im2col.element_strides
            )));
        }
        if im2col.channels_per_pixel > 256 || im2col.pixels_per_column > 1024 {
            let given = (im2col.channels_per_pixel, im2col.pixels_per_column);
            return Err(invalid(format!("expected at most 256 channels and 1024 pixels of a load, given {given:?}")));
        }
        let mut map = CUtensorMap([0; 16]);
        let _bound = context.bind()?;
        // SAFETY: every array has as many entries as the rank asks for; the map is aligned by its type.
        let status = unsafe {
            cuda_loader::driver::tensor_map_encode_im2col(
                &mut map,
                im2col.data_type as u32,
                rank as u32,
                im2col.address,
                im2col.dims.as_ptr(),
                im2col.strides_bytes.as_ptr(),
                im2col.lower_corner.as_ptr(),
                im2col.upper_corner.as_ptr(),
                im2col.channels_per_pixel,
                im2col.pixels_per_column,
                im2col.element_strides.as_ptr(),
                0,
                im2col.swizzle as u32,
                L2_PROMOTION,
                0,
            )
        };
        check(status, || format!("cuTensorMapEncodeIm2col of {im2col:?}"))?;
        Ok(TensorMap(mended(map, span_bytes(im2col.data_type, im2col.dims, im2col.strides_bytes))))
    }

    /// The 128 bytes.
    pub fn words(&self) -> [u64; 16] {
        self.0.0
    }
}

fn invalid(reason: String) -> DriverError {
    DriverError::invalid(format!("tensor map: {reason}"))
}

fn check_tensor(
    ranks: std::ops::RangeInclusive<usize>,
    data_type: TmaType,
    address: u64,
    dims: &[u64],
    strides_bytes: &[u64],
) -> Result<(), DriverError> {
    let rank = dims.len();
    if !ranks.contains(&rank) || strides_bytes.len() + 1 != rank {
        let given = (rank, strides_bytes.len());
        return Err(invalid(format!("expected a rank in {ranks:?} and one stride less, given {given:?}")));
    }
    if address == 0 || !address.is_multiple_of(16) {
        return Err(invalid(format!("expected an address that is a multiple of 16 and not null, given {address:#x}")));
    }
    if let Some(dim) = dims.iter().find(|&&dim| dim == 0 || dim > 1 << 32) {
        return Err(invalid(format!("expected extents in 1..=2^32, given {dim}")));
    }
    if let Some(stride) = strides_bytes.iter().find(|&&stride| stride % 16 != 0 || stride >= 1 << 40) {
        return Err(invalid(format!("expected strides that are multiples of 16 below 2^40 bytes, given {stride}")));
    }
    // The element type only matters for sizes here.
    let _ = data_type;
    Ok(())
}

fn span_bytes(data_type: TmaType, dims: &[u64], strides_bytes: &[u64]) -> u64 {
    let outer: u64 = dims[1..].iter().zip(strides_bytes).map(|(dim, stride)| (dim - 1) * stride).sum();
    outer + dims[0] * data_type.size_bytes()
}

/// Drivers up to 13.1 encode maps of small tensors wrongly: for spans below 128 KiB, bit 21 of the second word must
/// be cleared (the same correction is made by CUTLASS and Triton).
fn mended(mut map: CUtensorMap, span_bytes: u64) -> CUtensorMap {
    const LAST_AFFECTED_DRIVER: u32 = 13_010;
    const AFFECTED_BYTES: u64 = 131_072;
    if span_bytes < AFFECTED_BYTES && super::driver_version().is_ok_and(|version| version <= LAST_AFFECTED_DRIVER) {
        map.0[1] &= !(1 << 21);
    }
    map
}
