//! The kernels that this binary carries, and what is loaded of them.
//!
//! A kernel is loaded when it is first used: from machine code made ahead of time for this very device, if the binary
//! has some ([`EmbeddedCubin`]), a whole operator at once; else the driver compiles PTX, of this one kernel
//! ([`excerpt`]).

mod excerpt;
mod replacement;

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
    /// Length of its text.
    pub ptx_bytes: usize,
    /// The text as a Zstandard stream, and unpacked once somebody asks for it.
    packed_ptx: &'static [u8],
    text: OnceLock<Result<String, String>>,
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
    /// Whether it was made of portable PTX with what [`cuda_loader::ptx::waiting`] adds.
    pub(crate) waits: bool,
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
    /// The text, which is kept for the life of the process once somebody has asked for it.
    ///
    /// # Errors
    /// `StaleKernels` when it does not unpack.
    pub fn ptx(&self) -> Result<&str, Error> {
        let unpack = || {
            let bytes = zstd::bulk::decompress(self.packed_ptx, self.ptx_bytes).map_err(|e| e.to_string())?;
            String::from_utf8(bytes).map_err(|e| e.to_string())
        };
        self.text.get_or_init(unpack).as_ref().map(String::as_str).map_err(|found| Error::StaleKernels {
            expected: format!("{} bytes of PTX for {}", self.ptx_bytes, self.name),
            found: found.clone(),
        })
    }

    /// What the text takes of this binary.
    pub fn packed_bytes(&self) -> usize {
        self.packed_ptx.len()
    }

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

/// Something that a context has loaded.
#[derive(Clone, Debug)]
pub struct LoadedModule {
    /// The operator's word.
    pub name: &'static str,
    /// As [`EmbeddedModule::arch`].
    pub arch: u32,
    /// The only kernel in it; None for all of the operator.
    pub kernel: Option<&'static str>,
    /// What it was loaded from.
    pub image: Image,
    /// How long that took.
    pub load_us: f64,
}

/// Where the embedded kernels come from, or why there are none and which command mends that.
pub type KernelsState = Result<&'static str, &'static str>;

mod embedded {
    use super::EmbeddedModule;
    include!(concat!(env!("OUT_DIR"), "/embedded.rs"));
}

/// Every embedded PTX file.
pub fn embedded_modules() -> &'static [EmbeddedModule] {
    &embedded::MODULES
}

/// Whether kernels are embedded.
pub fn kernels_state() -> KernelsState {
    match replacement::modules() {
        Ok([_, ..]) if embedded::KERNELS_STATE.is_err() => Ok("OXIDNN_PTX_DIR"),
        _ => embedded::KERNELS_STATE,
    }
}

/// What in this binary the time of an algorithm depends on: hashes of the kernels' and the host's sources.
pub(crate) fn made_of() -> &'static str {
    embedded::MADE_OF
}

