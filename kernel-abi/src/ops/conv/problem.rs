//! The convolution problem and its text form.

use super::desc::{ConvAxis, ConvDesc, OP};
use super::{ConvMode, ConvPass};
use crate::Math;
use crate::desc::{BadDescriptor, TensorDesc};
use crate::epilogue::Epilogue;
use crate::problem::{
    Operand, Precision, Problem, general_dtype, integer_sums, no_overlap, product_dtypes, same_dims, same_dtype,
};
use crate::text::{Fields, join};
use std::fmt;
use std::str::FromStr;

/// One pass of a convolution. See the [module](super) for the formula.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ConvProblem {
    pass: ConvPass,
    axes: Vec<ConvAxis>,
    groups: i64,
    mode: ConvMode,
    math: Math,
    x: TensorDesc,
    w: TensorDesc,
    y: TensorDesc,
    epilogue: Option<Epilogue>,
}

/// All extents of a convolution with three spatial axes, in the order depth, height, width. An absent axis has extent,
/// stride and dilation 1 and no padding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConvShape {
    /// N.
    pub n: i64,
    /// C, of all groups.
    pub c: i64,
    /// K, of all groups.
    pub k: i64,
    /// G.
    pub groups: i64,
    /// D, H, W.
    pub image: [i64; 3],
    /// T, R, S.
    pub filter: [i64; 3],
    /// Z, P, Q.
    pub output: [i64; 3],
    /// The axes.
    pub axes: [ConvAxis; 3],
}

impl ConvShape {
    /// Input channels of a group.
    pub fn group_c(&self) -> i64 {
        self.c / self.groups
    }

    /// Output channels of a group.
    pub fn group_k(&self) -> i64 {
        self.k / self.groups
    }
}

/// Names of the three tensors in a pass's formula.
fn names(pass: ConvPass) -> [&'static str; 3] {
    match pass {
        ConvPass::Fprop => ["x", "w", "y"],
        ConvPass::Dgrad => ["dx", "w", "dy"],
        ConvPass::Wgrad => ["x", "dw", "dy"],
    }
}

impl ConvProblem {
    /// `y = alpha · conv(x, w) + beta · y`.
    ///
    /// # Errors
    /// `BadDescriptor` as [`ConvDesc::output_dims`]; also when `y` has other extents than those, the element types
    /// do not go together (see the [module](super)), sums of `i8` may not fit `i32`, or `y` overlaps itself.
    pub fn fprop(desc: &ConvDesc, x: &TensorDesc, w: &TensorDesc, y: &TensorDesc) -> Result<Self, BadDescriptor> {
        Self::new(ConvPass::Fprop, desc, x, w, y)
    }

    /// `dx = alpha · (gradient of Σ dy · conv(x, w) by x) + beta · dx`.
    ///
    /// # Errors
    /// As [`ConvProblem::fprop`], for `dx`.
    pub fn dgrad(desc: &ConvDesc, dy: &TensorDesc, w: &TensorDesc, dx: &TensorDesc) -> Result<Self, BadDescriptor> {
        Self::new(ConvPass::Dgrad, desc, dx, w, dy)
    }

    /// `dw = alpha · (gradient of Σ dy · conv(x, w) by w) + beta · dw`.
    ///
    /// # Errors
    /// As [`ConvProblem::fprop`], for `dw`.
    pub fn wgrad(desc: &ConvDesc, x: &TensorDesc, dy: &TensorDesc, dw: &TensorDesc) -> Result<Self, BadDescriptor> {
        Self::new(ConvPass::Wgrad, desc, x, dw, dy)
    }

    /// The problem of a pass: x, w and y are the tensors of `fprop`, or their gradients.
    ///
    /// # Errors
    /// As [`ConvProblem::fprop`], for what the pass writes.
    pub fn new(
        pass: ConvPass,
        desc: &ConvDesc,
        x: &TensorDesc,
        w: &TensorDesc,
        y: &TensorDesc,
    ) -> Result<Self, BadDescriptor> {
        let [x_name, w_name, y_name] = names(pass);
        let (axes, dims) = desc.resolve((x_name, x), (w_name, w))?;
        if y.dims() != dims {
            let reason = format!(
                "expected the extents {} that {x_name} and {w_name} give, given {}",
                join(&dims),
                join(y.dims())
            );
            return Err(BadDescriptor::new(OP, y_name, reason));
        }
        check_dtypes(pass, desc.conv_math(), x, w, y)?;
        match pass {
            ConvPass::Fprop => no_overlap(OP, y_name, y)?,
            ConvPass::Dgrad => no_overlap(OP, x_name, x)?,
            ConvPass::Wgrad => no_overlap(OP, w_name, w)?,
        }
        let (groups, mode, math) = (desc.n_groups(), desc.conv_mode(), desc.conv_math());
        let problem = ConvProblem { pass, axes, groups, mode, math, x: *x, w: *w, y: *y, epilogue: None };
        integer_sums(OP, x_name, x, problem.accumulation_length())?;
        Ok(problem)
    }

