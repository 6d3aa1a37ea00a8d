//! The kernels that this binary carries, and what is loaded of them.

use crate::driver::{Function, GpuContext, Module};
use crate::{Error, settings};
use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Instant;

/// One PTX file: the kernels of one operator for one architecture.
#[derive(Debug)]
pub struct EmbeddedModule {
    /// The operator's word, with which its kernels' symbols begin.
    pub name: &'static str,
    /// 80 for the portable baseline, 90 for `sm_90a`.
    pub arch: u32,
    /// The text.
    pub ptx: &'static str,
    /// Symbols of its kernels.
    pub kernels: &'static [&'static str],
    /// Machine code made of the PTX ahead of time; none without the feature `cubin`.
    pub cubins: &'static [EmbeddedCubin],
}

/// Machine code for one architecture.
#[derive(Debug)]
pub struct EmbeddedCubin {
    /// The only architecture it runs on, such as `sm_90a`.
    pub arch: &'static str,
    /// The ELF file. Only `build.rs` makes one of these, of a file that it has checked.
    pub(crate) image: &'static [u8],
}

impl EmbeddedCubin {
    /// Its size.
    pub fn len_bytes(&self) -> usize {
        self.image.len()
    }

    /// Whether a device of this compute capability is of its architecture: of the same number, not only of a later
    /// one.
    fn is_for(&self, (major, minor): (u32, u32)) -> bool {
        let number = self.arch.strip_prefix("sm_").map(|word| word.trim_end_matches('a'));
        number.and_then(|number| number.parse().ok()) == Some(10 * major + minor)
    }
}

impl EmbeddedModule {
    /// The machine code for a device of this compute capability.
    pub fn cubin_for(&self, compute_capability: (u32, u32)) -> Option<&'static EmbeddedCubin> {
        self.cubins.iter().find(|cubin| cubin.is_for(compute_capability))
    }

    /// Whether a device of this compute capability has all instructions of its kernels.
    pub fn runs_on(&self, (major, minor): (u32, u32)) -> bool {
        if self.arch == 90 { (major, minor) == (9, 0) } else { 10 * major + minor >= self.arch }
    }
}

/// What a module was loaded from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Image {
    /// PTX, compiled by the driver or found in its cache.
    Ptx,
    /// Machine code made ahead of time for this architecture.
    Cubin(&'static str),
    /// PTX in the place of the embedded kernels, from this file (`OXIDNN_PTX_DIR`).
    Replacement(PathBuf),
}

impl fmt::Display for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Image::Ptx => f.write_str("PTX"),
            Image::Cubin(arch) => write!(f, "cubin {arch}"),
            Image::Replacement(path) => write!(f, "PTX {}", path.display()),
        }
    }
}

/// A module that a context has loaded.
#[derive(Clone, Debug)]
pub struct LoadedModule {
    /// The operator's word.
    pub name: &'static str,
    /// As [`EmbeddedModule::arch`].
    pub arch: u32,
    /// What it was loaded from.
    pub image: Image,
    /// How long that took.
    pub load_us: f64,
    /// Why machine code that was there was not taken.
    pub cubin_refused: Option<String>,
}

/// Where the embedded kernels come from, or why there are none and which command mends that.
pub type KernelsState = Result<&'static str, &'static str>;

mod embedded {
    use super::EmbeddedModule;
    include!(concat!(env!("OUT_DIR"), "/embedded.rs"));
}

/// Every embedded PTX file.
pub fn embedded_modules() -> &'static [EmbeddedModule] {
    embedded::MODULES
}

/// Whether kernels are embedded.
pub fn kernels_state() -> KernelsState {
    embedded::KERNELS_STATE
}

/// What in this binary the time of an algorithm depends on: hashes of the kernels' and the host's sources.
pub(crate) fn made_of() -> &'static str {
    embedded::MADE_OF
}

