//! The device, the peers and the data, for as long as the program runs.

use crate::device;
use crate::options::Options;
use crate::ours::OurCall;
use crate::peers::cublaslt::CublasLt;
use crate::peers::cudnn::Cudnn;
use crate::peers::torch::Torch;
use crate::random::Block;
use crate::report::{Earlier, Provenance};
use crate::suites::Kind;
use crate::timing::{Clock, rotation};
use crate::verify::Differ;
use anyhow::{Context as _, Result};
use oxidnn::driver::{DeviceMemory, GpuContext, GpuStream, Graph, driver_version};
use oxidnn::operators::parse_problem;
use oxidnn::{Context, DType, Domain, Policy, Stream};
use std::cell::RefCell;
use std::rc::Rc;

/// Everything that problems share.
pub(crate) struct Session {
    pub(crate) context: Context,
    pub(crate) stream: Stream,
    pub(crate) cudnn: Option<Cudnn>,
    pub(crate) cublaslt: Option<CublasLt>,
    pub(crate) torch: Option<RefCell<Torch>>,
    pub(crate) earlier: Earlier,
    pub(crate) copy_gbps: f64,
    pub(crate) differ: RefCell<Differ>,
    gpu: GpuContext,
    gpu_stream: GpuStream,
    blocks: RefCell<Vec<Rc<Block>>>,
    /// Rates of copies by the bytes of one.
    copies: RefCell<Vec<(u64, f64)>>,
}

impl Session {
    /// Opens the first GPU and loads the peers that there are of these kinds of problems.
    pub(crate) fn new(options: &Options, kinds: &[Kind]) -> Result<Self> {
        let context = Context::gpu(0).context("compare times work on a GPU, and there is none to use")?;
        let stream = context.stream()?;
        let gpu = context.gpu_context().context("expected a GPU")?.clone();
        let gpu_stream = stream.gpu_stream().context("expected a GPU's stream")?.clone();
        device::make_current(&gpu)?;
        let found = |name: &str, outcome: Result<String>| match outcome {
            Ok(what) => eprintln!("{name}: {what}"),
            Err(e) => eprintln!("{name}: left out: {e:#}"),
        };
        let mut cudnn = None;
        if kinds.contains(&Kind::Conv) || kinds.contains(&Kind::Other) {
            let loaded = Cudnn::new(&gpu, &gpu_stream, options.cudnn.as_deref());
            found(
                "cuDNN",
                loaded.map(|library| {
                    let what = format!("{} from {}", library.name(), library.place());
                    cudnn = Some(library);
                    what
                }),
            );
        }
        let mut cublaslt = None;
        if kinds.contains(&Kind::Matmul) {
            found(
                "cuBLASLt",
                CublasLt::new(&gpu, &gpu_stream).map(|library| {
                    let what = library.name();
                    cublaslt = Some(library);
                    what
                }),
            );
        }
        let mut torch = None;
        if kinds.contains(&Kind::Other) {
            found(
                "PyTorch",
                Torch::start(&options.python).map(|child| {
                    let what = child.name().to_owned();
                    torch = Some(RefCell::new(child));
                    what
                }),
            );
        }
        let copy_gbps = copy_gbps(&gpu, &gpu_stream)?;
        eprintln!("{}: a plain copy moves {copy_gbps:.0} GB/s", context.info().name);
        Ok(Session {
            context,
            stream,
            cudnn,
            cublaslt,
            torch,
            earlier: options.earlier.as_deref().map(Earlier::read).transpose()?.unwrap_or_default(),
            copy_gbps,
            differ: RefCell::new(Differ::new()?),
            gpu,
            gpu_stream,
            blocks: RefCell::default(),
            copies: RefCell::default(),
        })
    }

    pub(crate) fn gpu(&self) -> &GpuContext {
        &self.gpu
    }

    pub(crate) fn gpu_stream(&self) -> &GpuStream {
        &self.gpu_stream
    }

