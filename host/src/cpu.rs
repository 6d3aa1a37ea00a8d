//! The CPU device: what all CPU algorithms share.
//!
//! A CPU algorithm is a pure function on packed slices of `f32`, `f64` or `i64` ([`CpuKernel`]). Around it, [`CpuAlgorithm`]
//! brings operands of any strides and type into that form and the results back, with alpha and beta. Packed operands
//! of the computing type are used where they lie. All scratch memory comes from the plan's workspace.

use crate::epilogue;
use crate::operators::Operation;
use crate::plan::{Bound, Call, Launch};
use crate::select::{Algorithm, Config, Refusal, Spread};
use crate::tensor::{
    Boolean, Element, Real, Region, RegionMut, f8e4m3, f8e5m2, gather, scatter, scatter_typed, store_integers,
};
use crate::{Context, DType, Error, Operand, Role, Stream, TensorDesc};
use half::{bf16, f16};
use kernel_abi::{Cast, Rounding};

/// Operands as packed slices, in the problem's order, and scratch.
pub(crate) struct CpuCall<'a, A> {
    /// Every [`Role::Input`] operand.
    pub(crate) inputs: Vec<&'a [A]>,
    /// Every [`Role::Output`] and [`Role::Result`] operand, to be overwritten with the bare result, and every
    /// [`Role::Update`] operand, holding its prior value.
    pub(crate) outputs: Vec<&'a mut [A]>,
    /// As many elements as [`CpuKernel::scratch_elems`] says, holding anything.
    pub(crate) scratch: &'a mut [A],
    /// The run's alpha, for operators whose own formula has it (those with [`Role::Update`] operands).
    pub(crate) alpha: f64,
}

/// A CPU algorithm's arithmetic.
pub(crate) trait CpuKernel<P>: Sync + Copy + 'static {
    /// The algorithm's name.
    const NAME: &'static str;

    /// Why it cannot compute `problem`, if it cannot.
    fn refuse(problem: &P) -> Option<String> {
        let _ = problem;
        None
    }

    /// Scratch memory, in elements of the computing type.
    fn scratch_elems(problem: &P) -> u64 {
        let _ = problem;
        0
    }

    /// What an infinity or NaN of an operand reaches beyond the formula.
    fn spread(problem: &P) -> Spread {
        let _ = problem;
        Spread::None
    }

    /// How many times slower than the device's plain rates it computes `problem`.
    fn slowness(problem: &P) -> f64 {
        let _ = problem;
        1.0
    }

    /// Computes the outputs, alpha, beta and a problem's epilogue left out.
    fn compute<A: Real>(problem: &P, call: CpuCall<'_, A>);

    /// Whether `problem` is one of integers, for [`CpuKernel::compute_integers`].
    fn is_integral(problem: &P) -> bool {
        let _ = problem;
        false
    }

    /// The same as [`CpuKernel::compute`], exactly and wrapping.
    fn compute_integers(problem: &P, call: CpuCall<'_, i64>) {
        let _ = (problem, call);
    }

    /// How numbers become integers where they are stored.
    fn cast(problem: &P) -> Cast {
        let _ = problem;
        Cast::NEAREST
    }
}

/// Makes an [`Algorithm`] of a [`CpuKernel`].
#[derive(Clone, Copy)]
pub(crate) struct CpuAlgorithm<K>(pub(crate) K);

/// The only config of a CPU algorithm.
const CONFIG: Config = Config("cpu");

/// Fixed cost of spreading work over threads.
const OVERHEAD_US: f64 = 5.0;

/// Slices of the workspace begin at multiples of this.
const ALIGN: u64 = 64;

