//! What launcher and kernel of `padded_channels` agree on.
//!
//! The copy engine takes positions that lie multiples of 16 bytes apart, so channels that are no multiple of 8 are
//! copied to where each position begins at one. A *run* is 16 written bytes: 8 channels.

use crate::division::Divisor;

/// Threads of a block.
pub const THREADS: u32 = 256;
/// Runs that a thread copies.
pub const THREAD_RUNS: u32 = 4;
/// Runs that a block copies.
pub const BLOCK_RUNS: u32 = THREADS * THREAD_RUNS;
/// Elements of a run.
pub const RUN: u32 = 8;

/// A tensor as rows of channels, and where they go.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C)]
pub struct PaddedRows {
    /// The tensor that is read.
    pub from: u64,
    /// The copy: rows one behind the other, each a whole number of runs, zeros behind the channels.
    pub to: u64,
    /// Distance between rows that are read, in elements.
    pub pitch: i64,
    /// Runs of a row.
    pub row_runs: Divisor,
    /// Runs of all rows.
    pub n_runs: u32,
    /// Elements of a row.
    pub channels: u32,
    /// Bytes that are read at a time: 2, 4 or 8, which divide addresses and lengths of all rows.
    pub load_bytes: u32,
}

crate::abi_struct! {
    /// Launch parameters of the copying kernel: blocks `0..first_blocks` copy the first tensor, the others the second.
    pub struct ConvPadParams {
        /// The first tensor.
        pub first: PaddedRows,
        /// The second one; without runs where there is none.
        pub second: PaddedRows,
        /// Blocks that copy the first one.
        pub first_blocks: u32,
        /// Nothing: the struct's end.
        pub reserved: u32,
    }
}

impl PaddedRows {
    /// Where run `index` is read, in elements of the tensor, and how many of its elements there are, of [`RUN`].
    #[inline(always)]
    pub const fn source(&self, index: u32) -> (i64, u32) {
        let (row, run) = self.row_runs.div_rem(index);
        let first = run * RUN;
        let left = self.channels - first;
        (row as i64 * self.pitch + first as i64, if left < RUN { left } else { RUN })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_hold_every_channel_once() {
        for (rows, channels, pitch) in [(1, 1, 1), (5, 12, 12), (7, 13, 20), (3, 24, 28), (4, 7, 7), (2, 436, 436)] {
            let row_runs = Divisor::new(u32::div_ceil(channels, RUN));
            let n_runs = rows * row_runs.divisor;
            let tensor = PaddedRows { pitch, row_runs, n_runs, channels, ..PaddedRows::default() };
            let mut seen = vec![0; (rows as i64 * pitch) as usize];
            for index in 0..n_runs {
                let (at, count) = tensor.source(index);
                assert!((1..=RUN).contains(&count));
                for i in 0..i64::from(count) {
                    seen[(at + i) as usize] += 1;
                    // Element i of the run lies where its row and channel belong in the copy.
                    let (row, channel) = ((at + i) / pitch, (at + i) % pitch);
                    let to = row * i64::from(row_runs.divisor * RUN) + channel;
                    assert_eq!(to, i64::from(index * RUN) + i);
                }
            }
            let expected = |at: i64| i32::from(at % pitch < i64::from(channels));
            assert!(seen.iter().enumerate().all(|(at, &n)| n == expected(at as i64)), "{rows} x {channels}");
        }
    }
}
