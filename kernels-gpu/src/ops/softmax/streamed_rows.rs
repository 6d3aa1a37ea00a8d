//! Blocks that go on from row to row: the copy engine fills a ring in shared memory with the rows to come while
//! a row is worked on, so that loads are under way all the time and not only at the beginning of a block's life.
//!
//! `G` threads have a row, `K` pieces of 16 bytes each, which they take from the ring to registers. Each warp has its own
//! part of the ring, which its first lane loads, and works on what is its own as soon as that is there; it has several short
//! rows at a time, a row, or a run of pieces of a row that is a block's.
//!
//! Rows of whole pieces that lie at multiples of 16 bytes.
//!
//! Grid: any number of blocks. Block: as many rows as fit its threads, or one row. Shared memory: barriers and sums, and
//! the ring in the dynamic area.

use super::register_rows::{anew, gradients, sum_of};
use crate::math::rows::{MAX_LANES, Online, Powers, Values, Vector, Words, finite, ln, map, max_of, reduce};
use core::mem::size_of;
use core::ptr::null_mut;
use cuda_std::{math, mbarrier, memory, schedule, shared, thread, tma, warp};
use kernel_abi::ops::softmax::streamed_rows::WARP;
use kernel_abi::ops::softmax::{SoftmaxKind, SoftmaxLanesParams};

/// Two numbers of each warp, for rows of even and odd turns.
pub(super) const SLOTS: usize = 4 * WARP as usize;

/// Bytes of a piece.
const PIECE: u32 = size_of::<Words>() as u32;

/// A block's arrays.
pub(super) struct Shared {
    pub(super) barriers: *mut u64,
    pub(super) slots: *mut f32,
}

/// What a warp has of its rows, which come in their order, those of both inputs in turns.
struct Rows<'a, const G: u32, const K: usize, const INPUTS: u32> {
    p: &'a SoftmaxLanesParams,
    elem_bytes: u32,
    /// The warp's thread that loads.
    leads: bool,
    /// The thread's first piece of its row, and the warp's.
    piece: u32,
    first: u32,
    n_pieces: u32,
    /// The first row at hand, and which of those behind it is this thread's.
    row: u32,
    own: u32,
    /// Between rows of a warp's turns.
    step: u32,
    ring: u32,
    barriers: u32,
    n_slots: u32,
    /// The next to take.
    slot: u32,
    parity: u32,
    /// The next to load: the row, of which input, and where to.
    load_row: u32,
    load_input: u32,
    load_slot: u32,
}

impl<'a, const G: u32, const K: usize, const INPUTS: u32> Rows<'a, G, K, INPUTS> {
    /// Lanes of a warp that have a row, how many rows it has at a time, and pieces of one in the ring.
    const ABREAST: u32 = if G < WARP { G } else { WARP };
    const AT_A_TIME: u32 = WARP / Self::ABREAST;
    const PIECES: u32 = K as u32 * Self::ABREAST;
    /// Bytes of those, and of a slot.
    const ROW: u32 = Self::PIECES * PIECE;
    const SLOT: u32 = Self::AT_A_TIME * Self::ROW;

    #[inline(always)]
    unsafe fn new<T: Vector>(p: &'a SoftmaxLanesParams, barriers: *mut u64) -> Self {
        let (warps, warp, lane) = (thread::block_dim_x() / WARP, thread::warp_idx(), thread::lane_id());
        let n_slots = shared::dynamic_bytes() / (warps * Self::SLOT);
        let barriers = shared::address(barriers) + 8 * warp * n_slots;
        if lane == 0 {
            let mut i = 0;
            while i < n_slots {
                mbarrier::init(barriers + 8 * i, 1);
                i += 1;
            }
            mbarrier::fence_init();
        }
        warp::sync_warp();
        // A row is a block's where it is not a warp's.
        let (first, row, step) = if G > WARP {
            (warp * Self::PIECES, thread::block_idx_x(), 1)
        } else {
            (0, (thread::block_idx_x() * warps + warp) * Self::AT_A_TIME, warps * Self::AT_A_TIME)
        };
        let mut rows = Rows {
            p,
            elem_bytes: size_of::<T>() as u32,
            leads: lane == 0,
            piece: first + lane % Self::ABREAST,
            first,
            n_pieces: p.row_elems / T::LANES as u32,
            row,
            own: lane / Self::ABREAST,
            step: thread::grid_dim_x() * step,
            ring: shared::dynamic_address() + warp * n_slots * Self::SLOT,
            barriers,
            n_slots,
            slot: 0,
            parity: 0,
            load_row: row,
            load_input: 0,
            load_slot: 0,
        };
        rows.load(n_slots);
        rows
    }

