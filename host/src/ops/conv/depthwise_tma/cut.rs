//! Which problems the kernels take, and how each cuts them.

use crate::DType;
use crate::launch::div_ceil;
use crate::ops::conv::depthwise::{Action, Geometry, action};
use crate::ops::conv::{ConvPass, ConvProblem};
use crate::select::Refusal;
use kernel_abi::division::Divisor;
use kernel_abi::ops::conv::DepthwiseParams;
use kernel_abi::ops::conv::depthwise_tma::{
    ConvDepthwiseTmaParams, DEPTHWISE_TMA_MAX_BOX, DEPTHWISE_TMA_MAX_SLOTS, DepthwiseTmaForm, DepthwiseTmaTile,
};
use kernel_abi::ops::conv::im2col_cluster::MULTIPROCESSOR_BYTES;

/// A row of the kernel list.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) symbol: &'static str,
    action: Action,
    pub(super) form: DepthwiseTmaForm,
    /// The most threads of a block, and of a multiprocessor.
    pub(super) threads: u32,
    resident: u32,
    dtype: DType,
}

macro_rules! rows {
    ($(($symbol:ident, $action:ident, $r:literal, $stride:literal, $shift:literal, $ring:literal, $strip:literal,
        $columns:literal, $threads:literal, $blocks:literal, $dtype:ident)),* $(,)?) => {
        &[$(Row {
            symbol: stringify!($symbol),
            action: action!($action),
            form: rows!(@$action $r, $stride, $shift, $strip),
            threads: $threads,
            resident: $threads * $blocks,
            dtype: kernel_abi::dtype_of!($dtype),
        }),*]
    };
    (@gather $r:literal, $stride:literal, $shift:literal, $strip:literal) => {
        DepthwiseTmaForm { extent: $r, stride: $stride, spread: 1, shift: $shift, strip: $strip }
    };
    (@spread $r:literal, $stride:literal, $shift:literal, $strip:literal) => {
        DepthwiseTmaForm { extent: $r, stride: 1, spread: $stride, shift: $shift, strip: $strip }
    };
}
const KERNELS: &[Row] = kernel_abi::conv_depthwise_tma_kernels!(rows);

/// What the system takes of a multiprocessor's shared memory for a block.
const RESERVED_BYTES: u32 = 1024;
/// Channels are copied by so many: 16 bytes.
const CHANNELS: i32 = 8;
/// Steps that have a place at least: one is computed, the others are under way.
pub(super) const FEWEST_SLOTS: u32 = 3;
/// Bytes that a multiprocessor has under way.
const UNDER_WAY: u32 = 56 * 1024;
/// Bands of a tile of columns: more gain nothing.
const MAX_BANDS: i32 = 64;
/// What the kernels count tiles to.
const MAX_TILES: i64 = 1 << 30;

/// A problem as the kernels see it.
#[derive(Debug)]
pub(super) struct View {
    dtype: DType,
    action: Action,
    stride: [i32; 2],
    depthwise: DepthwiseParams,
    pub(super) n: i32,
    pub(super) c: i32,
    /// Height and width of the image that is read, and of the one that is written.
    pub(super) source_dims: [i32; 2],
    pub(super) target_dims: [i32; 2],
}

