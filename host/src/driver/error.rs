//! What the driver answered.

use crate::Error;
use std::ffi::{CStr, c_char};

/// A driver call that failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{call}: {name} ({code}){}{log}", if log.is_empty() { "" } else { ": " })]
pub struct DriverError {
    /// The call, with its size or name.
    pub call: String,
    /// `CUresult`.
    pub code: u32,
    /// The code's name.
    pub name: String,
    /// What the PTX compiler had to say, for a module that would not load.
    pub log: String,
}

/// `CUDA_ERROR_INVALID_VALUE`.
const INVALID_VALUE: u32 = 1;
/// `CUDA_ERROR_OUT_OF_MEMORY`.
const OUT_OF_MEMORY: u32 = 2;
/// `CUDA_ERROR_NOT_INITIALIZED`: what some calls answer where there is no driver.
const NOT_INITIALIZED: u32 = 3;

impl DriverError {
    pub(crate) fn new(call: impl Into<String>, code: u32) -> Self {
        DriverError { call: call.into(), code, name: name_of(code), log: String::new() }
    }

    /// An argument that the driver would refuse or misunderstand.
    pub(crate) fn invalid(reason: impl Into<String>) -> Self {
        Self::new(reason, INVALID_VALUE)
    }

    /// Whether device memory ran out.
    pub fn is_out_of_memory(&self) -> bool {
        self.code == OUT_OF_MEMORY
    }

    /// Whether there is no driver or no such GPU.
    pub fn is_no_device(&self) -> bool {
        matches!(self.code, cuda_loader::NO_DEVICE | NOT_INITIALIZED) || self.code == 101
    }
}

fn name_of(code: u32) -> String {
    if !cuda_loader::has_driver() {
        return "no CUDA driver on this machine".to_owned();
    }
    let mut name: *const c_char = std::ptr::null();
    // SAFETY: `name` is a place for a pointer.
    let status = unsafe { cuda_loader::driver::get_error_name(code, &mut name) };
    if status != 0 || name.is_null() {
        return "unknown error".to_owned();
    }
    // SAFETY: the driver gives a static, terminated string.
    unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned()
}

/// An error for a status that is not 0.
pub(crate) fn check(status: u32, call: impl FnOnce() -> String) -> Result<(), DriverError> {
    if status == 0 { Ok(()) } else { Err(DriverError::new(call(), status)) }
}

/// `cust`'s error as ours.
pub(crate) fn from_cust(call: impl Into<String>) -> impl FnOnce(cust::error::CudaError) -> DriverError {
    move |error| DriverError::new(call, error as u32)
}

impl From<DriverError> for Error {
    fn from(error: DriverError) -> Self {
        if error.is_no_device() { Error::NoDevice { reason: error.to_string() } } else { Error::Driver(error) }
    }
}
