//! Which problems the kernels take, and how they cut them.

use crate::DType;
use crate::launch::div_ceil;
use crate::ops::conv::depthwise::{Action, Geometry};
use crate::ops::conv::{ConvPass, ConvProblem};
use crate::select::Refusal;
use kernel_abi::division::Divisor;
use kernel_abi::ops::conv::DepthwiseParams;
use kernel_abi::ops::conv::depthwise_planes::{
    ConvDepthwisePlanesParams, DEPTHWISE_PLANES_COLUMNS, DEPTHWISE_PLANES_MAX_IMAGES, DEPTHWISE_PLANES_MAX_SLOTS,
    DEPTHWISE_PLANES_PAIRS, DEPTHWISE_PLANES_WARPS, DepthwisePlanesForm, DepthwisePlanesTile,
};
use kernel_abi::ops::conv::halo_wgmma::MAX_SHARED_BYTES;

/// A row of the kernel list.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) symbol: &'static str,
    form: DepthwisePlanesForm,
    dtype: DType,
}

macro_rules! rows {
    ($(($symbol:ident, $r:literal, $stride:literal, $odd_source:literal, $odd_target:literal, $dtype:ident)),* $(,)?) => {
        &[$(Row {
            symbol: stringify!($symbol),
            form: DepthwisePlanesForm {
                extent: $r,
                stride: $stride,
                odd_source: $odd_source,
                odd_target: $odd_target,
            },
            dtype: kernel_abi::dtype_of!($dtype),
        }),*]
    };
}
const KERNELS: &[Row] = kernel_abi::conv_depthwise_planes_kernels!(rows);

/// What copies are multiples of.
const COPY_BYTES: i64 = 16;
/// Jobs whose planes have a place at least: one is computed, the others are under way.
pub(super) const FEWEST_SLOTS: u32 = 3;
/// What finding the rows of another place takes, in units.
const PLACE_UNITS: u32 = 2;
/// What the kernels count jobs to.
const MAX_JOBS: i64 = 1 << 30;

/// A problem as the kernels see it.
#[derive(Debug)]
pub(super) struct View {
    row: &'static Row,
    depthwise: DepthwiseParams,
    n: i32,
    /// Bytes of a plane of the source and of the target.
    planes: [i64; 2],
}

impl View {
    /// Judges the problem.
    pub(super) fn of(problem: &ConvProblem) -> Result<Self, Refusal> {
        let refuse = |reason: String| Err(Refusal::new(reason));
        if problem.conv_pass() == ConvPass::Wgrad {
            return refuse("computes fprop and dgrad, the pass is wgrad".to_owned());
        }
        let geometry = Geometry::of(problem)?;
        if geometry.channels_last {
            return refuse(format!("takes packed images, NCHW, given {} and {}", problem.x(), problem.y()));
        }
        let [dilation_h, dilation_w] = geometry.dilation;
        if geometry.dilation != [1; 2] {
            return refuse(format!("takes neighbouring taps, given dilation {dilation_h}x{dilation_w}"));
        }
        let Geometry { dtype, stride, filter: [r, s], .. } = geometry;
        let depthwise = geometry.params();
        let DepthwiseParams { n, c, source_dims, target_dims, .. } = depthwise;
        if geometry.action() != Action::Gather {
            return refuse(format!("computes dgrad of stride 1x1, given {}x{}", stride[0], stride[1]));
        }
        let odd = [source_dims, target_dims].map(|dims| dims[1] % 2 != 0);
        let row = KERNELS.iter().find(|row| {
            let DepthwisePlanesForm { extent, stride: of_row, odd_source, odd_target } = row.form;
            let fits = (!odd[0] || odd_source) && (!odd[1] || odd_target);
            fits && (row.dtype, [extent as i32; 2], [of_row as i32; 2]) == (dtype, [r, s], stride)
        });
        let Some(row) = row else {
            return refuse(format!(
                "has kernels for f16 and bf16, 3x3 and 5x5 taps with strides 1x1 and, where the source has an even number \
                 of columns, 2x2, and 7x7 taps with stride 1x1, given {dtype}, {r}x{s}, {}x{} and {} columns",
                stride[0], stride[1], source_dims[1]
            ));
        };
        let Ok(n) = i32::try_from(n) else {
            return refuse(format!("counts up to {} images, given {n}", i32::MAX));
        };
        let planes = [source_dims, target_dims].map(|[h, w]| 2 * i64::from(h) * i64::from(w));
        for (name, bytes) in [("source", planes[0]), ("target", planes[1])] {
            if i64::from(c) * bytes % COPY_BYTES != 0 {
                return refuse(format!(
                    "needs {name} images of a multiple of {COPY_BYTES} bytes, given {c} planes of {bytes} bytes"
                ));
            }
        }
        Ok(View { row, depthwise, n, planes })
    }

