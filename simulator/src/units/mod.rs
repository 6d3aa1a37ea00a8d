//! The parts of a multiprocessor that are pure functions: formats, tensor maps, tensor cores, barriers.

pub mod formats;
pub mod mbarrier;
pub mod mma;
pub mod reduction;
pub mod tensor_map;
pub mod tma;
pub mod wgmma;
