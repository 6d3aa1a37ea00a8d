//! Launches of methods for tensors that lie otherwise: operands are transposed into the workspace, and the result back.

use super::Transposition;
use crate::plan::{Call, Launch};
use crate::select::Refusal;
use crate::{Context, Error, Stream, TensorDesc};

/// What parts of the workspace are aligned to.
const ALIGN_BYTES: u64 = 256;

/// The operands of a run, the output last, of which some are copied.
pub(in crate::ops) struct Copies {
    /// As they are given.
    operands: [TensorDesc; 3],
    copies: [Option<Copy>; 3],
}

/// A copy of an operand in another layout.
#[derive(Clone, Copy)]
struct Copy {
    desc: TensorDesc,
    /// Where it begins in the workspace.
    at: u64,
}

impl Copies {
    /// Of operands that shall lie as `laid_out` does.
    pub(in crate::ops) fn new(operands: [TensorDesc; 3], laid_out: [TensorDesc; 3]) -> Result<Self, Refusal> {
        let mut at = 0;
        let copies = [0, 1, 2].map(|i| {
            let desc = laid_out[i];
            (desc != operands[i]).then(|| {
                let copy = Copy { desc, at };
                at += desc.span_bytes().next_multiple_of(ALIGN_BYTES);
                copy
            })
        });
        if copies.iter().all(Option::is_none) {
            return Err(Refusal::new("transposes operands that do not lie channels-last, none has to be"));
        }
        Ok(Copies { operands, copies })
    }

    /// Where the workspace goes on behind the copies.
    pub(in crate::ops) fn bytes(&self) -> u64 {
        let last = self.copies.iter().flatten().next_back();
        last.map_or(0, |copy| (copy.at + copy.desc.span_bytes()).next_multiple_of(ALIGN_BYTES))
    }

    /// Why an operand cannot be transposed.
    pub(in crate::ops) fn check(&self, context: &Context) -> Result<(), Refusal> {
        for (operand, copy) in self.operands.iter().zip(&self.copies) {
            if let Some(copy) = copy {
                Transposition::check(operand, &copy.desc, context)?;
                Transposition::check(&copy.desc, operand, context)?;
            }
        }
        Ok(())
    }

    /// Time of the transpositions of a run without a prior value.
    pub(in crate::ops) fn estimate_us(&self, context: &Context) -> f64 {
        self.copies.iter().flatten().map(|copy| Transposition::estimate_us(&copy.desc, context)).sum()
    }

    /// The launch of a method on the copies, whose workspace lies behind them.
    pub(in crate::ops) fn launch(&self, method: Box<dyn Launch>, context: &Context) -> Result<Box<dyn Launch>, Error> {
        let mut moved = [None, None, None];
        for (i, copy) in self.copies.iter().enumerate() {
            let Some(copy) = copy else { continue };
            let there = Transposition::new(&self.operands[i], &copy.desc, context)?;
            let back = if i == 2 { Some(Transposition::new(&copy.desc, &self.operands[i], context)?) } else { None };
            moved[i] = Some(Moved { there, back, at: copy.at, end: copy.at + copy.desc.span_bytes() });
        }
        Ok(Box::new(TransposedLaunch { moved, method, behind_copies: self.bytes() }))
    }
}

/// An operand's way into the workspace, and back for the output.
struct Moved {
    there: Transposition,
    back: Option<Transposition>,
    at: u64,
    end: u64,
}

/// Launches that are complete but for addresses and scalars.
struct TransposedLaunch {
    moved: [Option<Moved>; 3],
    method: Box<dyn Launch>,
    behind_copies: u64,
}

impl Launch for TransposedLaunch {
    fn launch(&self, stream: &Stream, call: &mut Call<'_>) -> Result<(), Error> {
        let name = "nchw_transposed";
        let (gpu_stream, workspace) = (stream.gpu_stream_for(name)?, call.gpu_workspace(name)?);
        let prior = call.beta != 0.0;
        let mut launched = false;
        for (i, moved) in self.moved.iter().enumerate() {
            if let Some(moved) = moved.as_ref().filter(|_| i < 2 || prior) {
                moved.there.launch(gpu_stream, call.address(i), workspace.address() + moved.at, launched)?;
                launched = true;
            }
        }
        let copy = |i: usize| self.moved[i].as_ref().map(|moved| workspace.part(moved.at, moved.end));
        let rest = workspace.part(self.behind_copies, workspace.len_bytes());
        self.method.launch(stream, &mut call.inner(copy, rest))?;
        let output = self.moved[2].as_ref();
        match output.and_then(|moved| Some((moved.back.as_ref()?, moved.at))) {
            Some((back, at)) => back.launch(gpu_stream, workspace.address() + at, call.address(2), false),
            None => Ok(()),
        }
    }
}
