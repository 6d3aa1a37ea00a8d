//! Environment variables: every one that the library reads is read here.

use crate::Error;
use std::path::PathBuf;

/// Which device [`Context::best`](crate::Context::best) takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DeviceChoice {
    /// The first GPU, else the CPU.
    Best,
    /// The CPU.
    Cpu,
    /// The GPU with this ordinal, or an error.
    Gpu(usize),
}

/// `OXIDNN_DEVICE`: `cpu`, `gpu` or `gpu:<ordinal>`; unset or empty for the best there is.
pub(crate) fn device_choice() -> Result<DeviceChoice, Error> {
    let name = "OXIDNN_DEVICE";
    let text = std::env::var(name).unwrap_or_default();
    parse_device(&text).ok_or_else(|| Error::BadSetting {
        name,
        reason: format!("expected cpu, gpu or gpu:<ordinal>, given {text:?}"),
    })
}

fn parse_device(text: &str) -> Option<DeviceChoice> {
    match text {
        "" => Some(DeviceChoice::Best),
        "cpu" => Some(DeviceChoice::Cpu),
        "gpu" => Some(DeviceChoice::Gpu(0)),
        _ => text.strip_prefix("gpu:")?.parse().ok().map(DeviceChoice::Gpu),
    }
}

/// `OXIDNN_PTX_DIR`: a folder written by `cargo xtask build-ptx` whose files replace the embedded kernels.
pub(crate) fn ptx_dir() -> Option<PathBuf> {
    std::env::var_os("OXIDNN_PTX_DIR").filter(|dir| !dir.is_empty()).map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_words() {
        assert_eq!(parse_device(""), Some(DeviceChoice::Best));
        assert_eq!(parse_device("cpu"), Some(DeviceChoice::Cpu));
        assert_eq!(parse_device("gpu:3"), Some(DeviceChoice::Gpu(3)));
        assert_eq!(parse_device("tpu"), None);
        assert_eq!(parse_device("gpu:x"), None);
    }
}
