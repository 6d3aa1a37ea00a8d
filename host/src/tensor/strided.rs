//! Copies between strided storage of any element type and packed slices of another.
//!
//! Parallel over the outermost dimension of what is written, so that no two threads share an element.

use super::{Boolean, Element, f8e4m3, f8e5m2};
use crate::{DType, TensorDesc};
use arrayvec::ArrayVec;
use half::{bf16, f16};
use kernel_abi::cast::is_whole;
use kernel_abi::{Cast, Overflow, Rounding};
use rayon::prelude::*;

/// One loop: extent, stride in the strided tensor, stride in the packed slice.
#[derive(Clone, Copy)]
struct Axis {
    dim: usize,
    strided: usize,
    packed: usize,
}

type Axes = ArrayVec<Axis, { kernel_abi::MAX_RANK }>;

/// Below this many elements a copy is not worth handing to other threads.
const PARALLEL_ELEMS: usize = 1 << 14;

/// Copies `storage`, a tensor of shape `desc`, into `packed`, its elements in row-major order.
pub(crate) fn gather<T: Element>(desc: &TensorDesc, storage: &[u8], packed: &mut [T]) {
    match desc.dtype() {
        DType::F64 => gather_typed(desc, storage, packed, |from: f64| T::from_f64(from)),
        DType::F32 => gather_typed(desc, storage, packed, |from: f32| T::from_f32(from)),
        DType::F16 => gather_typed(desc, storage, packed, |from: f16| T::from_f32(from.to_f32())),
        DType::BF16 => gather_typed(desc, storage, packed, |from: bf16| T::from_f32(from.to_f32())),
        DType::I8 => gather_typed(desc, storage, packed, |from: i8| T::from_f32(f32::from(from))),
        DType::I32 => gather_typed(desc, storage, packed, |from: i32| T::from_f64(f64::from(from))),
        DType::U8 => gather_typed(desc, storage, packed, |from: u8| T::from_f32(f32::from(from))),
        DType::I64 => gather_typed(desc, storage, packed, |from: i64| T::from_integer(from)),
        DType::Bool => gather_typed(desc, storage, packed, |from: Boolean| T::from_f32(from.to_f32())),
        DType::F8E4M3 => gather_typed(desc, storage, packed, |from: f8e4m3| T::from_f32(from.to_f32())),
        DType::F8E5M2 => gather_typed(desc, storage, packed, |from: f8e5m2| T::from_f32(from.to_f32())),
    }
}

/// Copies `packed` into `storage`, a tensor of shape `desc`, and leaves the gaps alone.
pub(crate) fn scatter<T: Element>(desc: &TensorDesc, packed: &[T], storage: &mut [u8]) {
    match desc.dtype() {
        DType::F64 => scatter_typed(desc, packed, storage, |to: &mut f64, from: T| *to = from.to_f64()),
        DType::F32 => scatter_typed(desc, packed, storage, |to: &mut f32, from: T| *to = from.to_f32()),
        DType::F16 => scatter_typed(desc, packed, storage, |to: &mut f16, from: T| *to = from_any(from)),
        DType::BF16 => scatter_typed(desc, packed, storage, |to: &mut bf16, from: T| *to = from_any(from)),
        DType::I8 => scatter_typed(desc, packed, storage, |to: &mut i8, from: T| *to = from_any(from)),
        DType::I32 => scatter_typed(desc, packed, storage, |to: &mut i32, from: T| *to = from_any(from)),
        DType::U8 => scatter_typed(desc, packed, storage, |to: &mut u8, from: T| *to = from_any(from)),
        DType::I64 => scatter_typed(desc, packed, storage, |to: &mut i64, from: T| *to = from_any(from)),
        DType::Bool => scatter_typed(desc, packed, storage, |to: &mut Boolean, from: T| *to = from_any(from)),
        DType::F8E4M3 => scatter_typed(desc, packed, storage, |to: &mut f8e4m3, from: T| *to = from_any(from)),
        DType::F8E5M2 => scatter_typed(desc, packed, storage, |to: &mut f8e5m2, from: T| *to = from_any(from)),
    }
}

/// Rounds once, through `f32` only where that is exact.
fn from_any<T: Element, U: Element>(value: T) -> U {
    if T::DTYPE == DType::I64 {
        U::from_integer(value.to_integer())
    } else if matches!(T::DTYPE, DType::F64 | DType::I32) {
        U::from_f64(value.to_f64())
    } else {
        U::from_f32(value.to_f32())
    }
}

/// Writes `alpha · result + beta · prior` to a tensor of integers or truth values: exactly where both are integers that `i64`
/// holds, else in `f64`, which saturates.
pub(crate) fn store_integers(
    desc: &TensorDesc,
    result: &[i64],
    storage: &mut [u8],
    (alpha, beta): (f64, f64),
    cast: Cast,
) {
    let wraps = cast.overflow == Overflow::Wrap;
    let whole = is_whole(alpha) && is_whole(beta);
    let (a, b) = (alpha as i64, beta as i64);
    // The second value says whether what is beyond the type's range saturates.
    let value = |result: i64, prior: &dyn Fn() -> i64| -> (i64, bool) {
        if whole {
            let prior = if b == 0 { 0 } else { prior() };
            return (a.wrapping_mul(result).wrapping_add(b.wrapping_mul(prior)), !wraps);
        }
        let mut real = alpha * result as f64;
        if beta != 0.0 {
            real += beta * prior() as f64;
        }
        let real = match (desc.dtype(), cast.rounding) {
            (DType::Bool, _) => f64::from(u8::from(real != 0.0)),
            (_, Rounding::Truncate) => real.trunc(),
            (_, Rounding::Even) => real.round_ties_even(),
        };
        (real as i64, true)
    };
    macro_rules! store_as {
        ($t:ty) => {
            scatter_typed(desc, result, storage, |to: &mut $t, from: i64| {
                let (value, saturates) = value(from, &|| i64::from(*to));
                let within = value.clamp(i64::from(<$t>::MIN), i64::from(<$t>::MAX));
                *to = (if saturates { within } else { value }) as $t;
            })
        };
    }
    match desc.dtype() {
        DType::I8 => store_as!(i8),
        DType::U8 => store_as!(u8),
        DType::I32 => store_as!(i32),
        DType::Bool => scatter_typed(desc, result, storage, |to: &mut Boolean, from: i64| {
            *to = Boolean::new(value(from, &|| i64::from(to.get())).0 != 0);
        }),
        _ => store_as!(i64),
    }
}

