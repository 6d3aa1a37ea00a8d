//! The way out of the sums of `fprop` and `dgrad`: scaled and blended, panel by panel through shared memory, by copies of
//! the copy engine or by stores of threads.

use super::gather::Address;
use super::{Half, Product, WARPGROUP};
use crate::math::fused_epilogue::Added;
use cuda_std::barrier::{fence_proxy_async_shared, sync_named};
use cuda_std::thread::thread_idx_x;
use cuda_std::tma::{self, MapAddress};
use cuda_std::{ldmatrix, memory, schedule, shared, warp};
use kernel_abi::ops::conv::im2col_wgmma::{
    ConvClass, ConvGatherParams, ConvTile, GatherPlace, OUT_ROWS, PANEL, PANEL_BYTES, access, position,
};

/// Where a consumer's sums of a tile go.
pub(super) struct Out<'a> {
    class: &'a ConvClass,
    /// Its rows: by value, what is read through the reference is read again for every panel.
    rows: u32,
    map: MapAddress,
    /// Of panels that are narrower than others.
    narrow_map: MapAddress,
    place: GatherPlace,
    /// Where the panels lie on their way out.
    panels: u32,
    /// The first of the 16 rows of this warp.
    warp_row: u32,
    /// Its own row of the 16 that the warp writes at a time, and which 16 bytes of two.
    row: u32,
    half: u32,
    barrier: u32,
    /// Whether this thread queues the copies of its warp.
    leader: bool,
}

impl<'a> Out<'a> {
    #[inline(always)]
    pub(super) fn new(at: Address, class: &'a ConvClass, place: GatherPlace, consumer: u32, panels: u32) -> Self {
        let thread = thread_idx_x() % WARPGROUP;
        let warp_row = warp::uniform(thread / 32) * OUT_ROWS;
        Out {
            class,
            rows: class.gemm_m,
            map: at.out_map(place.class),
            narrow_map: at.narrow_out_map(),
            place,
            panels,
            warp_row,
            row: warp_row + thread % 16,
            half: thread % 32 / 16,
            barrier: 1 + consumer,
            leader: thread % 32 == 0,
        }
    }

    /// The tile.
    #[inline(always)]
    pub(super) fn place(&self) -> GatherPlace {
        self.place
    }

    /// The first row of the tile.
    #[inline(always)]
    pub(super) fn first_row(&self) -> u32 {
        self.place.m
    }
}

/// Scales the sums of the rows of instruction `I`, blends them with the prior values and sends them out, panel by panel,
/// those whose bits are set in `own`.
///
/// # Safety
/// As the kernel; all threads of one warpgroup.
#[inline(always)]
pub(super) unsafe fn subtile<P: Product<R, S>, E: Half, const R: usize, const S: usize, const I: usize>(
    p: &ConvGatherParams,
    d: &mut [f32; R],
    out: &Out<'_>,
    first_row: u32,
    own: u32,
) {
    // One test and then straight on: with tests in between, most of the time went to fetching the instructions that
    // were jumped to.
    let follows = follows::<P, R, S>(p);
    if p.beta == 0.0 && p.out_access <= access::IM2COL_3D && !follows {
        if p.alpha != 1.0 {
            let mut i = 0;
            while i < R {
                *d.get_unchecked_mut(i) *= p.alpha;
                i += 1;
            }
        }
        let together = const { together(P::TILE) };
        plain_panels::<P, E, R, S, I, 0>(p, d, out, first_row, own);
        if R > 32 && together < 2 {
            plain_panels::<P, E, R, S, I, 1>(p, d, out, first_row, own);
        }
        if R > 64 {
            plain_panels::<P, E, R, S, I, 2>(p, d, out, first_row, own);
        }
        if R > 96 && together < 2 {
            plain_panels::<P, E, R, S, I, 3>(p, d, out, first_row, own);
        }
    } else {
        panel::<P, E, R, S, I, 0>(p, d, out, first_row, own);
        if R > 32 {
            panel::<P, E, R, S, I, 1>(p, d, out, first_row, own);
        }
        if R > 64 {
            panel::<P, E, R, S, I, 2>(p, d, out, first_row, own);
        }
        if R > 96 {
            panel::<P, E, R, S, I, 3>(p, d, out, first_row, own);
        }
    }
}

