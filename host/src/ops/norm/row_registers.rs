//! Rows that lie contiguous, held in registers: one kernel forward; backward one, and one that adds up the gradients of
//! parameters.

use super::{NormPass, NormProblem, naive};
use crate::driver::Function;
use crate::launch::{KernelLaunch, LaunchConfig};
use crate::ops::norm::naive::{place, place_address, run};
use crate::plan::{Call, Launch};
use crate::select::cost::LAUNCH_US;
use crate::select::{Algorithm, Config, Refusal, check_gpu};
use crate::{Context, DType, Error, Problem, Stream, TensorDesc};
use kernel_abi::desc::collapse_dims;
use kernel_abi::division::Divisor;
use kernel_abi::ops::activation::ActivationMode;
use kernel_abi::ops::norm::row_registers::{
    NormColumnSumsParams, NormRowsParams, SHARED_BLOCK, SHORT_ROWS, SUM_COLUMNS, SUM_ROWS,
};

/// A kernel.
#[derive(Clone, Copy)]
struct Row {
    symbol: &'static str,
    pass: &'static str,
    dtype: DType,
    /// Threads of a row.
    threads: u32,
    /// Vectors that each of them holds.
    vectors: u32,
    /// Threads of a block.
    block: u32,
    /// Whether registers are left to so many blocks that memory never waits for sums.
    lean: bool,
}

macro_rules! rows {
    ($(($symbol:ident, $pass:ident, $dtype:ident, $threads:literal, $vectors:literal, $block:literal, $blocks:literal, $scarce:literal)),*
        $(,)?) => {
        &[$(Row {
            symbol: stringify!($symbol),
            pass: stringify!($pass),
            dtype: kernel_abi::dtype_of!($dtype),
            threads: $threads,
            vectors: $vectors,
            block: $block,
            lean: false,
        }),*]
    };
}

macro_rules! lean_rows {
    ($(($symbol:ident, $dtype:ident, $threads:literal, $vectors:literal, $blocks:literal)),* $(,)?) => {
        &[$(Row {
            symbol: stringify!($symbol),
            pass: "forward",
            dtype: kernel_abi::dtype_of!($dtype),
            threads: $threads,
            vectors: $vectors,
            block: $threads,
            lean: true,
        }),*]
    };
}

macro_rules! sum_rows {
    ($(($symbol:ident, $dtype:ident)),* $(,)?) => { &[$((stringify!($symbol), kernel_abi::dtype_of!($dtype))),*] };
}

const KERNELS: &[Row] = kernel_abi::norm_row_kernels!(rows);
const LEAN_KERNELS: &[Row] = kernel_abi::norm_lean_row_kernels!(lean_rows);
const SUM_KERNELS: &[(&str, DType)] = kernel_abi::norm_column_sums_kernels!(sum_rows);

/// Bytes of an access.
pub(super) const VECTOR_BYTES: i64 = 16;
/// Share of the memory's rate.
const MEMORY_SHARE: f64 = 0.85;
const LEAN_SHARE: f64 = 0.93;
/// What a thread takes for each of its vectors, which shows where rows are few, and what the warps of a row take to meet.
const VECTOR_US: f64 = 0.07;
const MEETING_US: f64 = 0.1;
const LANES: u32 = 32;
/// Threads of a multiprocessor that backward's blocks take, registers allowing.
const RESIDENT_THREADS: u32 = 512;
/// The same forward, of short rows.
const FORWARD_THREADS: u32 = 1024;

/// One read of each input, one write of each output.
pub(super) struct RowRegisters;

