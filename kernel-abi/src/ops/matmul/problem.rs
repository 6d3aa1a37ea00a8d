//! The matmul problem and its text form.

use super::MAX_BATCH_DIMS;
use crate::Math;
use crate::desc::{BadDescriptor, TensorDesc};
use crate::epilogue::Epilogue;
use crate::problem::{Operand, Precision, Problem, general_dtype, integer_sums, no_overlap, product_dtypes};
use crate::text::{Fields, join};
use std::fmt;
use std::str::FromStr;

const OP: &str = "matmul";

/// Which inputs are stored with their matrix dimensions exchanged, and how exactly they are multiplied.
///
/// As text, the former: two letters, for a and b: `n` for as written in the formula, `t` for transposed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct MatmulDesc {
    /// a is stored `[…, k, m]`.
    pub transpose_a: bool,
    /// b is stored `[…, n, k]`.
    pub transpose_b: bool,
    /// How exactly `f32` operands are multiplied; no part of the text, where `math` stands beside `trans`.
    pub math: Math,
}

impl MatmulDesc {
    /// The problem with these operands.
    ///
    /// # Errors
    /// As [`MatmulProblem::new`], and for `math` that is for convolutions or for other types.
    pub fn problem(self, a: &TensorDesc, b: &TensorDesc, c: &TensorDesc) -> Result<MatmulProblem, BadDescriptor> {
        MatmulProblem::checked(self, *a, *b, *c)
    }
}

impl fmt::Display for MatmulDesc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let letter = |transposed| if transposed { 't' } else { 'n' };
        write!(f, "{}{}", letter(self.transpose_a), letter(self.transpose_b))
    }
}

impl FromStr for MatmulDesc {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (transpose_a, transpose_b) = match text {
            "nn" => (false, false),
            "nt" => (false, true),
            "tn" => (true, false),
            "tt" => (true, true),
            _ => return Err("expected one of nn, nt, tn, tt".to_owned()),
        };
        Ok(MatmulDesc { transpose_a, transpose_b, math: Math::default() })
    }
}

/// One batched matrix product. See the [module](super) for the formula.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MatmulProblem {
    desc: MatmulDesc,
    a: TensorDesc,
    b: TensorDesc,
    c: TensorDesc,
    epilogue: Option<Epilogue>,
}

impl MatmulProblem {
    /// `c = alpha · a b + beta · c` with a `[…, m, k]`, b `[…, k, n]` and c `[…, m, n]`, of rank 2 to 5.
    ///
    /// # Errors
    /// `BadDescriptor` for a rank outside 2..=5, ranks, batch extents, matrix extents or types that do not fit each
    /// other, and a c that overlaps itself.
    pub fn new(a: &TensorDesc, b: &TensorDesc, c: &TensorDesc) -> Result<Self, BadDescriptor> {
        Self::checked(MatmulDesc::default(), *a, *b, *c)
    }

    fn checked(desc: MatmulDesc, a: TensorDesc, b: TensorDesc, c: TensorDesc) -> Result<Self, BadDescriptor> {
        let ranks = 2..=MAX_BATCH_DIMS + 2;
        if !ranks.contains(&a.rank()) {
            let reason = format!("expected a rank of {} to {}, given {}", ranks.start(), ranks.end(), a.rank());
            return Err(BadDescriptor::new(OP, "a", reason));
        }
        let n_batch = a.rank() - 2;
        for (name, desc) in [("b", &b), ("c", &c)] {
            if desc.rank() != a.rank() {
                let reason = format!("expected the rank {} of a, given {}", a.rank(), desc.rank());
                return Err(BadDescriptor::new(OP, name, reason));
            }
            if desc.dims()[..n_batch] != a.dims()[..n_batch] {
                let (expected, given) = (join(&a.dims()[..n_batch]), join(&desc.dims()[..n_batch]));
                let reason = format!("expected the batch extents {expected} of a, given {given}");
                return Err(BadDescriptor::new(OP, name, reason));
            }
        }
        desc.math.check(OP, &a)?;
        if desc.math == Math::Winograd4x4 {
            let reason = format!("expected full or tf32, given {}, which convolutions have", desc.math);
            return Err(BadDescriptor::new(OP, "math", reason));
        }
        product_dtypes(OP, ("a", &a), ("b", &b), ("c", &c))?;
        let problem = MatmulProblem { desc, a, b, c, epilogue: None };
        let (a_matrix, b_matrix) = (problem.a_matrix(), problem.b_matrix());
        let (m, k) = (a_matrix.dims()[n_batch], a_matrix.dims()[n_batch + 1]);
        let (given_k, n) = (b_matrix.dims()[n_batch], b_matrix.dims()[n_batch + 1]);
        if given_k != k {
            let reason = format!("expected the gemm_k {k} of a, given {given_k}");
            return Err(BadDescriptor::new(OP, "b", reason));
        }
        if c.dims()[n_batch..] != [m, n] {
            let reason = format!("expected gemm_m {m} of a and gemm_n {n} of b, given {}", join(&c.dims()[n_batch..]));
            return Err(BadDescriptor::new(OP, "c", reason));
        }
        integer_sums(OP, "a", &a, k as f64)?;
        no_overlap(OP, "c", &c)?;
        Ok(problem)
    }

