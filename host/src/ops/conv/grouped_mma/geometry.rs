//! Which problems the kernels for narrow groups take, and how they are cut into tiles.

use super::super::cp_async_mma::geometry::check_channels_last;
use kernel_abi::ops::conv::grouped_mma::{
    GROUPED_PIXEL_BYTES, GROUPED_ROWS, GROUPED_SLICE, GROUPED_STAGES, GroupedMmaParams, wgrad_row_parts,
};
use kernel_abi::ops::conv::{ConvMode, ConvPass, ConvProblem, ConvShape};
use kernel_abi::{DType, Problem};

/// A problem as the kernels take it.
pub(super) struct Geometry {
    /// All but addresses and scalars.
    pub(super) params: GroupedMmaParams,
    /// The kernel's pass.
    pub(super) kernel_pass: &'static str,
    /// The width of a group that the kernel is made for.
    pub(super) kernel_width: u32,
    /// Dynamic shared memory of a block.
    pub(super) smem_bytes: u32,
}

/// What a device has for a kernel.
#[derive(Clone, Copy)]
pub(super) struct Device {
    /// Multiprocessors.
    pub(super) n_units: u32,
    /// Shared memory of a multiprocessor.
    pub(super) shared_bytes: u32,
}

/// Blocks that share a multiprocessor, so that one loads while the other computes.
pub(super) const BLOCKS: u32 = 2;
/// Shared memory that the system takes of every block.
const RESERVED_BYTES: u32 = 1024;

impl Device {
    /// By compute capability.
    pub(super) fn new(n_units: usize, (major, minor): (u32, u32)) -> Self {
        let kib = match (major, minor) {
            (8, 0) => 164,
            (8, 7) => 164,
            (8, _) | (12, _) => 100,
            (9..=11, _) => 228,
            _ => 100,
        };
        Device { n_units: n_units as u32, shared_bytes: kib * 1024 }
    }

    /// The most dynamic shared memory that a block may have for [`BLOCKS`] of them to fit.
    pub(super) fn block_bytes(self) -> u32 {
        self.shared_bytes / BLOCKS - RESERVED_BYTES
    }
}

impl Geometry {
    /// Judges a problem: its geometry, or why there is none.
    pub(super) fn of(problem: &ConvProblem, device: Device) -> Result<Self, String> {
        let (pass, shape) = (problem.conv_pass(), problem.shape());
        judge(problem, &shape, &[TAPS.into()])?;
        let width = shape.group_c() as u32;
        let kernel_width = width.max(8);
        let [_, h, w] = shape.axes;
        let stride2 = pass == ConvPass::Dgrad && (h.stride, w.stride) != (1, 1);
        let pair = |values: [i64; 3]| [values[1] as u32, values[2] as u32];
        let (image, output) = (pair(shape.image), pair(shape.output));
        let mirrored = pass == ConvPass::Dgrad && !stride2;
        let flip = (problem.mode() == ConvMode::Convolution) != mirrored;
        let stride = [h.stride as u32, w.stride as u32];
        let dilation = [h.dilation as u32, w.dilation as u32];
        let padding = [h.padding as i32, w.padding as i32];
        let mut params = GroupedMmaParams {
            source: 0,
            filter: 0,
            target: 0,
            partials: 0,
            n: shape.n as u32,
            channels: shape.c as u32,
            width,
            flip: u32::from(flip),
            source_extents: image,
            target_extents: output,
            padding,
            stride,
            dilation,
            cell: [1; 2],
            cell_shift: [0; 2],
            tile: [1; 3],
            halo: [0; 2],
            row_bytes: 0,
            image_bytes: 0,
            even_columns: 0,
            n_tiles: [1; 3],
            slabs: 1,
            slices: (shape.c as u32).div_ceil(GROUPED_SLICE),
            alpha: 1.0,
            beta: 0.0,
        };
        let mut positions = output;
        if pass == ConvPass::Dgrad {
            (params.source_extents, params.target_extents) = (output, image);
            positions = image;
            for axis in 0..2 {
                params.padding[axis] = (TAPS - 1) * dilation[axis] as i32 - padding[axis];
            }
        }
        if stride2 {
            (params.stride, params.cell) = ([1; 2], [2; 2]);
            for axis in 0..2 {
                let before = padding[axis] / 2;
                params.padding[axis] = 1 - before;
                params.cell_shift[axis] = padding[axis] as u32 % 2;
                positions[axis] = (image[axis] - 1 + padding[axis] as u32) / 2 - before as u32 + 1;
            }
        }
        choose_tile(&mut params, positions, stride2, pass, device)?;
        let kernel_pass = if stride2 { "dgrad_stride2" } else { problem.pass() };
        Ok(Geometry { params, kernel_pass, kernel_width, smem_bytes: params.smem_bytes(pass) })
    }

