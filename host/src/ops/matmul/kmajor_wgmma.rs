//! Products of 8-bit numbers, and of f32 where tf32 is allowed, on Hopper's tensor cores.
//!
//! The kernels take a and b with the dimension of the sum contiguous, rows of it at multiples of 16 bytes; others are
//! copied into the workspace first. c lies anyhow.

use super::MatmulProblem;
use super::tma_wgmma::maps::{Matrix, narrow};
use super::tma_wgmma::model::Work;
use super::tma_wgmma::raster_rows;
use super::tma_wgmma::variants::Way;
use crate::driver::{Function, GpuContext, Swizzle, TensorMap, Tiled, TmaType};
use crate::launch::{LaunchConfig, launch, scales_only, store_params};
use crate::ops::transform::Copying;
use crate::plan::{Call, Launch};
use crate::select::{Algorithm, Config, Refusal, check_hopper};
use crate::{Context, DType, Error, Math, Problem, Stream, TensorDesc};
use kernel_abi::epilogue::FusedEpilogueParam;
use kernel_abi::ops::matmul::{
    MAX_BATCH_DIMS, MatmulKMajorParams, MatmulOperand, MatmulTile, MatmulTmaParams, OUTPUT_THREADS,
};
use kernel_abi::store::StoreParams;
use kernel_abi::tickets::TicketsParam;

/// A row of the kernel list.
struct Row {
    symbol: &'static str,
    a: DType,
    b: DType,
    tile: MatmulTile,
}

macro_rules! rows {
    ($(($symbol:ident, $a:ident, $b:ident, $tile:ident)),* $(,)?) => {
        &[$(Row {
            symbol: stringify!($symbol),
            a: read_type!($a),
            b: read_type!($b),
            tile: kernel_abi::ops::matmul::$tile,
        }),*]
    };
}

macro_rules! read_type {
    (tf32) => {
        DType::F32
    };
    ($dtype:ident) => {
        kernel_abi::dtype_of!($dtype)
    };
}

const KERNELS: &[Row] = kernel_abi::matmul_kmajor_wgmma_kernels!(rows);

/// What the hardware asks of addresses and strides.
const ALIGN_BYTES: u64 = 16;

/// What copies in the workspace are aligned to.
const GRAIN: u64 = 256;

/// Strides must stay below this many bytes.
const MAX_STRIDE_BYTES: u64 = 1 << 40;

/// Bytes of a row of shared memory.
const ROW_BYTES: u64 = 128;

/// Operands with the dimension of the sum contiguous.
pub(super) struct KMajorWgmma;

fn row(config: Config) -> &'static Row {
    KERNELS.iter().find(|row| row.symbol == config.0).expect("configs come from the kernel list")
}

