//! The text form of a network's choice: to be kept and used again, on the same device with the same library.
//!
//! ```text
//! oxidnn network plan 1
//! device …, driver …, library …, kernels …          what its times were valid for, four lines
//! workspace <bytes>
//! layer <offset> <problem>
//! part <images> <picoseconds> <workspace> <algorithm> <config>
//! ```

use super::division::{Division, MicroBatch};
use super::network::{LayerChoice, NetworkChoice};
use super::pareto::{microseconds, picoseconds};
use crate::operators::parse_problem;
use crate::select::scope;
use crate::{Context, Error};
use std::fmt::Write as _;

/// The first line; another number where any of the others has another meaning.
const HEAD: &str = "oxidnn network plan 1";

impl NetworkChoice {
    /// The text form of a choice that was made for this device.
    pub fn to_text(&self, context: &Context) -> String {
        let mut text = format!("{HEAD}\n{}workspace {}\n", scope::of(context), self.workspace_bytes);
        for LayerChoice { problem, division, offset, .. } in &self.layers {
            // Writing to a string does not fail.
            let _ = writeln!(text, "layer {offset} {problem}");
            for MicroBatch { batch, algorithm, config, time_us, workspace_bytes } in &division.parts {
                let ps = picoseconds(*time_us);
                let _ = writeln!(text, "part {batch} {ps} {workspace_bytes} {algorithm} {config}");
            }
        }
        text
    }

    /// Reads it.
    ///
    /// # Errors
    /// `BadDescriptor` for another version, device or library, and for a text that is none; `Unsupported` for parts that
    /// an algorithm does not compute in the workspace that is said.
    pub fn from_text(context: &Context, text: &str) -> Result<Self, Error> {
        let bad = |reason: String| Error::bad("network", "plan", reason);
        let mut lines = text.lines();
        let head = lines.next().unwrap_or_default();
        if head != HEAD {
            return Err(bad(format!("expected {HEAD:?}, given {head:?}")));
        }
        for expected in scope::of(context).lines() {
            let given = lines.next().unwrap_or_default();
            if given != expected {
                return Err(bad(format!("expected one made for {expected:?}, given one for {given:?}")));
            }
        }
        let word = |words: &mut std::str::SplitN<'_, char>, line: &str| {
            let number = words.next().and_then(|word| word.parse::<u64>().ok());
            number.ok_or_else(|| bad(format!("expected a number, given {line:?}")))
        };
        let mut choice = NetworkChoice { layers: Vec::new(), workspace_bytes: 0 };
        for line in lines {
            let mut words = line.splitn(6, ' ');
            match (words.next(), choice.layers.last_mut()) {
                (Some("workspace"), None) => choice.workspace_bytes = word(&mut words, line)?,
                (Some("layer"), _) => {
                    let mut words = line.splitn(3, ' ');
                    words.next();
                    let offset = word(&mut words, line)?;
                    let problem = parse_problem(words.next().unwrap_or_default())?.text();
                    let division = Division::new(Vec::new());
                    choice.layers.push(LayerChoice { problem, division, undivided: None, offset, refusal: None });
                }
                (Some("part"), Some(layer)) => {
                    let (images, ps, bytes) =
                        (word(&mut words, line)?, word(&mut words, line)?, word(&mut words, line)?);
                    let (algorithm, config) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
                    let images = i64::try_from(images).map_err(|_| bad(format!("expected a batch, given {line:?}")))?;
                    let part = parse_problem(&layer.problem)?.micro_batch(context, images, algorithm, config)?;
                    if part.workspace_bytes != bytes {
                        let needed = part.workspace_bytes;
                        return Err(bad(format!("expected a workspace of {needed} bytes, given {line:?}")));
                    }
                    let mut parts = std::mem::take(&mut layer.division.parts);
                    parts.push(MicroBatch { time_us: microseconds(ps), ..part });
                    layer.division = Division::new(parts);
                }
                _ => return Err(bad(format!("expected workspace, layers and their parts, given {line:?}"))),
            }
        }
        let end = |layer: &LayerChoice| layer.offset.checked_add(layer.division.workspace_bytes);
        match choice.layers.iter().find(|layer| end(layer).is_none_or(|end| end > choice.workspace_bytes)) {
            Some(layer) => Err(bad(format!(
                "expected segments within {} bytes, given {} from {} on",
                choice.workspace_bytes, layer.division.workspace_bytes, layer.offset
            ))),
            None => Ok(choice),
        }
    }
}
