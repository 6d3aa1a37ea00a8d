//! One thread an element, any strides.

use crate::math::element::{Accumulator, Element, blend, load};
use crate::math::index::{for_each_index, offsets};
use kernel_abi::ops::pointwise::PointwiseParams;

macro_rules! binary {
    ($($(#[$meta:meta])* $name:ident = |$a:ident, $b:ident| $result:expr;)*) => { $(
        $(#[$meta])*
        pub unsafe fn $name<T: Element>(p: &PointwiseParams) {
            let (alpha_a, alpha_b) = (T::Acc::from_f64(p.alpha_a), T::Acc::from_f64(p.alpha_b));
            for_each_index(p.n_elems, |i| {
                let [c, a, b] = offsets([&p.c, &p.a, &p.b], i);
                let ($a, $b) = (alpha_a * load::<T>(p.a.address, a), alpha_b * load::<T>(p.b.address, b));
                blend::<T>(p.c.address, c, $result, p.alpha, p.beta);
            });
        }
    )* };
}

macro_rules! unary {
    ($($(#[$meta:meta])* $name:ident = |$a:ident| $result:expr;)*) => { $(
        $(#[$meta])*
        pub unsafe fn $name<T: Element>(p: &PointwiseParams) {
            let alpha_a = T::Acc::from_f64(p.alpha_a);
            for_each_index(p.n_elems, |i| {
                let [c, a] = offsets([&p.c, &p.a], i);
                let $a = alpha_a * load::<T>(p.a.address, a);
                blend::<T>(p.c.address, c, $result, p.alpha, p.beta);
            });
        }
    )* };
}

binary! {
    /// a + b.
    add = |a, b| a + b;
    /// a b.
    mul = |a, b| a * b;
    /// The smaller.
    min = |a, b| a.min(b);
    /// The larger.
    max = |a, b| a.max(b);
}

unary! {
    /// √a.
    sqrt = |a| a.sqrt();
    /// 1 - a.
    not = |a| T::Acc::ONE - a;
    /// a.
    scale = |a| a;
}

/// A value everywhere.
pub unsafe fn set<T: Element>(p: &PointwiseParams) {
    for_each_index(p.n_elems, |i| {
        let [c] = offsets([&p.c], i);
        blend::<T>(p.c.address, c, T::Acc::from_f64(p.value), p.alpha, p.beta);
    });
}
