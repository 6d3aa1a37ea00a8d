//! f32 convolution in scalar arithmetic, for every GPU and operands of any strides: see
//! [`kernel_abi::ops::conv::ffma`] for the products.
//!
//! Grid: a block for each tile of 128 × 128 or 64 × 64 of each group. Block: 256 or 64 threads, each of which computes
//! 8 × 8 sums as `matmul`'s `ffma` does. Shared memory: dynamic, `FfmaTile::smem_bytes`: a ring of stages, of both
//! operands, `[8 of the sum][rows or columns]`. Elements come one by one, by asynchronous copies: a thread loads for one
//! of eight terms, and for rows or columns that stay the same; what lies outside of the tensors is zero.

use super::grouped_mma::unroll;
use crate::ops::matmul::ffma::{floats, multiply};
use cuda_std::barrier::sync_threads;
use cuda_std::thread::{block_idx_x, thread_idx_x};
use cuda_std::{cp_async, shared};
use kernel_abi::ops::conv::ffma::{ConvFfmaParams, ConvFfmaWgradParams, FFMA_K, FFMA_STAGES, FfmaTile};
use kernel_abi::ops::conv::im2col_wgmma::position;

/// A position that is in no tensor, whatever tap is added to it.
const NOWHERE: i32 = i32::MIN / 2;

/// One operand's elements, eight terms after the other.
trait Side {
    /// Begins to load the next eight terms to `to`, and goes on to those behind.
    ///
    /// # Safety
    /// Nobody reads the stage; all threads call it.
    unsafe fn begin(&mut self, to: u32);
}

/// Which elements of a tile a thread loads.
#[derive(Clone, Copy)]
struct Share {
    /// The term of the sum, of eight.
    k: u32,
    /// The first row or column, and how far it is to the next.
    mn: u32,
    apart: u32,
    /// Where the first goes, from the operand's tile on.
    to: u32,
}

impl Share {
    /// With `mn_first`, neighbouring threads load for neighbouring rows or columns, else for neighbouring terms.
    #[inline(always)]
    fn new(tile: FfmaTile, mn_first: bool) -> Self {
        let thread = thread_idx_x();
        let lanes = tile.lanes();
        let (k, mn) = if mn_first { (thread / lanes, thread % lanes) } else { (thread % FFMA_K, thread / FFMA_K) };
        Share { k, mn, apart: lanes, to: k * tile.pitch() + mn * 4 }
    }
}

/// A term of `fprop`'s and `dgrad`'s sum: a channel at a tap.
struct Term {
    c: u32,
    tap: [u32; 3],
}

impl Term {
    #[inline(always)]
    fn new(p: &ConvFfmaParams, k: u32) -> Self {
        let mut term = Term { c: k, tap: [0; 3] };
        term.carry(p);
        term
    }

    /// Eight terms on.
    #[inline(always)]
    fn advance(&mut self, p: &ConvFfmaParams) {
        self.c += FFMA_K;
        self.carry(p);
    }

    #[inline(always)]
    fn carry(&mut self, p: &ConvFfmaParams) {
        while self.c >= p.channels {
            self.c -= p.channels;
            self.tap[2] += 1;
            if self.tap[2] >= p.taps[2] {
                self.tap[2] = 0;
                self.tap[1] += 1;
                if self.tap[1] >= p.taps[1] {
                    self.tap[1] = 0;
                    self.tap[0] += 1;
                }
            }
        }
    }

    /// Whether it is one of the sum.
    #[inline(always)]
    fn exists(&self, p: &ConvFfmaParams) -> bool {
        self.tap[0] < p.taps[0]
    }
}

/// Elements of the tensor that is read: rows are positions, `E` of them a thread's.
struct Read<'a, const E: usize> {
    p: &'a ConvFfmaParams,
    share: Share,
    term: Term,
    /// Where each row reads with the first tap: address and position.
    at: [u64; E],
    position: [[i32; 3]; E],
}

impl<'a, const E: usize> Read<'a, E> {
    /// # Safety
    /// As [`gather`].
    #[inline(always)]
    unsafe fn new(p: &'a ConvFfmaParams, tile: FfmaTile, group: u32, first_row: u32) -> Self {
        let share = Share::new(tile, p.positions_first != 0);
        let mut read = Read { p, share, term: Term::new(p, share.k), at: [0; E], position: [[NOWHERE, 0, 0]; E] };
        let channel = i64::from(group) * i64::from(p.channels) * p.read_strides[1];
        unroll!(I in [0 1 2 3 4 5 6 7] {
            let row = first_row + share.mn + I as u32 * share.apart;
            if I < E && row < p.gemm_m {
                let (n, at) = position(row, p.extents);
                let [d, h, w] = [0, 1, 2].map(|axis: usize| (at[axis] * p.step[axis]) as i32 + p.base[axis]);
                let [sn, _, sd, sh, sw] = p.read_strides;
                let offset = channel + i64::from(n) * sn + i64::from(d) * sd + i64::from(h) * sh + i64::from(w) * sw;
                *read.at.get_unchecked_mut(I) = p.read.wrapping_add(offset as u64 * 4);
                *read.position.get_unchecked_mut(I) = [d, h, w];
            }
        });
        read
    }
}

