//! Random epilogues for products.

use super::tensors::layout;
use kernel_abi::epilogue::Epilogue;
use kernel_abi::ops::activation::ActivationMode;
use kernel_abi::ops::conv::{ConvPass, ConvProblem};
use kernel_abi::ops::matmul::MatmulProblem;
use kernel_abi::{DType, TensorDesc};
use proptest::prelude::*;

/// Which parts an epilogue has, and how they lie.
#[derive(Clone, Debug)]
struct Parts {
    /// The stride of the bias, and whether it is of the accumulator's type.
    bias: Option<(i64, bool)>,
    /// How the residual lies; none for as y does.
    residual: Option<Option<super::tensors::Layout>>,
    activation: (ActivationMode, f64),
    /// Channel sums, in f64 or in the accumulator's type.
    sums: Option<bool>,
}

fn parts(modes: impl Strategy<Value = ActivationMode>) -> impl Strategy<Value = Parts> {
    let bias = prop::option::weighted(0.7, (prop_oneof![3 => Just(1i64), 1 => 0i64..=3], prop::bool::ANY));
    let own_layout = prop_oneof![2 => Just(None), 1 => layout().prop_map(Some)];
    let residual = prop::option::weighted(0.6, own_layout);
    (bias, residual, (modes, 0.25f64..2.0), prop::option::weighted(0.4, prop::bool::weighted(0.3)))
        .prop_map(|(bias, residual, activation, sums)| Parts { bias, residual, activation, sums })
}

impl Parts {
    fn epilogue(self, y: &TensorDesc, channels: i64, with_sums: bool) -> Epilogue {
        let (mode, coefficient) = self.activation;
        let mut epilogue = Epilogue::new().activation(mode, coefficient);
        if let Some((stride, wide)) = self.bias {
            let dtype = if wide { y.dtype().accumulator() } else { y.dtype() };
            epilogue = epilogue.bias(&TensorDesc::strided(dtype, &[channels], &[stride]).expect("one extent is legal"));
        }
        if let Some(layout) = self.residual {
            epilogue = epilogue.residual(&layout.map_or(*y, |layout| layout.apply(y.dtype(), y.dims())));
        }
        match self.sums.filter(|_| with_sums) {
            Some(true) => epilogue.channel_sums_f64(),
            Some(false) => epilogue.channel_sums(),
            None => epilogue,
        }
    }
}

/// The activations that give integers for integers.
fn whole_modes() -> impl Strategy<Value = ActivationMode> {
    prop::sample::select(&[ActivationMode::Identity, ActivationMode::Relu][..])
}

fn any_mode() -> impl Strategy<Value = ActivationMode> {
    prop_oneof![1 => whole_modes(), 2 => prop::sample::select(ActivationMode::EPILOGUE)]
}

fn convs() -> impl Strategy<Value = ConvProblem> {
    prop_oneof![
        2 => super::conv::of(super::tensors::dtype(), Just(ConvPass::Fprop)),
        2 => super::conv::for_tensor_cores(Just(ConvPass::Fprop)),
        1 => super::conv::nchw(Just(ConvPass::Fprop)),
    ]
}

fn behind_conv((problem, parts): (ConvProblem, Parts)) -> ConvProblem {
    let epilogue = parts.epilogue(problem.y(), problem.w().dims()[0], true);
    problem.with_epilogue(epilogue).expect("a random epilogue is legal")
}

fn behind_matmul((problem, parts): (MatmulProblem, Parts)) -> MatmulProblem {
    let epilogue = parts.epilogue(problem.c(), problem.gemm_n(), false);
    problem.with_epilogue(epilogue).expect("a random epilogue is legal")
}

/// Any `fprop` with any epilogue.
pub fn conv() -> impl Strategy<Value = ConvProblem> {
    (convs(), parts(any_mode())).prop_map(behind_conv)
}

/// The same with activations that give integers for integers.
pub fn conv_of_integers() -> impl Strategy<Value = ConvProblem> {
    (convs(), parts(whole_modes())).prop_map(behind_conv)
}

/// Any product with any epilogue.
pub fn matmul() -> impl Strategy<Value = MatmulProblem> {
    (prop_oneof![super::matmul::any(), super::matmul::tiled()], parts(any_mode())).prop_map(behind_matmul)
}

/// The same with activations that give integers for integers.
pub fn matmul_of_integers() -> impl Strategy<Value = MatmulProblem> {
    (prop_oneof![super::matmul::any(), super::matmul::tiled()], parts(whole_modes())).prop_map(behind_matmul)
}

/// The largest magnitude of integer operands with which everything is exact, and rounding twice no other than once: sums of
/// `length` products in y's type, and the sums of `positions` squares of them in f32. None where not even 1 is.
pub fn largest_integer(dtype: DType, length: f64, positions: f64) -> Option<i64> {
    [3i64, 2, 1].into_iter().find(|&max| {
        let max = max as f64;
        // The variance of an integer, so the deviation of a product, and from it that of a sum, scaled by 2.
        let deviation = 2.0 * max * (max + 1.0) / 3.0 * length.sqrt();
        let of_y = 6.0 * deviation + 3.0 * max;
        let of_squares = positions * (deviation + 3.0 * max).powi(2) * 4.0;
        of_y <= dtype.max_exact_integer() as f64 && of_squares <= (1 << 24) as f64
    })
}