impl Algorithm<MatmulProblem> for KMajorWgmma {
    fn name(&self) -> &'static str {
        "kmajor_wgmma"
    }

    fn configs(&self, problem: &MatmulProblem, context: &Context) -> Result<Vec<Config>, Refusal> {
        check_hopper(context)?;
        let sides = Sides::of(problem)?;
        let fits = |row: &&Row| sides.dtypes == [row.a, row.b] && sides.fits(row.tile);
        Ok(KERNELS.iter().filter(fits).map(|row| Config(row.symbol)).collect())
    }

    fn workspace_bytes(&self, problem: &MatmulProblem, _: Config) -> u64 {
        Sides::of(problem).map_or(0, |sides| sides.layout()[2])
    }

    fn estimate_us(&self, problem: &MatmulProblem, config: Config, context: &Context) -> f64 {
        let (Ok(sides), info) = (Sides::of(problem), context.info()) else { return f64::INFINITY };
        // A row of 128 bytes takes as long whatever it holds.
        let work = Work {
            tile: row(config).tile,
            way: Way::PLAIN,
            gemm_m: sides.gemm_m.into(),
            gemm_n: sides.gemm_n.into(),
            gemm_k: sides.k_units.into(),
            n_batch: sides.n_batch().into(),
            store_bytes: 16,
            packed_bytes: 0,
            operand_bytes: problem.bytes(),
            slots: context.active_clusters(row(config).tile.cluster),
            bytes_per_us: info.bytes_per_us,
        };
        let copies = [&sides.a, &sides.b].into_iter().filter_map(|map| map.copy.as_ref());
        work.estimate_us() + copies.map(|copy| Copying::estimate_us(&copy.from, &copy.to, context)).sum::<f64>()
    }

    fn prepare(&self, problem: &MatmulProblem, config: Config, context: &Context) -> Result<Box<dyn Launch>, Error> {
        let sides = Sides::of(problem).map_err(|refusal| refusal.into_error(self.name(), problem))?;
        let tile = row(config).tile;
        let function = context.function(config.0)?;
        function.allow_dynamic_shared(tile.smem_bytes() as usize)?;
        let n_units = (context.info().n_units as u64).max(1);
        let n_tiles = sides.n_tiles(tile);
        let config = LaunchConfig {
            // As few blocks as do it in the same number of rounds: the others would only draw power.
            grid: [n_tiles.div_ceil(n_tiles.div_ceil(n_units)) as u32, 1, 1],
            block: [tile.threads(), 1, 1],
            shared_bytes: tile.smem_bytes(),
            programmatic: true,
            ..LaunchConfig::default()
        };
        let params = sides.params(tile, n_units as u32);
        let copying =
            |map: &InputMap| map.copy.as_ref().map(|copy| Copying::new(&copy.from, &copy.to, context)).transpose();
        let copies = [copying(&sides.a)?, copying(&sides.b)?];
        Ok(Box::new(KMajorLaunch { function, config, params, tile, sides, copies }))
    }
}

/// The operands as the kernels see them.
#[derive(Debug)]
struct Sides {
    dtypes: [DType; 2],
    data_type: TmaType,
    gemm_m: u32,
    gemm_n: u32,
    /// Length of the sums, in units of 2 bytes.
    k_units: u32,
    batch_dims: [u32; MAX_BATCH_DIMS],
    a: InputMap,
    b: InputMap,
    c: MatmulOperand,
    store: StoreParams,
}

impl Sides {
    fn of(problem: &MatmulProblem) -> Result<Self, Refusal> {
        let dtypes = [problem.a().dtype(), problem.b().dtype()];
        let data_type = match dtypes[0] {
            DType::I8 | DType::F8E4M3 | DType::F8E5M2 => TmaType::U8,
            DType::F32 if problem.desc().math == Math::Tf32 => TmaType::TF32,
            DType::F32 => return Err(Refusal::new("reads f32 as tf32, which takes math=tf32")),
            other => {
                let reason = format!("has kernels for i8, f8e4m3, f8e5m2 and tf32, the element type is {other}");
                return Err(Refusal::new(reason));
            }
        };
        let c = Matrix::of(problem.c());
        let mut batch_dims = [1; MAX_BATCH_DIMS];
        let mut batch_strides = [0; MAX_BATCH_DIMS];
        let unused = MAX_BATCH_DIMS - problem.batch_dims().len();
        for (i, &extent) in problem.batch_dims().iter().enumerate() {
            batch_dims[unused + i] = narrow("batch", extent)?;
            batch_strides[unused + i] = problem.c().strides()[i];
        }
        let element_bytes = dtypes[0].size_bytes() as i64;
        let k_units = (problem.gemm_k() * element_bytes + 1) / 2;
        let sides = Sides {
            dtypes,
            data_type,
            gemm_m: narrow("gemm_m", problem.gemm_m())?,
            gemm_n: narrow("gemm_n", problem.gemm_n())?,
            // Blocks of k are counted beyond its end.
            k_units: narrow("gemm_k in units of 2 bytes", k_units + 64)? - 64,
            batch_dims,
            a: InputMap::of("a", &problem.a_matrix(), [0, 1])?,
            b: InputMap::of("b", &problem.b_matrix(), [1, 0])?,
            c: MatmulOperand { address: 0, batch_strides, row_stride: c.row_stride, col_stride: c.col_stride },
            store: store_params(problem.c().dtype(), c.col_stride),
        };
        let n_tiles = KERNELS.iter().map(|row| sides.n_tiles(row.tile)).max().unwrap_or(0);
        let _ = narrow("the number of tiles", n_tiles as i64)?;
        Ok(sides)
    }

