//! Random max unpoolings.

use super::pool::desc;
use super::tensors::{dtype, layout};
use kernel_abi::DType;
use kernel_abi::ops::pool::{IndexBase, PoolMode};
use kernel_abi::ops::unpool::{UnpoolPass, UnpoolProblem};
use proptest::prelude::*;

/// Any max unpooling.
pub fn any() -> impl Strategy<Value = UnpoolProblem> {
    let words = (prop::sample::select(UnpoolPass::ALL), dtype(), prop::sample::select(IndexBase::ALL));
    let index = prop::sample::select(&[DType::I32, DType::I64][..]);
    let layouts = [layout(), layout(), layout()];
    (words, index, desc(PoolMode::Max), (1i64..=3, 1i64..=7), layouts).prop_map(
        |((pass, dtype, base), index, (desc, image), (n, c), layouts)| {
            let desc = desc.index_base(base);
            let dims = [n, c].into_iter().chain(image).collect::<Vec<_>>();
            let image = layouts[0].apply(dtype, &dims);
            let pooled = desc.output_dims(&image).expect("random axes are legal");
            let index = layouts[1].apply(index, &pooled);
            let pooled = layouts[2].apply(dtype, &pooled);
            match pass {
                UnpoolPass::Forward => UnpoolProblem::forward(&desc, &pooled, &index, &image),
                UnpoolPass::Backward => UnpoolProblem::backward(&desc, &image, &index, &pooled),
            }
            .expect("a random problem is legal")
        },
    )
}
