//! The local response normalization problem and its text form.

use super::{LrnPass, LrnRegion};
use crate::desc::{BadDescriptor, TensorDesc};
use crate::problem::{Coefficient, Operand, Problem, general_dtype, no_overlap, same_dims, same_dtype};
use crate::text::Fields;
use std::fmt;
use std::str::FromStr;

const OP: &str = "lrn";

/// The widest window.
const MAX_N: i64 = 1 << 20;

/// Window and coefficients. See the [module](super).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LrnDesc {
    region: LrnRegion,
    n: i64,
    alpha: Coefficient,
    beta: Coefficient,
    k: Coefficient,
}

impl LrnDesc {
    /// A window of 5, alpha 10⁻⁴, beta 0.75, k 2: cuDNN's defaults.
    pub fn new(region: LrnRegion) -> Self {
        let [alpha, beta, k] = [1e-4, 0.75, 2.0].map(Coefficient::new);
        LrnDesc { region, n: 5, alpha, beta, k }
    }

    /// Sets the window's extent.
    pub fn window(mut self, n: i64) -> Self {
        self.n = n;
        self
    }

    /// Sets the factor of the mean square.
    pub fn alpha(mut self, alpha: f64) -> Self {
        self.alpha = Coefficient::new(alpha);
        self
    }

    /// Sets the power.
    pub fn beta(mut self, beta: f64) -> Self {
        self.beta = Coefficient::new(beta);
        self
    }

    /// Sets what is added to the mean square.
    pub fn k(mut self, k: f64) -> Self {
        self.k = Coefficient::new(k);
        self
    }
}

/// One normalization. See the [module](super) for the formula.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LrnProblem {
    pass: LrnPass,
    desc: LrnDesc,
    x: TensorDesc,
    means: Option<TensorDesc>,
    dy: Option<TensorDesc>,
    out: TensorDesc,
    dmeans: Option<TensorDesc>,
}

impl LrnProblem {
    /// `y` from `x` and, for divisive normalization, `means`.
    ///
    /// # Errors
    /// `BadDescriptor` for a rank outside of 2 to 5, or of 2 within a channel, a window outside of 1 to 2²⁰, an alpha or
    /// beta below 0 or a k that is not above it, extents or types that differ, or outputs that overlap themselves.
    pub fn forward(
        desc: &LrnDesc,
        x: &TensorDesc,
        means: Option<&TensorDesc>,
        y: &TensorDesc,
    ) -> Result<Self, BadDescriptor> {
        Self::new(LrnPass::Forward, desc, x, means, None, ("y", y), None)
    }

    /// `dx` and, where it is wanted, `dmeans`.
    ///
    /// # Errors
    /// As [`LrnProblem::forward`]; also for a `dmeans` without means.
    pub fn backward(
        desc: &LrnDesc,
        x: &TensorDesc,
        means: Option<&TensorDesc>,
        dy: &TensorDesc,
        dx: &TensorDesc,
        dmeans: Option<&TensorDesc>,
    ) -> Result<Self, BadDescriptor> {
        Self::new(LrnPass::Backward, desc, x, means, Some(dy), ("dx", dx), dmeans)
    }

    fn new(
        pass: LrnPass,
        desc: &LrnDesc,
        x: &TensorDesc,
        means: Option<&TensorDesc>,
        dy: Option<&TensorDesc>,
        (out_name, out): (&str, &TensorDesc),
        dmeans: Option<&TensorDesc>,
    ) -> Result<Self, BadDescriptor> {
        let bad = |argument: &str, reason: String| Err(BadDescriptor::new(OP, argument, reason));
        let least = if desc.region == LrnRegion::WithinChannel { 3 } else { 2 };
        if !(least..=5).contains(&x.rank()) {
            return bad("x", format!("expected a rank of {least} to 5, [N, C, ...], given {}", x.rank()));
        }
        if !(1..=MAX_N).contains(&desc.n) {
            return bad("n", format!("expected 1 to {MAX_N}, given {}", desc.n));
        }
        for (name, value) in [("alpha", desc.alpha.get()), ("beta", desc.beta.get())] {
            if !(value >= 0.0 && value.is_finite()) {
                return bad(name, format!("expected a finite number of at least 0, given {value}"));
            }
        }
        let k = desc.k.get();
        if !(k > 0.0 && k.is_finite()) {
            return bad("k", format!("expected a finite number above 0, given {k}"));
        }
        general_dtype(OP, "x", x)?;
        for (name, desc) in [("means", means), ("dy", dy), (out_name, Some(out)), ("dmeans", dmeans)] {
            let Some(desc) = desc else { continue };
            same_dims(OP, name, desc, "x", x)?;
            same_dtype(OP, name, desc, "x", x)?;
        }
        no_overlap(OP, out_name, out)?;
        if let Some(dmeans) = dmeans {
            no_overlap(OP, "dmeans", dmeans)?;
            if means.is_none() {
                return bad("dmeans", "expected none without means, given one".to_owned());
            }
        }
        let (means, dy, dmeans) = (means.copied(), dy.copied(), dmeans.copied());
        Ok(LrnProblem { pass, desc: *desc, x: *x, means, dy, out: *out, dmeans })
    }

    /// Which pass.
    pub fn lrn_pass(&self) -> LrnPass {
        self.pass
    }