    /// The same with an epilogue in place of the one it may have: `y = act(alpha · conv(x, w) + beta · y + bias + z)`.
    ///
    /// # Errors
    /// `BadDescriptor` for `dgrad` and `wgrad`, a bias that is not `[K]` or of another type than y's or its
    /// accumulator's, a residual of other extents or type than y's, and a coefficient that the activation does not take.
    pub fn with_epilogue(self, epilogue: Epilogue) -> Result<Self, BadDescriptor> {
        let epilogue = epilogue.checked(OP, "y", &self.y, 1)?;
        if let (Some(_), ConvPass::Dgrad | ConvPass::Wgrad) = (&epilogue, self.pass) {
            let reason = format!("expected the pass fprop, whose y an epilogue is for, given {}", self.pass);
            return Err(BadDescriptor::new(OP, "epilogue", reason));
        }
        if epilogue.is_some() {
            general_dtype(OP, "x", &self.x)?;
        }
        Ok(ConvProblem { epilogue, ..self })
    }

    /// The same convolution of tensors that lie in other ways.
    ///
    /// # Errors
    /// `BadDescriptor` for extents or types other than these tensors', and for an output that overlaps itself.
    pub fn with_layouts(&self, x: &TensorDesc, w: &TensorDesc, y: &TensorDesc) -> Result<Self, BadDescriptor> {
        let [x_name, w_name, y_name] = names(self.pass);
        for (name, desc, other) in [(x_name, &self.x, x), (w_name, &self.w, w), (y_name, &self.y, y)] {
            same_dims(OP, name, other, name, desc)?;
            same_dtype(OP, name, other, name, desc)?;
        }
        let other = ConvProblem { x: *x, w: *w, y: *y, ..self.clone() };
        no_overlap(OP, names(self.pass)[self.written_index()], other.written())?;
        Ok(other)
    }

    /// Which of x, w and y is written.
    fn written_index(&self) -> usize {
        match self.pass {
            ConvPass::Fprop => 2,
            ConvPass::Dgrad => 0,
            ConvPass::Wgrad => 1,
        }
    }

    /// Which pass.
    pub fn conv_pass(&self) -> ConvPass {
        self.pass
    }

    /// The mode.
    pub fn mode(&self) -> ConvMode {
        self.mode
    }

    /// How exactly operands are multiplied.
    pub fn math(&self) -> Math {
        self.math
    }

    /// The number of groups.
    pub fn groups(&self) -> i64 {
        self.groups
    }

    /// What it was made of, the tensors left out.
    pub fn desc(&self) -> ConvDesc {
        let list = |value: fn(&ConvAxis) -> i64| self.axes.iter().map(value).collect::<Vec<_>>();
        ConvDesc::new()
            .padding(&list(|axis| axis.padding))
            .padding_end(&list(|axis| axis.padding_end))
            .stride(&list(|axis| axis.stride))
            .dilation(&list(|axis| axis.dilation))
            .groups(self.groups)
            .mode(self.mode)
            .math(self.math)
    }

    /// The spatial axes, outermost first.
    pub fn axes(&self) -> &[ConvAxis] {
        &self.axes
    }

    /// x, or dx in `dgrad`.
    pub fn x(&self) -> &TensorDesc {
        &self.x
    }

    /// w, or dw in `wgrad`.
    pub fn w(&self) -> &TensorDesc {
        &self.w
    }

    /// y in `fprop`, else dy.
    pub fn y(&self) -> &TensorDesc {
        &self.y
    }

    /// The tensor that is written.
    pub fn written(&self) -> &TensorDesc {
        match self.pass {
            ConvPass::Fprop => &self.y,
            ConvPass::Dgrad => &self.x,
            ConvPass::Wgrad => &self.w,
        }
    }