    /// The kernel that takes it.
    pub(super) fn row(&self) -> &'static Row {
        self.row
    }

    /// Pairs of rows of a plane of the target.
    fn pairs(&self) -> u32 {
        (self.depthwise.target_dims[0] as u32).div_ceil(2)
    }

    /// Images whose planes a product has.
    fn unit_images(&self) -> u32 {
        (DEPTHWISE_PLANES_PAIRS / self.pairs()).clamp(1, self.n as u32)
    }

    /// Bytes that lanes read before the first row of a job and behind the last, of so many products a row.
    fn gaps(&self, products: u32) -> [u32; 2] {
        let DepthwiseParams { padding: [_, padding], source_dims: [_, width], .. } = self.depthwise;
        let stride = self.row.form.stride as i32;
        let first = padding + (padding & 1);
        let behind = DEPTHWISE_PLANES_COLUMNS as i32 * (stride * products as i32 + 1) - first - width;
        // A column more, which goes with an odd row's last one.
        [first, behind + 1].map(|columns| (2 * columns.max(0) as u32).next_multiple_of(COPY_BYTES as u32))
    }

    /// How the kernel cuts it with the least cycles on so many multiprocessors.
    pub(super) fn cut(&self, units: i64) -> Result<Cut, Refusal> {
        let mut best: Option<Cut> = None;
        let products = (self.depthwise.target_dims[1] as u32).div_ceil(DEPTHWISE_PLANES_COLUMNS);
        let bands = self.pairs().div_ceil(DEPTHWISE_PLANES_PAIRS);
        let gaps = self.gaps(products);
        // All images of a unit have a place, whether they are there or not.
        let all_images = (self.n as u32).div_ceil(self.unit_images()).saturating_mul(self.unit_images());
        for channels in [1, 2, 4, 8, 16] {
            let most = DEPTHWISE_PLANES_MAX_IMAGES.min(all_images);
            for images in (self.unit_images()..=most).step_by(self.unit_images() as usize) {
                for parts in 1..=8 {
                    // No part is empty.
                    if products.div_ceil(parts) * (parts - 1) >= products {
                        continue;
                    }
                    let tile = DepthwisePlanesTile { channels, images, bands, parts, slots: FEWEST_SLOTS, gaps };
                    if let Some(cut) = self.try_cut(tile, units)
                        && best.as_ref().is_none_or(|best| cut.cycles < best.cycles)
                    {
                        best = Some(cut);
                    }
                }
            }
        }
        best.ok_or_else(|| {
            let ([height, width], [source, target]) = (self.depthwise.target_dims, self.planes);
            Refusal::new(format!(
                "keeps {FEWEST_SLOTS} times some planes of both images in {MAX_SHARED_BYTES} bytes of shared memory, and \
                 counts up to {MAX_JOBS} times those; given {} images of {} planes of {height}x{width}, of {source} bytes \
                 and {target} bytes",
                self.n, self.depthwise.c
            ))
        })
    }

    /// A tile's cut, unless it does not fit.
    fn try_cut(&self, mut tile: DepthwisePlanesTile, units: i64) -> Option<Cut> {
        let DepthwiseParams { c, source_dims, target_dims, padding, w_strides, flip, .. } = self.depthwise;
        let channels = i64::from(tile.channels);
        let groups = div_ceil(i64::from(c), channels);
        // Runs of other channels than the first begin where copies may.
        if groups > 1 && self.planes.iter().any(|plane| channels * plane % COPY_BYTES != 0) {
            return None;
        }
        let planes = [u32::try_from(self.planes[0]).ok()?, u32::try_from(self.planes[1]).ok()?];
        // Larger ones than a multiprocessor's memory, whose bytes may not even be counted.
        let job_bytes = i64::from(tile.images) * channels * (self.planes[0] + self.planes[1]);
        let fits = |tile: DepthwisePlanesTile| tile.smem_bytes(planes) <= MAX_SHARED_BYTES;
        let [before, behind] = tile.gaps.map(i64::from);
        if job_bytes + before + behind > i64::from(MAX_SHARED_BYTES) || !fits(tile) {
            return None;
        }
        while tile.slots < DEPTHWISE_PLANES_MAX_SLOTS && fits(DepthwisePlanesTile { slots: tile.slots + 1, ..tile }) {
            tile.slots += 1;
        }
        let sets = div_ceil(i64::from(self.n), i64::from(tile.images));
        let jobs = groups.checked_mul(sets).filter(|&jobs| jobs <= MAX_JOBS)?;
        let rounds = div_ceil(jobs, units);
        // As few blocks as do it in the same number of rounds.
        let blocks = div_ceil(jobs, rounds);
        let pairs = self.pairs();
        let band_pairs = pairs.div_ceil(tile.bands);
        let unit_images = self.unit_images();
        let products = (target_dims[1] as u32).div_ceil(DEPTHWISE_PLANES_COLUMNS);
        let part_columns = products.div_ceil(tile.parts);
        let [warps, places] = [DEPTHWISE_PLANES_WARPS / tile.channels, tile.bands * tile.parts];
        let of_place = tile.images.div_ceil(unit_images);
        let of_warp = if places <= warps {
            of_place.div_ceil(warps / places)
        } else {
            (of_place + PLACE_UNITS) * places.div_ceil(warps)
        };
        let cycles = self.cycles(tile, [of_warp, part_columns], [jobs, rounds], job_bytes as f64);
        let params = ConvDepthwisePlanesParams {
            source: 0,
            target: 0,
            w: 0,
            w_strides,
            n: self.n,
            c,
            source_dims,
            target_dims,
            padding,
            flip,
            tile,
            pairs,
            band_pairs: Divisor::new(band_pairs),
            parts: Divisor::new(tile.parts),
            unit_images,
            sets: Divisor::new(sets as u32),
            part_columns,
            jobs: (jobs / blocks) as u32,
            jobs_left: (jobs % blocks) as u32,
            alpha: 1.0,
            beta: 0.0,
        };
        Some(Cut { params, blocks: blocks as u32, shared_bytes: tile.smem_bytes(planes), cycles })
    }

    /// Cycles of a cut whose warps have so many units of so many products, a job moving so many bytes.
    fn cycles(
        &self,
        tile: DepthwisePlanesTile,
        [units, products]: [u32; 2],
        [jobs, rounds]: [i64; 2],
        bytes: f64,
    ) -> f64 {
        /// Instructions of a unit and of a job beside its products.
        const UNIT: f64 = 30.0;
        const JOB: f64 = 200.0;
        /// Bytes of the cache lines at both ends of an image's runs, read and written, that count as moved.
        const ENDS_BYTES: f64 = 128.0;
        /// Instructions of a scheduler in a cycle.
        const RATE: f64 = 0.7;
        /// Warps of a scheduler.
        const WARPS: f64 = (DEPTHWISE_PLANES_WARPS / 4) as f64;
        /// Bytes that a multiprocessor moves in a cycle, where all do.
        const BYTES: f64 = 17.5;
        /// What a block waits for at its ends.
        const ENDS: f64 = 2500.0;
        let DepthwisePlanesForm { extent, stride, odd_source, odd_target } = self.row.form;
        let loads = f64::from(stride * (extent + stride)) * if odd_source { 7.0 } else { 3.5 };
        let product = loads + f64::from(extent * stride) * 1.5 + if odd_target { 20.0 } else { 14.0 };
        let instructions = f64::from(units) * (UNIT + f64::from(products) * product) + JOB;
        let runs = f64::from(tile.images);
        let computing = WARPS * instructions / RATE;
        // Shared memory serves one access of a warp in a cycle, or as many cycles as rows share banks.
        let [source, target] = [stride * self.depthwise.source_dims[1] as u32, self.depthwise.target_dims[1] as u32];
        let loads = f64::from(stride * (extent + stride) * rows_of_a_bank(source)) * if odd_source { 2.0 } else { 1.0 };
        let stores = f64::from(2 * rows_of_a_bank(target)) * if odd_target { 2.0 } else { 1.0 };
        let accessing = f64::from(DEPTHWISE_PLANES_WARPS * units * products) * (loads + stores);
        let moving = (bytes + ENDS_BYTES * runs) / BYTES;
        let under_way = f64::from(tile.slots - 1) * bytes;
        /// Bytes that have to be under way, for that rate.
        const UNDER_WAY: f64 = 60_000.0;
        let moving = moving * (UNDER_WAY / under_way).max(1.0);
        // They overlap, but not wholly; the last job's results leave by themselves.
        let job = (computing.powi(3) + moving.powi(3) + accessing.powi(3)).cbrt();
        let average = jobs as f64 / div_ceil(jobs, rounds) as f64;
        // Where some blocks have a job less, the others move theirs faster.
        let jobs = 0.5 * (average + rounds as f64);
        jobs * job + moving + ENDS
    }
}

/// How many of a product's 8 pairs of rows meet in the same banks of shared memory, so many words apart.
fn rows_of_a_bank(words: u32) -> u32 {
    /// Banks, and those that a pair of rows needs at once.
    const BANKS: u32 = 32;
    const NEEDED: u32 = 4;
    // The places modulo the banks are the multiples of this.
    let apart = 1 << words.trailing_zeros().min(BANKS.trailing_zeros());
    DEPTHWISE_PLANES_PAIRS * apart.max(NEEDED) / BANKS * if apart < NEEDED { 2 } else { 1 }
}

/// How a kernel cuts a problem.
#[derive(Debug)]
pub(super) struct Cut {
    /// All but addresses and scalars.
    pub(super) params: ConvDepthwisePlanesParams,
    pub(super) blocks: u32,
    pub(super) shared_bytes: u32,
    /// Cycles that it takes, by the model that cuts are chosen by.
    pub(super) cycles: f64,
}
