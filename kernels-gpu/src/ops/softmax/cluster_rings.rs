//! Long rows pass through rings in the shared memory of a cluster's blocks: while some rows are worked on there, the copy
//! engine brings those to come, and each row is read once.
//!
//! A row is cut into runs of pieces at lines of the cache, one for each warp of the cluster. Each warp has a ring of its
//! own, which its first lane loads, and tells all warps what it has found out about its run; nobody waits for a barrier of
//! the block. Where the rings have room for it, a warp goes through its run of the next row before it asks for what the
//! others have found out of this one.
//!
//! Rows whose pieces lie at multiples of 16 bytes in all tensors alike, wherever they begin.
//!
//! Grid: any number of clusters. Block: [`THREADS`]. Shared memory: barriers and what warps have found out, and the rings in
//! the dynamic area.

use super::register_rows::sum_of;
use super::streamed_rows::over_lanes;
use crate::math::rows::{MAX_LANES, Online, Powers, Row, Values, Vector, Words, finite, ln, map};
use crate::math::vector;
use core::mem::size_of;
use cuda_std::{cluster, guarded, math, mbarrier, shared, thread, tma, warp};
use kernel_abi::ops::softmax::cluster_rings::{MAX_BLOCKS, MAX_SLOTS, THREADS, TURNS};
use kernel_abi::ops::softmax::streamed_rows::WARP;
use kernel_abi::ops::softmax::{SoftmaxKind, SoftmaxRingsParams};

/// Bytes of a piece.
const PIECE: u32 = size_of::<Words>() as u32;

/// Pieces that a lane has in registers at a time, of each input: rows that do not fill the last batch took 5 % longer with
/// four, those that do 1 to 2 % less.
const OF_WHOLE: usize = 4;
const OF_ANY: usize = 2;

/// Warps of a block, and how many of a cluster's a lane takes what they have found out of.
pub(super) const WARPS: u32 = THREADS / WARP;
const OF_LANE: usize = (MAX_BLOCKS * WARPS / WARP) as usize;

/// What a warp has found out, as others get it: two numbers, and as many that mean nothing.
const FOUND: u32 = 4;

/// Barriers of a block: of its rings, and of turns.
pub(super) const BARRIERS: usize = (WARPS * MAX_SLOTS + TURNS) as usize;

/// Numbers that the warps of a cluster have found out in all turns.
pub(super) const NUMBERS: usize = (FOUND * TURNS * MAX_BLOCKS * WARPS) as usize;

/// A block's arrays.
pub(super) struct Shared {
    pub(super) barriers: *mut u64,
    pub(super) numbers: *mut f32,
}

/// A warp's part of a row.
struct Run<const WHOLE: bool> {
    input: Row,
    dy: Row,
    out: Row,
    /// Its pieces: where the first would be, and which are whole.
    first: u32,
    begin: u32,
    end: u32,
    /// Which the copy engine brings: also those that are not whole, but not what ends behind the tensor, where may be
    /// nothing.
    bring_begin: u32,
    bring_end: u32,
    /// Whether it begins or ends with the row, amid a piece.
    has_head: bool,
    has_tail: bool,
}

/// Where a warp stands. `WHOLE` says that rows are whole pieces at multiples of these.
struct Place<'a, const INPUTS: u32, const WHOLE: bool> {
    p: &'a SoftmaxRingsParams,
    blocks: u32,
    lane: u32,
    /// Of the cluster's warps.
    warp: u32,
    ring: u32,
    barriers: u32,
    joined: u32,
    numbers: *mut f32,
    /// The cluster's rows, and how many clusters there are.
    n_turns: u32,
    clusters: u32,
    /// How many of them the ring was filled with, and where it goes on.
    loaded: u32,
    load_slot: u32,
}