    /// Where neighbours are.
    pub fn region(&self) -> LrnRegion {
        self.desc.region
    }

    /// Extent of the window.
    pub fn n(&self) -> i64 {
        self.desc.n
    }

    /// Factor of the mean square.
    pub fn alpha(&self) -> f64 {
        self.desc.alpha.get()
    }

    /// The power.
    pub fn beta(&self) -> f64 {
        self.desc.beta.get()
    }

    /// What is added to the mean square.
    pub fn k(&self) -> f64 {
        self.desc.k.get()
    }

    /// How many numbers a whole window has.
    pub fn window_elems(&self) -> f64 {
        match self.desc.region {
            LrnRegion::AcrossChannels => self.desc.n as f64,
            LrnRegion::WithinChannel => (self.desc.n as f64).powi(self.x.rank() as i32 - 2),
        }
    }

    /// Neighbours before and behind an element along C, D, H and W, of which D and H are absent from lower ranks.
    pub fn reach(&self) -> ([i64; 4], [i64; 4]) {
        let along = |axis: usize| match self.desc.region {
            LrnRegion::AcrossChannels => axis == 0,
            LrnRegion::WithinChannel => axis >= 6 - self.x.rank(),
        };
        let behind = (self.desc.n - 1) / 2;
        let reach = |distance| std::array::from_fn(|axis| if along(axis) { distance } else { 0 });
        (reach(behind), reach(self.desc.n - 1 - behind))
    }

    /// x.
    pub fn x(&self) -> &TensorDesc {
        &self.x
    }

    /// The means.
    pub fn means(&self) -> Option<&TensorDesc> {
        self.means.as_ref()
    }

    /// dy, backward only.
    pub fn dy(&self) -> Option<&TensorDesc> {
        self.dy.as_ref()
    }

    /// y or dx.
    pub fn out(&self) -> &TensorDesc {
        &self.out
    }

    /// dmeans.
    pub fn dmeans(&self) -> Option<&TensorDesc> {
        self.dmeans.as_ref()
    }

    /// Elements of the windows that lie within the tensor, at most.
    fn met_elems(&self) -> f64 {
        let n = self.desc.n;
        let met = match self.desc.region {
            LrnRegion::AcrossChannels => n.min(self.x.dims()[1]),
            LrnRegion::WithinChannel => self.x.dims()[2..].iter().map(|&dim| n.min(dim)).product(),
        };
        met as f64
    }
}

impl Problem for LrnProblem {
    const OP: &'static str = OP;

    fn pass(&self) -> &'static str {
        self.pass.name()
    }

    fn operands(&self) -> Vec<Operand> {
        let means = self.means.map(|means| Operand::input("means", means));
        let mut operands = vec![Operand::input("x", self.x)];
        operands.extend(means);
        match self.dy {
            None => operands.push(Operand::output("y", self.out)),
            Some(dy) => {
                operands.extend([Operand::input("dy", dy), Operand::output("dx", self.out)]);
                operands.extend(self.dmeans.map(|dmeans| Operand::output("dmeans", dmeans)));
            }
        }
        operands
    }

    fn flops(&self) -> f64 {
        let passes = if self.pass == LrnPass::Forward { 1.0 } else { 2.0 };
        passes * (2.0 * self.met_elems() + 20.0) * self.x.n_elems() as f64
    }

    fn accumulation_length(&self) -> f64 {
        self.met_elems()
    }
}

impl fmt::Display for LrnProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LrnDesc { region, n, alpha, beta, k } = self.desc;
        write!(f, "{OP}:{} region={region} n={n} alpha={alpha} beta={beta} k={k}", self.pass)?;
        crate::problem::write_operands(f, self)
    }
}

impl FromStr for LrnProblem {
    type Err = BadDescriptor;

    /// The region is `across_channels` and coefficients are [`LrnDesc::new`]'s unless given; y, dy and dx are like x.
    fn from_str(text: &str) -> Result<Self, BadDescriptor> {
        let mut fields = Fields::parse(OP, text)?;
        let pass = fields.parse_pass()?;
        let region = fields.take_optional("region")?.unwrap_or(LrnRegion::AcrossChannels);
        let mut desc = LrnDesc::new(region);
        desc.n = fields.take_optional("n")?.unwrap_or(desc.n);
        for (name, to) in [("alpha", &mut desc.alpha), ("beta", &mut desc.beta), ("k", &mut desc.k)] {
            if let Some(value) = fields.take_optional(name)? {
                *to = Coefficient::new(value);
            }
        }
        let x = fields.take_tensor("x")?;
        let means: Option<TensorDesc> = fields.take_optional("means")?;
        let problem = match pass {
            LrnPass::Forward => {
                let y = fields.take_optional("y")?.unwrap_or(x);
                Self::forward(&desc, &x, means.as_ref(), &y)
            }
            LrnPass::Backward => {
                let dy = fields.take_optional("dy")?.unwrap_or(x);
                let dx = fields.take_optional("dx")?.unwrap_or(x);
                let dmeans: Option<TensorDesc> = fields.take_optional("dmeans")?;
                Self::backward(&desc, &x, means.as_ref(), &dy, &dx, dmeans.as_ref())
            }
        }?;
        fields.finish()?;
        Ok(problem)
    }
}