impl Algorithm<NormProblem> for RowRegisters {
    fn name(&self) -> &'static str {
        "row_registers"
    }

    fn configs(&self, problem: &NormProblem, context: &Context) -> Result<Vec<Config>, Refusal> {
        check_gpu(context)?;
        Geometry::of(problem)?;
        Ok(kernels(problem)?.iter().map(|row| Config(row.symbol)).collect())
    }

    fn workspace_bytes(&self, problem: &NormProblem, config: Config) -> u64 {
        // Addresses that are no multiples of 16 take the naive kernels.
        naive::Naive.workspace_bytes(problem, config)
    }

    fn workspace_bytes_on(&self, problem: &NormProblem, config: Config, context: &Context) -> u64 {
        let parts = find(config).map_or(0, |row| parts_bytes(problem, n_blocks(problem, row, context)));
        parts.max(self.workspace_bytes(problem, config))
    }

    fn estimate_us(&self, problem: &NormProblem, config: Config, context: &Context) -> f64 {
        let info = context.info();
        let parts = find(config).map_or(0, |row| parts_bytes(problem, n_blocks(problem, row, context)));
        let launches = if parts > 0 { 2.0 } else { 1.0 };
        let (vectors, warps) = find(config).map_or((1, 1), |row| (row.vectors, row.threads.div_ceil(LANES)));
        let alone = f64::from(vectors) * VECTOR_US + if warps > 1 { MEETING_US } else { 0.0 };
        // Warps of one vector each have the least under way for what they say to each other.
        let share = match find(config) {
            Some(row) if row.lean => LEAN_SHARE,
            _ if warps > 1 && vectors == 1 => 0.95 * MEMORY_SHARE,
            _ => MEMORY_SHARE,
        };
        launches * LAUNCH_US + alone + (problem.bytes() + 2.0 * parts as f64) / (share * info.bytes_per_us)
    }

    fn prepare(&self, problem: &NormProblem, config: Config, context: &Context) -> Result<Box<dyn Launch>, Error> {
        let launch_config = find(config).map(|row| {
            let grid = [n_blocks(problem, row, context), 1, 1];
            LaunchConfig { grid, block: [row.block, 1, 1], ..LaunchConfig::default() }
        });
        Ok(Box::new(RowsLaunch::new(self.name(), problem, config, launch_config, context)?))
    }
}

/// The kernels of the fewest threads that hold a row, and of the fewest vectors a thread; where parameters lie as columns do,
/// all lean ones that have threads for less than twice as much.
fn kernels(problem: &NormProblem) -> Result<Vec<Row>, Refusal> {
    let (dtype, elems) = (problem.x().dtype(), problem.count());
    let run = VECTOR_BYTES / dtype.size_bytes() as i64;
    let fitting = || KERNELS.iter().filter(|row| row.pass == problem.pass() && row.dtype == dtype);
    let holds = |row: &Row| i64::from(row.threads * row.vectors) * run;
    let holding = || fitting().filter(|row| holds(row) >= elems);
    let narrow = holding().min_by_key(|row| (row.threads, row.vectors));
    let shallow = holding().min_by_key(|row| (row.vectors, row.threads));
    let mut rows: Vec<Row> = [narrow, shallow].into_iter().flatten().copied().collect();
    rows.dedup_by_key(|row| row.symbol);
    let order = problem.sharing().packed_rows();
    if problem.norm_pass() == NormPass::Forward && order.run == 1 && order.period == 1 {
        let fits = |row: &&Row| row.dtype == dtype && holds(row) >= elems && holds(row) < 2 * elems;
        let lean: Vec<Row> = LEAN_KERNELS.iter().filter(fits).copied().collect();
        if !lean.is_empty() {
            // In more registers, they never take less.
            rows.retain(|row| row.vectors == 1);
            rows.extend(lean);
        }
    }
    if !rows.is_empty() {
        return Ok(rows);
    }
    let most = fitting().map(holds).max();
    Err(Refusal::new(match most {
        Some(most) => format!("holds rows of up to {most} elements of {dtype}, given {elems}"),
        None => format!("has no kernel for pass {} with {dtype}", problem.pass()),
    }))
}

fn find(config: Config) -> Option<Row> {
    KERNELS.iter().chain(LEAN_KERNELS).copied().find(|row| row.symbol == config.0)
}

/// Rows of a block at a time.
fn rows_of_block(row: Row) -> u32 {
    if row.threads < row.block { SHARED_BLOCK / row.threads } else { 1 }
}

fn n_blocks(problem: &NormProblem, row: Row, context: &Context) -> u32 {
    let all = (problem.sharing().n_rows() as u64).div_ceil(u64::from(rows_of_block(row))) as u32;
    match problem.norm_pass() {
        NormPass::Backward => {
            let resident = context.info().n_units as u32 * (RESIDENT_THREADS / row.block).max(1);
            all.min(resident.max(1))
        }
        // Loads of a short row alone are too few for the memory; few rows take a block each.
        _ if row.threads <= LANES && row.vectors == 1 => {
            let resident = context.info().n_units as u32 * FORWARD_THREADS / row.block;
            all.div_ceil((all / resident.max(1)).clamp(1, SHORT_ROWS))
        }
        _ => all,
    }
}

pub(super) fn wants_parts(problem: &NormProblem) -> bool {
    ["dscale", "dbias"].into_iter().any(|name| problem.operand(name).is_some())
}

/// Two numbers a part and column.
pub(super) fn parts_bytes(problem: &NormProblem, n_parts: u32) -> u64 {
    if wants_parts(problem) { 2 * size_of::<f32>() as u64 * u64::from(n_parts) * problem.count() as u64 } else { 0 }
}

