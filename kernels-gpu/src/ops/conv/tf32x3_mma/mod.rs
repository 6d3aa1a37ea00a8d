//! f32 convolution on the portable tensor cores' tf32 products, with the error of f32 arithmetic: gathered as
//! `cp_async_mma` gathers, see there for grid and passes.
//!
//! An element x is hi + lo: hi is x rounded to tf32's 10 bits of mantissa, and lo = x - hi, exact, of which the product
//! instruction reads 10 bits. Of the four products of parts lo · lo is left out, and small ones are added first. The tensor
//! cores cut sums off instead of rounding them, so every 16 terms, in small tiles every 8, begin a new sum, and those are
//! added in f32.
//!
//! Neither infinities nor numbers next to the largest have such parts: sums with them are NaN or infinite. A block with
//! such a sum begins anew, a second attempt, in which hi is cut off, and no larger than tf32's largest number: then no
//! product of parts overflows before that of the numbers does, and both parts of an infinity have its sign, the second one
//! being infinite.
//!
//! Fragments are read by `ldmatrix` where the sum is contiguous, four f32 being eight of its elements; else by loads of
//! four neighbouring rows or columns, which become the same row or column of four fragments. So a thread has eight
//! neighbouring columns of its sums' rows.

mod cluster;
mod entry;
mod write;

use super::cp_async_mma::{GradientTile, Sums, TileElement};
use super::grouped_mma::unroll;
use cuda_std::barrier::sync_threads_or;
use cuda_std::thread::thread_idx_x;
use cuda_std::{cp_async, ldmatrix, mma, shared, warp};
use kernel_abi::ops::conv::cp_async_mma::{CP_ASYNC_K, CpAsyncMmaParams, CpAsyncTile};

/// Terms of a product instruction.
const MMA_K: u32 = 8;
/// The bits of f32 that tf32 lacks.
const BELOW: u32 = 0x1fff;
/// Half of tf32's last bit, for rounding.
const HALF: u32 = 0x1000;
/// tf32's largest number.
const LARGEST: f32 = f32::from_bits(0x7f7f_ffff & !BELOW);

/// f32 in parts, the steps of a stage shared by `DEPTH` groups of warps.
pub(super) struct Tf32x3<const DEPTH: u32>;

impl<const DEPTH: u32> TileElement for Tf32x3<DEPTH> {
    const BYTES: u32 = 4;
    const DEPTH: u32 = DEPTH;

    #[inline(always)]
    fn wait_for_stage() {
        cp_async::wait_group::<1>()
    }

    #[inline(always)]
    fn column_of_row(row: u32) -> u32 {
        row / 32 * 32 + row % 8 * 4 + row / 8 % 4
    }

    #[inline(always)]
    unsafe fn multiply<const SIZE: u32, const ROWS: usize, const A_WIDE: bool, const B_WIDE: bool>(
        sums: &mut Sums<ROWS>,
        a: u32,
        b: u32,
        [row, column]: [u32; 2],
        attempt: u32,
    ) {
        let rows = Side::<A_WIDE>::new::<SIZE>(a, row, false);
        let columns = Side::<B_WIDE>::new::<SIZE>(b, column, true);
        // Of a few steps each: their end is hidden from the compiler, which would unroll these loops altogether.
        let share = CP_ASYNC_K / MMA_K / DEPTH;
        let mut step = depth_of::<SIZE>() * share;
        let end = warp::uniform(step + share);
        if attempt == 0 {
            while step < end {
                let mut part: Sums<ROWS> = [[[0.0; 4]; 4]; ROWS];
                unroll!(NEXT in [0 1] {
                    if NEXT < ROWS / 2 {
                        let step = step + NEXT as u32;
                        add_products::<SIZE, ROWS, A_WIDE, B_WIDE, false>(&mut part, &rows, &columns, step);
                    }
                });
                add(sums, &part);
                step += ROWS as u32 / 2;
            }
        } else {
            while step < end {
                let mut part: Sums<ROWS> = [[[0.0; 4]; 4]; ROWS];
                add_products::<SIZE, ROWS, A_WIDE, B_WIDE, true>(&mut part, &rows, &columns, step);
                add(sums, &part);
                step += 1;
            }
        }
    }

