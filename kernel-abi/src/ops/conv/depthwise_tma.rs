//! Launch parameters, kernel list and shared-memory layout of `depthwise_tma`.

use crate::division::Divisor;

/// The most rows of the source that have a place in shared memory, or pairs of them where the stride is 2.
pub const DEPTHWISE_TMA_MAX_SLOTS: u32 = 16;
/// Steps whose results have a place: one's are written, the others' are on their way out.
pub const DEPTHWISE_TMA_RESULTS: u32 = 3;
/// What places in shared memory are aligned to, for the copy engine.
const ALIGN: u32 = 128;
/// The most channels, columns or images of a copy.
pub const DEPTHWISE_TMA_MAX_BOX: u32 = 256;

/// What a kernel is compiled for.
///
/// Columns and rows of the target are counted in *spans*: positions, or with `spread` 2 pairs of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DepthwiseTmaForm {
    /// R = S.
    pub extent: u32,
    /// Positions of the source between the windows of neighbouring spans.
    pub stride: u32,
    /// Positions of the target in a span, along both axes: 2 in `dgrad` of stride 2.
    pub spread: u32,
    /// Where spans are pairs, 1 if their second positions meet tap 0, 0 if their first ones do: the padding's parity.
    pub shift: u32,
    /// Neighbouring spans that a thread computes.
    pub strip: u32,
}

impl DepthwiseTmaForm {
    /// Spans that a row, or the rows of a step, of the source may meet.
    #[inline(always)]
    pub const fn held(self) -> u32 {
        (self.extent + self.shift).div_ceil(self.stride * self.spread)
    }

    /// Columns of the source that so many neighbouring spans meet.
    #[inline(always)]
    pub const fn columns(self, spans: u32) -> u32 {
        if self.spread == 1 { (spans - 1) * self.stride + self.extent } else { spans - 1 + self.held() }
    }

    /// Spans of an extent of the target.
    #[inline(always)]
    pub const fn spans(self, extent: i32) -> i32 {
        (extent + self.spread as i32 - 1) / self.spread as i32
    }
}

/// What a block works on at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct DepthwiseTmaTile {
    /// Channels of a slice, a multiple of 8; a thread has two.
    pub channels: u32,
    /// Strips of columns.
    pub strips: u32,
    /// Images beside each other.
    pub images: u32,
    /// Rows of spans.
    pub rows: u32,
    /// Steps whose rows of the source have a place in shared memory.
    pub slots: u32,
}

impl DepthwiseTmaTile {
    /// Threads that compute.
    pub const fn threads(self) -> u32 {
        self.channels / 2 * self.strips * self.images
    }

    /// Bytes of the slice's channels of a position.
    #[inline(always)]
    pub const fn position_bytes(self) -> u32 {
        2 * self.channels
    }

    /// Columns of spans.
    #[inline(always)]
    pub const fn spans(self, form: DepthwiseTmaForm) -> u32 {
        self.strips * form.strip
    }

    /// Columns of the source.
    #[inline(always)]
    pub const fn columns(self, form: DepthwiseTmaForm) -> u32 {
        form.columns(self.spans(form))
    }

    /// Columns of the target.
    #[inline(always)]
    pub const fn result_columns(self, form: DepthwiseTmaForm) -> u32 {
        self.spans(form) * form.spread
    }

    /// Bytes of a row of an image of the source.
    #[inline(always)]
    pub const fn row_bytes(self, form: DepthwiseTmaForm) -> u32 {
        self.columns(form) * self.position_bytes()
    }

    /// Bytes of the rows of a step.
    #[inline(always)]
    pub const fn step_bytes(self, form: DepthwiseTmaForm) -> u32 {
        self.images * form.stride * self.row_bytes(form)
    }

    /// Bytes from one step's place to the next.
    #[inline(always)]
    pub const fn slot_bytes(self, form: DepthwiseTmaForm) -> u32 {
        self.step_bytes(form).next_multiple_of(ALIGN)
    }

    /// Bytes of a row of the target of an image.
    #[inline(always)]
    pub const fn result_row_bytes(self, form: DepthwiseTmaForm) -> u32 {
        self.result_columns(form) * self.position_bytes()
    }

    /// Bytes from the results of a step to those of the next one.
    #[inline(always)]
    pub const fn result_bytes(self, form: DepthwiseTmaForm) -> u32 {
        (self.images * form.spread * self.result_row_bytes(form)).next_multiple_of(ALIGN)
    }

    /// Where the steps' places begin, behind the barriers.
    #[inline(always)]
    pub const fn ring_at() -> u32 {
        (8 * DEPTHWISE_TMA_MAX_SLOTS).next_multiple_of(ALIGN)
    }

    /// Where results begin; before them the taps are there, `[channel][tap]` in f32.
    #[inline(always)]
    pub const fn results_at(self, form: DepthwiseTmaForm) -> u32 {
        Self::ring_at() + self.slots * self.slot_bytes(form)
    }

