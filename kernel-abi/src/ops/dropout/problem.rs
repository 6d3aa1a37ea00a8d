//! The dropout problem, its text form, and the generator's state.

use super::{DropoutOrder, DropoutPass, philox};
use crate::DType;
use crate::desc::{BadDescriptor, TensorDesc};
use crate::problem::{Coefficient, Operand, Problem, general_dtype, no_overlap, same_dims, same_dtype};
use crate::text::Fields;
use std::fmt;
use std::str::FromStr;

const OP: &str = "dropout";

/// Words of a state.
const STATE_WORDS: i64 = 4;

/// Where the generator is: what the operands `state` and `next` hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PhiloxState {
    /// Which sequence.
    pub seed: u64,
    /// Its next counter; each gives four random words.
    pub offset: u64,
}

impl PhiloxState {
    /// The state behind a dropout of so many elements.
    pub fn after(self, n_elems: i64) -> Self {
        PhiloxState { offset: self.offset.wrapping_add((n_elems as u64).div_ceil(4)), ..self }
    }

    /// As a tensor of four `i32` holds it.
    pub fn to_words(self) -> [i32; 4] {
        let PhiloxState { seed, offset } = self;
        [seed as i32, (seed >> 32) as i32, offset as i32, (offset >> 32) as i32]
    }

    /// From what a tensor of four `i32` holds.
    pub fn from_words([seed_low, seed_high, offset_low, offset_high]: [i32; 4]) -> Self {
        PhiloxState { seed: philox::join(seed_low, seed_high), offset: philox::join(offset_low, offset_high) }
    }

    /// The descriptor of such a tensor.
    pub fn desc() -> TensorDesc {
        words(STATE_WORDS)
    }
}

/// A packed tensor of words of 32 bits.
fn words(n: i64) -> TensorDesc {
    TensorDesc::packed(DType::I32, &[n]).expect("fewer words than a tensor has elements are legal")
}

/// What a dropout is told beside its tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DropoutDesc {
    p: Coefficient,
    order: DropoutOrder,
}

impl DropoutDesc {
    /// Elements become 0 with probability `p`, and are counted as their indices run.
    pub fn new(p: f64) -> Self {
        DropoutDesc { p: Coefficient::new(p), order: DropoutOrder::RowMajor }
    }

    /// Sets the order in which elements are counted.
    pub fn order(self, order: DropoutOrder) -> Self {
        DropoutDesc { order, ..self }
    }

    /// The mask for tensors of this size.
    pub fn mask_desc(x: &TensorDesc) -> TensorDesc {
        words((x.n_elems() as u64).div_ceil(32) as i64)
    }
}

/// One dropout. See the [module](super) for the formula.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DropoutProblem {
    pass: DropoutPass,
    desc: DropoutDesc,
    /// x, or dy backward.
    input: TensorDesc,
    /// y, or dx backward.
    out: TensorDesc,
    stores_mask: bool,
    /// Whether the forward pass writes the state behind it.
    gives_next: bool,
}

impl DropoutProblem {
    /// `y` from `x` and `state`, with `mask` and `next` where they are asked for.
    ///
    /// # Errors
    /// `BadDescriptor` for a p outside of 0 to 1, extents or types that differ, channels-last counting of a rank below
    /// 2, or a `y` that overlaps itself.
    pub fn forward(
        desc: DropoutDesc,
        x: &TensorDesc,
        y: &TensorDesc,
        stores_mask: bool,
        gives_next: bool,
    ) -> Result<Self, BadDescriptor> {
        Self::new(DropoutPass::Forward, desc, ("x", x), ("y", y), stores_mask, gives_next)
    }

    /// `dx` from `dy`, and from `mask` if the forward pass stored it, else from its `state`.
    ///
    /// # Errors
    /// As [`DropoutProblem::forward`].
    pub fn backward(
        desc: DropoutDesc,
        dy: &TensorDesc,
        dx: &TensorDesc,
        reads_mask: bool,
    ) -> Result<Self, BadDescriptor> {
        Self::new(DropoutPass::Backward, desc, ("dy", dy), ("dx", dx), reads_mask, false)
    }

    fn new(
        pass: DropoutPass,
        desc: DropoutDesc,
        (in_name, input): (&str, &TensorDesc),
        (out_name, out): (&str, &TensorDesc),
        stores_mask: bool,
        gives_next: bool,
    ) -> Result<Self, BadDescriptor> {
        let p = desc.p.get();
        if !(0.0..=1.0).contains(&p) {
            return Err(BadDescriptor::new(OP, "p", format!("expected a probability from 0 to 1, given {p}")));
        }
        general_dtype(OP, in_name, input)?;
        same_dims(OP, out_name, out, in_name, input)?;
        same_dtype(OP, out_name, out, in_name, input)?;
        no_overlap(OP, out_name, out)?;
        if desc.order == DropoutOrder::ChannelsLast && input.rank() < 2 {
            let reason = format!("expected a rank of at least 2 for channels_last, given {}", input.rank());
            return Err(BadDescriptor::new(OP, "order", reason));
        }
        Ok(DropoutProblem { pass, desc, input: *input, out: *out, stores_mask, gives_next })
    }

