//! The command line of every benchmark.

use anyhow::{Result, bail};

/// What was asked for.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Where the table goes; nowhere but the terminal without it.
    pub out: Option<std::path::PathBuf>,
    /// Only problems whose text contains this.
    pub filter: String,
    /// A problem instead of the built-in ones.
    pub problem: Option<String>,
    /// An algorithm or kernel instead of the heuristic's choice.
    pub algorithm: Option<String>,
    /// How many times each side is timed.
    pub rounds: usize,
}

/// Turns of each side when nothing else is said: enough for a median that repeats within 1 %.
const ROUNDS: usize = 15;

const USAGE: &str = "usage: [--out FILE] [--filter TEXT] [--problem TEXT] [--algorithm NAME] [--rounds N]";

impl Options {
    /// Reads the program's arguments.
    ///
    /// # Errors
    /// For an unknown one, with the usage.
    pub fn from_args() -> Result<Self> {
        let mut options = Options { rounds: ROUNDS, ..Options::default() };
        let mut args = std::env::args().skip(1);
        while let Some(arg) = args.next() {
            let Some(value) = args.next() else { bail!("expected a value behind {arg}; {USAGE}") };
            match arg.as_str() {
                "--out" => options.out = Some(value.into()),
                "--filter" => options.filter = value,
                "--problem" => options.problem = Some(value),
                "--algorithm" => options.algorithm = Some(value),
                "--rounds" => options.rounds = value.parse()?,
                _ => bail!("unknown argument {arg}; {USAGE}"),
            }
        }
        if options.rounds == 0 {
            bail!("expected at least 1 round, given 0");
        }
        Ok(options)
    }
}