impl<const E: usize> Side for Read<'_, E> {
    #[inline(always)]
    unsafe fn begin(&mut self, to: u32) {
        let p = self.p;
        let (exists, c) = (self.term.exists(p), self.term.c);
        let tap = [0, 1, 2].map(|axis: usize| self.term.tap[axis] * p.tap_offset[axis]);
        let [_, sc, sd, sh, sw] = p.read_strides;
        let offset = i64::from(c) * sc + i64::from(tap[0]) * sd + i64::from(tap[1]) * sh + i64::from(tap[2]) * sw;
        let to = to + self.share.to;
        unroll!(I in [0 1 2 3 4 5 6 7] {
            if I < E {
                let [d, h, w] = *self.position.get_unchecked(I);
                let inside = exists
                    && d.wrapping_add(tap[0] as i32) as u32 <= last(p.read_extents[0])
                    && h.wrapping_add(tap[1] as i32) as u32 <= last(p.read_extents[1])
                    && w.wrapping_add(tap[2] as i32) as u32 <= last(p.read_extents[2]);
                let from = self.at.get_unchecked(I).wrapping_add(offset as u64 * 4);
                load(to + I as u32 * self.share.apart * 4, from, inside);
            }
        });
        self.term.advance(p);
    }
}

/// The last index of an extent of at least 1.
#[inline(always)]
fn last(extent: u32) -> u32 {
    extent - 1
}

/// Begins to load an element, or a zero where there is none.
///
/// # Safety
/// Where there is one, it is `from`; `to` is shared memory for it.
#[inline(always)]
unsafe fn load(to: u32, from: u64, there: bool) {
    cp_async::copy_x1(to, from as *const u8, if there { 4 } else { 0 });
}

/// The filter's elements: columns are channels that are written.
struct Filter<'a, const E: usize> {
    p: &'a ConvFfmaParams,
    share: Share,
    term: Term,
    /// The first column's, at the first tap.
    at: u64,
    first_column: u32,
}

impl<'a, const E: usize> Filter<'a, E> {
    #[inline(always)]
    fn new(p: &'a ConvFfmaParams, tile: FfmaTile, group: u32, first_column: u32) -> Self {
        let share = Share::new(tile, p.columns_first != 0);
        let first_column = first_column + share.mn;
        let offset =
            i64::from(group) * p.filter_strides[0] + i64::from(first_column) * p.filter_strides[1] + p.first_tap;
        let at = p.filter.wrapping_add(offset as u64 * 4);
        Filter { p, share, term: Term::new(p, share.k), at, first_column }
    }
}

impl<const E: usize> Side for Filter<'_, E> {
    #[inline(always)]
    unsafe fn begin(&mut self, to: u32) {
        let p = self.p;
        let [t, r, s] = self.term.tap;
        let offset = i64::from(self.term.c) * p.filter_strides[2]
            + i64::from(t) * p.tap_steps[0]
            + i64::from(r) * p.tap_steps[1]
            + i64::from(s) * p.tap_steps[2];
        let exists = self.term.exists(p);
        let mut from = self.at.wrapping_add(offset as u64 * 4);
        let apart = (i64::from(self.share.apart) * p.filter_strides[1]) as u64 * 4;
        let mut column = self.first_column;
        let to = to + self.share.to;
        unroll!(I in [0 1 2 3 4 5 6 7] {
            if I < E {
                load(to + I as u32 * self.share.apart * 4, from, exists && column < p.gemm_n);
                from = from.wrapping_add(apart);
                column += self.share.apart;
            }
        });
        self.term.advance(p);
    }
}