    /// Slabs of partial sums of `wgrad`.
    pub(super) fn n_partials(&self) -> u32 {
        self.params.slabs * wgrad_row_parts(self.kernel_width)
    }
}

/// Blocks of `wgrad`, on however large a device: a workspace's size may not depend on that.
const WGRAD_BLOCKS: u32 = 264;

/// Bytes of partial sums that `wgrad` of a problem [`Geometry::of`] takes needs at most.
pub(super) fn partials_bytes(problem: &ConvProblem) -> u64 {
    let shape = problem.shape();
    let slices = (shape.c as u64).div_ceil(u64::from(GROUPED_SLICE));
    let tiles = problem.y().n_elems() as u64 / shape.k as u64;
    let slabs = (u64::from(WGRAD_BLOCKS) / slices).clamp(1, tiles);
    let row_parts = wgrad_row_parts((shape.group_c() as u32).max(8));
    slabs * u64::from(row_parts) * problem.w().n_elems() as u64 * 4
}

/// Taps of an axis.
const TAPS: i32 = 3;

/// Refuses tensors that do not consist of copies of 16 bytes, channels last.
pub(in crate::ops::conv) fn check_copies(problem: &ConvProblem) -> Result<(), String> {
    let channels = problem.shape().c;
    if channels % 8 != 0 {
        return Err(format!("needs a multiple of 8 channels, for copies of 16 bytes; there are {channels}"));
    }
    check_channels_last(problem)
}

/// Whether the kernels take a problem, tiles aside, where they are made for so many `taps` of an axis.
pub(in crate::ops::conv) fn judge(problem: &ConvProblem, shape: &ConvShape, taps: &[i64]) -> Result<(), String> {
    let dtype = problem.x().dtype();
    if !matches!(dtype, DType::BF16 | DType::F16) {
        return Err(format!("has kernels for f16 and bf16, the element type is {dtype}"));
    }
    if problem.axes().len() != 2 {
        return Err(format!("has kernels for 2 spatial axes, the problem has {}", problem.axes().len()));
    }
    let [_, rows, columns] = shape.filter;
    if rows != columns || !taps.contains(&rows) {
        let taken = taps.iter().map(|taps| format!("{taps}x{taps}")).collect::<Vec<_>>().join(" and ");
        return Err(format!("has kernels for {taken} taps, the filter has {rows}x{columns}"));
    }
    if shape.c != shape.k || !matches!(shape.group_c(), 1 | 2 | 4 | 8 | 16 | 32) {
        return Err(format!(
            "has kernels for groups of 1, 2, 4, 8, 16 or 32 channels on both sides, here they have {} and {}",
            shape.group_c(),
            shape.group_k()
        ));
    }
    check_copies(problem)?;
    let [_, h, w] = shape.axes;
    if problem.conv_pass() == ConvPass::Dgrad {
        let unit = (h.stride, w.stride) == (1, 1);
        let two = (h.stride, w.stride, h.dilation, w.dilation) == (2, 2, 1, 1);
        if !unit && !two {
            return Err(format!(
                "has dgrad for stride 1x1, and for 2x2 with dilation 1x1; given {}x{} with {}x{}",
                h.stride, w.stride, h.dilation, w.dilation
            ));
        }
    }
    // Indices of pixels have 31 bits, positions with their padding and filter elements too.
    const LIMIT: i64 = 1 << 30;
    let padded = |i: usize| {
        let axis = shape.axes[i];
        axis.padding.saturating_add(axis.padding_end).saturating_add(shape.image[i])
    };
    let product = |values: &[i64]| values.iter().fold(1i64, |product, &value| product.saturating_mul(value));
    for (name, value) in [
        ("pixels of x", product(&[shape.n, shape.image[1], shape.image[2]])),
        ("pixels of y", product(&[shape.n, shape.output[1], shape.output[2]])),
        ("elements of the filter", product(&[shape.k, shape.group_c(), rows, columns])),
        ("padded rows", padded(1)),
        ("padded columns", padded(2)),
        ("stride", h.stride.max(w.stride)),
        ("reach of the taps", h.dilation.max(w.dilation).saturating_mul(rows - 1)),
    ] {
        if value >= LIMIT {
            return Err(format!("needs {name} below {LIMIT}, given {value}"));
        }
    }
    Ok(())
}

