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

/// `OXIDNN_PTX_DIR`: a folder written by `cargo xtask build-ptx` whose files replace the embedded kernels of their
/// families, or add to them.
pub(crate) fn ptx_dir() -> Option<PathBuf> {
    std::env::var_os("OXIDNN_PTX_DIR").filter(|dir| !dir.is_empty()).map(PathBuf::from)
}

/// `OXIDNN_CUBIN`: `off` leaves machine code alone that is embedded, so that the driver compiles the PTX.
pub(crate) fn uses_cubins() -> bool {
    std::env::var_os("OXIDNN_CUBIN").is_none_or(|word| word != "off")
}

/// Where measurements are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StoreSetting {
    /// Nowhere on disk.
    Off,
    /// In this folder.
    Folder(PathBuf),
    /// In the user's cache folder, which this user does not have.
    NoCacheFolder,
}

/// `OXIDNN_STORE`: `off`, or a folder; unset or empty for the folder `oxidnn` in the user's cache folder.
pub(crate) fn store() -> StoreSetting {
    match std::env::var_os("OXIDNN_STORE").filter(|text| !text.is_empty()) {
        Some(word) if word == "off" => StoreSetting::Off,
        Some(folder) => StoreSetting::Folder(folder.into()),
        None => {
            dirs::cache_dir().map_or(StoreSetting::NoCacheFolder, |folder| StoreSetting::Folder(folder.join("oxidnn")))
        }
    }
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