/// Distances of rows, in elements.
pub(super) struct Geometry {
    x_pitch: i64,
    out_pitch: i64,
    dy_pitch: i64,
}

impl Geometry {
    pub(super) fn of(problem: &NormProblem) -> Result<Self, Refusal> {
        let pass = problem.norm_pass();
        if !matches!(pass, NormPass::Forward | NormPass::Backward) {
            return Err(Refusal::new(format!("takes forward and backward, given {pass}")));
        }
        for name in ["z", "dz", "running_mean"] {
            if let Some((_, desc)) = problem.operand(name) {
                return Err(Refusal::new(format!("takes no {name}, given {desc}")));
            }
        }
        let (activation, _) = problem.activation();
        if activation != ActivationMode::Identity {
            return Err(Refusal::new(format!("takes no activation, given {activation}")));
        }
        let dtype = problem.x().dtype();
        let run = VECTOR_BYTES / dtype.size_bytes() as i64;
        let sharing = problem.sharing();
        let packed = problem.x().to_packed();
        let dy = problem.operand("dy").map_or(*problem.out(), |(_, dy)| dy);
        let wrong = |what: &str| {
            let (x, out) = (problem.x(), problem.out());
            Refusal::new(format!("takes rows that lie contiguous and behind one another, given {x} and {out}: {what}"))
        };
        let split = |desc: &TensorDesc| sharing.split(desc).map_err(Refusal::from);
        let tensors = [split(&packed)?, split(problem.x())?, split(problem.out())?, split(&dy)?];
        // In one dimension with the packed one: in its order.
        let rows = collapse_dims(tensors.each_ref(), &sharing.across_dims());
        let within = collapse_dims(tensors.each_ref(), &sharing.row_dims());
        let single = |dims: &[i64]| dims[..dims.len() - 1].iter().all(|&dim| dim == 1);
        if !single(&rows[0].dims) || !single(&within[0].dims) {
            return Err(wrong("their elements do not follow one another in order"));
        }
        let last = |param: &kernel_abi::TensorParam| param.strides[param.strides.len() - 1];
        let n_rows = sharing.n_rows();
        let elems = sharing.row_elems();
        if elems > 1 && within.iter().any(|param| last(param) != 1) {
            return Err(wrong("their elements are apart"));
        }
        let [_, x_pitch, out_pitch, dy_pitch] = [0, 1, 2, 3].map(|i| if n_rows > 1 { last(&rows[i]) } else { elems });
        for (name, pitch) in [("a row", elems), ("x", x_pitch), ("the result", out_pitch), ("dy", dy_pitch)] {
            if pitch % run != 0 {
                let reason =
                    format!("takes lengths and distances of rows of multiples of {run} elements, {name} has {pitch}");
                return Err(Refusal::new(reason));
            }
        }
        if n_rows > i64::from(i32::MAX) {
            return Err(Refusal::new(format!("takes up to {} rows, given {n_rows}", i32::MAX)));
        }
        let rows = sharing.packed_rows();
        let columns = rows.period == 1 && rows.run == 1;
        if wants_parts(problem) && !columns {
            let mode = problem.mode().name();
            return Err(Refusal::new(format!(
                "sums gradients of parameters that rows have in order, given mode {mode}"
            )));
        }
        if rows.n_outer > 1 {
            return Err(wrong("they lie in pieces"));
        }
        for name in ["scale", "bias", "dscale", "dbias"] {
            if let Some((_, desc)) = problem.operand(name)
                && !desc.is_packed()
            {
                return Err(Refusal::new(format!("takes a packed {name}, given {desc}")));
            }
        }
        Ok(Geometry { x_pitch, out_pitch, dy_pitch })
    }
}

pub(super) fn params(problem: &NormProblem, geometry: &Geometry) -> NormRowsParams {
    let backward = problem.norm_pass() == NormPass::Backward;
    let rows = problem.sharing().packed_rows();
    NormRowsParams {
        x: place(problem, "x"),
        out: place(problem, if backward { "dx" } else { "y" }),
        dy: place(problem, "dy"),
        scale: place(problem, "scale"),
        bias: place(problem, "bias"),
        mean: place(problem, "mean"),
        inv_std: place(problem, "inv_std"),
        rest: 0,
        partials: 0,
        x_pitch: geometry.x_pitch,
        out_pitch: geometry.out_pitch,
        dy_pitch: geometry.dy_pitch,
        n_rows: problem.sharing().n_rows() as u32,
        row_elems: problem.count() as u32,
        period: Divisor::new(rows.period as u32),
        run: Divisor::new(rows.run as u32),
        params_per_row: rows.params_per_row as u32,
        parameters_are_wide: naive::parameters_are_wide(problem),
        statistics_are_given: u32::from(backward && problem.operand("inv_std").is_some()),
        has_mean: u32::from(problem.mode().has_mean()),
        wants_dscale: u32::from(problem.operand("dscale").is_some()),
        wants_dbias: u32::from(problem.operand("dbias").is_some()),
        share: (1.0 / problem.count() as f64) as f32,
        epsilon: problem.epsilon() as f32,
        alpha: 1.0,
        beta: 0.0,
    }
}

