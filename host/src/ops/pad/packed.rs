//! Padding to a y without gaps, wherever its rows begin: a tile of it a block, put together in shared memory.

use super::{CopyOrNaive, CopyRow, Geometry, Level, PadProblem, copy_rows, copying_kernel, naive, repeated};
use crate::launch::{ACCESS_BYTES, KernelLaunch, LaunchConfig};
use crate::plan::{Call, Launch};
use crate::select::{Algorithm, Config, Refusal};
use crate::{Context, Error, Problem};
use kernel_abi::division::Divisor;
use kernel_abi::ops::pad::{PACKED_AT_ONCE, PACKED_ROWS, PACKED_THREADS, PACKED_TILE_BYTES, PadMode, PadPackedParams};

/// Share of the memory's rate where all of a row's pieces are whole.
const MEMORY_SHARE: f64 = 1.0;
/// The same where elements outside are read besides.
const MIRRORED_SHARE: f64 = 0.96;
/// Bytes of a tile at least, however few blocks there are.
const LEAST_TILE_BYTES: u32 = 2048;

const KERNELS: &[CopyRow] = kernel_abi::pad_packed_kernels!(copy_rows);

/// All modes and any element type forward; backward `constant` without steps, whose gradient is a window of dy.
///
/// A run with other scalars than alpha 1 and beta 0 takes the naive kernel.
pub(super) struct Packed;

impl Algorithm<PadProblem> for Packed {
    fn name(&self) -> &'static str {
        "packed"
    }

    fn configs(&self, problem: &PadProblem, context: &Context) -> Result<Vec<Config>, Refusal> {
        copying_kernel(KERNELS, problem, context, || params(problem, context).map(drop))
    }

    fn workspace_bytes(&self, _: &PadProblem, _: Config) -> u64 {
        0
    }

    fn estimate_us(&self, problem: &PadProblem, _: Config, context: &Context) -> f64 {
        let share = if problem.mode() == PadMode::Constant { MEMORY_SHARE } else { MIRRORED_SHARE };
        let share = share * params(problem, context).map_or(1.0, |params| filled(&params));
        crate::select::cost::LAUNCH_US + problem.bytes() / (share * context.info().bytes_per_us)
    }

    fn prepare(&self, problem: &PadProblem, config: Config, context: &Context) -> Result<Box<dyn Launch>, Error> {
        let params = params(problem, context).map_err(|refusal| refusal.into_error(self.name(), problem))?;
        let fast = launch(params, config, context)?;
        Ok(Box::new(CopyOrNaive { fast, general: Box::new(naive::launch(problem, context)?) }))
    }
}

/// How much of the pieces that are cut out is written.
pub(super) fn filled(params: &PadPackedParams) -> f64 {
    (f64::from(params.width.divisor) / f64::from(params.slots.divisor * params.elems)).min(1.0)
}

/// The launch of a kernel of tiles.
pub(super) fn launch(
    params: PadPackedParams,
    config: Config,
    context: &Context,
) -> Result<KernelLaunch<PadPackedParams>, Error> {
    // The first tile lacks what is before a tensor that does not begin at 16 bytes.
    let blocks = (params.n as u32 + params.elems - 1).div_ceil(params.tile);
    Ok(KernelLaunch {
        function: context.function(config.0)?,
        config: LaunchConfig { grid: [blocks, 1, 1], block: [PACKED_THREADS, 1, 1], ..LaunchConfig::default() },
        params,
        bind: |params: &mut PadPackedParams, call: &Call<'_>| {
            (params.from, params.to) = (call.address(0), call.address(1));
            params.slots = Divisor::new(params.slots_at(params.to));
        },
    })
}