    /// The same with an epilogue in place of the one it may have: `c = act(alpha · a b + beta · c + bias + z)`, with a
    /// bias for each column, n. See the [module](super) on what that is for matrices in column-major order.
    ///
    /// # Errors
    /// `BadDescriptor` for a bias that is not `[gemm_n]` or of another type than c's or its accumulator's, a residual of
    /// other extents or type than c's, a coefficient that the activation does not take, and for channel sums.
    pub fn with_epilogue(self, epilogue: Epilogue) -> Result<Self, BadDescriptor> {
        if epilogue.has_sums() {
            let reason = "expected none, which convolutions have, given sum and sum_squares";
            return Err(BadDescriptor::new(OP, "channel sums", reason.to_owned()));
        }
        let epilogue = epilogue.checked(OP, "c", &self.c, self.c.rank() - 1)?;
        if epilogue.is_some() {
            general_dtype(OP, "a", &self.a)?;
        }
        Ok(MatmulProblem { epilogue, ..self })
    }

    /// Which inputs are stored transposed.
    pub fn desc(&self) -> MatmulDesc {
        self.desc
    }

    /// The first factor as stored.
    pub fn a(&self) -> &TensorDesc {
        &self.a
    }

    /// The second factor as stored.
    pub fn b(&self) -> &TensorDesc {
        &self.b
    }

    /// The product.
    pub fn c(&self) -> &TensorDesc {
        &self.c
    }

    /// The first factor as `[…, m, k]`.
    pub fn a_matrix(&self) -> TensorDesc {
        if self.desc.transpose_a { exchanged(&self.a) } else { self.a }
    }

    /// The second factor as `[…, k, n]`.
    pub fn b_matrix(&self) -> TensorDesc {
        if self.desc.transpose_b { exchanged(&self.b) } else { self.b }
    }

    /// Extents of the batch dimensions.
    pub fn batch_dims(&self) -> &[i64] {
        &self.c.dims()[..self.c.rank() - 2]
    }

    /// Number of matrices.
    pub fn n_batch(&self) -> i64 {
        self.batch_dims().iter().product()
    }

    /// Rows of the product.
    pub fn gemm_m(&self) -> i64 {
        self.c.dims()[self.c.rank() - 2]
    }

    /// Columns of the product.
    pub fn gemm_n(&self) -> i64 {
        self.c.dims()[self.c.rank() - 1]
    }

    /// Length of the sums.
    pub fn gemm_k(&self) -> i64 {
        let exchange = usize::from(self.desc.transpose_a);
        self.a.dims()[self.a.rank() - 1 - exchange]
    }
}

/// The same elements with the last two dimensions exchanged.
fn exchanged(desc: &TensorDesc) -> TensorDesc {
    let last = desc.rank() - 1;
    let (mut dims, mut strides) = (desc.dims().to_vec(), desc.strides().to_vec());
    dims.swap(last - 1, last);
    strides.swap(last - 1, last);
    TensorDesc::strided(desc.dtype(), &dims, &strides).expect("the order of dimensions does not change the size")
}