    #[inline(always)]
    unsafe fn again<const ROWS: usize>(sums: &Sums<ROWS>, attempt: u32) -> bool {
        if attempt > 0 {
            return false;
        }
        // Zero times a number is zero, but for those that are not finite.
        let mut zero = 0.0;
        unroll!(I in [0 1 2 3] {
            if I < ROWS {
                unroll!(J in [0 1 2 3] {
                    unroll!(E in [0 1 2 3] { zero += 0.0 * sums[I % ROWS][J][E]; });
                });
            }
        });
        sync_threads_or(zero != 0.0)
    }

    #[inline(always)]
    unsafe fn write<const SIZE: u32, const ROWS: usize>(
        p: &CpAsyncMmaParams,
        sums: &Sums<ROWS>,
        outputs_at: u32,
        warp: [u32; 2],
        group: u32,
        first_channel: u32,
    ) {
        write::pixels::<SIZE, ROWS>(p, sums, outputs_at, warp, group, first_channel)
    }

    #[inline(always)]
    unsafe fn write_spread<const SIZE: u32, const ROWS: usize>(
        p: &CpAsyncMmaParams,
        sums: &Sums<ROWS>,
        pixels_at: u32,
        warp: [u32; 2],
        group: u32,
        first_column: u32,
    ) {
        write::spread::<SIZE, ROWS>(p, sums, pixels_at, warp, group, first_column)
    }

    #[inline(always)]
    unsafe fn write_slab<const SIZE: u32, const ROWS: usize>(
        p: &CpAsyncMmaParams,
        sums: &Sums<ROWS>,
        slab: u32,
        place: GradientTile,
        warp: [u32; 2],
    ) {
        write::slab::<SIZE, ROWS>(p, sums, slab, place, warp)
    }
}

/// The group of this thread's warp.
#[inline(always)]
fn depth_of<const SIZE: u32>() -> u32 {
    warp::uniform(thread_idx_x() / (2 * SIZE))
}

/// Adds sums up.
#[inline(always)]
fn add<const ROWS: usize>(sums: &mut Sums<ROWS>, part: &Sums<ROWS>) {
    unroll!(I in [0 1 2 3] {
        if I < ROWS {
            unroll!(J in [0 1 2 3] {
                unroll!(E in [0 1 2 3] { sums[I % ROWS][J][E] += part[I % ROWS][J][E]; });
            });
        }
    });
}

/// Adds the products of eight terms, the `step`-th of a stage. `CAREFUL` is the second attempt.
///
/// # Safety
/// As [`TileElement::multiply`].
#[inline(always)]
unsafe fn add_products<
    const SIZE: u32,
    const ROWS: usize,
    const A_WIDE: bool,
    const B_WIDE: bool,
    const CAREFUL: bool,
>(
    sums: &mut Sums<ROWS>,
    rows: &Side<A_WIDE>,
    columns: &Side<B_WIDE>,
    step: u32,
) {
    let b = Parts::new::<CAREFUL>(columns.pair::<SIZE>(step, 0));
    let b_of = |part: &[[u32; 4]; 2], j: usize| {
        if B_WIDE { [part[0][j], part[1][j]] } else { [part[j / 2][j % 2 * 2], part[j / 2][j % 2 * 2 + 1]] }
    };
    let a_of = |part: &[[u32; 4]; 2], i: usize| {
        if A_WIDE { [part[0][2 * i], part[0][2 * i + 1], part[1][2 * i], part[1][2 * i + 1]] } else { part[i] }
    };
    unroll!(PAIR in [0 1] {
        if PAIR < ROWS / 2 {
            let a = Parts::new::<CAREFUL>(rows.pair::<SIZE>(step, PAIR as u32));
            unroll!(I in [0 1] {
                let sums = &mut sums[(2 * PAIR + I) % ROWS];
                unroll!(J in [0 1 2 3] { mma::m16n8k8_tf32(&mut sums[J], a_of(&a.lo, I), b_of(&b.hi, J)); });
                unroll!(J in [0 1 2 3] { mma::m16n8k8_tf32(&mut sums[J], a_of(&a.hi, I), b_of(&b.lo, J)); });
                unroll!(J in [0 1 2 3] { mma::m16n8k8_tf32(&mut sums[J], a_of(&a.hi, I), b_of(&b.hi, J)); });
            });
        }
    });
}

