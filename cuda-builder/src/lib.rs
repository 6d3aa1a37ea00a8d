//! Builds a Rust kernel crate into checked PTX.
//!
//! The interface is rust-cuda's; behind it stands rustc's own NVPTX code generator and LLVM's `opt` and `llc`:
//!
//! 1. cargo compiles the kernel crate and `core` to one LLVM module, without optimization ([`toolchain`], `compile`);
//! 2. the module's text is rewritten where rustc has no words for what a GPU needs (`rewrite`);
//! 3. for each PTX file - the kernels of one family and architecture - what they reach is taken out of the module
//!    (`parts`), `opt` and `llc` make PTX of it, which gets its launch bounds (`ptx`);
//! 4. gates look at every kernel, with `ptxas` where there is one (`gates`);
//! 5. the files are packed (`manifest`).
//!
//! Nothing runs when sources and compiler are those of the last build, and steps 3 and 4 only for files of which
//! something has changed (`cache`).
//!
//! ```no_run
//! use cuda_builder::{Arch, CudaBuilder};
//! let build = CudaBuilder::new("kernels-gpu").archs([Arch::Sm80, Arch::Sm90a]).copy_to("kernels-gpu/ptx").build()?;
//! println!("{}", build.table());
//! # Ok::<(), cuda_builder::Error>(())
//! ```

mod cache;
mod compile;
mod cubin;
mod gates;
mod manifest;
mod parts;
mod ptx;
mod rewrite;
pub mod toolchain;

pub use cubin::{Cubin, assemble, cubin_list, cubins};
pub use manifest::{Build, Freshness, KernelReport, PtxFile, freshness, load, source_hash};

use cache::Cache;
use gates::Checked;
use parts::Parts;
use rayon::prelude::*;
use std::path::{Path, PathBuf};

/// An architecture that PTX is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Arch {
    /// The portable baseline: Ampere and everything after it.
    Sm80,
    /// Hopper's own instructions; runs on Hopper only.
    Sm90a,
}

impl Arch {
    /// `sm_80` or `sm_90a`.
    pub fn name(self) -> &'static str {
        match self {
            Arch::Sm80 => "sm_80",
            Arch::Sm90a => "sm_90a",
        }
    }

    /// The number kernels name it by.
    pub fn number(self) -> u32 {
        match self {
            Arch::Sm80 => 80,
            Arch::Sm90a => 90,
        }
    }

    /// The PTX version asked of `llc`.
    fn ptx_feature(self) -> &'static str {
        match self {
            Arch::Sm80 => "+ptx80",
            Arch::Sm90a => "+ptx86",
        }
    }
}

/// Why there is no PTX.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No compiler for kernels was found.
    #[error("no kernel compiler: {0}")]
    NoCompiler(String),
    /// A program of the pipeline failed.
    #[error("{program} failed:\n{output}")]
    Tool {
        /// The program.
        program: String,
        /// The end of what it printed.
        output: String,
    },
    /// The module's text is not what the pipeline expects.
    #[error("unexpected LLVM module: {0}")]
    Module(String),
    /// Kernels broke a gate.
    #[error("kernels refused:\n{}", .0.join("\n"))]
    Gates(Vec<String>),
    /// A file could not be read or written.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
}

impl Error {
    fn io(path: &Path) -> impl FnOnce(std::io::Error) -> Error + '_ {
        move |source| Error::Io { path: path.to_path_buf(), source }
    }
}

/// Builds a kernel crate.
#[derive(Clone, Debug)]
pub struct CudaBuilder {
    crate_dir: PathBuf,
    source_dirs: Vec<PathBuf>,
    archs: Vec<Arch>,
    out_dir: PathBuf,
    work_dir: PathBuf,
    globals: Vec<String>,
    only: Vec<String>,
}

impl CudaBuilder {
    /// A build of the crate in `crate_dir` for both architectures into `<crate_dir>/ptx`.
    pub fn new(crate_dir: impl AsRef<Path>) -> Self {
        let crate_dir = crate_dir.as_ref().to_path_buf();
        CudaBuilder {
            source_dirs: vec![crate_dir.clone()],
            archs: vec![Arch::Sm80, Arch::Sm90a],
            out_dir: crate_dir.join("ptx"),
            work_dir: crate_dir.join("target"),
            globals: Vec::new(),
            only: Vec::new(),
            crate_dir,
        }
    }

