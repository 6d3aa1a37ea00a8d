//! Kernels that are made for one operation each, for tensors without gaps that are alike in memory: 16 bytes an access.

use super::form::{Form, Function};
use super::{AsPointwise, PointwiseProblem};
use crate::launch::{BEYOND_CACHE_BYTES, KernelLaunch, LaunchConfig};
use crate::plan::{Call, Launch};
use crate::select::{Algorithm, Config, Refusal, check_gpu, check_hopper};
use crate::{Context, DType, Error, Stream};
use kernel_abi::division::Divisor;
use kernel_abi::ops::activation::ActivationMode;
use kernel_abi::ops::pointwise::{PointwisePass, PointwiseSpecializedParams};

/// A kernel, with what it is called in each [`Shape`].
struct Row {
    symbol: &'static str,
    names: [&'static str; 4],
    function: Function,
    input: DType,
    output: DType,
}

impl Row {
    /// The kernel that a context's device has besides.
    fn early_on(&self, context: &Context) -> Option<&'static str> {
        let early = EARLY.iter().find(|early| early.strip_suffix("_sm90") == Some(self.symbol));
        early.copied().filter(|_| check_hopper(context).is_ok())
    }
}

macro_rules! row {
    ($symbol:ident, $function:expr, $input:ident, $output:ident) => {
        Row {
            symbol: stringify!($symbol),
            names: [
                stringify!($symbol),
                concat!(stringify!($symbol), "+two"),
                concat!(stringify!($symbol), "+wide"),
                concat!(stringify!($symbol), "+kept"),
            ],
            function: $function,
            input: kernel_abi::dtype_of!($input),
            output: kernel_abi::dtype_of!($output),
        }
    };
}

macro_rules! pass_rows {
    ($(($symbol:ident, $pass:ident, $a:ident, $c:ident, $number:ident)),* $(,)?) => {
        &[$(row!($symbol, Function::Pass(PointwisePass::$pass), $a, $c)),*]
    };
}

macro_rules! activate_rows {
    ($(($symbol:ident, $mode:ident, $t:ident, $number:ident)),* $(,)?) => {
        &[$(row!($symbol, Function::Activation(ActivationMode::$mode), $t, $t)),*]
    };
}

macro_rules! slope_rows {
    ($(($symbol:ident, $mode:ident, $t:ident, $number:ident)),* $(,)?) => {
        &[$(row!($symbol, Function::Slope(ActivationMode::$mode), $t, $t)),*]
    };
}

macro_rules! biased_rows {
    ($(($symbol:ident, $mode:ident, $t:ident, $number:ident)),* $(,)?) => {
        &[$(row!($symbol, Function::Biased(ActivationMode::$mode), $t, $t)),*]
    };
}

const KERNELS: [&[Row]; 5] = [
    kernel_abi::pointwise_unary_kernels!(pass_rows),
    kernel_abi::pointwise_binary_kernels!(pass_rows),
    kernel_abi::pointwise_activate_kernels!(activate_rows),
    kernel_abi::pointwise_slope_kernels!(slope_rows),
    kernel_abi::pointwise_biased_kernels!(biased_rows),
];

macro_rules! early_names {
    ($(($symbol:ident, $($column:ident),*)),* $(,)?) => {
        &[$(stringify!($symbol)),*]
    };
}

/// The kernels that Hopper has besides.
const EARLY: &[&str] = kernel_abi::pointwise_early_kernels!(early_names);

/// Bytes of the widest access.
const CHUNK: i64 = 16;
/// Threads of a block. With 128, so many blocks start early beside the last ones of the kernel before that large tensors
/// took longer on an H200.
const BLOCK: u32 = 256;
/// The same where threads read two inputs: two such blocks leave a multiprocessor a quarter of its threads, and so less
/// under way, with which the memory is 1 to 2 % faster (`oxidnn compare memory_pointwise` on an H200 at febef7e); with one
/// input it is slower.
const WIDE_BLOCK: u32 = 768;
/// The same where a kernel begins while the one before it ends, and the second-level cache is asked to give up what is read last
/// of all, which makes the memory up to 1.4 % faster with tensors that it does not hold (`oxidnn compare memory_activation`,
/// `memory_pointwise`, H200 at f280d33; blocks of 256 and 512 threads gained less in kernels of CUDA C), and small ones 0.3 to
/// 0.4 µs slower.
const KEPT_BLOCK: u32 = 384;
/// What the memory gives, of its rate.
const MEMORY_SHARE: f64 = 0.85;
/// The most items, so that the number of an item behind the last block has 32 bits.
const MOST_ITEMS: i64 = u32::MAX as i64 - WIDE_BLOCK as i64;
/// Items up to which threads may have two accesses: with 25 MB and more they are 1 to 3 % slower (H200).
const TWO_ITEMS: i64 = 1 << 19;
/// Items from which there are wide blocks: enough for several on each multiprocessor.
const WIDE_ITEMS: i64 = 1 << 20;

