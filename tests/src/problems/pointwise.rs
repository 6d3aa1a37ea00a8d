//! Random pointwise operations and chains.

use super::tensors::{Layout, any_dtype, dims, dtype, layout};
use kernel_abi::DType;
use kernel_abi::ops::pointwise::{INPUT_NAMES, PointwisePass, PointwiseProblem, Step};
use proptest::prelude::*;

/// Operations of which factors of the inputs do not make something that is hard to judge: sums and products, and what is
/// monotonous and smooth.
fn is_plain(pass: PointwisePass) -> bool {
    use PointwisePass::{Add, Max, Min, Mul, Neg, Not, Scale, Set, Sub};
    matches!(pass, Add | Max | Min | Mul | Neg | Not | Scale | Set | Sub)
}

/// Any single operation, inputs repeated in some dimensions. Half of the time all types are one of the general ones, else
/// each is any.
pub fn any() -> impl Strategy<Value = PointwiseProblem> {
    let passes =
        prop::sample::select(PointwisePass::ALL).prop_filter("is no chain", |pass| *pass != PointwisePass::Chain);
    let dtypes =
        prop_oneof![dtype().prop_map(|dtype| [dtype; 4]), [any_dtype(), any_dtype(), any_dtype(), any_dtype()]];
    (passes, -2.0f64..2.0, -2.0f64..2.0, dtypes, tensors()).prop_map(|(pass, alpha_a, alpha_b, dtypes, tensors)| {
        let input = |i: usize| tensors.input(i, dtypes[i]);
        let c = tensors.layouts[3].apply(dtypes[3], &tensors.dims);
        let problem = match pass {
            PointwisePass::Set => PointwiseProblem::set(alpha_a, &c),
            PointwisePass::GenIndex => PointwiseProblem::gen_index(tensors.dims.len() / 2, &c),
            PointwisePass::Select => PointwiseProblem::select(&input(0), &input(1), &input(2), &c),
            _ if pass.n_inputs() == 2 => PointwiseProblem::binary(pass, &input(0), &input(1), &c),
            _ => PointwiseProblem::unary(pass, &input(0), &c),
        };
        let problem = problem.expect("a random problem is legal");
        if is_plain(pass) { problem.scaled(alpha_a, alpha_b) } else { problem }
    })
}

/// Types of inputs and output that kernels for one operation have.
fn dense_dtypes() -> impl Strategy<Value = [DType; 2]> {
    use DType::{BF16, F16, F32};
    let alike = prop::sample::select(&[F32, F16, BF16][..]).prop_map(|dtype| [dtype; 2]);
    let cast = prop::sample::select(&[[F32, F16], [F32, BF16], [F16, F32], [BF16, F32]][..]);
    prop_oneof![3 => alike, 1 => cast]
}

/// Operations on tensors without gaps that are alike in memory, with elements behind the last whole access.
pub fn dense() -> impl Strategy<Value = PointwiseProblem> {
    use PointwisePass::{Abs, Add, Div, Erf, Exp, Log, Max, Min, Mul, Neg, Reciprocal, Rsqrt, Scale, Sqrt, Sub};
    let passes = [Abs, Add, Div, Erf, Exp, Log, Max, Min, Mul, Neg, Reciprocal, Rsqrt, Scale, Scale, Scale, Sqrt, Sub];
    let extents = prop_oneof![3 => dims(4, 3000), 1 => (1i64..9000).prop_map(|n| vec![n])];
    let last = prop::bool::ANY.prop_map(|last| if last { Layout::ChannelsLast } else { Layout::Packed });
    (prop::sample::select(passes.to_vec()), -2.0f64..2.0, -2.0f64..2.0, dense_dtypes(), extents, last).prop_map(
        |(pass, alpha_a, alpha_b, [from, to], dims, layout)| {
            let (a, c) = (layout.apply(from, &dims), layout.apply(to, &dims));
            let problem = match pass.n_inputs() {
                1 => PointwiseProblem::unary(pass, &a, &c),
                _ => PointwiseProblem::binary(pass, &a, &a, &a),
            };
            let problem = problem.expect("a random problem is legal");
            if is_plain(pass) { problem.scaled(alpha_a, alpha_b) } else { problem }
        },
    )
}

