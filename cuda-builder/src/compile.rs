//! From the kernel crate to the text of one LLVM module.

use crate::Error;
use crate::toolchain::Compiler;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Compiles the crate and `core` with everything linked into one module, and gives its text.
pub fn llvm_module(compiler: &Compiler, crate_dir: &Path, work_dir: &Path) -> Result<String, Error> {
    let linker = write_linker(work_dir)?;
    let linker_flag = format!("-Clinker={}", linker.display());
    let flags = [
        "-Ctarget-cpu=sm_90a",
        "-Ctarget-feature=+ptx86",
        // It would copy a barrier into both branches of an `if`: MIR has no word for convergence.
        "-Zmir-enable-passes=-JumpThreading",
        // The optimizer must not run before the rewrite has told it what is convergent.
        "-Cno-prepopulate-passes",
        "--emit=llvm-ir",
        &linker_flag,
    ];
    let mut command = Command::new(&compiler.cargo);
    // This may run within a build script: the outer build's settings are not for this one.
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        let outer = (text.starts_with("CARGO") && text != "CARGO_HOME")
            || ["RUSTFLAGS", "RUSTC_WRAPPER", "RUSTC_WORKSPACE_WRAPPER", "RUSTDOCFLAGS", "TARGET", "OUT_DIR"]
                .contains(&text.as_ref());
        if outer {
            command.env_remove(&name);
        }
    }
    let target_dir = work_dir.join("cargo");
    command
        .args([
            "rustc",
            "--lib",
            "--crate-type",
            "cdylib",
            "--release",
            "--target",
            "nvptx64-nvidia-cuda",
            "-Zbuild-std=core",
        ])
        .arg("--manifest-path")
        .arg(crate_dir.join("Cargo.toml"))
        .arg("--target-dir")
        .arg(&target_dir)
        .env("RUSTC", &compiler.rustc)
        .env("RUSTC_BOOTSTRAP", "1")
        .env("CARGO_ENCODED_RUSTFLAGS", flags.join("\u{1f}"))
        .env("CARGO_PROFILE_RELEASE_LTO", "fat")
        .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "1")
        .env("CARGO_PROFILE_RELEASE_PANIC", "abort")
        .env("CARGO_PROFILE_RELEASE_DEBUG", "false")
        .env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "3");
    run(&mut command)?;
    let deps = target_dir.join("nvptx64-nvidia-cuda/release/deps");
    let package = std::fs::read_to_string(crate_dir.join("Cargo.toml")).map_err(Error::io(crate_dir))?;
    let name = package
        .lines()
        .find_map(|line| line.strip_prefix("name = "))
        .map(|name| name.trim_matches('"').replace('-', "_"))
        .ok_or_else(|| Error::Module(format!("{} has no package name", crate_dir.display())))?;
    let path = deps.join(format!("{name}.ll"));
    std::fs::read_to_string(&path).map_err(Error::io(&path))
}

/// A program in the linker's place that only creates the file it is asked for: the module is already whole.
fn write_linker(work_dir: &Path) -> Result<PathBuf, Error> {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = work_dir.canonicalize().map_err(Error::io(work_dir))?;
    let path = dir.join("linker.sh");
    let text = "#!/bin/sh\nwhile [ $# -gt 0 ]; do\n  if [ \"$1\" = -o ]; then : > \"$2\"; fi\n  shift\ndone\n";
    // Two builds side by side may both write it; an unchanged file is left alone.
    if std::fs::read_to_string(&path).is_ok_and(|there| there == text) {
        return Ok(path);
    }
    std::fs::write(&path, text).map_err(Error::io(&path))?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).map_err(Error::io(&path))?;
    Ok(path)
}

/// Runs a program of the pipeline.
pub fn run(command: &mut Command) -> Result<String, Error> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|source| Error::Io { path: PathBuf::from(&program), source })?;
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if output.status.success() {
        return Ok(text);
    }
    /// Enough for the errors; warnings come first.
    const SHOWN_BYTES: usize = 6000;
    let start = text.char_indices().map(|(at, _)| at).find(|at| text.len() - at <= SHOWN_BYTES).unwrap_or(0);
    Err(Error::Tool { program, output: text[start..].to_owned() })
}
