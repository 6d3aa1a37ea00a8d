//! Products of runs of 16 target rows.

use super::{ELEMENT_BYTES, plane_bytes, row_bytes};
use crate::math::tensor_core::TensorCore;
use core::marker::PhantomData;
use cuda_std::thread::{lane_id, warp_idx};
use cuda_std::{schedule, shared};
use kernel_abi::ops::conv::depthwise_planes::{
    ConvDepthwisePlanesParams, DEPTHWISE_PLANES_COLUMNS, DEPTHWISE_PLANES_NO_RESULTS, DepthwisePlanesTile,
};

const COLUMNS: i32 = DEPTHWISE_PLANES_COLUMNS as i32;

/// What a lane has of 8 source columns: a pair of columns of all source rows that its two target rows meet.
type Block<const ROWS: usize> = [u32; ROWS];

/// A lane's two target rows of every unit of a band and a part of the columns, and the source rows that they meet. Only
/// the images differ from one unit to the next.
#[derive(Clone, Copy)]
pub(super) struct Place<const ROWS: usize> {
    /// Image of the unit.
    image: u32,
    /// First of the two target rows, and which of them are there.
    row: u32,
    are_there: [bool; 2],
    /// The lane's next columns of the source rows, of planes at `source`, and which bits of them count: none of rows
    /// outside of the image. Columns outside of it are read too.
    from: [u32; ROWS],
    masks: [u32; ROWS],
    source: u32,
    /// The lane's first column.
    column: i32,
    /// Where its first results of both rows belong in a unit's, and how much further on those of the next product do.
    to: [u32; 2],
    step: [u32; 2],
    /// Where results of a row or column that is not there are written.
    nowhere: u32,
    /// The first column of the part's products, and the one behind its last.
    columns: [i32; 2],
    /// Of a part of few products: which bits of the first blocks count, and for each row, for both of two products or
    /// both columns of one where rows may be odd, where its results belong and whether they are there, as 0 or 1.
    bits: [u32; FEW_BLOCKS],
    stores: [[[u32; 2]; 2]; 2],
}

/// The most blocks of a part of few products, whose code has no loops.
const FEW_BLOCKS: usize = 3;

impl<const ROWS: usize> Place<ROWS> {
    /// That of part `index % parts` of band `index / parts`, of the warp's channel of a job.
    #[inline(always)]
    pub(super) fn new<const ODD_SOURCE: bool, const ODD_TARGET: bool>(
        p: &ConvDepthwisePlanesParams,
        stride: i32,
        in_group: u32,
        index: u32,
    ) -> Self {
        let lane = lane_id();
        let (band, part) = p.parts.div_rem(index);
        let (image, in_band) = p.band_pairs.div_rem(lane / 4);
        let pair = band * p.band_pairs.divisor + in_band;
        let is_there = image < p.unit_images && pair < p.pairs;
        let (image, pair) = if is_there { (image, pair) } else { (0, 0) };
        let row = 2 * pair;
        let are_there = [is_there, is_there && row + 1 < p.target_dims[0] as u32];
        let bytes = plane_bytes(p);
        let planes = bytes.map(
            #[inline(always)]
            |bytes| (image * p.tile.channels + in_group) * bytes,
        );

        let begin = (part * p.part_columns) as i32 * COLUMNS;
        let end = begin + p.part_columns as i32 * COLUMNS;
        let width = p.target_dims[1];
        let columns = [begin, if end < width { end } else { width }];
        // Source columns are counted from an even one.
        let column = stride * begin - p.padding[1] - (p.padding[1] & 1) + in_product();
        let (mut from, mut masks) = ([0; ROWS], [0; ROWS]);
        let mut i = 0;
        while i < ROWS {
            let row = stride * row as i32 - p.padding[0] + i as i32;
            let is_inside = (row as u32) < p.source_dims[0] as u32;
            let row = if is_inside { row as u32 } else { 0 };
            let first = (ELEMENT_BYTES as i32 * column) as u32;
            from[i] = (planes[0] + row * row_bytes(p.source_dims)).wrapping_add(first);
            masks[i] = mask(is_inside);
            i += 1;
        }

        let nowhere = shared::dynamic_address()
            + DepthwisePlanesTile::nowhere_at()
            + warp_idx() * DEPTHWISE_PLANES_NO_RESULTS
            + 4 * lane;
        let (mut to, mut step, mut stores) = ([0; 2], [0; 2], [[[nowhere, 0]; 2]; 2]);
        let mut i = 0;
        while i < 2 {
            if are_there[i] {
                let column = begin + in_product();
                to[i] = planes[1] + (row + i as u32) * row_bytes(p.target_dims) + ELEMENT_BYTES * column as u32;
                step[i] = ELEMENT_BYTES * DEPTHWISE_PLANES_COLUMNS;
                let further = if ODD_TARGET { 1 } else { COLUMNS };
                let mut k = 0;
                while k < 2 {
                    let column = column + k as i32 * further;
                    if column < width {
                        stores[i][k] = [to[i] + k as u32 * ELEMENT_BYTES * further as u32, 1];
                    }
                    k += 1;
                }
            }
            i += 1;
        }
        let mut bits = [0; FEW_BLOCKS];
        let mut block = 0;
        while block < FEW_BLOCKS {
            bits[block] = bits_of::<ODD_SOURCE>(column + block as i32 * COLUMNS, p.source_dims[1]);
            block += 1;
        }
        Place { image, row, are_there, from, masks, source: 0, column, to, step, nowhere, columns, bits, stores }
    }
}

