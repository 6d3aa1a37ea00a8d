//! Launch parameters: how they are declared, and the fingerprint that ties a PTX file to this crate.

/// The most dimensions a tensor may have.
pub const MAX_RANK: usize = 8;

/// A strided tensor as a kernel sees it.
///
/// `dims` and `strides` are in elements, outermost dimension first; unused trailing entries are 1 and 0.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct TensorParam {
    /// Device address of the first element.
    pub address: u64,
    /// Extents.
    pub dims: [i64; MAX_RANK],
    /// Distances between neighbours along each dimension, in elements.
    pub strides: [i64; MAX_RANK],
}

impl TensorParam {
    /// The same tensor at another address.
    pub const fn at(mut self, address: u64) -> Self {
        self.address = address;
        self
    }
}

/// FNV-1a over bytes, usable in constants.
pub const fn fnv(mut hash: u64, bytes: &[u8]) -> u64 {
    let mut i = 0;
    while i < bytes.len() {
        hash ^= bytes[i] as u64;
        hash = hash.wrapping_mul(0x0000_0100_0000_01b3);
        i += 1;
    }
    hash
}

/// FNV-1a over a number.
pub const fn fnv_number(hash: u64, number: usize) -> u64 {
    fnv(hash, &(number as u64).to_le_bytes())
}

/// Where [`fnv`] starts.
pub const FNV_START: u64 = 0xcbf2_9ce4_8422_2325;

/// Declares a launch-parameter struct (`#[repr(C)]`, `Copy`) together with `LAYOUT_HASH`, a hash of its field
/// names, offsets and size, which [`abi_fingerprint`] collects.
#[macro_export]
macro_rules! abi_struct {
    ($(#[$meta:meta])* pub struct $name:ident { $($(#[$field_meta:meta])* pub $field:ident : $ty:ty),* $(,)? }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq)]
        #[repr(C)]
        pub struct $name { $($(#[$field_meta])* pub $field: $ty),* }

        impl $name {
            /// Hash of the struct's field names, offsets and size.
            pub const LAYOUT_HASH: u64 = {
                let mut hash = $crate::layout::fnv($crate::layout::FNV_START, stringify!($name).as_bytes());
                $(
                    hash = $crate::layout::fnv(hash, stringify!($field).as_bytes());
                    hash = $crate::layout::fnv(hash, stringify!($ty).as_bytes());
                    hash = $crate::layout::fnv_number(hash, core::mem::offset_of!($name, $field));
                )*
                $crate::layout::fnv_number(hash, core::mem::size_of::<$name>())
            };
        }
    };
}

/// One number for all parameter layouts of this crate.
///
/// The kernels export it and the host compares it when a module is loaded, so a stale PTX is an error and not a
/// wrong answer.
pub const fn abi_fingerprint() -> u64 {
    let mut hash = FNV_START;
    let mut i = 0;
    while i < crate::ops::LAYOUT_HASHES.len() {
        hash = fnv(hash, &crate::ops::LAYOUT_HASHES[i].to_le_bytes());
        i += 1;
    }
    hash
}

#[cfg(test)]
mod tests {
    #[test]
    fn layout_hash_sees_names_and_offsets() {
        abi_struct! { #[allow(missing_docs)] pub struct A { pub x: u32, pub y: u64 } }
        abi_struct! { #[allow(missing_docs)] pub struct B { pub x: u32, pub z: u64 } }
        abi_struct! { #[allow(missing_docs)] pub struct C { pub x: u64, pub y: u64 } }
        assert_ne!(A::LAYOUT_HASH, B::LAYOUT_HASH);
        assert_ne!(A::LAYOUT_HASH, C::LAYOUT_HASH);
    }
}
