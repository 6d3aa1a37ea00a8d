//! How planes are cut into tiles, and tiles are shared out.

use super::{Form, MAX_BOX, MAX_RESIDENT, MIN_STAGES, View, WAIT_CYCLES};
use crate::launch::div_ceil;
use crate::ops::conv::im2col_wgmma::AxisClass;
use kernel_abi::ops::conv::halo_wgmma::{FEW_POSITIONS, HaloShared, MAX_STAGES, MIN_BUFFERS, position_bytes};

/// How a plane is cut into tiles.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Cut {
    pub(super) strips: i64,
    pub(super) strip_w: i64,
    pub(super) pitch: i64,
    /// Images of a tile, and rows of each that are copied.
    pub(super) images: i64,
    pub(super) image_rows: i64,
    pub(super) tail: i64,
    pub(super) m_blocks: i64,
    pub(super) shared: HaloShared,
}

/// How taps fall into parts along an axis, each of which reads every `step`-th position.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Parts {
    pub(super) axis: AxisClass,
    pub(super) step: i64,
    pub(super) count: i64,
    /// Distance between neighbouring taps of a part in its positions.
    pub(super) shift: i64,
}

impl Parts {
    pub(super) fn of(axis: AxisClass, step: i64) -> Self {
        let (mut common, mut rest) = (axis.tap_offset, step);
        while rest != 0 {
            (common, rest) = (rest, common % rest);
        }
        // Taps so far apart that a multiple of the step lies between them are in the same part.
        Parts { axis, step, count: (step / common).min(axis.n_taps), shift: axis.tap_offset / common }
    }

    /// Distance between the first and the last tap of part `i`.
    fn span(&self, i: i64) -> i64 {
        ((self.axis.n_taps - i + self.count - 1) / self.count - 1) * self.shift
    }

    /// The longest of them.
    pub(super) fn longest_span(&self) -> i64 {
        self.span(0)
    }

    /// Positions from one row of `extent` to the next, or rows from one image to the next, of `source` that are read: the
    /// padding at its end is the next one's at the begin.
    fn pitch(&self, extent: i64, source: i64) -> i64 {
        let least = |i: i64| {
            let base = self.axis.base + i * self.axis.tap_offset;
            let up = |value: i64| (value + self.step - 1).div_euclid(self.step);
            let padding = up((-base).max(0));
            (extent + self.span(i) - padding).max(up(source - base)).max(extent)
        };
        (0..self.count).map(least).max().unwrap_or(extent).min(extent + self.longest_span())
    }
}

impl View {
    /// The parts that rows and columns fall into.
    pub(super) fn parts(&self) -> [Parts; 2] {
        [1, 2].map(|axis| Parts::of(self.class.axes[axis], self.step[axis]))
    }

    /// The cut that takes the fewest cycles, unless none fits shared memory.
    pub(super) fn cut(&self, form: Form) -> Option<Cut> {
        let [_, h, w] = self.extents;
        let [rows, columns] = self.parts();
        let (span_h, span_w) = (rows.longest_span(), columns.longest_span());
        let (least, most) = match form.resident {
            true => (self.n_products(form), self.n_products(form)),
            false => (MIN_STAGES, i64::from(MAX_STAGES)),
        };
        if form.resident && self.columns > i64::from(form.gemm_n) || most > MAX_RESIDENT {
            return None;
        }
        let (bytes, tile_m) = (position_bytes(form.depth), i64::from(form.tile_m));
        let mut best: Option<Cut> = None;
        for strips in 1..=w.min(64) {
            let strip_w = div_ceil(w, strips);
            let pitch = if strips == 1 { columns.pitch(w, self.read.extents[2]) } else { strip_w + span_w };
            let image_rows = rows.pitch(h, self.read.extents[1]);
            let of_image = (h - 1) * pitch + w;
            let (images, image_rows, m_blocks, tail) = if strips == 1 && of_image <= tile_m {
                // Whole images, as many as fit; behind them all that positions read that are computed for nothing.
                let images = (1 + (tile_m - of_image) / (image_rows * pitch)).min(self.read.images.max(1)).min(MAX_BOX);
                let read = tile_m.max(((images - 1) * image_rows + h) * pitch) + span_h * pitch + span_w;
                (images, image_rows, 1, (read - images * image_rows * pitch).max(span_w))
            } else {
                let m_blocks = div_ceil(h * pitch, tile_m);
                // Tiles begin at multiples of what the pitch has in common with them.
                let farthest = pitch - (1 << pitch.trailing_zeros().min(tile_m.trailing_zeros()));
                (1, (farthest + tile_m + pitch - 1) / pitch + span_h, m_blocks, span_w)
            };
            let boxes = [(pitch - 1) * self.step[2] + 1, (image_rows - 1) * self.step[1] + 1];
            let n_rows = images * image_rows;
            if boxes.iter().any(|&extent| extent > MAX_BOX) || n_rows * pitch * i64::from(bytes) > 1 << 17 {
                continue;
            }
            let positions = (n_rows * pitch + tail) as u32;
            let mut shared = HaloShared::new(positions, bytes, form.gemm_n * bytes, [least as u32, most as u32]);
            if form.tile_m == FEW_POSITIONS {
                // Every other tap is another consumer's: who waits at a stage must have waited there the turn before.
                shared.stages -= shared.stages % 2;
            }
            let cut = Cut { strips, strip_w, pitch, images, image_rows, tail, m_blocks, shared };
            let is_better = |best: Cut| self.cycles(&cut, form) < self.cycles(&best, form);
            if i64::from(shared.stages) >= least && best.is_none_or(is_better) {
                best = Some(cut);
            }
        }
        best
    }

