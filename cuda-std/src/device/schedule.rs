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

/// The same value, of which the compiler knows nothing: what is computed from it is computed here, and not kept in
/// registers from somewhere else.
#[inline(always)]
pub fn opaque(value: u32) -> u32 {
    let same: u32;
    // SAFETY: copies a register.
    unsafe { asm!("mov.b32 {0}, {1};", out(reg32) same, in(reg32) value, options(nomem, nostack)) };
    same
}
