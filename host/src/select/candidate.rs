//! What was found out about each algorithm.

use super::Spread;
use std::fmt;

/// What was found out about a candidate.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// It computes the problem.
    Able {
        /// Scratch memory of one run.
        workspace_bytes: u64,
        /// Estimated time.
        estimate_us: f64,
        /// Measured time, under [`Policy::Find`](crate::Policy::Find).
        measured: Option<Measured>,
    },
    /// It does not, for this reason.
    Refused(String),
}

/// A measured time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// Time of a run: the median of several measurements.
    pub us: f64,
    /// Whether only first runs were timed, since they took three times as long as a candidate that needs no more
    /// workspace, or ten times as long as any.
    pub cut_short: bool,
    /// When it was measured.
    pub origin: Origin,
}

/// When a time was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// For this plan.
    Now,
    /// For an earlier plan of this context.
    Context,
    /// By another context or process, which left it in the store.
    Store,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Origin::Now => "measured now",
            Origin::Context => "measured before",
            Origin::Store => "from the store",
        })
    }
}

/// One algorithm with one of its kernels, or an algorithm that refused.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// The algorithm.
    pub algorithm: &'static str,
    /// The kernel's symbol, a word on the CPU, empty where the algorithm refused as a whole.
    pub config: &'static str,
    /// What an infinity or NaN of an operand reaches beyond the formula; [`Spread::None`] where the algorithm refused as
    /// a whole.
    pub spread: Spread,
    /// What was found out.
    pub verdict: Verdict,
}

impl Candidate {
    /// An algorithm that refused as a whole.
    pub(crate) fn refused(algorithm: &'static str, reason: String) -> Self {
        Candidate { algorithm, config: "", spread: Spread::None, verdict: Verdict::Refused(reason) }
    }
}

impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.algorithm)?;
        if !self.config.is_empty() {
            write!(f, " ({})", self.config)?;
        }
        match &self.verdict {
            Verdict::Refused(reason) => write!(f, ": refused: {reason}"),
            Verdict::Able { workspace_bytes, estimate_us, measured } => {
                write!(f, ": estimate {estimate_us:.1} us")?;
                if let Some(Measured { us, cut_short, origin }) = measured {
                    let note = if *cut_short { ", first run only" } else { "" };
                    write!(f, ", time {us:.1} us ({origin}{note})")?;
                }
                write!(f, ", workspace {workspace_bytes} bytes")?;
                if self.spread > Spread::None {
                    write!(f, ", spread {}", self.spread)?;
                }
                Ok(())
            }
        }
    }
}
