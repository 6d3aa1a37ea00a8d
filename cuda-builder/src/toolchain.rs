//! Finding what turns Rust into PTX: a rustc with the source of `core`, LLVM's `opt` and `llc`, and `ptxas`.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The compiler of kernels.
#[derive(Clone, Debug)]
pub struct Compiler {
    /// rustc.
    pub rustc: PathBuf,
    /// cargo that drives it.
    pub cargo: PathBuf,
    /// `opt`.
    pub opt: PathBuf,
    /// `llc`.
    pub llc: PathBuf,
    /// What rustc calls itself.
    pub version: String,
}

/// The assembler that checks PTX.
#[derive(Clone, Debug)]
pub struct Ptxas {
    /// The program.
    pub path: PathBuf,
    /// Its version.
    pub version: String,
}

/// What installs the Debian compiler.
pub const DEBIAN_PACKAGES: [&str; 2] = ["rustc-web", "rust-web-src"];

/// Looks for a compiler: `OXIDNN_KERNEL_RUSTC`, then a rustup nightly with the component rust-src, then Debian's
/// `rustc-web`.
///
/// # Errors
/// Every place with what is missing there, and the command that installs it.
pub fn discover() -> Result<Compiler, String> {
    let mut reasons = Vec::new();
    if let Some(rustc) = std::env::var_os("OXIDNN_KERNEL_RUSTC").filter(|path| !path.is_empty()) {
        return try_rustc(Path::new(&rustc)).map_err(|reason| format!("OXIDNN_KERNEL_RUSTC: {reason}"));
    }
    match nightly() {
        Some(rustc) => match try_rustc(&rustc) {
            Ok(compiler) => return Ok(compiler),
            Err(reason) => reasons.push(format!("rustup's nightly: {reason}")),
        },
        None => reasons.push("rustup's nightly: not installed".to_owned()),
    }
    match try_rustc(Path::new("/usr/bin/rustc")) {
        Ok(compiler) => return Ok(compiler),
        Err(reason) => reasons.push(format!("Debian's rustc-web: {reason}")),
    }
    Err(format!(
        "{}; run `cargo xtask setup`, which installs one (by hand: `apt-get install rustc-web rust-web-src llvm-22`, or \
         `rustup toolchain install nightly --component rust-src,llvm-tools`)",
        reasons.join("; ")
    ))
}

/// The nightly that rustup has, if any.
fn nightly() -> Option<PathBuf> {
    let output = Command::new("rustup").args(["which", "rustc", "--toolchain", "nightly"]).output().ok()?;
    let path = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
    (output.status.success() && path.is_file()).then_some(path)
}

fn try_rustc(rustc: &Path) -> Result<Compiler, String> {
    let about = run(Command::new(rustc).arg("-vV")).map_err(|e| format!("{}: {e}", rustc.display()))?;
    let field =
        |name: &str| about.lines().find_map(|line| line.strip_prefix(name)).map(|value| value.trim().to_owned());
    let version = about.lines().next().unwrap_or_default().to_owned();
    let llvm = field("LLVM version:").ok_or("its LLVM version is unknown")?;
    let major = llvm.split('.').next().unwrap_or_default().to_owned();
    let sysroot = run(Command::new(rustc).args(["--print", "sysroot"]))?;
    let sysroot = PathBuf::from(sysroot.trim());
    let source = sysroot.join("lib/rustlib/src/rust/library/core");
    if !source.is_dir() {
        return Err(format!("{version} has no source of core at {}", source.display()));
    }
    // Debian's compiler and its sources are separate packages that must be of one version.
    if let Ok(given) = std::fs::read_to_string(sysroot.join("lib/rustlib/src/rust/version")) {
        let release = field("release:").unwrap_or_default();
        if !given.trim().starts_with(&release) {
            return Err(format!("rustc is {release}, the source of core is {}", given.trim()));
        }
    }
    let host = field("host:").unwrap_or_default();
    let tool = |name: &str| {
        let with_component = sysroot.join("lib/rustlib").join(&host).join("bin").join(name);
        let places = [
            std::env::var_os("OXIDNN_LLVM_BIN").map(|dir| PathBuf::from(dir).join(name)),
            Some(with_component),
            Some(PathBuf::from(format!("/usr/bin/{name}-{major}"))),
            Some(PathBuf::from(format!("/usr/lib/llvm-{major}/bin/{name}"))),
        ];
        places.into_iter().flatten().find(|path| path.is_file()).ok_or_else(|| {
            format!("{version} uses LLVM {major} and there is no {name} of that version (package llvm-{major}, or component llvm-tools)")
        })
    };
    let cargo = std::env::var_os("CARGO").map_or_else(|| PathBuf::from("cargo"), PathBuf::from);
    Ok(Compiler { rustc: rustc.to_path_buf(), cargo, opt: tool("opt")?, llc: tool("llc")?, version })
}

/// Looks for `ptxas`: `OXIDNN_PTXAS`, `target/tools` of a parent folder, the path, a CUDA toolkit.
///
/// It is a check and never a requirement: the driver assembles PTX itself.
pub fn ptxas() -> Option<Ptxas> {
    let here = std::env::current_dir().unwrap_or_default();
    let tools = here.ancestors().map(|dir| dir.join("target/tools/ptxas")).collect::<Vec<_>>();
    let places = std::env::var_os("OXIDNN_PTXAS")
        .map(PathBuf::from)
        .into_iter()
        .chain(tools)
        .chain([PathBuf::from("ptxas"), PathBuf::from("/usr/local/cuda/bin/ptxas")]);
    for path in places {
        if let Ok(about) = run(Command::new(&path).arg("--version")) {
            let line = about.lines().find(|line| line.contains("release")).unwrap_or_default();
            let version = line.rsplit(' ').next().unwrap_or_default().to_owned();
            return Some(Ptxas { path, version });
        }
    }
    None
}

fn run(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|e| e.to_string())?;
    if !output.status.success() {
        return Err(format!("{command:?} failed: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