impl<'a, const INPUTS: u32, const WHOLE: bool> Place<'a, INPUTS, WHOLE> {
    #[inline(always)]
    unsafe fn new<T: Vector>(p: &'a SoftmaxRingsParams, arrays: Shared) -> Self {
        let (rank, blocks) = (cluster::rank(), cluster::size());
        let (lane, warp) = (thread::lane_id(), thread::warp_idx());
        let slot_bytes = INPUTS * p.run_pieces * PIECE;
        let barriers = shared::address(arrays.barriers) + 8 * TURNS;
        let joined = shared::address(arrays.barriers);
        let (clusters, own) = (thread::grid_dim_x() / blocks, cluster::cluster_idx_x());
        let mut place = Place {
            p,
            blocks,
            lane,
            warp: rank * WARPS + warp,
            ring: shared::dynamic_address() + warp * p.n_slots * slot_bytes,
            barriers: barriers + 8 * warp * p.n_slots,
            joined,
            numbers: arrays.numbers,
            n_turns: (p.rows.n_rows - own + clusters - 1) / clusters,
            clusters,
            loaded: 0,
            load_slot: 0,
        };
        if lane == 0 {
            let mut i = 0;
            while i < p.n_slots {
                mbarrier::init(place.barriers + 8 * i, 1);
                i += 1;
            }
        }
        if thread::thread_idx_x() == 0 {
            let mut i = 0;
            while i < TURNS {
                // Other blocks' numbers count themselves.
                mbarrier::init(joined + 8 * i, if blocks == 1 { WARPS } else { 1 });
                i += 1;
            }
        }
        mbarrier::fence_init();
        // Others write into this block's memory once all have come here; its own warps come first to what they alone use.
        cluster::arrive();
        warp::sync_warp();
        let mut i = 0;
        while i < p.n_slots {
            place.load::<T>();
            i += 1;
        }
        cluster::wait();
        place
    }

    #[inline(always)]
    fn row(&self, turn: u32) -> u32 {
        cluster::cluster_idx_x() + turn * self.clusters
    }

    /// The warp's part of a row.
    #[inline(always)]
    fn run<T: Vector>(&self, row: u32) -> Run<WHOLE> {
        let rows = &self.p.rows;
        let address = |tensor: u64, pitch: i64| (tensor as i64 + i64::from(row) * pitch * size_of::<T>() as i64) as u64;
        let (from, n) = (address(rows.input, rows.in_pitch), rows.row_elems as i32);
        let skip = if WHOLE { 0 } else { (from as u32 & self.p.cut) as i32 / size_of::<T>() as i32 };
        let input = Row::new::<T>(from, n, skip);
        let (n_pieces, first) = (input.n_pieces::<T>(), self.warp * self.p.run_pieces);
        let behind = first + self.p.run_pieces;
        // Of the row, and of its whole pieces.
        let (row_begin, lanes) = (skip as u32 / T::LANES as u32, T::LANES as u32);
        let whole_begin = (skip as u32).div_ceil(lanes);
        let whole_end = (n + skip) as u32 / lanes;
        let clamp = |piece: u32| if piece < first { first } else { if piece < behind { piece } else { behind } };
        let in_run = |piece: u32| piece >= first && piece < behind;
        let has_tail = !WHOLE && whole_end < n_pieces && in_run(whole_end);
        let torn = has_tail && row + 1 == rows.n_rows;
        Run {
            input,
            dy: Row::new::<T>(address(rows.dy, rows.dy_pitch), n, skip),
            out: Row::new::<T>(address(rows.out, rows.out_pitch), n, skip),
            first,
            begin: if WHOLE { first } else { clamp(whole_begin) },
            end: clamp(whole_end),
            bring_begin: if WHOLE { first } else { clamp(row_begin) },
            bring_end: clamp(if torn { whole_end } else { n_pieces }),
            has_head: !WHOLE && row_begin < whole_begin && in_run(row_begin),
            has_tail,
        }
    }

    /// Begins to load the next row, if there is one, to where everybody has left.
    #[inline(always)]
    unsafe fn load<T: Vector>(&mut self) {
        if self.lane == 0 && self.loaded < self.n_turns {
            let run = self.run::<T>(self.row(self.loaded));
            let bytes = PIECE * (run.bring_end - run.bring_begin);
            let barrier = self.barriers + 8 * self.load_slot;
            mbarrier::arrive_expect_bytes(barrier, INPUTS * bytes);
            if bytes > 0 {
                let to = self.slot(self.load_slot) + (run.bring_begin - run.first) * PIECE;
                let from = |row: &Row| row.at::<T>(row.first::<T>(run.bring_begin)) as *const u8;
                tma::load_bytes(to, from(&run.input), bytes, barrier);
                if INPUTS == 2 {
                    tma::load_bytes(to + self.p.run_pieces * PIECE, from(&run.dy), bytes, barrier);
                }
            }
        }
        self.loaded += 1;
        self.load_slot = self.after(self.load_slot);
    }

    #[inline(always)]
    fn after(&self, slot: u32) -> u32 {
        if slot + 1 == self.p.n_slots { 0 } else { slot + 1 }
    }