    /// Which pass.
    pub fn dropout_pass(&self) -> DropoutPass {
        self.pass
    }

    /// The probability that an element becomes 0.
    pub fn p(&self) -> f64 {
        self.desc.p.get()
    }

    /// In which order elements are counted.
    pub fn order(&self) -> DropoutOrder {
        self.desc.order
    }

    /// What kept elements are multiplied by; 0 where none is kept.
    pub fn scale(&self) -> f64 {
        if self.p() == 1.0 { 0.0 } else { 1.0 / (1.0 - self.p()) }
    }

    /// What a random word must reach for its element to be kept.
    pub fn threshold(&self) -> u64 {
        philox::threshold(self.p())
    }

    /// x, or dy backward.
    pub fn input(&self) -> &TensorDesc {
        &self.input
    }

    /// y, or dx backward.
    pub fn out(&self) -> &TensorDesc {
        &self.out
    }

    /// Whether the mask is an operand.
    pub fn has_mask(&self) -> bool {
        self.stores_mask
    }

    /// Whether random numbers are drawn: always forward, and backward without a mask.
    pub fn draws(&self) -> bool {
        self.pass == DropoutPass::Forward || !self.stores_mask
    }

    /// Whether the forward pass writes the state behind it.
    pub fn gives_next(&self) -> bool {
        self.gives_next
    }

    /// A tensor of these extents that lies in the order in which elements are counted.
    pub fn counted(&self) -> TensorDesc {
        match self.desc.order {
            DropoutOrder::RowMajor => self.input.to_packed(),
            DropoutOrder::ChannelsLast => TensorDesc::channels_last(self.input.dtype(), self.input.dims())
                .expect("extents that are legal packed are legal channels-last"),
        }
    }
}

impl Problem for DropoutProblem {
    const OP: &'static str = OP;

    fn pass(&self) -> &'static str {
        self.pass.name()
    }

    fn operands(&self) -> Vec<Operand> {
        let mask = DropoutDesc::mask_desc(&self.input);
        let state = PhiloxState::desc();
        match self.pass {
            DropoutPass::Forward => {
                let mut operands = vec![
                    Operand::input("x", self.input),
                    Operand::input("state", state),
                    Operand::result("y", self.out),
                ];
                operands.extend(self.stores_mask.then(|| Operand::result("mask", mask)));
                operands.extend(self.gives_next.then(|| Operand::result("next", state)));
                operands
            }
            DropoutPass::Backward => {
                let source =
                    if self.stores_mask { Operand::input("mask", mask) } else { Operand::input("state", state) };
                vec![Operand::input("dy", self.input), source, Operand::result("dx", self.out)]
            }
        }
    }

    fn works_in_place(&self) -> bool {
        true
    }

    fn flops(&self) -> f64 {
        self.input.n_elems() as f64
    }
}

impl fmt::Display for DropoutProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{OP}:{} p={} order={}", self.pass, self.desc.p, self.desc.order)?;
        crate::problem::write_operands(f, self)
    }
}

impl FromStr for DropoutProblem {
    type Err = BadDescriptor;

    /// p is 0.5 and the order row_major unless given; y or dx is like x or dy unless given; mask and next are there only
    /// if they are given.
    fn from_str(text: &str) -> Result<Self, BadDescriptor> {
        let mut fields = Fields::parse(OP, text)?;
        let pass = fields.parse_pass()?;
        let p = fields.take_optional("p")?.unwrap_or(0.5);
        let desc = DropoutDesc::new(p).order(fields.take_optional("order")?.unwrap_or_default());
        let (in_name, out_name) = match pass {
            DropoutPass::Forward => ("x", "y"),
            DropoutPass::Backward => ("dy", "dx"),
        };
        let input = fields.take_tensor(in_name)?;
        let out = fields.take_optional(out_name)?.unwrap_or(input);
        let mut there = |key: &'static str, expected: TensorDesc| match fields.take_optional::<TensorDesc>(key)? {
            Some(given) if given != expected => {
                Err(BadDescriptor::new(OP, key, format!("expected {expected}, given {given}")))
            }
            given => Ok(given.is_some()),
        };
        let has_mask = there("mask", DropoutDesc::mask_desc(&input))?;
        let has_state = there("state", PhiloxState::desc())?;
        let gives_next = there("next", PhiloxState::desc())?;
        fields.finish()?;
        match pass {
            DropoutPass::Forward => Self::forward(desc, &input, &out, has_mask, gives_next),
            DropoutPass::Backward if gives_next => {
                Err(BadDescriptor::new(OP, "next", "expected none for the backward pass, given one".to_owned()))
            }
            DropoutPass::Backward if has_mask && has_state => {
                Err(BadDescriptor::new(OP, "state", "expected mask or state, given both".to_owned()))
            }
            DropoutPass::Backward => Self::backward(desc, &input, &out, has_mask),
        }
    }
}
