//! Square filters of 3 or 5 without dilation, each thread by itself: for problems so small that their time is that of one
//! thread.
//!
//! A thread has a strip of a target row, of one channel, or of two neighbours where channels are last. It loads the
//! strip's window and the taps at once, and nothing passes through shared memory but the sums of `wgrad`, so that there is
//! one way to memory and back between the launch and the results. Neighbouring strips load the same again, from the
//! first-level cache.
//!
//! Where rows of planes allow it, a strip's source is one access a row, and what the filter reaches beside it single
//! elements ([`quads`]): a thread has two thirds of the instructions.
//!
//! Grid: one-dimensional. Block: up to `WINDOWS_THREADS`.

use super::access::{Access, add_prior};
use super::products::element;
use super::reduce;
use cuda_std::{barrier, thread, warp};
use kernel_abi::ops::conv::{DepthwiseParams, WINDOWS_GROUPS, WINDOWS_QUAD, WINDOWS_THREADS};

const QUAD: usize = WINDOWS_QUAD as usize;

/// The groups of channels of a block of `wgrad`: of each, threads take strips in turns.
const fn groups(last: bool) -> usize {
    if last { WINDOWS_GROUPS as usize } else { 1 }
}
/// The most warps of such a block.
const WARPS: usize = WINDOWS_THREADS[1] as usize / 32;

/// Channels of a thread.
pub const fn channels(last: bool) -> usize {
    if last { 2 } else { 1 }
}

/// Columns of a source window that lie in memory, and where.
struct Columns<const COLUMNS: usize> {
    /// Bytes from the row's beginning to each.
    at: [i32; COLUMNS],
    /// Bit i: column i exists.
    there: u32,
}

/// Position `at` of a dimension whose elements lie `SPREAD` apart, and whether there is one.
#[inline(always)]
fn place<const SPREAD: usize>(at: i32, extent: i32) -> (i32, bool) {
    if SPREAD == 1 {
        (at, (at as u32) < extent as u32)
    } else {
        let index = at / 2;
        (index, at >= 0 && at % 2 == 0 && index < extent)
    }
}

impl<const COLUMNS: usize> Columns<COLUMNS> {
    /// Those from `first` on, of `width`, with `bytes` from one to the next.
    #[inline(always)]
    fn new<const SPREAD: usize>(first: i32, width: i32, bytes: i32) -> Self {
        let mut columns = Columns { at: [0; COLUMNS], there: 0 };
        let mut i = 0;
        while i < COLUMNS {
            let (index, there) = place::<SPREAD>(first + i as i32, width);
            // SAFETY: i is below COLUMNS.
            unsafe { *columns.at.get_unchecked_mut(i) = index * bytes };
            columns.there |= u32::from(there) << i;
            i += 1;
        }
        columns
    }
}

/// An image, or a plane of it, as a thread sees it.
struct Plane {
    first: u64,
    row_bytes: i32,
    column_bytes: i32,
    dims: [i32; 2],
}

impl Plane {
    /// Image `n` from channel `c` on, `c` of those of all images where channels are first.
    #[inline(always)]
    fn new<T, const LAST: bool>(address: u64, dims: [i32; 2], channels: i32, n: u32, c: u32) -> Self {
        let size = size_of::<T>() as i32;
        let column_bytes = if LAST { channels * size } else { size };
        let row_bytes = dims[1] * column_bytes;
        let index = if LAST { n } else { c };
        let offset =
            i64::from(index) * i64::from(dims[0] * row_bytes) + if LAST { i64::from(c) * i64::from(size) } else { 0 };
        Plane { first: address.wrapping_add(offset as u64), row_bytes, column_bytes, dims }
    }

    /// A row's columns, zeros where there are none.
    #[inline(always)]
    unsafe fn load<T: Access<VEC>, const VEC: usize, const SPREAD: usize, const COLUMNS: usize>(
        &self,
        row: i32,
        columns: &Columns<COLUMNS>,
    ) -> [T::Packed; COLUMNS] {
        let (row, there) = place::<SPREAD>(row, self.dims[0]);
        let there = if there { columns.there } else { 0 };
        let first = self.first.wrapping_add(i64::from(row * self.row_bytes) as u64);
        let mut packed = [T::ZEROS; COLUMNS];
        let mut i = 0;
        while i < COLUMNS {
            let at = first.wrapping_add(i64::from(*columns.at.get_unchecked(i)) as u64);
            *packed.get_unchecked_mut(i) = T::load(at, there & (1 << i));
            i += 1;
        }
        packed
    }
}