    /// Those of the best cut, unless none fits shared memory.
    pub(in crate::ops::conv) fn least_cycles(&self, form: Form) -> Option<f64> {
        self.cut(form).map(|cut| self.cycles(&cut, form))
    }

    /// Cycles of a multiprocessor for the tiles of a group: those of products, and those in which positions are loaded.
    pub(super) fn cycles(&self, cut: &Cut, form: Form) -> f64 {
        /// For a position, and for each of its bytes: of 64 channels, what the second-level cache was seen to deliver.
        const POSITION: f64 = 0.5;
        const BYTE: f64 = 1.0 / 256.0;
        let buffers = self.n_buffers(form);
        let positions = (buffers * cut.images * cut.image_rows * cut.pitch) as f64;
        let loads = positions * (POSITION + BYTE * f64::from(position_bytes(form.depth)));
        let products = self.n_products(form) as f64 * form.product_cycles();
        self.n_tiles(cut, form.gemm_n) as f64 * (products + loads + self.waits(cut, form) as f64 * WAIT_CYCLES)
    }

    /// Buffers of a tile: for every plane, part and panel of channels.
    pub(super) fn n_buffers(&self, form: Form) -> i64 {
        let parts: i64 = self.parts().iter().map(|parts| parts.count).product();
        self.class.axes[0].n_taps * self.panels(form.depth) * parts
    }

    /// Buffers of a tile that a consumer waits for, since it has but one.
    pub(super) fn waits(&self, cut: &Cut, form: Form) -> i64 {
        if form.resident && cut.shared.buffers == MIN_BUFFERS { self.n_buffers(form) - 1 } else { 0 }
    }

    /// Tiles of a group.
    pub(super) fn n_tiles(&self, cut: &Cut, gemm_n: u32) -> i64 {
        let n_blocks = div_ceil(self.columns, i64::from(gemm_n));
        let images = div_ceil(self.read.images, cut.images);
        images * self.extents[0] * cut.strips * cut.m_blocks * n_blocks
    }

    /// How tiles are shared out: blocks of a group where the filter is resident, else of all, and in how many rounds.
    pub(super) fn shares(&self, cut: &Cut, form: Form, n_units: i64) -> (i64, i64) {
        let n_tiles = self.n_tiles(cut, form.gemm_n);
        // Where each consumer has tiles of its own, a block takes two at a time.
        let (tiles, most) = if form.resident {
            ((n_tiles + 1) / 2, (n_units / self.groups).max(1))
        } else {
            (n_tiles * self.groups, n_units)
        };
        let rounds = div_ceil(tiles, most);
        // As few blocks as do it in the same number of rounds: the others would only draw power.
        let shares = if rounds == 0 { 1 } else { div_ceil(tiles, rounds) };
        (shares, rounds)
    }
}