/// Panels that leave together. To make them visible to the copy engine takes about as long as to write one; but where
/// there are buffers for few, the first of them is on its way while the next is written.
const fn together(tile: ConvTile) -> usize {
    if tile.out_panels == 4 { 2 } else { 1 }
}

/// Whether the sums become more than a blend: only `fprop` has an epilogue.
#[inline(always)]
fn follows<P: Product<R, S>, const R: usize, const S: usize>(p: &ConvGatherParams) -> bool {
    !P::B_IS_MN_MAJOR && P::TILE.has_epilogues() && p.epilogue.follows != 0
}

/// The buffer of panel `n` of instruction `I`: the buffers in turn. Every tile begins with the first.
#[inline(always)]
fn buffer<P: Product<R, S>, const R: usize, const S: usize, const I: usize>(out: &Out<'_>, n: usize) -> u32 {
    const { assert!((S * (R / 32)).is_multiple_of(P::TILE.out_panels as usize)) };
    out.panels + (I * (R / 32) + n) as u32 % P::TILE.out_panels * PANEL_BYTES
}

/// Waits until this warp's copy that last read the buffer in turn has done so: it was queued as many panels ago as
/// there are buffers.
///
/// # Safety
/// As [`subtile`].
#[inline(always)]
unsafe fn wait_for_buffer<P: Product<R, S>, const R: usize, const S: usize>(out: &Out<'_>) {
    if out.leader {
        match P::TILE.out_panels {
            1 => tma::wait_group_read::<0>(),
            2 => tma::wait_group_read::<1>(),
            3 => tma::wait_group_read::<2>(),
            _ => tma::wait_group_read::<3>(),
        }
    }
}

/// The panels from `N` on that leave [`together`], of the 64 rows of instruction `I`. Every warp sends the rows that it
/// holds, and waits for nobody.
///
/// One thread of the warp queues the copies, so that their addresses are computed once for all of them.
///
/// # Safety
/// As [`subtile`].
#[inline(always)]
unsafe fn plain_panels<P: Product<R, S>, E: Half, const R: usize, const S: usize, const I: usize, const N: usize>(
    p: &ConvGatherParams,
    d: &[f32; R],
    out: &Out<'_>,
    first_row: u32,
    own: u32,
) {
    let n_panels = const { together(P::TILE) };
    const { assert!(R.div_ceil(32).is_multiple_of(together(P::TILE))) };
    let leads = warp::elect();
    if leads {
        // The copies that read these buffers were queued as many groups ago as there are groups of buffers.
        match P::TILE.out_panels as usize / n_panels {
            1 => tma::wait_group_read::<0>(),
            2 => tma::wait_group_read::<1>(),
            _ => tma::wait_group_read::<2>(),
        }
    }
    warp::sync_warp();
    let mut n = N;
    while n < N + n_panels && own >> N & (1 << n_panels) - 1 != 0 {
        let buffer = buffer::<P, R, S, I>(out, n);
        plain_chunk::<E, R>(d, out, buffer, n, 0);
        plain_chunk::<E, R>(d, out, buffer, n, 1);
        if columns::<R>(n) > 32 {
            plain_chunk::<E, R>(d, out, buffer, n, 2);
            plain_chunk::<E, R>(d, out, buffer, n, 3);
        }
        n += 1;
    }
    fence_proxy_async_shared();
    warp::sync_warp();
    if leads {
        if first_row + out.warp_row < out.rows {
            let mut n = N;
            while n < N + n_panels {
                let col = out.place.n + n as u32 * PANEL;
                if col < p.gemm_n && own >> n & 1 != 0 {
                    store(p, out, first_row, buffer::<P, R, S, I>(out, n), (col, columns::<R>(n)));
                }
                n += 1;
            }
        }
        // Also where nothing was stored: the wait counts groups.
        tma::commit_group();
    }
}