    #[inline(always)]
    fn there(&self) -> bool {
        self.row < self.p.n_rows
    }

    #[inline(always)]
    fn begin(&self, tensor: u64, pitch: i64, row: u32) -> u64 {
        (tensor as i64 + i64::from(row) * pitch * i64::from(self.elem_bytes)) as u64
    }

    /// Begins to load so many inputs' rows, to where everybody has left.
    #[inline(always)]
    unsafe fn load(&mut self, count: u32) {
        if !self.leads {
            return;
        }
        let mut i = 0;
        while i < count && self.load_row < self.p.n_rows {
            let (tensor, pitch) =
                if self.load_input == 0 { (self.p.input, self.p.in_pitch) } else { (self.p.dy, self.p.dy_pitch) };
            let left = self.n_pieces.saturating_sub(self.first);
            let bytes = PIECE * if left < Self::PIECES { left } else { Self::PIECES };
            let barrier = self.barriers + 8 * self.load_slot;
            let rest = self.p.n_rows - self.load_row;
            let count = if rest < Self::AT_A_TIME { rest } else { Self::AT_A_TIME };
            mbarrier::arrive_expect_bytes(barrier, count * bytes);
            let mut row = 0;
            while row < count && bytes > 0 {
                let from = self.begin(tensor, pitch, self.load_row + row) + u64::from(self.first * PIECE);
                let to = self.ring + self.load_slot * Self::SLOT + row * Self::ROW;
                tma::load_bytes(to, from as *const u8, bytes, barrier);
                row += 1;
            }
            self.load_slot = if self.load_slot + 1 == self.n_slots { 0 } else { self.load_slot + 1 };
            self.load_input += 1;
            if self.load_input == INPUTS {
                (self.load_row, self.load_input) = (self.load_row + self.step, 0);
            }
            i += 1;
        }
    }

    /// Waits for the next row of an input.
    #[inline(always)]
    unsafe fn take(&mut self) -> u32 {
        mbarrier::wait(self.barriers + 8 * self.slot, self.parity);
        let at = self.ring + self.slot * Self::SLOT;
        self.slot += 1;
        if self.slot == self.n_slots {
            (self.slot, self.parity) = (0, self.parity ^ 1);
        }
        at
    }

    #[inline(always)]
    fn piece(&self, k: usize) -> u32 {
        k as u32 * Self::ABREAST + self.piece
    }

    /// Whether the thread's row has its piece `k`.
    #[inline(always)]
    fn has(&self, k: usize) -> bool {
        self.piece(k) < self.n_pieces && (Self::AT_A_TIME == 1 || self.row + self.own < self.p.n_rows)
    }

    /// The thread's pieces of the row at hand, of all inputs; `fill` for those that there are not.
    #[inline(always)]
    unsafe fn pieces<const N: usize>(&mut self, fill: u32) -> [[Words; K]; N] {
        let mut words = [[[fill; 4]; K]; N];
        let mut from = [0u32; N];
        let mut input = 0;
        while input < N {
            *from.get_unchecked_mut(input) = self.take();
            input += 1;
        }
        let mut k = 0;
        while k < K {
            // Pieces of all inputs side by side: the elements of one input's would wait in registers for the other's.
            if self.has(k) {
                input = 0;
                while input < N {
                    let at = *from.get_unchecked(input) + self.own * Self::ROW + (self.piece(k) - self.first) * PIECE;
                    *words.get_unchecked_mut(input).get_unchecked_mut(k) = shared::load_x4(at);
                    input += 1;
                }
            }
            k += 1;
        }
        words
    }

    /// Loads anew what the row at hand took up of the ring.
    #[inline(always)]
    unsafe fn refill(&mut self) {
        warp::sync_warp();
        // A number that the compiler does not know, so that it makes a loop of few registers.
        self.load(schedule::opaque(INPUTS));
    }

