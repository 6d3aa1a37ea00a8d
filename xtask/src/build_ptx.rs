//! `cargo xtask build-ptx`: the kernels, compiled and checked.

use anyhow::{Result, bail};
use cuda_builder::{CudaBuilder, Freshness, freshness, toolchain};
use std::path::{Path, PathBuf};

/// The kernel crate and what it depends on.
fn sources(root: &Path) -> [PathBuf; 4] {
    ["kernels-gpu", "kernel-abi", "cuda-std", "cuda-std-macros"].map(|name| root.join(name))
}

fn builder(root: &Path) -> CudaBuilder {
    let [kernels, others @ ..] = sources(root);
    CudaBuilder::new(kernels)
        .depends_on(others)
        .export_global("OXIDNN_ABI_FINGERPRINT")
        .work_dir(root.join("target/kernels"))
}

/// What a binary that embeds all PTX may grow by: a library that is one of many must stay small.
const MAX_PTX_BYTES: u64 = 20_000_000;

/// Builds into the folder that is committed, and beside it cubins, which are not, when they are asked for; or `only`
/// some families elsewhere.
pub fn run(root: &Path, cubin: bool, only: Vec<String>) -> Result<()> {
    let build = builder(root).copy_to(root.join("kernels-gpu/ptx")).only(only).build()?;
    print!("{}", build.table());
    summary(&build)?;
    if cubin {
        let Some(ptxas) = toolchain::ptxas() else {
            bail!("cubins need ptxas and there is none; `cargo xtask setup` installs it, or OXIDNN_PTXAS names one");
        };
        let cubins = cuda_builder::assemble(&build, &ptxas)?;
        for cubin in &cubins {
            println!("{:<40} {:>9} bytes", cubin.name, cubin.bytes);
        }
        let bytes: usize = cubins.iter().map(|cubin| cubin.bytes).sum();
        println!(
            "{} cubins, {:.2} MB; built into the library with its feature `cubin`",
            cubins.len(),
            bytes as f64 / 1e6
        );
    }
    Ok(())
}

/// Builds beside it, so that every gate is passed anew, and compares the sources of what is committed.
pub fn check(root: &Path) -> Result<()> {
    let build = builder(root).copy_to(root.join("target/kernels/checked")).build()?;
    summary(&build)?;
    match freshness(&root.join("kernels-gpu/ptx"), &sources(root))? {
        Freshness::Fresh => Ok(()),
        Freshness::Missing => bail!("kernels-gpu/ptx is missing; run `cargo xtask build-ptx`"),
        Freshness::Stale { expected, found } => {
            bail!("kernels-gpu/ptx is of the sources {found}, they are now {expected}; run `cargo xtask build-ptx`")
        }
    }
}

/// One line on a build, and the gate on its size.
fn summary(build: &cuda_builder::Build) -> Result<()> {
    let n_kernels: usize = build.files.iter().map(|file| file.kernels.len()).sum();
    let mut bytes = 0;
    for file in &build.files {
        bytes += std::fs::metadata(build.packed_path(file))?.len();
    }
    let text_bytes: usize = build.files.iter().map(|file| file.ptx_bytes).sum();
    let checked =
        build.ptxas.as_ref().map_or("without ptxas".to_owned(), |version| format!("checked by ptxas {version}"));
    println!(
        "{n_kernels} kernels in {} files, {:.2} MB of PTX, {:.2} MB embedded (at most {}), {checked}, by {}",
        build.files.len(),
        text_bytes as f64 / 1e6,
        bytes as f64 / 1e6,
        MAX_PTX_BYTES / 1_000_000,
        build.compiler
    );
    if bytes > MAX_PTX_BYTES {
        bail!("expected at most {MAX_PTX_BYTES} bytes of embedded PTX, given {bytes}");
    }
    Ok(())
}

/// Prints the committed text of a kernel (or of all kernels whose symbols begin so), as the driver gets it.
pub fn show(root: &Path, symbol: &str) -> Result<()> {
    let build = cuda_builder::load(&root.join("kernels-gpu/ptx"))?;
    let mut shown = false;
    for file in &build.files {
        if !file.kernels.iter().any(|kernel| kernel.symbol.starts_with(symbol)) {
            continue;
        }
        let text = build.text(file)?;
        for entry in text.split(ENTRY).skip(1).filter(|entry| entry.starts_with(symbol)) {
            println!("{ENTRY}{entry}");
            shown = true;
        }
    }
    if !shown {
        bail!("no kernel whose symbol begins with {symbol:?} in kernels-gpu/ptx/manifest.json");
    }
    Ok(())
}

/// How a kernel begins.
const ENTRY: &str = ".visible .entry ";