    /// Where the copies of a and b begin, and where they end.
    fn layout(&self) -> [u64; 3] {
        let bytes = |map: &InputMap| map.copy.as_ref().map_or(0, |copy| copy.to.span_bytes().next_multiple_of(GRAIN));
        [0, bytes(&self.a), bytes(&self.a) + bytes(&self.b)]
    }

    fn n_batch(&self) -> u32 {
        self.batch_dims.iter().product()
    }

    fn n_tiles(&self, tile: MatmulTile) -> u64 {
        tile.n_tiles(0, [self.gemm_m.into(), self.gemm_n.into(), self.n_batch().into()])
    }

    /// Whether the tile is no wider than it needs to be.
    fn fits(&self, tile: MatmulTile) -> bool {
        tile.gemm_n <= 64 || self.gemm_n > tile.gemm_n / 2
    }

    fn params(&self, tile: MatmulTile, n_units: u32) -> MatmulKMajorParams {
        let blocks = self.k_units.div_ceil(tile.gemm_k);
        let product = MatmulTmaParams {
            a_map: [0; 16],
            b_map: [0; 16],
            c_map: [0; 16],
            c: self.c,
            partials: 0,
            gemm_m: self.gemm_m,
            gemm_n: self.gemm_n,
            gemm_k: self.k_units,
            n_batch: self.n_batch(),
            batch_dims: self.batch_dims,
            raster_rows: raster_rows(tile, 0, n_units),
            a_batch_steps: self.a.batch_steps,
            alpha: 1.0,
            b_batch_steps: self.b.batch_steps,
            beta: 0.0,
            output: OUTPUT_THREADS,
            transposed: 0,
            n_slices: 1,
            slice_k_blocks: blocks,
            store_bytes: 0,
            partial_pitch: 0,
            a_part_rows: 0,
            b_part_rows: 0,
            keep: 0,
            outer_blocks: blocks,
            a_outer_batch: 0,
            b_outer_batch: 0,
            sharers_log2: 0,
            bias_along_rows: 0,
            epilogue: FusedEpilogueParam::NONE,
            z_batch_strides: [0; 3],
            z_row_stride: 0,
            tickets: TicketsParam::NONE,
        };
        MatmulKMajorParams { product, store: self.store }
    }

    /// Whether every access of the kernel's stores is whole and aligned.
    fn stores_whole(&self, address: u64) -> bool {
        let [s0, s1, s2] = self.c.batch_strides;
        let all = [s0, s1, s2, self.c.row_stride, i64::from(self.gemm_n)];
        let element_bytes = u64::from(self.store.element_bytes);
        let bytes = StoreParams::access_bytes(self.store.element_bytes);
        self.store.col_stride == 1
            && all.iter().fold(address, |all, &elems| all | (elems as u64 * element_bytes)).is_multiple_of(bytes.into())
    }
}

/// An input's map but for its address: k, the other dimension, the batch dimensions from the innermost out.
#[derive(Debug)]
struct InputMap {
    /// 1 along batch dimensions where it has its own matrices, 0 where it repeats; outermost first.
    batch_steps: [u32; MAX_BATCH_DIMS],
    dims: [u64; 5],
    strides_bytes: [u64; 4],
    element_bytes: u64,
    /// How the operand gets into the workspace, where no map can describe it as it is.
    copy: Option<Copy>,
}

/// A copy with the dimension of the sum contiguous; along batch dimensions where the operand repeats, there is one matrix.
#[derive(Debug)]
struct Copy {
    from: TensorDesc,
    to: TensorDesc,
}