/// Panel `N` of the 64 rows of instruction `I`, scaled and blended, with what follows.
///
/// # Safety
/// As [`subtile`].
#[inline(always)]
unsafe fn panel<P: Product<R, S>, E: Half, const R: usize, const S: usize, const I: usize, const N: usize>(
    p: &ConvGatherParams,
    d: &[f32; R],
    out: &Out<'_>,
    first_row: u32,
    own: u32,
) {
    let col = out.place.n + N as u32 * PANEL;
    let buffer = buffer::<P, R, S, I>(out, N);
    let is_own = own >> N & 1 != 0;
    if is_own && P::TILE.spreads() && !P::B_IS_MN_MAJOR && p.out_access == access::SPREAD {
        spread::<E, R, N, 0>(p, d, out, first_row, col);
        spread::<E, R, N, 1>(p, d, out, first_row, col);
        spread::<E, R, N, 2>(p, d, out, first_row, col);
        spread::<E, R, N, 3>(p, d, out, first_row, col);
    } else if is_own && col < p.gemm_n && first_row < out.class.gemm_m {
        let follows = follows::<P, R, S>(p);
        let added = if follows { added::<E>(p, out, first_row, col) } else { Added::NONE };
        wait_for_buffer::<P, R, S>(out);
        sync_named(out.barrier, WARPGROUP);
        chunk::<E, R, N, 0>(p, d, out, first_row, buffer, col, follows, &added);
        chunk::<E, R, N, 1>(p, d, out, first_row, buffer, col, follows, &added);
        if columns::<R>(N) > 32 {
            chunk::<E, R, N, 2>(p, d, out, first_row, buffer, col, follows, &added);
            chunk::<E, R, N, 3>(p, d, out, first_row, buffer, col, follows, &added);
        }
        if p.out_access == access::PLANES {
            sync_named(out.barrier, WARPGROUP);
            store_planes(p, out, first_row, buffer, (col, columns::<R>(N)));
        } else if P::TILE.writes_rows() && p.out_access == access::ROWS {
            warp::sync_warp();
            store_rows(p, out, first_row, buffer, col);
        } else {
            fence_proxy_async_shared();
            warp::sync_warp();
            if out.leader && first_row + out.warp_row < out.class.gemm_m {
                store(p, out, first_row, buffer, (col, columns::<R>(N)));
            }
        }
    }
    if out.leader {
        tma::commit_group();
    }
}

/// Loads what is added to this thread's sums of a panel.
///
/// # Safety
/// As [`subtile`].
#[inline(always)]
unsafe fn added<E: Half>(p: &ConvGatherParams, out: &Out<'_>, first_row: u32, first_col: u32) -> Added {
    let thread = schedule::opaque(thread_idx_x() % WARPGROUP);
    let row = first_row + thread / 32 * 16 + thread % 32 / 4;
    let col = first_col + thread % 4 * 2;
    let channel = out.place.group * p.gemm_n + col;
    let rows = if p.epilogue.z != 0 { [residual_row(p, out, row), residual_row(p, out, row + 8)] } else { [0; 2] };
    Added::load(&p.epilogue, col, channel, p.gemm_n, rows, E::unpack)
}

/// Address of the first channel of a row of the residual, in this tile's group; 0 behind the last row.
#[inline(always)]
fn residual_row(p: &ConvGatherParams, out: &Out<'_>, row: u32) -> u64 {
    if row >= out.class.gemm_m {
        return 0;
    }
    let (n, [d, h, w]) = position(row, out.class.extents);
    let [sd, sh, sw] = p.z_strides;
    let offset = i64::from(n) * p.z_image_stride + i64::from(d) * sd + i64::from(h) * sh + i64::from(w) * sw;
    p.epilogue.z + (offset + i64::from(out.place.group * p.gemm_n)) as u64 * 2
}

/// Columns of panel `n` of those that threads with `R` sums of a row of instructions hold.
const fn columns<const R: usize>(n: usize) -> u32 {
    let behind = 2 * R as u32 - n as u32 * PANEL;
    if behind < PANEL { behind } else { PANEL }
}

