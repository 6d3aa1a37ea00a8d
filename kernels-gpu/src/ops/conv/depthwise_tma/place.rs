//! Which rows and columns a block has, which of them a thread, and which come next.

use crate::math::tensor_core::TensorCore;
use cuda_std::mbarrier;
use cuda_std::thread::thread_idx_x;
use cuda_std::tma::{self, MapAddress};
use kernel_abi::ops::conv::depthwise_tma::{ConvDepthwiseTmaParams, DepthwiseTmaForm};

/// What a block works on at a time.
pub(super) struct Tile {
    /// First image.
    pub(super) image: i32,
    /// First column of spans.
    pub(super) column: i32,
    /// First row of spans, and the one behind the last.
    pub(super) rows: [i32; 2],
    /// First step, and the one behind the last.
    pub(super) steps: [i32; 2],
    /// The same of the steps that bring rows of the image; none where the second is not above the first.
    filled: [i32; 2],
}

impl Tile {
    /// Tile `index` of those of a slice.
    #[inline(always)]
    pub(super) fn new(p: &ConvDepthwiseTmaParams, form: DepthwiseTmaForm, index: u32) -> Self {
        let (rest, column) = p.column_tiles.div_rem(index);
        let (image, band) = p.bands.div_rem(rest);
        let begin = (band * p.tile.rows) as i32;
        let end = least(begin + p.tile.rows as i32, form.spans(p.target_dims[0]));
        // Steps that bring nothing to the tile's first row are left out.
        let before = form.held() as i32 - 1;
        let first = most(begin, least(p.filled[0], begin + before));
        let steps = [first, end + before];
        Tile {
            image: (image * p.tile.images) as i32,
            column: (column * p.tile.spans(form)) as i32,
            rows: [begin, end],
            steps,
            filled: [most(first, p.filled[0]), least(steps[1], p.filled[1])],
        }
    }

    /// Whether a step brings rows.
    #[inline(always)]
    pub(super) fn is_filled(&self, step: i32) -> bool {
        step >= self.filled[0] && step < self.filled[1]
    }
}

#[inline(always)]
fn least(a: i32, b: i32) -> i32 {
    if a < b { a } else { b }
}

#[inline(always)]
fn most(a: i32, b: i32) -> i32 {
    if a < b { b } else { a }
}

/// What is to be loaded next.
pub(super) struct Loads {
    /// The tile's index.
    index: u32,
    image: i32,
    /// First column of spans.
    column: i32,
    /// Step, and the one behind the tile's last.
    step: i32,
    end: i32,
}

impl Loads {
    /// From a tile on.
    #[inline(always)]
    pub(super) fn new(p: &ConvDepthwiseTmaParams, form: DepthwiseTmaForm, index: u32) -> Self {
        let mut loads = Loads { index, image: 0, column: 0, step: 0, end: 0 };
        loads.seek(p, form);
        loads
    }

    /// Goes on to the next tile with steps that bring rows, beginning with the one at hand.
    #[inline(always)]
    fn seek(&mut self, p: &ConvDepthwiseTmaParams, form: DepthwiseTmaForm) {
        while self.index < p.n_tiles {
            let tile = Tile::new(p, form, self.index);
            (self.image, self.column) = (tile.image, tile.column);
            [self.step, self.end] = tile.filled;
            if self.step < self.end {
                return;
            }
            self.index += p.workers;
        }
    }

    /// Has the next step's rows copied, if there are any left.
    ///
    /// # Safety
    /// As [`run`](super::run); one thread, and nobody reads what was there any more.
    #[inline(always)]
    pub(super) unsafe fn issue(
        &mut self,
        p: &ConvDepthwiseTmaParams,
        form: DepthwiseTmaForm,
        map: MapAddress,
        channel: i32,
        barrier: u32,
        to: u32,
    ) {
        if self.index >= p.n_tiles {
            return;
        }
        let stride = form.stride as i32;
        let at = [channel, self.column * stride - p.padding[1], self.step * stride - p.padding[0], self.image];
        mbarrier::arrive_expect_bytes(barrier, p.tile.step_bytes(form));
        tma::load_4d(to, map, barrier, at);
        self.step += 1;
        if self.step == self.end {
            self.index += p.workers;
            self.seek(p, form);
        }
    }
}

/// A thread's part of each tile.
pub(super) struct Place {
    /// Which pair of channels of the slice.
    pub(super) pair: u32,
    /// Which strip, of which image.
    strip: u32,
    image: u32,
    /// Where its first column lies in the rows of a step.
    pub(super) source: u32,
    /// Where it lies in the results of a step.
    pub(super) target: u32,
    /// Whether there is such a part; else it is that of the first thread.
    pub(super) is_able: bool,
}

impl Place {
    #[inline(always)]
    pub(super) fn new(p: &ConvDepthwiseTmaParams, form: DepthwiseTmaForm) -> Self {
        let (rest, pair) = p.pairs.div_rem(thread_idx_x());
        let (image, strip) = p.strips.div_rem(rest);
        let is_able = image < p.tile.images;
        let (image, strip, pair) = if is_able { (image, strip, pair) } else { (0, 0, 0) };
        let column = strip * form.strip;
        let in_position = 4 * pair;
        let source = image * form.stride * p.tile.row_bytes(form) + column * form.stride * p.tile.position_bytes();
        let target =
            image * form.spread * p.tile.result_row_bytes(form) + column * form.spread * p.tile.position_bytes();
        Place { pair, strip, image, source: source + in_position, target: target + in_position, is_able }
    }

    /// Adds `beta · prior` to the sums of a row of the target, where there is one.
    ///
    /// # Safety
    /// As [`run`](super::run).
    #[inline(always)]
    pub(super) unsafe fn add_prior<T: TensorCore, const WIDE: usize>(
        &self,
        p: &ConvDepthwiseTmaParams,
        form: DepthwiseTmaForm,
        tile: &Tile,
        channel: i32,
        row: i32,
        sums: &mut [[f32; 2]; WIDE],
    ) {
        let [height, width] = p.target_dims;
        let (image, c) = (tile.image + self.image as i32, channel + 2 * self.pair as i32);
        let first = tile.column * form.spread as i32 + (self.strip * WIDE as u32) as i32;
        let position = (i64::from(image) * i64::from(height) + i64::from(row)) * i64::from(width) + i64::from(first);
        let mut at = p.target + 2 * (position * i64::from(p.c) + i64::from(c)) as u64;
        let end = if image < p.n && c < p.c && row < height { width } else { 0 };
        let mut i = 0;
        while i < WIDE {
            if first + (i as i32) < end {
                let prior = T::unpack(*(at as *const u32));
                let sum = sums.get_unchecked_mut(i);
                *sum = [sum[0] + p.beta * prior[0], sum[1] + p.beta * prior[1]];
            }
            at += 2 * p.c as u64;
            i += 1;
        }
    }
}
