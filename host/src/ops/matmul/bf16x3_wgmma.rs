//! f32 matmul on Hopper's bf16 tensor cores, with the error of f32 arithmetic.
//!
//! Both inputs are taken apart into three bf16 numbers an element, in the workspace, and six of the nine products of
//! parts are summed. The first part is cut off, so that the largest numbers stay finite. An infinity is its sign, zero and
//! itself: results are infinite, or NaN, where scalar arithmetic has them so, but for factors below 2^-133, which count
//! as zero beside an infinity. Elements below 2^-110 lose the bits of their smaller parts.

use super::MatmulProblem;
use super::tma_wgmma::launch::Step;
use super::tma_wgmma::maps::{InputMap, Major, Matrix, narrow};
use super::tma_wgmma::model::Work;
use super::tma_wgmma::raster_rows;
use super::tma_wgmma::variants::Way;
use crate::driver::TmaType;
use crate::launch::{LaunchConfig, linear_grid};
use crate::plan::{Call, Launch};
use crate::select::{Algorithm, Config, Refusal, check_hopper};
use crate::{Context, DType, Error, Stream, TensorDesc};
use kernel_abi::epilogue::FusedEpilogueParam;
use kernel_abi::ops::matmul::{
    F32_PARTS, MAX_BATCH_DIMS, MatmulOperand, MatmulPackParams, MatmulTile, MatmulTmaParams, OUTPUT_THREADS,
    PART_PAIRS, TILE_128X128,
};
use kernel_abi::tickets::TicketsParam;

/// A row of the kernel list.
struct Row {
    symbol: &'static str,
    a: Major,
    b: Major,
}

macro_rules! rows {
    ($(($symbol:ident, $a:ident, $b:ident)),* $(,)?) => {
        &[$(Row { symbol: stringify!($symbol), a: major!($a), b: major!($b) }),*]
    };
}

macro_rules! major {
    (k) => {
        Major::K
    };
    (mn) => {
        Major::Mn
    };
}

macro_rules! symbol {
    (($symbol:ident) $(,)?) => {
        stringify!($symbol)
    };
}

const KERNELS: &[Row] = kernel_abi::matmul_bf16x3_wgmma_kernels!(rows);

/// The kernel that takes elements apart.
const PARTS: &str = kernel_abi::matmul_bf16x3_wgmma_parts_kernels!(symbol);

const TILE: MatmulTile = TILE_128X128;

/// What parts in the workspace are aligned to.
const GRAIN: u64 = 128;

/// f32 as three bf16.
pub(super) struct Bf16x3Wgmma;

/// All operands, those of the transpose where that makes c's rows contiguous.
struct Sides {
    exchanged: bool,
    gemm_m: u32,
    gemm_n: u32,
    gemm_k: u32,
    batch_dims: [u32; MAX_BATCH_DIMS],
    /// Maps of the parts.
    a: InputMap,
    b: InputMap,
    c: MatmulOperand,
}

impl Sides {
    fn of(problem: &MatmulProblem) -> Result<Self, Refusal> {
        if problem.a().dtype() != DType::F32 {
            return Err(Refusal::new(format!("has kernels for f32, the element type is {}", problem.a().dtype())));
        }
        let (a, b, c) = (Matrix::of(&problem.a_matrix()), Matrix::of(&problem.b_matrix()), Matrix::of(problem.c()));
        let batch = |desc: &TensorDesc| desc.strides()[..desc.rank() - 2].to_vec();
        let exchanged = c.col_stride != 1 && c.row_stride == 1 && c.rows > 1;
        let (a, a_batch, b, b_batch, c) = if exchanged {
            (b.transposed(), batch(problem.b()), a.transposed(), batch(problem.a()), c.transposed())
        } else {
            (a, batch(problem.a()), b, batch(problem.b()), c)
        };
        let batch_dims = problem.batch_dims();
        let mut dims = [1; MAX_BATCH_DIMS];
        for (dim, &extent) in dims[MAX_BATCH_DIMS - batch_dims.len()..].iter_mut().zip(batch_dims) {
            *dim = narrow("batch", extent)?;
        }
        let mut batch_strides = [0; MAX_BATCH_DIMS];
        batch_strides[MAX_BATCH_DIMS - batch_dims.len()..].copy_from_slice(&batch(problem.c()));
        // Parts stand below each other, and the last block of k reaches beyond its end.
        let reach = |extent: i64| i64::from(F32_PARTS) * (extent + i64::from(TILE.gemm_k));
        let _ = (narrow("gemm_m in parts", reach(c.rows))?, narrow("gemm_n in parts", reach(c.cols))?);
        let _ = narrow("gemm_k in parts", reach(a.cols))?;
        let n_tiles = TILE.n_tiles(0, [c.rows as u64, c.cols as u64, problem.n_batch() as u64]);
        let _ = narrow("the number of tiles", n_tiles as i64)?;
        Ok(Sides {
            exchanged,
            gemm_m: c.rows as u32,
            gemm_n: c.cols as u32,
            gemm_k: a.cols as u32,
            batch_dims: dims,
            a: InputMap::of_parts(&a, &a_batch, batch_dims, TILE.gemm_k),
            b: InputMap::of_parts(&b.transposed(), &b_batch, batch_dims, TILE.gemm_k),
            c: MatmulOperand { address: 0, batch_strides, row_stride: c.row_stride, col_stride: c.col_stride },
        })
    }

