//! The 64-bit word of an `mbarrier` in shared memory.
//!
//! | bits | field |
//! |---|---|
//! | 0–19 | arrivals that the current phase still waits for |
//! | 20–39 | arrivals of every later phase |
//! | 40–60 | bytes that the current phase still waits for, in two's complement: they may land before they are expected |
//! | 61 | parity of the current phase |
//! | 62–63 | 2 in a barrier that was initialized, so that other words are seldom taken for one |
//!
//! The hardware's layout is another, and as opaque to programs.

/// What `mbarrier.init` accepts at most, and bytes of a phase.
pub const MOST: u32 = (1 << 20) - 1;

const MARK: u64 = 2;

/// A barrier, read from its word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mbarrier {
    pending: u32,
    expected: u32,
    bytes: i32,
    parity: u32,
}

impl Mbarrier {
    /// `mbarrier.init`.
    ///
    /// # Errors
    /// When the count is out of its range.
    pub fn new(count: u32) -> Result<Self, String> {
        if !(1..=MOST).contains(&count) {
            return Err(format!("a barrier is initialized for 1 to {MOST} arrivals, given {count}"));
        }
        Ok(Mbarrier { pending: count, expected: count, bytes: 0, parity: 0 })
    }

    /// Reads a word of shared memory.
    ///
    /// # Errors
    /// When no barrier was initialized there, or it was invalidated.
    pub fn from_word(word: u64) -> Result<Self, String> {
        if word >> 62 != MARK {
            return Err(format!("no barrier was initialized here, the word is {word:#018x}"));
        }
        Ok(Mbarrier {
            pending: word as u32 & MOST,
            expected: (word >> 20) as u32 & MOST,
            // The 21 bits, extended by their sign.
            bytes: ((word >> 40) as i32) << 11 >> 11,
            parity: (word >> 61) as u32 & 1,
        })
    }

    /// The word.
    pub fn word(self) -> u64 {
        u64::from(self.pending)
            | u64::from(self.expected) << 20
            | (self.bytes as u64 & 0x1f_ffff) << 40
            | u64::from(self.parity) << 61
            | MARK << 62
    }

    /// `mbarrier.inval`: a word that is no barrier.
    pub const INVALIDATED: u64 = 0;

    /// Ends the phase when nothing is waited for.
    fn settled(mut self) -> Self {
        if self.pending == 0 && self.bytes == 0 {
            self.parity ^= 1;
            self.pending = self.expected;
        }
        self
    }

    /// `mbarrier.arrive` with a count. The state that the instruction returns is the word before.
    ///
    /// # Errors
    /// When more arrive than the phase waits for.
    pub fn arrive(self, count: u32) -> Result<Self, String> {
        if count == 0 || count > self.pending {
            return Err(format!("{count} arrive at a barrier that waits for {} of {}", self.pending, self.expected));
        }
        Ok(Mbarrier { pending: self.pending - count, ..self }.settled())
    }

    /// `mbarrier.arrive.noComplete`.
    ///
    /// # Errors
    /// As [`arrive`](Mbarrier::arrive), and when the phase ends by it.
    pub fn arrive_without_completing(self, count: u32) -> Result<Self, String> {
        if count >= self.pending {
            return Err(format!("arrive.noComplete of {count} completes a phase that waits for {}", self.pending));
        }
        self.arrive(count)
    }

    /// `mbarrier.arrive_drop`: arrives, and later phases wait for as many less.
    ///
    /// # Errors
    /// As [`arrive`](Mbarrier::arrive).
    pub fn arrive_drop(self, count: u32) -> Result<Self, String> {
        let expected = self.expected.checked_sub(count);
        let expected = expected.ok_or_else(|| format!("{count} leave a barrier of {}", self.expected))?;
        Mbarrier { expected, ..self }.arrive(count)
    }

    /// `cp.async.mbarrier.arrive` without `.noinc`, at its issue: one more arrival is waited for, that of the copies.
    ///
    /// # Errors
    /// When the count leaves its range.
    pub fn await_one_more(self) -> Result<Self, String> {
        if self.pending == MOST {
            return Err(format!("a phase waits for more than {MOST} arrivals"));
        }
        Ok(Mbarrier { pending: self.pending + 1, ..self })
    }

    /// `mbarrier.expect_tx`: the phase also waits for so many bytes.
    ///
    /// # Errors
    /// When the count of bytes leaves its range.
    pub fn expect_bytes(self, bytes: u32) -> Result<Self, String> {
        self.with_bytes(i64::from(self.bytes) + i64::from(bytes))
    }