/// How blocks share items out.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Shape {
    /// One access of each operand in a thread.
    Usual,
    /// Two of them.
    Two,
    /// One, in wide blocks.
    Wide,
    /// One, inputs being kept in the cache for longer.
    Kept,
}

impl Shape {
    const ALL: [Shape; 4] = [Shape::Usual, Shape::Two, Shape::Wide, Shape::Kept];

    fn of(config: Config) -> Self {
        match config.0.rsplit_once('+') {
            Some((_, "two")) => Shape::Two,
            Some((_, "wide")) => Shape::Wide,
            Some((_, "kept")) => Shape::Kept,
            _ => Shape::Usual,
        }
    }

    /// Threads of a block.
    fn threads(self) -> u32 {
        match self {
            Shape::Wide => WIDE_BLOCK,
            Shape::Kept => KEPT_BLOCK,
            Shape::Usual | Shape::Two => BLOCK,
        }
    }

    /// Items of a block.
    fn items(self) -> u32 {
        if self == Shape::Two { 2 * BLOCK } else { self.threads() }
    }

    /// What it gives of what the memory gives.
    fn share(self, kernel: &Kernel, problem: &PointwiseProblem) -> f64 {
        match self {
            Shape::Usual if Shape::Wide.fits(kernel, problem) => 0.99,
            Shape::Usual | Shape::Wide => 1.0,
            Shape::Kept if kernel.pieces(problem) * CHUNK >= BEYOND_CACHE_BYTES => 1.02,
            Shape::Kept => 0.9,
            // Longer blocks end less evenly.
            Shape::Two => 0.95,
        }
    }

    /// Whether it is tried.
    fn fits(self, kernel: &Kernel, problem: &PointwiseProblem) -> bool {
        let pieces = kernel.pieces(problem);
        let narrows = kernel.row.output.size_bytes() < kernel.row.input.size_bytes();
        match self {
            Shape::Usual => true,
            Shape::Two => pieces >= 2 * i64::from(BLOCK) && (pieces <= TWO_ITEMS || narrows),
            Shape::Wide => pieces >= WIDE_ITEMS && whole_inputs(problem) > 1,
            Shape::Kept => pieces >= 2 * i64::from(KEPT_BLOCK),
        }
    }

    /// Those that are tried on a device.
    fn tried(kernel: &Kernel, problem: &PointwiseProblem, context: &Context) -> impl Iterator<Item = Shape> {
        let is_early = kernel.row.early_on(context).is_some();
        let tried = move |shape: &Shape| (*shape != Shape::Kept || is_early) && shape.fits(kernel, problem);
        Shape::ALL.into_iter().filter(tried)
    }
}

/// One access of each operand in a thread, or two, in blocks of 256, 384 or 768 threads.
///
/// A run with addresses that accesses cannot begin at goes an element a thread, by the same kernel.
pub(in crate::ops) struct Specialized;

