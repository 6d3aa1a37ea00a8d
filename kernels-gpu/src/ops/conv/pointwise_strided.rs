//! Picks every so-manyth position of planes, and writes planes of which only those are not zero: see
//! [`ConvStridedPlanesParams`].
//!
//! Grid: one-dimensional, a thread for each unit. Block: 256. Elements of 2 bytes.

use crate::math::element::Element;
use cuda_std::thread::{block_dim_x, block_idx_x, thread_idx_x};
use cuda_std::{math, memory, schedule};
use kernel_abi::ops::conv::ConvStridedPlanesParams;

/// The even ones of four elements, as pairs.
#[inline(always)]
fn evens(low: u32, high: u32) -> u32 {
    math::permute_bytes(low, high, 0x5410)
}

/// A unit's plane, with the address of its first element, row and place in the row.
struct Unit {
    plane: u32,
    address: u64,
    row: u32,
    at: u32,
}

impl Unit {
    #[inline(always)]
    fn of_thread(p: &ConvStridedPlanesParams) -> Option<Self> {
        let index = block_idx_x() * block_dim_x() + thread_idx_x();
        if index >= p.n_units {
            return None;
        }
        let (rest, at) = p.row_units.div_rem(index);
        let (plane, row) = p.rows.div_rem(rest);
        let (image, channel) = p.channels.div_rem(plane);
        let offset = i64::from(image) * p.image_stride + i64::from(channel) * p.channel_stride;
        Some(Unit { plane, address: p.planes + offset as u64 * 2, row, at })
    }
}

/// Where a picked position lies, in elements.
#[inline(always)]
fn picked(p: &ConvStridedPlanesParams, plane: u32, row: u32, col: u32) -> u64 {
    let [rows, cols] = p.picked_extents;
    (u64::from(plane) * u64::from(rows) + u64::from(row)) * u64::from(cols) + u64::from(col)
}

/// The picked positions, from the planes.
///
/// # Safety
/// The host passes live tensors of these extents.
#[inline(always)]
pub unsafe fn pick<T: Element>(p: &ConvStridedPlanesParams) {
    schedule::wait_for_predecessors();
    schedule::launch_dependents();
    let Some(unit) = Unit::of_thread(p) else { return };
    let run = if p.run == 0 { 1 } else { p.run };
    let col = unit.at * run;
    let from = u64::from(unit.row * p.stride[0].divisor) * u64::from(p.extents[1]);
    let from = unit.address + (from + u64::from(col * p.stride[1].divisor)) * 2;
    let to = p.picked + picked(p, unit.plane, unit.row, col) * 2;
    match p.run {
        4 => {
            let [a, b, c, d] = memory::load_x4(from as *const u32);
            memory::store_x2(to as *mut u32, [evens(a, b), evens(c, d)]);
        }
        2 => {
            let [a, b] = memory::load_x2(from as *const u32);
            memory::store_x1(to as *mut u32, evens(a, b));
        }
        _ => *(to as *mut u16) = *(from as *const u16),
    }
}

/// The planes, from their picked positions; others are beta times what they were.
///
/// # Safety
/// As [`pick`].
#[inline(always)]
pub unsafe fn spread<T: Element<Acc = f32>>(p: &ConvStridedPlanesParams) {
    schedule::wait_for_predecessors();
    schedule::launch_dependents();
    let Some(unit) = Unit::of_thread(p) else { return };
    let (row, skipped) = p.stride[0].div_rem(unit.row);
    let row_is_picked = skipped == 0 && row < p.picked_extents[0];
    let width = if p.run == 0 { 1 } else { 2 * p.run };
    let to = (u64::from(unit.row) * u64::from(p.extents[1]) + u64::from(unit.at * width)) * 2 + unit.address;
    let from = p.picked + picked(p, unit.plane, row, unit.at * p.run) * 2;
    match p.run {
        4 => {
            let [a, b] = if row_is_picked { memory::load_x2(from as *const u32) } else { [0, 0] };
            memory::store_x4(to as *mut u32, [a & 0xffff, a >> 16, b & 0xffff, b >> 16]);
        }
        2 => {
            let a = if row_is_picked { memory::load_x1(from as *const u32) } else { 0 };
            memory::store_x2(to as *mut u32, [a & 0xffff, a >> 16]);
        }
        1 => {
            let a = if row_is_picked { *(from as *const u16) } else { 0 };
            memory::store_x1(to as *mut u32, u32::from(a));
        }
        _ => {
            let (col, skipped) = p.stride[1].div_rem(unit.at);
            let to = to as *mut T;
            *to = if row_is_picked && skipped == 0 && col < p.picked_extents[1] {
                *((p.picked + picked(p, unit.plane, row, col) * 2) as *const T)
            } else if p.beta != 0.0 {
                T::narrow(p.beta * (*to).widen())
            } else {
                T::narrow(0.0)
            };
        }
    }
}