/// Name and architecture.
type ModuleKey = (&'static str, u32);

/// The modules of one GPU context, loaded one by one when a kernel of theirs is first asked for.
#[derive(Debug, Default)]
pub(crate) struct LoadedKernels {
    modules: Mutex<HashMap<ModuleKey, Arc<OnceLock<Loaded>>>>,
    functions: Mutex<HashMap<&'static str, Function>>,
}

#[derive(Debug)]
struct Loaded {
    module: Module,
    about: LoadedModule,
}

impl LoadedKernels {
    /// Loads every module that runs on the device.
    pub(crate) fn load_all(&self, gpu: &GpuContext) -> Result<(), Error> {
        let able = embedded_modules().iter().filter(|module| module.runs_on(gpu.compute_capability()));
        able.filter_map(|module| module.kernels.first()).try_for_each(|symbol| self.function(gpu, symbol).map(drop))
    }

    /// What is loaded, by name.
    pub(crate) fn loaded(&self) -> Vec<LoadedModule> {
        let mut list: Vec<LoadedModule> =
            lock(&self.modules).values().filter_map(|slot| slot.get()).map(|loaded| loaded.about.clone()).collect();
        list.sort_by_key(|loaded| (loaded.name, loaded.arch));
        list
    }

    /// The function of a kernel that this binary carries.
    pub(crate) fn function(&self, gpu: &GpuContext, symbol: &'static str) -> Result<Function, Error> {
        if let Some(function) = lock(&self.functions).get(symbol) {
            return Ok(function.clone());
        }
        let embedded = find(symbol)?;
        let slot = lock(&self.modules).entry((embedded.name, embedded.arch)).or_default().clone();
        // Two threads may both load the module the first time; the second result is dropped.
        let loaded = match slot.get() {
            Some(loaded) => loaded,
            None => {
                let loaded = load(gpu, embedded)?;
                slot.get_or_init(|| loaded)
            }
        };
        let function = loaded.module.function(symbol).map_err(Error::from)?;
        lock(&self.functions).insert(symbol, function.clone());
        Ok(function)
    }
}

/// A lock whose holder panicked guards only caches here: their content stays usable.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn find(symbol: &str) -> Result<&'static EmbeddedModule, Error> {
    let origin = kernels_state().map_err(|reason| Error::StaleKernels {
        expected: format!("a PTX file with the kernel {symbol}"),
        found: reason.to_owned(),
    })?;
    embedded_modules().iter().find(|module| module.kernels.contains(&symbol)).ok_or_else(|| Error::StaleKernels {
        expected: format!("the kernel {symbol}"),
        found: format!("{origin} without it; run `cargo xtask build-ptx`"),
    })
}

/// Loads a module: machine code for this very device where there is some and the driver takes it, else PTX.
fn load(gpu: &GpuContext, embedded: &EmbeddedModule) -> Result<Loaded, Error> {
    let start = Instant::now();
    let name = file_name(embedded);
    let done = |module, image, cubin_refused| {
        let load_us = start.elapsed().as_secs_f64() * 1e6;
        let about = LoadedModule { name: embedded.name, arch: embedded.arch, image, load_us, cubin_refused };
        Ok(Loaded { module, about })
    };
    if let Some(dir) = settings::ptx_dir() {
        let path = dir.join(&name);
        let text = std::fs::read_to_string(&path).map_err(|e| Error::StaleKernels {
            expected: format!("{} (OXIDNN_PTX_DIR)", path.display()),
            found: format!("{e}; run `cargo xtask build-ptx`"),
        })?;
        return done(load_text(gpu, &name, &text)?, Image::Replacement(path), None);
    }
    let mut refused = None;
    if let Some(cubin) = embedded.cubin_for(gpu.compute_capability()) {
        match Module::load_cubin(gpu, cubin).map_err(Error::from).and_then(|module| same_layouts(module, cubin.arch)) {
            Ok(module) => return done(module, Image::Cubin(cubin.arch), None),
            // A driver older than the assembler: it compiles the PTX itself.
            Err(e) => refused = Some(e.to_string()),
        }
    }
    done(load_text(gpu, &name, embedded.ptx)?, Image::Ptx, refused)
}

fn load_text(gpu: &GpuContext, name: &str, ptx: &str) -> Result<Module, Error> {
    same_layouts(Module::load(gpu, ptx)?, name)
}

