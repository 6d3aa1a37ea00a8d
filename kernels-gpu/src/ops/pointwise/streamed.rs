//! `V` neighbouring elements a thread, 32 bytes of each operand of the widest type: two inputs are under way before the
//! first step. Runs whose lengths are no multiple of `V` end with a thread for each element.
//!
//! Grid: exact, 256 threads a block. Steps are branches that all threads take alike; between them, numbers stay in
//! registers.

use crate::math::element::{Accumulator, Boolean, Element, bf16, f16};
use crate::math::number::rounded;
use crate::math::pointwise::apply;
use crate::math::vector::{element, for_each, put};
use cuda_std::{memory, thread};
use kernel_abi::DType;
use kernel_abi::ops::pointwise::{PointwisePass, PointwiseStreamParams, StreamTensor, argument};

/// Words of an operand in a thread.
const WORDS: usize = 8;

/// Inputs that are read ahead.
const AHEAD: usize = 2;

const F64: u32 = DType::F64 as u32;
const F16: u32 = DType::F16 as u32;
const BF16: u32 = DType::BF16 as u32;
const BOOL: u32 = DType::Bool as u32;
const I8: u32 = DType::I8 as u32;
const U8: u32 = DType::U8 as u32;
const I32: u32 = DType::I32 as u32;
const I64: u32 = DType::I64 as u32;

/// c of what is this thread's.
#[inline(always)]
pub unsafe fn streamed<A: Accumulator, const V: usize>(p: &PointwiseStreamParams) {
    let index = thread::block_idx_x() * thread::block_dim_x() + thread::thread_idx_x();
    if index < p.pieces {
        let (run, piece) = p.run_pieces.div_rem(index);
        compute::<A, V>(p, run, piece * V as u32);
    } else if index - p.pieces < p.singles {
        let (run, single) = p.run_singles.div_rem(index - p.pieces);
        compute::<A, 1>(p, run, p.first_single + single);
    }
}

/// `V` elements of a run, from this one on.
#[inline(always)]
unsafe fn compute<A: Accumulator, const V: usize>(p: &PointwiseStreamParams, run: u32, first: u32) {
    let (rest, i0) = p.inner.div_rem(run);
    let (i2, i1) = p.middle.div_rem(rest);
    let outer = [i64::from(i0), i64::from(i1), i64::from(i2)];
    let at = |tensor: &StreamTensor| {
        let offset = i64::from(first) * i64::from(tensor.runs)
            + outer[0] * tensor.strides[0]
            + outer[1] * tensor.strides[1]
            + outer[2] * tensor.strides[2];
        tensor.address + (offset * i64::from(tensor.element_bytes)) as u64
    };
    let words = |number: usize| {
        let input = p.inputs.get_unchecked(number);
        read::<V>(input, at(input))
    };
    let mut ahead = [[0u32; WORDS]; AHEAD];
    for_each!(I < AHEAD, {
        if (I as u32) < p.n_inputs {
            *ahead.get_unchecked_mut(I) = words(I);
        }
    });
    let c_at = at(&p.c);
    let input = |number: u32| -> [A; V] {
        let mut raw = *ahead.get_unchecked(0);
        if number == 1 {
            raw = *ahead.get_unchecked(1);
        } else if number > 1 {
            raw = words(number as usize);
        }
        let input = p.inputs.get_unchecked(number as usize);
        let factor = A::from_f64(input.factor);
        let mut values = widened::<A, V>(input.dtype, &raw);
        for_each!(I < V, {
            *values.get_unchecked_mut(I) = factor * *values.get_unchecked(I);
        });
        values
    };
    let mut running = [A::ZERO; V];
    if p.n_inputs > 0 {
        running = input(0);
    }
    let mut number = 0;
    while number < p.n_steps {
        let step = p.steps.get_unchecked(number as usize);
        let fetch = |which: usize| {
            let from = *step.arguments.get_unchecked(which);
            if from == argument::RUNNING {
                running
            } else if from >= argument::NUMBER {
                [A::from_f64(*step.numbers.get_unchecked(which)); V]
            } else {
                input(from)
            }
        };
        let x = fetch(0);
        let mut y = x;
        if *step.arguments.get_unchecked(1) != argument::NONE {
            y = fetch(1);
        }
        running = if step.op == PointwisePass::Select as u32 {
            let mask = fetch(2);
            let mut chosen = x;
            for_each!(I < V, {
                if *mask.get_unchecked(I) == A::ZERO {
                    *chosen.get_unchecked_mut(I) = *y.get_unchecked(I);
                }
            });
            chosen
        } else {
            apply::<A, V, false>(step.op, step.mode, step.numbers.map(A::from_f64), x, y)
        };
        number += 1;
    }
    let alpha = A::from_f64(p.alpha);
    for_each!(I < V, {
        *running.get_unchecked_mut(I) = alpha * *running.get_unchecked(I);
    });
    if p.beta != 0.0 {
        let beta = A::from_f64(p.beta);
        // Not read ahead: it is seldom wanted, and registers are what limits the threads that load.
        let before = widened::<A, V>(p.c.dtype, &read::<V>(&p.c, c_at));
        for_each!(I < V, {
            *running.get_unchecked_mut(I) = beta.mul_add(*before.get_unchecked(I), *running.get_unchecked(I));
        });
    }
    for_each!(I < V, {
        *running.get_unchecked_mut(I) = rounded(*running.get_unchecked(I), p.c.dtype, p.cast);
    });
    write::<V>(&p.c, c_at, narrowed::<A, V>(p.c.dtype, &running));
}

