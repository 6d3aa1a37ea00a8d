//! The bulk tensor copy engine: which bytes a copy with a tensor map moves, row by row.
//!
//! Boxes and runs of pixels are as the PTX ISA says ("Tensors"). What it leaves open is as it was seen on an H200
//! (driver 580):
//!
//! - the innermost coordinate lies at a multiple of 16 bytes, and a store begins at no coordinate below 0; anything else
//!   is an illegal instruction;
//! - loads end with the tensor's last element of a row; stores and reductions end with the 16 bytes in which that element
//!   lies, and so overwrite what lies behind it.
//!
//! Not checked on hardware: rows that are shorter than a swizzle's span begin a span apart; reductions end where stores
//! do; the conversion to tf32 rounds to nearest, ties to even.

use super::formats::{Format, Overflow, Rounding};
use super::tensor_map::{Access, ElementType, MAX_RANK, Swizzle, TensorMap};
use std::ops::Range;

/// Why a copy is not done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// `CUDA_ERROR_ILLEGAL_INSTRUCTION`.
    IllegalInstruction(String),
    /// `CUDA_ERROR_MISALIGNED_ADDRESS`.
    Misaligned(String),
}

fn illegal<T>(reason: String) -> Result<T, Fault> {
    Err(Fault::IllegalInstruction(reason))
}

/// What an instruction asks for.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The box in shared memory.
    pub shared: u32,
    /// Coordinates, fastest first.
    pub at: &'a [i32],
    /// None with `.tile`; with `.im2col` the filter position, fastest first, all 0 with `.im2col_no_offs`.
    pub offsets: Option<&'a [u16]>,
}

/// Bytes that lie together in global memory, and a row of the box.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Address in shared memory, before the permutation.
    pub shared: u32,
    /// Which of its bytes the tensor has.
    pub inside: Range<u32>,
    /// Global address of the first of them, 0 when there is none.
    pub global: u64,
}

/// The rows of a copy.
#[derive(Clone, Debug)]
pub struct Plan {
    /// All of them, those outside of the tensor too.
    pub rows: Vec<Row>,
    /// Bytes of each.
    pub row_bytes: u32,
    /// What lands in shared memory, and is counted by the barrier: the full box.
    pub bytes: u32,
    element: ElementType,
    swizzle: Swizzle,
    fills_nan: bool,
}

/// Plans a load or a prefetch.
///
/// # Errors
/// Where the hardware faults.
pub fn load(map: &TensorMap, request: &Request<'_>) -> Result<Plan, Fault> {
    plan(map, request, false)
}

/// Plans a store or a reduction.
///
/// # Errors
/// Where the hardware faults.
pub fn store(map: &TensorMap, request: &Request<'_>) -> Result<Plan, Fault> {
    if let Some(at) = request.at.iter().find(|&&at| at < 0) {
        return illegal(format!("a store begins before the tensor, coordinates {:?}, one is {at}", request.at));
    }
    plan(map, request, true)
}

fn plan(map: &TensorMap, request: &Request<'_>, stores: bool) -> Result<Plan, Fault> {
    let at = request.at;
    if at.len() != map.rank {
        return illegal(format!("{} coordinates and a tensor map of rank {}", at.len(), map.rank));
    }
    let size = map.element.bytes();
    let first_byte = i64::from(at[0]) * i64::from(size);
    if first_byte % 16 != 0 {
        return illegal(format!(
            "copies begin at multiples of 16 bytes of a row, coordinate {} is byte {first_byte}",
            at[0]
        ));
    }
    if !request.shared.is_multiple_of(128) {
        return Err(Fault::Misaligned(format!("a box lies at a multiple of 128 bytes, given {:#x}", request.shared)));
    }
    let (elements, places) = match (map.access, request.offsets) {
        (Access::Tiled(extents), None) => (extents[0], box_places(map, extents, at)),
        (Access::Im2col { lower, upper, channels, pixels }, Some(offsets)) => {
            (channels, pixel_places(map, [lower, upper], pixels, at, offsets)?)
        }
        (Access::Tiled(_), Some(_)) => return illegal("an im2col copy with a map of boxes".to_owned()),
        (Access::Im2col { .. }, None) => return illegal("a copy of a box with an im2col map".to_owned()),
    };
    let row_bytes = elements * size;
    let pitch = map.swizzle.span().unwrap_or(row_bytes);
    let row_end = map.dims[0] as i64 * i64::from(size) - first_byte;
    let row_end = if stores { (row_end + 15) & !15 } else { row_end };
    let inside = (-first_byte).clamp(0, row_bytes.into()) as u32..row_end.clamp(0, row_bytes.into()) as u32;
    let rows = places.into_iter().enumerate().map(|(i, place)| {
        let shared = request.shared + i as u32 * pitch;
        match place.filter(|_| !inside.is_empty()) {
            Some(outer) => Row {
                shared,
                inside: inside.clone(),
                global: (map.address + outer).wrapping_add_signed(first_byte + i64::from(inside.start)),
            },
            None => Row { shared, inside: 0..0, global: 0 },
        }
    });
    let rows: Vec<Row> = rows.collect();
    let bytes = row_bytes * rows.len() as u32;
    Ok(Plan { rows, row_bytes, bytes, element: map.element, swizzle: map.swizzle, fills_nan: map.fills_nan })
}

/// Where a row begins, from the tensor's address on; None outside.
fn place(map: &TensorMap, at: &[i64; MAX_RANK]) -> Option<u64> {
    (1..map.rank).try_fold(0, |bytes, i| {
        let inside = (0..map.dims[i] as i64).contains(&at[i]);
        inside.then(|| bytes + at[i] as u64 * map.strides[i])
    })
}

