//! Where the first maxima of pooling's windows of 3 × 3 are, as masks of words of two elements: what methods that have rows in
//! shared memory share.

use super::element::{Element, bf16, f16};
use super::vector;
use cuda_std::{math, warp};

/// Rows and columns of a window.
pub const SIDE: usize = 3;
/// Words of a lane.
pub const WORDS: usize = 4;

/// Elements of 16 bits that are compared two at a time.
pub trait Compared: Element<Acc = f32> {
    /// 1.
    const ONE: u32;
    /// Infinity.
    const INFINITY: u32;
    /// Each element's larger one, which is NaN if there is one.
    fn larger(a: u32, b: u32) -> u32;
    /// All bits of the elements that are equal.
    fn same(a: u32, b: u32) -> u32;
    /// All bits of the elements that are less.
    fn less(a: u32, b: u32) -> u32;
    /// Each element's smaller one, which is NaN if there is one.
    fn smaller(a: u32, b: u32) -> u32;
    /// The sums of both elements.
    fn add(a: u32, b: u32) -> u32;
}

macro_rules! compared {
    ($($t:ident: $one:literal, $infinity:literal, $larger:path, $same:path, $less:path, $smaller:path, $add:path;)*) => { $(
        impl Compared for $t {
            const ONE: u32 = $one;
            const INFINITY: u32 = $infinity;
            #[inline(always)]
            fn larger(a: u32, b: u32) -> u32 {
                $larger(a, b)
            }
            #[inline(always)]
            fn same(a: u32, b: u32) -> u32 {
                $same(a, b)
            }
            #[inline(always)]
            fn less(a: u32, b: u32) -> u32 {
                $less(a, b)
            }
            #[inline(always)]
            fn smaller(a: u32, b: u32) -> u32 {
                $smaller(a, b)
            }
            #[inline(always)]
            fn add(a: u32, b: u32) -> u32 {
                $add(a, b)
            }
        }
    )* };
}

compared! {
    f16: 0x3c00, 0x7c00, math::max_nan_f16x2, math::equal_mask_f16x2, math::less_mask_f16x2, math::min_nan_f16x2,
        math::add_f16x2;
    bf16: 0x3f80, 0x7f80, math::max_nan_bf16x2, math::equal_mask_bf16x2, math::less_mask_bf16x2, math::min_nan_bf16x2,
        math::add_bf16x2;
}

/// Both elements of a word.
pub const fn both(element: u32) -> u32 {
    element << 16 | element
}

/// The signs of a word.
pub const SIGNS: u32 = both(0x8000);

/// Of a row of windows' columns, for each word: the maximum, and whether the first or the second column has it, the first that
/// does.
#[derive(Clone, Copy)]
pub struct RowMost {
    pub most: [u32; WORDS],
    pub is_first: [u32; WORDS],
    pub is_second: [u32; WORDS],
}

impl RowMost {
    /// What is no row of the image.
    #[inline(always)]
    pub fn none<T: Compared>() -> Self {
        RowMost { most: [both(T::INFINITY) | SIGNS; WORDS], is_first: [0; WORDS], is_second: [0; WORDS] }
    }

    /// Of so many columns, for maxima that are greater than negative infinity. Whether all of the warp's are is told with it.
    #[inline(always)]
    pub unsafe fn of<T: Compared>(columns: &[[u32; WORDS]; SIDE]) -> (Self, bool) {
        let mut this = Self::none::<T>();
        let mut least = 0;
        vector::for_each!(W < WORDS, {
            let most = T::larger(T::larger(columns[0][W], columns[1][W]), columns[2][W]);
            least = if W == 0 { most } else { T::smaller(least, most) };
            this.most[W] = most;
            this.is_first[W] = T::same(columns[0][W], most);
            this.is_second[W] = T::same(columns[1][W], most);
        });
        (this, warp::all(T::less(both(T::INFINITY) | SIGNS, least) == u32::MAX))
    }

    /// Finds the columns of any maxima: a NaN equals nothing, and what is beside the image equals negative infinity. `exist` are
    /// the elements whose first column does.
    #[inline(always)]
    #[cold]
    pub fn place_any<T: Compared>(&mut self, first: [u32; WORDS], second: [u32; WORDS], exist: [u32; WORDS]) {
        vector::for_each!(W < WORDS, {
            self.is_first[W] = (self.is_first[W] | nans::<T>(first[W])) & exist[W];
            self.is_second[W] |= nans::<T>(second[W]);
        });
    }
}

/// Of windows' three rows, for each word: whether the first or the second has the maximum, the first that does. `odd` if some
/// row's maxima may be NaN or negative infinity, `above` if the first row is none of the image.
#[inline(always)]
pub fn rows_of<T: Compared>([a, b, c]: [&RowMost; SIDE], odd: bool, above: bool) -> ([u32; WORDS], [u32; WORDS]) {
    let (mut in_first, mut in_second) = ([0; WORDS], [0; WORDS]);
    vector::for_each!(W < WORDS, {
        let most = T::larger(T::larger(a.most[W], b.most[W]), c.most[W]);
        in_first[W] = T::same(a.most[W], most);
        in_second[W] = T::same(b.most[W], most);
    });
    if odd {
        vector::for_each!(W < WORDS, {
            in_first[W] = if above { 0 } else { in_first[W] | nans::<T>(a.most[W]) };
            in_second[W] |= nans::<T>(b.most[W]);
        });
    }
    (in_first, in_second)
}

/// All bits of the elements that are no numbers.
#[inline(always)]
pub fn nans<T: Compared>(word: u32) -> u32 {
    !T::same(word, word)
}

/// The elements of a word that are of the first, second or third of three: of the third are those of none before.
#[inline(always)]
pub fn of_three(which: usize, word: u32, is_first: u32, is_second: u32) -> u32 {
    // Written as single instructions: the negations, which rows that stay have in common, would be kept in registers.
    match which {
        0 => word & is_first,
        1 => math::bits_of_three::<{ 0xf0 & !0xcc & 0xaa }>(word, is_first, is_second),
        _ => math::bits_of_three::<{ 0xf0 & !(0xcc | 0xaa) }>(word, is_first, is_second),
    }
}
