//! How images are cut into strips and the sum into parts, and how long that takes.

use super::super::im2col_wgmma::MULTIPROCESSORS;
use crate::launch::div_ceil;
use kernel_abi::ops::conv::halo_wgmma_split::{Form, INSTRUCTION_ROWS, ROW_TAPS, STEP, StripStage};

/// The largest extent of a copy.
const MAX_BOX: i64 = 256;
/// Stages below which loading waits for computing.
const MIN_STAGES: u32 = 2;
/// The most parts of a row, and instructions of a strip.
const MAX_PARTS: i64 = 64;
const MAX_STEPS: i64 = 64;
/// Blocks of as many parts as there are multiprocessors, at most.
const MAX_ROUNDS: u64 = 4;

/// What of a problem the cut depends on: extents of positions, H and W and their taps.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plane {
    /// The kernels' form.
    pub(super) form: Form,
    /// N · Z.
    pub(super) planes: i64,
    /// P and Q.
    pub(super) output: [i64; 2],
    /// H and W.
    pub(super) image: [i64; 2],
    pub(super) padding: [i64; 2],
    pub(super) taps: [i64; 2],
    /// Distances between taps, 1 where there is one.
    pub(super) dilation: [i64; 2],
    /// Tiles of dw.
    pub(super) tiles: u64,
    /// Whether images and planes of dy lie one behind the other, as parts of rows want them.
    pub(super) planes_are_linear: bool,
}

/// A cut.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Cut {
    pub(super) stage: StripStage,
    /// Parts of a row, and output columns of all but the last.
    pub(super) parts: i64,
    pub(super) part_w: i64,
    /// Strips of a plane of such rows.
    pub(super) row_blocks: i64,
    /// Strips of all images.
    pub(super) n_strips: u64,
    /// Parts of the sum.
    pub(super) splits: u64,
    /// Time, but for the memory's.
    pub(super) us: f64,
}

impl Plane {
    /// The fastest cut, unless none fits shared memory.
    pub(super) fn cut(&self) -> Option<Cut> {
        let q = self.output[1];
        let mut best: Option<Cut> = None;
        let mut last_w = 0;
        for parts in 1..=q.min(if self.planes_are_linear { MAX_PARTS } else { 1 }) {
            let part_w = div_ceil(q, parts);
            let pitch = self.pitch(parts, part_w);
            if part_w == last_w || pitch > MAX_BOX {
                continue;
            }
            last_w = part_w;
            // As many as there really are, now that the width is known.
            let parts = div_ceil(q, part_w);
            for steps in 1..=MAX_STEPS {
                let Some(cut) = self.cut_into(parts, part_w, pitch, steps) else { break };
                if best.is_none_or(|best| cut.us < best.us) {
                    best = Some(cut);
                }
                if cut.row_blocks == 1 {
                    break;
                }
            }
        }
        best
    }

    /// Positions from row to row.
    fn pitch(&self, parts: i64, part_w: i64) -> i64 {
        let span = self.span(1);
        if parts > 1 {
            return part_w + span;
        }
        // A row's padding at the end is the next one's at the begin.
        let (q, padding) = (self.output[1], self.padding[1]);
        (self.image[1] + padding).max(q + span - padding).max(q).min(q + span)
    }

    fn span(&self, axis: usize) -> i64 {
        (self.taps[axis] - 1) * self.dilation[axis]
    }

