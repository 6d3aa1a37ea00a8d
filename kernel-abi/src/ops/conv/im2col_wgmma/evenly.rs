//! Stages of many tiles shared out evenly, one tile after the other (stream-K: Osama et al., "Stream-K", PPoPP 2023).

use crate::division::div_rem;

/// How many stages of all tiles in a row each worker has: some of the first ones have one more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Evenly {
    /// Stages of a worker, at least.
    pub each: u32,
    /// Workers that have one more.
    pub rest: u32,
}

impl Evenly {
    /// So many stages among so many workers.
    #[inline(always)]
    pub const fn new(stages: u32, workers: u32) -> Self {
        let (each, rest) = div_rem(stages, workers);
        Evenly { each, rest }
    }

    /// The stages of a worker: the first, and one behind the last.
    #[inline(always)]
    pub const fn of(self, worker: u32) -> (u32, u32) {
        (self.first(worker), self.first(worker + 1))
    }

    /// The first of a worker's stages.
    #[inline(always)]
    const fn first(self, worker: u32) -> u32 {
        worker * self.each + if worker < self.rest { worker } else { self.rest }
    }

    /// The worker whose stage this is.
    #[inline(always)]
    const fn worker_of(self, stage: u32) -> u32 {
        let Evenly { each, rest } = self;
        let longer = rest * (each + 1);
        if stage < longer { div_rem(stage, each + 1).0 } else { rest + div_rem(stage - longer, each).0 }
    }

    /// Who has any of so many stages from `first` on: the first, and one behind the last.
    #[inline(always)]
    pub const fn sharing(self, first: u32, stages: u32) -> (u32, u32) {
        (self.worker_of(first), self.worker_of(first + stages - 1) + 1)
    }

    /// The worker that cluster `index` of `n` is, where who has the first part of a sum waits for those who have the
    /// others: workers behind it, so they are the clusters before, which the hardware starts first. So nobody waits for a
    /// cluster that has no room yet, whatever else is at work on the device.
    #[inline(always)]
    pub const fn worker(index: u32, n: u32) -> u32 {
        n - 1 - index
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_stage_has_one_worker() {
        for (stages, workers) in [(1, 1), (7, 3), (40, 8), (131, 132), (4320, 132)] {
            let all = Evenly::new(stages, workers);
            let mut next = 0;
            for worker in 0..workers {
                let (begin, end) = all.of(worker);
                assert_eq!(begin, next);
                assert!((begin..end).all(|stage| all.sharing(stage, 1) == (worker, worker + 1)));
                next = end;
            }
            assert_eq!(next, stages);
            assert_eq!(all.sharing(0, stages).0, 0);
        }
    }
}
