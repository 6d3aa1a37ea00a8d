//! Where sums arrive that other workers left in the workspace: each thread copies what it reads itself to where the stages
//! were, which nobody needs any more.
//!
//! What takes time is the way, not what goes, and registers have no room for as much as should be under way at once.

use super::Ring;
use super::parts::{HOLDERS, Parts, QUAD_BYTES};
use crate::math::vector;
use cuda_std::barrier::sync_named;
use cuda_std::{cp_async, shared};
use kernel_abi::ops::conv::im2col_wgmma::ConvTile;

/// The barrier of the consumers. Those before it are of the way out of `fprop` and `dgrad`.
const CONSUMERS_MEET: u32 = 5;

/// Waits until neither consumer reads stages any more.
///
/// # Safety
/// All threads of both consumers, behind the last stage of their block.
#[inline(always)]
pub(super) unsafe fn consumers_meet() {
    sync_named(CONSUMERS_MEET, HOLDERS);
}

/// A thread's places for `QUADS` quads each, which are written and read in turns: one that is taken, and `BEHIND` more.
pub(super) struct Slots<const QUADS: usize, const BEHIND: u32> {
    /// Where its first quad of the first slot lies.
    room: u32,
    /// The slots that are written and read next.
    next: u32,
    first: u32,
}

impl<const QUADS: usize, const BEHIND: u32> Slots<QUADS, BEHIND> {
    /// Bytes of a slot of all threads.
    const BYTES: u32 = QUADS as u32 * HOLDERS * QUAD_BYTES;

    /// How many there are.
    pub(super) const AHEAD: u32 = BEHIND + 1;

    /// Whether a tile's stages have room for them.
    pub(super) const fn fit(tile: ConvTile) -> bool {
        Self::AHEAD * Self::BYTES <= tile.stages * tile.stage_bytes()
    }

    /// Those of a tile that they [`fit`](Slots::fit).
    #[inline(always)]
    pub(super) fn new(parts: &Parts) -> Self {
        Slots { room: Ring::new(parts.tile).base + (parts.warp * 32 + parts.lane) * QUAD_BYTES, next: 0, first: 0 }
    }

    /// Sends this thread's quads on their way to the next slot, those from `from` on, or nothing.
    ///
    /// # Safety
    /// They are there, what the slot had before is taken, and [`consumers_meet`] was before.
    #[inline(always)]
    pub(super) unsafe fn send(&mut self, from: Option<*mut [u32; 4]>) {
        if let Some(from) = from {
            let to = self.room + self.next * Self::BYTES;
            vector::for_each!(Q < QUADS, {
                let at = from.add(Q * HOLDERS as usize);
                cp_async::copy_x4(to + Q as u32 * HOLDERS * QUAD_BYTES, at as *const u8, QUAD_BYTES);
            });
        }
        self.next = (self.next + 1) % Self::AHEAD;
        // Also where nothing was sent: the wait counts groups.
        cp_async::commit_group();
    }

    /// Takes what was sent first.
    ///
    /// # Safety
    /// [`Slots::AHEAD`] were sent that are not taken yet.
    #[inline(always)]
    pub(super) unsafe fn take(&mut self) -> [[f32; 4]; QUADS] {
        cp_async::wait_group::<BEHIND>();
        let from = self.room + self.first * Self::BYTES;
        let mut quads = [[0.0; 4]; QUADS];
        vector::for_each!(Q < QUADS, {
            quads[Q] = shared::load_x4(from + Q as u32 * HOLDERS * QUAD_BYTES).map(f32::from_bits);
        });
        self.first = (self.first + 1) % Self::AHEAD;
        quads
    }
}