    /// All extents, with three spatial axes.
    pub fn shape(&self) -> ConvShape {
        let absent = 3 - self.axes.len();
        let no_axis = ConvAxis { padding: 0, padding_end: 0, stride: 1, dilation: 1 };
        let spatial =
            |desc: &TensorDesc| std::array::from_fn(|i| if i < absent { 1 } else { desc.dims()[2 + i - absent] });
        ConvShape {
            n: self.x.dims()[0],
            c: self.x.dims()[1],
            k: self.w.dims()[0],
            groups: self.groups,
            image: spatial(&self.x),
            filter: spatial(&self.w),
            output: spatial(&self.y),
            axes: std::array::from_fn(|i| if i < absent { no_axis } else { self.axes[i - absent] }),
        }
    }

    fn list(&self, f: &mut fmt::Formatter<'_>, key: &str, value: fn(&ConvAxis) -> i64) -> fmt::Result {
        let values: Vec<i64> = self.axes.iter().map(value).collect();
        write!(f, " {key}={}", join(&values))
    }
}

impl Problem for ConvProblem {
    const OP: &'static str = OP;

    fn pass(&self) -> &'static str {
        self.pass.name()
    }

    fn operands(&self) -> Vec<Operand> {
        let (x, w, y) = (self.x, self.w, self.y);
        let mut operands = match self.pass {
            ConvPass::Fprop => vec![Operand::input("x", x), Operand::input("w", w), Operand::output("y", y)],
            ConvPass::Dgrad => vec![Operand::input("dy", y), Operand::input("w", w), Operand::output("dx", x)],
            ConvPass::Wgrad => vec![Operand::input("x", x), Operand::input("dy", y), Operand::output("dw", w)],
        };
        if let Some(epilogue) = &self.epilogue {
            epilogue.add_operands(&mut operands);
        }
        operands
    }

    fn epilogue(&self) -> Option<&Epilogue> {
        self.epilogue.as_ref()
    }

    fn plain(&self) -> Self {
        ConvProblem { epilogue: None, ..self.clone() }
    }

    fn without_sums(&self) -> Self {
        let epilogue = self.epilogue.as_ref().and_then(Epilogue::without_sums);
        ConvProblem { epilogue, ..self.clone() }
    }

    /// That of `fprop` in every pass, padding counted as if it were multiplied.
    fn flops(&self) -> f64 {
        let terms: f64 = self.w.dims()[1..].iter().map(|&extent| extent as f64).product();
        let behind = self.epilogue.as_ref().map_or(0.0, Epilogue::flops_per_element);
        self.y.n_elems() as f64 * (2.0 * terms + behind)
    }

    fn accumulation_length(&self) -> f64 {
        let product = |extents: &[i64]| extents.iter().map(|&extent| extent as f64).product::<f64>();
        let taps = product(&self.w.dims()[2..]);
        let positions = || product(&self.y.dims()[2..]) * self.y.dims()[0] as f64;
        match self.pass {
            // The sums of a channel are over its positions.
            ConvPass::Fprop if self.epilogue.as_ref().is_some_and(Epilogue::has_sums) => {
                positions().max(taps * self.w.dims()[1] as f64)
            }
            ConvPass::Fprop => taps * self.w.dims()[1] as f64,
            ConvPass::Dgrad => taps * (self.w.dims()[0] / self.groups) as f64,
            ConvPass::Wgrad => positions(),
        }
    }

    fn precision(&self) -> Precision {
        Precision::of_products(self.x.dtype(), self.math)
    }
}

impl fmt::Display for ConvProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{OP}:{}", self.pass)?;
        self.list(f, "pad", |axis| axis.padding)?;
        if self.axes.iter().any(|axis| axis.padding_end != axis.padding) {
            self.list(f, "pad_end", |axis| axis.padding_end)?;
        }
        self.list(f, "stride", |axis| axis.stride)?;
        self.list(f, "dil", |axis| axis.dilation)?;
        write!(f, " groups={}", self.groups)?;
        if self.mode != ConvMode::default() {
            write!(f, " mode={}", self.mode)?;
        }
        if self.math != Math::default() {
            write!(f, " math={}", self.math)?;
        }
        if let Some(epilogue) = &self.epilogue {
            write!(f, "{epilogue}")?;
        }
        crate::problem::write_operands(f, self)
    }
}

impl FromStr for ConvProblem {
    type Err = BadDescriptor;