impl Problem for MatmulProblem {
    const OP: &'static str = OP;

    fn pass(&self) -> &'static str {
        "forward"
    }

    fn operands(&self) -> Vec<Operand> {
        let mut operands = vec![Operand::input("a", self.a), Operand::input("b", self.b), Operand::output("c", self.c)];
        if let Some(epilogue) = &self.epilogue {
            epilogue.add_operands(&mut operands);
        }
        operands
    }

    fn epilogue(&self) -> Option<&Epilogue> {
        self.epilogue.as_ref()
    }

    fn plain(&self) -> Self {
        MatmulProblem { epilogue: None, ..self.clone() }
    }

    fn flops(&self) -> f64 {
        let behind = self.epilogue.as_ref().map_or(0.0, Epilogue::flops_per_element);
        self.c.n_elems() as f64 * (2.0 * self.gemm_k() as f64 + behind)
    }

    fn accumulation_length(&self) -> f64 {
        self.gemm_k() as f64
    }

    fn precision(&self) -> Precision {
        Precision::of_products(self.a.dtype(), self.desc.math)
    }
}

impl fmt::Display for MatmulProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{OP}:{}", self.pass())?;
        if self.desc.transpose_a || self.desc.transpose_b {
            write!(f, " trans={}", self.desc)?;
        }
        if self.desc.math != Math::default() {
            write!(f, " math={}", self.desc.math)?;
        }
        if let Some(epilogue) = &self.epilogue {
            write!(f, "{epilogue}")?;
        }
        crate::problem::write_operands(f, self)
    }
}

impl FromStr for MatmulProblem {
    type Err = BadDescriptor;

    /// `trans` may be left out for `nn`, `math` for `full`, c for a packed one of a's type.
    fn from_str(text: &str) -> Result<Self, BadDescriptor> {
        let mut fields = Fields::parse(OP, text)?;
        if fields.pass() != "forward" {
            let reason = format!("expected forward, given {:?}", fields.pass());
            return Err(BadDescriptor::new(OP, "pass", reason));
        }
        let mut desc: MatmulDesc = fields.take_optional("trans")?.unwrap_or_default();
        desc.math = fields.take_optional("math")?.unwrap_or_default();
        let (a, b) = (fields.take_tensor("a")?, fields.take_tensor("b")?);
        let c = match fields.take_optional("c")? {
            Some(c) => c,
            None => product(desc, &a, &b)?,
        };
        let epilogue = Epilogue::parse(OP, &mut fields)?;
        fields.finish()?;
        desc.problem(&a, &b, &c)?.with_epilogue(epilogue)
    }
}

/// The packed c for a and b. Inputs that do not fit each other give a c that the problem's checks refuse.
fn product(desc: MatmulDesc, a: &TensorDesc, b: &TensorDesc) -> Result<TensorDesc, BadDescriptor> {
    let (mut dims, b_dims) = (a.dims().to_vec(), b.dims());
    if let ([.., rows, cols], [.., b_rows, b_cols]) = (dims.as_mut_slice(), b_dims) {
        if desc.transpose_a {
            *rows = *cols;
        }
        *cols = if desc.transpose_b { *b_rows } else { *b_cols };
    }
    TensorDesc::packed(a.dtype(), &dims)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_round_trips_and_fills_in_c() {
        let problem: MatmulProblem = "matmul:forward trans=tn a=2x5x3:f16 b=2x5x7:f16".parse().unwrap();
        assert_eq!(problem.to_string(), "matmul:forward trans=tn a=2x5x3:f16 b=2x5x7:f16 c=2x3x7:f16");
        assert_eq!((problem.n_batch(), problem.gemm_m(), problem.gemm_n(), problem.gemm_k()), (2, 3, 7, 5));
        assert_eq!(problem.to_string().parse::<MatmulProblem>().unwrap(), problem);
        assert_eq!(problem.a_matrix().dims(), [2, 3, 5]);
        assert_eq!(problem.a_matrix().strides(), [15, 1, 3]);
        assert_eq!(problem.flops(), 2.0 * 2.0 * 3.0 * 5.0 * 7.0);
    }
}
