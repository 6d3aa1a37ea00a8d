//! Random normal numbers, many of them fast.

use crate::device;
use anyhow::Result;
use oxidnn::driver::{DeviceMemory, DeviceSpan, GpuContext, GpuStream};
use oxidnn::half::{bf16, f16};
use oxidnn::{DType, Domain, f8e4m3, f8e5m2};
use rand::{RngExt as _, SeedableRng as _};
use rand_distr::StandardNormal;
use rand_xoshiro::Xoshiro256PlusPlus;
use rayon::prelude::*;

/// Bytes of the numbers drawn; buffers repeat them.
const BLOCK_BYTES: usize = 16 << 20;

/// Standard normal numbers on the device and, as they are stored there, on the host.
///
/// Drawing every number of a gigabyte anew would take longer than the measurement. Buffers are filled on the device
/// with copies of the block; its length is odd, so that rows of a tensor do not repeat one another.
#[derive(Debug)]
pub struct Block {
    dtype: DType,
    domain: Domain,
    values: Vec<f32>,
    memory: DeviceMemory,
}

/// A filled buffer's place in the block: its element i is the block's element `start + i`, round and round.
#[derive(Clone, Copy, Debug, Default)]
pub struct Filling {
    start: usize,
}

impl Block {
    /// Draws the numbers.
    ///
    /// # Errors
    /// From the driver.
    pub fn new(context: &GpuContext, stream: &GpuStream, dtype: DType, domain: Domain) -> Result<Self> {
        let item = dtype.size_bytes();
        let n = BLOCK_BYTES / item - 15;
        const CHUNK: usize = 1 << 16;
        let mut drawn = vec![0f32; n];
        drawn.par_chunks_mut(CHUNK).enumerate().for_each(|(i, chunk)| {
            let mut rng = Xoshiro256PlusPlus::seed_from_u64(i as u64);
            chunk.fill_with(|| domain.map(rng.sample::<f64, _>(StandardNormal)) as f32);
        });
        let (mut values, mut bytes) = (Vec::with_capacity(n), Vec::with_capacity(n * item));
        for value in drawn {
            match dtype {
                DType::F32 => {
                    values.push(value);
                    bytes.extend(value.to_ne_bytes());
                }
                DType::F16 => {
                    let stored = f16::from_f32(value);
                    values.push(stored.to_f32());
                    bytes.extend(stored.to_ne_bytes());
                }
                DType::BF16 => {
                    let stored = bf16::from_f32(value);
                    values.push(stored.to_f32());
                    bytes.extend(stored.to_ne_bytes());
                }
                // Integers from a normal distribution wide enough that hundreds of values occur.
                DType::I8 => {
                    let stored = (value * 32.0).round_ties_even() as i8;
                    values.push(f32::from(stored));
                    bytes.push(stored as u8);
                }
                DType::F8E4M3 => {
                    let stored = f8e4m3::from_f32(value);
                    values.push(stored.to_f32());
                    bytes.push(stored.to_bits());
                }
                DType::F8E5M2 => {
                    let stored = f8e5m2::from_f32(value);
                    values.push(stored.to_f32());
                    bytes.push(stored.to_bits());
                }
                DType::F64 => {
                    values.push(value);
                    bytes.extend(f64::from(value).to_ne_bytes());
                }
                DType::I32 => {
                    values.push(value);
                    bytes.extend((value as i32).to_ne_bytes());
                }
                DType::I64 => {
                    values.push(value);
                    bytes.extend((value as i64).to_ne_bytes());
                }
                DType::U8 => {
                    values.push(f32::from(value as u8));
                    bytes.push(value as u8);
                }
                DType::Bool => {
                    let stored = u8::from(value > 0.0);
                    values.push(f32::from(stored));
                    bytes.push(stored);
                }
            }
        }
        let memory = DeviceMemory::alloc(context, bytes.len())?;
        memory.span().write(stream, &bytes)?;
        Ok(Block { dtype, domain, values, memory })
    }

    /// Whether it holds numbers of this kind.
    pub fn is_of(&self, dtype: DType, domain: Domain) -> bool {
        self.dtype == dtype && self.domain == domain
    }

    /// Fills a buffer, from a place of the block that `seed` decides.
    ///
    /// # Errors
    /// From the driver.
    pub fn fill(&self, buffer: DeviceSpan<'_>, seed: usize, stream: &GpuStream) -> Result<Filling> {
        let item = self.dtype.size_bytes();
        let n = self.values.len();
        let start = seed.wrapping_mul(1_234_577) % n;
        let total = buffer.len_bytes() as usize / item;
        let (mut done, mut from) = (0, start);
        while done < total {
            let elems = (n - from).min(total - done);
            let to = buffer.part((done * item) as u64, ((done + elems) * item) as u64);
            let source = self.memory.span().part((from * item) as u64, ((from + elems) * item) as u64);
            device::copy(to, source, stream)?;
            done += elems;
            from = 0;
        }
        Ok(Filling { start })
    }

    /// Element `offset` of a buffer filled like this.
    pub fn value(&self, filling: Filling, offset: i64) -> f64 {
        f64::from(self.values[(filling.start + offset as usize) % self.values.len()])
    }
}

/// The number that these bytes store.
pub fn number(bytes: &[u8], dtype: DType) -> f64 {
    match (dtype, bytes) {
        (DType::F64, &[a, b, c, d, e, f, g, h]) => f64::from_ne_bytes([a, b, c, d, e, f, g, h]),
        (DType::F32, &[a, b, c, d]) => f64::from(f32::from_ne_bytes([a, b, c, d])),
        (DType::F16, &[a, b]) => f16::from_ne_bytes([a, b]).to_f64(),
        (DType::BF16, &[a, b]) => bf16::from_ne_bytes([a, b]).to_f64(),
        (DType::I8, &[a]) => f64::from(a as i8),
        (DType::I32, &[a, b, c, d]) => f64::from(i32::from_ne_bytes([a, b, c, d])),
        (DType::U8, &[a]) => f64::from(a),
        (DType::I64, &[a, b, c, d, e, f, g, h]) => i64::from_ne_bytes([a, b, c, d, e, f, g, h]) as f64,
        (DType::Bool, &[a]) => f64::from(u8::from(a != 0)),
        (DType::F8E4M3, &[a]) => f8e4m3::from_bits(a).to_f64(),
        (DType::F8E5M2, &[a]) => f8e5m2::from_bits(a).to_f64(),
        _ => f64::NAN,
    }
}
