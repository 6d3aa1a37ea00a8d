//! Padding at the speed of memory: rows that are contiguous in both tensors, 16 bytes of y a thread.

use super::{PadMode, PadPass, PadProblem, naive};
use crate::launch::{ACCESS_BYTES, KernelLaunch, LaunchConfig};
use crate::plan::{Call, Launch};
use crate::select::{Algorithm, Config, Refusal};
use crate::tensor::scatter;
use crate::{Context, DType, Error, Problem, Stream, TensorDesc};
use kernel_abi::division::Divisor;
use kernel_abi::ops::pad::{PadAxis, PadParams, PadRowsParams, ROW_LEVELS};

const BLOCK: u32 = 256;
/// Share of the memory's rate.
const MEMORY_SHARE: f64 = 0.8;

/// Symbol, bytes of an element.
type Row = (&'static str, usize);

macro_rules! rows {
    ($(($symbol:ident, $bytes:literal)),* $(,)?) => { &[$((stringify!($symbol), $bytes)),*] };
}
const KERNELS: &[Row] = kernel_abi::pad_row_kernels!(rows);

/// All modes and any element type forward; backward `constant` without steps, whose gradient is a window of dy.
///
/// A run with other scalars than alpha 1 and beta 0 takes the naive kernel.
pub(super) struct Rows;

impl Algorithm<PadProblem> for Rows {
    fn name(&self) -> &'static str {
        "rows"
    }

    fn configs(&self, problem: &PadProblem, context: &Context) -> Result<Vec<Config>, Refusal> {
        if !context.is_gpu() {
            return Err(Refusal::new(format!("runs on a GPU, the device is {}", context.info().name)));
        }
        params(problem)?;
        let bytes = problem.x().dtype().size_bytes();
        let row = KERNELS.iter().find(|row| row.1 == bytes);
        row.map(|row| vec![Config(row.0)]).ok_or_else(|| Refusal::new(format!("has no kernel for {bytes} bytes")))
    }

    fn workspace_bytes(&self, _: &PadProblem, _: Config) -> u64 {
        0
    }

    fn estimate_us(&self, problem: &PadProblem, _: Config, context: &Context) -> f64 {
        crate::select::cost::LAUNCH_US + problem.bytes() / (MEMORY_SHARE * context.info().bytes_per_us)
    }

    fn prepare(&self, problem: &PadProblem, config: Config, context: &Context) -> Result<Box<dyn Launch>, Error> {
        let params = params(problem).map_err(|Refusal(reason)| Error::Unsupported {
            problem: problem.to_string(),
            reasons: vec![(self.name().to_owned(), reason)],
        })?;
        let fast = KernelLaunch {
            function: context.function(config.0)?,
            config: LaunchConfig {
                grid: [params.n_accesses.div_ceil(BLOCK), 1, 1],
                block: [BLOCK, 1, 1],
                ..LaunchConfig::default()
            },
            params,
            bind: |params, call| (params.x, params.y) = (call.address(0), call.address(1)),
        };
        Ok(Box::new(RowsLaunch { fast, general: naive::launch(problem, context)? }))
    }
}

struct RowsLaunch {
    fast: KernelLaunch<PadRowsParams>,
    general: KernelLaunch<PadParams>,
}

impl Launch for RowsLaunch {
    fn launch(&self, stream: &Stream, call: &mut Call<'_>) -> Result<(), Error> {
        if call.alpha == 1.0 && call.beta == 0.0 {
            self.fast.launch(stream, call)
        } else {
            self.general.launch(stream, call)
        }
    }
}

/// A dimension: its padding, and the elements between neighbours of what is read and of what is written.
#[derive(Clone, Copy)]
struct Level {
    axis: PadAxis,
    from: i64,
    to: i64,
}

impl Level {
    const NONE: Level = Level { axis: PadAxis::NONE, from: 0, to: 0 };

    fn is_whole(&self) -> bool {
        let PadAxis { x, y, before, step } = self.axis;
        x == y && before == 0 && step == 1
    }

    /// The dimension that this one and the next inner one are together, where there is one.
    fn joined(&self, inner: &Level, mode: PadMode) -> Option<Level> {
        let extent = inner.axis.x;
        let neighbours = self.from == inner.from * extent && self.to == inner.to * extent;
        // A padding by whole rows is one by their elements.
        let plain = self.is_whole() || (mode == PadMode::Constant && self.axis.step == 1);
        let PadAxis { x, y, before, step } = self.axis;
        let axis = PadAxis { x: x * extent, y: y * extent, before: before.checked_mul(extent)?, step };
        (inner.is_whole() && neighbours && plain).then_some(Level { axis, ..*inner })
    }
}

