//! Kernels whose grid is a block for each slice of each tile: what they are given, how long they take, and the kernel
//! that adds up the slices behind them.

use super::MatmulProblem;
use crate::driver::Function;
use crate::launch::{LaunchConfig, launch, linear_grid};
use crate::plan::{Call, Launch};
use crate::select::{Algorithm, Config, Refusal, check_gpu};
use crate::{Context, DType, Error, Problem, Stream, TensorDesc};
use kernel_abi::ops::matmul::{
    MAX_BATCH_DIMS, MatmulBlockParams, MatmulBlockTile, MatmulOperand, MatmulPartialsParams,
};

/// A row of a kernel list.
#[derive(Debug)]
pub(super) struct BlockRow {
    pub(super) symbol: &'static str,
    pub(super) dtype: DType,
    pub(super) tile: MatmulBlockTile,
    /// Whether the dimension that is not that of the sum is contiguous.
    pub(super) a_is_mn_major: bool,
    pub(super) b_is_mn_major: bool,
    /// Config names and the slices they stand for.
    pub(super) variants: &'static [(&'static str, u32)],
}

/// The callback for the lists of such kernels.
macro_rules! block_rows {
    ($(($symbol:ident, $dtype:ident, $tile:ident, $a:ident, $b:ident)),* $(,)?) => {
        &[$($crate::ops::matmul::split::BlockRow {
            symbol: stringify!($symbol),
            dtype: kernel_abi::dtype_of!($dtype),
            tile: kernel_abi::ops::matmul::$tile,
            a_is_mn_major: $crate::ops::matmul::split::block_rows!(@major $a),
            b_is_mn_major: $crate::ops::matmul::split::block_rows!(@major $b),
            variants: $crate::ops::matmul::split::block_rows!(@variants $symbol; 2 3 4 5 6 8 10 12 16 24 32 48 64),
        }),*]
    };
    (@major k) => {
        false
    };
    (@major mn) => {
        true
    };
    (@variants $symbol:ident; $($slices:literal)*) => {
        &[(stringify!($symbol), 1), $((concat!(stringify!($symbol), "+split", $slices), $slices),)*]
    };
}
pub(super) use block_rows;

macro_rules! symbols {
    ($(($symbol:ident, $dtype:ident)),* $(,)?) => {
        &[$((stringify!($symbol), kernel_abi::dtype_of!($dtype))),*]
    };
}

/// The kernels that add up slices.
const SPLIT_KERNELS: &[(&str, DType)] = kernel_abi::matmul_split_kernels!(symbols);

/// How fast a list of kernels is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Speed {
    /// Multiply-adds of a multiprocessor in a cycle.
    pub(super) products: f64,
    /// Cycles of a block of k for a block that has a multiprocessor to itself, at least.
    pub(super) latency: f64,
    /// Bytes a load needs, along with their alignment, to pass by without waiting.
    pub(super) load_bytes: u32,
}

/// The kernels of one algorithm.
pub(super) struct Blocks {
    pub(super) name: &'static str,
    pub(super) rows: &'static [BlockRow],
    pub(super) speed: fn(&Context) -> Speed,
}

/// The fewest blocks of k that are worth a slice.
const MIN_SLICE_BLOCKS: u64 = 4;

/// The most blocks of a grid.
const MAX_BLOCKS: u128 = i32::MAX as u128;

impl Blocks {
    fn row(&self, config: Config) -> (&'static BlockRow, u32) {
        let all = self.rows.iter().flat_map(|row| row.variants.iter().map(move |variant| (row, variant)));
        let mut named = all.filter(|(_, (name, _))| *name == config.0);
        named.next().map(|(row, (_, slices))| (row, *slices)).expect("configs come from the kernel list")
    }
}