/// Where chunk `chunk` of 16 bytes of this thread's row lies in a panel of so many columns, in the swizzle of its width. The
/// rows of a warp begin where they do in a panel of full width: what another one has on its way out stays.
#[inline(always)]
fn chunk_address(out: &Out<'_>, buffer: u32, columns: u32, chunk: u32) -> u32 {
    if columns == PANEL {
        return buffer + out.row * 128 + (chunk ^ (out.row % 8)) * 16;
    }
    buffer + out.warp_row * 128 + out.row % OUT_ROWS * (2 * columns) + (chunk ^ (out.row / 2 % 4)) * 16
}

/// Queues the store of this warp's rows of a panel, told by its first column and its width.
///
/// # Safety
/// As [`subtile`]; one thread.
#[inline(always)]
unsafe fn store(p: &ConvGatherParams, out: &Out<'_>, first_row: u32, buffer: u32, (col, columns): (u32, u32)) {
    let c = (out.place.group * p.gemm_n + col) as i32;
    let row = first_row + out.warp_row;
    let from = buffer + out.warp_row * 128;
    let map = if columns == PANEL { out.map } else { out.narrow_map };
    if p.out_access == access::LINEAR {
        tma::store_2d(map, from, [c, row as i32]);
        return;
    }
    let (n, [d, h, w]) = position(row, out.class.extents);
    if p.out_access == access::IM2COL_2D {
        tma::store_im2col_4d(map, from, [c, w as i32, h as i32, n as i32]);
    } else {
        tma::store_im2col_5d(map, from, [c, w as i32, h as i32, d as i32, n as i32]);
    }
}

/// Copies a transposed panel to planes, `store_bytes` a thread at a time, neighbours to neighbours.
///
/// # Safety
/// As [`subtile`].
#[inline(always)]
unsafe fn store_planes(p: &ConvGatherParams, out: &Out<'_>, first_row: u32, buffer: u32, (col, columns): (u32, u32)) {
    let thread = schedule::opaque(thread_idx_x() % WARPGROUP);
    // A power of two, as `store_bytes` is: threads for a channel's 64 positions.
    let threads = 128 / (p.store_bytes | u32::from(p.store_bytes == 0));
    let shift = threads.trailing_zeros();
    let byte = (thread & (threads - 1)) * p.store_bytes;
    let first = prior_row(p, out, first_row + byte / 2);
    if first == 0 {
        return;
    }
    let mut channel = thread >> shift;
    let step = WARPGROUP >> shift;
    let n_channels = if p.gemm_n - col < columns { p.gemm_n - col } else { columns };
    let mut to = first + (i64::from(col + channel) * p.channel_stride) as u64 * 2;
    while channel < n_channels {
        let from = buffer + channel * 128 + ((byte / 16) ^ (channel % 8)) * 16 + byte % 16;
        match p.store_bytes {
            16 => memory::store_x4(to as *mut u32, shared::load_x4(from)),
            8 => memory::store_x2(to as *mut u32, shared::load_x2(from)),
            4 => memory::store_x1(to as *mut u32, shared::load_u32(from)),
            _ => *(to as *mut u16) = shared::load_u16(from),
        }
        channel += step;
        to += (i64::from(step) * p.channel_stride) as u64 * 2;
    }
}

/// Copies this warp's rows of a panel to positions of any number of channels, `store_bytes` a thread at a time,
/// neighbours to neighbours.
///
/// # Safety
/// As [`subtile`].
#[inline(always)]
unsafe fn store_rows(p: &ConvGatherParams, out: &Out<'_>, first_row: u32, buffer: u32, col: u32) {
    // A power of two, as `store_bytes` is: parts of a position's 64 channels.
    let parts = 128 / (p.store_bytes | u32::from(p.store_bytes == 0));
    let shift = parts.trailing_zeros();
    let mut part = schedule::opaque(thread_idx_x() % 32);
    while part < parts * OUT_ROWS {
        let row = out.warp_row + (part >> shift);
        let byte = (part & (parts - 1)) * p.store_bytes;
        let to = prior_row(p, out, first_row + row);
        if to != 0 && col + byte / 2 < p.gemm_n {
            let to = to + u64::from(2 * col + byte);
            let from = buffer + row * 128 + ((byte / 16) ^ (row % 8)) * 16 + byte % 16;
            match p.store_bytes {
                8 => memory::store_x2(to as *mut u32, shared::load_x2(from)),
                4 => memory::store_x1(to as *mut u32, shared::load_u32(from)),
                _ => *(to as *mut u16) = shared::load_u16(from),
            }
        }
        part += 32;
    }
}

