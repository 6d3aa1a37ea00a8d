//! How far an infinity or NaN among the operands reaches.

use std::fmt;
use std::str::FromStr;

/// Which results an infinity or NaN of an operand makes infinite or NaN, beyond those whose formula has it.
///
/// Kernels that fill up with zeros multiply these too, and zero times infinity is NaN. The order is that of how many
/// results are reached. Those that are not reached are what they are without the number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Spread {
    /// None: results are infinite or NaN where the formula has them so.
    #[default]
    None,
    /// Results whose windows hold the element's place over the padding, or lie beside it: neighbouring columns, other
    /// taps of its channel.
    Window,
    /// Those of other channels and groups, too, that are computed together.
    Group,
    /// All results of the tiles that read the element. An element of a filter is read by all tiles of its channels.
    Tile,
    /// All results of the images or channels that the element has part in.
    Channel,
}

impl Spread {
    /// The most that a policy chooses by itself.
    pub(crate) const UNASKED: Spread = Spread::Group;
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Spread::None => "none",
            Spread::Window => "window",
            Spread::Group => "group",
            Spread::Tile => "tile",
            Spread::Channel => "channel",
        })
    }
}

/// What a request permits infinities and NaNs to reach.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum NonFinite {
    /// Up to [`Spread::Group`]; more where the request names the algorithm or the problem asks for it, as
    /// `math=winograd4x4` does.
    #[default]
    Default,
    /// Only [`Spread::None`], whatever is named.
    Strict,
    /// Any spread: algorithms are chosen by time alone.
    Permit,
}

impl FromStr for NonFinite {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "default" => Ok(NonFinite::Default),
            "strict" => Ok(NonFinite::Strict),
            "any" => Ok(NonFinite::Permit),
            _ => Err(format!("expected default, strict or any, given {text:?}")),
        }
    }
}

impl fmt::Display for NonFinite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NonFinite::Default => "default",
            NonFinite::Strict => "strict",
            NonFinite::Permit => "any",
        })
    }
}
