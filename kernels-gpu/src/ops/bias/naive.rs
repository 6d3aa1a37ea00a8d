//! Forward: one thread an element. Backward: one block a channel; threads take every 256th element and combine
//! through shared memory in a fixed order.

use crate::math::element::{Accumulator, Element, blend, load};
use crate::math::index::{for_each_index, offsets};
use crate::math::sum::Sum;
use cuda_std::{shared_array, thread};
use kernel_abi::ops::bias::BiasParams;

/// Threads of a block, as in `entry.rs`.
const BLOCK: usize = 256;

/// y = x + bias.
pub unsafe fn forward<T: Element>(p: &BiasParams) {
    for_each_index(p.n_elems, |i| {
        let [y, x, bias] = offsets([&p.y, &p.x, &p.bias], i);
        let sum = load::<T>(p.x.address, x) + load::<T>(p.bias.address, bias);
        blend::<T>(p.y.address, y, sum, p.alpha, p.beta);
    });
}

/// dbias = Σ dy.
pub unsafe fn backward<T: Element>(p: &BiasParams) {
    let partial = shared_array![f64; BLOCK];
    let me = thread::thread_idx_x() as usize;
    let mut channel = i64::from(thread::block_idx_x());
    while channel < p.n_elems {
        let mut sum = Sum::<T::Acc>::EMPTY;
        let mut i = me as i64;
        while i < p.channel_elems {
            sum.push(load::<T>(p.y.address, channel * p.channel_stride + offsets([&p.y], i)[0]));
            i += BLOCK as i64;
        }
        *partial.add(me) = sum.finish();
        thread::sync_threads();
        let mut half = BLOCK / 2;
        while half > 0 {
            if me < half {
                *partial.add(me) = *partial.add(me) + *partial.add(me + half);
            }
            thread::sync_threads();
            half /= 2;
        }
        if me == 0 {
            let [to] = offsets([&p.bias], channel);
            blend::<T>(p.bias.address, to, T::Acc::from_f64(*partial), p.alpha, p.beta);
        }
        // Nobody may begin the next channel while the sum is still read.
        thread::sync_threads();
        channel += i64::from(thread::grid_dim_x());
    }
}
