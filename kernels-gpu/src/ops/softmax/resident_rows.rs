//! A row in the shared memory of a block, forward: the copy engine brings it, each warp waits for its own run of it, and what is
//! read there again takes no registers. So a multiprocessor has several rows at a time, and while one is waited for, others are
//! worked on or written.
//!
//! Powers are relative to a warp's own maximum, and computed twice: for the sum, and once the row's sum is known.
//!
//! Rows of whole pieces that lie at multiples of 16 bytes.
//!
//! Grid: a block a row. Block: up to [`THREADS`]. Shared memory: the row, in the dynamic area.

use super::streamed_rows::{Finish, store};
use crate::math::rows::{MAX_LANES, Online, Powers, Vector, Words, finite, map, max_of, reduce};
use core::mem::size_of;
use core::ptr::null_mut;
use cuda_std::{math, mbarrier, schedule, shared, thread, tma, warp};
use kernel_abi::ops::softmax::resident_rows::THREADS;
use kernel_abi::ops::softmax::{SoftmaxKind, SoftmaxLanesParams};

const LANES: u32 = 32;

/// Warps of a block, at most.
pub(super) const WARPS: usize = (THREADS / LANES) as usize;

/// Bytes of a piece.
const PIECE: u32 = size_of::<Words>() as u32;

/// Pieces of 128 bytes, a multiple of which all runs but the last of a row are.
const LINE_PIECES: u32 = 128 / PIECE;

/// A block's arrays.
pub(super) struct Shared {
    /// One for each warp.
    pub(super) barriers: *mut u64,
    /// What each warp has found out: its maximum and its sum.
    pub(super) found: *mut [f32; 2],
}

/// A warp's run of a row.
struct Run {
    /// The lane's first piece of the row, and behind the warp's last one.
    piece: u32,
    end: u32,
    /// Shared-window address of the row.
    row: u32,
}

impl Run {
    /// Has the run copied, and waits for it.
    #[inline(always)]
    unsafe fn new<T: Vector>(p: &SoftmaxLanesParams, barriers: *mut u64) -> Self {
        let (warps, warp, lane) = (thread::block_dim_x() / LANES, thread::warp_idx(), thread::lane_id());
        let n_pieces = p.row_elems / T::LANES as u32;
        let n_lines = n_pieces.div_ceil(LINE_PIECES);
        let end = (warp + 1) * n_lines / warps * LINE_PIECES;
        let (begin, end) = (warp * n_lines / warps * LINE_PIECES, if end < n_pieces { end } else { n_pieces });
        let (barrier, row) = (shared::address(barriers.add(warp as usize)), shared::dynamic_address());
        if lane == 0 {
            mbarrier::init(barrier, 1);
            mbarrier::fence_init();
        }
        schedule::wait_for_predecessors();
        if begin < end {
            if lane == 0 {
                let bytes = (end - begin) * PIECE;
                let from = place::<T>(p.input, p.in_pitch) + u64::from(begin * PIECE);
                mbarrier::arrive_expect_bytes(barrier, bytes);
                tma::load_bytes(row + begin * PIECE, from as *const u8, bytes, barrier);
            }
            warp::sync_warp();
            mbarrier::wait(barrier, 0);
        }
        Run { piece: begin + lane, end, row }
    }

    /// Calls `each` with the lane's pieces and their numbers.
    #[inline(always)]
    unsafe fn for_each(&self, mut each: impl FnMut(u32, Words)) {
        let mut piece = self.piece;
        while piece < self.end {
            each(piece, shared::load_x4(self.row + piece * PIECE));
            piece += LANES;
        }
    }
}

/// Where the block's row of a tensor begins.
#[inline(always)]
fn place<T>(tensor: u64, pitch: i64) -> u64 {
    (tensor as i64 + i64::from(thread::block_idx_x()) * pitch * size_of::<T>() as i64) as u64
}

/// y = softmax(x).
#[inline(always)]
pub unsafe fn forward<T: Vector>(p: &SoftmaxLanesParams, shared: Shared) {
    schedule::launch_dependents();
    let run = Run::new::<T>(p, shared.barriers);
    let of_warp = seen::<T>(&run, p.kind == SoftmaxKind::Fast as u32);
    let own = shared.found.add(thread::warp_idx() as usize);
    if thread::lane_id() == 0 {
        *own = [of_warp.max, of_warp.sum];
    }
    thread::sync_threads();
    let of_row = over_warps::<T>(shared.found);
    if p.kind == SoftmaxKind::Log as u32 {
        write::<T, true>(p, &run, of_warp, of_row)
    } else {
        write::<T, false>(p, &run, of_warp, of_row)
    }
}

/// Of a warp's run: its maximum, or 0 where that is not asked for, and Σ e^(x - max).
#[inline(always)]
unsafe fn seen<T: Vector>(run: &Run, fast: bool) -> Online {
    let mut max = 0.0;
    if !fast {
        let mut most = T::pack([f32::NEG_INFINITY; MAX_LANES])[0];
        run.for_each(
            #[inline(always)]
            |_, [a, b, c, d]| {
                most = T::max_of_words(most, T::max_of_words(T::max_of_words(a, b), T::max_of_words(c, d)));
            },
        );
        max = reduce::<LANES>(max_of::<T, 1>(&[[most; 4]]), null_mut(), math::max_nan_f32);
    }
    let (powers, mut sum) = (Powers::new::<T>(max), 0.0);
    run.for_each(
        #[inline(always)]
        |_, x| {
            map::<T>(x, |x, _| {
                sum += powers.of::<T>(x);
                x
            });
        },
    );
    Online { max, sum: reduce::<LANES>(sum * powers.undo, null_mut(), |a, b| a + b) }
}

/// Of the row, from what its warps have found out, whose number is a power of two.
#[inline(always)]
unsafe fn over_warps<T: Vector>(found: *const [f32; 2]) -> Online {
    let warps = thread::block_dim_x() / LANES;
    let [own_max, own_sum] = *found.add((thread::lane_id() & (warps - 1)) as usize);
    let max = reduce::<LANES>(own_max, null_mut(), math::max_nan_f32);
    // Each warp's is added by as many lanes.
    let share = own_sum * T::exp(own_max - finite(max)) * (warps as f32 / LANES as f32);
    Online { max, sum: reduce::<LANES>(share, null_mut(), |a, b| a + b) }
}

/// Writes the results of a warp's run.
#[inline(always)]
unsafe fn write<T: Vector, const LOG: bool>(p: &SoftmaxLanesParams, run: &Run, of_warp: Online, of_row: Online) {
    let (finish, powers) = (Finish::new::<T, LOG>(p.alpha, of_warp, of_row), Powers::new::<T>(of_warp.max));
    let out = place::<T>(p.out, p.out_pitch);
    run.for_each(
        #[inline(always)]
        |piece, x| {
            let of_x = if LOG { [0.0; MAX_LANES] } else { map::<T>(x, |x, _| powers.of::<T>(x)) };
            store::<T>(out, piece, finish.of::<T, LOG>(x, of_x), p.beta);
        },
    );
}