/// The bytes of `V` elements at an address; where the tensor has one element for all of a run, repetitions of it.
#[inline(always)]
unsafe fn read<const V: usize>(tensor: &StreamTensor, at: u64) -> [u32; WORDS] {
    let bytes = tensor.element_bytes;
    if V == 1 || tensor.runs == 0 {
        let (low, high) = match bytes {
            1 => (u32::from(*(at as *const u8)) * 0x0101_0101, 0),
            2 => (u32::from(*(at as *const u16)) * 0x0001_0001, 0),
            8 => {
                let both = *(at as *const u64);
                (both as u32, (both >> 32) as u32)
            }
            _ => (*(at as *const u32), 0),
        };
        let odd = if bytes == 8 { high } else { low };
        return [low, odd, low, odd, low, odd, low, odd];
    }
    let from = at as *const u32;
    match V as u32 * bytes {
        4 => [memory::load_x1(from), 0, 0, 0, 0, 0, 0, 0],
        8 => {
            let [a, b] = memory::load_x2(from);
            [a, b, 0, 0, 0, 0, 0, 0]
        }
        16 => {
            let [a, b, c, d] = memory::load_x4(from);
            [a, b, c, d, 0, 0, 0, 0]
        }
        _ => {
            let ([a, b, c, d], [e, f, g, h]) = (memory::load_x4(from), memory::load_x4(from.add(4)));
            [a, b, c, d, e, f, g, h]
        }
    }
}

/// Stores the bytes of `V` elements.
#[inline(always)]
unsafe fn write<const V: usize>(tensor: &StreamTensor, at: u64, words: [u32; WORDS]) {
    let [a, b, c, d, e, f, g, h] = words;
    let to = at as *mut u32;
    match V as u32 * tensor.element_bytes {
        1 => *(at as *mut u8) = a as u8,
        2 => *(at as *mut u16) = a as u16,
        4 => memory::store_x1(to, a),
        8 => memory::store_x2(to, [a, b]),
        16 => memory::store_x4(to, [a, b, c, d]),
        _ => {
            memory::store_x4(to, [a, b, c, d]);
            memory::store_x4(to.add(4), [e, f, g, h]);
        }
    }
}

/// Calls a function for the element types that an accumulator's problems have: with 16 elements a thread, those of up to
/// 16 bits; with f64, integers, too.
macro_rules! by_type {
    ($dtype:expr, $a:ident, $v:ident, $function:ident($($argument:expr),*)) => {{
        if size_of::<$a>() == 8 {
            match $dtype {
                F64 => return $function::<f64, $a, $v>($($argument),*),
                I8 => return $function::<i8, $a, $v>($($argument),*),
                U8 => return $function::<u8, $a, $v>($($argument),*),
                I32 => return $function::<i32, $a, $v>($($argument),*),
                I64 => return $function::<i64, $a, $v>($($argument),*),
                _ => {}
            }
        }
        match $dtype {
            F16 => $function::<f16, $a, $v>($($argument),*),
            BF16 => $function::<bf16, $a, $v>($($argument),*),
            BOOL => $function::<Boolean, $a, $v>($($argument),*),
            _ => $function::<f32, $a, $v>($($argument),*),
        }
    }};
}

/// Elements of this type as numbers.
#[inline(always)]
unsafe fn widened<A: Accumulator, const V: usize>(dtype: u32, words: &[u32; WORDS]) -> [A; V] {
    by_type!(dtype, A, V, widened_of(words))
}

#[inline(always)]
unsafe fn widened_of<T: Element, A: Accumulator, const V: usize>(words: &[u32; WORDS]) -> [A; V] {
    let mut values = [A::ZERO; V];
    if V * size_of::<T>() <= 4 * WORDS {
        for_each!(I < V, {
            *values.get_unchecked_mut(I) = A::of(element::<T>(words, I));
        });
    }
    values
}

/// Numbers as elements of this type.
#[inline(always)]
unsafe fn narrowed<A: Accumulator, const V: usize>(dtype: u32, values: &[A; V]) -> [u32; WORDS] {
    by_type!(dtype, A, V, narrowed_of(values))
}

#[inline(always)]
unsafe fn narrowed_of<T: Element, A: Accumulator, const V: usize>(values: &[A; V]) -> [u32; WORDS] {
    let mut words = [0u32; WORDS];
    if V * size_of::<T>() <= 4 * WORDS {
        for_each!(I < V, {
            put::<T>(&mut words, I, &(*values.get_unchecked(I)).store::<T>());
        });
    }
    words
}
