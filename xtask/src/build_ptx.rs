//! `cargo xtask build-ptx`: the kernels, compiled and checked.

use anyhow::{Result, bail};
use cuda_builder::{CudaBuilder, Freshness, freshness};
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

/// Builds into the folder that is committed, or `only` some families beside it.
pub fn run(root: &Path, only: Vec<String>) -> Result<()> {
    let build = builder(root).copy_to(root.join("kernels-gpu/ptx")).only(only).build()?;
    print!("{}", build.table());
    summary(&build);
    Ok(())
}

/// Builds beside it, so that every gate is passed anew, and compares the sources of what is committed.
pub fn check(root: &Path) -> Result<()> {
    let build = builder(root).copy_to(root.join("target/kernels/checked")).build()?;
    summary(&build);
    match freshness(&root.join("kernels-gpu/ptx"), &sources(root))? {
        Freshness::Fresh => Ok(()),
        Freshness::Missing => bail!("kernels-gpu/ptx is missing; run `cargo xtask build-ptx`"),
        Freshness::Stale { expected, found } => {
            bail!("kernels-gpu/ptx is of the sources {found}, they are now {expected}; run `cargo xtask build-ptx`")
        }
    }
}

fn summary(build: &cuda_builder::Build) {
    let n_kernels: usize = build.files.iter().map(|file| file.kernels.len()).sum();
    let bytes: usize = build.files.iter().flat_map(|file| &file.kernels).map(|kernel| kernel.ptx_bytes).sum();
    let checked =
        build.ptxas.as_ref().map_or("without ptxas".to_owned(), |version| format!("checked by ptxas {version}"));
    println!(
        "{n_kernels} kernels in {} files, {:.2} MB, {checked}, by {}",
        build.files.len(),
        bytes as f64 / 1e6,
        build.compiler
    );
}
