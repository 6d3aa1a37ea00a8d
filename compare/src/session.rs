//! The device, the peers and the data, for as long as the program runs.

use crate::device;
use crate::options::Options;
use crate::peers::cublaslt::CublasLt;
use crate::peers::cudnn::Cudnn;
use crate::random::Block;
use crate::report::{Earlier, Provenance};
use crate::timing::Clock;
use crate::verify::Differ;
use anyhow::{Context as _, Result};
use oxidnn::driver::{DeviceMemory, GpuContext, GpuStream, driver_version};
use oxidnn::{Context, DType, Stream};
use std::cell::RefCell;
use std::rc::Rc;

/// Everything that problems share.
pub(crate) struct Session {
    pub(crate) context: Context,
    pub(crate) stream: Stream,
    pub(crate) cudnn: Option<Cudnn>,
    pub(crate) cublaslt: Option<CublasLt>,
    pub(crate) earlier: Earlier,
    pub(crate) copy_gbps: f64,
    pub(crate) differ: RefCell<Differ>,
    gpu: GpuContext,
    gpu_stream: GpuStream,
    blocks: RefCell<Vec<Rc<Block>>>,
}

/// Which peers are wanted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peers {
    pub(crate) convolution: bool,
    pub(crate) matmul: bool,
}

impl Session {
    /// Opens the first GPU and loads the peers that there are.
    pub(crate) fn new(options: &Options, peers: Peers) -> Result<Self> {
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
        if peers.convolution {
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
        if peers.matmul {
            found(
                "cuBLASLt",
                CublasLt::new(&gpu, &gpu_stream).map(|library| {
                    let what = library.name();
                    cublaslt = Some(library);
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
            earlier: options.earlier.as_deref().map(Earlier::read).transpose()?.unwrap_or_default(),
            copy_gbps,
            differ: RefCell::new(Differ::new()?),
            gpu,
            gpu_stream,
            blocks: RefCell::default(),
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
    pub(crate) fn block(&self, dtype: DType) -> Result<Rc<Block>> {
        if let Some(block) = self.blocks.borrow().iter().find(|block| block.dtype() == dtype) {
            return Ok(block.clone());
        }
        let block = Rc::new(Block::new(&self.gpu, &self.gpu_stream, dtype)?);
        self.blocks.borrow_mut().push(block.clone());
        Ok(block)
    }

    /// The peer of one operator, by name and version.
    pub(crate) fn peer(&self, matmul: bool) -> String {
        let name =
            if matmul { self.cublaslt.as_ref().map(CublasLt::name) } else { self.cudnn.as_ref().map(Cudnn::name) };
        name.unwrap_or_else(|| "none".to_owned())
    }

    pub(crate) fn provenance(&self, matmul: bool) -> Provenance {
        let driver = driver_version().unwrap_or(0);
        Provenance {
            gpu: self.gpu.name().to_owned(),
            driver: format!("CUDA {}.{}", driver / 1000, driver % 1000 / 10),
            peer: self.peer(matmul),
            copy_gbps: self.copy_gbps,
        }
    }
}

/// Bytes read and written by a plain copy of half a gibibyte, in GB/s.
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