/// A window of `R` rows.
#[inline(always)]
unsafe fn window<T: Access<VEC>, const VEC: usize, const SPREAD: usize, const R: usize, const COLUMNS: usize>(
    plane: &Plane,
    [row, column]: [i32; 2],
) -> [[T::Packed; COLUMNS]; R] {
    let columns = Columns::<COLUMNS>::new::<SPREAD>(column, plane.dims[1], plane.column_bytes);
    let mut packed = [[T::ZEROS; COLUMNS]; R];
    let mut r = 0;
    while r < R {
        *packed.get_unchecked_mut(r) = plane.load::<T, VEC, SPREAD, COLUMNS>(row + r as i32, &columns);
        r += 1;
    }
    packed
}

/// The taps of `VEC` channels from `c` on, which lie together, loaded `VEC` elements at a time.
#[inline(always)]
unsafe fn load_taps<T: Access<VEC>, const VEC: usize, const R: usize>(
    p: &DepthwiseParams,
    c: i32,
) -> [[T::Packed; R]; R] {
    let mut packed = [[T::ZEROS; R]; R];
    let size = size_of::<T>();
    let first = p.w.wrapping_add(c as u64 * (R * R * size) as u64);
    let mut i = 0;
    while i < R * R {
        let at = first.wrapping_add((i * VEC * size) as u64);
        *packed.get_unchecked_mut(i / R).get_unchecked_mut(i % R) = T::load(at, 1);
        i += 1;
    }
    packed
}

/// Tap after tap with its channels, of what [`load_taps`] has, which is channel after channel with its taps.
#[inline(always)]
unsafe fn unpack_taps<T: Access<VEC>, const VEC: usize, const R: usize>(
    packed: &[[T::Packed; R]; R],
    flip: bool,
) -> [[[f32; VEC]; R]; R] {
    let mut taps = [[[0.0; VEC]; R]; R];
    let tap = |v: usize, tap: usize| {
        let at = v * R * R + tap;
        let word = at / VEC;
        *T::unpack(*packed.get_unchecked(word / R).get_unchecked(word % R)).get_unchecked(at % VEC)
    };
    let mut i = 0;
    while i < R * R {
        let mut v = 0;
        while v < VEC {
            // Both are in registers: a choice, where an index would need memory.
            *element(&mut taps, i / R, i % R, v) = if flip { tap(v, R * R - 1 - i) } else { tap(v, i) };
            v += 1;
        }
        i += 1;
    }
    taps
}

/// Which strip of which plane a thread has.
struct PlaneItem {
    n: u32,
    c: u32,
    /// Of those of all images.
    plane: u32,
    row: u32,
    strip: u32,
}

impl PlaneItem {
    #[inline(always)]
    fn new(p: &DepthwiseParams, item: u32) -> Self {
        let [strips, rows, channels] = p.divisors;
        let (rest, strip) = strips.div_rem(item);
        let (plane, row) = rows.div_rem(rest);
        let (n, c) = channels.div_rem(plane);
        PlaneItem { n, c, plane, row, strip }
    }
}

/// What a thread loads of a row of the source: an access, and columns on either side.
#[derive(Clone, Copy)]
struct Quad<T: Access<QUAD> + Access<1>, const LEFT: usize, const RIGHT: usize> {
    left: [<T as Access<1>>::Packed; LEFT],
    own: <T as Access<QUAD>>::Packed,
    right: [<T as Access<1>>::Packed; RIGHT],
}

impl<T: Access<QUAD> + Access<1>, const LEFT: usize, const RIGHT: usize> Quad<T, LEFT, RIGHT> {
    const NONE: Self = Quad {
        left: [<T as Access<1>>::ZEROS; LEFT],
        own: <T as Access<QUAD>>::ZEROS,
        right: [<T as Access<1>>::ZEROS; RIGHT],
    };

