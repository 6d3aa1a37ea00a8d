//! What a build made, and whether it is still that of the sources.

use crate::Error;
use crate::gates::Checked;
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Changes whenever the pipeline makes other PTX of the same sources.
const PIPELINE: &str = "1";

/// The manifest's name, beside the PTX files.
const NAME: &str = "manifest.json";

/// What a build made: the content of `manifest.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Build {
    /// Hash of the sources and of the pipeline.
    pub source_hash: String,
    /// What the compiler calls itself.
    pub compiler: String,
    /// Version of the `ptxas` that checked it; none when there was none.
    pub ptxas: Option<String>,
    /// The PTX files, by name.
    pub files: Vec<PtxFile>,
    /// Where they are.
    #[serde(skip)]
    pub dir: PathBuf,
}

/// One PTX file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PtxFile {
    /// Its name.
    pub name: String,
    /// The first word of its kernels' symbols.
    pub family: String,
    /// 80 or 90.
    pub arch: u32,
    /// Its kernels.
    pub kernels: Vec<KernelReport>,
}

/// What is known of a kernel. Resources are those `ptxas` named.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KernelReport {
    /// Its symbol.
    pub symbol: String,
    /// 80 or 90.
    pub arch: u32,
    /// Registers of a thread.
    pub registers: Option<u32>,
    /// Static shared memory of a block.
    pub shared_bytes: Option<u32>,
    /// Spill stores and loads of a thread.
    pub spill_bytes: Option<u32>,
    /// Length of its text.
    pub ptx_bytes: usize,
}

impl Build {
    /// One line a kernel.
    pub fn table(&self) -> String {
        let mut text = format!(
            "{:<58} {:>4} {:>9} {:>7} {:>7} {:>9}\n",
            "kernel", "arch", "registers", "shared", "spills", "PTX bytes"
        );
        let show = |number: Option<u32>| number.map_or("-".to_owned(), |number| number.to_string());
        for kernel in self.files.iter().flat_map(|file| &file.kernels) {
            // Writing to a string does not fail.
            let _ = writeln!(
                text,
                "{:<58} {:>4} {:>9} {:>7} {:>7} {:>9}",
                kernel.symbol,
                kernel.arch,
                show(kernel.registers),
                show(kernel.shared_bytes),
                show(kernel.spill_bytes),
                kernel.ptx_bytes
            );
        }
        text
    }
}

/// Whether PTX files belong to the sources as they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Freshness {
    /// They do.
    Fresh,
    /// They were made of other sources.
    Stale {
        /// Hash of the sources as they are.
        expected: String,
        /// Hash of the sources they were made of.
        found: String,
    },
    /// There are none.
    Missing,
}

/// Judges the files in `dir` against the sources in `source_dirs`.
///
/// # Errors
/// `Io` when the sources cannot be read.
pub fn freshness(dir: &Path, source_dirs: &[PathBuf]) -> Result<Freshness, Error> {
    let expected = source_hash(source_dirs)?;
    Ok(match load(dir) {
        Err(_) => Freshness::Missing,
        Ok(build) if build.source_hash == expected => Freshness::Fresh,
        Ok(build) => Freshness::Stale { expected, found: build.source_hash },
    })
}

/// Reads the manifest in `dir`, after a look whether its files are there.
///
/// # Errors
/// `Io` when something is missing, `Module` when the manifest cannot be read.
pub fn load(dir: &Path) -> Result<Build, Error> {
    let path = dir.join(NAME);
    let text = std::fs::read_to_string(&path).map_err(Error::io(&path))?;
    let mut build: Build =
        serde_json::from_str(&text).map_err(|e| Error::Module(format!("{}: {e}", path.display())))?;
    for file in &build.files {
        let path = dir.join(&file.name);
        std::fs::metadata(&path).map_err(Error::io(&path))?;
    }
    build.dir = dir.to_path_buf();
    Ok(build)
}

/// Replaces what is in `dir`.
pub fn write(
    dir: &Path,
    checked: Vec<Checked>,
    source_hash: String,
    compiler: String,
    ptxas: Option<String>,
) -> Result<Build, Error> {
    std::fs::create_dir_all(dir).map_err(Error::io(dir))?;
    for entry in std::fs::read_dir(dir).map_err(Error::io(dir))?.flatten() {
        let path = entry.path();
        // Cubins of the old PTX go with it.
        if path.extension().is_some_and(|extension| extension == "ptx" || extension == "cubin") {
            std::fs::remove_file(&path).map_err(Error::io(&path))?;
        }
    }
    let mut files = Vec::new();
    for Checked { file, reports } in checked {
        let path = dir.join(file.name());
        std::fs::write(&path, &file.ptx).map_err(Error::io(&path))?;
        files.push(PtxFile { name: file.name(), family: file.family, arch: file.arch.number(), kernels: reports });
    }
    files.sort_by(|a, b| a.name.cmp(&b.name));
    let build = Build { source_hash, compiler, ptxas, files, dir: dir.to_path_buf() };
    let path = dir.join(NAME);
    let text = serde_json::to_string_pretty(&build).map_err(|e| Error::Module(e.to_string()))?;
    std::fs::write(&path, text + "\n").map_err(Error::io(&path))?;
    Ok(build)
}

/// Hash of every `.rs` and `Cargo.toml` below the folders, by path within its folder, and of the pipeline.
///
/// # Errors
/// `Io` when a file cannot be read.
pub fn source_hash(source_dirs: &[PathBuf]) -> Result<String, Error> {
    let mut hash = FNV_START;
    let mut add = |bytes: &[u8]| hash = fnv(hash, bytes);
    add(PIPELINE.as_bytes());
    for dir in source_dirs {
        for path in sources(dir)? {
            let shown = path.strip_prefix(dir).unwrap_or(&path);
            add(shown.to_string_lossy().as_bytes());
            let text = std::fs::read_to_string(&path).map_err(Error::io(&path))?;
            add(text.replace("\r\n", "\n").as_bytes());
        }
    }
    Ok(format!("{hash:016x}"))
}

/// Where FNV-1a starts.
const FNV_START: u64 = 0xcbf2_9ce4_8422_2325;

fn fnv(hash: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(hash, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

/// Hash of a file's content.
pub(crate) fn text_hash(content: &[u8]) -> String {
    format!("{:016x}", fnv(FNV_START, content))
}

fn sources(dir: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut found = Vec::new();
    let mut folders = vec![dir.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).map_err(Error::io(&folder))?.flatten() {
            let path = entry.path();
            let name = entry.file_name();
            if path.is_dir() {
                if name != "target" && name != "ptx" && name != "tests" {
                    folders.push(path);
                }
            } else if name == "Cargo.toml" || path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}
