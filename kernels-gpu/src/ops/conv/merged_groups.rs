//! Writes the filter of merged groups, and reads a gradient out of theirs: see [`kernel_abi::ops::conv::merged_groups`].
//!
//! Grid: one-dimensional, one thread for a run. Block: 256. Elements of 2 bytes.

use crate::math::index::for_each_index;
use cuda_std::{memory, schedule};
use kernel_abi::ops::conv::merged_groups::{ConvMergeParams, RUN};

/// The filter, with zeros between the groups.
///
/// # Safety
/// The host passes live tensors of these extents.
#[inline(always)]
pub unsafe fn merge(p: &ConvMergeParams) {
    schedule::launch_dependents();
    schedule::wait_for_predecessors();
    for_each_index(p.n_runs.into(), |index| {
        let run = p.run(index as u32);
        let from = (p.filter as *const u16).offset(run.filter as isize);
        let element = |i: u32| {
            // Channels before those of the group wrap around.
            let c = (run.channel + i).wrapping_sub(run.first);
            if c < p.group_c { u32::from(*from.offset((i64::from(c) * p.strides[1]) as isize)) } else { 0 }
        };
        let pair = |i: u32| element(2 * i) | element(2 * i + 1) << 16;
        let to = p.merged + 2 * (run.merged as u64 + u64::from(run.channel));
        memory::store_x4(to as *mut u32, [pair(0), pair(1), pair(2), pair(3)]);
    });
}

/// The gradient, from that of the merged filter.
///
/// # Safety
/// As [`merge`].
#[inline(always)]
pub unsafe fn pick(p: &ConvMergeParams) {
    schedule::launch_dependents();
    schedule::wait_for_predecessors();
    for_each_index(p.n_runs.into(), |index| {
        let run = p.run(index as u32);
        let from = (p.merged as *const u16).offset(run.merged as isize).offset(run.first as isize);
        let to = (p.filter as *mut u16).offset(run.filter as isize);
        let mut c = run.channel;
        while c < run.channel + RUN && c < p.group_c {
            *to.offset((i64::from(c) * p.strides[1]) as isize) = *from.offset(c as isize);
            c += 1;
        }
    });
}
