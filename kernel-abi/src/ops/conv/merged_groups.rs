//! What launcher and kernels of `merged_groups` agree on.
//!
//! Several neighbouring groups are as good as one of all their channels, whose filter has zeros between the groups. One
//! kernel writes that filter, the other reads the gradient of the real one out of the gradient of the merged one.

use crate::division::Divisor;

/// Elements that a thread copies: 16 bytes of a merged row.
pub const RUN: u32 = 8;

crate::abi_struct! {
    /// Launch parameters of both kernels, between a filter `[K, C of a group, T, R, S]` of any strides and the merged one,
    /// `[K][T][R][S][channels of a merged group, filled up to whole runs]`.
    pub struct ConvMergeParams {
        /// The filter.
        pub filter: u64,
        /// The merged filter.
        pub merged: u64,
        /// Distances of the filter along K, C, T, R, S, in elements.
        pub strides: [i64; 5],
        /// T, R, S.
        pub taps: [Divisor; 3],
        /// Runs for each k and tap: of a merged row where it is written, else of a group's channels.
        pub runs: Divisor,
        /// K of a group.
        pub group_k: Divisor,
        /// Groups that are merged into one.
        pub groups: Divisor,
        /// C of a group.
        pub group_c: u32,
        /// Elements of a merged row.
        pub pitch: u32,
        /// Runs of all k and taps.
        pub n_runs: u32,
        /// Nothing: the struct's end.
        pub reserved: u32,
    }
}

/// Where a run belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MergedRun {
    /// Where the first channel of its k and tap lies in the filter, in elements.
    pub filter: i64,
    /// Where its merged row begins, in elements.
    pub merged: i64,
    /// The merged channel that is the first one of its group.
    pub first: u32,
    /// Its first channel: merged where a merged row is written, else of the group.
    pub channel: u32,
}

impl ConvMergeParams {
    /// The run with this index.
    #[inline(always)]
    pub const fn run(&self, index: u32) -> MergedRun {
        let (row, run) = self.runs.div_rem(index);
        let (rest, s) = self.taps[2].div_rem(row);
        let (rest, r) = self.taps[1].div_rem(rest);
        let (k, t) = self.taps[0].div_rem(rest);
        let (group, _) = self.group_k.div_rem(k);
        let (_, member) = self.groups.div_rem(group);
        let [k_stride, _, t_stride, r_stride, s_stride] = self.strides;
        MergedRun {
            filter: k as i64 * k_stride + t as i64 * t_stride + r as i64 * r_stride + s as i64 * s_stride,
            merged: row as i64 * self.pitch as i64,
            first: member * self.group_c,
            channel: run * RUN,
        }
    }
}
