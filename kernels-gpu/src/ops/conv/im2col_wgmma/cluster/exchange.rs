//! The way of a tile's sums out: through the shared memory of the cluster's blocks, or straight from the registers.
//!
//! Register i of thread t (warp w = t / 32, lane l = t % 32) is the sum of row 16 w + 8 ((i / 2) % 2) + l / 4 and column
//! 8 (i / 4) + 2 (l % 4) + i % 2. So eight rows, a unit, are half of a warp's registers, and a thread sends those of 16
//! columns of its row at a time: four sums. They arrive as the threads held them, one warp's 512 bytes behind another's,
//! and are added up and written by a warp each. The sums of the own rows are left at the same place, without the way
//! through the cluster, whose bytes are what sending takes.

use super::super::Half;
use super::Ring;
use cuda_std::barrier::sync_named;
use cuda_std::memory::{X2, X4};
use cuda_std::thread::thread_idx_x;
use cuda_std::{cluster, mbarrier, shared, warp};
use kernel_abi::ops::conv::im2col_cluster::{UNIT_ROWS, WARPGROUP};
use kernel_abi::ops::conv::im2col_wgmma::SUBTILE;

/// Bytes that a warp sends at a time.
const RUN_BYTES: u32 = 32 * 16;

/// Where a tile is written: `alpha · sum + beta · prior`.
pub(super) trait Target {
    /// Address of the tile's row `row`; 0 where there is none.
    fn row(&self, row: u32) -> u64;

    /// Bytes from a row's address to the tile's column `column`, a multiple of 4; negative where there is none. Four
    /// columns from a multiple of 4 on are there together.
    fn column(&self, column: u32) -> i64;

    /// Whether eight columns from a multiple of 8 on are there together, at a multiple of 16 bytes.
    fn by_eight(&self) -> bool;

    /// Factors of the result and of the prior value.
    fn factors(&self) -> [f32; 2];
}

/// The named barrier of the warpgroup.
const BARRIER: u32 = 1;
/// The most rows that a thread writes of a tile that no other block shares.
const OWN_ROWS: usize = 4;

/// What a thread does with its sums: `S` × `R` of them, of a tile that `N` blocks share.
///
/// The addresses of the rows that a block writes are found before there are sums, when there is time. Where blocks share
/// the tile they lie in shared memory, each found by one thread: the warps take the rows in turn.
#[derive(Clone, Copy)]
pub(super) struct Exchange<const R: usize, const S: usize, const N: usize> {
    ring: Ring,
    rank: u32,
    warp: u32,
    lane: u32,
    /// Of a tile that no other block shares: what this thread writes.
    rows: [u64; OWN_ROWS],
}

impl<const R: usize, const S: usize, const N: usize> Exchange<R, S, N> {
    /// What a warp sends of a unit, as a count.
    const RUNS: u32 = R as u32 / 8;
    /// Units of a slice.
    const UNITS: u32 = (S * 8 / N) as u32;
    /// Runs that a warp adds up and writes.
    const TURNS: u32 = (Self::UNITS * Self::RUNS).div_ceil(WARPGROUP / 32);
    /// Whether all warps have one in every turn.
    const FULL: bool = (Self::UNITS * Self::RUNS).is_multiple_of(WARPGROUP / 32);

    /// # Safety
    /// All threads of the warpgroup call it.
    #[inline(always)]
    pub(super) unsafe fn new<T: Target>(ring: Ring, rank: u32, target: &T) -> Self {
        const { assert!(2 * S <= OWN_ROWS) };
        let thread = thread_idx_x();
        let (warp, lane) = (warp::uniform(thread / 32), thread % 32);
        let mut rows = [0; OWN_ROWS];
        if N == 1 {
            let mut i = 0;
            while i < 2 * S {
                let unit = (i / 2) as u32 * (SUBTILE / UNIT_ROWS) + 2 * warp + i as u32 % 2;
                *rows.get_unchecked_mut(i) = target.row(unit * UNIT_ROWS + lane / 4);
                i += 1;
            }
        } else {
            let of_slice = Self::UNITS * UNIT_ROWS;
            if thread < of_slice {
                shared::store_u64(ring.rows() + 8 * thread, target.row(rank * of_slice + thread));
            }
            sync_named(BARRIER, WARPGROUP);
        }
        Exchange { ring, rank, warp, lane, rows }
    }

    /// The address of this lane's row of a unit of the slice.
    ///
    /// # Safety
    /// As [`Exchange::leave`].
    #[inline(always)]
    unsafe fn row(&self, unit: u32) -> u64 {
        shared::load_u64(self.ring.rows() + 8 * (unit * UNIT_ROWS + self.lane / 4))
    }

