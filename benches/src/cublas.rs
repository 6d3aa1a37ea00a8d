//! cuBLAS, loaded at run time where there is one.

use anyhow::{Result, bail};
use libloading::os::unix::Symbol;
use oxidnn::DType;
use oxidnn::driver::{DeviceMemory, GpuContext, GpuStream};
use oxidnn_compare::device::make_current;
use oxidnn_compare::peers::libraries::load;
use std::ffi::{c_int, c_void};

/// `cublasGemmEx` with the types of `cublas_api.h`.
type GemmEx = unsafe extern "C" fn(
    *mut c_void,
    c_int,
    c_int,
    c_int,
    c_int,
    c_int,
    *const c_void,
    *const c_void,
    c_int,
    c_int,
    *const c_void,
    c_int,
    c_int,
    *const c_void,
    *mut c_void,
    c_int,
    c_int,
    c_int,
    c_int,
) -> c_int;

/// A handle on one stream.
#[allow(missing_debug_implementations)]
pub struct Cublas {
    handle: *mut c_void,
    gemm_ex: Symbol<GemmEx>,
    destroy: Symbol<unsafe extern "C" fn(*mut c_void) -> c_int>,
    version: c_int,
    _workspace: DeviceMemory,
}

/// Versions, newest first.
const NAMES: [&str; 2] = ["libcublas.so.13", "libcublas.so.12"];
/// cuBLAS looks for it by its bare name, and may not find it.
const LT_NAMES: [&str; 2] = ["libcublasLt.so.13", "libcublasLt.so.12"];

/// What cuBLAS asks for on Hopper.
const WORKSPACE_BYTES: usize = 32 << 20;

/// One product of row-major matrices.
#[derive(Clone, Copy, Debug)]
pub struct Gemm {
    /// Rows of c.
    pub m: i32,
    /// Columns of c.
    pub n: i32,
    /// Length of the sums.
    pub k: i32,
    /// a is stored `[k, m]`.
    pub transpose_a: bool,
    /// b is stored `[n, k]`.
    pub transpose_b: bool,
    /// Element type of all three.
    pub dtype: DType,
}

impl Cublas {
    /// Finds the library and makes a handle.
    ///
    /// # Errors
    /// When there is none, naming where it was looked for; from the library.
    pub fn new(context: &GpuContext, stream: &GpuStream) -> Result<Self> {
        load(&LT_NAMES, None, None)?;
        let library = load(&NAMES, None, None)?.library;
        let mut handle = std::ptr::null_mut();
        let mut version = 0;
        let workspace = DeviceMemory::alloc(context, WORKSPACE_BYTES)?;
        // The library works in the current context.
        make_current(context)?;
        // SAFETY: the symbols have these types by cublas_api.h; results have a place; the workspace lives as long as
        // the handle, and the stream is the caller's, who keeps it.
        unsafe {
            let create: Symbol<unsafe extern "C" fn(*mut *mut c_void) -> c_int> = library.get(b"cublasCreate_v2\0")?;
            check("cublasCreate", create(&mut handle))?;
            let set_stream: Symbol<unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int> =
                library.get(b"cublasSetStream_v2\0")?;
            check("cublasSetStream", set_stream(handle, stream.raw()))?;
            let set_workspace: Symbol<unsafe extern "C" fn(*mut c_void, *mut c_void, usize) -> c_int> =
                library.get(b"cublasSetWorkspace_v2\0")?;
            let address = workspace.span().address() as *mut c_void;
            check("cublasSetWorkspace", set_workspace(handle, address, WORKSPACE_BYTES))?;
            let get_version: Symbol<unsafe extern "C" fn(*mut c_void, *mut c_int) -> c_int> =
                library.get(b"cublasGetVersion_v2\0")?;
            check("cublasGetVersion", get_version(handle, &mut version))?;
            let gemm_ex = library.get(b"cublasGemmEx\0")?;
            let destroy = library.get(b"cublasDestroy_v2\0")?;
            Ok(Cublas { handle, gemm_ex, destroy, version, _workspace: workspace })
        }
    }

    /// The library's name and version.
    pub fn name(&self) -> String {
        let version = self.version;
        format!("cuBLAS {}.{}.{}", version / 10_000, version / 100 % 100, version % 100)
    }

    /// Queues `c = a b` with f32 sums.
    ///
    /// # Errors
    /// From the library; for other types than f16 and bf16.
    ///
    /// # Safety
    /// The addresses are of matrices of these extents, without gaps, alive until the stream has done the work.
    pub unsafe fn gemm(&self, gemm: &Gemm, a: u64, b: u64, c: u64) -> Result<()> {
        // `cudaDataType_t`, `cublasComputeType_t` and `cublasGemmAlgo_t`.
        const R_16F: c_int = 2;
        const R_16BF: c_int = 14;
        const COMPUTE_32F: c_int = 68;
        const DEFAULT_ALGORITHM: c_int = -1;
        let data_type = match gemm.dtype {
            DType::F16 => R_16F,
            DType::BF16 => R_16BF,
            other => bail!("expected f16 or bf16, given {other}"),
        };
        let Gemm { m, n, k, transpose_a, transpose_b, .. } = *gemm;
        // The library's matrices are column-major, so it sees the transposes: cᵀ = bᵀ aᵀ.
        let (b_columns, a_columns) = (if transpose_b { k } else { n }, if transpose_a { m } else { k });
        let (alpha, beta) = (1.0f32, 0.0f32);
        // SAFETY: the handle is alive; the caller promises the matrices; both scalars are read during the call.
        let status = unsafe {
            (self.gemm_ex)(
                self.handle,
                c_int::from(transpose_b),
                c_int::from(transpose_a),
                n,
                m,
                k,
                (&raw const alpha).cast(),
                b as *const c_void,
                data_type,
                b_columns,
                a as *const c_void,
                data_type,
                a_columns,
                (&raw const beta).cast(),
                c as *mut c_void,
                data_type,
                n,
                COMPUTE_32F,
                DEFAULT_ALGORITHM,
            )
        };
        check("cublasGemmEx", status)
    }
}

impl Drop for Cublas {
    fn drop(&mut self) {
        // SAFETY: nobody uses the handle any more. A failure at this point is no news.
        let _ = unsafe { (self.destroy)(self.handle) };
    }
}

fn check(call: &str, status: c_int) -> Result<()> {
    if status == 0 { Ok(()) } else { bail!("{call} failed with status {status}") }
}
