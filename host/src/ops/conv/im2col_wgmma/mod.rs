//! Convolution on Hopper's tensor cores: im2col copies of the copy engine feed warpgroup products, in a persistent grid.
//!
//! Tensors lie channels-last and w as KRSC. Tensor maps are encoded anew for each run since they hold addresses; they
//! need addresses and strides that are multiples of 16 bytes. Strides are known when the plan is made, and others are
//! refused then; an address is known only to the run, and a misaligned one is an error that names the alignment,
//! since another kernel would be slower by an order of magnitude without a word.

mod classes;
mod cluster;
mod cost;
mod cuts;
mod epilogue;
mod fixup;
mod gather;
mod split_sum;
mod stream_k;
mod tensors;
mod wgrad;

pub(super) use classes::{AxisClass, Class, classes, read_access};
pub(super) use cluster::Cluster;
pub(super) use cuts::{Cut, MULTIPROCESSORS};
pub(super) use gather::{Gather, KERNELS, Product, Row, Spread, View, row};
pub(super) use split_sum::SplitSum;
pub(super) use stream_k::StreamK;
pub(super) use tensors::{Filter, Positions, Window, check_window, five};
pub(super) use wgrad::{WGRAD_KERNELS, Wgrad, WgradRow, WgradView, wgrad_row};

use super::ConvProblem;
use crate::driver::TmaType;
use crate::plan::Call;
use crate::select::Refusal;
use crate::{DType, Error, Problem};
use kernel_abi::ops::conv::im2col_wgmma::ConvTile;

/// The algorithm's name in every pass.
const NAME: &str = "im2col_wgmma";

/// What the hardware asks of addresses and strides.
pub(super) const ALIGN_BYTES: u64 = 16;

/// Size of an element.
const ELEMENT_BYTES: i64 = 2;

/// Clock under load.
pub(super) const CYCLES_PER_US: f64 = 1600.0;

/// From a launch to the first product, and from the last product to the end.
pub(super) const ENDS_US: f64 = 3.0;

/// The element type in tensor maps.
pub(super) fn tma_type(dtype: DType) -> Result<TmaType, Refusal> {
    match dtype {
        DType::BF16 => Ok(TmaType::BF16),
        DType::F16 => Ok(TmaType::F16),
        other => Err(Refusal::new(format!("has kernels for f16 and bf16, the element type is {other}"))),
    }
}

/// Refuses operands at addresses that tensor maps cannot hold.
pub(super) fn check_addresses(names: [&'static str; 3], call: &Call<'_>) -> Result<(), Error> {
    names.into_iter().enumerate().try_for_each(|(operand, name)| check_address(name, call.address(operand)))
}

/// Refuses an address that a tensor map cannot hold.
pub(super) fn check_address(name: &'static str, address: u64) -> Result<(), Error> {
    if address.is_multiple_of(ALIGN_BYTES) {
        return Ok(());
    }
    let reason = format!(
        "expected an address that is a multiple of {ALIGN_BYTES} for the algorithm {NAME} (cp_async_mma takes any), \
         given {address:#x}"
    );
    Err(Error::bad(ConvProblem::OP, name, reason))
}

/// Cycles of a multiprocessor for one stage of a tile.
///
/// The products take what the tensor cores take; they read shared memory while the copy engine fills it, and the
/// caches deliver what the copy engine asks for.
fn stage_cycles(tile: ConvTile, instruction_n: u32, loaded_bytes: u32) -> f64 {
    /// Multiply-adds of a multiprocessor's tensor cores in a cycle.
    const RATE: f64 = 2048.0;
    /// Bytes that shared memory moves in a cycle.
    const SHARED: f64 = 128.0;
    /// Bytes that the second-level cache delivers to a multiprocessor in a cycle.
    const CACHE: f64 = 56.0;
    let products = f64::from(tile.gemm_m * tile.gemm_n * 64) / RATE;
    // An instruction reads 64 rows and its columns of 16 elements.
    let instructions = f64::from(tile.gemm_m / 64 * tile.gemm_n / instruction_n * 4);
    let read = instructions * f64::from(64 * 32 + instruction_n * 32);
    let shared = (read + f64::from(tile.stage_bytes())) / SHARED;
    products.max(shared).max(f64::from(loaded_bytes) / CACHE) / 0.93
}

/// The same where operands come in three parts of f32, for 32 terms of the sum.
pub(super) fn parts_cycles(tile: ConvTile, instruction_n: u32) -> f64 {
    const RATE: f64 = 2048.0;
    const SHARED: f64 = 128.0;
    /// What the products reach of the tensor cores' rate: they begin anew every 32 terms.
    const REACHED: f64 = 0.8;
    let products = f64::from(tile.gemm_m * tile.gemm_n) * 32.0 * 6.0 / RATE;
    // Six pairs of two instructions each; the first operand comes from registers, which load it once a consumer.
    let instructions = tile.gemm_m / 64 * tile.gemm_n / instruction_n * 12;
    let bytes = instructions * instruction_n * 32 + tile.a_bytes() + tile.stage_bytes();
    products.max(f64::from(bytes) / SHARED) / REACHED
}

/// The same in two parts, of which the second operand's are made in the block: fitted to three tiles of an H200. What
/// takes time is one instruction's waiting for the next, as a consumer loads, scales, multiplies and adds.
pub(super) fn halves_cycles(tile: ConvTile) -> f64 {
    const OF_STAGE: f64 = 370.0;
    const OF_FRAGMENTS: f64 = 580.0;
    const OF_SUM: f64 = 14.0;
    let sums = f64::from(tile.consumer_columns() / 2);
    let stage = OF_STAGE + f64::from(tile.subtiles().max(1)) * (OF_FRAGMENTS + OF_SUM * sums);
    if tile.in_turns { stage / 2.0 } else { stage }
}

#[cfg(test)]
mod tests;
