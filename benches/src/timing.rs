//! Timing work on a stream.

use anyhow::Result;
use oxidnn::driver::{Event, GpuContext, GpuStream};

/// Something that queues a number of calls.
pub type Work<'a> = &'a dyn Fn() -> Result<()>;

/// Microseconds a call of each side: the median over `rounds` turns, of which each side takes one after the other, so
/// that both see the same clocks.
///
/// # Errors
/// Those of the work, and from the driver.
pub fn interleaved(
    context: &GpuContext,
    stream: &GpuStream,
    rounds: usize,
    calls: usize,
    sides: &[Work<'_>],
) -> Result<Vec<f64>> {
    let (start, end) = (Event::new(context)?, Event::new(context)?);
    let mut times = vec![Vec::new(); sides.len()];
    // The first turn is for caches and clocks and is not counted.
    for round in 0..=rounds {
        for (side, times) in sides.iter().zip(&mut times) {
            start.record(stream)?;
            side()?;
            end.record(stream)?;
            end.synchronize()?;
            if round > 0 {
                times.push(f64::from(Event::elapsed_us(&start, &end)?) / calls as f64);
            }
        }
    }
    Ok(times.into_iter().map(median).collect())
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Bytes that operands should rotate through, so that no call finds its own in the L2 cache: three times an H200's.
pub const ROTATION_BYTES: u64 = 180 << 20;

/// Sets of operands to rotate through, when one set has `bytes`.
pub fn rotation(bytes: u64) -> usize {
    (ROTATION_BYTES.div_ceil(bytes.max(1)) as usize).clamp(2, 256)
}

/// Calls of a graph: enough that its own launch does not count, and every set of operands at least once.
pub fn calls(sets: usize) -> usize {
    const CALLS: usize = 10;
    CALLS.max(sets)
}
