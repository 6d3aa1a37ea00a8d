//! Finding and loading NVIDIA's libraries.

use anyhow::{Context as _, Result};
use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};
use std::path::{Path, PathBuf};

/// Where CUDA toolkits and Python packages put their libraries; `*` stands for any part of one folder's name.
const PLACES: [&str; 13] = [
    "/opt/*/lib/python3*/site-packages/nvidia/*/lib",
    "/opt/*/*/lib/python3*/site-packages/nvidia/*/lib",
    "/opt/*/.venv/lib/python3*/site-packages/nvidia/*/lib",
    "/usr/local/lib/python3*/site-packages/nvidia/*/lib",
    "/usr/local/lib/python3*/dist-packages/nvidia/*/lib",
    "/usr/lib/python3*/dist-packages/nvidia/*/lib",
    "/usr/lib/python3*/site-packages/nvidia/*/lib",
    "/home/*/.venv/lib/python3*/site-packages/nvidia/*/lib",
    "/root/.venv/lib/python3*/site-packages/nvidia/*/lib",
    "/usr/local/cuda*/lib64",
    "/usr/local/cuda*/targets/*/lib",
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib64",
];

/// Every folder where a library of NVIDIA's may lie, those around `near` first.
fn folders(near: Option<&Path>) -> Vec<PathBuf> {
    // A package's folder is `nvidia/<package>/lib`, so its neighbours are those of one installation.
    let around = near.and_then(|near| near.parent()?.parent()).map(|site| format!("{}/*/lib", site.display()));
    around.iter().map(String::as_str).chain(PLACES).flat_map(expand).collect()
}

/// A loaded library with the folder it came from; None where the loader found it by itself.
#[derive(Debug)]
pub struct Loaded {
    /// The library, for the rest of the process: NVIDIA's libraries leave threads and handlers behind.
    pub library: &'static Library,
    /// Its folder.
    pub folder: Option<PathBuf>,
}

/// Loads the first of `names` that there is: by `path`, a file or a folder, where given, else by the loader's own
/// search and then from the known places, those around `near` first.
///
/// # Errors
/// When there is none, with where it was looked for.
pub fn load(names: &[&str], path: Option<&Path>, near: Option<&Path>) -> Result<Loaded> {
    if let Some(path) = path {
        let file = if path.is_dir() { path.join(names[0]) } else { path.to_path_buf() };
        let library = open(&file).with_context(|| format!("loading {}", file.display()))?;
        return Ok(Loaded { library, folder: file.parent().map(Path::to_path_buf) });
    }
    let folders = folders(near);
    for name in names {
        // What belongs to a loaded library's installation goes before what the loader finds elsewhere.
        if near.is_none()
            && let Ok(library) = open(Path::new(name))
        {
            return Ok(Loaded { library, folder: None });
        }
        for folder in &folders {
            let file = folder.join(name);
            if file.is_file()
                && let Ok(library) = open(&file)
            {
                return Ok(Loaded { library, folder: Some(folder.clone()) });
            }
        }
        if let Ok(library) = open(Path::new(name)) {
            return Ok(Loaded { library, folder: None });
        }
    }
    let (names, places) = (names.join(" or "), PLACES.join(", "));
    anyhow::bail!("no {names}, neither by the loader's path (LD_LIBRARY_PATH) nor in {places}")
}

/// Loads what there is of `names` and keeps it, for libraries that look for others by their bare names.
pub fn preload(names: &[&str], near: Option<&Path>) -> Vec<Loaded> {
    names.iter().filter_map(|name| load(&[name], None, near).ok()).collect()
}

fn open(path: &Path) -> Result<&'static Library, libloading::Error> {
    // SAFETY: the initializers of NVIDIA's libraries have no precondition. Global, so that libraries which load
    // others by name find these.
    let library = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_GLOBAL) }?;
    Ok(Box::leak(Box::new(library)))
}

/// Folders that a pattern with `*` names, newest version last in name first.
fn expand(pattern: &str) -> Vec<PathBuf> {
    let mut found = vec![PathBuf::from("/")];
    for part in pattern.split('/').filter(|part| !part.is_empty()) {
        found = match part.split_once('*') {
            None => found.into_iter().map(|folder| folder.join(part)).collect(),
            Some((start, end)) => found.iter().flat_map(|folder| matching(folder, start, end)).collect(),
        };
    }
    found.retain(|folder| folder.is_dir());
    found
}

fn matching(folder: &Path, start: &str, end: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    let fits = |name: &str| name.len() >= start.len() + end.len() && name.starts_with(start) && name.ends_with(end);
    let mut found: Vec<PathBuf> =
        entries.filter(|entry| entry.file_name().to_str().is_some_and(fits)).map(|entry| entry.path()).collect();
    found.sort();
    found.reverse();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_name_folders() {
        let root = tempfile::tempdir().unwrap();
        let lib = root.path().join("cuda-13.0/lib64");
        std::fs::create_dir_all(&lib).unwrap();
        assert_eq!(expand(&format!("{}/cuda*/lib64", root.path().display())), [lib]);
        assert!(expand(&format!("{}/nowhere*/lib64", root.path().display())).is_empty());
    }

    #[test]
    fn neighbours_of_a_package_come_first() {
        let root = tempfile::tempdir().unwrap();
        let (cudnn, cublas) = (root.path().join("nvidia/cudnn/lib"), root.path().join("nvidia/cublas/lib"));
        std::fs::create_dir_all(&cudnn).unwrap();
        std::fs::create_dir_all(&cublas).unwrap();
        assert_eq!(folders(Some(&cudnn))[..2], [cudnn.clone(), cublas]);
        let missing = load(&["libnothing.so.9"], Some(&cudnn), None).unwrap_err();
        assert!(format!("{missing:#}").contains("libnothing.so.9"));
        let missing = load(&["libnothing.so.9"], None, None).unwrap_err();
        assert!(format!("{missing:#}").contains("LD_LIBRARY_PATH"));
    }
}
