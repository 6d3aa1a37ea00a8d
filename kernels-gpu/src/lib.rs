//! The device code of oxidnn: every kernel, compiled to PTX by `cargo xtask build-ptx`.
//!
//! Imports go downward only: `ops`, `epilogue` → `math` → `cuda_std`. On the host the crate is empty.
#![cfg_attr(target_arch = "nvptx64", no_std)]
#![cfg_attr(
    target_arch = "nvptx64",
    feature(abi_ptx, asm_experimental_arch, f16, core_intrinsics, stmt_expr_attributes)
)]
#![allow(internal_features)]
// Nobody reads the compiler's warnings of a device build. The last round of an unrolled loop may set what none reads.
#![cfg_attr(target_arch = "nvptx64", deny(unused), allow(unused_assignments))]
// Kernels are unsafe functions from end to end: their addresses come from the host, and the launch code vouches for
// them. One SAFETY sentence at each entry says so; blocks inside would repeat it at every access.
#![allow(unsafe_op_in_unsafe_fn)]

#[cfg(target_arch = "nvptx64")]
mod epilogue;
#[cfg(target_arch = "nvptx64")]
mod math;
#[cfg(target_arch = "nvptx64")]
mod ops;
#[cfg(target_arch = "nvptx64")]
mod unit;

#[cfg(target_arch = "nvptx64")]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    cuda_std::thread::trap()
}

/// Ties this PTX to the layout of the launch parameters; compared by the host when a module is loaded.
#[cfg(target_arch = "nvptx64")]
#[unsafe(no_mangle)]
#[used]
pub static OXIDNN_ABI_FINGERPRINT: u64 = kernel_abi::abi_fingerprint();