/// Compares the layout of a module's launch parameters with the host's.
fn same_layouts(module: Module, name: &str) -> Result<Module, Error> {
    let expected = kernel_abi::abi_fingerprint();
    let found = module.global_u64("OXIDNN_ABI_FINGERPRINT")?;
    if found != expected {
        return Err(Error::StaleKernels {
            expected: format!("launch parameters with the fingerprint {expected:016x}"),
            found: format!("{found:016x} in {name}; run `cargo xtask build-ptx`"),
        });
    }
    Ok(module)
}

/// The name under which `cargo xtask build-ptx` writes a module.
fn file_name(module: &EmbeddedModule) -> String {
    let suffix = if module.arch == 90 { "a" } else { "" };
    format!("{}.sm_{}{suffix}.ptx", module.name, module.arch)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ptx_of_other_parameter_layouts_is_stale() {
        let Ok(gpu) = GpuContext::primary(0) else {
            println!("skipped: no GPU: a_ptx_of_other_parameter_layouts_is_stale");
            return;
        };
        let embedded = &embedded_modules()[0];
        assert!(load_text(&gpu, "x.ptx", embedded.ptx).is_ok());
        let first_byte = kernel_abi::abi_fingerprint().to_le_bytes()[0];
        let (old, new) = (format!("[8] = {{{first_byte}, "), format!("[8] = {{{}, ", first_byte ^ 1));
        assert!(embedded.ptx.contains(&old));
        match load_text(&gpu, "x.ptx", &embedded.ptx.replace(&old, &new)) {
            Err(Error::StaleKernels { expected, found }) => {
                assert!(expected.contains("fingerprint") && found.contains("x.ptx; run `cargo xtask build-ptx`"));
            }
            other => panic!("expected stale kernels, given {other:?}"),
        }
    }

    #[test]
    fn machine_code_is_for_one_architecture_only() {
        let cubin = |arch| EmbeddedCubin { arch, image: &[] };
        assert!(cubin("sm_80").is_for((8, 0)) && !cubin("sm_80").is_for((8, 6)) && !cubin("sm_80").is_for((9, 0)));
        assert!(cubin("sm_90").is_for((9, 0)) && cubin("sm_90a").is_for((9, 0)) && !cubin("sm_90a").is_for((10, 0)));
        assert!(cubin("sm_100a").is_for((10, 0)) && !cubin("90").is_for((9, 0)));
    }

    #[test]
    fn every_module_has_its_machine_code_or_none() {
        for module in embedded_modules() {
            let there = module.cubins.iter().map(|cubin| cubin.arch).collect::<Vec<_>>();
            let expected: &[&str] = if module.arch == 90 { &["sm_90a"] } else { &["sm_80", "sm_90"] };
            assert!(there.is_empty() || (cfg!(feature = "cubin") && there == expected), "{}: {there:?}", module.name);
            assert!(module.cubins.iter().all(|cubin| cubin.image.starts_with(b"\x7fELF")));
        }
    }

    #[test]
    fn machine_code_is_taken_on_its_device_and_refused_on_others() {
        let Ok(gpu) = GpuContext::primary(0) else {
            println!("skipped: no GPU: machine_code_is_taken_on_its_device_and_refused_on_others");
            return;
        };
        for cubin in embedded_modules().iter().flat_map(|module| module.cubins) {
            let loads = Module::load_cubin(&gpu, cubin).and_then(|module| module.global_u64("OXIDNN_ABI_FINGERPRINT"));
            if cubin.is_for(gpu.compute_capability()) {
                assert_eq!(loads.unwrap(), kernel_abi::abi_fingerprint());
            } else if !cubin.arch.starts_with(&format!("sm_{}", gpu.compute_capability().0)) {
                assert!(loads.is_err(), "{}", cubin.arch);
            }
        }
    }

    #[test]
    fn an_unknown_kernel_is_named() {
        let message = find("nobody_has_this").unwrap_err().to_string();
        assert!(message.contains("nobody_has_this") && message.contains("cargo xtask build-ptx"), "{message}");
    }
}
