//! Kernels as they are executed.

use crate::exec::registers::{At, Compute, Constants};
use crate::ptx::{Space, Type};
use std::sync::Arc;

/// A register: an index among those of 32 or of 64 bits, or among the constants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Register {
    /// Up to 32 bits.
    W32(u32),
    /// 64 bits.
    W64(u32),
}

impl Register {
    /// The index alone.
    pub fn index(self) -> u32 {
        match self {
            Register::W32(at) | Register::W64(at) => at,
        }
    }
}

/// What a lane's address is made of.
#[derive(Clone, Copy, Debug)]
pub struct Address {
    /// The register; None for an address that is known.
    pub base: Option<Register>,
    /// Added to it.
    pub offset: i64,
    /// Where it points.
    pub space: Space,
}

/// Elements that a load or store moves.
#[derive(Clone, Copy, Debug)]
pub struct Element {
    /// Size of one.
    pub bytes: usize,
    /// Whether a wider register repeats the sign.
    pub signed: bool,
}

impl Element {
    /// A value as a wider register has it.
    pub fn extend(self, value: u64) -> u64 {
        if !self.signed {
            return value;
        }
        let unused = 64 - 8 * self.bytes as u32;
        ((value << unused) as i64 >> unused) as u64
    }
}

/// `new = f(old, a, b)`, on bits.
pub type Combine = Arc<dyn Fn(u64, u64, u64) -> u64 + Send + Sync>;

/// How a shuffle chooses its source.
#[allow(missing_docs)] // They are PTX's own names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shuffle {
    Up,
    Down,
    Butterfly,
    Index,
}

/// What a vote gives.
#[allow(missing_docs)] // They are PTX's own names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vote {
    All,
    Any,
    Uniform,
    Ballot,
}

/// A reduction by a barrier.
#[allow(missing_docs)] // They are PTX's own names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BarrierReduction {
    Popc,
    And,
    Or,
}

/// A predicate and whether it is negated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guard {
    /// Its index.
    pub predicate: u32,
    /// Whether it must not hold.
    pub negated: bool,
}

/// What an arrival at an mbarrier does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrive {
    /// Counts this thread, or as many as the operand says.
    Plain,
    /// Raises the expected bytes first.
    ExpectBytes,
    /// Only raises the expected bytes.
    OnlyExpectBytes,
    /// Also lowers the count of later phases.
    Drop,
    /// Counts, but may not end the phase.
    NoComplete,
}

/// The other side of a bulk copy.
#[derive(Clone, Debug)]
pub enum Bulk {
    /// Memory to shared memory: `[to], [from], bytes, [barrier]`, perhaps to several blocks.
    Load { to: Address, from: Address, bytes: Register, barrier: Address, blocks: Option<Register> },
    /// Shared memory to memory: `[to], [from], bytes`, perhaps combined with what is there.
    Store { to: Address, from: Address, bytes: Register, combine: Option<Reduction> },
    /// A tensor's box to shared memory.
    TensorLoad {
        to: Address,
        map: Address,
        coordinates: Vec<Register>,
        offsets: Vec<Register>,
        im2col: bool,
        barrier: Address,
        blocks: Option<Register>,
    },
    /// Shared memory to a tensor's box.
    TensorStore { from: Address, map: Address, coordinates: Vec<Register>, im2col: bool, combine: Option<String> },
}

/// A reduction in memory.
#[derive(Clone)]
pub struct Reduction {
    /// Bits of old and new to bits.
    pub combine: Combine,
    /// Size of an element.
    pub bytes: usize,
}

impl std::fmt::Debug for Reduction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "reduction of {} bytes", self.bytes)
    }
}

