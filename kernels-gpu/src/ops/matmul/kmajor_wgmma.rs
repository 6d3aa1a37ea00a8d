//! Products of 8-bit numbers, and of f32 in tf32, of operands with the dimension of the sum contiguous: see
//! [`MatmulKMajorParams`].
//!
//! Grid, block and the order of work are those of `tma_wgmma`: a producer and two consumers with half of a tile's rows
//! each. Results are stored by threads, so they may lie anyhow.

use super::tma_wgmma::{
    CONSUMER_REGISTERS, Maps, PANEL_BYTES, PRODUCER_REGISTERS, Ring, SWIZZLE_PERIOD, Sharers, Unit, Units, WARPGROUP,
    begin, coordinates, load, release,
};
use crate::math::kmajor::{Product, STAGING_BYTES, elements, kmajor_product, store};
use cuda_std::thread::thread_idx_x;
use cuda_std::tma::EVICT_NORMAL;
use cuda_std::wgmma::{Swizzle, descriptor};
use cuda_std::{kernel, mbarrier, param_tensor_map, schedule, warp};
use kernel_abi::ops::matmul::{MatmulKMajorParams, MatmulTile, Place, Raster, TILE_128X64, TILE_128X128, TILE_128X256};

/// The kernel.
///
/// # Safety
/// The host passes maps and extents of live matrices, and launches `tile.threads()` threads with `tile.smem_bytes()`
/// bytes of shared memory.
#[inline(always)]
unsafe fn run<P: Product<R>, const R: usize>(p: &MatmulKMajorParams, maps: Maps, tile: MatmulTile) {
    let (ring, warpgroup) = begin(tile, &maps, false, Sharers::ALONE, 1);
    schedule::wait_for_predecessors();
    let units = Units::new(Raster::new(tile, &p.product), tile, Sharers::ALONE);
    if warpgroup == 0 {
        schedule::release_registers::<PRODUCER_REGISTERS>();
        if thread_idx_x() == 0 {
            produce::<P, R>(p, &maps, units, ring, tile);
        }
    } else {
        schedule::acquire_registers::<CONSUMER_REGISTERS>();
        consume::<P, R>(p, units, ring, tile, warpgroup - 1);
    }
}

/// Loads stage after stage, of tile after tile.
///
/// # Safety
/// As [`run`]; one thread.
#[inline(always)]
unsafe fn produce<P: Product<R>, const R: usize>(
    p: &MatmulKMajorParams,
    maps: &Maps,
    mut units: Units,
    mut ring: Ring,
    tile: MatmulTile,
) {
    while units.is_left(&p.product) {
        let Unit { place, first_k, k_blocks, .. } = units.next(&p.product);
        let a_batch = coordinates(place.batch, p.product.a_batch_steps);
        let b_batch = coordinates(place.batch, p.product.b_batch_steps);
        let mut block = 0;
        while block < k_blocks {
            let k = elements(first_k + block * tile.gemm_k, P::ELEMENT_BYTES) as u32;
            mbarrier::wait(ring.empty(), ring.parity ^ 1);
            mbarrier::arrive_expect_bytes(ring.full(), tile.loaded_bytes(false));
            let (a, b, bar) = (ring.a(), ring.a() + tile.a_bytes(), ring.full());
            load(false, tile.gemm_m, Sharers::ALONE, a, maps.a, bar, EVICT_NORMAL, place.m, k, a_batch);
            load(false, tile.gemm_n, Sharers::ALONE, b, maps.b, bar, EVICT_NORMAL, place.n, k, b_batch);
            ring.advance();
            block += 1;
        }
    }
}

/// Computes tile after tile.
///
/// # Safety
/// As [`run`]; all threads of one warpgroup.
#[inline(always)]
unsafe fn consume<P: Product<R>, const R: usize>(
    p: &MatmulKMajorParams,
    mut units: Units,
    mut ring: Ring,
    tile: MatmulTile,
    consumer: u32,
) {
    let thread = thread_idx_x() % WARPGROUP;
    let lane = thread % 32;
    let row = consumer * 64 + thread / 32 * 16 + lane / 4;
    let staging = ring.base + tile.panels_at() + (consumer * 4 + thread / 32) * STAGING_BYTES;
    while units.is_left(&p.product) {
        let Unit { place, k_blocks, .. } = units.next(&p.product);
        let k_blocks = warp::uniform(k_blocks);
        let mut d: [P::Sum; R] = core::mem::zeroed();
        let mut freed = ring.empty();
        let mut block = 0;
        // At least one block: a way around all products would be one on which sums are set by something else.
        loop {
            mbarrier::wait(ring.full(), ring.parity);
            let a = descriptor(ring.a() + consumer * PANEL_BYTES, 16, SWIZZLE_PERIOD, Swizzle::B128);
            let b = descriptor(ring.a() + tile.a_bytes(), 16, SWIZZLE_PERIOD, Swizzle::B128);
            P::multiply(&mut d, a, b, u32::from(block > 0));
            if block > 0 {
                release(Sharers::ALONE, freed, lane);
            }
            freed = ring.empty();
            ring.advance();
            block += 1;
            if block >= k_blocks {
                break;
            }
        }
        P::finish(&mut d);
        release(Sharers::ALONE, freed, lane);
        let rows = [row_address(p, place, place.m + row), row_address(p, place, place.m + row + 8)];
        store::<P, R>(&p.store, rows, place.n, p.product.gemm_n, &d, staging);
    }
}

/// Address of the first column of a row of c; 0 behind the last row.
#[inline(always)]
fn row_address(p: &MatmulKMajorParams, place: Place, row: u32) -> u64 {
    let (c, [outer, middle, inner]) = (&p.product.c, place.batch);
    if row >= p.product.gemm_m {
        return 0;
    }
    let [s0, s1, s2] = c.batch_strides;
    let matrix = i64::from(outer) * s0 + i64::from(middle) * s1 + i64::from(inner) * s2;
    c.address + (matrix + i64::from(row) * c.row_stride) as u64 * u64::from(p.store.element_bytes)
}

macro_rules! entries {
    ($(($symbol:ident, $a:ident, $b:ident, $tile:ident)),* $(,)?) => { $(
        /// # Safety
        /// The host passes maps and extents of live matrices in `params`.
        #[kernel(arch = "sm_90a", threads = 384, min_blocks = 1, tensor_maps = 3)]
        pub unsafe fn $symbol(params: MatmulKMajorParams) {
            struct This;
            entries!(@product This, $a, $b, $tile);
            let maps = Maps {
                a: param_tensor_map!($symbol, 0),
                b: param_tensor_map!($symbol, 1),
                c: param_tensor_map!($symbol, 2),
            };
            run::<This, { ($tile.gemm_n / 2) as usize }>(&params, maps, $tile)
        }
    )* };
    (@product $this:ident, $a:ident, $b:ident, TILE_128X256) => {
        kmajor_product!($this, $a, $b, 256, 128);
    };
    (@product $this:ident, $a:ident, $b:ident, TILE_128X128) => {
        kmajor_product!($this, $a, $b, 128, 64);
    };
    (@product $this:ident, $a:ident, $b:ident, TILE_128X64) => {
        kmajor_product!($this, $a, $b, 64, 32);
    };
}

kernel_abi::matmul_kmajor_wgmma_kernels!(entries);