    #[inline(always)]
    fn slot(&self, slot: u32) -> u32 {
        self.ring + slot * INPUTS * self.p.run_pieces * PIECE
    }

    /// The lane's whole pieces of a batch whose first lane has the piece `base`, from a slot; `fill` for what there is not.
    #[inline(always)]
    unsafe fn batch<const K: usize>(&self, run: &Run<WHOLE>, slot: u32, base: u32, fill: u32) -> [Words; K] {
        let mut words = [[fill; 4]; K];
        let at = slot + (base - run.first + self.lane) * PIECE;
        let (all, mut k) = (run.has_all::<K>(base), 0);
        while k < K {
            if all || run.has(base + k as u32 * WARP + self.lane) {
                *words.get_unchecked_mut(k) = shared::load_x4(at + k as u32 * WARP * PIECE);
            }
            k += 1;
        }
        words
    }

    /// The piece at an end of the run that is not whole, if this lane has one.
    #[inline(always)]
    fn edge(&self, run: &Run<WHOLE>) -> Option<u32> {
        if self.lane == 0 && run.has_head {
            Some(run.begin - 1)
        } else if self.lane == 1 && run.has_tail {
            Some(run.end)
        } else {
            None
        }
    }

    /// That piece of a row.
    #[inline(always)]
    unsafe fn edge_words<T: Vector>(&self, run: &Run<WHOLE>, row: &Row, slot: u32, fill: u32) -> Words {
        match self.edge(run) {
            Some(piece) if piece < run.bring_end => {
                row.only::<T>(shared::load_x4(slot + (piece - run.first) * PIECE), piece, fill)
            }
            Some(piece) => T::pack(row.load_elements::<T>(row.first::<T>(piece), T::unpack([fill; 4])[0])),
            None => [fill; 4],
        }
    }

    /// Tells the cluster what this warp has found out. To other blocks, numbers come with their signal: an arrival there that
    /// releases what was written before would wait for the results of the turn before to reach the memory.
    #[inline(always)]
    unsafe fn publish(&self, turn: u32, found: [f32; 2]) {
        let buffer = turn % TURNS;
        let (own, joined) = (self.found(buffer, self.warp), self.joined + 8 * buffer);
        if self.blocks == 1 {
            if self.lane == 0 {
                (*own, *own.add(1)) = (found[0], found[1]);
                mbarrier::arrive(joined);
            }
            return;
        }
        if thread::thread_idx_x() == 0 {
            mbarrier::arrive_expect_bytes(joined, self.blocks * WARPS * FOUND * size_of::<f32>() as u32);
        }
        if self.lane < self.blocks {
            let to = |address: u32| cluster::map_address(address, self.lane);
            let words = [found[0].to_bits(), found[1].to_bits(), 0, 0];
            cluster::store_async_x4(to(shared::address(own)), words, to(joined));
        }
    }

    #[inline(always)]
    unsafe fn found(&self, buffer: u32, warp: u32) -> *mut f32 {
        self.numbers.add((FOUND * (buffer * MAX_BLOCKS * WARPS + warp)) as usize)
    }

    /// What all warps of the cluster have found out in a turn, this lane's; `nothing` for those that there are not.
    #[inline(always)]
    unsafe fn all_found<const N: usize>(&self, turn: u32, nothing: [f32; 2]) -> [[f32; 2]; N] {
        let buffer = turn % TURNS;
        mbarrier::wait(self.joined + 8 * buffer, turn / TURNS & 1);
        let mut found = [nothing; N];
        let mut i = 0;
        while i < N {
            let warp = i as u32 * WARP + self.lane;
            if self.has_found(i) && warp < self.blocks * WARPS {
                let from = self.found(buffer, warp);
                *found.get_unchecked_mut(i) = [*from, *from.add(1)];
            }
            i += 1;
        }
        found
    }

    /// Whether there are warps of which some lane takes number `i`.
    #[inline(always)]
    fn has_found(&self, i: usize) -> bool {
        i == 0 || i as u32 * WARP < self.blocks * WARPS
    }

    /// How many turns a warp's readings may be before its results.
    #[inline(always)]
    fn ahead(&self) -> u32 {
        u32::from(self.p.n_slots > 2)
    }
}

impl<const WHOLE: bool> Run<WHOLE> {
    #[inline(always)]
    fn has(&self, piece: u32) -> bool {
        (WHOLE || piece >= self.begin) && piece < self.end
    }