/// Columns `16 J` to `16 J + 15` of panel `N`: eight sums a thread, scaled.
#[inline(always)]
unsafe fn scaled<const R: usize, const N: usize, const J: usize>(p: &ConvGatherParams, d: &[f32; R]) -> [f32; 8] {
    let sum = |i: usize| p.alpha * *d.get_unchecked(8 * (4 * N + J) + i);
    [sum(0), sum(1), sum(2), sum(3), sum(4), sum(5), sum(6), sum(7)]
}

/// Two numbers each as elements.
#[inline(always)]
fn packed<E: Half>(v: [f32; 8]) -> [u32; 4] {
    [E::pack(v[0], v[1]), E::pack(v[2], v[3]), E::pack(v[4], v[5]), E::pack(v[6], v[7])]
}

/// Brings columns `16 j` to `16 j + 15` of panel `n` to their place in a panel whose rows are positions.
///
/// # Safety
/// As [`subtile`].
#[inline(always)]
unsafe fn plain_chunk<E: Half, const R: usize>(d: &[f32; R], out: &Out<'_>, buffer: u32, n: usize, j: usize) {
    let pair = |i: usize| {
        let at = 8 * (4 * n + j) + 2 * i;
        E::pack(*d.get_unchecked(at), *d.get_unchecked(at + 1))
    };
    let to = chunk_address(out, buffer, columns::<R>(n), 2 * j as u32 + out.half);
    ldmatrix::store_x4(to, [pair(0), pair(1), pair(2), pair(3)]);
}

/// Brings [`scaled`] sums, blended with the prior values, to their place in a panel.
///
/// # Safety
/// As [`subtile`].
#[inline(always)]
#[allow(clippy::too_many_arguments)]
unsafe fn chunk<E: Half, const R: usize, const N: usize, const J: usize>(
    p: &ConvGatherParams,
    d: &[f32; R],
    out: &Out<'_>,
    first_row: u32,
    buffer: u32,
    panel_col: u32,
    follows: bool,
    added: &Added,
) {
    let mut v = scaled::<R, N, J>(p, d);
    if p.beta != 0.0 {
        // Opaque, so that addresses are not kept for all panels in registers, of which there are none left.
        let thread = schedule::opaque(thread_idx_x() % WARPGROUP);
        let row = first_row + thread / 32 * 16 + thread % 32 / 4;
        let col = panel_col + 16 * J as u32 + thread % 4 * 2;
        let blend = |v: f32, row: u64, col: u32| v + p.beta * prior::<E>(p, row, col);
        let upper = prior_row(p, out, row);
        (v[0], v[1]) = (blend(v[0], upper, col), blend(v[1], upper, col + 1));
        (v[4], v[5]) = (blend(v[4], upper, col + 8), blend(v[5], upper, col + 9));
        let lower = prior_row(p, out, row + 8);
        (v[2], v[3]) = (blend(v[2], lower, col), blend(v[3], lower, col + 1));
        (v[6], v[7]) = (blend(v[6], lower, col + 8), blend(v[7], lower, col + 9));
    }
    if follows {
        added.finish(&p.epilogue, J, &mut v, E::unpack);
    }
    let packed = packed::<E>(v);
    if p.out_access == access::PLANES {
        // Rows of the panel are channels. Each matrix goes to 8 of them, at the warp's 16 positions: two chunks.
        let thread = schedule::opaque(thread_idx_x() % WARPGROUP);
        let row = 16 * J as u32 + thread % 32 / 16 * 8 + thread % 8;
        let chunk = (thread / 32 * 2 + thread / 8 % 2) ^ (row % 8);
        ldmatrix::store_x4_transposed(buffer + row * 128 + chunk * 16, packed);
    } else {
        ldmatrix::store_x4(chunk_address(out, buffer, columns::<R>(N), 2 * J as u32 + out.half), packed);
    }
}