/// `wgmma.mma_async`.
#[derive(Clone, Debug)]
pub struct Wgmma {
    /// Columns of the result.
    pub n: usize,
    /// Element types of a and b, as PTX spells them.
    pub names: [String; 2],
    /// Element type of the result.
    pub result: Type,
    /// The accumulators.
    pub d: Vec<Register>,
    /// A in registers, or its descriptor.
    pub a: WgmmaA,
    /// The descriptor of b.
    pub b: Register,
    /// Whether to add to the accumulators; None for always.
    pub accumulate: Option<Guard>,
    /// Whether a and b are negated.
    pub negate: [bool; 2],
    /// Whether a and b are stored transposed.
    pub transposed: [bool; 2],
    /// `.satfinite`.
    pub saturate: bool,
}

/// Where the first operand is.
#[derive(Clone, Debug)]
pub enum WgmmaA {
    /// In four registers.
    Registers(Vec<Register>),
    /// In shared memory.
    Descriptor(Register),
}

/// `mma.sync`.
#[derive(Clone, Debug)]
pub struct Mma {
    /// `m16n8k16` and so on.
    pub shape: String,
    /// Types of d, a, b and c as PTX spells them.
    pub types: [String; 4],
    /// `.satfinite`.
    pub saturate: bool,
    /// Registers of d, a, b and c.
    pub registers: [Vec<Register>; 4],
}

/// What an instruction does.
pub enum Op {
    /// Only with registers.
    Compute(Compute, At),
    /// A jump.
    Jump(u32),
    /// A jump through a table.
    Table(Register, Vec<u32>),
    /// The thread ends.
    Exit,
    /// The kernel ends with an error.
    Trap,
    /// Nothing here: hints, fences that the order of execution makes superfluous.
    Nothing,
    /// A pause.
    Sleep,
    /// Time.
    Clock(Register),
    /// `ld`.
    Load {
        address: Address,
        element: Element,
        into: Vec<Option<Register>>,
        /// Whether other threads may be waited for with it.
        polls: bool,
    },
    /// `st`.
    Store { address: Address, element: Element, from: Vec<Register> },
    /// `atom` and `red`.
    Atomic {
        address: Address,
        bytes: usize,
        combine: Combine,
        into: Vec<Register>,
        a: Vec<Register>,
        b: Option<Register>,
    },
    /// `shfl.sync`.
    Shuffle {
        kind: Shuffle,
        into: Option<Register>,
        inside: Option<u32>,
        from: Register,
        lane: Register,
        clamp: Register,
        members: Register,
    },
    /// `vote.sync`; the result is a predicate or a register.
    Vote { kind: Vote, into: Result<u32, Register>, from: Guard, members: Register },
    /// `match.any.sync` and `match.all.sync`.
    Match { all: bool, into: Register, agree: Option<u32>, from: Register, members: Register },
    /// `redux.sync`.
    Redux { combine: fn(u32, u32) -> u32, into: Register, from: Register, members: Register },
    /// `activemask`.
    ActiveMask(Register),
    /// `elect.sync`.
    Elect { leader: Option<Register>, into: u32, members: Register },
    /// `bar.warp.sync`.
    WarpBarrier(Register),
    /// `barrier.sync`, `.red` and, without a wait, `.arrive`.
    Barrier {
        id: Register,
        threads: Option<Register>,
        waits: bool,
        aligned: bool,
        reduction: Option<(BarrierReduction, Guard, Result<u32, Register>)>,
    },
    /// `barrier.cluster.arrive`.
    ClusterArrive,
    /// `barrier.cluster.wait`.
    ClusterWait,
    /// `fence.proxy.async`.
    ProxyFence,
    /// `mbarrier.init`.
    BarrierInit(Address, Register),
    /// `mbarrier.inval`.
    BarrierInvalidate(Address),
    /// `mbarrier.arrive` and its kin.
    BarrierArrive { address: Address, kind: Arrive, count: Option<Register>, state: Option<Register> },
    /// `mbarrier.test_wait` and `try_wait`.
    BarrierTest { address: Address, state: Register, is_parity: bool, into: u32 },
    /// `mbarrier.pending_count`.
    BarrierPending { into: Register, state: Register },
    /// `cp.async`.
    Copy { to: Address, from: Address, bytes: usize, read: Option<Register>, ignore: Option<Guard> },
    /// `cp.async.commit_group`.
    CopyCommit,
    /// `cp.async.wait_group`; None for all, committed or not.
    CopyWait(Option<u32>),
    /// `cp.async.mbarrier.arrive`.
    CopyArrive { address: Address, counted: bool },
    /// `cp.async.bulk` and its kin.
    Bulk(Box<Bulk>),
    /// `cp.async.bulk.commit_group`.
    BulkCommit,
    /// `cp.async.bulk.wait_group`.
    BulkWait { pending: u32, only_read: bool },
    /// `st.async`: stores that count their bytes at a barrier.
    AsyncStore { address: Address, barrier: Address, bytes: usize, from: Vec<Register>, combine: Option<Combine> },
    /// `mapa` of a shared address, and of a generic one.
    Map { into: Register, from: Register, block: Register, is_generic: bool },
    /// `isspacep`.
    IsSpace { into: u32, from: Register, space: Space },
    /// `ldmatrix`.
    MatrixLoad { into: Vec<Register>, address: Address, transposed: bool },
    /// `stmatrix`.
    MatrixStore { from: Vec<Register>, address: Address, transposed: bool },
    /// `mma.sync`.
    Mma(Box<Mma>),
    /// `wgmma.fence`.
    WgmmaFence,
    /// `wgmma.mma_async`.
    Wgmma(Arc<Wgmma>),
    /// `wgmma.commit_group`.
    WgmmaCommit,
    /// `wgmma.wait_group`.
    WgmmaWait(u32),
}

