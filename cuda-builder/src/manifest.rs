//! What a build made, and whether it is still that of the sources.

use crate::Error;
use crate::gates::Checked;
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Changes whenever the pipeline makes other PTX of the same sources.
pub const PIPELINE: &str = "2";

/// The manifest's name, beside the PTX files.
const NAME: &str = "manifest.json";

/// The ending of a packed file.
const PACKED: &str = "zst";

/// How hard files are packed: kernels of one family are alike over long distances, which only high levels find.
const PACKING_LEVEL: i32 = 19;

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
    /// Length of its text.
    pub ptx_bytes: usize,
    /// Its kernels.
    pub kernels: Vec<KernelReport>,
}

impl PtxFile {
    /// The name of its packed form.
    fn packed_name(&self) -> String {
        format!("{}.{PACKED}", self.name)
    }
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
    /// A file's text.
    ///
    /// # Errors
    /// `Io` when it cannot be read or unpacked.
    pub fn text(&self, file: &PtxFile) -> Result<String, Error> {
        let path = self.packed_path(file);
        let packed = std::fs::File::open(&path).map_err(Error::io(&path))?;
        let text = zstd::decode_all(packed).and_then(|bytes| String::from_utf8(bytes).map_err(std::io::Error::other));
        text.map_err(Error::io(&path))
    }

    /// Where a file's packed form lies.
    pub fn packed_path(&self, file: &PtxFile) -> PathBuf {
        self.dir.join(file.packed_name())
    }

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
        let path = dir.join(file.packed_name());
        std::fs::metadata(&path).map_err(Error::io(&path))?;
    }
    build.dir = dir.to_path_buf();
    Ok(build)
}

/// Replaces what is in `dir`. With `texts` the files' texts are written beside their packed forms.
pub fn write(
    dir: &Path,
    checked: Vec<Checked>,
    source_hash: String,
    compiler: String,
    ptxas: Option<String>,
    texts: bool,
) -> Result<Build, Error> {
    std::fs::create_dir_all(dir).map_err(Error::io(dir))?;
    let mut files = Vec::new();
    let mut written = Vec::new();
    for Checked { file, reports } in checked {
        let (name, ptx_bytes) = (file.name(), file.ptx.len());
        let made = PtxFile { name, family: file.family, arch: file.arch.number(), ptx_bytes, kernels: reports };
        let path = dir.join(made.packed_name());
        let packed = zstd::encode_all(file.ptx.as_bytes(), PACKING_LEVEL).map_err(Error::io(&path))?;
        std::fs::write(&path, packed).map_err(Error::io(&path))?;
        written.push(path);
        if texts {
            let path = dir.join(&made.name);
            std::fs::write(&path, &file.ptx).map_err(Error::io(&path))?;
            written.push(path);
        }
        files.push(made);
    }
    for path in std::fs::read_dir(dir).map_err(Error::io(dir))?.flatten().map(|entry| entry.path()) {
        // Cubins of the old PTX go with it.
        let made_here =
            path.extension().is_some_and(|extension| [PACKED, "ptx", "cubin"].iter().any(|e| *e == extension));
        if made_here && !written.contains(&path) {
            std::fs::remove_file(&path).map_err(Error::io(&path))?;
        }
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