    /// The one at an address, as far as it is there: `[left, own, right]`.
    #[inline(always)]
    unsafe fn load(at: u64, there: [bool; 3]) -> Self {
        let size = size_of::<T>() as u64;
        let [of_left, of_own, of_right] = there.map(u32::from);
        let mut quad = Self::NONE;
        quad.own = <T as Access<QUAD>>::load(at, of_own);
        let mut i = 0;
        while i < LEFT {
            let at = at.wrapping_sub((LEFT - i) as u64 * size);
            *quad.left.get_unchecked_mut(i) = <T as Access<1>>::load(at, of_left);
            i += 1;
        }
        let mut i = 0;
        while i < RIGHT {
            let at = at.wrapping_add((QUAD + i) as u64 * size);
            *quad.right.get_unchecked_mut(i) = <T as Access<1>>::load(at, of_right);
            i += 1;
        }
        quad
    }

    /// A column, the first on the left being 0.
    #[inline(always)]
    unsafe fn column(&self, column: usize) -> f32 {
        if column < LEFT {
            <T as Access<1>>::unpack(*self.left.get_unchecked(column))[0]
        } else if column < LEFT + QUAD {
            *<T as Access<QUAD>>::unpack(self.own).get_unchecked(column - LEFT)
        } else {
            <T as Access<1>>::unpack(*self.right.get_unchecked(column - LEFT - QUAD))[0]
        }
    }
}

/// target = conv(source, w), of planes whose rows are whole numbers of accesses of [`WINDOWS_QUAD`] columns, each of which
/// is the source of `STRIP` columns of the target; `LEFT = R / 2` columns of padding.
///
/// `RIGHT = (STRIP - 1) · STRIDE + R - LEFT - WINDOWS_QUAD`.
pub unsafe fn quads<
    T: Access<QUAD> + Access<STRIP> + Access<1>,
    const R: usize,
    const STRIDE: usize,
    const STRIP: usize,
    const LEFT: usize,
    const RIGHT: usize,
>(
    p: &DepthwiseParams,
) {
    let item = thread::block_idx_x() * thread::block_dim_x() + thread::thread_idx_x();
    if i64::from(item) >= p.n_items {
        return;
    }
    let PlaneItem { n, c, plane, row, strip } = PlaneItem::new(p, item);
    let packed_taps = load_taps::<T, 1, R>(p, c as i32);
    let from = Plane::new::<T, false>(p.source, p.source_dims, p.c, n, plane);
    let column_bytes = (strip * QUAD as u32) as i32 * from.column_bytes;
    let there = [strip > 0, true, strip + 1 < p.divisors[0].divisor];
    let mut x = [Quad::<T, LEFT, RIGHT>::NONE; R];
    let mut r = 0;
    while r < R {
        let row = row as i32 * STRIDE as i32 - p.padding[0] + r as i32;
        let is_there = (row as u32) < from.dims[0] as u32;
        let at = from.first.wrapping_add(i64::from(row * from.row_bytes + column_bytes) as u64);
        *x.get_unchecked_mut(r) = Quad::load(at, there.map(|there| there && is_there));
        r += 1;
    }
    let w = unpack_taps::<T, 1, R>(&packed_taps, p.flip != 0);
    let mut sums = [0.0f32; STRIP];
    let mut r = 0;
    while r < R {
        let mut s = 0;
        while s < R {
            let [tap] = *w.get_unchecked(r).get_unchecked(s);
            let mut i = 0;
            while i < STRIP {
                *sums.get_unchecked_mut(i) += x.get_unchecked(r).column(i * STRIDE + s) * tap;
                i += 1;
            }
            s += 1;
        }
        r += 1;
    }
    let scaled = sums.map(|sum| sum * p.alpha);
    let to = Plane::new::<T, false>(p.target, p.target_dims, p.c, n, plane);
    let column_bytes = (strip * STRIP as u32) as i32 * to.column_bytes;
    let at = to.first.wrapping_add(i64::from(row as i32 * to.row_bytes + column_bytes) as u64);
    if p.beta == 0.0 {
        <T as Access<STRIP>>::store(at, scaled, 1);
    } else {
        add_prior::<T, STRIP>(at, scaled, p.beta);
    }
}

/// target = conv(source, w), where the source may have zeros in between.
///
/// `COLUMNS = (STRIP - 1) · STRIDE + R`, zeros counted.
pub unsafe fn gather<
    T: Access<VEC>,
    const VEC: usize,
    const LAST: bool,
    const R: usize,
    const STRIDE: usize,
    const SPREAD: usize,
    const STRIP: usize,
    const COLUMNS: usize,