    /// What a warp has found out in the slots of this turn, for [`found`](Self::found).
    #[inline(always)]
    unsafe fn publish(slots: *mut f32, found: [f32; 2]) {
        if G > WARP {
            let warp_idx = thread::warp_idx();
            if thread::lane_id() == 0 {
                *slots.add(warp_idx as usize) = found[0];
                *slots.add((WARP + warp_idx) as usize) = found[1];
            }
            thread::sync_threads();
        }
    }

    /// What the warp that is this lane's in turn has found out.
    #[inline(always)]
    unsafe fn found(slots: *mut f32) -> [f32; 2] {
        let warp = thread::lane_id() % (G / WARP).max(1);
        [*slots.add(warp as usize), *slots.add((WARP + warp) as usize)]
    }

    #[inline(always)]
    fn next(&mut self) {
        self.row += self.step;
    }
}

/// Over what [`Rows::found`] gave: as many neighbouring lanes as a row has warps.
#[inline(always)]
unsafe fn over_warps<const G: u32>(value: f32, join: impl Fn(f32, f32) -> f32) -> f32 {
    let mut result = value;
    let mut lane = G / WARP / 2;
    while lane > 0 {
        result = join(result, warp::shuffle_xor_f32(result, lane));
        lane /= 2;
    }
    result
}

/// Slots of a turn.
#[inline(always)]
unsafe fn of_turn(slots: *mut f32, turn: u32) -> *mut f32 {
    slots.add(((turn & 1) * 2 * WARP) as usize)
}

/// y = softmax(x).
#[inline(always)]
pub unsafe fn forward<T: Vector, const G: u32, const K: usize>(p: &SoftmaxLanesParams, shared: Shared) {
    if p.kind == SoftmaxKind::Log as u32 {
        forward_of::<T, G, K, true>(p, shared)
    } else {
        forward_of::<T, G, K, false>(p, shared)
    }
}

#[inline(always)]
unsafe fn forward_of<T: Vector, const G: u32, const K: usize, const LOG: bool>(p: &SoftmaxLanesParams, shared: Shared) {
    let mut rows = Rows::<G, K, 1>::new::<T>(p, shared.barriers);
    let mut turn = 0;
    while rows.there() {
        let slots = of_turn(shared.slots, turn);
        let [x] = rows.pieces::<1>(T::pack([f32::NEG_INFINITY; MAX_LANES])[0]);
        rows.refill();
        let (of_warp, powers) = powers_of_warp::<T, G, K>(&x, p.kind == SoftmaxKind::Fast as u32);
        Rows::<G, K, 1>::publish(slots, [of_warp.max, of_warp.sum]);
        let mut of_row = of_warp;
        if G > WARP {
            let [max, sum] = Rows::<G, K, 1>::found(slots);
            of_row.max = over_warps::<G>(max, math::max_nan_f32);
            of_row.sum = over_warps::<G>(sum * T::exp(max - finite(of_row.max)), |a, b| a + b);
        }
        let out = rows.begin(p.out, p.out_pitch, rows.row + rows.own);
        let finish = Finish::new::<T, LOG>(p.alpha, of_warp, of_row);
        let mut k = 0;
        while k < K {
            if rows.has(k) {
                let values = finish.of::<T, LOG>(*x.get_unchecked(k), *powers.get_unchecked(k));
                store::<T>(out, rows.piece(k), values, p.beta);
            }
            k += 1;
        }
        rows.next();
        turn += 1;
    }
}

/// Over the lanes of a warp that share a row of `G` threads.
#[inline(always)]
pub(super) unsafe fn over_lanes<const G: u32>(value: f32, join: impl Fn(f32, f32) -> f32) -> f32 {
    if G < WARP { reduce::<G>(value, null_mut(), join) } else { reduce::<WARP>(value, null_mut(), join) }
}