impl Algorithm<MatmulProblem> for Blocks {
    fn name(&self) -> &'static str {
        self.name
    }

    /// The kernels for a problem, each without slices and with the best number of them.
    fn configs(&self, problem: &MatmulProblem, context: &Context) -> Result<Vec<Config>, Refusal> {
        check_gpu(context)?;
        let dtype = problem.a().dtype();
        if !self.rows.iter().any(|row| row.dtype == dtype) {
            let mut known: Vec<String> = self.rows.iter().map(|row| row.dtype.to_string()).collect();
            known.dedup();
            known.sort();
            known.dedup();
            return Err(Refusal::new(format!("has kernels for {}, the element type is {dtype}", known.join(" and "))));
        }
        let extents = [problem.gemm_m(), problem.gemm_n(), problem.gemm_k(), problem.n_batch()];
        if let Some(large) = extents.iter().find(|&&extent| extent > i64::from(i32::MAX)) {
            return Err(Refusal::new(format!("takes extents up to {}, one is {large}", i32::MAX)));
        }
        let sides = Sides::of(problem);
        let fits = |row: &&BlockRow| {
            row.dtype == dtype && (row.a_is_mn_major, row.b_is_mn_major) == (sides.a.is_mn_major, sides.b.is_mn_major)
        };
        let mut configs = Vec::new();
        for row in self.rows.iter().filter(fits) {
            let n_tiles = sides.n_tiles(row.tile);
            if n_tiles > MAX_BLOCKS {
                continue;
            }
            configs.push(Config(row.symbol));
            let k_blocks = (problem.gemm_k() as u64).div_ceil(row.tile.gemm_k.into());
            let able = |slices: u32| {
                slices > 1
                    && u64::from(slices) * MIN_SLICE_BLOCKS <= k_blocks
                    && n_tiles * u128::from(slices) <= MAX_BLOCKS
            };
            let estimate = |name: &'static str| self.estimate_us(problem, Config(name), context);
            let split = row.variants.iter().filter(|variant| able(variant.1)).map(|variant| variant.0);
            configs.extend(split.min_by(|a, b| estimate(a).total_cmp(&estimate(b))).map(Config));
        }
        if configs.is_empty() {
            let n_tiles = self.rows.iter().map(|row| sides.n_tiles(row.tile)).min().unwrap_or(0);
            return Err(Refusal::new(format!("counts up to {MAX_BLOCKS} tiles, the problem has {n_tiles}")));
        }
        Ok(configs)
    }

    /// Room for the slices' sums.
    fn workspace_bytes(&self, problem: &MatmulProblem, config: Config) -> u64 {
        let (_, slices) = self.row(config);
        if slices > 1 { Sides::of(problem).partial_bytes(slices) } else { 0 }
    }

    /// The slower of computing, in rounds of resident blocks, and memory.
    fn estimate_us(&self, problem: &MatmulProblem, config: Config, context: &Context) -> f64 {
        /// From the launch to the end of nothing.
        const ENDS_US: f64 = 3.5;
        /// The kernel that adds up slices.
        const NEXT_LAUNCH_US: f64 = 2.5;
        const CYCLES_PER_US: f64 = 1600.0;
        /// Cycles of a block's first loads and of its sums' way out.
        const BLOCK_ENDS: f64 = 2500.0;
        /// How much longer loads through registers take.
        const WAITING: f64 = 2.5;
        /// Threads of a multiprocessor that these kernels' registers leave room for.
        const THREADS: u32 = 512;
        let (row, slices) = self.row(config);
        let (tile, speed, info) = (row.tile, (self.speed)(context), context.info());
        let sides = Sides::of(problem);
        let blocks = sides.n_tiles(tile) as f64 * f64::from(slices) / info.n_units as f64;
        let resident = f64::from(THREADS / tile.threads);
        let k_blocks = (problem.gemm_k() as f64 / f64::from(tile.gemm_k)).ceil() / f64::from(slices);
        let work = f64::from(tile.gemm_m * tile.gemm_n * tile.gemm_k) / speed.products;
        let waits = sides.a.load_bytes(0).min(sides.b.load_bytes(0)) < speed.load_bytes;
        let latency = work.max(speed.latency * if waits { WAITING } else { 1.0 });
        let computing = blocks.ceil() * k_blocks * work;
        let waiting = (blocks / resident).ceil() * (k_blocks * latency + BLOCK_ENDS);
        let memory = problem.bytes() / info.bytes_per_us;
        let mut us = ENDS_US + (computing.max(waiting) / CYCLES_PER_US).max(memory);
        if slices > 1 {
            us += NEXT_LAUNCH_US + 1.5 * sides.partial_bytes(slices) as f64 / info.bytes_per_us;
        }
        us
    }

    fn prepare(&self, problem: &MatmulProblem, config: Config, context: &Context) -> Result<Box<dyn Launch>, Error> {
        let (row, slices) = self.row(config);
        let (tile, sides) = (row.tile, Sides::of(problem));
        let function = context.function(row.symbol)?;
        function.allow_dynamic_shared(tile.smem_bytes() as usize)?;
        let params = sides.params(tile, slices);
        let split = if slices > 1 { Some(sums(&params, row.dtype, context)?) } else { None };
        let config = LaunchConfig {
            grid: [(sides.n_tiles(tile) * u128::from(slices)) as u32, 1, 1],
            block: [tile.threads, 1, 1],
            shared_bytes: tile.smem_bytes(),
            ..LaunchConfig::default()
        };
        Ok(Box::new(BlockLaunch { function, config, params, sides, split }))
    }
}