/// What stands behind a product: a bias for each channel, an activation and a residual, or some of them.
pub fn biased() -> impl Strategy<Value = PointwiseProblem> {
    let known = &["", "relu", "relu:slope=0.125:upper=3", "sigmoid", "tanh", "swish:coef=1.25", "gelu", "gelu_tanh"];
    biased_of(prop::sample::select(&known[..]))
}

/// Those that keep whole numbers exact.
pub fn whole_biased() -> impl Strategy<Value = PointwiseProblem> {
    biased_of(prop::sample::select(&["", "relu"][..]))
}

fn biased_of(activation: impl Strategy<Value = &'static str>) -> impl Strategy<Value = PointwiseProblem> {
    let extents = (1i64..4, 1i64..12, prop::sample::select(&[1i64, 1, 4, 8][..]), 1i64..5, 1i64..9);
    let types = prop::sample::select(&[DType::F32, DType::F16, DType::BF16][..]);
    let switches = (prop::bool::ANY, prop::bool::ANY, prop::bool::weighted(0.75));
    (activation, types, extents, switches).prop_map(
        |(activation, dtype, (n, channels, multiple, h, w), (last, residual, repeated))| {
            let dims = [n, channels * multiple, h, w * multiple];
            let layout = if last { Layout::ChannelsLast } else { Layout::Packed };
            let x = layout.apply(dtype, &dims);
            let b = if repeated { layout.apply(dtype, &[1, dims[1], 1, 1]) } else { x };
            let steps = ["add:b", activation, if residual { "add:t" } else { "" }];
            let steps = steps.iter().filter(|step| !step.is_empty());
            let steps: Vec<Step> = steps.map(|step| step.parse().expect("a known step")).collect();
            let inputs = if residual { vec![x, b, x] } else { vec![x, b] };
            PointwiseProblem::chain(&steps, &inputs, &x).expect("a random problem is legal")
        },
    )
}

/// Steps whose results stay of the size of their arguments, and have no jumps.
const STEPS: &[&str] = &[
    "add:b",
    "add:0.5",
    "sub:b",
    "sub:1:_",
    "mul:b",
    "mul:-0.75",
    "min:b",
    "max:b",
    "max:-0.25",
    "neg",
    "abs",
    "not",
    "sin",
    "cos",
    "erf",
    "relu",
    "relu:slope=0.125:upper=3",
    "tanh",
    "sigmoid",
    "swish:coef=1.25",
    "elu:coef=0.5",
    "gelu",
    "gelu_tanh",
    "softplus",
    "hardswish",
    "mish",
    "selu",
    "celu",
    "softsign",
    "log_sigmoid",
    "hardsigmoid",
    "clipped_relu:coef=2",
    "add_square:0.5:_",
    "select:_:b:t",
    "select:0.25:_:t",
    "sigmoid_backward:b",
    "tanh_backward:b",
    "gelu_backward:b",
    "div:b:3",
    "add:t",
    "mul:t",
    "add:u",
    "scale:_",
];

