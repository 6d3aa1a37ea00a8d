//! The devices, which are alike, and their limits: those of an H200, but for the number of multiprocessors.

use super::errors::{INVALID_DEVICE, INVALID_VALUE};
use super::{Outcome, api, put, settings};
use std::ffi::{c_char, c_int};

/// It can not be taken for a GPU.
pub(super) const NAME: &str = "oxidnn simulator";
/// As 1000 · major + 10 · minor.
const VERSION: c_int = 13_000;
/// Shared memory of a block without asking for more.
pub(super) const SHARED_BYTES: usize = 48 << 10;
/// Shared memory of a block at most.
pub(super) const MOST_SHARED_BYTES: usize = 227 << 10;
/// Shared memory of a multiprocessor.
pub(super) const SM_SHARED_BYTES: usize = 228 << 10;
/// Shared memory that the system takes of every block's.
pub(super) const RESERVED_SHARED_BYTES: usize = 1 << 10;
/// Registers of a multiprocessor.
pub(super) const REGISTERS: u64 = 65_536;
/// Threads of a block at most.
pub(super) const MOST_THREADS: u32 = 1024;
/// Threads of a multiprocessor.
pub(super) const SM_THREADS: u64 = 2048;
/// Blocks of a multiprocessor.
pub(super) const SM_BLOCKS: u64 = 32;

fn attribute(number: u32) -> Option<c_int> {
    Some(match number {
        1..=3 => MOST_THREADS as c_int,
        4 => 64,
        5 => c_int::MAX,
        6 | 7 => 65_535,
        8 => SHARED_BYTES as c_int,
        9 => 65_536,
        10 => 32,
        11 => c_int::MAX,
        12 | 82 => REGISTERS as c_int,
        13 => 1_980_000,
        14 => 512,
        15 | 31 | 32 | 41 => 1,
        16 => settings::sms() as c_int,
        17 | 18 | 20 | 35 => 0,
        19 => 1,
        33 | 34 | 50 => 0,
        36 => 3_201_000,
        37 => 6144,
        38 => 50 << 20,
        39 => SM_THREADS as c_int,
        40 => 1,
        75 => 9,
        76 => 0,
        81 => SM_SHARED_BYTES as c_int,
        83 => 0,
        95 => 1,
        97 => MOST_SHARED_BYTES as c_int,
        106 => SM_BLOCKS as c_int,
        111 => RESERVED_SHARED_BYTES as c_int,
        115 => 0,
        120 => 1,
        127 => 1,
        // Everything else that there is a number for is 0.
        number if number < 130 => 0,
        _ => return None,
    })
}

pub(super) fn known(device: c_int) -> Outcome {
    if (0..settings::devices() as c_int).contains(&device) { Ok(()) } else { Err(INVALID_DEVICE) }
}

/// Differs in the last letter.
fn uuid(device: c_int) -> [u8; 16] {
    let mut uuid = *b"oxidnn simulator";
    uuid[15] = uuid[15].wrapping_add(device as u8);
    uuid
}

api! {
    #[always]
    fn cuInit(flags: u32) {
        if flags == 0 { Ok(()) } else { Err(INVALID_VALUE) }
    }

    #[always]
    fn cuDriverGetVersion(version: *mut c_int) {
        // SAFETY: the caller gives a place for the result.
        unsafe { put(version, VERSION) }
    }

    #[always]
    fn cuDeviceGetCount(count: *mut c_int) {
        // SAFETY: the caller gives a place for the result.
        unsafe { put(count, settings::devices() as c_int) }
    }

    #[always]
    fn cuDeviceGet(device: *mut c_int, ordinal: c_int) {
        known(ordinal)?;
        // SAFETY: the caller gives a place for the result.
        unsafe { put(device, ordinal) }
    }

    #[always]
    fn cuDeviceGetName(name: *mut c_char, len: c_int, device: c_int) {
        known(device)?;
        if name.is_null() || len <= 0 {
            return Err(INVALID_VALUE);
        }
        let bytes = &NAME.as_bytes()[..NAME.len().min(len as usize - 1)];
        for (i, &byte) in bytes.iter().chain(&[0]).enumerate() {
            // SAFETY: the caller's promise is this call's.
            unsafe { name.add(i).write(byte as c_char) };
        }
        Ok(())
    }

    #[always]
    fn cuDeviceGetUuid_v2(uuid: *mut [u8; 16], device: c_int) {
        known(device)?;
        // SAFETY: the caller gives a place for the result.
        unsafe { put(uuid, self::uuid(device)) }
    }

    #[always]
    fn cuDeviceGetUuid(uuid: *mut [u8; 16], device: c_int) {
        known(device)?;
        // SAFETY: the caller gives a place for the result.
        unsafe { put(uuid, self::uuid(device)) }
    }

    #[always]
    fn cuDeviceTotalMem_v2(bytes: *mut usize, device: c_int) {
        known(device)?;
        // SAFETY: the caller gives a place for the result.
        unsafe { put(bytes, settings::memory_bytes()) }
    }

    #[always]
    fn cuDeviceGetAttribute(value: *mut c_int, number: u32, device: c_int) {
        known(device)?;
        let found = attribute(number).ok_or(INVALID_VALUE)?;
        // SAFETY: the caller gives a place for the result.
        unsafe { put(value, found) }
    }
}