    fn cut_into(&self, parts: i64, part_w: i64, pitch: i64, steps: i64) -> Option<Cut> {
        let span_h = self.span(0);
        // All taps of an instruction read, whether there are as many or not.
        let span_w = i64::from(ROW_TAPS - 1) * self.dilation[1];
        let length = steps * i64::from(STEP);
        let lead = self.form.lead(self.taps[0] as u32, self.dilation[0] as u32);
        let row_blocks = div_ceil((self.output[0] + i64::from(lead)) * pitch, length);
        // Multiples of the length, modulo the pitch.
        let most_first = if row_blocks == 1 { 0 } else { pitch - gcd(length, pitch) };
        if span_h > MAX_BOX || span_w > MAX_BOX {
            return None;
        }
        let span = [span_h as u32, span_w as u32];
        let stage = StripStage::new(self.form, steps as u32, pitch as u32, most_first as u32, lead, span);
        if stage.stages < MIN_STAGES || stage.rows.iter().any(|&rows| i64::from(rows) > MAX_BOX) {
            return None;
        }
        let n_strips = (self.planes as u64).saturating_mul((row_blocks * parts) as u64);
        if n_strips >= 1 << 30 {
            return None;
        }
        let cut = Cut { stage, parts, part_w, row_blocks, n_strips, splits: 1, us: f64::INFINITY };
        // Parts for whole rounds of blocks.
        (1..=MAX_ROUNDS)
            .map(|rounds| (rounds * MULTIPROCESSORS / self.tiles).clamp(1, n_strips.max(1)))
            .map(|splits| Cut { splits, us: self.time_us(&cut, splits), ..cut })
            .min_by(|a, b| a.us.total_cmp(&b.us))
    }

    /// Time of the products and of adding the parts.
    fn time_us(&self, cut: &Cut, splits: u64) -> f64 {
        /// Multiply-adds that a multiprocessor's tensor cores do in a cycle.
        const PRODUCTS: f64 = 2048.0;
        /// Bytes that shared memory gives them in a cycle.
        const SHARED: f64 = 128.0;
        const ELEMENT_BYTES: u32 = 2;
        /// What the products reach of that.
        const REACHED: f64 = 0.93;
        /// Bytes that the second-level cache delivers to a multiprocessor in a cycle.
        const CACHE: f64 = 40.0;
        /// Cycles from the request of a strip to its first bytes.
        const LATENCY: f64 = 800.0;
        /// Steps until a consumer gives the stage before back.
        const FIRST_STEPS: u32 = 4;
        /// Cycles from a strip to the next that no products hide.
        const STRIP: f64 = 60.0;
        /// Cycles from the first load of a part to the first product, and from the last to the last store.
        const PART: f64 = 3500.0;
        /// Clock under load.
        const CYCLES_PER_US: f64 = 1600.0;
        /// Bytes of partial sums that are written or read in a microsecond.
        const PARTIALS: f64 = 4.0e6;
        /// Launch, and from the end of the first kernel to that of the second, without its work.
        const ENDS_US: f64 = 5.5;
        let stage = cut.stage;
        let computing = f64::from(INSTRUCTION_ROWS * self.form.columns() * STEP) / PRODUCTS;
        let rows = self.form.instructions() * INSTRUCTION_ROWS;
        let reading = f64::from((rows + self.form.columns()) * STEP * ELEMENT_BYTES) / SHARED;
        let products = |steps: u32| {
            let warpgroups = self.form.warpgroups(self.taps[0] as u32);
            f64::from(steps * warpgroups) * computing.max(reading) / REACHED
        };
        let loads = stage.loaded_bytes().map(f64::from).iter().sum::<f64>() / CACHE;
        // From when a stage is free until it is full again, the others' strips are computed.
        let turn = products(FIRST_STEPS.min(stage.steps)) + LATENCY + loads;
        let strip = products(stage.steps).max(loads).max(turn / f64::from(stage.stages - 1));
        let strips = cut.n_strips.div_ceil(splits) as f64;
        let units = self.tiles * splits;
        let rounds = units.div_ceil(MULTIPROCESSORS) as f64;
        let cycles = rounds * (PART + strips * (strip + STRIP));
        ENDS_US + cycles / CYCLES_PER_US + 2.0 * (units * self.tile_bytes()) as f64 / PARTIALS
    }

    /// Bytes of a tile's partial sums.
    pub(super) fn tile_bytes(&self) -> u64 {
        let sums = i64::from(self.form.tile_k * self.form.tile_c) * self.taps[0] * self.taps[1];
        4 * sums as u64
    }
}

/// Greatest common divisor of numbers that are at least 1.
fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { gcd(b, a % b) }
}