    pub(crate) fn clock(&self) -> Result<Clock<'_>> {
        Clock::new(&self.gpu, &self.gpu_stream)
    }

    /// Random numbers of a type, drawn when first asked for.
    pub(crate) fn block(&self, dtype: DType, domain: Domain) -> Result<Rc<Block>> {
        if let Some(block) = self.blocks.borrow().iter().find(|block| block.is_of(dtype, domain)) {
            return Ok(block.clone());
        }
        let block = Rc::new(Block::new(&self.gpu, &self.gpu_stream, dtype, domain)?);
        self.blocks.borrow_mut().push(block.clone());
        Ok(block)
    }

    /// The peer of one kind of problems, by name and version.
    pub(crate) fn peer(&self, kind: Kind) -> String {
        let name = match kind {
            Kind::Conv => self.cudnn.as_ref().map(|cudnn| cudnn.name()),
            Kind::Matmul => self.cublaslt.as_ref().map(CublasLt::name),
            Kind::Other => self.torch.as_ref().map(|torch| torch.borrow().name().to_owned()),
        };
        name.unwrap_or_else(|| "none".to_owned())
    }

    pub(crate) fn provenance(&self, kind: Kind) -> Provenance {
        let driver = driver_version().unwrap_or(0);
        Provenance {
            gpu: self.gpu.name().to_owned(),
            driver: format!("CUDA {}.{}", driver / 1000, driver % 1000 / 10),
            peer: self.peer(kind),
            copy_gbps: self.copy_gbps,
        }
    }
}

/// Bytes read and written by the driver's copy of half a gibibyte, in GB/s.
fn copy_gbps(gpu: &GpuContext, stream: &GpuStream) -> Result<f64> {
    const BYTES: usize = 512 << 20;
    let (from, to) = (DeviceMemory::alloc(gpu, BYTES)?, DeviceMemory::alloc(gpu, BYTES)?);
    let clock = Clock::new(gpu, stream)?;
    const COPIES: usize = 10;
    let mut best = f64::INFINITY;
    for _ in 0..4 {
        let us = clock.time(|| (0..COPIES).try_for_each(|_| device::copy(to.span(), from.span(), stream)))?;
        best = best.min(us / COPIES as f64);
    }
    Ok(2.0 * BYTES as f64 / best / 1e3)
}

impl Session {
    /// The rate of the fastest copy that moves about as many bytes, read and written ones together, in GB/s: the
    /// driver's or ours, as a recorded graph, over memory in rotation past the cache.
    pub(crate) fn copy_gbps_of(&self, bytes: f64) -> Result<f64> {
        // Sizes that are measured are a quarter of a power of two apart.
        let half = (bytes / 2.0).max(1024.0);
        let step = 2f64.powf(half.log2().floor() - 2.0);
        let half = ((half / step).round() * step) as u64 / 16 * 16;
        if let Some((_, gbps)) = self.copies.borrow().iter().find(|(of, _)| *of == half) {
            return Ok(*gbps);
        }
        let gbps = 2.0 * half as f64 / self.copy_us(half)? / 1e3;
        self.copies.borrow_mut().push((half, gbps));
        Ok(gbps)
    }

    fn copy_us(&self, bytes: u64) -> Result<f64> {
        const ROUNDS: usize = 5;
        /// A graph should take so long that its own launch does not count.
        const GRAPH_BYTES: u64 = 2 << 30;
        let (stream, clock) = (&self.gpu_stream, self.clock()?);
        let pairs = rotation(2 * bytes);
        let calls = ((GRAPH_BYTES / bytes) as usize).clamp(pairs, 256);
        let alloc = || DeviceMemory::alloc(&self.gpu, bytes as usize);
        let memory: Vec<(DeviceMemory, DeviceMemory)> =
            (0..pairs).map(|_| Ok((alloc()?, alloc()?))).collect::<Result<_>>()?;
        let text = format!("transform:forward x={0}:f32 y={0}:f32", bytes / 4);
        let ours = OurCall::new(&self.context, &self.stream, parse_problem(&text)?.as_ref(), Policy::Heuristic)?;
        let queue_ours = |(from, to): &(DeviceMemory, DeviceMemory)| {
            // SAFETY: both are of the tensors' size and live until the last replay has ended.
            unsafe { ours.queue_at(&[from.span().address(), to.span().address()]) }
        };
        // The first call loads the kernel, which cannot be recorded.
        queue_ours(&memory[0])?;
        stream.synchronize()?;
        let record = |queue: &dyn Fn(&(DeviceMemory, DeviceMemory)) -> Result<()>| {
            Graph::capture(stream, || memory.iter().cycle().take(calls).try_for_each(queue))
        };
        let graphs = [record(&queue_ours)?, record(&|(from, to)| device::copy(to.span(), from.span(), stream))?];
        let timings = clock.interleaved_replays(&[(&graphs[0], calls), (&graphs[1], calls)], ROUNDS)?;
        Ok(timings[0].us.min(timings[1].us))
    }
}