/// Any chain of two to six steps; the factors of its inputs, and its types, are as those of single operations.
pub fn chain() -> impl Strategy<Value = PointwiseProblem> {
    let steps = prop::collection::vec(prop::sample::select(STEPS), 2..=6);
    let dtypes = prop_oneof![
        3 => dtype().prop_map(|dtype| [dtype; 5]),
        1 => (dtype(), dtype(), dtype()).prop_map(|(a, b, c)| [a, b, DType::Bool, a, c]),
    ];
    (steps, -1.0f64..1.0, -1.0f64..1.0, dtypes, tensors()).prop_map(|(steps, alpha_a, alpha_b, dtypes, tensors)| {
        let n_inputs = steps.iter().map(|step| n_inputs_of(step)).max().unwrap_or(1).max(1);
        let mut steps: Vec<Step> = steps.iter().map(|step| step.parse().expect("a known step")).collect();
        // An input between others must be used, too.
        for (i, name) in INPUT_NAMES.iter().enumerate().take(n_inputs).skip(1) {
            let used = |step: &Step| step.to_string().split(':').skip(1).any(|word| word == *name);
            if !steps.iter().any(used) {
                steps.push(format!("add:{}", INPUT_NAMES[i]).parse().expect("a known step"));
            }
        }
        let inputs: Vec<_> = (0..n_inputs).map(|i| tensors.input(i, dtypes[i])).collect();
        let c = tensors.layouts[3].apply(dtypes[4], &tensors.dims);
        let problem = PointwiseProblem::chain(&steps, &inputs, &c).expect("a random problem is legal");
        problem.scaled(alpha_a, alpha_b)
    })
}

/// Chains of whole numbers that stay exact.
pub fn whole_chain() -> impl Strategy<Value = PointwiseProblem> {
    let known =
        &["add:b", "sub:b", "relu", "neg", "max:b", "mul:-2", "abs", "cmp_gt:b", "select:_:b:t", "min:3", "add:t"];
    let steps = prop::collection::vec(prop::sample::select(&known[..]), 1..=3);
    (steps, dtype(), tensors()).prop_map(|(mut steps, dtype, tensors)| {
        steps.extend(["add:b", "sub:t"]);
        let steps: Vec<Step> = steps.iter().map(|step| step.parse().expect("a known step")).collect();
        let inputs: Vec<_> = (0..3).map(|i| tensors.input(i, dtype)).collect();
        let c = tensors.layouts[3].apply(dtype, &tensors.dims);
        PointwiseProblem::chain(&steps, &inputs, &c).expect("a random problem is legal")
    })
}

fn n_inputs_of(step: &str) -> usize {
    step.split(':')
        .skip(1)
        .filter_map(|word| INPUT_NAMES.iter().position(|name| *name == word))
        .max()
        .map_or(1, |i| i + 1)
}

/// Extents, layouts, and which inputs are repeated where.
#[derive(Clone, Debug)]
struct Tensors {
    dims: Vec<i64>,
    layouts: [Layout; 4],
    repeats: [Vec<bool>; 4],
}

impl Tensors {
    fn input(&self, i: usize, dtype: DType) -> kernel_abi::TensorDesc {
        let repeated = |(&dim, &repeat): (&i64, &bool)| if repeat { 1 } else { dim };
        let dims: Vec<i64> = self.dims.iter().zip(&self.repeats[i]).map(repeated).collect();
        self.layouts[i].apply(dtype, &dims)
    }
}

/// Small ones of any rank; rows with repeated inputs and long runs, as images with channels last have them.
fn tensors() -> impl Strategy<Value = Tensors> {
    let repeat = || prop::collection::vec(prop::bool::weighted(0.25), 8);
    let small = (dims(5, 3000), [layout(), layout(), layout(), layout()], [repeat(), repeat(), repeat(), repeat()])
        .prop_map(|(dims, layouts, repeats)| Tensors { dims, layouts, repeats });
    let wide = (1i64..5, 1i64..70, 1i64..6, [prop::bool::ANY, prop::bool::ANY, prop::bool::ANY], prop::bool::ANY)
        .prop_map(|(n, eights, w, rows, last)| {
            let layout = if last { Layout::ChannelsLast } else { Layout::Packed };
            // Repeated along all but the channels, or along none.
            let repeats = rows.map(|row| vec![row, false, row, row]);
            let [a, b, t] = repeats;
            let layouts = [layout.clone(), layout.clone(), layout.clone(), layout];
            Tensors { dims: vec![n, 8 * eights, w, 3], layouts, repeats: [vec![false; 4], a, b, t] }
        });
    prop_oneof![2 => small, 1 => wide]
}
