//! Modules and their functions.

use super::GpuContext;
use super::error::{DriverError, check};
use crate::kernels::EmbeddedCubin;
use cuda_loader::ptx::{takes_waiting, waiting};
use cust::sys;
use std::ffi::{CString, c_uint, c_void};
use std::sync::{Arc, Mutex, PoisonError};

/// Code loaded by the driver. Cheap to clone; `Send + Sync`.
#[derive(Clone, Debug)]
pub struct Module(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    context: GpuContext,
    raw: *mut c_void,
    /// Whether all of its kernels begin with waiting for those before them on the stream.
    waits: bool,
}

// SAFETY: the driver allows module operations from any thread.
unsafe impl Send for Inner {}
// SAFETY: as above.
unsafe impl Sync for Inner {}

/// `CU_JIT_ERROR_LOG_BUFFER` and `CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES`.
const ERROR_LOG: [c_uint; 2] = [5, 6];

/// Room for what the PTX compiler has to say.
const LOG_BYTES: usize = 4096;

impl Module {
    /// Compiles and loads a PTX text.
    ///
    /// Kernels of a portable text wait for those before them where the device has an instruction for it, and are
    /// launched while those still run.
    ///
    /// # Errors
    /// When the driver refuses it, with the PTX compiler's log.
    pub fn load(context: &GpuContext, ptx: &str) -> Result<Self, DriverError> {
        let waiting = if takes_waiting(context.compute_capability()) { waiting(ptx) } else { None };
        let (waits, text) = (waiting.is_some(), waiting.unwrap_or_else(|| ptx.to_owned()));
        let text = CString::new(text).map_err(|_| DriverError::invalid("expected PTX without a zero byte"))?;
        // SAFETY: the text is terminated.
        unsafe { Self::load_image(context, text.as_ptr().cast(), waits) }
    }

    /// Loads machine code that this binary carries.
    ///
    /// # Errors
    /// When the driver refuses it, as it does code for another device or of a newer toolkit.
    pub(crate) fn load_cubin(context: &GpuContext, cubin: &EmbeddedCubin) -> Result<Self, DriverError> {
        // The header's words are read where they lie.
        let mut words = vec![0u64; cubin.image.len().div_ceil(size_of::<u64>())];
        bytemuck::cast_slice_mut(&mut words)[..cubin.image.len()].copy_from_slice(cubin.image);
        // SAFETY: the image is one of those that `build.rs` embedded, after it compared the hash of the whole file with
        // the one that was taken when ptxas wrote it.
        unsafe { Self::load_image(context, words.as_ptr().cast(), cubin.waits) }
    }

    /// # Safety
    /// `image` points to terminated PTX or to a whole cubin, whose kernels wait for those before them if `waits`.
    unsafe fn load_image(context: &GpuContext, image: *const c_void, waits: bool) -> Result<Self, DriverError> {
        let _bound = context.bind()?;
        let mut log = vec![0u8; LOG_BYTES];
        let mut options = ERROR_LOG;
        let mut values = [log.as_mut_ptr().cast::<c_void>(), LOG_BYTES as *mut c_void];
        let mut raw = std::ptr::null_mut();
        // SAFETY: the image is whole, as the caller promises; options and values have two entries each, the log as many bytes as said.
        let status = unsafe {
            cuda_loader::driver::module_load_data_ex(
                &mut raw,
                image,
                options.len() as c_uint,
                options.as_mut_ptr(),
                values.as_mut_ptr(),
            )
        };
        if status != 0 {
            let end = log.iter().position(|&byte| byte == 0).unwrap_or(LOG_BYTES);
            let log = String::from_utf8_lossy(&log[..end]).trim().to_owned();
            return Err(DriverError { log, ..DriverError::new("cuModuleLoadDataEx", status) });
        }
        Ok(Module(Arc::new(Inner { context: context.clone(), raw, waits })))
    }

    /// A kernel.
    ///
    /// # Errors
    /// When there is none of this name.
    pub fn function(&self, name: &str) -> Result<Function, DriverError> {
        let c_name = CString::new(name).map_err(|_| DriverError::invalid("expected a name without a zero byte"))?;
        let _bound = self.0.context.bind()?;
        let mut raw = std::ptr::null_mut();
        // SAFETY: the module is alive, the name terminated, `raw` a place for a handle.
        let status = unsafe { sys::cuModuleGetFunction(&mut raw, self.0.raw.cast(), c_name.as_ptr()) };
        check(status as u32, || format!("cuModuleGetFunction of {name}"))?;
        Ok(Function(Arc::new(FunctionInner { module: self.clone(), raw: raw.cast(), name: name.to_owned() })))
    }

