//! Modules and functions.

use super::device::{MOST_SHARED_BYTES, MOST_THREADS, REGISTERS, SHARED_BYTES};
use super::errors::{INVALID_PTX, INVALID_SOURCE, INVALID_VALUE, NOT_FOUND};
use super::{Outcome, api, contexts, driver, lock, put};
use crate::decode::program::Kernel;
use crate::decode::{Symbol, Symbols, kernel};
use crate::ptx::{self, Space};
use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// A loaded text.
pub(super) struct Module {
    kernels: HashMap<String, Arc<Kernel>>,
    /// Address and size of its variables.
    variables: HashMap<String, (u64, usize)>,
    functions: Mutex<HashMap<String, usize>>,
    /// Identity, to find its functions when it is unloaded.
    id: u64,
}

impl Drop for Module {
    fn drop(&mut self) {
        for (address, _) in self.variables.values() {
            // What was freed already is no news.
            let _ = driver().free(*address);
        }
    }
}

/// A kernel of a module.
pub(super) struct Function {
    pub kernel: Arc<Kernel>,
    /// Shared memory that launches may ask for beyond the kernel's own.
    pub most_dynamic_shared: AtomicI32,
    module: u64,
}

impl Function {
    /// Registers of a thread: PTX has any number of them. As many as the compiler may use for the kernel's limits.
    pub fn registers(&self) -> u64 {
        let threads =
            self.kernel.max_threads.unwrap_or(MOST_THREADS.into()).max(32) * self.kernel.min_blocks.unwrap_or(1);
        (REGISTERS / threads.max(1) / 8 * 8).clamp(16, 255)
    }
}

/// Kernels by the hash of the text that they are of: hosts load the same text again for other contexts.
pub(super) type Parsed = HashMap<u64, Vec<Arc<Kernel>>>;

fn load(text: &str) -> ptx::Result<Module> {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    let hash = hasher.finish();
    let module = ptx::parse(text)?;
    let mut symbols = Symbols::new();
    let mut variables = HashMap::new();
    for variable in module.variables.iter().filter(|v| matches!(v.space, Space::Global | Space::Const)) {
        let bytes = variable.bytes.max(1);
        let address = driver().allocate(bytes).map_err(|_| ptx::Fault {
            line: 0,
            reason: format!("no memory for the {bytes} bytes of {}", variable.name),
        })?;
        symbols.insert(variable.name.to_owned(), Symbol { space: variable.space, address });
        // SAFETY: the memory was just allocated with this size.
        unsafe {
            let place = address as *mut u8;
            place.write_bytes(0, bytes);
            place.copy_from(variable.initial.as_ptr(), variable.initial.len().min(bytes));
        }
        variables.insert(variable.name.to_owned(), (address, variable.bytes));
    }
    // Code with the addresses of variables in it is translated each time.
    let known = lock(&driver().parsed).get(&hash).cloned();
    let kernels = match known {
        Some(kernels) if !kernels.iter().any(|kernel| kernel.uses_variables) => kernels,
        _ => {
            let entries = module.functions.iter().filter(|function| function.is_entry);
            let kernels: Vec<Arc<Kernel>> =
                entries.map(|entry| kernel(&module, &symbols, entry).map(Arc::new)).collect::<ptx::Result<_>>()?;
            lock(&driver().parsed).insert(hash, kernels.clone());
            kernels
        }
    };
    let kernels = kernels.into_iter().map(|kernel| (kernel.name.clone(), kernel)).collect();
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let id = NEXT.fetch_add(1, Ordering::Relaxed);
    Ok(Module { kernels, variables, functions: Mutex::default(), id })
}

/// The option numbers of a log and its size.
const ERROR_LOG: [u32; 2] = [5, 6];

/// # Safety
/// As `cuModuleLoadDataEx`.
unsafe fn load_image(
    module: *mut *mut c_void,
    image: *const c_void,
    options: &[u32],
    values: *mut *mut c_void,
) -> Outcome {
    contexts::needed()?;
    if image.is_null() {
        return Err(INVALID_VALUE);
    }
    // SAFETY: images that are no PTX are files that begin with four known bytes; a text has at least its end.
    let text = unsafe { CStr::from_ptr(image.cast()) };
    if text.to_bytes().starts_with(b"\x7fELF") {
        eprintln!("cuda-simulator: machine code is not executed, only PTX");
        return Err(INVALID_SOURCE);
    }
    let loaded = text.to_str().map_err(|_| INVALID_PTX).map(load)?;
    match loaded {
        // SAFETY: the caller gave a place for a handle.
        Ok(loaded) => unsafe { put(module, driver().modules.add(Arc::new(loaded))) },
        Err(fault) => {
            eprintln!("cuda-simulator: {fault}");
            let find = |number| options.iter().position(|&option| option == number);
            if let [Some(log), Some(size)] = ERROR_LOG.map(find) {
                let message = fault.to_string();
                // SAFETY: the options say that these two values are a buffer and its size.
                unsafe {
                    let (log, size) = (*values.add(log), *values.add(size) as usize);
                    let bytes = &message.as_bytes()[..message.len().min(size.saturating_sub(1))];
                    if !log.is_null() && size > 0 {
                        log.cast::<u8>().copy_from(bytes.as_ptr(), bytes.len());
                        log.cast::<u8>().add(bytes.len()).write(0);
                    }
                }
            }
            Err(INVALID_PTX)
        }
    }
}

