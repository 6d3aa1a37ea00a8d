//! `fprop` and `dgrad`: see [`kernel_abi::ops::conv::im2col_wgmma`] for the product.
//!
//! Grid, block and shared memory are those of `im2col_wgmma`; a stage is `[rows][32 of the sum]` of f32, and the
//! filter's parts behind each other, `[columns][32 of the sum]` each. Where the filter is taken apart in the block, its
//! parts lie in buffers of their own: see [`direct`](super::direct).

use super::panels::PANEL_BYTES;
use super::{Buffer, COLUMN_BYTES, PartsProduct, give_back, takes_apart_ahead};
use crate::ops::conv::im2col_wgmma::gather::{Address, Panel, Tiles, k_panels};
use crate::ops::conv::im2col_wgmma::{PRODUCER_REGISTERS, Ring, SWIZZLE_PERIOD, WARPGROUP, warpgroup};
use cuda_std::memory::X2;
use cuda_std::thread::thread_idx_x;
use cuda_std::tma;
use cuda_std::wgmma::{Swizzle, descriptor};
use cuda_std::{mbarrier, schedule, shared, warp};
use kernel_abi::ops::conv::f32_wgmma::{ConvPartsGatherParams, PARTS_PANEL, part_row};
use kernel_abi::ops::conv::im2col_wgmma::{
    ConvClass, ConvGatherParams, GatherPlace, ROW_BYTES, SUBTILE, access, position,
};

/// Registers of a consumer's thread.
const CONSUMER_REGISTERS: u32 = 224;

/// The kernel.
///
/// # Safety
/// The host passes maps and extents of live tensors, and launches `TILE.threads()` threads with `TILE.smem_bytes()`
/// bytes of shared memory.
#[inline(always)]
pub(super) unsafe fn run<P: PartsProduct<R>, const R: usize, const S: usize>(p: &ConvPartsGatherParams, at: Address) {
    let ring = Ring::new(P::TILE);
    if thread_idx_x() == 0 {
        tma::prefetch_map(at.b_map());
        let mut class = 0;
        while class < p.gather.n_classes {
            tma::prefetch_map(at.a_map(class));
            class += 1;
        }
    }
    ring.start(1);
    let warpgroup = warpgroup();
    if warpgroup == 0 {
        schedule::release_registers::<PRODUCER_REGISTERS>();
        if thread_idx_x() == 0 {
            produce::<P, R>(p, at, ring);
        }
    } else {
        schedule::acquire_registers::<CONSUMER_REGISTERS>();
        consume::<P, R, S>(p, at, ring, warpgroup - 1);
    }
}

/// Loads stage after stage, of tile after tile.
///
/// # Safety
/// As [`run`]; one thread.
#[inline(always)]
pub(super) unsafe fn produce<P: PartsProduct<R>, const R: usize>(
    p: &ConvPartsGatherParams,
    at: Address,
    mut ring: Ring,
) {
    let tile = P::TILE;
    let p = &p.gather;
    let (mut tiles, at_b) = (Tiles::new(tile), at.b_map());
    while tiles.is_left(p) {
        let (place, class) = tiles.next(p, at, tile);
        // By value: what is read through a pointer would be read again after every copy.
        let class = *class;
        let a_map = at.a_map(place.class);
        let (n, first) = position(place.m, class.extents);
        let base = |axis: usize| (first[axis] * p.step[axis]) as i32 + class.base[axis];
        let (d, h, w) = (base(0), base(1), base(2));
        let first_channel = place.group * p.channels;
        let row = (place.group * p.gemm_n + place.n) as i32;
        let n_panels = k_panels(p, &class, tile);
        let mut panel = Panel::first(&class);
        let mut i = 0;
        while i < n_panels {
            mbarrier::wait(ring.empty(), ring.parity ^ 1);
            mbarrier::arrive_expect_bytes(ring.full(), tile.stage_bytes());
            let bar = ring.full();
            let c = (first_channel + panel.channel) as i32;
            let offset = |axis: usize| (panel.tap[axis] * class.tap_offset[axis]) as u16;
            match p.a_access {
                access::LINEAR => tma::load_2d(ring.a(), a_map, bar, [c, place.m as i32]),
                access::IM2COL_2D => {
                    tma::load_im2col_4d(ring.a(), a_map, bar, [c, w, h, n as i32], [offset(2), offset(1)])
                }
                _ => {
                    let offsets = [offset(2), offset(1), offset(0)];
                    tma::load_im2col_5d(ring.a(), a_map, bar, [c, w, h, d, n as i32], offsets)
                }
            }
            if tile.parts > 0 && P::B_IS_MN_MAJOR {
                let (column, of_sum) = (place.n as i32, (first_channel + panel.channel) as i32);
                let mut i = 0;
                while i < tile.gemm_n / PARTS_PANEL {
                    let at = [column + (i * PARTS_PANEL) as i32, panel.linear_tap, of_sum, 0];
                    tma::load_4d(ring.b() + i * PANEL_BYTES, at_b, bar, at);
                    i += 1;
                }
            } else if tile.parts > 0 {
                tma::load_4d(ring.b(), at_b, bar, [panel.channel as i32, panel.linear_tap, row, 0]);
            }
            panel.advance(&class, tile.panel_k);
            ring.advance();
            i += 1;
        }
    }
}

