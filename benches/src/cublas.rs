//! cuBLAS, loaded at run time where there is one.

use anyhow::{Context as _, Result, bail};
use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW, Symbol};
use oxidnn::DType;
use oxidnn::driver::{DeviceMemory, GpuContext, GpuStream};
use std::ffi::{c_int, c_void};
use std::path::{Path, PathBuf};

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
    _libraries: Vec<Library>,
}

/// Where CUDA toolkits and Python packages put their libraries; `*` stands for any one folder.
const PLACES: [&str; 8] = [
    "/usr/local/cuda*/lib64",
    "/usr/local/cuda*/targets/*/lib",
    "/usr/local/lib/python3*/site-packages/nvidia/*/lib",
    "/usr/local/lib/python3*/dist-packages/nvidia/*/lib",
    "/usr/lib/python3*/dist-packages/nvidia/*/lib",
    "/opt/*/lib/python3*/site-packages/nvidia/*/lib",
    "/opt/*/*/lib/python3*/site-packages/nvidia/*/lib",
    "/usr/lib/x86_64-linux-gnu",
];

/// Versions tried, newest first.
const VERSIONS: [u32; 2] = [13, 12];

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
        let libraries = load().with_context(|| {
            format!("no libcublas.so.13 or .12 by the loader's path (LD_LIBRARY_PATH) or in {}", PLACES.join(", "))
        })?;
        let library = libraries.last().context("no library")?;
        let mut handle = std::ptr::null_mut();
        let mut version = 0;
        let workspace = DeviceMemory::alloc(context, WORKSPACE_BYTES)?;
        // SAFETY: the context is alive and primary; making it current is what the library asks of its callers.
        check("cuCtxSetCurrent", unsafe { cuda_loader::forwards::cuCtxSetCurrent(context.raw()) } as c_int)?;
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
            Ok(Cublas { handle, gemm_ex, destroy, version, _workspace: workspace, _libraries: libraries })
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

/// libcublasLt and libcublas, the latter last.
fn load() -> Option<Vec<Library>> {
    let folders: Vec<PathBuf> = PLACES.iter().flat_map(|place| expand(place)).collect();
    for version in VERSIONS {
        let names = [format!("libcublasLt.so.{version}"), format!("libcublas.so.{version}")];
        for folder in std::iter::once(PathBuf::new()).chain(folders.iter().cloned()) {
            // The loader's own search is that of a bare name. libcublas needs libcublasLt, which a path hides from it.
            let open = |name: &String| {
                let path = folder.join(name);
                // SAFETY: the initializers of NVIDIA's libraries have no precondition; they stay loaded with us.
                unsafe { Library::open(Some(path), RTLD_NOW | RTLD_GLOBAL) }
            };
            if let Ok(libraries) = names.iter().map(open).collect() {
                return Some(libraries);
            }
        }
    }
    None
}

/// Folders that a pattern with `*` names.
fn expand(pattern: &str) -> Vec<PathBuf> {
    let mut found = vec![PathBuf::from("/")];
    for part in pattern.split('/').filter(|part| !part.is_empty()) {
        found = match part.split_once('*') {
            None => found.into_iter().map(|folder| folder.join(part)).collect(),
            Some((start, end)) => found.iter().flat_map(|folder| matching(folder, start, end)).collect(),
        };
    }
    found.retain(|folder| folder.is_dir());
    found
}

fn matching(folder: &Path, start: &str, end: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    let fits = |name: &str| name.len() >= start.len() + end.len() && name.starts_with(start) && name.ends_with(end);
    entries.filter(|entry| entry.file_name().to_str().is_some_and(fits)).map(|entry| entry.path()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_name_folders() {
        let root = std::env::temp_dir().join(format!("oxidnn-benches-{}", std::process::id()));
        let lib = root.join("cuda-13.0/lib64");
        std::fs::create_dir_all(&lib).unwrap();
        assert_eq!(expand(&format!("{}/cuda*/lib64", root.display())), [lib]);
        assert!(expand(&format!("{}/nowhere*/lib64", root.display())).is_empty());
        std::fs::remove_dir_all(root).unwrap();
    }
}