/// Name and architecture.
type ModuleKey = (&'static str, u32);

/// A module with all kernels of an operator, or why the driver refused its machine code.
type Slot = Arc<OnceLock<Result<Module, String>>>;

/// What one GPU context has loaded.
#[derive(Debug, Default)]
pub(crate) struct LoadedKernels {
    modules: Mutex<HashMap<ModuleKey, Slot>>,
    functions: Mutex<HashMap<&'static str, Function>>,
    loads: Mutex<Vec<LoadedModule>>,
}

impl LoadedKernels {
    /// The function of a kernel that this binary carries.
    pub(crate) fn function(&self, gpu: &GpuContext, symbol: &'static str) -> Result<Function, Error> {
        if let Some(function) = lock(&self.functions).get(symbol) {
            return Ok(function.clone());
        }
        let embedded = find(symbol)?;
        // Two threads may both load a kernel the first time; the second result is dropped.
        let module = match self.machine_code(gpu, embedded) {
            Some(module) => module,
            None => self.load(embedded, Some(symbol), || {
                let (ptx, image) = text(embedded)?;
                let name = file_name(embedded);
                let part = excerpt::of_kernel(ptx, symbol).map(|part| load_text(gpu, &name, &part));
                match part {
                    Some(Ok(module)) => Ok((module, image)),
                    Some(Err(stale @ Error::StaleKernels { .. })) => Err(stale),
                    // A text that is laid out in another way is loaded as a whole.
                    _ => Ok((load_text(gpu, &name, ptx)?, image)),
                }
            })?,
        };
        let function = module.function(symbol).map_err(Error::from)?;
        lock(&self.functions).insert(symbol, function.clone());
        Ok(function)
    }

    /// Loads every kernel that runs on the device.
    pub(crate) fn load_all(&self, gpu: &GpuContext) -> Result<(), Error> {
        for embedded in taken()?.filter(|module| module.runs_on(gpu.compute_capability())) {
            let module = match self.machine_code(gpu, embedded) {
                Some(module) => module,
                None => self.load(embedded, None, || {
                    let (ptx, image) = text(embedded)?;
                    Ok((load_text(gpu, &file_name(embedded), ptx)?, image))
                })?,
            };
            for symbol in embedded.kernels {
                let function = module.function(symbol).map_err(Error::from)?;
                lock(&self.functions).entry(symbol).or_insert(function);
            }
        }
        Ok(())
    }

    /// What was loaded, oldest first.
    pub(crate) fn loads(&self) -> Vec<LoadedModule> {
        lock(&self.loads).clone()
    }

    /// Why the driver refused machine code of this module that is for its device.
    pub(crate) fn refusal(&self, embedded: &EmbeddedModule) -> Option<String> {
        let slot = lock(&self.modules).get(&(embedded.name, embedded.arch))?.clone();
        slot.get()?.as_ref().err().cloned()
    }

    /// The module of machine code for this very device, if there is one and the driver takes it.
    fn machine_code(&self, gpu: &GpuContext, embedded: &'static EmbeddedModule) -> Option<Module> {
        if settings::ptx_dir().is_some() || !settings::uses_cubins() {
            return None;
        }
        let cubin = embedded.cubin_for(gpu.compute_capability())?;
        let slot = lock(&self.modules).entry((embedded.name, embedded.arch)).or_default().clone();
        // A driver older than the assembler refuses; it compiles the PTX itself.
        let load = || {
            let module = Module::load_cubin(gpu, cubin).map_err(Error::from);
            Ok((same_layouts(module?, &format!("the cubin of {}", file_name(embedded)))?, Image::Cubin(cubin.arch)))
        };
        slot.get_or_init(|| self.load(embedded, None, load).map_err(|e| e.to_string())).as_ref().ok().cloned()
    }

    /// Keeps a record of a load.
    fn load(
        &self,
        embedded: &'static EmbeddedModule,
        kernel: Option<&'static str>,
        load: impl FnOnce() -> Result<(Module, Image), Error>,
    ) -> Result<Module, Error> {
        let start = Instant::now();
        let (module, image) = load()?;
        let load_us = start.elapsed().as_secs_f64() * 1e6;
        lock(&self.loads).push(LoadedModule { name: embedded.name, arch: embedded.arch, kernel, image, load_us });
        Ok(module)
    }
}

/// A module's text, and where it comes from.
fn text(module: &'static EmbeddedModule) -> Result<(&'static str, Image), Error> {
    let image = match settings::ptx_dir() {
        Some(dir) if replacement::modules()?.iter().any(|other| std::ptr::eq(other, module)) => {
            Image::Replacement(dir.join(file_name(module)))
        }
        _ => Image::Ptx,
    };
    Ok((module.ptx()?, image))
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn find(symbol: &str) -> Result<&'static EmbeddedModule, Error> {
    if let Some(module) = replacement::modules()?.iter().find(|module| module.kernels.contains(&symbol)) {
        return Ok(module);
    }
    let origin = kernels_state().map_err(|reason| Error::StaleKernels {
        expected: format!("a PTX file with the kernel {symbol}"),
        found: reason.to_owned(),
    })?;
    embedded_modules().iter().find(|module| module.kernels.contains(&symbol)).ok_or_else(|| Error::StaleKernels {
        expected: format!("the kernel {symbol}"),
        found: format!("{origin} without it; run `cargo xtask build-ptx`"),
    })
}

/// Every module that takes part: those of `OXIDNN_PTX_DIR`, then the embedded ones that it does not replace.
fn taken() -> Result<impl Iterator<Item = &'static EmbeddedModule>, Error> {
    let instead = replacement::modules()?;
    let is_kept =
        |module: &&EmbeddedModule| !instead.iter().any(|other| (other.name, other.arch) == (module.name, module.arch));
    Ok(instead.iter().chain(embedded_modules().iter().filter(is_kept)))
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
        let ptx = embedded_modules()[0].ptx().unwrap();
        assert!(load_text(&gpu, "x.ptx", ptx).is_ok());
        let first_byte = kernel_abi::abi_fingerprint().to_le_bytes()[0];
        let (old, new) = (format!("[8] = {{{first_byte}, "), format!("[8] = {{{}, ", first_byte ^ 1));
        assert!(ptx.contains(&old));
        match load_text(&gpu, "x.ptx", &ptx.replace(&old, &new)) {
            Err(Error::StaleKernels { expected, found }) => {
                assert!(expected.contains("fingerprint") && found.contains("x.ptx; run `cargo xtask build-ptx`"));
            }
            other => panic!("expected stale kernels, given {other:?}"),
        }
    }

    #[test]
    fn machine_code_is_for_one_architecture_only() {
        let cubin = |arch| EmbeddedCubin { arch, image: &[], waits: false };
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
