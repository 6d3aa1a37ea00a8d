//! Where the state spaces lie among generic addresses.
//!
//! Device memory has the addresses that it has on the host. Everything else has addresses that no memory of the host
//! can have: their upper byte names the space.

use crate::ptx::Space;

const SHARED: u64 = 0x7E << 56;
const LOCAL: u64 = 0x7D << 56;
const PARAM: u64 = 0x7C << 56;

/// The bits of an address in shared memory of a cluster that name the block; 0 is the block itself, others its rank
/// and one.
pub const RANK_SHIFT: u32 = 24;

/// What is added to a space's address to make it generic.
pub fn window(space: Space) -> u64 {
    match space {
        Space::Shared | Space::SharedCluster => SHARED,
        Space::Local => LOCAL,
        Space::Param => PARAM,
        Space::Generic | Space::Global | Space::Const => 0,
    }
}

/// The space of a generic address and the address there.
pub fn split(generic: u64) -> (Space, u64) {
    let rest = generic & (u64::MAX >> 8);
    match generic & !(u64::MAX >> 8) {
        SHARED => (Space::SharedCluster, rest),
        LOCAL => (Space::Local, rest),
        PARAM => (Space::Param, rest),
        _ => (Space::Global, generic),
    }
}