>(
    p: &DepthwiseParams,
) {
    let item = thread::block_idx_x() * thread::block_dim_x() + thread::thread_idx_x();
    if i64::from(item) >= p.n_items {
        return;
    }
    let (n, c, plane, row, strip) = if LAST {
        let [inner, middle, outer] = p.divisors;
        let (rest, group) = inner.div_rem(item);
        let (rest, strip) = middle.div_rem(rest);
        let (n, row) = outer.div_rem(rest);
        let c = group * VEC as u32;
        (n, c, c, row, strip)
    } else {
        let PlaneItem { n, c, plane, row, strip } = PlaneItem::new(p, item);
        (n, c, plane, row, strip)
    };
    let column = strip as i32 * STRIP as i32;
    let packed_taps = load_taps::<T, VEC, R>(p, c as i32);
    let from = Plane::new::<T, LAST>(p.source, p.source_dims, p.c, n, plane);
    let first = [row as i32 * STRIDE as i32 - p.padding[0], column * STRIDE as i32 - p.padding[1]];
    let x = window::<T, VEC, SPREAD, R, COLUMNS>(&from, first);
    let w = unpack_taps::<T, VEC, R>(&packed_taps, p.flip != 0);
    let mut sums = [[0.0f32; VEC]; STRIP];
    let mut r = 0;
    while r < R {
        let mut s = 0;
        while s < R {
            let mut i = 0;
            while i < STRIP {
                let x = T::unpack(*x.get_unchecked(r).get_unchecked(i * STRIDE + s));
                let mut v = 0;
                while v < VEC {
                    let tap = *w.get_unchecked(r).get_unchecked(s).get_unchecked(v);
                    *sums.get_unchecked_mut(i).get_unchecked_mut(v) += *x.get_unchecked(v) * tap;
                    v += 1;
                }
                i += 1;
            }
            s += 1;
        }
        r += 1;
    }
    let to = Plane::new::<T, LAST>(p.target, p.target_dims, p.c, n, plane);
    let mut at = to.first.wrapping_add(i64::from(row as i32 * to.row_bytes + column * to.column_bytes) as u64);
    let mut i = 0;
    while i < STRIP {
        let mut results = *sums.get_unchecked(i);
        let mut v = 0;
        while v < VEC {
            *results.get_unchecked_mut(v) *= p.alpha;
            v += 1;
        }
        let there = column + (i as i32) < p.target_dims[1];
        if p.beta == 0.0 {
            T::store(at, results, u32::from(there));
        } else if there {
            add_prior::<T, VEC>(at, results, p.beta);
        }
        at = at.wrapping_add(to.column_bytes as u64);
        i += 1;
    }
}

/// Elements of shared memory: the sums of all warps.
pub const fn n_sums(vec: usize, last: bool, r: usize) -> usize {
    WARPS * vec * r * r * groups(last)
}

/// dw = alpha · Σ x · dy + beta · dw: a block has all of a channel's sums.
///
/// Where channels are last, the groups of a block are neighbouring lanes; else a block has one channel, and threads for its
/// strips, or `channel_run` of them, and a warp for each. `COLUMNS = (STRIP - 1) · STRIDE + R`.
pub unsafe fn wgrad<
    T: Access<VEC>,
    const VEC: usize,
    const LAST: bool,
    const R: usize,
    const STRIDE: usize,
    const STRIP: usize,
    const COLUMNS: usize,