/// A thread's fragments of 64 rows, of which its own eight begin at `at`.
///
/// # Safety
/// As [`consume`].
#[inline(always)]
unsafe fn load<P: PartsProduct<R>, const R: usize>(at: u32) -> P::Fragments {
    // The second step's chunks are four farther, the rows of the fragment's other half eight.
    let lower = at + 8 * ROW_BYTES;
    let ([a0, a1, a2, a3], [b0, b1, b2, b3]) = (shared::load_x4(at), shared::load_x4(lower));
    let ([c0, c1, c2, c3], [d0, d1, d2, d3]) = (shared::load_x4(at ^ 64), shared::load_x4(lower ^ 64));
    P::take_apart([[[a0, a1], [b0, b1], [a2, a3], [b2, b3]], [[c0, c1], [d0, d1], [c2, c3], [d2, d3]]])
}

/// A thread's fragments of the first rows of a stage, once that is there.
///
/// # Safety
/// As [`consume`].
#[inline(always)]
unsafe fn first_load<P: PartsProduct<R>, const R: usize, const S: usize>(
    ring: &Ring,
    in_tile: u32,
    lane: u32,
) -> P::Fragments {
    mbarrier::wait(ring.full(), ring.parity);
    let a = load::<P, R>(ring.a() + in_tile);
    if S == 1 && P::TILE.converted > 0 {
        // All of the stage is in registers.
        Ring::release(P::TILE, ring.empty(), lane);
    }
    a
}

/// Computes tile after tile.
///
/// # Safety
/// As [`run`]; all threads of one warpgroup.
#[inline(always)]
pub(super) unsafe fn consume<P: PartsProduct<R>, const R: usize, const S: usize>(
    p: &ConvPartsGatherParams,
    at: Address,
    mut ring: Ring,
    consumer: u32,
) {
    let tile = P::TILE;
    let thread = thread_idx_x() % WARPGROUP;
    let lane = thread % 32;
    let in_eight = part_row(lane / 4);
    let row = consumer * S as u32 * SUBTILE + thread / 32 * 16 + in_eight;
    let in_tile = row * ROW_BYTES + ((lane % 4) ^ in_eight) * 16;
    let mut buffer = Buffer::FIRST;
    let mut tiles = Tiles::new(tile);
    while tiles.is_left(&p.gather) {
        let (place, class) = tiles.next(&p.gather, at, tile);
        let n_panels = warp::uniform(k_panels(&p.gather, class, tile));
        let mut sums: [[f32; R]; S] = core::mem::zeroed();
        let mut a: P::Fragments = core::mem::zeroed();
        if takes_apart_ahead(R) && n_panels > 0 {
            a = first_load::<P, R, S>(&ring, in_tile, lane);
        }
        let mut panel = 0;
        while panel < n_panels {
            if !takes_apart_ahead(R) {
                a = first_load::<P, R, S>(&ring, in_tile, lane);
            }
            let (b, factors) = if tile.converted > 0 {
                mbarrier::wait(ring.parts_full(buffer.index), buffer.parity);
                (buffer.at(&ring), buffer.factors(&ring))
            } else {
                (ring.b(), 0)
            };
            let b = if P::B_IS_MN_MAJOR {
                descriptor(b, PANEL_BYTES, SWIZZLE_PERIOD, Swizzle::B128)
            } else {
                descriptor(b, 16, 8 * COLUMN_BYTES, Swizzle::B64)
            };
            let mut d: [f32; R] = core::mem::zeroed();
            P::multiply(&mut d, &a, b);
            if S > 1 {
                let lower = load::<P, R>(ring.a() + in_tile + SUBTILE * ROW_BYTES);
                if tile.converted > 0 {
                    Ring::release(tile, ring.empty(), lane);
                }
                P::finish(&mut d, &mut a);
                P::add(sums.get_unchecked_mut(0), &d, &a, factors, 0);
                a = lower;
                P::multiply(&mut d, &a, b);
            }
            // What comes next is taken apart while the products are computed.
            let read = ring;
            ring.advance();
            panel += 1;
            let mut next: P::Fragments = core::mem::zeroed();
            if takes_apart_ahead(R) && panel < n_panels {
                next = first_load::<P, R, S>(&ring, in_tile, lane);
            }
            P::finish(&mut d, &mut a);
            if tile.converted == 0 {
                Ring::release(tile, read.empty(), lane);
            }
            P::add(sums.get_unchecked_mut(S - 1), &d, &a, factors, 0);
            if tile.converted > 0 {
                give_back(&ring, buffer);
            }
            buffer.advance(tile);
            a = next;
        }
        rows::<R, S>(p, class, place, place.m + row, sums.get_unchecked(0));
        if S > 1 {
            rows::<R, S>(p, class, place, place.m + row + SUBTILE, sums.get_unchecked(S - 1));
        }
    }
}

