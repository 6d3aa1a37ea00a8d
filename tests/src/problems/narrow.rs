//! Random products of 8-bit numbers, and of f32 in tf32: those of the other files with other types.

use super::tensors::narrow_product;
use kernel_abi::ops::conv::{ConvPass, ConvProblem};
use kernel_abi::ops::matmul::{MatmulDesc, MatmulProblem};
use kernel_abi::{DType, Math, TensorDesc};
use proptest::prelude::*;

/// `fprop` of 8-bit numbers: any at all, and channels-last with channels by 8, half of them as tensor cores want them.
pub fn conv() -> impl Strategy<Value = ConvProblem> {
    let any = super::conv::of(Just(DType::F32), Just(ConvPass::Fprop));
    let wide = super::conv::for_tensor_cores(Just(ConvPass::Fprop));
    let problem = prop_oneof![1 => any, 2 => wide];
    (problem, narrow_product()).prop_map(|(problem, [dtype, _, to])| {
        let desc = problem.desc();
        let [x, w, y] = [(problem.x(), dtype), (problem.w(), dtype), (problem.y(), to)].map(retyped);
        ConvProblem::fprop(&desc, &x, &w, &y).expect("a random problem is legal")
    })
}

/// Products of 8-bit numbers, also around the edges of tiles.
pub fn matmul() -> impl Strategy<Value = MatmulProblem> {
    let problem = prop_oneof![1 => super::matmul::any(), 2 => super::matmul::tiled()];
    (problem, narrow_product()).prop_map(|(problem, [a_type, b_type, c_type])| {
        let [a, b, c] = [(problem.a(), a_type), (problem.b(), b_type), (problem.c(), c_type)].map(retyped);
        problem.desc().problem(&a, &b, &c).expect("a random problem is legal")
    })
}

/// f32 convolutions that may be computed in tf32.
pub fn tf32_conv(pass: impl Strategy<Value = ConvPass>) -> impl Strategy<Value = ConvProblem> {
    (super::conv::single(prop::sample::select(ConvPass::ALL)), pass).prop_map(|(problem, pass)| tf32_of(&problem, pass))
}

/// A pass over the tensors of an f32 convolution that may be computed in tf32.
///
/// # Panics
/// When the tensor that is written overlaps itself.
pub fn tf32_of(problem: &ConvProblem, pass: ConvPass) -> ConvProblem {
    let desc = problem.desc().math(Math::Tf32);
    let (x, w, y) = (problem.x(), problem.w(), problem.y());
    ConvProblem::new(pass, &desc, x, w, y).expect("the tensors fit each other")
}

/// f32 products that may be computed in tf32.
pub fn tf32_matmul() -> impl Strategy<Value = MatmulProblem> {
    prop_oneof![1 => super::matmul::any(), 2 => super::matmul::tiled()].prop_map(|problem| {
        let [a, b, c] = [problem.a(), problem.b(), problem.c()].map(|desc| retyped((desc, DType::F32)));
        let desc = MatmulDesc { math: Math::Tf32, ..problem.desc() };
        desc.problem(&a, &b, &c).expect("a random problem is legal")
    })
}

fn retyped((desc, dtype): (&TensorDesc, DType)) -> TensorDesc {
    desc.with_dtype(dtype).expect("narrower elements are no larger")
}