    /// `mbarrier.complete_tx`: so many bytes landed.
    ///
    /// # Errors
    /// As [`expect_bytes`](Mbarrier::expect_bytes).
    pub fn complete_bytes(self, bytes: u32) -> Result<Self, String> {
        self.with_bytes(i64::from(self.bytes) - i64::from(bytes))
    }

    fn with_bytes(self, bytes: i64) -> Result<Self, String> {
        if bytes.unsigned_abs() > u64::from(MOST) {
            return Err(format!("a phase waits for up to {MOST} bytes, here for {bytes}"));
        }
        Ok(Mbarrier { bytes: bytes as i32, ..self }.settled())
    }

    /// `mbarrier.test_wait.parity`: whether the phase of this parity has ended. That before the first has.
    pub fn phase_has_ended(self, parity: u32) -> bool {
        self.parity != parity & 1
    }

    /// `mbarrier.test_wait` with the state that an arrival returned.
    ///
    /// # Errors
    /// When the state is none.
    pub fn phase_of_state_has_ended(self, state: u64) -> Result<bool, String> {
        Ok(self.phase_has_ended(Mbarrier::from_word(state)?.parity))
    }

    /// `mbarrier.pending_count`: arrivals that were waited for when the state was made.
    pub fn pending(self) -> u32 {
        self.pending
    }

    /// Bytes that are waited for; negative when they landed before they were expected.
    pub fn pending_bytes(self) -> i32 {
        self.bytes
    }

    /// Parity of the current phase.
    pub fn parity(self) -> u32 {
        self.parity
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_hold_everything() {
        for bytes in [0, 1, -1, MOST as i32, -(MOST as i32)] {
            for parity in [0, 1] {
                let barrier = Mbarrier { pending: 3, expected: MOST, bytes, parity };
                assert_eq!(Mbarrier::from_word(barrier.word()), Ok(barrier));
            }
        }
        assert!(Mbarrier::from_word(Mbarrier::INVALIDATED).is_err() && Mbarrier::from_word(u64::MAX).is_err());
    }

    /// The steps of the device test `unit_mbarrier_steps`, with what an H200 answered.
    #[test]
    fn phases_end_with_arrivals_and_bytes() {
        let barrier = Mbarrier::new(3).unwrap();
        assert!(barrier.phase_has_ended(1) && !barrier.phase_has_ended(0));
        let barrier = barrier.arrive(2).unwrap();
        assert!(!barrier.phase_has_ended(0));
        let state = barrier.word();
        let barrier = barrier.arrive(1).unwrap();
        assert!(barrier.phase_has_ended(0) && !barrier.phase_has_ended(1));
        assert_eq!(barrier.phase_of_state_has_ended(state), Ok(true));
        let barrier = barrier.expect_bytes(16).unwrap().arrive(3).unwrap();
        assert!(!barrier.phase_has_ended(1));
        let barrier = barrier.complete_bytes(12).unwrap();
        assert!(!barrier.phase_has_ended(1) && barrier.pending_bytes() == 4);
        assert!(barrier.complete_bytes(4).unwrap().phase_has_ended(1));
    }

    #[test]
    fn bytes_may_land_before_they_are_expected() {
        let early = Mbarrier::new(1).unwrap().complete_bytes(64).unwrap();
        assert_eq!((early.pending_bytes(), early.phase_has_ended(0)), (-64, false));
        let expected = early.expect_bytes(64).unwrap();
        assert!(!expected.phase_has_ended(0));
        assert!(expected.arrive(1).unwrap().phase_has_ended(0));
    }

    #[test]
    fn misuse_is_an_error() {
        assert!(Mbarrier::new(0).is_err() && Mbarrier::new(1 << 20).is_err());
        let one = Mbarrier::new(1).unwrap();
        assert!(one.arrive(2).is_err() && one.arrive(0).is_err() && one.expect_bytes(1 << 20).is_err());
        assert!(one.arrive_without_completing(1).is_err());
        let waiting = one.expect_bytes(16).unwrap().arrive(1).unwrap();
        assert!(waiting.arrive(1).unwrap_err().contains("waits for 0 of 1"));
        let dropped = Mbarrier::new(2).unwrap().arrive_drop(1).unwrap().arrive(1).unwrap();
        assert_eq!((dropped.pending(), dropped.parity()), (1, 1));
        assert_eq!(one.await_one_more().unwrap().pending(), 2);
    }
}
