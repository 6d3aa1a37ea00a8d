//! The peers: NVIDIA's libraries, loaded at run time where there are any.

pub mod libraries;

pub(crate) mod cublaslt;
pub mod cudnn;
pub(crate) mod torch;

use anyhow::{Result, bail};
use std::ffi::c_int;

/// Declares the functions of a library and a table of them that is filled at run time.
macro_rules! functions {
    ($(#[$meta:meta])* $table:ident { $($name:ident = $symbol:literal($($ty:ty),* $(,)?) -> $ret:ty;)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy)]
        pub(crate) struct $table {
            $(pub(crate) $name: unsafe extern "C" fn($($ty),*) -> $ret,)*
        }

        impl $table {
            /// Finds every function.
            ///
            /// # Safety
            /// The library has them with these types, and stays loaded as long as the table is used.
            unsafe fn load(library: &libloading::os::unix::Library) -> anyhow::Result<Self> {
                use anyhow::Context as _;
                Ok($table { $(
                    $name: {
                        // SAFETY: the caller's promise.
                        let symbol = unsafe {
                            library.get::<unsafe extern "C" fn($($ty),*) -> $ret>(concat!($symbol, "\0").as_bytes())
                        };
                        *symbol.with_context(|| concat!("finding ", $symbol))?
                    },
                )* })
            }
        }
    };
}
pub(crate) use functions;

/// Turns a status other than 0 into an error.
fn check(call: &str, status: c_int) -> Result<()> {
    if status == 0 { Ok(()) } else { bail!("{call}: status {status}") }
}