impl View {
    /// Judges the problem.
    pub(super) fn of(problem: &ConvProblem) -> Result<Self, Refusal> {
        let refuse = |reason: String| Err(Refusal::new(reason));
        if problem.conv_pass() == ConvPass::Wgrad {
            return refuse("computes fprop and dgrad, the pass is wgrad".to_owned());
        }
        let geometry = Geometry::of(problem)?;
        if !geometry.channels_last {
            return refuse(format!("takes channels-last images, given {} and {}", problem.x(), problem.y()));
        }
        let [dilation_h, dilation_w] = geometry.dilation;
        if geometry.dilation != [1; 2] {
            return refuse(format!("takes neighbouring taps, given dilation {dilation_h}x{dilation_w}"));
        }
        let depthwise = geometry.params();
        let DepthwiseParams { n, c, source_dims, target_dims, .. } = depthwise;
        if c % CHANNELS != 0 {
            return refuse(format!("needs a multiple of {CHANNELS} channels, for copies of 16 bytes; there are {c}"));
        }
        let Ok(n) = i32::try_from(n) else {
            return refuse(format!("counts up to {} images, given {n}", i32::MAX));
        };
        let Geometry { dtype, stride, filter: [r, s], .. } = geometry;
        let view = View { dtype, action: geometry.action(), stride, depthwise, n, c, source_dims, target_dims };
        if view.rows().next().is_none() {
            let ([stride_h, stride_w], [pad_h, pad_w]) = (stride, view.tail());
            return refuse(match view.action {
                Action::Spread => format!(
                    "has dgrad of stride 2x2 for f16 and bf16, 3x3 taps of odd padding and 5x5 taps of even padding, given \
                     {dtype}, {r}x{s}, stride {stride_h}x{stride_w} and padding {pad_h}x{pad_w}"
                ),
                Action::Gather | Action::Wgrad => format!(
                    "has kernels for f16 and bf16, 3x3 and 5x5 taps, stride 1x1 and 2x2, given {dtype}, {r}x{s} and \
                     {stride_h}x{stride_w}"
                ),
            });
        }
        Ok(view)
    }

    /// Positions of the target that the first one of the source's first window lies before it: where dx is spread, the
    /// convolution's padding.
    fn tail(&self) -> [i32; 2] {
        let DepthwiseParams { filter, padding, .. } = self.depthwise;
        std::array::from_fn(|i| filter[i] - 1 - padding[i])
    }