    fn row(&self) -> &'static Row {
        let fits = |row: &&Row| (row.a, row.b) == (self.a.major, self.b.major);
        KERNELS.iter().find(fits).expect("there is a kernel for each orientation")
    }

    /// Where b's parts begin, behind a's, and the workspace ends.
    fn layout(&self) -> (u64, u64) {
        let bytes = |map: &InputMap| map.pack.as_ref().map_or(0, |pack| pack.bytes.next_multiple_of(GRAIN));
        (bytes(&self.a), bytes(&self.a) + bytes(&self.b))
    }

    fn n_batch(&self) -> u32 {
        self.batch_dims.iter().product()
    }

    /// Whether a thread can store its two neighbouring sums at once.
    fn stores_pairs(&self, address: u64) -> bool {
        let [s0, s1, s2] = self.c.batch_strides;
        let all = [s0, s1, s2, self.c.row_stride, i64::from(self.gemm_n)];
        self.c.col_stride == 1 && all.iter().fold(address, |all, &elems| all | (elems as u64 * 4)).is_multiple_of(8)
    }

    fn params(&self, n_units: u32) -> MatmulTmaParams {
        let part_rows = |map: &InputMap| map.pack.as_ref().map_or(0, |pack| pack.params.part_rows as u32);
        MatmulTmaParams {
            a_map: [0; 16],
            b_map: [0; 16],
            c_map: [0; 16],
            c: self.c,
            partials: 0,
            gemm_m: self.gemm_m,
            gemm_n: self.gemm_n,
            gemm_k: self.gemm_k,
            n_batch: self.n_batch(),
            batch_dims: self.batch_dims,
            raster_rows: raster_rows(TILE, 0, n_units),
            a_batch_steps: self.a.batch_steps,
            alpha: 1.0,
            b_batch_steps: self.b.batch_steps,
            beta: 0.0,
            output: OUTPUT_THREADS,
            transposed: 0,
            n_slices: 1,
            slice_k_blocks: self.gemm_k.div_ceil(TILE.gemm_k),
            store_bytes: 4,
            partial_pitch: 0,
            a_part_rows: part_rows(&self.a),
            b_part_rows: part_rows(&self.b),
            outer_blocks: self.gemm_k.div_ceil(TILE.gemm_k),
            a_outer_batch: 0,
            b_outer_batch: 0,
            sharers_log2: 0,
            keep: 0,
            bias_along_rows: 0,
            epilogue: FusedEpilogueParam::NONE,
            z_batch_strides: [0; 3],
            z_row_stride: 0,
            tickets: TicketsParam::NONE,
        }
    }
}