    /// Dynamic shared memory of a block.
    pub const fn smem_bytes(self, form: DepthwiseTmaForm) -> u32 {
        let taps = 4 * self.channels * form.extent * form.extent;
        let results = DEPTHWISE_TMA_RESULTS * self.result_bytes(form);
        self.results_at(form) + if taps > results { taps } else { results }
    }
}

crate::abi_struct! {
    /// Launch parameters of `depthwise_tma`.
    ///
    /// The *source* is read: x in `fprop`, dy in `dgrad`. The *target* is the other image. *Step* q brings the `stride`
    /// rows of the source from `stride · q - padding` on and ends row `q - held + 1` of the target's spans.
    /// The maps stand first: the hardware wants each at an address that is a multiple of 64.
    pub struct ConvDepthwiseTmaParams {
        /// Map of the source, `[C, W, H, N]`, fastest first, for the rows of a step.
        pub source_map: [u64; 16],
        /// Map of the target, for a row of a tile's spans.
        pub target_map: [u64; 16],
        /// Address of the target.
        pub target: u64,
        /// Address of w.
        pub w: u64,
        /// Distances in w between neighbouring channels, rows and columns, in elements.
        pub w_strides: [i64; 3],
        /// N.
        pub n: i32,
        /// C.
        pub c: i32,
        /// Height and width of the target.
        pub target_dims: [i32; 2],
        /// The first source position that span 0 meets, negated; any sign.
        pub padding: [i32; 2],
        /// The first step with rows in the image, and the one behind the last.
        pub filled: [i32; 2],
        /// 1 when tap 0 is the filter's last element.
        pub flip: u32,
        /// What a block works on at a time.
        pub tile: DepthwiseTmaTile,
        /// Pairs of channels of a slice.
        pub pairs: Divisor,
        /// Strips of a tile.
        pub strips: Divisor,
        /// Slices.
        pub slices: Divisor,
        /// Tiles of a row of spans.
        pub column_tiles: Divisor,
        /// Tiles of a column of spans.
        pub bands: Divisor,
        /// Tiles of a slice.
        pub n_tiles: u32,
        /// Blocks that share the tiles of a slice.
        pub workers: u32,
        /// Factor of the result.
        pub alpha: f32,
        /// Factor of the output's prior value.
        pub beta: f32,
        /// Not used: makes the size a multiple of the alignment.
        pub unused: u32,
    }
}

/// Calls `$callback!` with one row per kernel: symbol, what it does, filter extent, stride, the padding's parity, spans
/// that a row of the source meets, spans of a strip, columns of the source that it meets, the most threads of a block, how
/// many of those fit a multiprocessor, element type.
///
/// `gather` serves `fprop`, and `dgrad` where the stride is 1; `spread` serves `dgrad`. The `narrow` ones have more threads
/// with the registers that shorter strips leave.
#[macro_export]
macro_rules! conv_depthwise_tma_kernels {
    ($callback:ident) => {
        $callback! {
            (depthwisetma_gather_3x3_s1_bf16_sm90, gather, 3, 1, 0, 3, 7, 9, 320, 2, bf16),
            (depthwisetma_gather_3x3_s1_f16_sm90, gather, 3, 1, 0, 3, 7, 9, 320, 2, f16),
            (depthwisetma_gather_3x3_s2_bf16_sm90, gather, 3, 2, 0, 2, 7, 15, 320, 2, bf16),
            (depthwisetma_gather_3x3_s2_f16_sm90, gather, 3, 2, 0, 2, 7, 15, 320, 2, f16),
            (depthwisetma_gather_5x5_s1_bf16_sm90, gather, 5, 1, 0, 5, 7, 11, 192, 2, bf16),
            (depthwisetma_gather_5x5_s1_f16_sm90, gather, 5, 1, 0, 5, 7, 11, 192, 2, f16),
            (depthwisetma_gather_5x5_s1_narrow_bf16_sm90, gather, 5, 1, 0, 5, 4, 8, 256, 2, bf16),
            (depthwisetma_gather_5x5_s1_narrow_f16_sm90, gather, 5, 1, 0, 5, 4, 8, 256, 2, f16),
            (depthwisetma_gather_5x5_s2_bf16_sm90, gather, 5, 2, 0, 3, 7, 17, 256, 2, bf16),
            (depthwisetma_gather_5x5_s2_f16_sm90, gather, 5, 2, 0, 3, 7, 17, 256, 2, f16),
            (depthwisetma_spread_3x3_s2_bf16_sm90, spread, 3, 2, 1, 2, 4, 5, 256, 2, bf16),
            (depthwisetma_spread_3x3_s2_f16_sm90, spread, 3, 2, 1, 2, 4, 5, 256, 2, f16),
            (depthwisetma_spread_5x5_s2_bf16_sm90, spread, 5, 2, 0, 3, 2, 4, 256, 2, bf16),
            (depthwisetma_spread_5x5_s2_f16_sm90, spread, 5, 2, 0, 3, 2, 4, 256, 2, f16),
        }
    };
}
