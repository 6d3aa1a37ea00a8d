//! Pointwise kernels: the rows of the lists in `kernel_abi::ops::pointwise`.

use super::naive;
use super::specialized::{BIASED, BINARY, UNARY, specialized};
use super::streamed::streamed;
use crate::math::approximate::Approximate;
use crate::math::element::{bf16, f16};
use cuda_std::kernel;
use kernel_abi::ops::activation::ActivationMode;
use kernel_abi::ops::pointwise::step_op::{ACTIVATION, ACTIVATION_BACKWARD};
use kernel_abi::ops::pointwise::{
    PointwiseParams as Params, PointwisePass, PointwiseSpecializedParams, PointwiseStreamParams,
};

kernel_abi::pointwise_kernels!(naive_entries);

macro_rules! stream_entries {
    ($(($symbol:ident, $number:ident, $elems:literal, $blocks:literal)),* $(,)?) => { $(
        /// # Safety
        /// The host passes live tensors of the extents and strides in `params`, of types that the kernel has.
        #[kernel(threads = 256, min_blocks = $blocks)]
        pub unsafe fn $symbol(params: PointwiseStreamParams) {
            streamed::<$number, $elems>(&params)
        }
    )* };
}

kernel_abi::pointwise_stream_kernels!(stream_entries);

/// Elements of the wider type that 16 bytes hold.
const fn elems<T, C>() -> usize {
    let widest = if size_of::<T>() > size_of::<C>() { size_of::<T>() } else { size_of::<C>() };
    16 / widest
}

/// With the most threads of a block: with more of them allowed than there will be, the compiler would take more registers.
macro_rules! specialized_entry {
    ($symbol:ident, $a:ident, $c:ident, $number:ident, UNARY, $op:expr, $mode:expr) => {
        specialized_entry!(@"sm_80", 256, false, $symbol, $a, $c, $number, UNARY, $op, $mode);
    };
    ($symbol:ident, $a:ident, $c:ident, $number:ident, $form:ident, $op:expr, $mode:expr) => {
        specialized_entry!(@"sm_80", 768, false, $symbol, $a, $c, $number, $form, $op, $mode);
    };
    (@$arch:literal, $threads:literal, $hopper:literal, $symbol:ident, $a:ident, $c:ident, $number:ident, $form:ident,
        $op:expr, $mode:expr) => {
        /// # Safety
        /// The host passes live tensors of as many elements as `params` says, at multiples of an item's bytes.
        #[kernel(threads = $threads, arch = $arch)]
        pub unsafe fn $symbol(params: PointwiseSpecializedParams) {
            specialized::<$a, $c, $number, { elems::<$a, $c>() }, $form, { $op }, { $mode }, $hopper>(&params)
        }
    };
}

macro_rules! unary_entries {
    ($(($symbol:ident, $pass:ident, $a:ident, $c:ident, $number:ident)),* $(,)?) => { $(
        specialized_entry!($symbol, $a, $c, $number, UNARY, PointwisePass::$pass as u32, 0);
    )* };
}

macro_rules! binary_entries {
    ($(($symbol:ident, $pass:ident, $a:ident, $c:ident, $number:ident)),* $(,)?) => { $(
        specialized_entry!($symbol, $a, $c, $number, BINARY, PointwisePass::$pass as u32, 0);
    )* };
}

macro_rules! activate_entries {
    ($(($symbol:ident, $mode:ident, $t:ident, $number:ident)),* $(,)?) => { $(
        specialized_entry!($symbol, $t, $t, $number, UNARY, ACTIVATION, ActivationMode::$mode as u32);
    )* };
}

macro_rules! slope_entries {
    ($(($symbol:ident, $mode:ident, $t:ident, $number:ident)),* $(,)?) => { $(
        specialized_entry!($symbol, $t, $t, $number, BINARY, ACTIVATION_BACKWARD, ActivationMode::$mode as u32);
    )* };
}

macro_rules! biased_entries {
    ($(($symbol:ident, $mode:ident, $t:ident, $number:ident)),* $(,)?) => { $(
        specialized_entry!($symbol, $t, $t, $number, BIASED, ACTIVATION, ActivationMode::$mode as u32);
    )* };
}

kernel_abi::pointwise_unary_kernels!(unary_entries);
kernel_abi::pointwise_binary_kernels!(binary_entries);
kernel_abi::pointwise_activate_kernels!(activate_entries);
kernel_abi::pointwise_slope_kernels!(slope_entries);
kernel_abi::pointwise_biased_kernels!(biased_entries);

macro_rules! early_entries {
    ($(($symbol:ident, $list:ident, $name:ident, $a:ident, $c:ident, $number:ident)),* $(,)?) => { $(
        early_entries!(@$list $symbol, $name, $a, $c, $number);
    )* };
    (@unary $symbol:ident, $name:ident, $a:ident, $c:ident, $number:ident) => {
        early_entries!(@of 384, UNARY, PointwisePass::$name as u32, 0, $symbol, $a, $c, $number);
    };
    (@binary $symbol:ident, $name:ident, $a:ident, $c:ident, $number:ident) => {
        early_entries!(@of 768, BINARY, PointwisePass::$name as u32, 0, $symbol, $a, $c, $number);
    };
    (@activate $symbol:ident, $name:ident, $a:ident, $c:ident, $number:ident) => {
        early_entries!(@of 384, UNARY, ACTIVATION, ActivationMode::$name as u32, $symbol, $a, $c, $number);
    };
    (@slope $symbol:ident, $name:ident, $a:ident, $c:ident, $number:ident) => {
        early_entries!(@of 768, BINARY, ACTIVATION_BACKWARD, ActivationMode::$name as u32, $symbol, $a, $c, $number);
    };
    (@biased $symbol:ident, $name:ident, $a:ident, $c:ident, $number:ident) => {
        early_entries!(@of 768, BIASED, ACTIVATION, ActivationMode::$name as u32, $symbol, $a, $c, $number);
    };
    (@of $threads:literal, $form:ident, $op:expr, $mode:expr, $symbol:ident, $a:ident, $c:ident, $number:ident) => {
        specialized_entry!(@"sm_90a", $threads, true, $symbol, $a, $c, $number, $form, $op, $mode);
    };
}

kernel_abi::pointwise_early_kernels!(early_entries);
