//! cuBLASLt: matrix products by the algorithms that its heuristics propose.

use super::libraries::load;
use super::{check, functions};
use crate::measure::{Call, Set, Tried, trial};
use crate::timing::Clock;
use anyhow::{Context as _, Result, bail};
use oxidnn::driver::{DeviceMemory, GpuContext, GpuStream};
use oxidnn::ops::matmul::MatmulProblem;
use oxidnn::{DType, Math, TensorDesc};
use std::ffi::{c_int, c_void};
use std::rc::Rc;

type P = *mut c_void;

/// `cublasLtMatmulHeuristicResult_t`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Proposal {
    algorithm: [u64; 8],
    workspace_bytes: usize,
    status: c_int,
    waves: f32,
    reserved: [c_int; 4],
}

functions! {
    /// `cublasLt.h`, as far as needed.
    Functions {
        version = "cublasLtGetVersion"() -> usize;
        create = "cublasLtCreate"(*mut P) -> c_int;
        destroy = "cublasLtDestroy"(P) -> c_int;
        layout_create = "cublasLtMatrixLayoutCreate"(*mut P, c_int, u64, u64, i64) -> c_int;
        layout_destroy = "cublasLtMatrixLayoutDestroy"(P) -> c_int;
        desc_create = "cublasLtMatmulDescCreate"(*mut P, c_int, c_int) -> c_int;
        desc_set = "cublasLtMatmulDescSetAttribute"(P, c_int, *const c_void, usize) -> c_int;
        desc_destroy = "cublasLtMatmulDescDestroy"(P) -> c_int;
        preference_create = "cublasLtMatmulPreferenceCreate"(*mut P) -> c_int;
        preference_set = "cublasLtMatmulPreferenceSetAttribute"(P, c_int, *const c_void, usize) -> c_int;
        preference_destroy = "cublasLtMatmulPreferenceDestroy"(P) -> c_int;
        heuristic = "cublasLtMatmulAlgoGetHeuristic"(P, P, P, P, P, P, P, c_int, *mut Proposal, *mut c_int) -> c_int;
        matmul = "cublasLtMatmul"(P, P, *const c_void, P, P, P, P, *const c_void, P, P, P, P, *const [u64; 8], P, usize, P) -> c_int;
    }
}

/// cuBLASLt with its workspace.
pub(crate) struct CublasLt {
    functions: Functions,
    handle: P,
    stream: GpuStream,
    workspace: DeviceMemory,
}

/// Far more than the 32 MiB that it asks for on Hopper, so that split sums have room.
const WORKSPACE_BYTES: usize = 512 << 20;

/// Proposals that are timed.
const PROPOSALS: usize = 12;

/// `cublasComputeType_t`: f32 sums, and without TF32 for f32 operands.
const COMPUTE_32F: c_int = 68;
/// With TF32 for f32 operands.
const COMPUTE_32F_FAST_TF32: c_int = 77;
/// Exact sums of integers.
const COMPUTE_32I: c_int = 72;
/// `cudaDataType_t` of the scalars.
const R_32F: c_int = 0;
const R_32I: c_int = 10;
/// `cublasLtMatmulDescAttributes_t`.
const TRANSPOSE_A: c_int = 3;
const TRANSPOSE_B: c_int = 4;
/// `CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES`.
const MAX_WORKSPACE_BYTES: c_int = 1;

impl CublasLt {
    /// Finds the library and makes a handle. The context is current on this thread.
    pub(crate) fn new(context: &GpuContext, stream: &GpuStream) -> Result<Self> {
        let library = load(&["libcublasLt.so.13", "libcublasLt.so.12"], None, None)?;
        // SAFETY: the functions have these types by the header of these versions; the library stays loaded.
        let functions = unsafe { Functions::load(library.library) }?;
        let workspace = DeviceMemory::alloc(context, WORKSPACE_BYTES)?;
        let mut handle = std::ptr::null_mut();
        // SAFETY: `handle` is a place for a handle.
        check("cublasLtCreate", unsafe { (functions.create)(&mut handle) })?;
        Ok(CublasLt { functions, handle, stream: stream.clone(), workspace })
    }