impl Algorithm<MatmulProblem> for Bf16x3Wgmma {
    fn name(&self) -> &'static str {
        "bf16x3_wgmma"
    }

    fn configs(&self, problem: &MatmulProblem, context: &Context) -> Result<Vec<Config>, Refusal> {
        check_hopper(context)?;
        Ok(vec![Config(Sides::of(problem)?.row().symbol)])
    }

    fn workspace_bytes(&self, problem: &MatmulProblem, _: Config) -> u64 {
        Sides::of(problem).map_or(0, |sides| sides.layout().1)
    }

    fn estimate_us(&self, problem: &MatmulProblem, _: Config, context: &Context) -> f64 {
        /// The two kernels that take inputs apart: their launches, and how much slower than plain copies they are.
        const LAUNCHES_US: f64 = 3.6;
        const SLOWNESS: f64 = 1.2;
        let (Ok(sides), info) = (Sides::of(problem), context.info()) else { return f64::INFINITY };
        let blocks = sides.gemm_k.div_ceil(TILE.gemm_k) * PART_PAIRS.len() as u32;
        let products = Work {
            tile: TILE,
            way: Way::PLAIN,
            gemm_m: sides.gemm_m.into(),
            gemm_n: sides.gemm_n.into(),
            gemm_k: u64::from(blocks) * u64::from(TILE.gemm_k),
            n_batch: sides.n_batch().into(),
            store_bytes: 8,
            packed_bytes: 0,
            operand_bytes: problem.c().span_bytes() as f64 + sides.layout().1 as f64,
            slots: context.active_clusters(TILE.cluster),
            bytes_per_us: info.bytes_per_us,
        };
        // Of each element 4 bytes are read and 6 written.
        let moved = sides.layout().1 as f64 * 10.0 / 6.0;
        products.estimate_us() + LAUNCHES_US + SLOWNESS * moved / info.bytes_per_us
    }

    fn prepare(&self, problem: &MatmulProblem, config: Config, context: &Context) -> Result<Box<dyn Launch>, Error> {
        const BLOCK: u32 = 256;
        let sides = Sides::of(problem).map_err(|refusal| refusal.into_error(self.name(), problem))?;
        let function = context.function(config.0)?;
        function.allow_dynamic_shared(TILE.smem_bytes() as usize)?;
        let n_units = (context.info().n_units as u64).max(1);
        let n_tiles = TILE.n_tiles(0, [sides.gemm_m.into(), sides.gemm_n.into(), sides.n_batch().into()]);
        let grid = n_tiles.div_ceil(n_tiles.div_ceil(n_units));
        let step = Step {
            function,
            config: LaunchConfig {
                grid: [grid as u32, 1, 1],
                block: [TILE.threads(), 1, 1],
                shared_bytes: TILE.smem_bytes(),
                programmatic: true,
                ..LaunchConfig::default()
            },
        };
        let apart = |map: &InputMap| -> Result<_, Error> {
            let params = map.pack.as_ref().expect("parts lie in the workspace").params;
            let n_threads = params.batch_dims.iter().product::<u64>() * params.part_rows * params.pitch
                / u64::from(MatmulPackParams::ELEMS);
            let config = LaunchConfig { programmatic: true, ..linear_grid(n_threads as i64, BLOCK) };
            Ok((Step { function: context.function(PARTS)?, config }, params))
        };
        let parts = [apart(&sides.a)?, apart(&sides.b)?];
        Ok(Box::new(PartsLaunch { step, params: sides.params(n_units as u32), parts, sides }))
    }
}

/// Launches whose parameters are complete but for addresses, and so maps, and scalars.
struct PartsLaunch {
    step: Step,
    params: MatmulTmaParams,
    parts: [(Step, MatmulPackParams); 2],
    sides: Sides,
}

impl Launch for PartsLaunch {
    fn launch(&self, stream: &Stream, call: &mut Call<'_>) -> Result<(), Error> {
        let stream = stream.gpu_stream_for(self.step.function.name())?;
        let context = stream.context();
        let sides = &self.sides;
        let operands = if sides.exchanged { [1, 0] } else { [0, 1] };
        let (workspace, _) = call.workspace.range();
        let places = [workspace, workspace + sides.layout().0];
        for (i, (step, params)) in self.parts.iter().enumerate() {
            let mut params = *params;
            (params.from, params.to) = (call.address(operands[i]), places[i]);
            step.launch(stream, &params)?;
        }
        let mut params = self.params;
        params.a_map = sides.a.encode(context, TmaType::BF16, places[0], TILE.gemm_m, TILE.gemm_k)?;
        params.b_map = sides.b.encode(context, TmaType::BF16, places[1], TILE.gemm_n, TILE.gemm_k)?;
        params.c.address = call.address(2);
        params.store_bytes = if sides.stores_pairs(params.c.address) { 8 } else { 4 };
        (params.alpha, params.beta) = (call.alpha as f32, call.beta as f32);
        self.step.launch(stream, &params)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sides(text: &str) -> Sides {
        Sides::of(&format!("matmul:forward {text}").parse().unwrap()).unwrap()
    }

    #[test]
    fn parts_lie_below_each_other() {
        let sides = sides("a=65x67:f32 b=67x129:f32");
        // k is contiguous in a, whose parts have its 65 rows of 72 elements; in b it is padded to whole blocks.
        assert_eq!((sides.a.major, sides.b.major), (Major::K, Major::Mn));
        let params = sides.params(132);
        assert_eq!((params.a_part_rows, params.b_part_rows), (65, 128));
        let a_bytes = (3 * 65 * 72 * 2u64).next_multiple_of(128);
        assert_eq!(sides.layout(), (a_bytes, a_bytes + 3 * 128 * 136 * 2));
    }

    #[test]
    fn refusals_name_the_numbers() {
        let refusal = |text: &str| {
            let problem = format!("matmul:forward {text}").parse().unwrap();
            Sides::of(&problem).map(|_| ()).unwrap_err().0
        };
        assert!(refusal("a=2x3:f16 b=3x4:f16").contains("the element type is f16"));
        assert!(refusal("a=2x800000000:f32 b=800000000x2:f32").contains("gemm_k in parts is 2400000192"));
    }
}