/// # Safety
/// The text ends with a zero.
unsafe fn name<'a>(text: *const c_char) -> Outcome<&'a str> {
    if text.is_null() {
        return Err(INVALID_VALUE);
    }
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(text) }.to_str().map_err(|_| NOT_FOUND)
}

api! {
    fn cuModuleLoadData(module: *mut *mut c_void, image: *const c_void) {
        unsafe { load_image(module, image, &[], std::ptr::null_mut()) }
    }

    fn cuModuleLoadDataEx(
        module: *mut *mut c_void,
        image: *const c_void,
        n_options: u32,
        options: *mut u32,
        values: *mut *mut c_void,
    ) {
        // SAFETY: the caller's promise is this call's.
        let options = if n_options == 0 { &[] } else { unsafe { std::slice::from_raw_parts(options, n_options as usize) } };
        // SAFETY: the caller's promise is this call's.
        unsafe { load_image(module, image, options, values) }
    }

    fn cuModuleUnload(module: *mut c_void) {
        let module = driver().modules.remove(module)?;
        driver().functions.retain(|function| function.module != module.id);
        Ok(())
    }

    fn cuModuleGetFunction(function: *mut *mut c_void, module: *mut c_void, text: *const c_char) {
        let module = driver().modules.get(module)?;
        // SAFETY: the caller's promise is this call's.
        let name = unsafe { name(text) }?;
        let kernel = module.kernels.get(name).ok_or(NOT_FOUND)?;
        let mut functions = lock(&module.functions);
        let handle = *functions.entry(name.to_owned()).or_insert_with(|| {
            let most = SHARED_BYTES.saturating_sub(kernel.shared_bytes) as i32;
            let function =
                Function { kernel: Arc::clone(kernel), most_dynamic_shared: AtomicI32::new(most), module: module.id };
            driver().functions.add(Arc::new(function)) as usize
        });
        // SAFETY: the caller gives a place for the result.
        unsafe { put(function, handle as *mut c_void) }
    }

    fn cuModuleGetGlobal_v2(address: *mut u64, bytes: *mut usize, module: *mut c_void, text: *const c_char) {
        let module = driver().modules.get(module)?;
        // SAFETY: the caller's promise is this call's.
        let &(found, size) = module.variables.get(unsafe { name(text) }?).ok_or(NOT_FOUND)?;
        if !address.is_null() {
            // SAFETY: the caller gives a place for the result.
            unsafe { put(address, found) }?;
        }
        // SAFETY: the caller gives a place for the result.
        if bytes.is_null() { Ok(()) } else { unsafe { put(bytes, size) } }
    }

    fn cuFuncGetAttribute(value: *mut c_int, attribute: u32, function: *mut c_void) {
        let function = driver().functions.get(function)?;
        let kernel = &function.kernel;
        let found = match attribute {
            0 => kernel.max_threads.unwrap_or(MOST_THREADS.into()).min(MOST_THREADS.into()) as c_int,
            1 => kernel.shared_bytes as c_int,
            2 => 0,
            3 => kernel.local_bytes as c_int,
            4 => function.registers() as c_int,
            5 | 6 => 90,
            8 => function.most_dynamic_shared.load(Ordering::Relaxed),
            7 | 9..=16 => 0,
            _ => return Err(INVALID_VALUE),
        };
        // SAFETY: the caller gives a place for the result.
        unsafe { put(value, found) }
    }

    fn cuFuncSetAttribute(function: *mut c_void, attribute: u32, value: c_int) {
        let function = driver().functions.get(function)?;
        match attribute {
            8 if value < 0 || value as usize + function.kernel.shared_bytes > MOST_SHARED_BYTES => Err(INVALID_VALUE),
            8 => {
                function.most_dynamic_shared.store(value, Ordering::Relaxed);
                Ok(())
            }
            // Preferences for the cache, and permission for clusters of more than 8.
            9 | 14 => Ok(()),
            _ => Err(INVALID_VALUE),
        }
    }

    fn cuFuncSetCacheConfig(function: *mut c_void, config: u32) {
        let _ = config;
        driver().functions.get(function).map(drop)
    }
}