/// What a lane reads of an operand.
#[derive(Clone, Copy)]
struct Side<const WIDE: bool> {
    /// The lane's row in shared memory.
    row: u32,
    /// Where the lane's pieces of 16 bytes lie in it, in pieces: the permutation to apply, and the first.
    permutation: u32,
    first: u32,
}

impl<const WIDE: bool> Side<WIDE> {
    /// The operand at `at`, from row or column `place` of the tile on. Fragments of columns have the second half of the
    /// terms behind the first one, those of rows the second half of the rows.
    #[inline(always)]
    fn new<const SIZE: u32>(at: u32, place: u32, is_columns: bool) -> Self {
        let tile = CpAsyncTile::new(SIZE, 4);
        let lane = thread_idx_x() % 32;
        if WIDE {
            let (row, piece) = (lane % 4, place / 4 + lane / 4);
            return Side { row: at + row * tile.wide_row_bytes(), permutation: 2 * row, first: piece };
        }
        let (low, middle, high) = (lane % 8, lane / 8 % 2, lane / 16);
        let (row, piece) = if is_columns { (low + 8 * high, middle) } else { (low + 8 * middle, high) };
        Side { row: at + (place + row) * tile.row_bytes(), permutation: low, first: piece }
    }

    /// The registers of 32 rows or columns for eight terms: two loads of four. Across the sum, a load has four neighbours
    /// of one term each; along it, a load has the fragment of 16.
    ///
    /// # Safety
    /// The operand is in shared memory; all lanes call it.
    #[inline(always)]
    unsafe fn pair<const SIZE: u32>(&self, step: u32, which: u32) -> [[u32; 4]; 2] {
        let tile = CpAsyncTile::new(SIZE, 4);
        if WIDE {
            // The permutation does not touch the pieces' higher bits.
            let at =
                self.row + step * MMA_K * tile.wide_row_bytes() + 16 * (self.first ^ self.permutation) + 128 * which;
            [shared::load_x4(at), shared::load_x4(at + 4 * tile.wide_row_bytes())]
        } else {
            let at = self.row + 16 * ((2 * step + self.first) ^ self.permutation) + 32 * which * tile.row_bytes();
            [ldmatrix::load_x4(at), ldmatrix::load_x4(at + 16 * tile.row_bytes())]
        }
    }
}

/// Elements taken apart.
struct Parts {
    hi: [[u32; 4]; 2],
    lo: [[u32; 4]; 2],
}

impl Parts {
    #[inline(always)]
    fn new<const CAREFUL: bool>(elements: [[u32; 4]; 2]) -> Self {
        let hi = elements.map(|four| {
            four.map(|bits| {
                if CAREFUL {
                    f32::from_bits(bits & !BELOW).min(LARGEST).max(-LARGEST).to_bits()
                } else {
                    bits.wrapping_add(HALF) & !BELOW
                }
            })
        });
        let mut lo = [[0; 4]; 2];
        unroll!(I in [0 1] {
            unroll!(J in [0 1 2 3] {
                lo[I][J] = (f32::from_bits(elements[I][J]) - f32::from_bits(hi[I][J])).to_bits();
            });
        });
        Parts { hi, lo }
    }
}

/// Bytes of four f32.
const PIECE_BYTES: u32 = 16;
