//! Where a thread stands: `%tid`, `%ctaid`, `%ntid`, `%nctaid`.

use core::arch::asm;

pub use super::barrier::{
    fence_block as block_fence, fence_device as device_fence, fence_system as system_fence, sync_threads,
    sync_threads_and, sync_threads_count, sync_threads_or,
};

macro_rules! special_register {
    ($($(#[$meta:meta])* $name:ident = $register:literal;)*) => { $(
        $(#[$meta])*
        #[inline(always)]
        pub fn $name() -> u32 {
            let value: u32;
            // SAFETY: reads a special register.
            unsafe { asm!(concat!("mov.u32 {0}, ", $register, ";"), out(reg32) value, options(pure, nomem, nostack)) };
            value
        }
    )* };
}

special_register! {
    /// Thread within the block, x: `%tid.x`.
    thread_idx_x = "%tid.x";
    /// Thread within the block, y: `%tid.y`.
    thread_idx_y = "%tid.y";
    /// Thread within the block, z: `%tid.z`.
    thread_idx_z = "%tid.z";
    /// Block within the grid, x: `%ctaid.x`.
    block_idx_x = "%ctaid.x";
    /// Block within the grid, y: `%ctaid.y`.
    block_idx_y = "%ctaid.y";
    /// Block within the grid, z: `%ctaid.z`.
    block_idx_z = "%ctaid.z";
    /// Threads of a block, x: `%ntid.x`.
    block_dim_x = "%ntid.x";
    /// Threads of a block, y: `%ntid.y`.
    block_dim_y = "%ntid.y";
    /// Threads of a block, z: `%ntid.z`.
    block_dim_z = "%ntid.z";
    /// Blocks of the grid, x: `%nctaid.x`.
    grid_dim_x = "%nctaid.x";
    /// Blocks of the grid, y: `%nctaid.y`.
    grid_dim_y = "%nctaid.y";
    /// Blocks of the grid, z: `%nctaid.z`.
    grid_dim_z = "%nctaid.z";
    /// Lane within the warp: `%laneid`.
    lane_id = "%laneid";
    /// Multiprocessor this block runs on: `%smid`.
    multiprocessor_id = "%smid";
    /// The lanes below this one, as bits: `%lanemask_lt`.
    lanes_below = "%lanemask_lt";
}

/// Index of the thread in its block, x fastest.
#[inline(always)]
pub fn index_in_block() -> u32 {
    (thread_idx_z() * block_dim_y() + thread_idx_y()) * block_dim_x() + thread_idx_x()
}

/// Index of the warp in a one-dimensional block, known to be the same in all its lanes.
#[inline(always)]
pub fn warp_idx() -> u32 {
    super::warp::uniform(thread_idx_x() / 32)
}

/// Index of the warpgroup (four warps) in a one-dimensional block, known to be the same in all its lanes.
#[inline(always)]
pub fn warpgroup_idx() -> u32 {
    super::warp::uniform(thread_idx_x() / 128)
}

/// Whether this is the first thread of the first block.
#[inline(always)]
pub fn first() -> bool {
    index_in_block() == 0 && block_idx_x() | block_idx_y() | block_idx_z() == 0
}

/// Index of a thread in a one-dimensional launch.
#[inline(always)]
pub fn index_1d() -> u64 {
    u64::from(block_idx_x()) * u64::from(block_dim_x()) + u64::from(thread_idx_x())
}

/// Threads of a one-dimensional launch: the step of a grid-stride loop.
#[inline(always)]
pub fn grid_threads_1d() -> u64 {
    u64::from(grid_dim_x()) * u64::from(block_dim_x())
}

/// Clock ticks of the multiprocessor: `%clock64`.
#[inline(always)]
pub fn clock64() -> u64 {
    let value: u64;
    // SAFETY: reads a special register; not `pure`, since its value changes.
    unsafe { asm!("mov.u64 {0}, %clock64;", out(reg64) value, options(nomem, nostack)) };
    value
}

/// Nanoseconds on the device's coarse clock: `%globaltimer`.
#[inline(always)]
pub fn globaltimer() -> u64 {
    let value: u64;
    // SAFETY: reads a special register; not `pure`, since its value changes.
    unsafe { asm!("mov.u64 {0}, %globaltimer;", out(reg64) value, options(nomem, nostack)) };
    value
}

/// Sleeps for about this long, at most a millisecond: `nanosleep`.
#[inline(always)]
pub fn nanosleep(nanoseconds: u32) {
    // SAFETY: waits.
    unsafe { asm!("nanosleep.u32 {0};", in(reg32) nanoseconds, options(nomem, nostack)) };
}

/// Ends the kernel with an error: `trap`.
#[inline(always)]
pub fn trap() -> ! {
    // SAFETY: ends the program.
    unsafe { asm!("trap;", options(noreturn, nostack)) }
}