impl<P: Operation, K: CpuKernel<P>> Algorithm<P> for CpuAlgorithm<K> {
    fn name(&self) -> &'static str {
        K::NAME
    }

    fn takes_epilogues(&self) -> bool {
        // They are computed here, behind any of them.
        true
    }

    fn configs(&self, problem: &P, context: &Context) -> Result<Vec<Config>, Refusal> {
        if context.is_gpu() {
            return Err(Refusal::new(format!("runs on the CPU, the device is {}", context.info().name)));
        }
        K::refuse(problem).map_or(Ok(vec![CONFIG]), |reason| Err(Refusal(reason)))
    }

    fn spread(&self, problem: &P, _: Config) -> Spread {
        K::spread(problem)
    }

    fn workspace_bytes(&self, problem: &P, _: Config) -> u64 {
        Layout::new::<P, K>(problem).total_bytes
    }

    fn estimate_us(&self, problem: &P, _: Config, context: &Context) -> f64 {
        let info = context.info();
        OVERHEAD_US + problem.bytes() / info.bytes_per_us + problem.flops() / info.flops_per_us * K::slowness(problem)
    }

    fn prepare(&self, problem: &P, _: Config, _: &Context) -> Result<Box<dyn Launch>, Error> {
        let layout = Layout::new::<P, K>(problem);
        Ok(match layout.computing {
            DType::I64 => Box::new(CpuLaunch::<P, K, i64>::new(problem, layout)),
            DType::F64 => Box::new(CpuLaunch::<P, K, f64>::new(problem, layout)),
            _ => Box::new(CpuLaunch::<P, K, f32>::new(problem, layout)),
        })
    }
}

/// Where each operand's packed copy and the scratch lie in the workspace.
struct Layout {
    computing: DType,
    operands: Vec<Staged>,
    scratch_elems: usize,
    total_bytes: u64,
}

struct Staged {
    operand: Operand,
    elems: usize,
    /// Packed and of the computing type: inputs are read where they lie.
    direct: bool,
}

impl Layout {
    fn new<P: Operation, K: CpuKernel<P>>(problem: &P) -> Self {
        let operands = problem.operands();
        let computing = match K::is_integral(problem) {
            true => DType::I64,
            false => DType::computing(operands.iter().map(|operand| operand.desc.dtype())),
        };
        let item = computing.size_bytes() as u64;
        let mut total_bytes = 0u64;
        let operands = operands
            .into_iter()
            .map(|operand| {
                let direct = operand.desc.dtype() == computing && operand.desc.is_packed();
                // Outputs need a copy even when they lie well: beta wants the prior value beside the result.
                if !(direct && operand.role == Role::Input) {
                    total_bytes = aligned(operand.desc.n_elems() as u64 * item).saturating_add(total_bytes);
                }
                if operand.role == Role::Result {
                    // The prior value, which the formula may want beside the product.
                    total_bytes = aligned(operand.desc.n_elems() as u64 * item).saturating_add(total_bytes);
                }
                Staged { operand, elems: operand.desc.n_elems() as usize, direct }
            })
            .collect();
        let scratch_elems = K::scratch_elems(problem);
        total_bytes = aligned(scratch_elems.saturating_mul(item)).saturating_add(total_bytes);
        Layout { computing, operands, scratch_elems: scratch_elems as usize, total_bytes }
    }
}

/// Saturates: inputs that repeat elements can have more of them than any memory, and asking for that much is then
/// refused as such.
fn aligned(bytes: u64) -> u64 {
    bytes.checked_next_multiple_of(ALIGN).unwrap_or(u64::MAX)
}

struct CpuLaunch<P, K, A> {
    problem: P,
    layout: Layout,
    kernel: std::marker::PhantomData<fn() -> (K, A)>,
}

impl<P, K, A> CpuLaunch<P, K, A> {
    fn new(problem: &P, layout: Layout) -> Self
    where
        P: Clone,
    {
        CpuLaunch { problem: problem.clone(), layout, kernel: std::marker::PhantomData }
    }
}

/// An output between computing and storing.
struct Pending<'a> {
    desc: TensorDesc,
    /// None when the result was computed where it belongs.
    storage: Option<&'a mut [u8]>,
}