    #[inline(always)]
    fn has_edges(&self) -> bool {
        self.has_head || self.has_tail
    }

    /// Whether all lanes have all pieces of a batch.
    #[inline(always)]
    fn has_all<const K: usize>(&self, base: u32) -> bool {
        (WHOLE || base >= self.begin) && base + K as u32 * WARP <= self.end
    }

    /// Writes a whole piece, if there is one: without a branch, behind which the next one's results would wait.
    #[inline(always)]
    unsafe fn store<T: Vector>(&self, piece: u32, values: Values) {
        let to = self.out.at::<T>(self.out.first::<T>(piece));
        guarded::store_x4(to, T::pack(values), u32::from(self.has(piece)));
    }
}

/// y = softmax(x).
#[inline(always)]
pub unsafe fn forward<T: Vector>(p: &SoftmaxRingsParams, shared: Shared) {
    match (p.rows.kind == SoftmaxKind::Log as u32, p.cut < PIECE) {
        (true, true) => forward_of::<T, true, true, OF_WHOLE>(p, shared),
        (true, false) => forward_of::<T, true, false, OF_ANY>(p, shared),
        (false, true) => forward_of::<T, false, true, OF_WHOLE>(p, shared),
        (false, false) => forward_of::<T, false, false, OF_ANY>(p, shared),
    }
}

#[inline(always)]
unsafe fn forward_of<T: Vector, const LOG: bool, const WHOLE: bool, const K: usize>(
    p: &SoftmaxRingsParams,
    shared: Shared,
) {
    let mut place = Place::<1, WHOLE>::new::<T>(p, shared);
    let nothing = T::pack([f32::NEG_INFINITY; MAX_LANES])[0];
    let fast = p.rows.kind == SoftmaxKind::Fast as u32;
    let (mut turn, mut gathered) = (0, 0);
    let (mut slot, mut gather_slot, mut parity) = (0, 0, 0);
    while turn < place.n_turns {
        while gathered < place.n_turns && gathered <= turn + place.ahead() {
            let run = place.run::<T>(place.row(gathered));
            mbarrier::wait(place.barriers + 8 * gather_slot, parity);
            let (at, mut online) = (place.slot(gather_slot), Online::EMPTY);
            let mut base = run.first;
            while base < run.end {
                let x: [Words; K] = place.batch::<K>(&run, at, base, nothing);
                online.push::<T, K>(&x, fast);
                base += K as u32 * WARP;
            }
            if run.has_edges() {
                online.push::<T, 1>(&[place.edge_words::<T>(&run, &run.input, at, nothing)], fast);
            }
            let max = over_lanes::<WARP>(online.max, math::max_nan_f32);
            let sum = over_lanes::<WARP>(online.sum * T::exp(online.max - finite(max)), |a, b| a + b);
            place.publish(gathered, [max, sum]);
            gathered += 1;
            gather_slot = place.after(gather_slot);
            parity ^= u32::from(gather_slot == 0);
        }
        let found = place.all_found::<OF_LANE>(turn, [f32::NEG_INFINITY, 0.0]);
        let (mut max, mut sum) = (f32::NEG_INFINITY, 0.0);
        vector::for_each!(I < OF_LANE, {
            if place.has_found(I) {
                max = math::max_nan_f32(max, found.get_unchecked(I)[0]);
            }
        });
        max = over_lanes::<WARP>(max, math::max_nan_f32);
        vector::for_each!(I < OF_LANE, {
            if place.has_found(I) {
                let [of_warp, powers] = *found.get_unchecked(I);
                sum = math::fma_f32(powers, T::exp(of_warp - finite(max)), sum);
            }
        });
        sum = over_lanes::<WARP>(sum, |a, b| a + b);
        let (alpha, powers) = (p.rows.alpha, Powers::new::<T>(max));
        let factor = math::divide_full(alpha * powers.undo, sum);
        let rest = if LOG { -alpha * ln(sum) } else { 0.0 };
        let of = |x: f32| if LOG { math::fma_f32(alpha, x - max, rest) } else { powers.of::<T>(x) * factor };
        let (run, at) = (place.run::<T>(place.row(turn)), place.slot(slot));
        let mut base = run.first;
        while base < run.end {
            let x: [Words; K] = place.batch::<K>(&run, at, base, nothing);
            let mut k = 0;
            while k < K {
                let values = map::<T>(*x.get_unchecked(k), |x, _| of(x));
                run.store::<T>(base + k as u32 * WARP + place.lane, values);
                k += 1;
            }
            base += K as u32 * WARP;
        }
        if let Some(piece) = place.edge(&run) {
            let x = place.edge_words::<T>(&run, &run.input, at, nothing);
            run.out.store::<T>(piece, map::<T>(x, |x, _| of(x)), 1.0, 0.0);
        }
        warp::sync_warp();
        place.load::<T>();
        slot = place.after(slot);
        turn += 1;
    }
}

