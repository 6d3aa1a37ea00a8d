//! Embeds packed PTX, and with the feature `cubin` the machine code that was made of it: the committed files when
//! they are those of the sources, else a new build where there is a kernel compiler, else the reason why there is none.

use cuda_builder::{Build, Cubin, CudaBuilder, Freshness};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

fn main() {
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    // Asked for when it runs: a build script may have been compiled for another checkout with the same target folder.
    let host = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR"));
    let root = host.parent().expect("host lies in the workspace").to_path_buf();
    let sources = ["kernels-gpu", "kernel-abi", "cuda-std", "cuda-std-macros"].map(|name| root.join(name));
    for dir in &sources {
        println!("cargo:rerun-if-changed={}", dir.join("src").display());
        println!("cargo:rerun-if-changed={}", dir.join("Cargo.toml").display());
    }
    let committed = root.join("kernels-gpu/ptx");
    println!("cargo:rerun-if-changed={}", committed.join("manifest.json").display());
    println!("cargo:rerun-if-env-changed=OXIDNN_KERNEL_RUSTC");
    println!("cargo:rerun-if-changed={}", host.join("src").display());
    let kernels = kernels(&committed, &sources, &out);
    let with_cubins = std::env::var_os("CARGO_FEATURE_CUBIN").is_some();
    if with_cubins {
        println!("cargo:rerun-if-changed={}", cuda_builder::cubin_list(&committed).display());
    }
    let cubins = match &kernels {
        Ok((build, _)) if with_cubins => cuda_builder::cubins(build),
        _ => Vec::new(),
    };
    if with_cubins && cubins.is_empty() {
        println!(
            "cargo:warning=the feature cubin is on and there are none of this PTX; run `cargo xtask build-ptx --cubin`"
        );
    }
    let mut made_of = match &kernels {
        Ok((build, _)) => format!("{} by {}", build.source_hash, build.compiler),
        Err(_) => "none".to_owned(),
    };
    if let Some(cubin) = cubins.first() {
        made_of = format!("{made_of} and ptxas {}", cubin.ptxas);
    }
    let launches = cuda_builder::source_hash(std::slice::from_ref(&host)).expect("the sources can be read");
    let text = match kernels {
        Ok((build, origin)) => embed(&build, &cubins, &origin),
        Err(reason) => {
            println!("cargo:warning=no kernels embedded, GPUs cannot be used: {reason}");
            format!(
                "pub static MODULES: [EmbeddedModule; 0] = [];\npub static KERNELS_STATE: super::KernelsState = Err({reason:?});\n"
            )
        }
    };
    let made_of = format!("{made_of}, launched by {launches}");
    let text = format!("{text}pub static MADE_OF: &str = {made_of:?};\n");
    std::fs::write(out.join("embedded.rs"), text).expect("OUT_DIR is writable");
}

fn kernels(committed: &Path, sources: &[PathBuf], out: &Path) -> Result<(Build, String), String> {
    let fresh = cuda_builder::freshness(committed, sources).map_err(|e| e.to_string())?;
    if fresh == Freshness::Fresh {
        let build = cuda_builder::load(committed).map_err(|e| e.to_string())?;
        let origin = format!("kernels-gpu/ptx, source {}", build.source_hash);
        return Ok((build, origin));
    }
    let state = match fresh {
        Freshness::Stale { expected, found } => {
            format!("kernels-gpu/ptx is of the sources {found}, they are now {expected}")
        }
        _ => "kernels-gpu/ptx is missing".to_owned(),
    };
    let build = CudaBuilder::new(&sources[0])
        .depends_on(sources[1..].iter().cloned())
        .export_global("OXIDNN_ABI_FINGERPRINT")
        .work_dir(out.join("kernels"))
        .copy_to(out.join("ptx"))
        .build()
        .map_err(|e| format!("{state}; {e}"))?;
    let origin = format!("built with the host crate, source {}", build.source_hash);
    Ok((build, origin))
}

fn embed(build: &Build, cubins: &[Cubin], origin: &str) -> String {
    let mut text = format!("pub static MODULES: [EmbeddedModule; {}] = [\n", build.files.len());
    for file in &build.files {
        let kernels: Vec<&str> = file.kernels.iter().map(|kernel| kernel.symbol.as_str()).collect();
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "    EmbeddedModule {{\n        name: {:?},\n        arch: {},\n        ptx_bytes: {},\n        packed_ptx: \
             include_bytes!({:?}),\n        text: std::sync::OnceLock::new(),\n        kernels: &{kernels:?},\n        cubins: &[",
            file.family,
            file.arch,
            file.ptx_bytes,
            build.packed_path(file),
        );
        for cubin in cubins.iter().filter(|cubin| cubin.ptx == file.name) {
            let _ = writeln!(
                text,
                "            super::EmbeddedCubin {{ arch: {:?}, image: include_bytes!({:?}), waits: {} }},",
                cubin.arch,
                build.dir.join(&cubin.name),
                cubin.waits
            );
        }
        text.push_str("        ],\n    },\n");
    }
    let _ = writeln!(text, "];\npub static KERNELS_STATE: super::KernelsState = Ok({origin:?});");
    text
}