    /// The value of an exported 64-bit number.
    ///
    /// # Errors
    /// When there is none of this name and size.
    pub fn global_u64(&self, name: &str) -> Result<u64, DriverError> {
        let c_name = CString::new(name).map_err(|_| DriverError::invalid("expected a name without a zero byte"))?;
        let _bound = self.0.context.bind()?;
        let (mut address, mut bytes, mut value) = (0, 0, 0u64);
        // SAFETY: the module is alive, the name terminated, and there are places for both results.
        let status = unsafe { sys::cuModuleGetGlobal_v2(&mut address, &mut bytes, self.0.raw.cast(), c_name.as_ptr()) };
        check(status as u32, || format!("cuModuleGetGlobal of {name}"))?;
        if bytes != size_of::<u64>() {
            return Err(DriverError::invalid(format!("expected {name} to have 8 bytes, given {bytes}")));
        }
        // SAFETY: the address is good for the eight bytes just checked.
        let status = unsafe { sys::cuMemcpyDtoH_v2((&raw mut value).cast(), address, bytes) };
        check(status as u32, || format!("cuMemcpyDtoH of {name}"))?;
        Ok(value)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Ok(_bound) = self.context.bind() {
            // SAFETY: no function of the module is left: each holds it. A failure here is no news.
            let _ = unsafe { sys::cuModuleUnload(self.raw.cast()) };
        }
    }
}

/// A kernel of a loaded module. Cheap to clone; `Send + Sync`.
#[derive(Clone, Debug)]
pub struct Function(Arc<FunctionInner>);

#[derive(Debug)]
struct FunctionInner {
    module: Module,
    raw: *mut c_void,
    name: String,
}

// SAFETY: the driver allows launches of one function from any thread.
unsafe impl Send for FunctionInner {}
// SAFETY: as above.
unsafe impl Sync for FunctionInner {}

/// What a compiled kernel needs of a multiprocessor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FunctionAttributes {
    /// Registers of a thread.
    pub registers: i32,
    /// Local memory of a thread: spills and arrays.
    pub local_bytes: i32,
    /// Static shared memory of a block.
    pub shared_bytes: i32,
    /// The most threads a block may have.
    pub max_threads: i32,
}

impl Function {
    /// The kernel's symbol.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The driver's handle.
    pub(crate) fn raw(&self) -> *mut c_void {
        self.0.raw
    }

    pub(crate) fn context(&self) -> &GpuContext {
        &self.0.module.0.context
    }

    /// Whether it begins with waiting for the kernels before it, and so may be launched while they run.
    pub(crate) fn waits(&self) -> bool {
        self.0.module.0.waits
    }

    /// Allows launches with up to `bytes` of dynamic shared memory; needed above 48 KiB. What was allowed before stays
    /// allowed: the plans of several problems share a function.
    ///
    /// # Errors
    /// When the device has less.
    pub fn allow_dynamic_shared(&self, bytes: usize) -> Result<(), DriverError> {
        use sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES as ALLOWED;
        /// Between asking and setting, nobody else allows more.
        static ALLOWING: Mutex<()> = Mutex::new(());
        let _bound = self.context().bind()?;
        let _alone = ALLOWING.lock().unwrap_or_else(PoisonError::into_inner);
        let mut allowed = 0;
        // SAFETY: the function is alive; `allowed` is a place for an int.
        let status = unsafe { sys::cuFuncGetAttribute(&mut allowed, ALLOWED, self.0.raw.cast()) };
        check(status as u32, || format!("cuFuncGetAttribute of {}", self.name()))?;
        if allowed as usize >= bytes {
            return Ok(());
        }
        // SAFETY: the function is alive.
        let status = unsafe { cuda_loader::driver::func_set_attribute(self.0.raw, ALLOWED as c_uint, bytes as i32) };
        check(status, || format!("cuFuncSetAttribute of {} for {bytes} bytes of shared memory", self.name()))
    }

    /// Allows clusters of up to 16 blocks, where the device has them: more than 8 are not portable.
    ///
    /// # Errors
    /// From the driver.
    pub fn allow_large_clusters(&self) -> Result<(), DriverError> {
        /// `CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED`.
        const LARGE_CLUSTERS: c_uint = 14;
        let _bound = self.context().bind()?;
        // SAFETY: the function is alive.
        let status = unsafe { cuda_loader::driver::func_set_attribute(self.0.raw, LARGE_CLUSTERS, 1) };
        check(status, || format!("cuFuncSetAttribute of {} for large clusters", self.name()))
    }

    /// What the compiled kernel needs.
    ///
    /// # Errors
    /// From the driver.
    pub fn attributes(&self) -> Result<FunctionAttributes, DriverError> {
        use sys::CUfunction_attribute as Attribute;
        let _bound = self.context().bind()?;
        let get = |attribute| {
            let mut value = 0;
            // SAFETY: the function is alive; `value` is a place for an int.
            let status = unsafe { sys::cuFuncGetAttribute(&mut value, attribute, self.0.raw.cast()) };
            check(status as u32, || format!("cuFuncGetAttribute of {}", self.name())).map(|()| value)
        };
        Ok(FunctionAttributes {
            registers: get(Attribute::CU_FUNC_ATTRIBUTE_NUM_REGS)?,
            local_bytes: get(Attribute::CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES)?,
            shared_bytes: get(Attribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)?,
            max_threads: get(Attribute::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?,
        })
    }
}