    /// The run that this warp adds up in a turn, counted within the slice.
    #[inline(always)]
    fn run(&self, turn: u32) -> u32 {
        self.warp + turn * (WARPGROUP / 32)
    }

    /// Sends a tile's sums on their way.
    ///
    /// # Safety
    /// All threads of the warpgroup call it, in all blocks of the cluster; the target's addresses are those of live
    /// tensors.
    #[inline(always)]
    pub(super) unsafe fn leave<E: Half, T: Target>(&self, d: &[[f32; R]; S], target: &T) {
        if N == 1 {
            self.write::<E, T>(d.get_unchecked(0), 0, target);
            if S > 1 {
                self.write::<E, T>(d.get_unchecked(S - 1), 1, target);
            }
        } else {
            // All blocks have their barriers ready.
            cluster::wait();
            self.send(d);
            // The block's own sums are there.
            sync_named(BARRIER, WARPGROUP);
            self.receive::<E, T>(target);
        }
    }

    /// Sends the sums to the blocks that write them. Half of the blocks begin with what goes to one half of them and
    /// half with the rest, so that none is sent to by all at once.
    ///
    /// # Safety
    /// As [`Exchange::leave`].
    #[inline(always)]
    unsafe fn send(&self, d: &[[f32; R]; S]) {
        let (first, last) = (d.get_unchecked(0), d.get_unchecked(S - 1));
        if S > 1 && 2 * self.rank >= N as u32 {
            self.send_unit::<0>(last, 1);
            self.send_unit::<1>(last, 1);
            self.send_unit::<0>(first, 0);
            self.send_unit::<1>(first, 0);
        } else if S > 1 {
            self.send_unit::<0>(first, 0);
            self.send_unit::<1>(first, 0);
            self.send_unit::<0>(last, 1);
            self.send_unit::<1>(last, 1);
        } else if Self::UNITS == 1 && self.rank % 2 > 0 {
            self.send_unit::<1>(first, 0);
            self.send_unit::<0>(first, 0);
        } else {
            self.send_unit::<0>(first, 0);
            self.send_unit::<1>(first, 0);
        }
    }

    /// Sends the sums of instruction `subtile` of one half of the warp's rows.
    ///
    /// # Safety
    /// As [`Exchange::leave`].
    #[inline(always)]
    unsafe fn send_unit<const HALF: usize>(&self, d: &[f32; R], subtile: u32) {
        let unit = subtile * (SUBTILE / UNIT_ROWS) + 2 * self.warp + HALF as u32;
        let (to, slot) = (unit / Self::UNITS, unit % Self::UNITS);
        let offset = (self.rank * Self::UNITS + slot) * Self::RUNS * RUN_BYTES + self.lane * 16;
        let sums = |run: usize| {
            let bits = |i: usize| d.get_unchecked(8 * run + 2 * HALF + i).to_bits();
            [bits(0), bits(1), bits(4), bits(5)]
        };
        let mut run = 0;
        if to == self.rank {
            while run < R / 8 {
                shared::store_x4(self.ring.exchange() + offset + run as u32 * RUN_BYTES, sums(run));
                run += 1;
            }
            return;
        }
        let buffer = cluster::map_address(self.ring.exchange() + offset, to);
        let barrier = cluster::map_address(self.ring.exchange_barrier(), to);
        while run < R / 8 {
            cluster::store_async_x4(buffer + run as u32 * RUN_BYTES, sums(run), barrier);
            run += 1;
        }
    }

    /// Adds up what the blocks sent and writes it.
    ///
    /// # Safety
    /// As [`Exchange::leave`].
    #[inline(always)]
    unsafe fn receive<E: Half, T: Target>(&self, target: &T) {
        let [alpha, beta] = target.factors();
        // Also the warps that write nothing: a block must not end before all that is sent to it is there.
        mbarrier::wait_cluster(self.ring.exchange_barrier(), 0);
        let mut turn = 0;
        while turn < Self::TURNS {
            let run = self.run(turn);
            if !Self::FULL && run >= Self::UNITS * Self::RUNS {
                return;
            }
            let from = self.ring.exchange() + run * RUN_BYTES + self.lane * 16;
            let mut parts = [[0u32; 4]; N];
            let mut block = 0;
            while block < N {
                let part = from + block as u32 * Self::UNITS * Self::RUNS * RUN_BYTES;
                *parts.get_unchecked_mut(block) = shared::load_x4(part);
                block += 1;
            }
            let mut v = [0.0f32; 4];
            let mut block = 0;
            while block < N {
                let part = parts.get_unchecked(block).map(f32::from_bits);
                v = [v[0] + part[0], v[1] + part[1], v[2] + part[2], v[3] + part[3]];
                block += 1;
            }
            v = [alpha * v[0], alpha * v[1], alpha * v[2], alpha * v[3]];
            let row = self.row(run / Self::RUNS);
            let first = 16 * (run % Self::RUNS);
            if beta != 0.0 {
                let [low, high] = prior::<E, T>(row, target, first, self.lane);
                (v[0], v[1]) = (v[0] + beta * low, v[1] + beta * high);
                let [low, high] = prior::<E, T>(row, target, first + 8, self.lane);
                (v[2], v[3]) = (v[2] + beta * low, v[3] + beta * high);
            }
            let words = self.neighbours_of_two(E::pack(v[0], v[1]), E::pack(v[2], v[3]));
            let column = target.column(first + self.lane % 4 * 4);
            if row != 0 && column >= 0 {
                *((row + column as u64) as *mut X2<u32>) = X2(words);
            }
            turn += 1;
        }
    }

