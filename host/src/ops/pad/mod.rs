//! Padding, cropping and slicing: formulas in [`kernel_abi::ops::pad`].

mod algorithms;
mod cpu;
mod gradient;
mod naive;
mod packed;
mod packed_gradient;
mod rows;

pub use kernel_abi::ops::pad::{PadMode, PadPass, PadProblem};

use crate::launch::{ACCESS_BYTES, LaunchConfig, div_ceil};
use crate::plan::{Call, Launch};
use crate::select::{Config, Refusal, check_gpu};
use crate::tensor::scatter;
use crate::{Context, DType, Error, Stream, TensorDesc};
use kernel_abi::ops::pad::{PIECES_AT_ONCE, PIECES_THREADS, PadAxis, PadLine, ROW_LEVELS};

/// A dimension: its padding, and the elements between neighbours of x and of y.
#[derive(Clone, Copy)]
struct Level {
    axis: PadAxis,
    x: i64,
    y: i64,
}

impl Level {
    const NONE: Level = Level { axis: PadAxis::NONE, x: 0, y: 0 };

    fn is_whole(&self) -> bool {
        let PadAxis { x, y, before, step } = self.axis;
        x == y && before == 0 && step == 1
    }

    /// The dimension that this one and the next inner one are together, where there is one.
    fn joined(&self, inner: &Level, mode: PadMode) -> Option<Level> {
        let extent = inner.axis.x;
        let neighbours = self.x == inner.x * extent && self.y == inner.y * extent;
        // A padding by whole rows is one by their elements.
        let plain = self.is_whole() || (mode == PadMode::Constant && self.axis.step == 1);
        let PadAxis { x, y, before, step } = self.axis;
        let axis = PadAxis { x: x * extent, y: y * extent, before: before.checked_mul(extent)?, step };
        (inner.is_whole() && neighbours && plain).then_some(Level { axis, ..*inner })
    }
}

/// How a padding goes through rows that are contiguous in both tensors.
struct Geometry {
    /// Dimensions around the rows, the innermost first; up to [`ROW_LEVELS`].
    around: Vec<Level>,
    row: Level,
}

impl Geometry {
    /// Whether pieces of 16 bytes of y are pieces of x too.
    fn lies_alike(&self, problem: &PadProblem) -> bool {
        let elems = ACCESS_BYTES as i64 / problem.x().dtype().size_bytes() as i64;
        let row_begins = self.around.iter().all(|level| level.x % elems == 0 && level.y % elems == 0);
        row_begins && self.row.axis.before % elems == 0
    }

    /// The padding that a problem is: forward, and backward in `constant`, where dx is a window of dy and dy stands for x.
    fn forward(problem: &PadProblem) -> Result<Self, Refusal> {
        let (x, y) = (problem.x(), problem.y());
        if problem.pad_pass() == PadPass::Forward {
            return Self::new(problem.axes().collect(), problem.mode(), [x, y], |level| level.y);
        }
        if problem.mode() != PadMode::Constant {
            return Err(Refusal::new(format!("computes backward of constant, the mode is {}", problem.mode())));
        }
        steps_of_1(problem)?;
        let window = |axis: PadAxis| PadAxis { x: axis.y, y: axis.x, before: -axis.before, step: 1 };
        Self::new(problem.axes().map(window).collect(), problem.mode(), [y, x], |level| level.y)
    }

    /// The dimensions of a gradient as they are.
    fn backward(problem: &PadProblem) -> Result<Self, Refusal> {
        steps_of_1(problem)?;
        Self::new(problem.axes().collect(), problem.mode(), [problem.x(), problem.y()], |level| level.x)
    }

    /// Dimensions in the order in which what is written lies.
    fn new(
        axes: Vec<PadAxis>,
        mode: PadMode,
        [x, y]: [&TensorDesc; 2],
        written: fn(&Level) -> i64,
    ) -> Result<Self, Refusal> {
        let levels = axes.into_iter().zip(x.strides().iter().zip(y.strides()));
        let levels = levels.map(|(axis, (&x, &y))| Level { axis, x, y });
        let mut levels: Vec<Level> = levels.filter(|level| level.axis != PadAxis::NONE).collect();
        levels.sort_by_key(|level| std::cmp::Reverse(written(level)));
        let mut joined: Vec<Level> = Vec::new();
        for level in levels {
            match joined.last().and_then(|outer| outer.joined(&level, mode)) {
                Some(both) => *joined.last_mut().expect("it is the one that was joined") = both,
                None => joined.push(level),
            }
        }
        let row = joined.pop().unwrap_or(Level { x: 1, y: 1, ..Level::NONE });
        let contiguous = |extent: i64, stride: i64| extent == 1 || stride == 1;
        if row.axis.step != 1 || !contiguous(row.axis.x, row.x) || !contiguous(row.axis.y, row.y) {
            return Err(Refusal::new(format!(
                "takes rows that are contiguous in both tensors, they go in steps of {}, {} apart where they are padded \
                 from and {} where they are padded to",
                row.axis.step, row.x, row.y
            )));
        }
        if joined.len() > ROW_LEVELS {
            return Err(Refusal::new(format!(
                "goes through up to {ROW_LEVELS} dimensions around the rows, there are {}",
                joined.len()
            )));
        }
        joined.reverse();
        Ok(Geometry { around: joined, row })
    }