/// Which bits of a pair of columns count.
#[inline(always)]
fn bits_of<const ODD: bool>(column: i32, width: i32) -> u32 {
    let is_inside = |column: i32| (column as u32) < width as u32;
    // An odd row's last column has no neighbour.
    schedule::opaque(match (is_inside(column), !ODD || is_inside(column + 1)) {
        (true, true) => u32::MAX,
        (true, false) => 0xffff,
        (false, _) => 0,
    })
}

/// A pair of columns.
#[inline(always)]
unsafe fn load_pair<const ODD: bool>(at: u32) -> u32 {
    if ODD {
        let [low, high] = [shared::load_u16(at), shared::load_u16(at + ELEMENT_BYTES)];
        u32::from(low) | u32::from(high) << 16
    } else {
        shared::load_u32(at)
    }
}

/// All bits or none, of which the compiler does not know that: it would choose between numbers where a mask does with
/// less.
#[inline(always)]
fn mask(is_set: bool) -> u32 {
    schedule::opaque(if is_set { u32::MAX } else { 0 })
}

/// A lane's first column of the 8 of a product or a block.
#[inline(always)]
fn in_product() -> i32 {
    (lane_id() % 4 * 2) as i32
}

/// A warp's products.
pub(super) struct Products<
    'p,
    T: TensorCore,
    const R: usize,
    const STRIDE: usize,
    const BLOCKS: usize,
    const ROWS: usize,
    const ODD_SOURCE: bool,
    const ODD_TARGET: bool,
> {
    p: &'p ConvDepthwisePlanesParams,
    types: PhantomData<T>,
}

/// Where a lane's next results belong.
struct Target {
    /// In shared memory, for each row, and where to what is none.
    at: [u32; 2],
    nowhere: u32,
    /// In the tensor: image and channel.
    image: u32,
    channel: u32,
    column: i32,
}

impl<
    'p,
    T: TensorCore,
    const R: usize,
    const STRIDE: usize,
    const BLOCKS: usize,
    const ROWS: usize,
    const ODD_SOURCE: bool,
    const ODD_TARGET: bool,