/// The rows of a box, the second dimension fastest.
fn box_places(map: &TensorMap, extents: [u32; MAX_RANK], at: &[i32]) -> Vec<Option<u64>> {
    let counts: [u32; MAX_RANK] = std::array::from_fn(|i| if i == 0 { 1 } else { extents[i].div_ceil(map.steps[i]) });
    let rows = counts.iter().product();
    let coordinates = |row: u32| {
        let mut rest = row;
        std::array::from_fn(|i| {
            let along = rest % counts[i];
            rest /= counts[i];
            i64::from(at.get(i).copied().unwrap_or(0)) + i64::from(along) * i64::from(map.steps[i])
        })
    };
    (0..rows).map(|row| place(map, &coordinates(row))).collect()
}

/// Pixels from a filter base on, along w, then h, then d, then images, each within the pixel box.
fn pixel_places(
    map: &TensorMap,
    [lower, upper]: [[i32; 3]; 2],
    pixels: u32,
    at: &[i32],
    offsets: &[u16],
) -> Result<Vec<Option<u64>>, Fault> {
    let spatial = map.rank - 2;
    let limit = [u16::MAX, 255, 31][spatial - 1];
    if offsets.len() != spatial || offsets.iter().any(|&offset| offset > limit) {
        return illegal(format!("{spatial} im2col offsets lie in 0..={limit}, given {offsets:?}"));
    }
    let last = |i: usize| map.dims[i] as i64 - 1 + i64::from(upper[i - 1]);
    let image = map.rank - 1;
    let mut base: [i64; MAX_RANK] = std::array::from_fn(|i| at.get(i).copied().unwrap_or(0).into());
    let mut places = Vec::with_capacity(pixels as usize);
    for _ in 0..pixels {
        let mut pixel = base;
        for (i, &offset) in offsets.iter().enumerate() {
            pixel[1 + i] += i64::from(offset);
        }
        places.push(place(map, &pixel));
        for i in 1..=image {
            base[i] += i64::from(map.steps[i]);
            if i == image || base[i] <= last(i) {
                break;
            }
            base[i] = i64::from(lower[i - 1]);
        }
    }
    Ok(places)
}

impl Plan {
    /// The addresses of shared memory that the box takes.
    pub fn shared_range(&self) -> Range<u32> {
        match (self.rows.first(), self.rows.last()) {
            (Some(first), Some(last)) => first.shared..last.shared + self.swizzle.span().unwrap_or(self.row_bytes),
            _ => 0..0,
        }
    }

    /// Puts a row of a load into shared memory: `from` are its bytes inside of the tensor.
    ///
    /// # Panics
    /// When `shared`, the block's memory from address 0 on, ends before [`shared_range`](Plan::shared_range).
    pub fn put(&self, row: &Row, from: &[u8], shared: &mut [u8]) {
        if self.swizzle == Swizzle::None {
            let at = row.shared as usize;
            self.compose(row, from, &mut shared[at..at + self.row_bytes as usize]);
            return;
        }
        // A row of a pattern has up to 128 bytes.
        let mut whole = [0; 128];
        let whole = &mut whole[..self.row_bytes as usize];
        self.compose(row, from, whole);
        for (chunk, address) in whole.chunks(16).zip((row.shared..).step_by(16)) {
            let at = self.swizzle.apply(address) as usize;
            shared[at..at + 16].copy_from_slice(chunk);
        }
    }

    /// A row as it lands: filled where the tensor has nothing, converted where the map says so.
    fn compose(&self, row: &Row, from: &[u8], to: &mut [u8]) {
        let Range { start, end } = row.inside;
        if end - start < self.row_bytes {
            self.fill(to);
        }
        to[start as usize..end as usize].copy_from_slice(from);
        if let ElementType::Tf32 | ElementType::Tf32Ftz | ElementType::F32Ftz = self.element {
            for word in to.as_chunks_mut().0 {
                *word = convert(self.element, u32::from_le_bytes(*word)).to_le_bytes();
            }
        }
    }

    fn fill(&self, to: &mut [u8]) {
        if !self.fills_nan {
            return to.fill(0);
        }
        let nan = match self.element {
            ElementType::F16 => Format::F16.nan(),
            ElementType::Bf16 => Format::BF16.nan(),
            ElementType::F64 => Format::F64.nan(),
            _ => Format::F32.nan(),
        };
        let size = self.element.bytes() as usize;
        for element in to.chunks_mut(size) {
            element.copy_from_slice(&nan.to_le_bytes()[..size]);
        }
    }

    /// Reads the bytes of a row that a store or a reduction writes: as many as the row has inside.
    ///
    /// # Panics
    /// As [`put`](Plan::put).
    pub fn take(&self, row: &Row, shared: &[u8], to: &mut [u8]) {
        let inside = row.shared + row.inside.start..row.shared + row.inside.end;
        if self.swizzle == Swizzle::None {
            to.copy_from_slice(&shared[inside.start as usize..inside.end as usize]);
            return;
        }
        // Stores begin and end with chunks.
        for (chunk, address) in to.chunks_mut(16).zip(inside.step_by(16)) {
            let at = self.swizzle.apply(address) as usize;
            chunk.copy_from_slice(&shared[at..at + chunk.len()]);
        }
    }
}

fn convert(element: ElementType, bits: u32) -> u32 {
    let x = f32::from_bits(bits);
    if x.is_subnormal() && element != ElementType::Tf32 {
        return bits & 1 << 31;
    }
    match element {
        ElementType::F32Ftz => bits,
        _ if x.is_nan() => bits,
        _ => Format::TF32.encode(x.into(), Rounding::NearestEven, Overflow::Infinite) as u32,
    }
}

#[cfg(test)]
mod tests;