/// An operand of a kernel, and which of its dimensions is contiguous.
#[derive(Clone, Copy, Debug)]
struct Side {
    operand: MatmulOperand,
    is_mn_major: bool,
    /// Distance between elements along the dimension that tiles are loaded along.
    inner_stride: i64,
    /// All other distances between elements that exist.
    outer_strides: [i64; MAX_BATCH_DIMS + 1],
    element_bytes: u64,
}

impl Side {
    /// Of `[mn, k]` matrices with these strides.
    fn of(desc: &TensorDesc, [mn, k]: [i64; 2], [mn_stride, k_stride]: [i64; 2]) -> Self {
        let (batch_strides, _) = desc.strides().split_at(desc.rank() - 2);
        let batch_strides = right_aligned(batch_strides, 0);
        let is_mn_major = k_stride != 1 && (mn_stride == 1 || mn_stride < k_stride);
        // Kernels form addresses outside the matrix too, of copies of zero bytes, and those have to be aligned as well:
        // with the stride of an extent of 1, which is arbitrary, they would not be.
        let stride_of = |extent: i64, stride: i64| if extent > 1 { stride } else { 0 };
        let (inner_stride, outer_stride, [row_stride, col_stride]) = if is_mn_major {
            let outer = stride_of(k, k_stride);
            (mn_stride, outer, [mn_stride, outer])
        } else {
            let outer = stride_of(mn, mn_stride);
            (k_stride, outer, [outer, k_stride])
        };
        let [s0, s1, s2] = batch_strides;
        Side {
            operand: MatmulOperand { address: 0, batch_strides, row_stride, col_stride },
            is_mn_major,
            inner_stride,
            outer_strides: [s0, s1, s2, outer_stride],
            element_bytes: desc.dtype().size_bytes() as u64,
        }
    }

    /// Bytes that can be loaded at a time from the operand at `address`: up to 16; 0 where elements lie apart.
    fn load_bytes(&self, address: u64) -> u32 {
        if self.inner_stride != 1 {
            return 0;
        }
        let all =
            self.outer_strides.iter().fold(address | 16, |all, &stride| all | (stride as u64 * self.element_bytes));
        1 << all.trailing_zeros()
    }
}

/// The operands as the kernels take them, of the transpose where that makes c's rows contiguous.
#[derive(Clone, Copy, Debug)]
struct Sides {
    exchanged: bool,
    gemm_m: i64,
    gemm_n: i64,
    gemm_k: i64,
    batch_dims: [i64; MAX_BATCH_DIMS],
    a: Side,
    /// As `[n, k]`.
    b: Side,
    c: MatmulOperand,
}

