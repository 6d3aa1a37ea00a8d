//! Error codes.

use super::{api, put};
use crate::exec::Kind;
use std::ffi::{CStr, c_char};

macro_rules! codes {
    ($($name:ident = $code:literal $text:literal $what:literal;)*) => {
        $(
            #[allow(dead_code)] // The table is whole, also where nothing here answers so.
            pub(super) const $name: u32 = $code;
        )*

        /// Name and description of a code.
        fn describe(code: u32) -> Option<(&'static CStr, &'static CStr)> {
            let (name, what): (&[u8], &[u8]) = match code {
                0 => (b"CUDA_SUCCESS\0", b"no error\0"),
                $($code => (concat!($text, "\0").as_bytes(), concat!($what, "\0").as_bytes()),)*
                _ => return None,
            };
            Some((CStr::from_bytes_with_nul(name).ok()?, CStr::from_bytes_with_nul(what).ok()?))
        }
    };
}

codes! {
    INVALID_VALUE = 1 "CUDA_ERROR_INVALID_VALUE" "invalid argument";
    OUT_OF_MEMORY = 2 "CUDA_ERROR_OUT_OF_MEMORY" "out of memory";
    NOT_INITIALIZED = 3 "CUDA_ERROR_NOT_INITIALIZED" "initialization error";
    INVALID_DEVICE = 101 "CUDA_ERROR_INVALID_DEVICE" "invalid device ordinal";
    INVALID_CONTEXT = 201 "CUDA_ERROR_INVALID_CONTEXT" "invalid device context";
    INVALID_PTX = 218 "CUDA_ERROR_INVALID_PTX" "a PTX JIT compilation failed";
    INVALID_SOURCE = 300 "CUDA_ERROR_INVALID_SOURCE" "device kernel image is invalid";
    INVALID_HANDLE = 400 "CUDA_ERROR_INVALID_HANDLE" "invalid resource handle";
    NOT_FOUND = 500 "CUDA_ERROR_NOT_FOUND" "named symbol not found";
    NOT_READY = 600 "CUDA_ERROR_NOT_READY" "device not ready";
    ILLEGAL_ADDRESS = 700 "CUDA_ERROR_ILLEGAL_ADDRESS" "an illegal memory access was encountered";
    LAUNCH_OUT_OF_RESOURCES = 701 "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES" "too many resources requested for launch";
    LAUNCH_TIMEOUT = 702 "CUDA_ERROR_LAUNCH_TIMEOUT" "the launch timed out and was terminated";
    ILLEGAL_INSTRUCTION = 715 "CUDA_ERROR_ILLEGAL_INSTRUCTION" "an illegal instruction was encountered";
    MISALIGNED_ADDRESS = 716 "CUDA_ERROR_MISALIGNED_ADDRESS" "misaligned address";
    LAUNCH_FAILED = 719 "CUDA_ERROR_LAUNCH_FAILED" "unspecified launch failure";
    COOPERATIVE_LAUNCH_TOO_LARGE = 720 "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE" "too many blocks in cooperative launch";
    NOT_SUPPORTED = 801 "CUDA_ERROR_NOT_SUPPORTED" "operation not supported";
    CAPTURE_UNSUPPORTED = 900 "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED" "operation not permitted when stream is capturing";
    CAPTURE_INVALIDATED = 901 "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED" "operation failed due to a previous error during capture";
    ILLEGAL_STATE = 401 "CUDA_ERROR_ILLEGAL_STATE" "the operation cannot be performed in the present state";
    INVALID_CLUSTER_SIZE = 912 "CUDA_ERROR_INVALID_CLUSTER_SIZE" "invalid cluster size";
    UNKNOWN = 999 "CUDA_ERROR_UNKNOWN" "unknown error";
}

/// The code for what stopped a kernel.
pub(super) fn code_of(kind: Kind) -> u32 {
    match kind {
        Kind::IllegalAddress => ILLEGAL_ADDRESS,
        Kind::Misaligned => MISALIGNED_ADDRESS,
        Kind::IllegalInstruction => ILLEGAL_INSTRUCTION,
        Kind::Failure => LAUNCH_FAILED,
        Kind::Timeout => LAUNCH_TIMEOUT,
    }
}

api! {
    #[always]
    fn cuGetErrorName(code: u32, text: *mut *const c_char) {
        let (name, _) = describe(code).ok_or(INVALID_VALUE)?;
        // SAFETY: the caller gives a place for the result.
        unsafe { put(text, name.as_ptr()) }
    }

    #[always]
    fn cuGetErrorString(code: u32, text: *mut *const c_char) {
        let (_, what) = describe(code).ok_or(INVALID_VALUE)?;
        // SAFETY: the caller gives a place for the result.
        unsafe { put(text, what.as_ptr()) }
    }
}
