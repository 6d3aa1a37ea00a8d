//! Tests that need a GPU say so where there is none, and are counted.

use oxidnn::Context;
use std::io::Write as _;

/// The first GPU; or None, after saying `skipped: no GPU` for the test `name`.
///
/// The line also goes to the file that `OXIDNN_SKIPPED` names, which `cargo xtask test` counts.
pub fn gpu(name: &str) -> Option<Context> {
    match Context::gpu(0) {
        Ok(context) => Some(context),
        Err(oxidnn::Error::NoDevice { .. }) => {
            println!("skipped: no GPU: {name}");
            if let Some(path) = std::env::var_os("OXIDNN_SKIPPED")
                && let Ok(mut file) = std::fs::OpenOptions::new().create(true).append(true).open(path)
            {
                // A lost line makes the count too small, which the reader of the log sees; it is no test failure.
                let _ = writeln!(file, "{name}");
            }
            None
        }
        Err(e) => panic!("a GPU is there and cannot be used: {e}"),
    }
}