impl Sides {
    fn of(problem: &MatmulProblem) -> Self {
        let (a, b, c) = (problem.a_matrix(), problem.b_matrix(), *problem.c());
        let last = |desc: &TensorDesc| {
            let at = desc.rank() - 2;
            [desc.strides()[at], desc.strides()[at + 1]]
        };
        let [m, n, k] = [problem.gemm_m(), problem.gemm_n(), problem.gemm_k()];
        let ([a_row, a_col], [b_row, b_col], [c_row, c_col]) = (last(&a), last(&b), last(&c));
        let a = Side::of(&a, [m, k], [a_row, a_col]);
        let b = Side::of(&b, [n, k], [b_col, b_row]);
        let batch_strides = right_aligned(&c.strides()[..c.rank() - 2], 0);
        let exchanged = c_col != 1 && c_row == 1 && m > 1;
        let c = |row_stride, col_stride| MatmulOperand { address: 0, batch_strides, row_stride, col_stride };
        let batch_dims = right_aligned(problem.batch_dims(), 1);
        if exchanged {
            Sides { exchanged, gemm_m: n, gemm_n: m, gemm_k: k, batch_dims, a: b, b: a, c: c(c_col, c_row) }
        } else {
            Sides { exchanged, gemm_m: m, gemm_n: n, gemm_k: k, batch_dims, a, b, c: c(c_row, c_col) }
        }
    }

    fn n_batch(&self) -> i64 {
        self.batch_dims.iter().product()
    }

    fn n_tiles(&self, tile: MatmulBlockTile) -> u128 {
        let count = |extent: i64, size: u32| (extent as u64).div_ceil(size.into()) as u128;
        count(self.gemm_m, tile.gemm_m) * count(self.gemm_n, tile.gemm_n) * self.n_batch() as u128
    }

    fn pitch(&self) -> u32 {
        (self.gemm_n as u32).next_multiple_of(4)
    }

    fn partial_bytes(&self, slices: u32) -> u64 {
        let rows = (u64::from(slices) * self.n_batch() as u64).saturating_mul(self.gemm_m as u64);
        rows.saturating_mul(4 * u64::from(self.pitch()))
    }

    fn params(&self, tile: MatmulBlockTile, slices: u32) -> MatmulBlockParams {
        /// Rows of tiles whose operands the L2 cache holds while they are walked together.
        const RASTER_ROWS: u32 = 8;
        // The kernels take b as `[k, n]`.
        let MatmulOperand { row_stride, col_stride, .. } = self.b.operand;
        MatmulBlockParams {
            a: self.a.operand,
            b: MatmulOperand { row_stride: col_stride, col_stride: row_stride, ..self.b.operand },
            c: self.c,
            partials: 0,
            gemm_m: self.gemm_m as u32,
            gemm_n: self.gemm_n as u32,
            gemm_k: self.gemm_k as u32,
            n_batch: self.n_batch() as u32,
            batch_dims: self.batch_dims.map(|dim| dim as u32),
            raster_rows: RASTER_ROWS,
            a_load_bytes: 0,
            b_load_bytes: 0,
            stores_whole: 0,
            n_slices: slices,
            slice_k_blocks: (self.gemm_k as u32).div_ceil(tile.gemm_k) / slices,
            partial_pitch: self.pitch(),
            alpha: 1.0,
            beta: 0.0,
        }
    }

    /// Whether what a thread has of a row of c, `bytes`, can be stored at once.
    fn stores(&self, address: u64, bytes: u64) -> bool {
        let size = self.a.element_bytes;
        let [s0, s1, s2] = self.c.batch_strides;
        let all = [s0, s1, s2, self.c.row_stride, self.gemm_n];
        let all = all.iter().fold(address, |all, &elems| all | (elems as u64 * size));
        self.c.col_stride == 1 && all.is_multiple_of(bytes)
    }
}

/// Right-aligned batch extents or strides.
fn right_aligned(given: &[i64], unused: i64) -> [i64; MAX_BATCH_DIMS] {
    let mut all = [unused; MAX_BATCH_DIMS];
    all[MAX_BATCH_DIMS - given.len()..].copy_from_slice(given);
    all
}