/// Address of the first channel of a row of the written tensor, in this tile's group; 0 behind the last row.
#[inline(always)]
fn prior_row(p: &ConvGatherParams, out: &Out<'_>, row: u32) -> u64 {
    if row >= out.class.gemm_m {
        return 0;
    }
    let (n, [d, h, w]) = position(row, out.class.extents);
    let [sd, sh, sw] = out.class.strides;
    let image = i64::from(n) * p.image_stride + out.class.offset;
    let offset = image + i64::from(d) * sd + i64::from(h) * sh + i64::from(w) * sw;
    p.out + (offset + i64::from(out.place.group * p.gemm_n) * p.channel_stride) as u64 * 2
}

/// An element of the written tensor before the run; 0 outside.
///
/// # Safety
/// As [`subtile`].
#[inline(always)]
unsafe fn prior<E: Half>(p: &ConvGatherParams, row: u64, col: u32) -> f32 {
    if row == 0 || col >= p.gemm_n {
        return 0.0;
    }
    E::unpack(*(row as *const u16).offset((i64::from(col) * p.channel_stride) as isize))
}

/// Writes columns `16 J` to `16 J + 15` of panel `N`, which are positions and channels, element by element, or two
/// neighbouring channels at a time.
///
/// # Safety
/// As [`subtile`].
#[inline(always)]
unsafe fn spread<E: Half, const R: usize, const N: usize, const J: usize>(
    p: &ConvGatherParams,
    d: &[f32; R],
    out: &Out<'_>,
    first_row: u32,
    panel_col: u32,
) {
    let thread = thread_idx_x() % WARPGROUP;
    let first_col = panel_col + 16 * J as u32;
    if first_col >= p.gemm_n {
        return;
    }
    let at = |i: usize| {
        let row = first_row + thread / 32 * 16 + thread % 32 / 4 + (i as u32 / 2 % 2) * 8;
        spread_address(p, out, row, first_col + thread % 4 * 2 + (i as u32 / 4) * 8 + i as u32 % 2)
    };
    let sum = |i: usize| p.alpha * *d.get_unchecked(8 * (4 * N + J) + i);
    let pairs = p.store_bytes == 4 && p.beta == 0.0;
    let mut i = 0;
    while i < 8 {
        let to = if pairs && i % 2 == 1 { 0 } else { at(i) };
        if to != 0 && pairs {
            memory::store_x1(to as *mut u32, E::pack(sum(i), sum(i | 1)));
        } else if to != 0 {
            let to = to as *mut u16;
            let mut sum = sum(i);
            if p.beta != 0.0 {
                sum += p.beta * E::unpack(*to);
            }
            *to = E::pack(sum, 0.0) as u16;
        }
        i += 1;
    }
}

/// Address of the element that a row and a column are; 0 where there is none.
#[inline(always)]
fn spread_address(p: &ConvGatherParams, out: &Out<'_>, row: u32, col: u32) -> u64 {
    let (n, [plane, h, w]) = position(row, out.class.extents);
    let (rest, c) = p.spread[2].div_rem(col);
    let (a, b) = p.spread[1].div_rem(rest);
    let (h, w) = (h * p.spread[0].divisor + a, w * p.spread[1].divisor + b);
    if row >= out.class.gemm_m || col >= p.gemm_n || h >= p.spread_extents[0] || w >= p.spread_extents[1] {
        return 0;
    }
    let offset = i64::from(n) * p.image_stride
        + i64::from(plane) * out.class.strides[0]
        + i64::from(h) * p.spread_strides[0]
        + i64::from(w) * p.spread_strides[1]
        + i64::from(c) * p.spread_strides[2];
    p.out + 2 * offset as u64
}
