//! The gradient of maxima of images that do not lie channels-last: x and dy are transposed into the workspace, where a method for
//! channels-last tensors takes them, and dx is transposed back.
//!
//! Where channels lie together, words of several are compared at once, and what the transpositions take is less than what
//! comparing single columns does.

use super::columns::Columns;
use super::planes::Shape;
use super::ring_rows::RingRows;
use super::rows_mma::RowsMma;
use super::{PoolDesc, PoolProblem};
use crate::ops::transform::Copies;
use crate::plan::Launch;
use crate::select::{Algorithm, Config, Refusal, check_gpu};
use crate::{Context, Error, TensorDesc};
use kernel_abi::ops::pool::WindowAxis;

macro_rules! names {
    ($(($symbol:ident $($column:tt)*)),* $(,)?) => {
        &[$((stringify!($symbol), concat!(stringify!($symbol), "+nchw"))),*]
    };
}

/// Methods for channels-last images, each with its kernels' names, and those that they have here.
type Method = (&'static dyn Algorithm<PoolProblem>, &'static [(&'static str, &'static str)]);

const METHODS: &[Method] = &[
    (&RowsMma, kernel_abi::pool_rows_mma_kernels!(names)),
    (&RingRows, kernel_abi::pool_ring_rows_kernels!(names)),
    (&Columns, kernel_abi::pool_column_kernels!(names)),
];

/// Through channels-last copies.
pub(super) struct NchwTransposed;

impl Algorithm<PoolProblem> for NchwTransposed {
    fn name(&self) -> &'static str {
        "nchw_transposed"
    }

    fn configs(&self, problem: &PoolProblem, context: &Context) -> Result<Vec<Config>, Refusal> {
        check_gpu(context)?;
        let laid = Laid::of(problem)?;
        laid.copies.check(context)?;
        let mut reasons = Vec::new();
        let mut found = Vec::new();
        for (method, names) in METHODS {
            match method.configs(&laid.problem, context) {
                Ok(configs) => found.extend(configs.into_iter().filter_map(|config| named(names, config))),
                Err(Refusal(reason)) => reasons.push(format!("{}: {reason}", method.name())),
            }
        }
        if found.is_empty() { Err(Refusal(reasons.join("; "))) } else { Ok(found) }
    }

    fn workspace_bytes(&self, problem: &PoolProblem, _: Config) -> u64 {
        // The methods need none.
        Laid::of(problem).map_or(0, |laid| laid.copies.bytes())
    }

    fn estimate_us(&self, problem: &PoolProblem, config: Config, context: &Context) -> f64 {
        let (method, inner) = chosen(config);
        let Ok(laid) = Laid::of(problem) else { return f64::INFINITY };
        laid.copies.estimate_us(context) + method.estimate_us(&laid.problem, inner, context)
    }

    fn prepare(&self, problem: &PoolProblem, config: Config, context: &Context) -> Result<Box<dyn Launch>, Error> {
        let (method, inner) = chosen(config);
        let laid = Laid::of(problem).map_err(|refusal| refusal.into_error(self.name(), problem))?;
        laid.copies.launch(method.prepare(&laid.problem, inner, context)?, context)
    }
}

/// A config of a method as it is named here.
fn named(names: &[(&'static str, &'static str)], config: Config) -> Option<Config> {
    names.iter().find(|(symbol, _)| *symbol == config.0).map(|(_, name)| Config(name))
}

/// What a config stands for.
fn chosen(config: Config) -> (&'static dyn Algorithm<PoolProblem>, Config) {
    METHODS
        .iter()
        .find_map(|(method, names)| {
            let found = names.iter().find(|(_, name)| *name == config.0);
            found.map(|(symbol, _)| (*method, Config(symbol)))
        })
        .expect("configs come from the lists of names")
}

/// A problem with channels-last copies in the places of its operands.
struct Laid {
    problem: PoolProblem,
    copies: Copies,
}

impl Laid {
    fn of(problem: &PoolProblem) -> Result<Self, Refusal> {
        let shape = Shape::of(problem)?;
        let operands = [*problem.x(), *problem.y(), *shape.dx];
        let mut laid_out = operands;
        for desc in &mut laid_out {
            if desc.dims()[1] > 1 && desc.strides()[1] != 1 {
                *desc = TensorDesc::channels_last(desc.dtype(), desc.dims()).map_err(Refusal::from)?;
            }
        }
        let copies = Copies::new(operands, laid_out)?;
        let [x, dy, dx] = &laid_out;
        let axes = &shape.axes[5 - dx.rank()..];
        let column = |value: fn(&WindowAxis) -> i64| axes.iter().map(value).collect::<Vec<_>>();
        let desc = PoolDesc::new(problem.mode(), &column(|axis| axis.window.into())).nan(problem.nan());
        let desc = desc.stride(&column(|axis| axis.stride.divisor.into())).padding(&column(|axis| axis.padding.into()));
        let desc = desc.padding_end(&column(|axis| (axis.padded - axis.image).into()));
        let inner = PoolProblem::backward(&desc, x, dy, dx);
        let problem = inner.or_else(|_| PoolProblem::backward(&desc.ceil(), x, dy, dx)).map_err(Refusal::from)?;
        Ok(Laid { problem, copies })
    }
}
