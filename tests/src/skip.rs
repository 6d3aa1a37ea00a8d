//! Tests that need a GPU say so where there is none, and are counted; so are those that ran on a simulated one.

use oxidnn::Context;
use std::io::Write as _;

/// How the name of a device begins that is no GPU but the simulator.
const SIMULATOR: &str = "oxidnn simulator";

/// The first GPU; or None, after saying `skipped: no GPU` for the test `name`.
///
/// The line also goes to the file that `OXIDNN_SKIPPED` names, which `cargo xtask test` counts.
pub fn gpu(name: &str) -> Option<Context> {
    match Context::gpu(0) {
        Ok(context) => {
            note_simulated(&context);
            Some(context)
        }
        Err(oxidnn::Error::NoDevice { .. }) => {
            skip("no GPU", name);
            None
        }
        Err(e) => panic!("a GPU is there and cannot be used: {e}"),
    }
}

/// The first GPU, if it is one of those that Hopper's kernels run on; or None, after saying so like [`gpu`].
pub fn hopper(name: &str) -> Option<Context> {
    let context = gpu(name)?;
    if context.info().compute_capability == (9, 0) {
        return Some(context);
    }
    skip("no GPU of compute capability 9.0", name);
    None
}

/// Says that a test is skipped, and why.
fn skip(why: &str, name: &str) {
    println!("skipped: {why}: {name}");
    note("OXIDNN_SKIPPED", name);
}

/// Whether a device is the simulator.
pub fn is_simulated(context: &Context) -> bool {
    context.info().name.starts_with(SIMULATOR)
}

/// Writes the test at hand to the file that `OXIDNN_SIMULATED` names, if the device is simulated.
pub fn note_simulated(context: &Context) {
    if is_simulated(context) {
        // Tests run in threads of their names.
        note("OXIDNN_SIMULATED", std::thread::current().name().unwrap_or("a test"));
    }
}

/// Adds a line to the file that a variable names.
fn note(variable: &str, line: &str) {
    if let Some(path) = std::env::var_os(variable)
        && let Ok(mut file) = std::fs::OpenOptions::new().create(true).append(true).open(path)
    {
        // A lost line makes the count too small, which the reader of the log sees; it is no test failure.
        let _ = writeln!(file, "{line}");
    }
}