> Products<'p, T, R, STRIDE, BLOCKS, ROWS, ODD_SOURCE, ODD_TARGET>
{
    /// Whether registers do for code without loops where there are few products.
    const FEW: bool = R == 3 || R == 5 && STRIDE == 1;
    /// Whether registers do for two products at a time.
    const PAIRED: bool = R == 3 && !(STRIDE == 2 && ODD_TARGET);

    #[inline(always)]
    pub(super) fn new(p: &'p ConvDepthwisePlanesParams) -> Self {
        Products { p, types: PhantomData }
    }

    /// Computes a place's rows of some images, whose planes begin at `source` and whose results at `target`. `PLAIN`:
    /// results are the sums, without factors and prior values.
    ///
    /// # Safety
    /// As [`run`](super::run); `image`, the tensor's, and `channel` say whose planes they are.
    #[inline(always)]
    pub(super) unsafe fn unit<const PLAIN: bool>(
        &self,
        w: &[[u32; BLOCKS]; R],
        place: &mut Place<ROWS>,
        [source, target]: [u32; 2],
        [image, channel]: [u32; 2],
    ) {
        let [first, end] = place.columns;
        if PLAIN && Self::FEW {
            if end - first <= COLUMNS {
                return self.few::<1>(place, w, [source, target]);
            }
            if STRIDE == 1 && !ODD_TARGET && end - first <= 2 * COLUMNS {
                return self.few::<2>(place, w, [source, target]);
            }
        }
        let mut target = Target {
            at: [
                if place.are_there[0] { target + place.to[0] } else { place.nowhere },
                if place.are_there[1] { target + place.to[1] } else { place.nowhere },
            ],
            nowhere: place.nowhere,
            image: image + place.image,
            channel,
            column: first + in_product(),
        };
        // From where the unit before ended.
        let mut columns = Columns { place, column: 0, width: self.p.source_dims[1] };
        columns.go_to(source);
        let mut left = columns.next::<ODD_SOURCE>();
        let mut column = first;
        // Two products at a time: what one waits for, the other computes.
        while PLAIN && Self::PAIRED && column + COLUMNS < end {
            let first = self.product::<false>(&mut columns, &mut left, w);
            let second = self.product::<true>(&mut columns, &mut left, w);
            self.write::<PLAIN>(columns.place, &mut target, first);
            self.write::<PLAIN>(columns.place, &mut target, second);
            column += 2 * COLUMNS;
        }
        while column < end {
            let sums = self.product::<false>(&mut columns, &mut left, w);
            self.write::<PLAIN>(columns.place, &mut target, sums);
            column += COLUMNS;
        }
    }

    /// [`unit`](Self::unit) of one or two products, plainly.
    #[inline(always)]
    unsafe fn few<const N: usize>(&self, place: &Place<ROWS>, w: &[[u32; BLOCKS]; R], [source, target]: [u32; 2]) {
        let source = source.wrapping_sub(place.source);
        let mut x = [[0; ROWS]; FEW_BLOCKS];
        let mut block = 0;
        while block <= N * STRIDE {
            let mut i = 0;
            while i < ROWS {
                let at = source.wrapping_add(*place.from.get_unchecked(i))
                    + ELEMENT_BYTES * DEPTHWISE_PLANES_COLUMNS * block as u32;
                *x.get_unchecked_mut(block).get_unchecked_mut(i) =
                    load_pair::<ODD_SOURCE>(at) & place.bits.get_unchecked(block) & place.masks.get_unchecked(i);
                i += 1;
            }
            block += 1;
        }
        let mut sums = [[0.0; 4]; 2];
        let mut r = 0;
        while r < R {
            let w = w.get_unchecked(r);
            let mut of = [[0; ROWS]; BLOCKS];
            let mut block = 0;
            while block < BLOCKS {
                *of.get_unchecked_mut(block) = *x.get_unchecked(block);
                block += 1;
            }
            multiply::<T, STRIDE, BLOCKS, ROWS, false>(&mut sums[0], &of, r, w);
            if N == 2 {
                let mut block = 0;
                while block < BLOCKS {
                    *of.get_unchecked_mut(block) = *x.get_unchecked(STRIDE + block);
                    block += 1;
                }
                multiply::<T, STRIDE, BLOCKS, ROWS, true>(&mut sums[1], &of, r, w);
            }
            r += 1;
        }
        let mut i = 0;
        while i < 2 {
            let at = |k: usize| {
                let [to, is_there] = *place.stores.get_unchecked(i).get_unchecked(k);
                to + is_there * target
            };
            let pair = |n: usize| {
                let sums = sums.get_unchecked(n);
                T::pack(*sums.get_unchecked(2 * i), *sums.get_unchecked(2 * i + 1))
            };
            if ODD_TARGET {
                shared::store_u16(at(0), pair(0) as u16);
                shared::store_u16(at(1), (pair(0) >> 16) as u16);
            } else {
                shared::store_u32(at(0), pair(0));
                if N == 2 {
                    shared::store_u32(at(1), pair(1));
                }
            }
            i += 1;
        }
    }

    /// The next 8 columns' sums; `left` is the block before those that come next, and becomes the last of them.
    #[inline(always)]
    unsafe fn product<const IS_SECOND: bool>(
        &self,
        columns: &mut Columns<'_, ROWS>,
        left: &mut Block<ROWS>,
        w: &[[u32; BLOCKS]; R],
    ) -> [f32; 4] {
        let mut x = [*left; BLOCKS];
        let mut block = 1;
        while block < BLOCKS {
            *x.get_unchecked_mut(block) = columns.next::<ODD_SOURCE>();
            block += 1;
        }
        *left = *x.get_unchecked(BLOCKS - 1);
        let mut sums = [0.0; 4];
        let mut r = 0;
        while r < R {
            multiply::<T, STRIDE, BLOCKS, ROWS, IS_SECOND>(&mut sums, &x, r, w.get_unchecked(r));
            r += 1;
        }
        sums
    }

    /// Writes the results of a product, and goes on to the next one's place.
    #[inline(always)]
    unsafe fn write<const PLAIN: bool>(&self, place: &Place<ROWS>, target: &mut Target, sums: [f32; 4]) {
        let p = self.p;
        let (column, width) = (target.column, p.target_dims[1]);
        let mut i = 0;
        while i < 2 {
            let mut results = [*sums.get_unchecked(2 * i), *sums.get_unchecked(2 * i + 1)];
            if !PLAIN {
                results = [p.alpha * results[0], p.alpha * results[1]];
                if p.beta != 0.0 && *place.are_there.get_unchecked(i) && target.image < p.n as u32 {
                    // Found anew by whoever has prior values, so that the others do not hold what it takes.
                    let row = schedule::opaque(place.row + i as u32);
                    add_prior::<T>(p, [target.image, target.channel, row, column as u32], &mut results);
                }
            }
            let pair = T::pack(results[0], results[1]);
            // No branches: what is not there goes elsewhere.
            let at = target.at.get_unchecked_mut(i);
            let first = if column < width { *at } else { target.nowhere };
            if ODD_TARGET {
                let second = if column + 1 < width { *at } else { target.nowhere };
                shared::store_u16(first, pair as u16);
                shared::store_u16(second + ELEMENT_BYTES, (pair >> 16) as u16);
            } else {
                shared::store_u32(first, pair);
            }
            *at += *place.step.get_unchecked(i);
            i += 1;
        }
        target.column += COLUMNS;
    }
}

