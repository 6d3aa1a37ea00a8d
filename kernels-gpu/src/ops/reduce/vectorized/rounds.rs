//! A reduction is done once, or, where that leaves the type's range, again with elements times a power of two.

use crate::math::reduction::Scale;
use cuda_std::warp;

/// The scales by which a reduction is done again; the same in all threads that share it.
pub(super) struct Rounds {
    down: bool,
    up: bool,
}

impl Rounds {
    /// None yet.
    #[inline(always)]
    pub fn none() -> Self {
        Rounds { down: false, up: false }
    }

    /// What a result wants; all threads of the warp call it, and have all results among them.
    #[inline(always)]
    pub fn ask(&mut self, wanted: Scale) {
        self.down |= warp::any(wanted == Scale::Down);
        self.up |= warp::any(wanted == Scale::Up);
    }

    /// The scale of the next round, if there is one.
    #[inline(always)]
    pub fn next(&mut self) -> Option<Scale> {
        if self.down {
            self.down = false;
            Some(Scale::Down)
        } else if self.up {
            self.up = false;
            Some(Scale::Up)
        } else {
            None
        }
    }
}