fn gather_typed<S: Element, T: Element>(
    desc: &TensorDesc,
    storage: &[u8],
    packed: &mut [T],
    convert: impl Fn(S) -> T + Sync,
) {
    let storage: &[S] = bytemuck::cast_slice(storage);
    let mut axes = axes(desc);
    axes.sort_by_key(|axis| std::cmp::Reverse(axis.packed));
    let copy = |axes: &[Axis], offset: usize, packed: &mut [T]| {
        for_each_run(axes, |strided, start, run| {
            let storage = &storage[offset + strided..];
            for i in 0..run.dim {
                packed[start + i * run.packed] = convert(storage[i * run.strided]);
            }
        });
    };
    match axes.split_first() {
        Some((outer, inner)) if packed.len() >= PARALLEL_ELEMS => packed
            .par_chunks_mut(outer.packed)
            .enumerate()
            .for_each(|(i, packed)| copy(inner, i * outer.strided, packed)),
        _ => copy(&axes, 0, packed),
    }
}

/// Walks the elements of `storage` together with those of `packed`.
///
/// Every index of the outermost axis has memory of its own, unless `desc` overlaps itself.
pub(crate) fn scatter_typed<S: Element, T: Element>(
    desc: &TensorDesc,
    packed: &[T],
    storage: &mut [u8],
    assign: impl Fn(&mut S, T) + Sync,
) {
    let storage: &mut [S] = bytemuck::cast_slice_mut(storage);
    let mut axes = axes(desc);
    axes.sort_by_key(|axis| std::cmp::Reverse(axis.strided));
    let copy = |axes: &[Axis], offset: usize, storage: &mut [S]| {
        for_each_run(axes, |strided, start, run| {
            let storage = &mut storage[strided..];
            for i in 0..run.dim {
                assign(&mut storage[i * run.strided], packed[offset + start + i * run.packed]);
            }
        });
    };
    match axes.split_first() {
        // Where indices share elements, the order in which they are written counts.
        Some((outer, inner)) if packed.len() >= PARALLEL_ELEMS && !desc.self_overlaps() => storage
            .par_chunks_mut(outer.strided)
            .enumerate()
            .take(outer.dim)
            .for_each(|(i, storage)| copy(inner, i * outer.packed, storage)),
        _ => copy(&axes, 0, storage),
    }
}

/// The dimensions of extent above 1.
fn axes(desc: &TensorDesc) -> Axes {
    let packed = desc.to_packed();
    (0..desc.rank())
        .filter(|&i| desc.dims()[i] > 1)
        .map(|i| Axis {
            dim: desc.dims()[i] as usize,
            strided: desc.strides()[i] as usize,
            packed: packed.strides()[i] as usize,
        })
        .collect()
}

/// Calls `body` with the strided and packed offsets of every run along the last axis.
fn for_each_run(axes: &[Axis], mut body: impl FnMut(usize, usize, Axis)) {
    let Some((run, outer)) = axes.split_last() else {
        return body(0, 0, Axis { dim: 1, strided: 1, packed: 1 });
    };
    let mut index = [0usize; kernel_abi::MAX_RANK];
    let (mut strided, mut packed) = (0, 0);
    loop {
        body(strided, packed, *run);
        let mut at = outer.len();
        loop {
            if at == 0 {
                return;
            }
            at -= 1;
            let axis = outer[at];
            index[at] += 1;
            strided += axis.strided;
            packed += axis.packed;
            if index[at] < axis.dim {
                break;
            }
            index[at] = 0;
            strided -= axis.dim * axis.strided;
            packed -= axis.dim * axis.packed;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip_through_every_layout() {
        for text in
            ["2x3x4x5:f32", "2x3x4x5:f16:nhwc", "3x4:f64:s1x7", "1x1:bf16", "64x32x17:f32:nhwc", "70x300:f32:s1x70"]
        {
            let desc: TensorDesc = text.parse().unwrap();
            let values: Vec<f32> = (0..desc.n_elems()).map(|i| (i % 199) as f32).collect();
            let mut bytes = super::super::HostMemory::zeroed(desc.span_bytes()).unwrap();
            scatter(&desc, &values, bytes.bytes_mut());
            let mut back = vec![-1.0f32; values.len()];
            gather(&desc, bytes.bytes(), &mut back);
            assert_eq!(values, back, "{text}");
        }
    }

    #[test]
    fn gaps_keep_their_bytes() {
        let desc: TensorDesc = "2x2:f32:s4x1".parse().unwrap();
        let mut storage = [9.0f32; 6];
        scatter(&desc, &[1.0f32, 2.0, 3.0, 4.0], bytemuck::cast_slice_mut(&mut storage));
        assert_eq!(storage, [1.0, 2.0, 9.0, 9.0, 3.0, 4.0]);
    }
}
