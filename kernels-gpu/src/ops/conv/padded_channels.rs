//! Copies tensors to rows that are multiples of 16 bytes: see [`kernel_abi::ops::conv::padded_channels`].
//!
//! Grid: one-dimensional, a block for `BLOCK_RUNS` runs of one of the tensors. Block: 256.

use cuda_std::thread::{block_idx_x, thread_idx_x};
use cuda_std::{memory, schedule};
use kernel_abi::ops::conv::padded_channels::{BLOCK_RUNS, ConvPadParams, PaddedRows, THREADS};

/// Elements of 2 bytes.
///
/// # Safety
/// The host passes live tensors of these extents.
#[inline(always)]
pub unsafe fn pad(p: &ConvPadParams) {
    schedule::launch_dependents();
    let block = block_idx_x();
    let (rows, block) = if block < p.first_blocks { (p.first, block) } else { (p.second, block - p.first_blocks) };
    let first = block * BLOCK_RUNS + thread_idx_x();
    schedule::wait_for_predecessors();
    match rows.load_bytes {
        8 => runs::<8>(&rows, first),
        4 => runs::<4>(&rows, first),
        _ => runs::<2>(&rows, first),
    }
}

/// Copies the runs of a thread: all are on their way before the first is written.
///
/// # Safety
/// As [`pad`].
#[inline(always)]
unsafe fn runs<const V: u32>(rows: &PaddedRows, first: u32) {
    let read = |i: u32| {
        let index = first + i * THREADS;
        if index < rows.n_runs { load::<V>(rows, index) } else { [0; 4] }
    };
    let (a, b, c, d) = (read(0), read(1), read(2), read(3));
    let write = |i: u32, v: [u32; 4]| {
        let index = first + i * THREADS;
        if index < rows.n_runs {
            memory::store_x4((rows.to + u64::from(index) * 16) as *mut u32, v);
        }
    };
    write(0, a);
    write(1, b);
    write(2, c);
    write(3, d);
}

/// A run, `V` bytes at a time, with zeros behind the channels.
///
/// # Safety
/// As [`pad`].
#[inline(always)]
unsafe fn load<const V: u32>(rows: &PaddedRows, index: u32) -> [u32; 4] {
    let (at, count) = rows.source(index);
    let from = rows.from as i64 + 2 * at;
    if V == 8 {
        let pair = |i: u32| {
            if 4 * i < count { memory::load_x2((from + i64::from(8 * i)) as *const u32) } else { [0; 2] }
        };
        let ([a, b], [c, d]) = (pair(0), pair(1));
        return [a, b, c, d];
    }
    let word = |i: u32| {
        let at = from + i64::from(4 * i);
        if V == 4 {
            return if 2 * i < count { memory::load_x1(at as *const u32) } else { 0 };
        }
        let low = if 2 * i < count { u32::from(*(at as *const u16)) } else { 0 };
        let high = if 2 * i + 1 < count { u32::from(*(at as *const u16).offset(1)) } else { 0 };
        low | high << 16
    };
    [word(0), word(1), word(2), word(3)]
}