/// The launch parameters but for addresses.
fn params(problem: &PadProblem, context: &Context) -> Result<PadPackedParams, Refusal> {
    let geometry = Geometry::forward(problem)?;
    let (before, read, width) = (geometry.row.axis.before, geometry.row.axis.x, geometry.row.axis.y);
    let window = before.clamp(0, width);
    let n_window = before.saturating_add(read).clamp(window, width) - window;
    let turned = |level: &Level| (level.axis.y, level.y, level.axis.x, level.x);
    let params = tiles(problem, context, &geometry, turned, [window, n_window])?;
    Ok(PadPackedParams { value: repeated(problem), shift: -before as i32, ..params })
}

/// The launch parameters of what writes, along each dimension, so many elements at a distance from as many at another one,
/// and of whose rows a window lies together in both tensors.
pub(super) fn tiles(
    problem: &PadProblem,
    context: &Context,
    geometry: &Geometry,
    extents: fn(&Level) -> (i64, i64, i64, i64),
    [window, n_window]: [i64; 2],
) -> Result<PadPackedParams, Refusal> {
    let (lines, row) = geometry.lines(problem.mode())?;
    let elems = ACCESS_BYTES as i64 / problem.x().dtype().size_bytes() as i64;
    let (width, _, row_read, _) = extents(&geometry.row);
    let (mut n, mut span) = (width, row_read);
    for level in &geometry.around {
        let (extent, distance, read, read_distance) = extents(level);
        if distance != n && extent != 1 {
            return Err(Refusal::new(format!("writes without gaps, elements that are {n} apart then are {distance}")));
        }
        n = n.saturating_mul(extent);
        span = span.saturating_add((read - 1).saturating_mul(read_distance));
    }
    if width < elems && !geometry.around.is_empty() {
        return Err(Refusal::new(format!("writes rows of 16 bytes and more, {elems} elements, they have {width}")));
    }
    let most = i64::from(i32::MAX) - 4 * PACKED_TILE_BYTES as i64;
    if n > most || span > most {
        return Err(Refusal::new(format!("counts up to {most} elements, those read span {span}, {n} are written")));
    }
    let n_others = width - n_window;
    let mut params = PadPackedParams {
        value: 0,
        from: 0,
        to: 0,
        lines,
        row,
        extents: std::array::from_fn(|i| Divisor::new(extents(&geometry.level(i)).0 as u32)),
        width: Divisor::new(width as u32),
        // Nobody goes along a dimension of one element, whatever its stride.
        strides: std::array::from_fn(|i| match extents(&geometry.level(i)) {
            (_, _, 1, _) => 0,
            (_, _, _, distance) => distance as i32,
        }),
        window: if n_window == 0 { 0 } else { window as i32 },
        n_window: n_window as i32,
        shift: 0,
        others: Divisor::new(n_others as u32),
        n_others: n_others as u32,
        slots: Divisor::new(1),
        n: n as i32,
        n_inside: (span - 3 * elems + 1).max(0) as i32,
        tile: PACKED_TILE_BYTES as u32 / (ACCESS_BYTES as i64 / elems) as u32,
        mode: problem.mode() as u32,
        elems: elems as u32,
    };
    params.slots = Divisor::new(params.slots_at(0));
    params.tile = tile_elems(&params, context);
    Ok(params)
}

/// Elements of a tile: whole rows that are whole pieces, where there are such in a tile, and whose pieces threads cut out at
/// once; fewer than there is room for where multiprocessors would be left without.
fn tile_elems(params: &PadPackedParams, context: &Context) -> u32 {
    let (width, elems) = (params.width.divisor, params.elems);
    // As many rows are whole pieces.
    let unit = (1..=elems).find(|rows| rows * width % elems == 0).unwrap_or(elems);
    let room = PACKED_ROWS as u32 - 2;
    let most = (params.tile / width).min(PACKED_THREADS * PACKED_AT_ONCE / params.slots.divisor).min(room) / unit;
    let blocks = 4 * context.info().n_units as u32;
    let least = (LEAST_TILE_BYTES * elems / ACCESS_BYTES as u32).max(params.n as u32 / blocks);
    if most == 0 {
        params.tile.min(least / elems * elems)
    } else {
        unit * width * most.min((least / (unit * width)).max(1))
    }
}