/// The dimensions of the pass as one that reads and writes, outermost first as what is written lies.
fn levels(problem: &PadProblem) -> Result<Vec<Level>, Refusal> {
    let (x, y) = (problem.x(), problem.y());
    let backward = problem.pad_pass() == PadPass::Backward;
    if backward && problem.mode() != PadMode::Constant {
        return Err(Refusal::new(format!("computes backward of constant, the mode is {}", problem.mode())));
    }
    let (from, to) = if backward { (y, x) } else { (x, y) };
    let mut levels = Vec::new();
    for (i, axis) in problem.axes().enumerate() {
        if backward && axis.step != 1 {
            return Err(Refusal::new(format!("computes backward of steps of 1, dimension {i} has {}", axis.step)));
        }
        let axis = if backward { PadAxis { x: axis.y, y: axis.x, before: -axis.before, step: 1 } } else { axis };
        if axis != PadAxis::NONE {
            levels.push(Level { axis, from: from.strides()[i], to: to.strides()[i] });
        }
    }
    levels.sort_by_key(|level| std::cmp::Reverse(level.to));
    let mut joined: Vec<Level> = Vec::new();
    for level in levels {
        match joined.last().and_then(|outer| outer.joined(&level, problem.mode())) {
            Some(both) => *joined.last_mut().expect("it is the one that was joined") = both,
            None => joined.push(level),
        }
    }
    Ok(joined)
}

/// The launch parameters but for addresses.
fn params(problem: &PadProblem) -> Result<PadRowsParams, Refusal> {
    let mut around = levels(problem)?;
    let row = around.pop().unwrap_or(Level { from: 1, to: 1, ..Level::NONE });
    let contiguous = |extent: i64, stride: i64| extent == 1 || stride == 1;
    if row.axis.step != 1 || !contiguous(row.axis.x, row.from) || !contiguous(row.axis.y, row.to) {
        return Err(Refusal::new(format!(
            "takes rows that are contiguous in both tensors, they go in steps of {}, {} apart where they are read and {} \
             where they are written",
            row.axis.step, row.from, row.to
        )));
    }
    if around.len() > ROW_LEVELS {
        return Err(Refusal::new(format!(
            "goes through up to {ROW_LEVELS} dimensions around the rows, there are {}",
            around.len()
        )));
    }
    let dtype = problem.x().dtype();
    let item = dtype.size_bytes() as i64;
    let elems = ACCESS_BYTES as i64 / item;
    // One more for a row that does not begin at 16 bytes.
    let accesses = (row.axis.y + elems - 1) / elems + 1;
    let n_rows: i64 = around.iter().map(|level| level.axis.y).product();
    let n_accesses = n_rows.saturating_mul(accesses);
    if n_accesses > i64::from(i32::MAX) {
        return Err(Refusal::new(format!("makes up to 2^31 - 1 accesses, given {n_accesses}")));
    }
    // The innermost first.
    around.reverse();
    around.resize(ROW_LEVELS, Level::NONE);
    let level = |i: usize| around[i];
    Ok(PadRowsParams {
        value: repeated(problem.value(), dtype, problem.computing()),
        x: 0,
        y: 0,
        x_strides: std::array::from_fn(|i| level(i).from * item),
        y_strides: std::array::from_fn(|i| level(i).to * item),
        axes: std::array::from_fn(|i| level(i).axis),
        row: row.axis,
        extents: std::array::from_fn(|i| Divisor::new(level(i).axis.y as u32)),
        accesses: Divisor::new(accesses as u32),
        n_accesses: n_accesses as u32,
        mode: problem.mode() as u32,
    })
}

/// A value as it is stored, as often as it fits 8 bytes.
fn repeated(value: f64, dtype: DType, computing: DType) -> u64 {
    let desc = TensorDesc::packed(dtype, &[8 / dtype.size_bytes() as i64]).expect("8 bytes are legal");
    // As the other algorithms have it, through the type that they compute in.
    let value = if computing == DType::F32 { f64::from(value as f32) } else { value };
    let mut storage = [0u64];
    scatter(&desc, &vec![value; desc.n_elems() as usize], bytemuck::cast_slice_mut(&mut storage));
    storage[0]
}