impl std::fmt::Debug for Op {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("instruction")
    }
}

/// An instruction.
#[derive(Debug)]
pub struct Inst {
    /// Lanes where it is executed; None for all.
    pub guard: Option<Guard>,
    /// Its line in the text.
    pub line: u32,
    /// What it does.
    pub op: Op,
}

/// Registers that hold where a thread is and how the kernel was launched.
#[allow(missing_docs)] // They are PTX's own names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Special {
    Tid(usize),
    Ntid(usize),
    Ctaid(usize),
    Nctaid(usize),
    Laneid,
    Warpid,
    Nwarpid,
    Smid,
    Nsmid,
    Gridid,
    LanemaskEq,
    LanemaskLe,
    LanemaskLt,
    LanemaskGe,
    LanemaskGt,
    Clusterid(usize),
    Nclusterid(usize),
    ClusterCtaid(usize),
    ClusterNctaid(usize),
    ClusterCtarank,
    ClusterNctarank,
    IsExplicitCluster,
    DynamicSmemSize,
    TotalSmemSize,
    Zero,
}

/// A parameter's place.
#[derive(Clone, Copy, Debug)]
pub struct Param {
    /// Where it begins.
    pub offset: usize,
    /// Its size.
    pub bytes: usize,
}

/// A kernel.
#[derive(Debug)]
pub struct Kernel {
    /// Its name.
    pub name: String,
    /// Its parameters.
    pub params: Vec<Param>,
    /// Size of all of them.
    pub param_bytes: usize,
    /// Its code.
    pub code: Vec<Inst>,
    /// How many registers of 32 and 64 bits, and predicates.
    pub n_registers: [usize; 3],
    /// Numbers in the text.
    pub constants: Arc<Constants>,
    /// Registers that are set before the kernel begins.
    pub specials: Vec<(Special, Register)>,
    /// Predicates that are set before the kernel begins, for `%is_explicit_cluster`.
    pub special_predicates: Vec<(Special, u32)>,
    /// Shared memory of fixed size.
    pub shared_bytes: usize,
    /// Whether addresses of variables in device memory are in the code.
    pub uses_variables: bool,
    /// Local memory of a thread.
    pub local_bytes: usize,
    /// `.maxntid`, as a product.
    pub max_threads: Option<u64>,
    /// `.minnctapersm`.
    pub min_blocks: Option<u64>,
    /// `.reqntid`.
    pub required_threads: Option<[u32; 3]>,
    /// `.reqnctapercluster`.
    pub required_cluster: Option<[u32; 3]>,
}