impl InputMap {
    /// The map of matrices whose two dimensions are, in the order given, the one that is not the sum's, and the sum's.
    fn of(name: &str, desc: &TensorDesc, order: [usize; 2]) -> Result<Self, Refusal> {
        if let Some(map) = Self::direct(name, desc, order)? {
            return Ok(map);
        }
        let n_batch = desc.rank() - 2;
        let dims: Vec<i64> =
            (0..desc.rank()).map(|i| if i < n_batch && desc.strides()[i] == 0 { 1 } else { desc.dims()[i] }).collect();
        let run = (ALIGN_BYTES / desc.dtype().size_bytes() as u64) as i64;
        let (mn, k) = (n_batch + order[0], n_batch + order[1]);
        let mut strides = vec![0; desc.rank()];
        strides[k] = 1;
        let mut stride = (dims[k] as u64).next_multiple_of(run as u64) as i64;
        for i in std::iter::once(mn).chain((0..n_batch).rev()) {
            strides[i] = stride;
            stride = stride.saturating_mul(dims[i]);
        }
        let from = TensorDesc::strided(desc.dtype(), &dims, desc.strides()).map_err(Refusal::from)?;
        let to = TensorDesc::strided(desc.dtype(), &dims, &strides).map_err(Refusal::from)?;
        let map = Self::direct(name, &to, order)?.ok_or_else(|| {
            Refusal::new(format!("needs {name} with strides below {MAX_STRIDE_BYTES} bytes, given {to}"))
        })?;
        let mut batch_steps = [0; MAX_BATCH_DIMS];
        for (i, &stride) in desc.strides()[..n_batch].iter().enumerate() {
            batch_steps[MAX_BATCH_DIMS - n_batch + i] = u32::from(stride != 0);
        }
        Ok(InputMap { copy: Some(Copy { from, to }), batch_steps, ..map })
    }

    /// The map of the tensor as it lies, if the hardware takes its strides.
    fn direct(name: &str, desc: &TensorDesc, order: [usize; 2]) -> Result<Option<Self>, Refusal> {
        let n_batch = desc.rank() - 2;
        let (batch_dims, batch_strides) = (&desc.dims()[..n_batch], &desc.strides()[..n_batch]);
        let [rows, cols] = order.map(|i| desc.dims()[n_batch + i]);
        let [row_stride, col_stride] = order.map(|i| desc.strides()[n_batch + i]);
        let _ = (narrow(name, rows)?, narrow(name, cols)?);
        if col_stride != 1 && cols > 1 {
            return Ok(None);
        }
        let element_bytes = desc.dtype().size_bytes() as u64;
        let mut map = InputMap {
            batch_steps: [0; MAX_BATCH_DIMS],
            dims: [1; 5],
            strides_bytes: [ALIGN_BYTES; 4],
            element_bytes,
            copy: None,
        };
        for (i, &stride) in batch_strides.iter().enumerate() {
            map.batch_steps[MAX_BATCH_DIMS - n_batch + i] = u32::from(stride != 0);
        }
        map.dims[0] = cols as u64;
        let mut behind = map.dims[0] * element_bytes;
        let batch = batch_strides.iter().copied().zip(batch_dims.iter().copied()).rev();
        let outer = std::iter::once((row_stride, rows)).chain(batch).chain(std::iter::repeat((0, 1)));
        for (i, (stride, dim)) in outer.take(4).enumerate() {
            if dim == 1 || (i > 0 && stride == 0) {
                // Never stepped along: any legal stride will do.
                map.strides_bytes[i] = behind.next_multiple_of(ALIGN_BYTES).min(MAX_STRIDE_BYTES - ALIGN_BYTES);
                continue;
            }
            let bytes = stride as u64 * element_bytes;
            if stride == 0 || !bytes.is_multiple_of(ALIGN_BYTES) || bytes >= MAX_STRIDE_BYTES {
                return Ok(None);
            }
            map.dims[1 + i] = dim as u64;
            map.strides_bytes[i] = bytes;
            behind += bytes * (dim as u64 - 1);
        }
        Ok(Some(map))
    }

    /// The words of the map at `address`, for loads of so many rows.
    fn encode(
        &self,
        context: &GpuContext,
        data_type: TmaType,
        name: &'static str,
        address: u64,
        rows: u32,
    ) -> Result<[u64; 16], Error> {
        if !address.is_multiple_of(ALIGN_BYTES) {
            let reason = format!(
                "expected an address that is a multiple of {ALIGN_BYTES} for the algorithm kmajor_wgmma (naive takes \
                 any), given {address:#x}"
            );
            return Err(Error::bad(MatmulProblem::OP, name, reason));
        }
        let tiled = Tiled {
            data_type,
            address,
            dims: &self.dims,
            strides_bytes: &self.strides_bytes,
            box_dims: &[(ROW_BYTES / self.element_bytes) as u32, rows, 1, 1, 1],
            element_strides: &[],
            swizzle: Swizzle::B128,
        };
        Ok(TensorMap::tiled(context, &tiled)?.words())
    }
}

