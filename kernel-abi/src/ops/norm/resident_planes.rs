//! What host and device agree on about planar channels that are on the chip from their sums to their results.
//!
//! Blocks are shared out among teams. A team takes a *group* of neighbouring channels at a time: one, or so many that their
//! planes are together a multiple of 16 bytes, which is what the copy engine moves. The group's images are cut into
//! *units*, runs of bytes that are contiguous in memory: a piece of a plane, or an image's planes of all channels of the
//! group. Block b of a team has neighbouring units, which are one stage of its ring.

use super::channelwise::ChannelwiseParams;

/// Threads that add up, and as many that write.
pub const ROLE: u32 = 256;
/// Warps that join, each every so many groups: waiting for flags and for parts takes longer than all else.
pub const JOINERS: u32 = 4;
/// Threads of a block: warps that add up, warps that write, those that join, and one each that brings and sends.
pub const THREADS: u32 = 2 * ROLE + (JOINERS + 2) * 32;
/// The most channels of a group: planes of an odd number of 16-bit elements.
pub const MAX_GROUP: u32 = 8;
/// The most stages of a ring.
pub const MAX_STAGES: u32 = 16;
/// The fewest: one is brought, while the other waits for the sums of the team and is sent.
pub const MIN_STAGES: u32 = 2;
/// Stages and the tensors in them begin at multiples of so many bytes.
pub const STAGE_ALIGN: u32 = 128;
/// Numbers of a channel that what writes needs.
pub const FACTORS: u32 = 4;
/// Barriers of a stage: it is full, its sums are there, its factors are known, its results are there, it is empty.
pub const BARRIERS: u32 = 5;

/// Words of shared memory where the warps that add up leave two numbers each: `[stage][warp][which]`.
pub const SUM_WORDS: u32 = MAX_STAGES * 2 * ROLE / 32;
/// Words of shared memory for the factors of all stages: `[stage][which][channel of the group]`.
pub const FACTOR_WORDS: u32 = MAX_STAGES * FACTORS * MAX_GROUP;

/// Shared memory of a block beside its stages.
pub const FIXED_BYTES: u32 = 4 * (SUM_WORDS + FACTOR_WORDS) + 8 * BARRIERS * MAX_STAGES;

crate::abi_struct! {
    /// Launch parameters of these kernels.
    pub struct ResidentPlanesParams {
        /// Tensors, parameters and statistics, as the kernels of `channelwise` take them; parts are
        /// `[team][slot][block][channel of the group]`, two numbers each.
        pub channels: ChannelwiseParams,
        /// A flag for each part, `[team][slot][block]`.
        pub flags: u64,
        /// Flags say `tag + k + 1` when the part of a team's group number k is there.
        pub tag: u64,
        /// For each team, how many of its blocks are done.
        pub counters: u64,
        /// Channels of a group: a power of two.
        pub group: u32,
        /// Groups.
        pub n_groups: u32,
        /// Teams, and blocks of each.
        pub teams: u32,
        /// See `teams`.
        pub blocks: u32,
        /// Units of an image.
        pub pieces: crate::division::Divisor,
        /// Bytes of a unit.
        pub unit_bytes: u32,
        /// Vectors of a unit that belong to one channel.
        pub unit_vectors: u32,
        /// Elements of a channel in a unit.
        pub unit_elems: u32,
        /// Units that every block has, and how many blocks, the first ones, have one more.
        pub even: u32,
        /// See `even`.
        pub more: u32,
        /// Tensors that are brought.
        pub tensors: u32,
        /// Bytes between the tensors of a stage.
        pub pitch: u32,
        /// Stages of the ring.
        pub n_stages: u32,
    }
}

impl ResidentPlanesParams {
    /// Units of a block.
    #[inline(always)]
    pub const fn units_of(&self, block: u32) -> u32 {
        self.even + (block < self.more) as u32
    }

    /// The first of them.
    #[inline(always)]
    pub const fn first_unit_of(&self, block: u32) -> u32 {
        block * self.even + if block < self.more { block } else { self.more }
    }

    /// Groups of a team.
    #[inline(always)]
    pub const fn groups_of(&self, team: u32) -> u32 {
        match (self.n_groups - team - 1).checked_div(self.teams) {
            Some(more) => more + 1,
            None => 0,
        }
    }

    /// Parts of a block that there is room for. When it leaves the one of group k, it is done with that of k - stages: so
    /// are all blocks of the team with that of k - 2 stages, which they had read before they brought k - stages.
    #[inline(always)]
    pub const fn slots(&self) -> u32 {
        2 * self.n_stages
    }
}
