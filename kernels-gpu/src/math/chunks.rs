//! Some bytes that are moved as they are, whatever they mean.

use cuda_std::guarded;

/// `BYTES` (1, 2, 4, 8 or 16) from an address that is a multiple of them; zeros where `condition` is false.
///
/// # Safety
/// They exist where it is true, and nobody writes them.
#[inline(always)]
pub unsafe fn load<const BYTES: usize>(from: u64, condition: bool) -> [u32; 4] {
    match BYTES {
        16 => guarded::load_x4(from, condition as u32),
        8 => {
            let [low, high] = guarded::load_x2(from, condition as u32);
            [low, high, 0, 0]
        }
        4 => {
            let [word] = guarded::load_x1(from, condition as u32);
            [word, 0, 0, 0]
        }
        2 => [u32::from(guarded::load_u16(from, condition as u32)), 0, 0, 0],
        _ => [if condition { u32::from(*(from as *const u8)) } else { 0 }, 0, 0, 0],
    }
}

/// Stores what [`load`] gave, where `condition` is true.
///
/// # Safety
/// As there, but that nobody else touches them.
#[inline(always)]
pub unsafe fn store<const BYTES: usize>(to: u64, [a, b, c, d]: [u32; 4], condition: bool) {
    match BYTES {
        16 => guarded::store_x4(to, [a, b, c, d], condition as u32),
        8 => guarded::store_x2(to, [a, b], condition as u32),
        4 => guarded::store_x1(to, [a], condition as u32),
        2 => guarded::store_u16(to, a as u16, condition as u32),
        _ => {
            if condition {
                *(to as *mut u8) = a as u8;
            }
        }
    }
}
