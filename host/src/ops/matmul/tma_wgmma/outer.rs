//! Products whose sums run over an outer index too: matrices of a batch that are added up.

use super::maps::{BLOCK_K, Maps, Outer, narrow};
use super::{Product, Refusal};
use crate::TensorDesc;
use crate::ops::matmul::MatmulProblem;
use kernel_abi::ops::matmul::MAX_BATCH_DIMS;

impl Product {
    /// The products of a batch, added up: `c[m, n] = Σ a[i, m, k] b[i, k, n]` for a of rank 3.
    pub(in crate::ops) fn summed(a: &TensorDesc, b: &TensorDesc, c: &TensorDesc) -> Result<Self, Refusal> {
        let [(count, k), (m, n)] = [(a.dims()[0], a.dims()[2]), (c.dims()[0], c.dims()[1])];
        let all = MatmulProblem::new(a, b, &packed(a, &[count, m, n])?).map_err(Refusal::from)?;
        let one = MatmulProblem::new(&matrix(a)?, &matrix(b)?, c).map_err(Refusal::from)?;
        let mut product = Product::of(&one)?;
        let blocks = (k as u64).div_ceil(BLOCK_K.into());
        let gemm_k = narrow("the sums of all matrices", (count as u64 * blocks).saturating_mul(BLOCK_K.into()) as i64)?;
        let sum = |exchanged: bool, c: Maps| -> Result<Maps, Refusal> {
            let mut maps = Maps::of(&all, exchanged)?;
            check_direct(&maps)?;
            for input in [&mut maps.a, &mut maps.b] {
                input.batch_steps = [0; MAX_BATCH_DIMS];
            }
            let outer = Outer { blocks: blocks as u32, batches: [true; 2] };
            Ok(Maps { gemm_k, batch_dims: [1; MAX_BATCH_DIMS], c: c.c, outer, ..maps })
        };
        product.maps = sum(false, product.maps)?;
        product.transpose = product.transpose.map(|maps| sum(true, maps)).transpose()?;
        Ok(product)
    }
}

fn packed(like: &TensorDesc, dims: &[i64]) -> Result<TensorDesc, Refusal> {
    TensorDesc::packed(like.dtype(), dims).map_err(Refusal::from)
}

/// The first matrix of a batch.
fn matrix(batch: &TensorDesc) -> Result<TensorDesc, Refusal> {
    TensorDesc::strided(batch.dtype(), &batch.dims()[1..], &batch.strides()[1..]).map_err(Refusal::from)
}

/// Refuses inputs that would have to be copied first.
fn check_direct(maps: &Maps) -> Result<(), Refusal> {
    if maps.a.pack.is_some() || maps.b.pack.is_some() {
        return Err(Refusal::new("takes rows of both inputs that lie at multiples of 16 bytes"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::maps::Major;
    use super::*;

    #[test]
    fn a_batch_is_summed_over() {
        let desc = |text: &str| text.parse::<TensorDesc>().unwrap();
        let product =
            Product::summed(&desc("5x136x200:bf16"), &desc("5x200x72:bf16:s14400x1x200"), &desc("136x72:bf16"));
        let product = product.unwrap();
        let maps = &product.maps;
        assert_eq!((maps.gemm_m, maps.gemm_n, maps.gemm_k, maps.n_batch()), (136, 72, 5 * 4 * 64, 1));
        assert_eq!((maps.a.major, maps.b.major, maps.outer.blocks), (Major::K, Major::K, 4));
        assert_eq!((maps.outer.batches, maps.c.row_stride_elems), ([true; 2], 72));
        let misaligned = Product::summed(&desc("5x64x49:bf16"), &desc("5x49x64:bf16:s3136x1x49"), &desc("64x64:bf16"));
        assert!(misaligned.unwrap_err().0.contains("multiples of 16 bytes"));
    }
}