/// dx from y and dy.
#[inline(always)]
pub unsafe fn backward<T: Vector>(p: &SoftmaxRingsParams, shared: Shared) {
    match (p.rows.kind == SoftmaxKind::Log as u32, p.cut < PIECE) {
        (true, true) => backward_of::<T, true, true, OF_WHOLE>(p, shared),
        (true, false) => backward_of::<T, true, false, OF_ANY>(p, shared),
        (false, true) => backward_of::<T, false, true, OF_WHOLE>(p, shared),
        (false, false) => backward_of::<T, false, false, OF_ANY>(p, shared),
    }
}

#[inline(always)]
unsafe fn backward_of<T: Vector, const LOG: bool, const WHOLE: bool, const K: usize>(
    p: &SoftmaxRingsParams,
    shared: Shared,
) {
    let mut place = Place::<2, WHOLE>::new::<T>(p, shared);
    let to_dy = p.run_pieces * PIECE;
    let (mut turn, mut gathered) = (0, 0);
    let (mut slot, mut gather_slot, mut parity) = (0, 0, 0);
    while turn < place.n_turns {
        while gathered < place.n_turns && gathered <= turn + place.ahead() {
            let run = place.run::<T>(place.row(gathered));
            mbarrier::wait(place.barriers + 8 * gather_slot, parity);
            let (at, mut sum) = (place.slot(gather_slot), 0.0);
            let mut base = run.first;
            while base < run.end {
                let dy = place.batch::<K>(&run, at + to_dy, base, 0);
                let y = if LOG { [[0; 4]; K] } else { place.batch::<K>(&run, at, base, 0) };
                sum = sum_of::<T, K>(&y, &dy, LOG, sum);
                base += K as u32 * WARP;
            }
            if run.has_edges() {
                let dy = place.edge_words::<T>(&run, &run.dy, at + to_dy, 0);
                let y = place.edge_words::<T>(&run, &run.input, at, 0);
                sum = sum_of::<T, 1>(&[y], &[dy], LOG, sum);
            }
            place.publish(gathered, [over_lanes::<WARP>(sum, |a, b| a + b), 0.0]);
            gathered += 1;
            gather_slot = place.after(gather_slot);
            parity ^= u32::from(gather_slot == 0);
        }
        let (found, mut sum) = (place.all_found::<OF_LANE>(turn, [0.0; 2]), 0.0);
        vector::for_each!(I < OF_LANE, {
            sum += found.get_unchecked(I)[0];
        });
        sum = over_lanes::<WARP>(sum, |a, b| a + b);
        let (alpha, share) = (p.rows.alpha, p.rows.alpha * sum);
        let of = |y: Words, dy: Words| {
            let y = T::unpack(y);
            map::<T>(dy, |dy, i| {
                let y = *y.get_unchecked(i);
                if LOG { math::fma_f32(-T::exp(y), share, alpha * dy) } else { y * math::fma_f32(alpha, dy, -share) }
            })
        };
        let (run, at) = (place.run::<T>(place.row(turn)), place.slot(slot));
        let mut base = run.first;
        while base < run.end {
            let y = place.batch::<K>(&run, at, base, 0);
            let dy = place.batch::<K>(&run, at + to_dy, base, 0);
            let mut k = 0;
            while k < K {
                let values = of(*y.get_unchecked(k), *dy.get_unchecked(k));
                run.store::<T>(base + k as u32 * WARP + place.lane, values);
                k += 1;
            }
            base += K as u32 * WARP;
        }
        if let Some(piece) = place.edge(&run) {
            let y = place.edge_words::<T>(&run, &run.input, at, 0);
            let dy = place.edge_words::<T>(&run, &run.dy, at + to_dy, 0);
            run.out.store::<T>(piece, of(y, dy), 1.0, 0.0);
        }
        warp::sync_warp();
        place.load::<T>();
        slot = place.after(slot);
        turn += 1;
    }
}
