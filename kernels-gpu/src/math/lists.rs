//! Lists of tensors that are stepped in one launch: a block has a piece of one of them, four neighbouring elements a
//! thread at a time.

use super::element::{Element, bf16, f16};
use core::mem::size_of;
use cuda_std::memory::{self, X2};
use cuda_std::{convert, thread};
use kernel_abi::tensor_list::{BLOCK_ELEMS, MAX_PARTS, TensorList};

/// Elements of an access.
pub const QUAD: usize = 4;

/// Quads a thread has under way.
pub const UNDER_WAY: usize = 2;

/// Threads of a block.
pub const THREADS: i64 = 256;

/// A storage type of 4 or 2 bytes, four elements an access.
pub trait Quad: Element<Acc = f32> {
    /// # Safety
    /// There are four elements at a multiple of their bytes.
    unsafe fn load_quad(from: u64) -> [f32; QUAD];
    /// # Safety
    /// As above, and nobody else touches them.
    unsafe fn store_quad(to: u64, values: [f32; QUAD]);
}

impl Quad for f32 {
    #[inline(always)]
    unsafe fn load_quad(from: u64) -> [f32; QUAD] {
        memory::load_x4(from as *const u32).map(f32::from_bits)
    }
    #[inline(always)]
    unsafe fn store_quad(to: u64, values: [f32; QUAD]) {
        memory::store_x4(to as *mut u32, values.map(f32::to_bits));
    }
}

macro_rules! half {
    ($t:ident, $unpack:path, $pack:path) => {
        impl Quad for $t {
            #[inline(always)]
            unsafe fn load_quad(from: u64) -> [f32; QUAD] {
                let X2([low, high]) = *(from as *const X2<u32>);
                let ([a, b], [c, d]) = ($unpack(low), $unpack(high));
                [a, b, c, d]
            }
            #[inline(always)]
            unsafe fn store_quad(to: u64, [a, b, c, d]: [f32; QUAD]) {
                *(to as *mut X2<u32>) = X2([$pack(a, b), $pack(c, d)]);
            }
        }
    };
}

half!(f16, convert::f32_from_f16x2, convert::f16x2_from_f32);
half!(bf16, convert::f32_from_bf16x2, convert::bf16x2_from_f32);

/// A block's piece of a tensor.
pub struct Piece {
    /// Of the tensor's parts; 0 for those that it has not.
    pub addresses: [u64; MAX_PARTS],
    begin: i64,
    end: i64,
    /// Whether all parts lie at multiples of 16 bytes.
    aligned: bool,
}

/// What is done at places.
pub trait Update {
    /// At some of them; with `WHOLE` each has four elements that move as one access, so that no load waits behind a branch.
    ///
    /// # Safety
    /// They are there in all parts, and no other thread touches them.
    unsafe fn at<const WHOLE: bool>(&self, places: [Place; UNDER_WAY]);
}

/// Four elements of a piece, fewer at its end.
#[derive(Clone, Copy)]
pub struct Place {
    first: i64,
    n: i64,
    whole: bool,
}

impl Piece {
    /// This block's.
    #[inline(always)]
    pub fn new(list: &TensorList) -> Self {
        let block = thread::block_idx_x();
        let tensor = list.tensor_of(block) as usize;
        // SAFETY: the tensor is one of the list.
        let (addresses, n_elems, first_block) = unsafe {
            (
                *list.addresses.get_unchecked(tensor),
                *list.n_elems.get_unchecked(tensor),
                *list.first_block.get_unchecked(tensor),
            )
        };
        let begin = i64::from(block - first_block) * BLOCK_ELEMS;
        let end = if begin + BLOCK_ELEMS < n_elems { begin + BLOCK_ELEMS } else { n_elems };
        let [a, b, c, d, e] = addresses;
        Piece { addresses, begin, end, aligned: (a | b | c | d | e) & 15 == 0 }
    }

    /// Updates the places of this thread, [`UNDER_WAY`] at a time.
    ///
    /// # Safety
    /// As [`Update::at`].
    #[inline(always)]
    pub unsafe fn for_each(&self, update: &impl Update) {
        let step = THREADS * QUAD as i64;
        let mut first = self.begin + i64::from(thread::thread_idx_x()) * QUAD as i64;
        while first < self.end {
            let place = |first: i64| {
                let n = self.end - first;
                Place { first, n, whole: self.aligned && n >= QUAD as i64 }
            };
            let places = [place(first), place(first + step)];
            if places[UNDER_WAY - 1].whole {
                update.at::<true>(places);
            } else {
                update.at::<false>(places);
            }
            first += UNDER_WAY as i64 * step;
        }
    }
}

impl Place {
    /// The elements of a part; 0 for those that there are not.
    ///
    /// # Safety
    /// The part is one of the piece's.
    #[inline(always)]
    pub unsafe fn load<T: Quad, const WHOLE: bool>(&self, part: u64) -> [f32; QUAD] {
        let from = (part as i64 + self.first * size_of::<T>() as i64) as u64;
        if WHOLE || self.whole {
            return T::load_quad(from);
        }
        let mut values = [0.0; QUAD];
        let mut i = 0;
        while i < QUAD {
            if (i as i64) < self.n {
                *values.get_unchecked_mut(i) = (*(from as *const T).add(i)).widen();
            }
            i += 1;
        }
        values
    }

    /// Writes the elements of a part that there are.
    ///
    /// # Safety
    /// As [`Place::load`], and nobody else touches them.
    #[inline(always)]
    pub unsafe fn store<T: Quad, const WHOLE: bool>(&self, part: u64, values: [f32; QUAD]) {
        let to = (part as i64 + self.first * size_of::<T>() as i64) as u64;
        if WHOLE || self.whole {
            return T::store_quad(to, values);
        }
        let mut i = 0;
        while i < QUAD {
            if (i as i64) < self.n {
                *(to as *mut T).add(i) = T::narrow(*values.get_unchecked(i));
            }
            i += 1;
        }
    }
}
