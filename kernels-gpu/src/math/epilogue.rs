//! Epilogues of single elements, formula in `kernel_abi::epilogue`.

use super::activation::value;
use super::element::{Accumulator, Element, load};
use kernel_abi::epilogue::EpilogueParam;

/// The bias of a channel; 0 where there is none.
///
/// # Safety
/// The bias has that channel.
#[inline(always)]
pub unsafe fn bias<T: Element>(p: &EpilogueParam, channel: i64) -> T::Acc {
    if p.bias == 0 {
        T::Acc::ZERO
    } else if p.bias_is_wide != 0 {
        *(p.bias as *const T::Acc).offset((channel * p.bias_stride) as isize)
    } else {
        load::<T>(p.bias, channel * p.bias_stride)
    }
}

/// Writes `act(alpha · result + beta · prior + bias + z)` to element `offset` of y; the prior value is not read when beta
/// is 0, z not when its address is.
///
/// # Safety
/// The elements and the channel exist, and no other thread touches that of y.
#[inline(always)]
#[allow(clippy::too_many_arguments)]
pub unsafe fn finish<T: Element>(
    p: &EpilogueParam,
    (y, offset): (u64, i64),
    (z, z_offset): (u64, i64),
    channel: i64,
    result: T::Acc,
    alpha: f64,
    beta: f64,
) {
    let to = (y as *mut T).offset(offset as isize);
    let mut sum = T::Acc::from_f64(alpha) * result;
    if beta != 0.0 {
        sum = T::Acc::from_f64(beta).mul_add((*to).widen(), sum);
    }
    sum = sum + bias::<T>(p, channel);
    if z != 0 {
        sum = sum + load::<T>(z, z_offset);
    }
    *to = T::narrow(value(p.mode, T::Acc::from_f64(p.coefficient), sum));
}
