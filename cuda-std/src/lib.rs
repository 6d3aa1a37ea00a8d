//! Device prelude: the only way kernels reach the hardware, and the only inline assembly of the workspace.
//!
//! One PTX family a file. Every wrapper names its instruction and the first architecture that has it; where none is
//! named, every supported one does (`sm_80` on). Kernels use nothing else, so that a CPU implementation of these
//! functions could run them without a GPU.
//!
//! The names are those of rust-cuda's `cuda_std`, whose published version no longer compiles (README.md).
#![cfg_attr(target_arch = "nvptx64", no_std)]
#![cfg_attr(target_arch = "nvptx64", feature(asm_experimental_arch))]

pub use cuda_std_macros::kernel;

pub mod elementary;

#[cfg(target_arch = "nvptx64")]
mod device;
#[cfg(target_arch = "nvptx64")]
pub use device::*;

/// What most kernels need: `use cuda_std::prelude::*`.
pub mod prelude {
    pub use crate::kernel;
    #[cfg(target_arch = "nvptx64")]
    pub use crate::{barrier, shared, shared_array, thread, warp};
}