/// A type that operands are packed in.
trait Packed: Element {
    fn compute<P, K: CpuKernel<P>>(problem: &P, call: CpuCall<'_, Self>);
    /// Applies the problem's epilogue to the results, if it has one.
    fn apply_epilogue<P: Operation>(
        problem: &P,
        y_desc: &TensorDesc,
        scalars: (f64, f64),
        inputs: &[&[Self]],
        prior: &[Self],
        results: &mut [&mut [Self]],
    ) {
        let _ = (problem, y_desc, scalars, inputs, prior, results);
    }
    /// `y = alpha · result + beta · y`; y is not read when beta is 0.
    fn store(desc: &TensorDesc, result: &[Self], storage: &mut [u8], scalars: (f64, f64), cast: Cast);
}

macro_rules! packed_reals {
    ($($t:ident),*) => { $(
        impl Packed for $t {
            fn compute<P, K: CpuKernel<P>>(problem: &P, call: CpuCall<'_, Self>) {
                K::compute(problem, call);
            }
            fn apply_epilogue<P: Operation>(
                problem: &P,
                y_desc: &TensorDesc,
                (alpha, beta): (f64, f64),
                inputs: &[&[Self]],
                prior: &[Self],
                results: &mut [&mut [Self]],
            ) {
                let Some(epilogue) = problem.epilogue() else { return };
                let pass = epilogue::cpu::Pass { epilogue, y_desc, alpha, beta, inputs, prior };
                match results {
                    [y] => pass.y(y),
                    [y, sum, sum_squares] => {
                        pass.y(y);
                        pass.sums(y, sum, sum_squares);
                    }
                    _ => {}
                }
            }
            fn store(desc: &TensorDesc, result: &[Self], storage: &mut [u8], (alpha, beta): (f64, f64), cast: Cast) {
                store(desc, result, storage, alpha, beta, cast);
            }
        }
    )* };
}

packed_reals!(f32, f64);

impl Packed for i64 {
    fn compute<P, K: CpuKernel<P>>(problem: &P, call: CpuCall<'_, Self>) {
        K::compute_integers(problem, call);
    }
    fn store(desc: &TensorDesc, result: &[Self], storage: &mut [u8], scalars: (f64, f64), cast: Cast) {
        store_integers(desc, result, storage, scalars, cast);
    }
}

impl<P: Operation, K: CpuKernel<P>, A: Packed> Launch for CpuLaunch<P, K, A> {
    fn launch(&self, _: &Stream, call: &mut Call<'_>) -> Result<(), Error> {
        let (alpha, beta) = (call.alpha, call.beta);
        let RegionMut::Host(workspace) = &mut call.workspace else {
            return Err(not_on_host("workspace"));
        };
        let mut rest: &mut [A] = bytemuck::cast_slice_mut(whole_elements::<A>(workspace));
        let mut take = |elems: usize| {
            let padded = aligned((elems * size_of::<A>()) as u64) as usize / size_of::<A>();
            let (slice, tail) = std::mem::take(&mut rest).split_at_mut(padded);
            rest = tail;
            &mut slice[..elems]
        };
        let scratch = take(self.layout.scratch_elems);
        let mut inputs = Vec::<&[A]>::new();
        let mut results = Vec::<&mut [A]>::new();
        let mut pending = Vec::<Pending<'_>>::new();
        let mut prior: &[A] = &[];
        for (staged, bound) in self.layout.operands.iter().zip(call.operands.iter_mut()) {
            let desc = staged.operand.desc;
            let span = desc.span_bytes() as usize;
            match bound {
                Bound::Read(Region::Host(bytes)) if staged.direct => inputs.push(bytemuck::cast_slice(&bytes[..span])),
                Bound::Read(Region::Host(bytes)) => {
                    let packed = take(staged.elems);
                    gather(&desc, &bytes[..span], packed);
                    inputs.push(packed);
                }
                Bound::Write(RegionMut::Host(bytes)) => {
                    let bytes = &mut bytes[..span];
                    let blends = staged.operand.role == Role::Output && (alpha != 1.0 || beta != 0.0);
                    // y, the first of the results: channel sums have no prior value.
                    if staged.operand.role == Role::Result && beta != 0.0 && results.is_empty() {
                        let packed = take(staged.elems);
                        gather(&desc, bytes, packed);
                        prior = packed;
                    }
                    if staged.direct && !blends {
                        results.push(bytemuck::cast_slice_mut(bytes));
                        pending.push(Pending { desc, storage: None });
                        continue;
                    }
                    let packed = take(staged.elems);
                    if staged.operand.role == Role::Update {
                        gather(&desc, bytes, packed);
                    }
                    results.push(packed);
                    pending.push(Pending { desc, storage: Some(bytes) });
                }
                Bound::Read(_) | Bound::Write(_) => return Err(not_on_host(staged.operand.name)),
            }
        }
        let outputs = results.iter_mut().map(|result| &mut **result).collect();
        A::compute::<P, K>(&self.problem, CpuCall { inputs: inputs.clone(), outputs, scratch, alpha });
        if let Some(y) = pending.first() {
            A::apply_epilogue(&self.problem, &y.desc, (alpha, beta), &inputs, prior, &mut results);
        }
        let cast = K::cast(&self.problem);
        let roles = self.layout.operands.iter().map(|staged| staged.operand.role).filter(|&role| role != Role::Input);
        for ((role, output), result) in roles.zip(pending).zip(results) {
            if let Some(storage) = output.storage {
                let (alpha, beta) = if role == Role::Output { (alpha, beta) } else { (1.0, 0.0) };
                A::store(&output.desc, result, storage, (alpha, beta), cast);
            }
        }
        Ok(())
    }
}

/// `y = alpha · result + beta · y`, in `A`; y is not read when beta is 0.
fn store<A: Real>(desc: &TensorDesc, result: &[A], storage: &mut [u8], alpha: f64, beta: f64, cast: Cast) {
    match desc.dtype() {
        DType::F32 => store_as::<A, f32>(desc, result, storage, alpha, beta, cast),
        DType::F64 => store_as::<A, f64>(desc, result, storage, alpha, beta, cast),
        DType::F16 => store_as::<A, f16>(desc, result, storage, alpha, beta, cast),
        DType::BF16 => store_as::<A, bf16>(desc, result, storage, alpha, beta, cast),
        DType::I8 => store_as::<A, i8>(desc, result, storage, alpha, beta, cast),
        DType::I32 => store_as::<A, i32>(desc, result, storage, alpha, beta, cast),
        DType::U8 => store_as::<A, u8>(desc, result, storage, alpha, beta, cast),
        DType::I64 => store_as::<A, i64>(desc, result, storage, alpha, beta, cast),
        DType::Bool => store_as::<A, Boolean>(desc, result, storage, alpha, beta, cast),
        DType::F8E4M3 => store_as::<A, f8e4m3>(desc, result, storage, alpha, beta, cast),
        DType::F8E5M2 => store_as::<A, f8e5m2>(desc, result, storage, alpha, beta, cast),
    }
}

fn store_as<A: Real, T: Element>(
    desc: &TensorDesc,
    result: &[A],
    storage: &mut [u8],
    alpha: f64,
    beta: f64,
    cast: Cast,
) {
    let (alpha, beta) = (A::real(alpha), A::real(beta));
    if T::DTYPE.is_integer() && cast.rounding == Rounding::Truncate {
        return scatter_typed(desc, result, storage, |y: &mut T, r: A| {
            let value = if beta == A::zero() { alpha * r } else { alpha * r + beta * A::load(*y) };
            *y = value.trunc().store();
        });
    }
    if beta == A::zero() {
        if alpha == A::one() {
            return scatter(desc, result, storage);
        }
        return scatter_typed(desc, result, storage, |y: &mut T, r: A| *y = (alpha * r).store());
    }
    scatter_typed(desc, result, storage, |y: &mut T, r: A| *y = (alpha * r + beta * A::load(*y)).store());
}

fn whole_elements<A>(bytes: &mut [u8]) -> &mut [u8] {
    let whole = bytes.len() / size_of::<A>() * size_of::<A>();
    &mut bytes[..whole]
}

fn not_on_host(what: &str) -> Error {
    Error::WrongDevice { what: what.to_owned(), expected: "the CPU".to_owned(), given: "a GPU".to_owned() }
}