    /// Left-out keys have [`ConvDesc`]'s defaults; a left-out `y` (`dy`) is laid out like `x` (`dx`).
    fn from_str(text: &str) -> Result<Self, BadDescriptor> {
        let mut fields = Fields::parse(OP, text)?;
        let pass = fields.parse_pass()?;
        let mut desc = ConvDesc::new();
        if let Some(padding) = fields.take_numbers("pad")? {
            desc = desc.padding(&padding);
        }
        if let Some(padding_end) = fields.take_numbers("pad_end")? {
            desc = desc.padding_end(&padding_end);
        }
        if let Some(stride) = fields.take_numbers("stride")? {
            desc = desc.stride(&stride);
        }
        if let Some(dilation) = fields.take_numbers("dil")? {
            desc = desc.dilation(&dilation);
        }
        if let Some(groups) = fields.take_optional("groups")? {
            desc = desc.groups(groups);
        }
        if let Some(mode) = fields.take_optional("mode")? {
            desc = desc.mode(mode);
        }
        if let Some(math) = fields.take_optional("math")? {
            desc = desc.math(math);
        }
        let [x_name, w_name, y_name] = names(pass);
        let x = fields.take_tensor(x_name)?;
        let w = fields.take_tensor(w_name)?;
        let y = match fields.take_optional(y_name)? {
            Some(y) => y,
            None => {
                let (_, dims) = desc.resolve((x_name, &x), (w_name, &w))?;
                x.of_extents(&dims)?
            }
        };
        let epilogue = Epilogue::parse(OP, &mut fields)?;
        fields.finish()?;
        let given_sum = epilogue.given_sum();
        let problem = Self::new(pass, &desc, &x, &w, &y)?.with_epilogue(epilogue)?;
        problem.epilogue.iter().try_for_each(|epilogue| epilogue.check_sums(OP, given_sum))?;
        Ok(problem)
    }
}

/// Judges the element types. Those of 8 bits are for inference: gradients would round to nothing in them.
fn check_dtypes(
    pass: ConvPass,
    math: Math,
    x: &TensorDesc,
    w: &TensorDesc,
    y: &TensorDesc,
) -> Result<(), BadDescriptor> {
    let [x_name, w_name, y_name] = names(pass);
    math.check(OP, x)?;
    for (name, desc) in [(x_name, x), (w_name, w), (y_name, y)] {
        if pass != ConvPass::Fprop && !desc.dtype().is_general() {
            let reason = format!(
                "expected f64, f32, f16 or bf16 in {pass}, into which transform converts: {} is for fprop alone",
                desc.dtype()
            );
            return Err(BadDescriptor::new(OP, name, reason));
        }
    }
    same_dtype(OP, w_name, w, x_name, x)?;
    product_dtypes(OP, (x_name, x), (w_name, w), (y_name, y))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_left_out_output_lies_like_the_input() {
        for (text, y) in [
            ("conv:fprop pad=1 x=2x16x7x7:f16:nhwc w=32x16x3x3:f16:nhwc", "2x32x7x7:f16:nhwc"),
            ("conv:fprop pad=1 x=2x16x7x7:f16 w=32x16x3x3:f16:nhwc", "2x32x7x7:f16"),
            ("conv:wgrad stride=2 x=2x3x9:f32:s27x1x3 dw=4x3x2:f32", "2x4x4:f32:nhwc"),
            ("conv:dgrad dx=2x3x4x5:f32:s1x2x6x24 w=7x3x1x1:f32", "2x7x4x5:f32:s1x2x14x56"),
            ("conv:fprop x=2x1x4x5:f32:nhwc w=7x1x1x1:f32", "2x7x4x5:f32:nhwc"),
        ] {
            assert_eq!(text.parse::<ConvProblem>().unwrap().y().to_string(), y, "{text}");
        }
    }

    #[test]
    fn counts() {
        let problem = |text: &str| text.parse::<ConvProblem>().unwrap();
        let fprop = problem("conv:fprop pad=1x1 groups=2 x=2x16x7x7:f16 w=32x8x3x3:f16");
        assert_eq!(fprop.flops(), 2.0 * 2.0 * 32.0 * 49.0 * 8.0 * 9.0);
        assert_eq!(fprop.accumulation_length(), 72.0);
        let dgrad = problem("conv:dgrad pad=1x1 groups=2 dx=2x16x7x7:f16 w=32x8x3x3:f16");
        assert_eq!(dgrad.accumulation_length(), 16.0 * 9.0);
        let wgrad = problem("conv:wgrad pad=1x1 groups=2 x=2x16x7x7:f16 dw=32x8x3x3:f16");
        assert_eq!(wgrad.accumulation_length(), 98.0);
        assert_eq!(
            fprop.to_string(),
            "conv:fprop pad=1x1 stride=1x1 dil=1x1 groups=2 x=2x16x7x7:f16 w=32x8x3x3:f16 y=2x32x7x7:f16"
        );
    }
}
