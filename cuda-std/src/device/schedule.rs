//! Registers among warpgroups and order among kernels. `sm_90`.

use core::arch::asm;

/// Gives registers up, down to `N` a thread: `setmaxnreg.dec`. All warps of a warpgroup, once.
#[inline(always)]
pub fn release_registers<const N: u32>() {
    // SAFETY: changes an allocation; the assembler keeps the code within it.
    unsafe { asm!("setmaxnreg.dec.sync.aligned.u32 {0};", const N, options(nomem, nostack)) };
}

/// Takes registers, up to `N` a thread, waiting for others to release them: `setmaxnreg.inc`.
#[inline(always)]
pub fn acquire_registers<const N: u32>() {
    // SAFETY: as above.
    unsafe { asm!("setmaxnreg.inc.sync.aligned.u32 {0};", const N, options(nomem, nostack)) };
}

/// Waits until the kernels this one was launched behind are done: `griddepcontrol.wait`.
#[inline(always)]
pub fn wait_for_predecessors() {
    // SAFETY: waits.
    unsafe { asm!("griddepcontrol.wait;", options(nostack)) };
}

/// Lets the kernels launched behind this one start: `griddepcontrol.launch_dependents`.
#[inline(always)]
pub fn launch_dependents() {
    // SAFETY: signals.
    unsafe { asm!("griddepcontrol.launch_dependents;", options(nostack)) };
}