/// The kernel that adds up the slices behind the one with `params`.
fn sums(params: &MatmulBlockParams, dtype: DType, context: &Context) -> Result<Sums, Error> {
    const BLOCK: u32 = 128;
    let row = SPLIT_KERNELS.iter().find(|row| row.1 == dtype).expect("there is one for every type of the kernel lists");
    let n_threads = i64::from(params.n_batch) * i64::from(params.gemm_m) * i64::from(params.partial_pitch / 4);
    Ok(Sums {
        function: context.function(row.0)?,
        config: linear_grid(n_threads, BLOCK),
        params: MatmulPartialsParams {
            partials: 0,
            c: params.c,
            gemm_m: params.gemm_m,
            gemm_n: params.gemm_n,
            n_batch: params.n_batch,
            batch_dims: params.batch_dims,
            n_slices: params.n_slices,
            partial_pitch: params.partial_pitch,
            alpha: 1.0,
            beta: 0.0,
        },
    })
}

struct Sums {
    function: Function,
    config: LaunchConfig,
    params: MatmulPartialsParams,
}

/// Launches whose parameters are complete but for addresses, what follows from them, and scalars.
struct BlockLaunch {
    function: Function,
    config: LaunchConfig,
    params: MatmulBlockParams,
    sides: Sides,
    split: Option<Sums>,
}

impl Launch for BlockLaunch {
    fn launch(&self, stream: &Stream, call: &mut Call<'_>) -> Result<(), Error> {
        let stream = stream.gpu_stream_for(self.function.name())?;
        let (a, b) =
            if self.sides.exchanged { (call.address(1), call.address(0)) } else { (call.address(0), call.address(1)) };
        let c = call.address(2);
        let mut params = self.params;
        (params.a.address, params.b.address, params.c.address) = (a, b, c);
        params.a_load_bytes = self.sides.a.load_bytes(a);
        params.b_load_bytes = self.sides.b.load_bytes(b);
        params.stores_whole = u32::from(self.sides.stores(c, 4 * self.sides.a.element_bytes));
        (params.partials, _) = call.workspace.range();
        (params.alpha, params.beta) = (call.alpha as f32, call.beta as f32);
        launch(&self.function, &self.config, stream, &params)?;
        if let Some(Sums { function, config, params: sums }) = &self.split {
            let mut sums = *sums;
            sums.partials = params.partials;
            sums.c.address = c;
            (sums.alpha, sums.beta) = (params.alpha, params.beta);
            launch(function, config, stream, &sums)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sides(text: &str) -> Sides {
        Sides::of(&format!("matmul:forward {text}").parse().unwrap())
    }

    #[test]
    fn loads_are_as_wide_as_strides_allow() {
        let of = |text: &str, address: u64| {
            let sides = sides(text);
            let (a, b) = (sides.a, sides.b);
            (a.is_mn_major, a.load_bytes(address), b.is_mn_major, b.load_bytes(address))
        };
        assert_eq!(of("a=64x32:bf16 b=32x128:bf16", 256), (false, 16, true, 16));
        assert_eq!(of("a=64x32:bf16 b=32x127:bf16", 256), (false, 16, true, 2));
        assert_eq!(of("a=64x36:bf16 b=36x128:bf16", 256), (false, 8, true, 16));
        assert_eq!(of("a=64x32:bf16 b=32x128:bf16", 260), (false, 4, true, 4));
        assert_eq!(of("trans=tt a=32x65:f32 b=128x32:f32", 256), (true, 4, false, 16));
        assert_eq!(of("a=64x32:f32:s80x2 b=32x128:f32", 256), (false, 0, true, 16));
        // One row: its stride is never used.
        assert_eq!(of("a=1x33:bf16 b=33x8:bf16", 256), (false, 16, true, 16));
    }

    #[test]
    fn the_transpose_is_computed_where_columns_of_c_are_contiguous() {
        let sides = sides("a=64x32:bf16 b=32x128:bf16 c=64x128:bf16:s1x64");
        assert!(sides.exchanged && sides.a.is_mn_major && !sides.b.is_mn_major);
        assert_eq!((sides.gemm_m, sides.gemm_n, sides.c.row_stride, sides.c.col_stride), (128, 64, 64, 1));
        assert!(sides.stores(256, 8) && !sides.stores(260, 8));
    }
}