/// Chooses the tile with which the busiest block has least to do, and fills in all that follows from it.
fn choose_tile(
    params: &mut GroupedMmaParams,
    positions: [u32; 2],
    stride2: bool,
    pass: ConvPass,
    device: Device,
) -> Result<(), String> {
    /// Work of a tile that does not depend on its size: barriers and the wait for its first pixels, in pixels.
    const TILE_COST: u64 = 40;
    /// More positions are never better: two such tiles would not fit shared memory.
    const MAX_EXTENT: u32 = 64;
    let most_blocks = match pass {
        ConvPass::Wgrad => WGRAD_BLOCKS.min(BLOCKS * device.n_units),
        _ => BLOCKS * device.n_units,
    };
    let mut best: Option<(u64, GroupedMmaParams)> = None;
    let mut least_bytes = u32::MAX;
    for &rows in &extents(positions[0], MAX_EXTENT) {
        for &cols in &extents(positions[1], MAX_EXTENT) {
            for n in [1, 2, 3, 4, 6, 8, 12, 16] {
                // Several images only where all of each fits.
                if n > 1 && ((rows, cols) != (positions[0], positions[1]) || n > params.n) {
                    continue;
                }
                let mut tried = *params;
                tried.tile = [n, rows, cols];
                let reach = |i: usize, extent: u32| {
                    let taps = if stride2 { 1 } else { (TAPS as u64 - 1) * u64::from(params.dilation[i]) };
                    u64::from(extent - 1) * u64::from(params.stride[i]) + taps + 1
                };
                let (halo_rows, halo_cols) = (reach(0, rows), reach(1, cols));
                // A tile of more pixels fits no shared memory; its products could overflow.
                if halo_rows.saturating_mul(halo_cols) > 4096 || u64::from(n) * halo_rows * halo_cols > 4096 {
                    continue;
                }
                tried.halo = [halo_rows as u32, halo_cols as u32];
                space_rows(&mut tried);
                let bytes = tried.smem_bytes(pass);
                least_bytes = least_bytes.min(bytes);
                if bytes > device.block_bytes() {
                    continue;
                }
                tried.n_tiles = [params.n.div_ceil(n), positions[0].div_ceil(rows), positions[1].div_ceil(cols)];
                let most_slabs = (most_blocks / params.slices).clamp(1, tried.tiles());
                let rounds = tried.tiles().div_ceil(most_slabs);
                tried.slabs = tried.tiles().div_ceil(rounds);
                // Two rows of warps take 16 positions at a time; a cell is four of them.
                let products = u64::from(tried.positions().next_multiple_of(2 * GROUPED_ROWS));
                let products = if stride2 { 3 * products } else { products };
                let loads = u64::from(tried.halo_pixels());
                let loads = if pass == ConvPass::Wgrad { loads + u64::from(tried.positions()) } else { loads };
                let cost = u64::from(rounds) * (2 * loads + 2 * products + TILE_COST);
                if best.as_ref().is_none_or(|(least, _)| cost < *least) {
                    best = Some((cost, tried));
                }
            }
        }
    }
    match best {
        Some((_, chosen)) => {
            *params = chosen;
            Ok(())
        }
        None => Err(format!(
            "needs at least {least_bytes} bytes of shared memory for {GROUPED_STAGES} tiles of {GROUPED_ROWS} \
             positions, a block has {}",
            device.block_bytes()
        )),
    }
}

/// Fills in how a tile's pixels lie in shared memory.
fn space_rows(params: &mut GroupedMmaParams) {
    /// All banks once.
    const BANKS_BYTES: u32 = 128;
    /// What `ldmatrix` asks of a row's address.
    const STEP: usize = 16;
    let [_, rows, cols] = params.tile;
    params.even_columns = if params.stride[1] == 2 { params.halo[1].div_ceil(2) } else { 0 };
    // The first position of a row, or image, should lie where one more of the row before would. Not all strides let it.
    let spaced = |bytes: u32, step: u32, next: u32| {
        let fits = |bytes: &u32| (step * bytes) % BANKS_BYTES == next % BANKS_BYTES;
        (bytes..bytes + BANKS_BYTES).step_by(STEP).find(fits).unwrap_or(bytes)
    };
    let next_column = params.column_bytes(cols * params.stride[1]);
    params.row_bytes = spaced(params.halo[1] * GROUPED_PIXEL_BYTES, params.stride[0], next_column);
    let next_row = rows * params.stride[0] * params.row_bytes;
    params.image_bytes = spaced(params.halo[0] * params.row_bytes, 1, next_row);
}

/// Sizes of parts that an extent can be cut into evenly, and some others.
fn extents(extent: u32, max: u32) -> Vec<u32> {
    let mut sizes: Vec<u32> = (1..=extent.min(max))
        .filter(|&size| {
            let parts = extent.div_ceil(size);
            size <= 8 || size % 8 == 0 || extent.div_ceil(parts) == size
        })
        .collect();
    sizes.dedup();
    sizes
}
