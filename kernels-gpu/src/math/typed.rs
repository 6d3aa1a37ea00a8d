//! Elements whose type only the launch parameters know: a branch that all threads take alike.

use super::element::{self, Accumulator, Boolean, Element, bf16, f8e4m3, f8e5m2, f16};
use super::number::rounded;
use core::mem::size_of;
use kernel_abi::DType;

/// Calls a function with an element type for every number that a [`DType`] has.
macro_rules! with_type {
    ($dtype:expr, $function:ident($($argument:expr),*)) => {
        // Numbers, not the enum: an address may hold anything, and a kernel must not have a value outside an enum.
        match $dtype {
            F64 => $function::<f64, _>($($argument),*),
            F16 => $function::<f16, _>($($argument),*),
            BF16 => $function::<bf16, _>($($argument),*),
            I8 => $function::<i8, _>($($argument),*),
            I32 => $function::<i32, _>($($argument),*),
            F8E4M3 => $function::<f8e4m3, _>($($argument),*),
            F8E5M2 => $function::<f8e5m2, _>($($argument),*),
            U8 => $function::<u8, _>($($argument),*),
            I64 => $function::<i64, _>($($argument),*),
            BOOL => $function::<Boolean, _>($($argument),*),
            _ => $function::<f32, _>($($argument),*),
        }
    };
}

const F32: u32 = DType::F32 as u32;
const F64: u32 = DType::F64 as u32;
const F16: u32 = DType::F16 as u32;
const BF16: u32 = DType::BF16 as u32;
const I8: u32 = DType::I8 as u32;
const I32: u32 = DType::I32 as u32;
const F8E4M3: u32 = DType::F8E4M3 as u32;
const F8E5M2: u32 = DType::F8E5M2 as u32;
const U8: u32 = DType::U8 as u32;
const I64: u32 = DType::I64 as u32;
const BOOL: u32 = DType::Bool as u32;

/// Element `offset` of a tensor of this type at `address`.
///
/// # Safety
/// The element exists.
#[inline(always)]
pub unsafe fn load<A: Accumulator>(dtype: u32, address: u64, offset: i64) -> A {
    with_type!(dtype, load_from(address, offset))
}

#[inline(always)]
unsafe fn load_from<T: Element, A: Accumulator>(address: u64, offset: i64) -> A {
    A::of(*(address as *const T).offset(offset as isize))
}

/// Stores a number as element `offset`.
///
/// # Safety
/// The element exists and no other thread touches it.
#[inline(always)]
pub unsafe fn store<A: Accumulator>(dtype: u32, address: u64, offset: i64, value: A) {
    with_type!(dtype, store_to(address, offset, value))
}

#[inline(always)]
unsafe fn store_to<T: Element, A: Accumulator>(address: u64, offset: i64, value: A) {
    *(address as *mut T).offset(offset as isize) = value.store::<T>();
}

/// [`blend`], but fractions are cut off where integers are stored.
///
/// # Safety
/// As there.
#[inline(always)]
pub unsafe fn blend_truncated<A: Accumulator>(dtype: u32, address: u64, offset: i64, result: A, alpha: f64, beta: f64) {
    let mut value = A::from_f64(alpha) * result;
    if beta != 0.0 {
        value = A::from_f64(beta).mul_add(load(dtype, address, offset), value);
    }
    store(dtype, address, offset, rounded(value, dtype, 0));
}

/// Writes `alpha · result + beta · prior` to element `offset`; the prior value is not read when beta is 0.
///
/// # Safety
/// The element exists and no other thread touches it.
#[inline(always)]
pub unsafe fn blend<A: Accumulator>(dtype: u32, address: u64, offset: i64, result: A, alpha: f64, beta: f64) {
    let mut value = A::from_f64(alpha) * result;
    if beta != 0.0 {
        value = A::from_f64(beta).mul_add(load(dtype, address, offset), value);
    }
    store(dtype, address, offset, value);
}

/// Whether a tensor of `T` or of its accumulator type has the latter.
#[inline(always)]
fn is_accumulator<T: Element>(dtype: u32) -> bool {
    size_of::<T>() == size_of::<T::Acc>() || dtype == F32
}

/// Element `offset` of a tensor of `T` or of its accumulator type: a branch where there are two.
///
/// # Safety
/// The element exists.
#[inline(always)]
pub unsafe fn load_either<T: Element>(dtype: u32, address: u64, offset: i64) -> T::Acc {
    if is_accumulator::<T>(dtype) {
        *(address as *const T::Acc).offset(offset as isize)
    } else {
        element::load::<T>(address, offset)
    }
}

/// [`blend`] to such a tensor.
///
/// # Safety
/// As there.
#[inline(always)]
pub unsafe fn blend_either<T: Element>(dtype: u32, address: u64, offset: i64, result: T::Acc, alpha: f64, beta: f64) {
    if is_accumulator::<T>(dtype) {
        element::blend_sum(address, offset, result, alpha, beta);
    } else {
        element::blend::<T>(address, offset, result, alpha, beta);
    }
}
