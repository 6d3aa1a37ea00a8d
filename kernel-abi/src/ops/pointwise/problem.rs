//! The pointwise problem and its text form.

use super::PointwisePass;
use crate::desc::{BadDescriptor, TensorDesc};
use crate::problem::{Coefficient, Operand, Problem, general_dtype, no_overlap, same_dtype};
use crate::text::{Fields, join};
use std::fmt;
use std::str::FromStr;

const OP: &str = "pointwise";

/// One pointwise operation. See the [module](super) for the formulas.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PointwiseProblem {
    pass: PointwisePass,
    alpha_a: Coefficient,
    alpha_b: Coefficient,
    value: Coefficient,
    a: Option<TensorDesc>,
    b: Option<TensorDesc>,
    c: TensorDesc,
}

impl PointwiseProblem {
    /// `c = alpha · op(a, b) + beta · c` for `add`, `mul`, `min` and `max`.
    ///
    /// # Errors
    /// `BadDescriptor` for an operation of other arity, ranks or types that differ, an extent that is neither 1 nor
    /// c's, or a `c` that overlaps itself.
    pub fn binary(pass: PointwisePass, a: &TensorDesc, b: &TensorDesc, c: &TensorDesc) -> Result<Self, BadDescriptor> {
        Self::new(pass, Some(*a), Some(*b), *c)
    }

    /// `c = alpha · op(a) + beta · c` for `sqrt`, `not` and `scale`.
    ///
    /// # Errors
    /// As [`PointwiseProblem::binary`].
    pub fn unary(pass: PointwisePass, a: &TensorDesc, c: &TensorDesc) -> Result<Self, BadDescriptor> {
        Self::new(pass, Some(*a), None, *c)
    }

    /// `c = alpha · value + beta · c`.
    ///
    /// # Errors
    /// `BadDescriptor` for a `c` that overlaps itself.
    pub fn set(value: f64, c: &TensorDesc) -> Result<Self, BadDescriptor> {
        let problem = Self::new(PointwisePass::Set, None, None, *c)?;
        Ok(PointwiseProblem { value: Coefficient::new(value), ..problem })
    }

    /// Sets the factors of a and b, 1 by default.
    pub fn scaled(self, alpha_a: f64, alpha_b: f64) -> Self {
        let alpha_b = if self.b.is_some() { alpha_b } else { 1.0 };
        let alpha_a = if self.a.is_some() { alpha_a } else { 1.0 };
        PointwiseProblem { alpha_a: Coefficient::new(alpha_a), alpha_b: Coefficient::new(alpha_b), ..self }
    }

    fn new(
        pass: PointwisePass,
        a: Option<TensorDesc>,
        b: Option<TensorDesc>,
        c: TensorDesc,
    ) -> Result<Self, BadDescriptor> {
        let given = usize::from(a.is_some()) + usize::from(b.is_some());
        if given != pass.n_inputs() {
            let reason = format!("expected {} inputs for {pass}, given {given}", pass.n_inputs());
            return Err(BadDescriptor::new(OP, "pass", reason));
        }
        for (name, desc) in [("a", &a), ("b", &b)] {
            let Some(desc) = desc else { continue };
            let fits = desc.rank() == c.rank() && desc.dims().iter().zip(c.dims()).all(|(d, c)| *d == 1 || d == c);
            if !fits {
                let (expected, given) = (join(c.dims()), join(desc.dims()));
                let reason = format!("expected the extents {expected} of c, or 1 in their place, given {given}");
                return Err(BadDescriptor::new(OP, name, reason));
            }
            same_dtype(OP, name, desc, "c", &c)?;
        }
        general_dtype(OP, "c", &c)?;
        no_overlap(OP, "c", &c)?;
        let one = Coefficient::new(1.0);
        Ok(PointwiseProblem { pass, alpha_a: one, alpha_b: one, value: Coefficient::new(0.0), a, b, c })
    }

    /// Which operation.
    pub fn pointwise_pass(&self) -> PointwisePass {
        self.pass
    }

    /// Factors of a and b.
    pub fn alphas(&self) -> (f64, f64) {
        (self.alpha_a.get(), self.alpha_b.get())
    }

    /// What `set` sets.
    pub fn value(&self) -> f64 {
        self.value.get()
    }

    /// The inputs, as many as the operation has.
    pub fn inputs(&self) -> impl Iterator<Item = &TensorDesc> {
        [&self.a, &self.b].into_iter().flatten()
    }

    /// The output.
    pub fn c(&self) -> &TensorDesc {
        &self.c
    }

    /// An input with c's extents: stride 0 where it is repeated.
    pub fn repeated(&self, input: &TensorDesc) -> TensorDesc {
        let strides: Vec<i64> = (0..input.rank())
            .map(|i| if input.dims()[i] == self.c.dims()[i] { input.strides()[i] } else { 0 })
            .collect();
        // The extents are c's, and the span is the input's: both are legal.
        TensorDesc::strided(input.dtype(), self.c.dims(), &strides).unwrap_or(*input)
    }
}

impl Problem for PointwiseProblem {
    const OP: &'static str = OP;

    fn pass(&self) -> &'static str {
        self.pass.name()
    }

    fn operands(&self) -> Vec<Operand> {
        let input = |name, desc: Option<TensorDesc>| desc.map(|desc| Operand::input(name, desc));
        [input("a", self.a), input("b", self.b), Some(Operand::output("c", self.c))].into_iter().flatten().collect()
    }

    fn flops(&self) -> f64 {
        self.c.n_elems() as f64
    }

    fn works_in_place(&self) -> bool {
        true
    }
}

impl fmt::Display for PointwiseProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{OP}:{}", self.pass)?;
        if self.a.is_some() {
            write!(f, " alpha_a={}", self.alpha_a)?;
        }
        if self.b.is_some() {
            write!(f, " alpha_b={}", self.alpha_b)?;
        }
        if self.pass == PointwisePass::Set {
            write!(f, " value={}", self.value)?;
        }
        crate::problem::write_operands(f, self)
    }
}

impl FromStr for PointwiseProblem {
    type Err = BadDescriptor;

    /// Factors are 1 and the value 0 unless given; a left-out `c` is like `a`.
    fn from_str(text: &str) -> Result<Self, BadDescriptor> {
        let mut fields = Fields::parse(OP, text)?;
        let pass: PointwisePass = fields.parse_pass()?;
        let alpha_a = fields.take_optional("alpha_a")?.unwrap_or(1.0);
        let alpha_b = fields.take_optional("alpha_b")?.unwrap_or(1.0);
        let value = fields.take_optional("value")?.unwrap_or(0.0);
        let a: Option<TensorDesc> = fields.take_optional("a")?;
        let b = fields.take_optional("b")?;
        let c = match (fields.take_optional("c")?, a) {
            (Some(c), _) => c,
            (None, Some(a)) => a,
            (None, None) => return Err(BadDescriptor::new(OP, "c", "expected c=…, given nothing")),
        };
        fields.finish()?;
        if pass == PointwisePass::Set {
            return Self::new(pass, a, b, c).and_then(|_| Self::set(value, &c));
        }
        Ok(Self::new(pass, a, b, c)?.scaled(alpha_a, alpha_b))
    }
}