    /// Writes the sums of instruction `subtile`, which nobody else has a part of.
    ///
    /// # Safety
    /// As [`Exchange::leave`].
    #[inline(always)]
    unsafe fn write<E: Half, T: Target>(&self, d: &[f32; R], subtile: usize, target: &T) {
        let [alpha, beta] = target.factors();
        let mut half = 0;
        while half < 2 {
            let row = *self.rows.get_unchecked(2 * subtile + half);
            let mut four = 0;
            while four < R / 16 {
                let first = 32 * four as u32;
                let mut words = [0u32; 4];
                let mut i = 0;
                while i < 4 {
                    let sum = |j: usize| alpha * *d.get_unchecked(16 * four + 4 * i + 2 * half + j);
                    let (mut v, mut w) = (sum(0), sum(1));
                    if beta != 0.0 {
                        let [low, high] = prior::<E, T>(row, target, first + 8 * i as u32, self.lane);
                        (v, w) = (v + beta * low, w + beta * high);
                    }
                    *words.get_unchecked_mut(i) = E::pack(v, w);
                    i += 1;
                }
                let words = self.neighbours_of_four(words);
                let column = target.column(first + self.lane % 4 * 8);
                if row != 0 && column >= 0 && target.by_eight() {
                    *((row + column as u64) as *mut X4<u32>) = X4(words);
                } else if row != 0 && column >= 0 {
                    *((row + column as u64) as *mut X2<u32>) = X2([words[0], words[1]]);
                    let behind = target.column(first + self.lane % 4 * 8 + 4);
                    if behind >= 0 {
                        *((row + behind as u64) as *mut X2<u32>) = X2([words[2], words[3]]);
                    }
                }
                four += 1;
            }
            half += 1;
        }
    }

    /// Word g of a quarter's lane c, c of 4, is piece c of group g. Gives lane c pieces 2 (c % 2) and the next one of
    /// group c / 2.
    #[inline(always)]
    fn neighbours_of_two(&self, first: u32, second: u32) -> [u32; 2] {
        let (first, second) = self.exchange(2, first, second);
        let (first, second) = self.exchange(1, first, second);
        [first, second]
    }

    /// Word g of a quarter's lane c, c of 4, is piece c of group g. Gives lane c the pieces of group c.
    #[inline(always)]
    fn neighbours_of_four(&self, [a, b, c, d]: [u32; 4]) -> [u32; 4] {
        let ((a, b), (c, d)) = (self.exchange(1, a, b), self.exchange(1, c, d));
        let ((a, c), (b, d)) = (self.exchange(2, a, c), self.exchange(2, b, d));
        [a, b, c, d]
    }

    /// Exchanges the second word of the lanes in which `bit` is 0 with the first of those in which it is 1.
    #[inline(always)]
    fn exchange(&self, bit: u32, first: u32, second: u32) -> (u32, u32) {
        let upper = self.lane & bit != 0;
        let theirs = warp::shuffle_xor(if upper { first } else { second }, bit);
        if upper { (theirs, second) } else { (first, theirs) }
    }
}

/// This lane's two prior values of eight columns; 0 where there are none.
///
/// # Safety
/// As [`Exchange::leave`].
#[inline(always)]
unsafe fn prior<E: Half, T: Target>(row: u64, target: &T, first: u32, lane: u32) -> [f32; 2] {
    let column = target.column(first + lane % 4 * 2);
    if row == 0 || column < 0 {
        return [0.0; 2];
    }
    let word = *((row + column as u64) as *const u32);
    [E::unpack(word as u16), E::unpack((word >> 16) as u16)]
}