    /// The kernels that take it.
    pub(super) fn rows(&self) -> impl Iterator<Item = &'static Row> {
        let wanted = (self.dtype, self.action, self.depthwise.filter, self.stride);
        let tail = self.tail();
        KERNELS.iter().filter(move |row| {
            let DepthwiseTmaForm { extent, stride, spread, shift, .. } = row.form;
            let fits = match row.action {
                Action::Spread => tail.iter().all(|tail| tail.rem_euclid(2) == shift as i32),
                Action::Gather | Action::Wgrad => true,
            };
            fits && (row.dtype, row.action, [extent as i32; 2], [(stride * spread) as i32; 2]) == wanted
        })
    }

    /// The first source position that span 0 meets, negated.
    fn padding(&self, form: DepthwiseTmaForm) -> [i32; 2] {
        match self.action {
            Action::Spread => self.tail().map(|tail| form.held() as i32 - 1 - (tail + form.shift as i32).div_euclid(2)),
            Action::Gather | Action::Wgrad => self.depthwise.padding,
        }
    }

    /// How a kernel cuts it with the least cycles on so many multiprocessors.
    pub(super) fn cut(&self, row: &'static Row, units: i64) -> Result<Cut, Refusal> {
        let form = row.form;
        let spans = self.target_dims.map(|extent| form.spans(extent));
        let all_strips = ceil(spans[1], form.strip as i32);
        let mut best: Option<Cut> = None;
        for channels in (CHANNELS..=DEPTHWISE_TMA_MAX_BOX as i32).step_by(CHANNELS as usize) {
            let most = row.threads as i32 / (channels / 2);
            let slices = ceil(self.c, channels);
            // As few channels as do it in the same number of slices.
            if most == 0 || channels != ceil(ceil(self.c, slices), CHANNELS) * CHANNELS {
                continue;
            }
            let mut strips = 0;
            for column_tiles in 1..=all_strips {
                // The same strips are not tried twice, and the fewest tiles that there can be come first.
                let tried = ceil(all_strips, column_tiles);
                let columns = form.columns(tried as u32 * form.strip);
                let results = tried as u32 * form.strip * form.spread;
                if tried == strips || tried > most || columns.max(results) > DEPTHWISE_TMA_MAX_BOX {
                    continue;
                }
                strips = tried;
                let most_images = if column_tiles == 1 { (most / strips).min(self.n) } else { 1 };
                for images in 1..=most_images.min(DEPTHWISE_TMA_MAX_BOX as i32) {
                    for bands in 1..=spans[0].min(MAX_BANDS) {
                        let rows = ceil(spans[0], bands);
                        if ceil(spans[0], rows) != bands {
                            continue;
                        }
                        let [channels, strips, images, rows] = [channels, strips, images, rows].map(|n| n as u32);
                        let tile = DepthwiseTmaTile { channels, strips, images, rows, slots: FEWEST_SLOTS };
                        let cut = self.try_cut(row, tile, units);
                        if let Some(cut) = cut
                            && best.as_ref().is_none_or(|best| cut.cycles < best.cycles)
                        {
                            best = Some(cut);
                        }
                    }
                }
                if strips == 1 {
                    break;
                }
            }
        }
        best.ok_or_else(|| {
            let [height, width] = self.target_dims;
            Refusal::new(format!(
                "counts up to {MAX_TILES} tiles, images of {height}x{width} and {} channels, {} of them, take more",
                self.c, self.n
            ))
        })
    }

    /// A tile's cut, unless it does not fit.
    fn try_cut(&self, row: &'static Row, mut tile: DepthwiseTmaTile, units: i64) -> Option<Cut> {
        let form = row.form;
        let threads = tile.threads().next_multiple_of(32);
        let block_bytes = |tile: DepthwiseTmaTile| tile.smem_bytes(form) + RESERVED_BYTES;
        let resident = (row.resident / threads).min(MULTIPROCESSOR_BYTES / block_bytes(tile));
        if threads > row.threads || resident == 0 {
            return None;
        }
        let slices = i64::from(ceil(self.c, tile.channels as i32));
        let spans = self.target_dims.map(|extent| form.spans(extent));
        let column_tiles = ceil(spans[1], tile.spans(form) as i32);
        let bands = ceil(spans[0], tile.rows as i32);
        let groups = ceil(self.n, tile.images as i32);
        let tiles = i64::from(column_tiles) * i64::from(bands);
        let tiles = tiles.checked_mul(i64::from(groups)).filter(|&tiles| tiles <= MAX_TILES)?;
        let at_once = units * i64::from(resident);
        let most_workers = (at_once / slices).max(1);
        let rounds = div_ceil(tiles, most_workers);
        // As few workers as do it in the same number of rounds.
        let workers = div_ceil(tiles, rounds);
        let blocks = u32::try_from(workers * slices).ok().filter(|&blocks| blocks <= i32::MAX as u32)?;
        let waves = div_ceil(i64::from(blocks), at_once);
        let used = div_ceil(i64::from(blocks), units).min(i64::from(resident)) as u32;
        // All that is of use, and that the blocks have room for.
        let wanted = UNDER_WAY.div_ceil(used * tile.slot_bytes(form)) + 1;
        while tile.slots < wanted.min(DEPTHWISE_TMA_MAX_SLOTS) {
            let more = DepthwiseTmaTile { slots: tile.slots + 1, ..tile };
            if used * block_bytes(more) > MULTIPROCESSOR_BYTES {
                break;
            }
            tile = more;
        }
        let filled = self.filled(form);
        let steps = (tile.rows + form.held() - 1).min((filled[1] - filled[0]).max(1) as u32);
        let step = self.step_cycles(form, tile, used, [column_tiles, groups]);
        let cycles = waves as f64 * (rounds as f64 * f64::from(steps) * step + BLOCK_CYCLES);
        let divisor = |n: i32| Divisor::new(n as u32);
        let DepthwiseParams { w_strides, flip, .. } = self.depthwise;
        let params = ConvDepthwiseTmaParams {
            source_map: [0; 16],
            target_map: [0; 16],
            target: 0,
            w: 0,
            w_strides,
            n: self.n,
            c: self.c,
            target_dims: self.target_dims,
            padding: self.padding(form),
            filled,
            // What is spread meets taps as they lie.
            flip: if self.action == Action::Spread { 1 - flip } else { flip },
            tile,
            pairs: Divisor::new(tile.channels / 2),
            strips: Divisor::new(tile.strips),
            slices: divisor(slices as i32),
            column_tiles: divisor(column_tiles),
            bands: divisor(bands),
            n_tiles: tiles as u32,
            workers: workers as u32,
            alpha: 1.0,
            beta: 0.0,
            unused: 0,
        };
        Some(Cut { row, params, blocks, threads, cycles })
    }

    /// The first step with rows in the image, and the one behind the last.
    fn filled(&self, form: DepthwiseTmaForm) -> [i32; 2] {
        let (padding, stride) = (self.padding(form)[0], form.stride as i32);
        [padding.div_euclid(stride), (self.source_dims[0] + padding + stride - 1).div_euclid(stride)]
    }

    /// Cycles of a step of so many blocks of a multiprocessor beside each other.
    fn step_cycles(
        &self,
        form: DepthwiseTmaForm,
        tile: DepthwiseTmaTile,
        used: u32,
        [column_tiles, groups]: [i32; 2],
    ) -> f64 {
        /// Instructions of a step beside products and what moves columns, and what a block waits for at its barriers.
        const OTHERS: f64 = 70.0;
        const WAITING: f64 = 350.0;
        /// Instructions of a multiprocessor in a cycle, and of one warp of each scheduler, at best.
        const RATE: f64 = 3.6;
        const RATE_ALONE: f64 = 0.9;
        /// Bytes that it moves in a cycle; how much longer it takes where each is of a cache line of its own, all others
        /// of which are read by other blocks, or by the same one.
        const BYTES: f64 = 17.0;
        const LINES_OF_OTHERS: f64 = 0.3;
        const LINES_OF_ONE: f64 = 0.15;
        let [extent, stride, strip] = [form.extent, form.stride, form.strip].map(f64::from);
        // Positions of a span.
        let positions = f64::from(form.spread * form.spread);
        let columns = f64::from(form.columns(form.strip));
        let instructions = 2.0 * extent * extent * strip + 4.0 * columns * stride + 3.0 * strip * positions + OTHERS;
        let warps = tile.threads().div_ceil(32);
        let computing = f64::from(used * warps) * instructions / RATE;
        let alone = f64::from(warps.div_ceil(SCHEDULERS)) * instructions / RATE_ALONE + WAITING;
        // What is there of the tensors, on average.
        let slices = ceil(self.c, tile.channels as i32);
        let channels = f64::from(self.c) / f64::from(slices);
        let images = f64::from(self.n) / f64::from(groups);
        let read = f64::from(tile.columns(form).min(self.source_dims[1] as u32));
        let written = f64::from(self.target_dims[1]) * f64::from(form.spread) / f64::from(column_tiles);
        let bytes = 2.0 * channels * images * (read * stride + written);
        // Cache lines that a position's channels meet, wherever they begin.
        let aligned = 1u32 << (tile.position_bytes() | (2 * self.c as u32) | LINE_BYTES).trailing_zeros();
        let lines = f64::from(tile.position_bytes() + LINE_BYTES - aligned) / f64::from(tile.position_bytes());
        let lines = if slices > 1 { LINES_OF_OTHERS } else { LINES_OF_ONE } * (lines - 1.0);
        let moving = f64::from(used) * bytes * (1.0 + lines) / BYTES;
        // They overlap, but not wholly.
        (computing.powi(3) + alone.powi(3) + moving.powi(3)).cbrt()
    }
}

/// Schedulers of a multiprocessor, each of which has a quarter of its warps.
const SCHEDULERS: u32 = 4;
/// Bytes of a cache line.
const LINE_BYTES: u32 = 128;
/// Cycles of a block before its first step and behind its last.
const BLOCK_CYCLES: f64 = 2500.0;

fn ceil(a: i32, b: i32) -> i32 {
    a / b + i32::from(a % b != 0)
}

/// How a kernel cuts a problem.
#[derive(Debug)]
pub(super) struct Cut {
    pub(super) row: &'static Row,
    /// All but addresses and scalars.
    pub(super) params: ConvDepthwiseTmaParams,
    pub(super) blocks: u32,
    pub(super) threads: u32,
    /// Cycles that it takes, by the model that cuts are chosen by.
    pub(super) cycles: f64,
}