/// Adds a filter row's product of 8 columns. `IS_SECOND`: blocks change places in the product, so that the one that two
/// products share stays in the same registers.
#[inline(always)]
unsafe fn multiply<
    T: TensorCore,
    const STRIDE: usize,
    const BLOCKS: usize,
    const ROWS: usize,
    const IS_SECOND: bool,
>(
    sums: &mut [f32; 4],
    x: &[Block<ROWS>; BLOCKS],
    r: usize,
    w: &[u32; BLOCKS],
) {
    // What a block has for both of the lane's target rows.
    let rows = |block: usize| {
        let block = x.get_unchecked(block);
        [*block.get_unchecked(r), *block.get_unchecked(r + STRIDE)]
    };
    let [left, right] = [rows(0), rows(1)];
    if BLOCKS == 3 {
        let last = rows(2);
        if IS_SECOND {
            T::multiply(sums, [right[0], right[1], last[0], last[1]], [w[1], w[2]]);
            T::multiply_half(sums, left, w[0]);
        } else {
            T::multiply(sums, [right[0], right[1], left[0], left[1]], [w[1], w[0]]);
            T::multiply_half(sums, last, w[2]);
        }
    } else if IS_SECOND {
        T::multiply(sums, [right[0], right[1], left[0], left[1]], [w[1], w[0]]);
    } else {
        T::multiply(sums, [left[0], left[1], right[0], right[1]], [w[0], w[1]]);
    }
}

/// What comes next of a lane's source rows.
struct Columns<'p, const ROWS: usize> {
    place: &'p mut Place<ROWS>,
    column: i32,
    width: i32,
}

impl<const ROWS: usize> Columns<'_, ROWS> {
    /// Goes to the first columns of planes at `source`.
    #[inline(always)]
    fn go_to(&mut self, source: u32) {
        let further = source.wrapping_sub(self.place.source);
        let mut i = 0;
        while i < ROWS {
            self.place.from[i] = self.place.from[i].wrapping_add(further);
            i += 1;
        }
        self.place.source = source;
        self.column = self.place.column;
    }

    /// The next 8 columns.
    #[inline(always)]
    unsafe fn next<const ODD: bool>(&mut self) -> Block<ROWS> {
        let bits = bits_of::<ODD>(self.column, self.width);
        let mut values = [0; ROWS];
        let mut i = 0;
        while i < ROWS {
            let at = self.place.from.get_unchecked_mut(i);
            *values.get_unchecked_mut(i) = load_pair::<ODD>(*at) & bits & self.place.masks.get_unchecked(i);
            *at += ELEMENT_BYTES * DEPTHWISE_PLANES_COLUMNS;
            i += 1;
        }
        self.place.source += ELEMENT_BYTES * DEPTHWISE_PLANES_COLUMNS;
        self.column += COLUMNS;
        values
    }
}

/// Adds `beta · prior` to the sums of two neighbouring columns of the target.
#[inline(always)]
unsafe fn add_prior<T: TensorCore>(
    p: &ConvDepthwisePlanesParams,
    [image, channel, row, column]: [u32; 4],
    sums: &mut [f32; 2],
) {
    let [height, width] = p.target_dims;
    let image = schedule::opaque(image);
    let plane = i64::from(image) * i64::from(p.c) + i64::from(channel);
    let line = plane * i64::from(height) + i64::from(row);
    let mut at = p.target + u64::from(ELEMENT_BYTES) * (line * i64::from(width) + i64::from(column)) as u64;
    let mut i = 0;
    while i < 2 {
        if column as i32 + (i as i32) < width {
            let prior = T::unpack(u32::from(*(at as *const u16)))[0];
            *sums.get_unchecked_mut(i) += p.beta * prior;
        }
        at += u64::from(ELEMENT_BYTES);
        i += 1;
    }
}