/// `fprop` and `dgrad`.
///
/// # Safety
/// The host passes live tensors of these extents and strides, and launches `tile.threads()` threads with
/// `tile.smem_bytes()` bytes of shared memory. `E` is the tile's rows by its lanes.
#[inline(always)]
pub(super) unsafe fn gather<const E: usize>(p: &ConvFfmaParams, tile: FfmaTile) {
    let (rest, n) = p.n_blocks.div_rem(block_idx_x());
    let (m, group) = p.groups.div_rem(rest);
    let (m, n) = (m * tile.0, n * tile.0);
    let read = Read::<E>::new(p, tile, group, m);
    let filter = Filter::<E>::new(p, tile, group, n);
    let terms = p.taps[0] * p.taps[1] * p.taps[2] * p.channels;
    let sums = product(tile, terms.div_ceil(FFMA_K), read, filter);
    let across = tile.0 / 8;
    let (row, col) = (m + thread_idx_x() / across * 4, n + thread_idx_x() % across * 4);
    unroll!(I in [0 1 2 3 4 5 6 7] {
        let row = row + if I < 4 { I as u32 } else { tile.0 / 2 + I as u32 - 4 };
        if row < p.gemm_m {
            let (image, at) = position(row, p.extents);
            let [sn, _, sd, sh, sw] = p.out_strides;
            let at = at.map(i64::from);
            let offset = i64::from(image) * sn + at[0] * sd + at[1] * sh + at[2] * sw;
            let channel = i64::from(group) * i64::from(p.gemm_n);
            unroll!(J in [0 1 2 3 4 5 6 7] {
                let col = col + if J < 4 { J as u32 } else { tile.0 / 2 + J as u32 - 4 };
                if col < p.gemm_n {
                    let to = offset + (channel + i64::from(col)) * p.out_strides[1];
                    store((p.out as *mut f32).offset(to as isize), sums[I][J], p.alpha, p.beta);
                }
            });
        }
    });
}

/// Scales a sum, blends it with the prior value, and stores it.
///
/// # Safety
/// `to` is an element of the tensor that is written.
#[inline(always)]
unsafe fn store(to: *mut f32, sum: f32, alpha: f32, beta: f32) {
    let mut v = alpha * sum;
    if beta != 0.0 {
        v += beta * *to;
    }
    *to = v;
}

/// The sums of a tile: the ring of stages, from both sides' first terms on.
///
/// # Safety
/// As [`gather`].
#[inline(always)]
unsafe fn product(tile: FfmaTile, blocks: u32, mut a: impl Side, mut b: impl Side) -> [[f32; 8]; 8] {
    let base = shared::dynamic_address();
    let across = tile.0 / 8;
    let (row, col) = (thread_idx_x() / across * 16, thread_idx_x() % across * 16);
    let half = tile.0 * 2;
    let mut sums: [[f32; 8]; 8] = core::mem::zeroed();
    // Loads run ahead by all stages but the one that is read; one loop for their start, the middle and the end.
    let ahead = FFMA_STAGES - 1;
    let (mut block, mut fill) = (0, 0);
    while block < blocks + ahead {
        // The stage that is read now is there, for all threads after the barrier, and nobody reads the one before.
        cp_async::wait_group::<{ FFMA_STAGES - 2 }>();
        sync_threads();
        if block < blocks {
            let to = base + fill * 2 * tile.operand_bytes();
            a.begin(to);
            b.begin(to + tile.operand_bytes());
        }
        cp_async::commit_group();
        fill = if fill == ahead { 0 } else { fill + 1 };
        if block >= ahead {
            let now = base + fill * 2 * tile.operand_bytes();
            let (mut a_at, mut b_at) = (now + row, now + tile.operand_bytes() + col);
            let mut k = 0;
            while k < FFMA_K {
                let (a0, a1) = (shared::load_x4(a_at), shared::load_x4(a_at + half));
                let (b0, b1) = (shared::load_x4(b_at), shared::load_x4(b_at + half));
                multiply(&mut sums, floats(a0, a1), floats(b0, b1));
                a_at += tile.pitch();
                b_at += tile.pitch();
                k += 1;
            }
        }
        block += 1;
    }
    sums
}

/// dy: rows are its channels, terms positions.
struct Gradient<'a, const E: usize> {
    p: &'a ConvFfmaWgradParams,
    share: Share,
    at: u64,
    first_row: u32,
    position: u32,
}

impl<const E: usize> Side for Gradient<'_, E> {
    #[inline(always)]
    unsafe fn begin(&mut self, to: u32) {
        let p = self.p;
        let (n, at) = position(self.position, p.output);
        let [sn, sk, sd, sh, sw] = p.dy_strides;
        let at = at.map(i64::from);
        let offset = i64::from(n) * sn + at[0] * sd + at[1] * sh + at[2] * sw;
        let mut from = self.at.wrapping_add(offset as u64 * 4);
        let apart = (i64::from(self.share.apart) * sk) as u64 * 4;
        let mut row = self.first_row;
        let to = to + self.share.to;
        unroll!(I in [0 1 2 3 4 5 6 7] {
            if I < E {
                load(to + I as u32 * self.share.apart * 4, from, self.position < p.positions && row < p.group_k);
                from = from.wrapping_add(apart);
                row += self.share.apart;
            }
        });
        self.position += FFMA_K;
    }
}

/// x: columns are taps and channels, terms positions of y.
struct Windows<'a, const E: usize> {
    p: &'a ConvFfmaWgradParams,
    share: Share,
    /// Where each column reads for position 0: address and position.
    at: [u64; E],
    offset: [[i32; 3]; E],
    position: u32,
}