impl<P: AsPointwise> Algorithm<P> for Specialized {
    fn name(&self) -> &'static str {
        "specialized"
    }

    fn configs(&self, problem: &P, context: &Context) -> Result<Vec<Config>, Refusal> {
        check_gpu(context)?;
        let problem = problem.as_pointwise().map_err(|error| Refusal::new(error.to_string()))?;
        let kernel = Kernel::new(&problem)?;
        let tried = Shape::tried(&kernel, &problem, context);
        Ok(tried.map(|shape| Config(kernel.row.names[shape as usize])).collect())
    }

    fn workspace_bytes(&self, _: &P, _: Config) -> u64 {
        0
    }

    /// Bound by memory.
    fn estimate_us(&self, problem: &P, config: Config, context: &Context) -> f64 {
        let share = problem
            .as_pointwise()
            .ok()
            .and_then(|problem| Some(Shape::of(config).share(&Kernel::new(&problem).ok()?, &problem)))
            .unwrap_or(1.0);
        crate::select::cost::LAUNCH_US + problem.bytes() / (share * MEMORY_SHARE * context.info().bytes_per_us)
    }

    fn prepare(&self, problem: &P, config: Config, context: &Context) -> Result<Box<dyn Launch>, Error> {
        let problem = problem.as_pointwise()?;
        let name = Algorithm::<P>::name(self);
        let kernel = Kernel::new(&problem).map_err(|refusal| refusal.into_error(name, &problem))?;
        let shape = Shape::of(config);
        // What begins early costs 0.3 µs in a graph: the others do without.
        let early = kernel.row.early_on(context).filter(|_| shape == Shape::Kept);
        let function = context.function(early.unwrap_or(kernel.row.symbol))?;
        let launch = |aligned: bool| {
            let params = kernel.params(&problem, aligned, shape);
            KernelLaunch {
                function: function.clone(),
                config: LaunchConfig {
                    grid: [(params.pieces + params.singles).div_ceil(params.block_items), 1, 1],
                    block: [shape.threads(), 1, 1],
                    ..LaunchConfig::default()
                },
                params,
                bind: |params, call| {
                    let last = call.operands.len() - 1;
                    (params.alpha, params.beta) = (call.alpha as f32, call.beta as f32);
                    params.plain &= u32::from(params.alpha == 1.0 && params.beta == 0.0);
                    let input = |i: usize| if i < last { call.address(i) } else { 0 };
                    [params.a, params.b, params.t] = [input(0), input(1), input(2)];
                    params.c = call.address(last);
                },
            }
        };
        Ok(Box::new(Specializing { whole: launch(true), singles: launch(false), aligns: kernel.aligns(&problem) }))
    }
}

/// Inputs that are not repeated.
fn whole_inputs(problem: &PointwiseProblem) -> usize {
    problem.inputs().iter().filter(|desc| desc.n_elems() == problem.c().n_elems()).count()
}

/// A launch that is complete but for addresses and scalars: with accesses of many elements, and of single ones.
struct Specializing {
    whole: KernelLaunch<PointwiseSpecializedParams>,
    singles: KernelLaunch<PointwiseSpecializedParams>,
    /// What the addresses must be multiples of for the first.
    aligns: Vec<u64>,
}

impl Launch for Specializing {
    fn launch(&self, stream: &Stream, call: &mut Call<'_>) -> Result<(), Error> {
        let aligned = self.aligns.iter().enumerate().all(|(i, &align)| call.address(i).is_multiple_of(align));
        if aligned { self.whole.launch(stream, call) } else { self.singles.launch(stream, call) }
    }
}

/// The kernel for a problem, and what the problem is to it.
struct Kernel {
    row: &'static Row,
    form: Form,
}

impl Kernel {
    fn new(problem: &PointwiseProblem) -> Result<Self, Refusal> {
        let form = Form::new(problem)?;
        let (input, output) = (problem.inputs()[0].dtype(), problem.c().dtype());
        if let Some(other) = problem.inputs().iter().find(|desc| desc.dtype() != input) {
            return Err(Refusal::new(format!("reads inputs of one type, given {input} and {}", other.dtype())));
        }
        let fits = |row: &&Row| row.function == form.function && row.input == input && row.output == output;
        let row = KERNELS.iter().flat_map(|rows| rows.iter()).find(fits).ok_or_else(|| {
            Refusal::new(format!("has no kernel for {:?} that reads {input} and writes {output}", form.function))
        })?;
        let kernel = Kernel { row, form };
        let n_elems = problem.c().n_elems();
        if n_elems > MOST_ITEMS {
            return Err(Refusal::new(format!("counts to {MOST_ITEMS}, c has {n_elems} elements")));
        }
        if let Some(repeated) = kernel.form.repeated {
            let width = kernel.width();
            if n_elems > i64::from(i32::MAX) {
                return Err(Refusal::new(format!("counts repetitions to 2^31 - 1, c has {n_elems} elements")));
            }
            let run = if repeated.period == 1 { repeated.places } else { repeated.period };
            if run % width != 0 {
                return Err(Refusal::new(format!(
                    "takes {width} elements at a time, b is repeated after, or for, {run}"
                )));
            }
        }
        Ok(kernel)
    }

