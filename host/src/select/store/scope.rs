//! What measurements are valid for.

use crate::{Context, settings};
use kernel_abi::layout::{FNV_START, fnv};
use std::path::Path;

/// Device, driver, library and kernels, one a line. Any change makes another scope, which knows nothing yet.
pub(crate) fn of(context: &Context) -> String {
    let info = context.info();
    let (major, minor) = info.compute_capability;
    let (device, driver) = match context.gpu_context() {
        Some(gpu) => {
            let driver = crate::driver::driver_version().map_or("unknown".to_owned(), |version| version.to_string());
            (format!("{}, compute capability {major}.{minor}", gpu.name()), driver)
        }
        None if context.is_gpu() => (format!("{}, described", info.name), "none".to_owned()),
        None => (processor(), "none".to_owned()),
    };
    let kernels = match settings::ptx_dir() {
        Some(dir) => format!("{:016x} (OXIDNN_PTX_DIR)", hash_of(&dir)),
        None if settings::uses_cubins() => crate::kernels::made_of().to_owned(),
        None => format!("{} (OXIDNN_CUBIN=off)", crate::kernels::made_of()),
    };
    // Units and bytes tell parts of a GPU (MIG) and power-limited models of one name apart.
    format!(
        "device {device}, {} units, {} bytes\ndriver {driver}\nlibrary {}\nkernels {kernels}\n",
        info.n_units,
        info.memory_bytes,
        env!("CARGO_PKG_VERSION"),
    )
}

/// What the processor calls itself, where that can be read.
fn processor() -> String {
    let about = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = about.lines().find(|line| line.starts_with("model name")).and_then(|line| line.split(": ").nth(1));
    format!("{} {}", std::env::consts::ARCH, model.unwrap_or("processor"))
}

/// Hash of the names and contents of a folder's files. One that cannot be read counts as empty: the kernels could not
/// be loaded either.
fn hash_of(dir: &Path) -> u64 {
    let mut paths: Vec<_> = std::fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    paths.sort();
    paths.iter().fold(FNV_START, |hash, path| {
        let name = path.file_name().unwrap_or_default();
        let hash = fnv(hash, name.as_encoded_bytes());
        fnv(hash, &std::fs::read(path).unwrap_or_default())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_names_everything_that_times_depend_on() {
        let scope = of(&Context::cpu());
        for word in ["device ", "units", "driver none", "library 0.", "kernels ", "launched by "] {
            assert!(scope.contains(word), "{scope}");
        }
    }

    #[test]
    fn a_changed_file_is_another_folder_of_kernels() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("conv.sm_80.ptx"), "a").unwrap();
        let first = hash_of(dir.path());
        assert_eq!(hash_of(dir.path()), first);
        std::fs::write(dir.path().join("conv.sm_80.ptx"), "b").unwrap();
        assert_ne!(hash_of(dir.path()), first);
    }
}