/// Stores a thread's sums of 64 rows: those of `row` and of the eighth behind it.
///
/// # Safety
/// As [`consume`].
#[inline(always)]
unsafe fn rows<const R: usize, const S: usize>(
    p: &ConvPartsGatherParams,
    class: &ConvClass,
    place: GatherPlace,
    row: u32,
    sums: &[f32; R],
) {
    let col = place.n + thread_idx_x() % 4 * 2;
    // Two tiles are enough, and the others stay small.
    if R < 64 && S > 1 && p.gather.out_access == access::SPREAD {
        spread::<R>(&p.gather, class, [row, row + 8], col, sums);
        return;
    }
    let (upper, lower) = (row_address(p, class, place, row), row_address(p, class, place, row + 8));
    panel::<R, 0>(p, [upper, lower], col, sums);
    if R > 32 {
        panel::<R, 1>(p, [upper, lower], col, sums);
    }
}

/// Address of the first channel of a row of the written tensor, in this tile's group; 0 behind the last row.
#[inline(always)]
fn row_address(p: &ConvPartsGatherParams, class: &ConvClass, place: GatherPlace, row: u32) -> u64 {
    if row >= class.gemm_m {
        return 0;
    }
    let (n, [d, h, w]) = position(row, class.extents);
    let [sd, sh, sw] = class.strides;
    let image = i64::from(n) * p.gather.image_stride + class.offset;
    let offset = image + i64::from(d) * sd + i64::from(h) * sh + i64::from(w) * sw;
    let channel = i64::from(place.group * p.gather.gemm_n) * p.channel_stride;
    p.gather.out + (offset + channel) as u64 * 4
}

/// Stores 64 columns of both rows.
///
/// # Safety
/// As [`consume`].
#[inline(always)]
unsafe fn panel<const R: usize, const N: usize>(
    p: &ConvPartsGatherParams,
    [upper, lower]: [u64; 2],
    col: u32,
    sums: &[f32; R],
) {
    let mut group = 0;
    while group < 8 && 4 * group < R {
        let sum = |i: usize| *sums.get_unchecked(4 * (8 * N + group) + i);
        let col = col + 8 * (8 * N + group) as u32;
        pair(p, upper, col, [sum(0), sum(1)]);
        pair(p, lower, col, [sum(2), sum(3)]);
        group += 1;
    }
}

/// Writes a thread's sums, whose columns are positions and channels, of two rows.
///
/// # Safety
/// As [`consume`].
#[inline(always)]
unsafe fn spread<const R: usize>(
    p: &ConvGatherParams,
    class: &ConvClass,
    [upper, lower]: [u32; 2],
    col: u32,
    sums: &[f32; R],
) {
    let (upper_at, lower_at) = (position(upper, class.extents), position(lower, class.extents));
    let mut i = 0;
    while i < R as u32 {
        let (row, (n, [_, h, w])) = if i / 2 % 2 == 0 { (upper, upper_at) } else { (lower, lower_at) };
        let col = col + i / 4 * 8 + i % 2;
        let (rest, c) = p.spread[2].div_rem(col);
        let (a, b) = p.spread[1].div_rem(rest);
        let (h, w) = (h * p.spread[0].divisor + a, w * p.spread[1].divisor + b);
        if row < class.gemm_m && col < p.gemm_n && h < p.spread_extents[0] && w < p.spread_extents[1] {
            let offset = i64::from(n) * p.image_stride
                + i64::from(h) * p.spread_strides[0]
                + i64::from(w) * p.spread_strides[1]
                + i64::from(c) * p.spread_strides[2];
            let to = (p.out as *mut f32).offset(offset as isize);
            let mut sum = p.alpha * *sums.get_unchecked(i as usize);
            if p.beta != 0.0 {
                sum += p.beta * *to;
            }
            *to = sum;
        }
        i += 1;
    }
}

/// Scales two neighbouring sums of a row, blends them with the prior values and stores them, where there are such.
///
/// # Safety
/// As [`consume`].
#[inline(always)]
unsafe fn pair(p: &ConvPartsGatherParams, row: u64, col: u32, sums: [f32; 2]) {
    let q = &p.gather;
    if row == 0 || col >= q.gemm_n {
        return;
    }
    let first = (row as *mut f32).offset((i64::from(col) * p.channel_stride) as isize);
    let mut v = [q.alpha * sums[0], q.alpha * sums[1]];
    if p.store_bytes >= 8 {
        let first = first as *mut X2<f32>;
        if q.beta != 0.0 {
            let prior = (*first).0;
            v = [v[0] + q.beta * prior[0], v[1] + q.beta * prior[1]];
        }
        *first = X2(v);
        return;
    }
    if q.beta != 0.0 {
        v[0] += q.beta * *first;
    }
    *first = v[0];
    if col + 1 < q.gemm_n {
        let second = first.offset(p.channel_stride as isize);
        if q.beta != 0.0 {
            v[1] += q.beta * *second;
        }
        *second = v[1];
    }
}