    /// The library's name and version.
    pub(crate) fn name(&self) -> String {
        // SAFETY: the function has no precondition.
        let version = unsafe { (self.functions.version)() };
        format!("cuBLASLt {}.{}.{}", version / 10_000, version / 100 % 100, version % 100)
    }
}

impl Drop for CublasLt {
    fn drop(&mut self) {
        // SAFETY: nobody uses the handle any more. A failure at this point is no news.
        let _ = unsafe { (self.functions.destroy)(self.handle) };
    }
}

/// Descriptors of one product. The library's matrices are column-major, so it sees the transposes: cᵀ = bᵀ aᵀ.
struct Described<'a> {
    lt: &'a CublasLt,
    product: P,
    a: P,
    b: P,
    c: P,
    /// Whether scalars are integers.
    counts: bool,
}

impl<'a> Described<'a> {
    fn new(lt: &'a CublasLt, problem: &MatmulProblem) -> Result<Self> {
        let f = &lt.functions;
        let null = std::ptr::null_mut();
        let counts = problem.a().dtype() == DType::I8;
        let mut described = Described { lt, product: null, a: null, b: null, c: null, counts };
        let (compute, scalars) = match (problem.a().dtype(), problem.desc().math) {
            (DType::I8, _) => (COMPUTE_32I, R_32I),
            (_, Math::Tf32) => (COMPUTE_32F_FAST_TF32, R_32F),
            _ => (COMPUTE_32F, R_32F),
        };
        // SAFETY: each place is one for a handle.
        check("cublasLtMatmulDescCreate", unsafe { (f.desc_create)(&mut described.product, compute, scalars) })?;
        let transposes = [(TRANSPOSE_A, problem.desc().transpose_b), (TRANSPOSE_B, problem.desc().transpose_a)];
        for (attribute, transposed) in transposes {
            let value = c_int::from(transposed);
            // SAFETY: the value is read during the call.
            let status =
                unsafe { (f.desc_set)(described.product, attribute, (&raw const value).cast(), size_of::<c_int>()) };
            check("cublasLtMatmulDescSetAttribute", status)?;
        }
        let layout = |place: &mut P, desc: &TensorDesc| -> Result<()> {
            if problem.n_batch() != 1 || desc.rank() != 2 || !desc.is_packed() {
                bail!("expected one product of matrices without gaps, given {desc}");
            }
            let data_type = match desc.dtype() {
                DType::F32 => R_32F,
                DType::F16 => 2,
                DType::I8 => 3,
                DType::I32 => R_32I,
                DType::BF16 => 14,
                DType::F8E4M3 => 28,
                DType::F8E5M2 => 29,
                other @ (DType::F64 | DType::U8 | DType::I64 | DType::Bool) => {
                    bail!("expected another type than {other}")
                }
            };
            let [rows, columns] = [desc.dims()[1], desc.dims()[0]];
            // SAFETY: as above.
            let status = unsafe { (f.layout_create)(place, data_type, rows as u64, columns as u64, rows) };
            check("cublasLtMatrixLayoutCreate", status)
        };
        layout(&mut described.a, problem.b())?;
        layout(&mut described.b, problem.a())?;
        layout(&mut described.c, problem.c())?;
        Ok(described)
    }

    fn proposals(&self) -> Result<Vec<Proposal>> {
        let f = &self.lt.functions;
        let mut preference = std::ptr::null_mut();
        // SAFETY: `preference` is a place for a handle.
        check("cublasLtMatmulPreferenceCreate", unsafe { (f.preference_create)(&mut preference) })?;
        let bytes = WORKSPACE_BYTES;
        let empty = Proposal { algorithm: [0; 8], workspace_bytes: 0, status: 0, waves: 0.0, reserved: [0; 4] };
        let mut results = [empty; PROPOSALS];
        let mut n = 0;
        let Described { product, a, b, c, .. } = *self;
        // SAFETY: the value is read during the call; descriptors are alive; there is room for so many results; the
        // preference is destroyed once.
        let status = unsafe {
            let room = results.len() as c_int;
            let set =
                (f.preference_set)(preference, MAX_WORKSPACE_BYTES, (&raw const bytes).cast(), size_of::<usize>());
            let status = if set == 0 {
                (f.heuristic)(self.lt.handle, product, a, b, c, c, preference, room, results.as_mut_ptr(), &mut n)
            } else {
                set
            };
            let _ = (f.preference_destroy)(preference);
            status
        };
        check("cublasLtMatmulAlgoGetHeuristic", status)?;
        let mut found = results[..(n.max(0) as usize).min(PROPOSALS)].to_vec();
        found.retain(|proposal| proposal.status == 0);
        Ok(found)
    }
}