/// The launch that adds up so many parts, which lie where the workspace begins.
pub(super) fn column_sums(
    problem: &NormProblem,
    n_parts: u32,
    context: &Context,
) -> Result<KernelLaunch<NormColumnSumsParams>, Error> {
    let dtype = problem.x().dtype();
    let symbol = SUM_KERNELS.iter().find(|row| row.1 == dtype).map_or("", |row| row.0);
    let columns = problem.count() as u32;
    Ok(KernelLaunch {
        function: context.function(symbol)?,
        config: LaunchConfig {
            grid: [columns.div_ceil(SUM_COLUMNS), if problem.operand("dbias").is_some() { 2 } else { 1 }, 1],
            block: [SUM_COLUMNS * SUM_ROWS, 1, 1],
            ..LaunchConfig::default()
        },
        params: NormColumnSumsParams {
            partials: 0,
            dscale: place(problem, "dscale"),
            dbias: place(problem, "dbias"),
            n_parts,
            columns,
            parameters_are_wide: naive::parameters_are_wide(problem),
            alpha: 1.0,
            beta: 0.0,
            reserved: 0,
        },
        bind: |params, call| {
            params.partials = call.workspace_address();
            place_address(&mut params.dscale, call);
            place_address(&mut params.dbias, call);
            (params.alpha, params.beta) = (call.alpha as f32, call.beta as f32);
        },
    })
}

/// The parameters with addresses and scalars; None where what moves in vectors does not lie at multiples of 16 bytes.
pub(super) fn bound(params: &NormRowsParams, call: &Call<'_>) -> Option<NormRowsParams> {
    let mut params = *params;
    let p = &mut params;
    let mut all = 0;
    for address in [&mut p.x, &mut p.out, &mut p.dy, &mut p.scale, &mut p.bias] {
        place_address(address, call);
        all |= *address;
    }
    place_address(&mut p.mean, call);
    place_address(&mut p.inv_std, call);
    (p.alpha, p.beta) = (call.alpha as f32, call.beta as f32);
    all.is_multiple_of(VECTOR_BYTES as u64).then_some(params)
}

/// A kernel of whole rows, and the one that adds up the parts of gradients.
pub(super) struct RowsLaunch {
    function: Function,
    config: LaunchConfig,
    params: NormRowsParams,
    sums: Option<KernelLaunch<NormColumnSumsParams>>,
    /// For addresses that are no multiples of 16.
    fallback: Box<dyn Launch>,
}

impl RowsLaunch {
    /// The launch of a config of `algorithm`; without a launch config there is no such kernel.
    pub(super) fn new(
        algorithm: &str,
        problem: &NormProblem,
        config: Config,
        launch_config: Option<LaunchConfig>,
        context: &Context,
    ) -> Result<Self, Error> {
        let refused = |refusal: Refusal| refusal.into_error(algorithm, problem);
        let geometry = Geometry::of(problem).map_err(refused)?;
        let missing = || refused(Refusal::new(format!("has no kernel {}", config.0)));
        let launch_config = launch_config.ok_or_else(missing)?;
        let function = context.function(config.0)?;
        if launch_config.shared_bytes > 0 {
            function.allow_dynamic_shared(launch_config.shared_bytes as usize)?;
        }
        let [blocks, ..] = launch_config.grid;
        let fallback_config = naive::Naive.configs(problem, context).map_err(refused)?[0];
        let sums = if wants_parts(problem) { Some(column_sums(problem, blocks, context)?) } else { None };
        Ok(RowsLaunch {
            function,
            config: launch_config,
            params: params(problem, &geometry),
            sums,
            fallback: naive::Naive.prepare(problem, fallback_config, context)?,
        })
    }
}

impl Launch for RowsLaunch {
    fn launch(&self, stream: &Stream, call: &mut Call<'_>) -> Result<(), Error> {
        let Some(mut params) = bound(&self.params, call) else {
            return self.fallback.launch(stream, call);
        };
        if self.sums.is_some() {
            params.partials = call.workspace_address();
        }
        run(&self.function, &self.config, stream, &params)?;
        self.sums.as_ref().map_or(Ok(()), |sums| sums.launch(stream, call))
    }
}