    /// Elements of an access.
    fn width(&self) -> i64 {
        CHUNK / self.row.input.size_bytes().max(self.row.output.size_bytes()) as i64
    }

    fn pieces(&self, problem: &PointwiseProblem) -> i64 {
        problem.c().n_elems() / self.width()
    }

    /// Bytes of an access of every operand, which its address must be a multiple of.
    fn aligns(&self, problem: &PointwiseProblem) -> Vec<u64> {
        let bytes = |dtype: DType| (self.width() * dtype.size_bytes() as i64) as u64;
        problem.inputs().iter().chain([problem.c()]).map(|desc| bytes(desc.dtype())).collect()
    }

    fn params(&self, problem: &PointwiseProblem, aligned: bool, shape: Shape) -> PointwiseSpecializedParams {
        let n_elems = problem.c().n_elems();
        let width = if aligned { self.width() } else { 1 };
        let pieces = if aligned { n_elems / width } else { 0 };
        // A repeated b in items: along it a place has as many elements as an item, else one for all of them.
        let (period, places, place_runs) = match self.form.repeated {
            Some(repeated) if repeated.period == 1 => (1, repeated.places / width, 1),
            Some(repeated) => (repeated.period / width, repeated.places, 0),
            None => (1, 1, 0),
        };
        PointwiseSpecializedParams {
            a: 0,
            b: 0,
            t: 0,
            c: 0,
            alpha: 1.0,
            beta: 0.0,
            factor_a: self.form.factors[0] as f32,
            factor_b: self.form.factors[1] as f32,
            parameters: self.form.parameters.map(|parameter| parameter as f32),
            pieces: pieces as u32,
            singles: (n_elems - pieces * if aligned { width } else { 1 }) as u32,
            block_items: shape.items(),
            period: Divisor::new(period as u32),
            places: Divisor::new(places as u32),
            place_runs,
            plain: u32::from(self.form.is_plain()),
            keep: u32::from(shape == Shape::Kept),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The shapes that are tried for a problem, and of those the one that is estimated to be the fastest.
    fn shapes(text: &str) -> (Vec<Shape>, Shape) {
        let problem: PointwiseProblem = text.parse().unwrap();
        let kernel = Kernel::new(&problem).unwrap();
        let tried = Shape::ALL.into_iter().filter(|&shape| shape != Shape::Kept && shape.fits(&kernel, &problem));
        let tried: Vec<Shape> = tried.collect();
        let share = |shape: &Shape| shape.share(&kernel, &problem);
        let best = tried.iter().copied().max_by(|a, b| share(a).total_cmp(&share(b))).unwrap();
        (tried, best)
    }

    #[test]
    fn large_sums_have_wide_blocks() {
        use Shape::{Two, Usual, Wide};
        let adding = |n: u32| shapes(&format!("pointwise:add a={n}:bf16 b={n}:bf16 c={n}:bf16"));
        assert_eq!(adding(256), (vec![Usual], Usual));
        assert_eq!(adding(1 << 20).0, [Usual, Two]);
        assert_eq!(adding(1 << 25), (vec![Usual, Wide], Wide));
        // One input is read with all threads, and a bias of few elements is none of the large ones.
        assert_eq!(shapes("pointwise:exp a=33554432:bf16 c=33554432:bf16"), (vec![Usual], Usual));
        let biased = "pointwise:chain steps=add:_:b,relu:_ a=64x524288:bf16 b=1x524288:bf16 c=64x524288:bf16";
        assert_eq!(shapes(biased).0, [Usual]);
    }

    #[test]
    fn names_say_the_shape() {
        for (i, shape) in Shape::ALL.into_iter().enumerate() {
            for row in KERNELS.iter().flat_map(|rows| rows.iter()) {
                assert!(Shape::of(Config(row.names[i])) == shape && row.names[i].starts_with(row.symbol));
            }
        }
    }
}
