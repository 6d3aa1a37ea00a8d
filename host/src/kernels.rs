//! The PTX that this binary carries, and what is loaded of it.

use crate::driver::{Function, GpuContext, Module};
use crate::{Error, settings};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock};

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
    modules: Mutex<HashMap<ModuleKey, Arc<OnceLock<Module>>>>,
    functions: Mutex<HashMap<&'static str, Function>>,
}

impl LoadedKernels {
    /// The function of a kernel that this binary carries.
    pub(crate) fn function(&self, gpu: &GpuContext, symbol: &'static str) -> Result<Function, Error> {
        if let Some(function) = lock(&self.functions).get(symbol) {
            return Ok(function.clone());
        }
        let embedded = find(symbol)?;
        let slot = lock(&self.modules).entry((embedded.name, embedded.arch)).or_default().clone();
        // Two threads may both load the module the first time; the second result is dropped.
        let module = match slot.get() {
            Some(module) => module,
            None => {
                let module = load(gpu, embedded)?;
                slot.get_or_init(|| module)
            }
        };
        let function = module.function(symbol).map_err(Error::from)?;
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

/// Loads a module and compares the layout of its launch parameters with the host's.
fn load(gpu: &GpuContext, embedded: &EmbeddedModule) -> Result<Module, Error> {
    let replacement = settings::ptx_dir()
        .map(|dir| {
            let path = dir.join(file_name(embedded));
            std::fs::read_to_string(&path).map_err(|e| Error::StaleKernels {
                expected: format!("{} (OXIDNN_PTX_DIR)", path.display()),
                found: format!("{e}; run `cargo xtask build-ptx`"),
            })
        })
        .transpose()?;
    load_text(gpu, &file_name(embedded), replacement.as_deref().unwrap_or(embedded.ptx))
}

fn load_text(gpu: &GpuContext, name: &str, ptx: &str) -> Result<Module, Error> {
    let module = Module::load(gpu, ptx)?;
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
    fn an_unknown_kernel_is_named() {
        let message = find("nobody_has_this").unwrap_err().to_string();
        assert!(message.contains("nobody_has_this") && message.contains("cargo xtask build-ptx"), "{message}");
    }
}