    /// Builds for one architecture only.
    pub fn arch(mut self, arch: Arch) -> Self {
        self.archs = vec![arch];
        self
    }

    /// Builds for these architectures.
    pub fn archs(mut self, archs: impl IntoIterator<Item = Arch>) -> Self {
        self.archs = archs.into_iter().collect();
        self
    }

    /// Where PTX files and manifest go.
    pub fn copy_to(mut self, dir: impl AsRef<Path>) -> Self {
        self.out_dir = dir.as_ref().to_path_buf();
        self
    }

    /// Where compiled crates and intermediate files go.
    pub fn work_dir(mut self, dir: impl AsRef<Path>) -> Self {
        self.work_dir = dir.as_ref().to_path_buf();
        self
    }

    /// Further folders whose sources the kernels depend on.
    pub fn depends_on(mut self, dirs: impl IntoIterator<Item = PathBuf>) -> Self {
        self.source_dirs.extend(dirs);
        self
    }

    /// Keeps a global of this name in every PTX file.
    pub fn export_global(mut self, name: &str) -> Self {
        self.globals.push(name.to_owned());
        self
    }

    /// Compiles and checks the families of these names alone, writing nothing to the output folder: for work on a kernel.
    pub fn only(mut self, families: impl IntoIterator<Item = String>) -> Self {
        self.only = families.into_iter().collect();
        self
    }

    /// Builds, unless the manifest in the output folder is of the same sources and compiler.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn build(&self) -> Result<Build, Error> {
        let compiler = toolchain::discover().map_err(Error::NoCompiler)?;
        let ptxas = toolchain::ptxas();
        let hash = source_hash(&self.source_dirs)?;
        if self.only.is_empty()
            && let Ok(build) = load(&self.out_dir)
            && build.source_hash == hash
            && build.compiler == compiler.version
            // A build without ptxas has not passed its gates.
            && (build.ptxas.is_some() || ptxas.is_none())
        {
            return Ok(build);
        }
        std::fs::create_dir_all(&self.work_dir).map_err(Error::io(&self.work_dir))?;
        let module = compile::llvm_module(&compiler, &self.crate_dir, &self.work_dir)?;
        let module = rewrite::module(&module)?;
        let parts = Parts::of(&module.text);
        let globals = ptx::globals(&compiler, &parts, &self.globals, &self.work_dir)?;
        let jobs = ptx::jobs(&module, &parts, &self.archs, &self.only);
        let cache = Cache::open(self.work_dir.join("cache"), &compiler, ptxas.as_ref())?;
        let keys: Vec<String> = jobs.iter().map(|job| cache.key(job)).collect();
        let make = |(job, key): (&ptx::Job, &String)| -> Result<(Checked, Vec<String>), Error> {
            if let Some(mut checked) = cache.get(key, job) {
                checked.file.add_globals(&globals);
                return Ok((checked, Vec::new()));
            }
            let file = ptx::file(&compiler, job, &self.work_dir)?;
            let (mut checked, faults) = gates::check(file, ptxas.as_ref(), &self.work_dir);
            if faults.is_empty() {
                cache.put(key, &checked);
            }
            checked.file.add_globals(&globals);
            Ok((checked, faults))
        };
        // As many at a time as there are processors, since a large module takes its programs a gigabyte of memory; one
        // by one in the order of the jobs, the longest first, so that all processors end at about the same time.
        let made: Result<Vec<_>, Error> = jobs.par_iter().zip(&keys).with_max_len(1).map(make).collect();
        let (checked, faults): (Vec<Checked>, Vec<Vec<String>>) = made?.into_iter().unzip();
        let mut faults = faults.concat();
        faults.extend(gates::missing_globals(&checked, &self.globals));
        if !faults.is_empty() {
            return Err(Error::Gates(faults));
        }
        let all = self.only.is_empty();
        if all {
            cache.keep_only(&keys.into_iter().collect());
        }
        let out_dir = if all { self.out_dir.clone() } else { self.work_dir.join("only") };
        manifest::write(&out_dir, checked, hash, compiler.version, ptxas.map(|ptxas| ptxas.version), !all)
    }
}