/// A launch whose parameters are complete but for addresses, and so maps, and scalars.
struct KMajorLaunch {
    function: Function,
    config: LaunchConfig,
    params: MatmulKMajorParams,
    tile: MatmulTile,
    sides: Sides,
    copies: [Option<Copying>; 2],
}

impl Launch for KMajorLaunch {
    fn launch(&self, stream: &Stream, call: &mut Call<'_>) -> Result<(), Error> {
        let stream = stream.gpu_stream_for(self.function.name())?;
        let context = stream.context();
        let (sides, tile) = (&self.sides, self.tile);
        let mut params = self.params;
        let mut inputs = [call.address(0), call.address(1)];
        for (i, copy) in self.copies.iter().enumerate() {
            if let Some(copy) = copy {
                let to = call.workspace_address() + sides.layout()[i];
                copy.launch(stream, inputs[i], to)?;
                inputs[i] = to;
            }
        }
        params.product.a_map = sides.a.encode(context, sides.data_type, "a", inputs[0], tile.gemm_m)?;
        params.product.b_map = sides.b.encode(context, sides.data_type, "b", inputs[1], tile.gemm_n)?;
        params.product.c.address = call.address(2);
        (params.store.alpha, params.store.beta) = (call.alpha, call.beta);
        params.store.whole = u32::from(scales_only(&params.store) && sides.stores_whole(call.address(2)));
        launch(&self.function, &self.config, stream, &params)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sides(text: &str) -> Result<Sides, String> {
        Sides::of(&format!("matmul:forward {text}").parse().unwrap()).map_err(|Refusal(reason)| reason)
    }

    #[test]
    fn k_is_counted_in_units_of_2_bytes() {
        let units = |text: &str| {
            let sides = sides(text).unwrap();
            (sides.k_units, sides.a.copy.is_some(), sides.b.copy.is_some())
        };
        assert_eq!(units("trans=nt a=3x64:i8 b=5x64:i8"), (32, false, false));
        assert_eq!(units("trans=nt a=3x67:i8:s80x1 b=5x67:i8:s80x1"), (34, false, false));
        assert_eq!(units("a=3x64:f8e4m3 b=64x5:f8e5m2"), (32, false, true));
        assert_eq!(units("trans=tn math=tf32 a=64x4:f32 b=64x4:f32"), (128, true, true));
        assert_eq!(units("trans=nt math=tf32 a=3x33:f32 b=4x33:f32:s36x1"), (66, true, false));
    }

    #[test]
    fn maps_and_copies() {
        let direct = sides("trans=nt a=2x3x64x32:i8:s0x2048x32x1 b=2x3x48x32:i8").unwrap();
        assert_eq!((direct.a.dims, &direct.a.strides_bytes[..2]), ([32, 64, 3, 1, 1], &[32, 2048][..]));
        assert_eq!((direct.a.batch_steps, direct.b.batch_steps), ([0, 0, 1], [0, 1, 1]));
        let copied = sides("a=2x5x9:i8:s0x9x1 b=2x9x4:i8").unwrap();
        let [a, b] = [&copied.a, &copied.b].map(|map| map.copy.as_ref().unwrap());
        assert_eq!((a.from.to_string(), a.to.to_string()), ("1x5x9:i8:s0x9x1".into(), "1x5x9:i8:s80x16x1".into()));
        assert_eq!((b.from.to_string(), b.to.to_string()), ("2x9x4:i8".into(), "2x9x4:i8:s64x1x16".into()));
        assert_eq!((copied.a.batch_steps, copied.a.dims), ([0, 0, 0], [9, 5, 1, 1, 1]));
        assert_eq!(copied.layout(), [0, 256, 512]);
    }

    #[test]
    fn refusals_name_the_types() {
        assert!(sides("a=2x3:bf16 b=3x4:bf16").unwrap_err().contains("the element type is bf16"));
        assert!(sides("a=2x3:f32 b=3x4:f32").unwrap_err().contains("takes math=tf32"));
    }
}
