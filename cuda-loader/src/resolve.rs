//! Finding the driver and its functions.

use libloading::Library;
use std::ffi::{CStr, c_void};
use std::sync::OnceLock;

/// `CUDA_ERROR_NO_DEVICE`: the answer of every function where there is no driver.
pub const NO_DEVICE: u32 = 100;

/// `CUDA_ERROR_NOT_FOUND`: the answer of a function that the driver is too old to have.
pub const NOT_FOUND: u32 = 500;

/// Where the driver is looked for: the loader's path, then where container runtimes put it.
const PLACES: [&str; 4] = [
    "libcuda.so.1",
    "/usr/local/nvidia/lib64/libcuda.so.1",
    "/usr/local/nvidia/lib/libcuda.so.1",
    "/usr/lib/wsl/lib/libcuda.so.1",
];

fn library() -> Option<&'static Library> {
    static LIBRARY: OnceLock<Option<Library>> = OnceLock::new();
    LIBRARY
        .get_or_init(|| {
            // SAFETY: libcuda's initializers have no precondition; the library is never unloaded.
            PLACES.iter().find_map(|place| unsafe { Library::new(*place) }.ok())
        })
        .as_ref()
}

/// Whether a driver library could be loaded.
pub fn has_driver() -> bool {
    library().is_some()
}

/// The address of a driver function, or None without a driver or such a function.
pub(crate) fn address(name: &CStr) -> Option<*mut c_void> {
    // SAFETY: only the address is taken; whoever calls it states its type.
    let symbol = unsafe { library()?.get::<*mut c_void>(name.to_bytes_with_nul()) }.ok()?;
    Some(*symbol)
}

/// Defines functions that forward to the driver's of the same name, resolved at first use.
///
/// With `export` they are C symbols, which satisfy the linker in place of libcuda.
macro_rules! forward {
    (export $(fn $name:ident($($arg:ident: $ty:ty),* $(,)?);)*) => { $(
        #[doc = concat!("Forwards to the driver's `", stringify!($name), "`.")]
        ///
        /// # Safety
        /// As NVIDIA's documentation of the function says.
        // Comments within a macro do not survive its expansion.
        #[allow(non_snake_case, clippy::too_many_arguments, clippy::undocumented_unsafe_blocks)]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($arg: $ty),*) -> u32 {
            crate::resolve::forward!(@body $name($($arg: $ty),*))
        }
    )* };
    (typed $($(#[$meta:meta])* fn $name:ident = $symbol:literal($($arg:ident: $ty:ty),* $(,)?);)*) => { $(
        $(#[$meta])*
        ///
        /// # Safety
        /// As NVIDIA's documentation of the function says.
        // Comments within a macro do not survive its expansion.
        #[allow(clippy::too_many_arguments, clippy::undocumented_unsafe_blocks)]
        pub unsafe fn $name($($arg: $ty),*) -> u32 {
            crate::resolve::forward!(@call concat!($symbol, "\0"), ($($arg: $ty),*))
        }
    )* };
    (@body $name:ident($($arg:ident: $ty:ty),*)) => {
        crate::resolve::forward!(@call concat!(stringify!($name), "\0"), ($($arg: $ty),*))
    };
    (@call $symbol:expr, ($($arg:ident: $ty:ty),*)) => {{
        static ADDRESS: std::sync::OnceLock<usize> = std::sync::OnceLock::new();
        let address = *ADDRESS.get_or_init(|| {
            const NAME: &str = $symbol;
            let name = std::ffi::CStr::from_bytes_with_nul(NAME.as_bytes()).unwrap_or_default();
            crate::resolve::address(name).map_or(0, |address| address as usize)
        });
        if address == 0 {
            return crate::resolve::missing();
        }
        // SAFETY: the driver exports this function with this signature (`cuda.h`).
        let function: unsafe extern "C" fn($($ty),*) -> u32 =
            unsafe { std::mem::transmute(address as *const std::ffi::c_void) };
        // SAFETY: the caller's promise is the driver's.
        unsafe { function($($arg),*) }
    }};
}
pub(crate) use forward;

/// The answer of a function that could not be resolved.
pub(crate) fn missing() -> u32 {
    if has_driver() { NOT_FOUND } else { NO_DEVICE }
}
