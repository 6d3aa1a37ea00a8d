//! The generator Philox4x32-10, for device and host.

const MULTIPLIERS: [u32; 2] = [0xd251_1f53, 0xcd9e_8d57];
/// The golden ratio and √3 - 1.
const WEYL: [u32; 2] = [0x9e37_79b9, 0xbb67_ae85];
const ROUNDS: usize = 10;

/// The keys of all rounds.
pub type Keys = [[u32; 2]; ROUNDS];

/// The keys of all rounds, from the first one's.
#[inline(always)]
pub const fn keys(first: [u32; 2]) -> Keys {
    let mut keys = [first; ROUNDS];
    let mut round = 1;
    while round < ROUNDS {
        let [k0, k1] = keys[round - 1];
        keys[round] = [k0.wrapping_add(WEYL[0]), k1.wrapping_add(WEYL[1])];
        round += 1;
    }
    keys
}

/// The keys of a seed.
#[inline(always)]
pub const fn keys_of(seed: u64) -> Keys {
    keys([seed as u32, (seed >> 32) as u32])
}

/// Four words that look random, for a counter and keys.
#[inline(always)]
pub const fn philox(counter: [u32; 4], keys: &Keys) -> [u32; 4] {
    let [mut c0, mut c1, mut c2, mut c3] = counter;
    let mut round = 0;
    while round < ROUNDS {
        let [k0, k1] = keys[round];
        let low = MULTIPLIERS[0] as u64 * c0 as u64;
        let high = MULTIPLIERS[1] as u64 * c2 as u64;
        (c0, c1, c2, c3) = ((high >> 32) as u32 ^ c1 ^ k0, high as u32, (low >> 32) as u32 ^ c3 ^ k1, low as u32);
        round += 1;
    }
    [c0, c1, c2, c3]
}

/// The words of elements 4 i to 4 i + 3.
#[inline(always)]
pub const fn words(keys: &Keys, offset: u64, i: u64) -> [u32; 4] {
    let counter = offset.wrapping_add(i);
    philox([counter as u32, (counter >> 32) as u32, 0, 0], keys)
}

/// What a word must reach for its element to be kept; 2³² where none is.
pub fn threshold(p: f64) -> u64 {
    (p * 4_294_967_296.0) as u64
}

/// A number of 64 bits from its halves, which tensors hold as `i32`.
#[inline(always)]
pub const fn join(low: i32, high: i32) -> u64 {
    (high as u32 as u64) << 32 | low as u32 as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The known answers that the authors publish with their library Random123.
    #[test]
    fn answers_are_those_of_the_authors() {
        let philox = |counter, key| philox(counter, &keys(key));
        assert_eq!(philox([0; 4], [0; 2]), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
        assert_eq!(philox([u32::MAX; 4], [u32::MAX; 2]), [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]);
        let counter = [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344];
        let answer = [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1];
        assert_eq!(philox(counter, [0xa409_3822, 0x299f_31d0]), answer);
    }

    #[test]
    fn counters_wrap_and_thresholds_reach_both_ends() {
        assert_eq!(words(&keys_of(7), u64::MAX, 1), words(&keys_of(7), 0, 0));
        assert_eq!(words(&keys_of(1 << 40 | 7), 5, 1 << 33), philox([5, 2, 0, 0], &keys([7, 256])));
        assert_eq!((threshold(0.0), threshold(0.5), threshold(1.0)), (0, 1 << 31, 1 << 32));
        assert_eq!(join(-1, 3), 0x3_ffff_ffff);
    }
}
