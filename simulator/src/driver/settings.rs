//! What the environment chooses.

use std::str::FromStr;
use std::sync::OnceLock;
use std::time::Duration;

fn read<T: FromStr>(name: &str, default: T) -> T {
    let Some(text) = std::env::var_os(name) else { return default };
    text.to_str().and_then(|text| text.trim().parse().ok()).unwrap_or_else(|| {
        eprintln!("cuda-simulator: {name}={} is not understood", text.to_string_lossy());
        default
    })
}

macro_rules! setting {
    ($(#[$meta:meta])* fn $name:ident = $variable:literal, $ty:ty, $default:expr) => {
        $(#[$meta])*
        pub(super) fn $name() -> $ty {
            static VALUE: OnceLock<$ty> = OnceLock::new();
            *VALUE.get_or_init(|| read($variable, $default))
        }
    };
}

setting!(
    /// Determines the order of everything that hardware leaves open.
    fn seed = "CUDA_SIMULATOR_SEED", u64, 1
);
setting!(
    /// Devices, all alike.
    fn devices = "CUDA_SIMULATOR_DEVICES", u32, 1
);
setting!(
    /// Multiprocessors of each.
    fn sms = "CUDA_SIMULATOR_SMS", u32, 4
);
setting!(
    /// MiB of device memory.
    fn memory_mib = "CUDA_SIMULATOR_MEMORY", usize, 8192
);
setting!(
    /// Seconds that a kernel may take.
    fn timeout_s = "CUDA_SIMULATOR_TIMEOUT", u64, 600
);
setting!(
    /// 0 lets the async proxy read what was not fenced.
    fn fences = "CUDA_SIMULATOR_FENCES", u32, 1
);
setting!(
    /// 1 prints every launch with its time.
    fn trace = "CUDA_SIMULATOR_TRACE", u32, 0
);

/// Size of device memory.
pub(super) fn memory_bytes() -> usize {
    memory_mib() << 20
}

/// How long a kernel may take.
pub(super) fn timeout() -> Duration {
    Duration::from_secs(timeout_s())
}