/// Of a warp, or of the lanes that share a row of `G` threads: maximum, sum, and the [`Powers`] of each element, which are
/// not computed again once the row's maximum is known.
#[inline(always)]
pub(super) unsafe fn powers_of_warp<T: Vector, const G: u32, const K: usize>(
    x: &[Words; K],
    fast: bool,
) -> (Online, [Values; K]) {
    let max = if fast { 0.0 } else { over_lanes::<G>(max_of::<T, K>(x), math::max_nan_f32) };
    let (of_max, mut sum, mut powers) = (Powers::new::<T>(max), 0.0, [[0.0; MAX_LANES]; K]);
    let mut k = 0;
    while k < K {
        *powers.get_unchecked_mut(k) = map::<T>(*x.get_unchecked(k), |x, _| {
            let power = of_max.of::<T>(x);
            sum += power;
            power
        });
        k += 1;
    }
    (Online { max, sum: over_lanes::<G>(sum * of_max.undo, |a, b| a + b) }, powers)
}

/// From a warp's powers to results, which alpha is in.
#[derive(Clone, Copy)]
pub(super) struct Finish {
    alpha: f32,
    max: f32,
    /// -alpha ln Σ.
    rest: f32,
    factor: f32,
}

impl Finish {
    #[inline(always)]
    pub(super) fn new<T: Vector, const LOG: bool>(alpha: f32, of_warp: Online, of_row: Online) -> Self {
        if LOG {
            Finish { alpha, max: of_row.max, rest: -alpha * ln(of_row.sum), factor: 0.0 }
        } else {
            let weight = Powers::new::<T>(of_warp.max).undo * T::exp(of_warp.max - of_row.max);
            Finish { alpha, max: 0.0, rest: 0.0, factor: alpha * math::divide_full(weight, of_row.sum) }
        }
    }

    #[inline(always)]
    pub(super) fn of<T: Vector, const LOG: bool>(&self, x: Words, powers: Values) -> Values {
        if LOG {
            // Made anew, since elements in f32 would take twice the registers from the sum on.
            map::<T>(anew(x), |x, _| math::fma_f32(self.alpha, x - self.max, self.rest))
        } else {
            powers.map(|power| power * self.factor)
        }
    }
}

/// Writes values and `beta` times what was there to a piece of a row.
#[inline(always)]
pub(super) unsafe fn store<T: Vector>(row: u64, piece: u32, mut values: Values, beta: f32) {
    let to = (row + u64::from(piece) * u64::from(PIECE)) as *mut u32;
    if beta != 0.0 {
        let prior = T::unpack(memory::load_x4(to));
        let mut i = 0;
        while i < T::LANES {
            let value = values.get_unchecked_mut(i);
            *value = math::fma_f32(beta, *prior.get_unchecked(i), *value);
            i += 1;
        }
    }
    memory::store_x4(to, T::pack(values));
}

/// dx from y and dy.
#[inline(always)]
pub unsafe fn backward<T: Vector, const G: u32, const K: usize>(p: &SoftmaxLanesParams, shared: Shared) {
    if p.kind == SoftmaxKind::Log as u32 {
        backward_of::<T, G, K, true>(p, shared)
    } else {
        backward_of::<T, G, K, false>(p, shared)
    }
}

#[inline(always)]
unsafe fn backward_of<T: Vector, const G: u32, const K: usize, const LOG: bool>(
    p: &SoftmaxLanesParams,
    shared: Shared,
) {
    let mut rows = Rows::<G, K, 2>::new::<T>(p, shared.barriers);
    let mut turn = 0;
    while rows.there() {
        let slots = of_turn(shared.slots, turn);
        let add = |a: f32, b: f32| a + b;
        let [y, dy] = rows.pieces::<2>(0);
        let mut sum = over_lanes::<G>(sum_of::<T, K>(&y, &dy, LOG, 0.0), add);
        Rows::<G, K, 2>::publish(slots, [sum, 0.0]);
        // Not before: it takes registers.
        rows.refill();
        if G > WARP {
            sum = over_warps::<G>(Rows::<G, K, 2>::found(slots)[0], add);
        }
        let out = rows.begin(p.out, p.out_pitch, rows.row + rows.own);
        let mut k = 0;
        while k < K {
            if rows.has(k) {
                // Elements are made anew from what was loaded: kept from the sum on, they would take twice its registers.
                let (y, dy) = (anew(*y.get_unchecked(k)), anew(*dy.get_unchecked(k)));
                let values = gradients::<T>(y, dy, sum, LOG).map(|value| p.alpha * value);
                store::<T>(out, rows.piece(k), values, p.beta);
            }
            k += 1;
        }
        rows.next();
        turn += 1;
    }
}