>(
    p: &DepthwiseParams,
    shared: *mut f32,
) {
    let (me, threads) = (thread::thread_idx_x() as usize, thread::block_dim_x() as usize);
    let groups = groups(LAST);
    let (first_channel, slot, group, threads) = if !LAST && p.channel_run > 1 {
        (thread::block_idx_x() * p.channel_run as u32 + (me / 32) as u32, me % 32, 0, 32)
    } else {
        (thread::block_idx_x() * (groups * VEC) as u32, me / groups, me % groups, threads)
    };
    let c = first_channel + (group * VEC) as u32;
    let mut totals = [[[0.0f32; VEC]; R]; R];
    let [strips, rows, _] = p.divisors;
    let mut item = slot as u32;
    while c < p.c as u32 && i64::from(item) < p.n_items {
        let (rest, strip) = strips.div_rem(item);
        let (n, row) = rows.div_rem(rest);
        let plane = if LAST { c } else { n * p.c as u32 + c };
        let y_plane = Plane::new::<T, LAST>(p.target, p.target_dims, p.c, n, plane);
        let x_plane = Plane::new::<T, LAST>(p.source, p.source_dims, p.c, n, plane);
        let (row, column) = (row as i32, strip as i32 * STRIP as i32);
        let y_columns = Columns::<STRIP>::new::<1>(column, p.target_dims[1], y_plane.column_bytes);
        let y = y_plane.load::<T, VEC, 1, STRIP>(row, &y_columns);
        let first = [row * STRIDE as i32 - p.padding[0], column * STRIDE as i32 - p.padding[1]];
        let x = window::<T, VEC, 1, R, COLUMNS>(&x_plane, first);
        let mut r = 0;
        while r < R {
            let mut s = 0;
            while s < R {
                let mut i = 0;
                while i < STRIP {
                    let x = T::unpack(*x.get_unchecked(r).get_unchecked(i * STRIDE + s));
                    let y = T::unpack(*y.get_unchecked(i));
                    let mut v = 0;
                    while v < VEC {
                        *element(&mut totals, r, s, v) += *x.get_unchecked(v) * *y.get_unchecked(v);
                        v += 1;
                    }
                    i += 1;
                }
                s += 1;
            }
            r += 1;
        }
        item += (threads / groups) as u32;
    }

    // The lanes of a warp add up their slots, and leave one sum a group; then the block adds up its warps.
    let (lane, in_block) = (me % 32, me / 32);
    let n_sums = R * R * VEC * groups;
    if groups == 1 {
        let sum = sum_of_lane::<VEC, R>(&totals);
        if threads == 32 {
            // The channel has no other warps.
            if let Some((tap, total)) = sum.filter(|_| c < p.c as u32) {
                reduce::write::<T>(p, tap as i64, c.into(), total);
            }
            return;
        }
        if let Some((tap, total)) = sum {
            *shared.add(in_block * n_sums + tap) = total;
        }
    } else {
        let mut tap = 0;
        while tap < R * R {
            let mut v = 0;
            while v < VEC {
                let mut total = *element(&mut totals, tap / R, tap % R, v);
                let mut distance = 16;
                while distance >= groups {
                    total += warp::shuffle_xor_f32(total, distance as u32);
                    distance /= 2;
                }
                if lane < groups {
                    *shared.add(in_block * n_sums + (tap * VEC + v) * groups + lane) = total;
                }
                v += 1;
            }
            tap += 1;
        }
    }
    barrier::sync_threads();
    let mut at = me;
    while at < n_sums {
        let mut total = 0.0;
        let mut i = 0;
        while i < threads / 32 {
            total += *shared.add(at + i * n_sums);
            i += 1;
        }
        let (tap, v, group) = (at / groups / VEC, at / groups % VEC, at % groups);
        let c = first_channel + (group * VEC + v) as u32;
        if c < p.c as u32 {
            reduce::write::<T>(p, tap as i64, i64::from(c), total);
        }
        at += threads;
    }
}

/// Sums over all lanes of a warp: that of a tap, on one lane, and its number. What is added up halves with the lanes that go
/// on with it, so that the first eight sums take 9 shuffles and not 40.
///
/// # Safety
/// All lanes call it; `VEC` is 1, and `R` 3.
#[inline(always)]
unsafe fn sum_of_lane<const VEC: usize, const R: usize>(totals: &[[[f32; VEC]; R]; R]) -> Option<(usize, f32)> {
    const LAST: usize = 8;
    let total = |i: usize| *totals.get_unchecked(i / R).get_unchecked(i % R).get_unchecked(0);
    let lane = thread::lane_id();
    // The upper half of the lanes goes on with the upper half of the sums.
    let halved = |low: f32, high: f32, distance: u32| {
        let (kept, given) = if lane & distance != 0 { (high, low) } else { (low, high) };
        kept + warp::shuffle_xor_f32(given, distance)
    };
    let four = [0, 1, 2, 3].map(|i| halved(total(i), total(i + 4), 16));
    let two = [0, 1].map(|i| halved(four[i], four[i + 2], 8));
    let one = summed(halved(two[0], two[1], 4), 2);
    let last = summed(total(LAST), 16);
    match lane {
        1 => Some((LAST, last)),
        _ if lane % 4 == 0 => Some((lane as usize / 4, one)),
        _ => None,
    }
}

/// The sum over lanes so far apart, and half as far, and so on.
#[inline(always)]
unsafe fn summed(mut sum: f32, mut distance: u32) -> f32 {
    while distance > 0 {
        sum += warp::shuffle_xor_f32(sum, distance);
        distance /= 2;
    }
    sum
}