impl Drop for Described<'_> {
    fn drop(&mut self) {
        let f = &self.lt.functions;
        // SAFETY: nobody else has the descriptors; those that were not made are null, which is let pass.
        unsafe {
            for layout in [self.a, self.b, self.c].into_iter().filter(|layout| !layout.is_null()) {
                let _ = (f.layout_destroy)(layout);
            }
            if !self.product.is_null() {
                let _ = (f.desc_destroy)(self.product);
            }
        }
    }
}

struct LtCall<'a> {
    described: Rc<Described<'a>>,
    proposal: Proposal,
    rank: usize,
}

impl Call for LtCall<'_> {
    fn name(&self) -> String {
        // The second word of an algorithm's structure is no documented number; its place in the proposals is.
        format!("lt:heuristic{}", self.rank)
    }

    fn workspace_bytes(&self) -> u64 {
        self.proposal.workspace_bytes as u64
    }

    fn queue(&self, set: &Set) -> Result<()> {
        let Described { lt, product, a, b, c, .. } = *self.described;
        let input = |i: usize| set.inputs[i].0.span().address() as P;
        let output = set.their_address() as P;
        let workspace = lt.workspace.span().address() as P;
        // As f32 or i32, by the descriptor.
        let (one, zero) = (if self.described.counts { 1 } else { 1.0f32.to_bits() }, 0u32);
        let (alpha, beta) = ((&raw const one).cast(), (&raw const zero).cast());
        // SAFETY: descriptors and memory are this problem's; scalars and algorithm are read during the call.
        let status = unsafe {
            (lt.functions.matmul)(
                lt.handle,
                product,
                alpha,
                input(1),
                a,
                input(0),
                b,
                beta,
                output,
                c,
                output,
                c,
                &self.proposal.algorithm,
                workspace,
                WORKSPACE_BYTES,
                lt.stream.raw(),
            )
        };
        check("cublasLtMatmul", status)
    }
}

/// Times what the heuristics propose, or only the `known` best of them; best first, and what went wrong on the way.
pub(crate) fn search<'a>(
    lt: &'a CublasLt,
    problem: &MatmulProblem,
    sets: &[Set],
    clock: &Clock<'_>,
    known: Option<&str>,
) -> (Vec<Tried<'a>>, Vec<String>) {
    let (mut tried, mut notes) = (Vec::<Tried<'a>>::new(), Vec::new());
    let mut attempt = || -> Result<()> {
        let described = Rc::new(Described::new(lt, problem)?);
        let proposals = described.proposals().context("cuBLASLt heuristics")?;
        let call = |(rank, proposal)| LtCall { described: described.clone(), proposal, rank };
        let mut calls: Vec<LtCall<'a>> = proposals.into_iter().enumerate().map(call).collect();
        if let Some(known) = known
            && calls.iter().any(|call| call.name() == known)
        {
            calls.retain(|call| call.name() == known);
        }
        let mut best = f64::INFINITY;
        for call in calls {
            match trial(&call, sets, clock, best) {
                Ok(us) => {
                    best = best.min(us);
                    tried.push(Tried { call: Box::new(call), us });
                }
                Err(e) => notes.push(format!("{}: {e:#}", call.name())),
            }
        }
        Ok(())
    };
    if let Err(e) = attempt() {
        notes.push(format!("{e:#}"));
    }
    tried.sort_by(|a, b| a.us.total_cmp(&b.us));
    (tried, notes)
}
