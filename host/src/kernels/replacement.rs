//! PTX files of a folder in the place of the embedded ones, or beside them.

use super::EmbeddedModule;
use crate::{Error, settings};
use cuda_loader::ptx::ENTRY;
use std::path::Path;
use std::sync::OnceLock;

/// The files of `OXIDNN_PTX_DIR`, read when they are first asked for; none when it is not set.
///
/// # Errors
/// `StaleKernels` when the folder or a file of it cannot be read.
pub(super) fn modules() -> Result<&'static [EmbeddedModule], Error> {
    static MODULES: OnceLock<Result<Vec<EmbeddedModule>, String>> = OnceLock::new();
    let Some(dir) = settings::ptx_dir() else { return Ok(&[]) };
    match MODULES.get_or_init(|| read(&dir).map_err(|e| e.to_string())) {
        Ok(modules) => Ok(modules),
        Err(found) => Err(Error::StaleKernels {
            expected: format!("PTX files in {} (OXIDNN_PTX_DIR)", dir.display()),
            found: format!("{found}; run `cargo xtask build-ptx`"),
        }),
    }
}

fn read(dir: &Path) -> std::io::Result<Vec<EmbeddedModule>> {
    let mut modules = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let Some((family, arch)) = family_and_arch(&name) else { continue };
        let text = std::fs::read_to_string(&path)?;
        let symbols = text.lines().filter_map(|line| line.strip_prefix(ENTRY)?.split('(').next());
        // They live as long as the process, as embedded ones do.
        let kernels: Vec<&'static str> = symbols.map(|symbol| &*symbol.to_owned().leak()).collect();
        modules.push(EmbeddedModule {
            name: family.to_owned().leak(),
            arch,
            ptx_bytes: text.len(),
            packed_ptx: &[],
            text: OnceLock::from(Ok(text)),
            kernels: kernels.leak(),
            cubins: &[],
        });
    }
    modules.sort_by_key(|module| (module.name, module.arch));
    Ok(modules)
}

/// `pool.sm_80.ptx` holds the kernels of `pool` for architecture 80.
fn family_and_arch(file: &str) -> Option<(&str, u32)> {
    let (family, arch) = file.strip_suffix(".ptx")?.split_once(".sm_")?;
    Some((family, arch.trim_end_matches('a').parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_name_family_and_architecture() {
        assert_eq!(family_and_arch("pool.sm_80.ptx"), Some(("pool", 80)));
        assert_eq!(family_and_arch("matmul64.sm_90a.ptx"), Some(("matmul64", 90)));
        assert_eq!(family_and_arch("manifest.json"), None);
        assert_eq!(family_and_arch("pool.ptx"), None);
    }

    #[test]
    fn a_folder_is_read_with_its_kernels() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(
            dir.path().join("pool.sm_80.ptx"),
            ".version 8.0\n.visible .entry a(\n)\n{\n}\n.visible .entry b()\n{\n}\n",
        )
        .unwrap();
        std::fs::write(dir.path().join("other.txt"), "").unwrap();
        let modules = read(dir.path()).unwrap();
        assert_eq!((modules.len(), modules[0].kernels, modules[0].arch), (1, ["a", "b"].as_slice(), 80));
        assert!(modules[0].ptx().unwrap().starts_with(".version"));
        assert!(read(&dir.path().join("missing")).is_err());
    }
}