    /// Dimension `i` around the rows.
    fn level(&self, i: usize) -> Level {
        self.around.get(i).copied().unwrap_or(Level::NONE)
    }

    /// The dimensions around the rows, and these, as kernels go through them.
    fn lines(&self, mode: PadMode) -> Result<([PadLine; ROW_LEVELS], PadLine), Refusal> {
        let line = |axis: &PadAxis| {
            let reason = || format!("counts positions to 2^29, given {axis:?}");
            PadLine::new(axis, mode).ok_or_else(|| Refusal::new(reason()))
        };
        let mut lines = [PadLine::NONE; ROW_LEVELS];
        for (to, level) in lines.iter_mut().zip(&self.around) {
            *to = line(&level.axis)?;
        }
        Ok((lines, line(&self.row.axis)?))
    }
}

fn steps_of_1(problem: &PadProblem) -> Result<(), Refusal> {
    match problem.axes().enumerate().find(|(_, axis)| axis.step != 1) {
        Some((i, axis)) => {
            Err(Refusal::new(format!("computes backward of steps of 1, dimension {i} has {}", axis.step)))
        }
        None => Ok(()),
    }
}

/// A row of the lists of kernels that move elements as bytes: symbol, bytes of an element.
type CopyRow = (&'static str, usize);

macro_rules! copy_rows {
    ($(($symbol:ident, $bytes:literal)),* $(,)?) => { &[$((stringify!($symbol), $bytes)),*] };
}
use copy_rows;

/// The config of such a kernel for a problem's elements, where `judged` finds that it is able.
fn copying_kernel(
    rows: &[CopyRow],
    problem: &PadProblem,
    context: &Context,
    judged: impl FnOnce() -> Result<(), Refusal>,
) -> Result<Vec<Config>, Refusal> {
    check_gpu(context)?;
    judged()?;
    let bytes = problem.x().dtype().size_bytes();
    let row = rows.iter().find(|row| row.1 == bytes);
    row.map(|row| vec![Config(row.0)]).ok_or_else(|| Refusal::new(format!("has no kernel for {bytes} bytes")))
}

/// A launch for runs with alpha 1 and beta 0, and one for others, most often the naive one.
struct CopyOrNaive<T> {
    fast: T,
    general: Box<dyn Launch>,
}

impl<T: Launch> Launch for CopyOrNaive<T> {
    fn launch(&self, stream: &Stream, call: &mut Call<'_>) -> Result<(), Error> {
        if call.alpha == 1.0 && call.beta == 0.0 {
            self.fast.launch(stream, call)
        } else {
            self.general.launch(stream, call)
        }
    }
}

/// A launch for what is written from a multiple of 16 bytes on, and one for any address.
struct ByAddress<T> {
    aligned: T,
    any: T,
}

impl<T: Launch> Launch for ByAddress<T> {
    fn launch(&self, stream: &Stream, call: &mut Call<'_>) -> Result<(), Error> {
        let launch = if call.address(1).is_multiple_of(ACCESS_BYTES) { &self.aligned } else { &self.any };
        launch.launch(stream, call)
    }
}

/// Pieces of 16 bytes to a row of elements that begins at a multiple of 16 bytes where `aligned`, or anywhere.
fn pieces(extent: i64, elems: i64, aligned: bool) -> i64 {
    div_ceil(extent, elems) + i64::from(!aligned)
}

/// How many of the pieces a thread has, and the grid: several at once, unless multiprocessors would be left without.
fn pieces_grid(n_pieces: u32, context: &Context) -> (u32, LaunchConfig) {
    let fill = 2 * context.info().n_units as u64 * u64::from(PIECES_THREADS * PIECES_AT_ONCE);
    let at_once = if u64::from(n_pieces) >= fill { PIECES_AT_ONCE } else { 1 };
    let grid = [n_pieces.div_ceil(PIECES_THREADS * at_once).max(1), 1, 1];
    (at_once, LaunchConfig { grid, block: [PIECES_THREADS, 1, 1], ..LaunchConfig::default() })
}

/// The value outside as it is stored, as often as it fits 8 bytes.
fn repeated(problem: &PadProblem) -> u64 {
    let (value, dtype) = (problem.filling(), problem.x().dtype());
    let desc = TensorDesc::packed(dtype, &[8 / dtype.size_bytes() as i64]).expect("8 bytes are legal");
    // As the other algorithms have it, through the type that they compute in.
    let value = if problem.computing() == DType::F32 { f64::from(value as f32) } else { value };
    let mut storage = [0u64];
    scatter(&desc, &vec![value; desc.n_elems() as usize], bytemuck::cast_slice_mut(&mut storage));
    storage[0]
}
