//! `fprop`, and `dgrad` with a transposed filter, of 8-bit numbers and of f32 in tf32: see
//! [`kernel_abi::ops::conv::kmajor_wgmma`].
//!
//! Grid, block and the order of work are those of `im2col_wgmma`: a producer, whose copies gather, and two consumers with
//! half of a tile's rows each. Results are stored by threads, so they may lie anyhow.

use super::im2col_wgmma::gather::{Address, Panel, Tiles, k_panels};
use super::im2col_wgmma::{PRODUCER_REGISTERS, Ring, SWIZZLE_PERIOD, WARPGROUP, warpgroup};
use crate::math::kmajor::{Product, STAGING_BYTES, elements, kmajor_product, store};
use cuda_std::thread::thread_idx_x;
use cuda_std::wgmma::{Swizzle, descriptor};
use cuda_std::{kernel, mbarrier, param_tensor_map, schedule, tma, warp};
use kernel_abi::ops::conv::im2col_wgmma::{ConvClass, ConvTile, GatherPlace, ROW_BYTES, SUBTILE, access, position};
use kernel_abi::ops::conv::kmajor_wgmma::{ConvKMajorParams, KMAJOR_128X64, KMAJOR_128X128, KMAJOR_128X256};

/// Registers of a consumer's thread.
const CONSUMER_REGISTERS: u32 = 224;

/// The kernel.
///
/// # Safety
/// The host passes maps and extents of live tensors, and launches `tile.threads()` threads with `tile.smem_bytes()`
/// bytes of shared memory.
#[inline(always)]
unsafe fn run<P: Product<R>, const R: usize>(p: &ConvKMajorParams, at: Address, tile: ConvTile) {
    let ring = Ring::new(tile);
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
            produce::<P, R>(p, at, ring, tile);
        }
    } else {
        schedule::acquire_registers::<CONSUMER_REGISTERS>();
        consume::<P, R>(p, at, ring, tile, warpgroup - 1);
    }
}

/// Loads stage after stage, of tile after tile.
///
/// # Safety
/// As [`run`]; one thread.
#[inline(always)]
unsafe fn produce<P: Product<R>, const R: usize>(p: &ConvKMajorParams, at: Address, mut ring: Ring, tile: ConvTile) {
    let p = &p.gather;
    let mut tiles = Tiles::new(tile);
    while tiles.is_left(p) {
        let (place, class) = tiles.next(p, at, tile);
        // By value: what is read through a pointer would be read again after every copy.
        let class = *class;
        let a_map = at.a_map(place.class);
        let (n, first) = position(place.m, class.extents);
        let base = |axis: usize| (first[axis] * p.step[axis]) as i32 + class.base[axis];
        let (d, h, w) = (base(0), base(1), base(2));
        let first_channel = place.group * p.channels;
        let row = (place.group * p.group_k + place.n) as i32;
        let n_panels = k_panels(p, &class, tile);
        let mut panel = Panel::first(&class);
        let mut i = 0;
        while i < n_panels {
            mbarrier::wait(ring.empty(), ring.parity ^ 1);
            mbarrier::arrive_expect_bytes(ring.full(), tile.stage_bytes());
            let bar = ring.full();
            let c = elements(first_channel + panel.channel, P::ELEMENT_BYTES);
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
            let c = elements(panel.channel, P::ELEMENT_BYTES);
            tma::load_3d(ring.b(), at.b_map(), bar, [c, panel.linear_tap, row]);
            panel.advance(&class, tile.panel_k);
            ring.advance();
            i += 1;
        }
    }
}

/// Computes tile after tile.
///
/// # Safety
/// As [`run`]; all threads of one warpgroup.
#[inline(always)]
unsafe fn consume<P: Product<R>, const R: usize>(
    p: &ConvKMajorParams,
    at: Address,
    mut ring: Ring,
    tile: ConvTile,
    consumer: u32,
) {
    let thread = thread_idx_x() % WARPGROUP;
    let lane = thread % 32;
    let first_row = consumer * SUBTILE;
    let row = first_row + thread / 32 * 16 + lane / 4;
    let staging = ring.base + tile.panels_at() + (consumer * 4 + thread / 32) * STAGING_BYTES;
    let mut tiles = Tiles::new(tile);
    while tiles.is_left(&p.gather) {
        let (place, class) = tiles.next(&p.gather, at, tile);
        let n_panels = warp::uniform(k_panels(&p.gather, class, tile));
        let mut d: [P::Sum; R] = core::mem::zeroed();
        let mut freed = ring.empty();
        let mut panel = 0;
        while panel < n_panels {
            mbarrier::wait(ring.full(), ring.parity);
            let a = descriptor(ring.a() + first_row * ROW_BYTES, 16, SWIZZLE_PERIOD, Swizzle::B128);
            let b = descriptor(ring.b(), 16, SWIZZLE_PERIOD, Swizzle::B128);
            P::multiply(&mut d, a, b, u32::from(panel > 0));
            if panel > 0 {
                Ring::release(tile, freed, lane);
            }
            freed = ring.empty();
            ring.advance();
            panel += 1;
        }
        // Also where there was none: the sums must be the compiler's again on every path.
        P::finish(&mut d);
        if n_panels > 0 {
            Ring::release(tile, freed, lane);
        }
        let rows = [row_address(p, class, place, place.m + row), row_address(p, class, place, place.m + row + 8)];
        store::<P, R>(&p.store, rows, place.n, p.gather.gemm_n, &d, staging);
    }
}

/// Address of the first channel of a row of the written tensor, in this tile's group; 0 behind the last row.
#[inline(always)]
fn row_address(p: &ConvKMajorParams, class: &ConvClass, place: GatherPlace, row: u32) -> u64 {
    if row >= class.gemm_m {
        return 0;
    }
    let (n, [d, h, w]) = position(row, class.extents);
    let [sd, sh, sw] = class.strides;
    let image = i64::from(n) * p.gather.image_stride + class.offset;
    let offset = image + i64::from(d) * sd + i64::from(h) * sh + i64::from(w) * sw;
    let channel = i64::from(place.group * p.gather.gemm_n) * p.store.col_stride;
    p.gather.out + (offset + channel) as u64 * u64::from(p.store.element_bytes)
}

macro_rules! entries {
    ($(($symbol:ident, $dtype:ident, $tile:ident)),* $(,)?) => { $(
        /// # Safety
        /// The host passes maps and extents of live tensors in `params`.
        #[kernel(arch = "sm_90a", threads = 384, min_blocks = 1, tensor_maps = 17)]
        pub unsafe fn $symbol(params: ConvKMajorParams) {
            struct This;
            entries!(@product This, $dtype, $tile);
            let at = Address(param_tensor_map!($symbol, 0).0);
            run::<This, { ($tile.gemm_n / 2) as usize }>(&params, at, $tile)
        }
    )* };
    (@product $this:ident, $dtype:ident, KMAJOR_128X256) => {
        kmajor_product!($this, $dtype, $dtype, 256, 128);
    };
    (@product $this:ident, $dtype:ident, KMAJOR_128X128) => {
        kmajor_product!($this, $dtype, $dtype, 128, 64);
    };
    (@product $this:ident, $dtype:ident, KMAJOR_128X64) => {
        kmajor_product!($this, $dtype, $dtype, 64, 32);
    };
}

kernel_abi::conv_kmajor_wgmma_kernels!(entries);
