//! The text form of problems: `op:pass key=value key=value …`.
//!
//! It is log line, cache key, bench row, test name and reproducer in one.

use crate::Cast;
use crate::desc::{BadDescriptor, TensorDesc};
use std::fmt::Display;
use std::str::FromStr;

/// Joins numbers with `x`, as in `2x16x7x7`.
pub fn join(numbers: &[i64]) -> String {
    numbers.iter().map(i64::to_string).collect::<Vec<_>>().join("x")
}

/// Splits what [`join`] made.
///
/// # Errors
/// A sentence naming the word that is no integer.
pub fn split(text: &str) -> Result<Vec<i64>, String> {
    text.split('x')
        .map(|word| word.parse().map_err(|_| format!("expected integers joined by x, given {text:?}")))
        .collect()
}

/// Joins numbers with `x`, as in `2x0.5`.
pub fn join_reals(numbers: impl IntoIterator<Item = f64>) -> String {
    numbers.into_iter().map(|number| number.to_string()).collect::<Vec<_>>().join("x")
}

/// Splits what [`join_reals`] made.
///
/// # Errors
/// A sentence naming the word that is no number.
pub fn split_reals(text: &str) -> Result<Vec<f64>, String> {
    text.split('x')
        .map(|word| word.parse().map_err(|_| format!("expected numbers joined by x, given {text:?}")))
        .collect()
}

/// The words of a problem text while a problem is read from it.
///
/// Every key must be taken exactly once; [`Fields::finish`] refuses what is left over.
#[derive(Debug)]
pub struct Fields<'a> {
    op: &'static str,
    pass: &'a str,
    fields: Vec<(&'a str, &'a str)>,
}

impl<'a> Fields<'a> {
    /// Splits `text`, which must begin with `op:`.
    ///
    /// # Errors
    /// `BadDescriptor` for another operator or a word without `=`.
    pub fn parse(op: &'static str, text: &'a str) -> Result<Self, BadDescriptor> {
        let mut words = text.split_whitespace();
        let head = words.next().unwrap_or_default();
        let (name, pass) = head.split_once(':').unwrap_or((head, ""));
        if name != op {
            return Err(BadDescriptor::new(
                op,
                "text",
                format!("expected a text that begins with {op}:, given {head:?}"),
            ));
        }
        let fields = words
            .map(|word| {
                word.split_once('=')
                    .ok_or_else(|| BadDescriptor::new(op, "text", format!("expected key=value, given {word:?}")))
            })
            .collect::<Result<_, _>>()?;
        Ok(Fields { op, pass, fields })
    }

    /// The word behind the operator's name.
    pub fn pass(&self) -> &'a str {
        self.pass
    }

    /// Reads the pass with `FromStr`.
    ///
    /// # Errors
    /// `BadDescriptor` naming the word.
    pub fn parse_pass<T: FromStr<Err: Display>>(&self) -> Result<T, BadDescriptor> {
        self.pass.parse().map_err(|e: T::Err| BadDescriptor::new(self.op, "pass", e.to_string()))
    }

    /// Takes the value of `key`, if it is there.
    pub fn take_word(&mut self, key: &str) -> Option<&'a str> {
        let at = self.fields.iter().position(|(name, _)| *name == key)?;
        Some(self.fields.remove(at).1)
    }

    /// Takes and reads the value of `key`, if it is there.
    ///
    /// # Errors
    /// `BadDescriptor` when the value cannot be read.
    pub fn take_optional<T: FromStr<Err: Display>>(&mut self, key: &'static str) -> Result<Option<T>, BadDescriptor> {
        self.take_word(key)
            .map(|word| {
                word.parse().map_err(|e: T::Err| BadDescriptor::new(self.op, key, format!("{e}, given {word:?}")))
            })
            .transpose()
    }

    /// Takes the rule for storing integers: [`Cast::PLAIN`] where nothing else is given.
    ///
    /// # Errors
    /// `BadDescriptor` when it cannot be read.
    pub fn take_cast(&mut self) -> Result<Cast, BadDescriptor> {
        let rounding = self.take_optional("round")?.unwrap_or_default();
        let overflow = self.take_optional("overflow")?.unwrap_or_default();
        Ok(Cast { rounding, overflow })
    }

    /// Takes and reads the value of `key`.
    ///
    /// # Errors
    /// `BadDescriptor` when it is missing or cannot be read.
    pub fn take<T: FromStr<Err: Display>>(&mut self, key: &'static str) -> Result<T, BadDescriptor> {
        self.take_optional(key)?
            .ok_or_else(|| BadDescriptor::new(self.op, key, format!("expected {key}=…, given nothing")))
    }

    /// Takes a tensor.
    ///
    /// # Errors
    /// `BadDescriptor` when it is missing or illegal.
    pub fn take_tensor(&mut self, key: &'static str) -> Result<TensorDesc, BadDescriptor> {
        self.take(key)
    }

    /// Takes integers joined by `x`, if they are there.
    ///
    /// # Errors
    /// `BadDescriptor` when they cannot be read.
    pub fn take_numbers(&mut self, key: &'static str) -> Result<Option<Vec<i64>>, BadDescriptor> {
        self.take_word(key).map(|word| split(word).map_err(|e| BadDescriptor::new(self.op, key, e))).transpose()
    }

    /// Takes a switch: 0, also if it is not there, or 1.
    ///
    /// # Errors
    /// `BadDescriptor` for anything else.
    pub fn take_switch(&mut self, key: &'static str) -> Result<bool, BadDescriptor> {
        match self.take_word(key) {
            None | Some("0") => Ok(false),
            Some("1") => Ok(true),
            Some(other) => Err(BadDescriptor::new(self.op, key, format!("expected 0 or 1, given {other}"))),
        }
    }

    /// Ends the reading.
    ///
    /// # Errors
    /// `BadDescriptor` for a key nobody took.
    pub fn finish(self) -> Result<(), BadDescriptor> {
        match self.fields.first() {
            None => Ok(()),
            Some((key, value)) => {
                Err(BadDescriptor::new(self.op, "text", format!("unknown or repeated key {key:?} (value {value:?})")))
            }
        }
    }
}
/// Writes what [`Fields::take_cast`] reads, as far as it is not the default.
pub fn write_cast(f: &mut std::fmt::Formatter<'_>, cast: Cast) -> std::fmt::Result {
    if cast.rounding != Cast::PLAIN.rounding {
        write!(f, " round={}", cast.rounding)?;
    }
    if cast.overflow != Cast::PLAIN.overflow {
        write!(f, " overflow={}", cast.overflow)?;
    }
    Ok(())
}