impl<'a, const E: usize> Windows<'a, E> {
    /// # Safety
    /// As [`wgrad`].
    #[inline(always)]
    unsafe fn new(p: &'a ConvFfmaWgradParams, tile: FfmaTile, group: u32, first_column: u32) -> Self {
        let share = Share::new(tile, p.positions_first == 0);
        let mut windows = Windows { p, share, at: [0; E], offset: [[NOWHERE, 0, 0]; E], position: share.k };
        unroll!(I in [0 1 2 3 4 5 6 7] {
            let column = first_column + share.mn + I as u32 * share.apart;
            if I < E && column < p.columns {
                let (tap, c) = p.group_c.div_rem(column);
                let (_, mut tap) = position(tap, p.filter);
                if p.flip != 0 {
                    tap = [0, 1, 2].map(|axis: usize| p.filter[axis].divisor - 1 - tap[axis]);
                }
                let [d, h, w] = [0, 1, 2].map(|axis: usize| (tap[axis] * p.dilation[axis]) as i32 - p.padding[axis]);
                let [_, sc, sd, sh, sw] = p.x_strides;
                let channel = i64::from(group) * i64::from(p.group_c.divisor) + i64::from(c);
                let offset = channel * sc + i64::from(d) * sd + i64::from(h) * sh + i64::from(w) * sw;
                *windows.at.get_unchecked_mut(I) = p.x.wrapping_add(offset as u64 * 4);
                *windows.offset.get_unchecked_mut(I) = [d, h, w];
            }
        });
        windows
    }
}

impl<const E: usize> Side for Windows<'_, E> {
    #[inline(always)]
    unsafe fn begin(&mut self, to: u32) {
        let p = self.p;
        let (n, at) = position(self.position, p.output);
        let at = [0, 1, 2].map(|axis: usize| at[axis] * p.stride[axis]);
        let [sn, _, sd, sh, sw] = p.x_strides;
        let offset = i64::from(n) * sn + i64::from(at[0]) * sd + i64::from(at[1]) * sh + i64::from(at[2]) * sw;
        let exists = self.position < p.positions;
        let to = to + self.share.to;
        unroll!(I in [0 1 2 3 4 5 6 7] {
            if I < E {
                let [d, h, w] = *self.offset.get_unchecked(I);
                let inside = exists
                    && d.wrapping_add(at[0] as i32) as u32 <= last(p.image[0])
                    && h.wrapping_add(at[1] as i32) as u32 <= last(p.image[1])
                    && w.wrapping_add(at[2] as i32) as u32 <= last(p.image[2]);
                let from = self.at.get_unchecked(I).wrapping_add(offset as u64 * 4);
                load(to + I as u32 * self.share.apart * 4, from, inside);
            }
        });
        self.position += FFMA_K;
    }
}

/// `wgrad`.
///
/// # Safety
/// As [`gather`].
#[inline(always)]
pub(super) unsafe fn wgrad<const E: usize>(p: &ConvFfmaWgradParams, tile: FfmaTile) {
    let (rest, n) = p.n_blocks.div_rem(block_idx_x());
    let (group, m) = p.m_blocks.div_rem(rest);
    let (m, n) = (m * tile.0, n * tile.0);
    let share = Share::new(tile, p.positions_first == 0);
    let first_row = m + share.mn;
    let row = i64::from(group) * i64::from(p.group_k) + i64::from(first_row);
    let at = p.dy.wrapping_add((row * p.dy_strides[1]) as u64 * 4);
    let gradient = Gradient::<E> { p, share, at, first_row, position: share.k };
    let windows = Windows::<E>::new(p, tile, group, n);
    let sums = product(tile, p.positions.div_ceil(FFMA_K), gradient, windows);
    let across = tile.0 / 8;
    let (row, col) = (m + thread_idx_x() / across * 4, n + thread_idx_x() % across * 4);
    unroll!(J in [0 1 2 3 4 5 6 7] {
        let col = col + if J < 4 { J as u32 } else { tile.0 / 2 + J as u32 - 4 };
        if col < p.columns {
            let (tap, c) = p.group_c.div_rem(col);
            let (_, tap) = position(tap, p.filter);
            let [sk, sc, st, sr, ss] = p.dw_strides;
            let tap = tap.map(i64::from);
            let offset = i64::from(c) * sc + tap[0] * st + tap[1] * sr + tap[2] * ss;
            unroll!(I in [0 1 2 3 4 5 6 7] {
                let row = row + if I < 4 { I as u32 } else { tile.0 / 2 + I as u32 - 4 };
                if row < p.group_k {
                    let k = i64::from(group) * i64::from(p.group_k) + i64::from(row);
                    store((p.dw as *mut f32).offset((offset + k * sk) as isize), sums[I][J], p.alpha, p.beta);
                }
            });
        }
    });
}
