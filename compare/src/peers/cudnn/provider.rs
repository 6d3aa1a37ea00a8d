//! cuDNN's algorithms among our own.

use super::described::{Described, algorithm_names, math_of};
use super::library::{Library, P};
use crate::device::make_current;
use anyhow::{Context as _, Result, bail};
use oxidnn::driver::{GpuContext, GpuStream};
use oxidnn::ops::conv::{ConvOffer, ConvPass, ConvProblem, ConvProvider, ProvidedConv};
use oxidnn::{Context, DType, Problem};
use std::collections::HashMap;
use std::ffi::c_int;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// The convolutions of a cuDNN that was found at run time, each algorithm with the workspace that the library asks for.
///
/// One handle, so what is prepared by one provider is queued by one thread at a time. Workspaces are asked for by several
/// handles at a time, and kept: dividing batches asks for thousands, which took longer than measuring the parts.
pub struct CudnnProvider(Arc<Shared>);

/// What the library offers for a problem, or why nothing.
type Offers = Result<Vec<ConvOffer>, String>;

/// Handles that are asked for workspaces.
const ASKED: usize = 8;

struct Shared {
    library: Arc<Library>,
    gpu: GpuContext,
    /// Names of the algorithms of each pass, by number.
    names: [Vec<&'static str>; 3],
    /// Whose holder uses the handle.
    handle: Mutex<()>,
    /// Handles that no work is queued by; each made when it is first asked.
    asked: [Mutex<Option<Arc<Library>>>; ASKED],
    /// What was offered, by the problem's text.
    offers: Mutex<HashMap<String, Arc<OnceLock<Offers>>>>,
}

const PASSES: [ConvPass; 3] = [ConvPass::Fprop, ConvPass::Dgrad, ConvPass::Wgrad];

impl CudnnProvider {
    /// Finds the library: by `path`, a file or a folder, by `OXIDNN_CUDNN`, or where it usually lies.
    ///
    /// # Errors
    /// Where there is none, and on a context that is no GPU.
    pub fn new(context: &Context, path: Option<&Path>) -> Result<Self> {
        let gpu = context.gpu_context().context("cuDNN computes on a GPU, the context is none")?.clone();
        make_current(&gpu)?;
        let library = Arc::new(Library::new(path)?);
        let version = library.name().replace(' ', "_");
        // Once in a process's life, as often as there are providers.
        let name = |name: &&str| -> &'static str { Box::leak(format!("{version}:{name}").into_boxed_str()) };
        let names = PASSES.map(|pass| algorithm_names(pass).iter().map(name).collect());
        let (handle, asked, offers) = Default::default();
        Ok(CudnnProvider(Arc::new(Shared { library, gpu, names, handle, asked, offers })))
    }

    /// The library's name and version, and where it was found.
    pub fn name(&self) -> String {
        format!("{} from {}", self.0.library.name(), self.0.library.place())
    }
}

impl fmt::Debug for CudnnProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())
    }
}

impl Shared {
    fn names(&self, pass: ConvPass) -> &[&'static str] {
        &self.names[PASSES.iter().position(|&other| other == pass).unwrap_or(0)]
    }

    fn described(&self, library: &Arc<Library>, problem: &ConvProblem) -> Result<Described> {
        if problem.epilogue().is_some() {
            bail!("stores products as they are, the problem has an epilogue");
        }
        let dtype = problem.x().dtype();
        if !matches!(dtype, DType::F32 | DType::F16 | DType::BF16) || problem.y().dtype() != dtype {
            bail!("is asked for f32, f16 and bf16, given {dtype} to {}", problem.y().dtype());
        }
        make_current(&self.gpu)?;
        Described::new(library, problem, math_of(problem))
    }

    /// Asks what the library offers, by one of the handles for that.
    fn ask(&self, problem: &ConvProblem) -> Result<Vec<ConvOffer>> {
        let turn = rayon::current_thread_index().unwrap_or(0) % ASKED;
        let mut asked = self.asked[turn].lock().unwrap_or_else(PoisonError::into_inner);
        make_current(&self.gpu)?;
        let library = match &mut *asked {
            Some(library) => library,
            none => none.insert(Arc::new(self.library.another()?)),
        };
        let described = self.described(library, problem)?;
        let pass = problem.conv_pass();
        let offer = |(number, &algorithm): (usize, &&'static str)| {
            let workspace_bytes = described.workspace_bytes(pass, number as c_int).ok()? as u64;
            Some(ConvOffer { algorithm, workspace_bytes })
        };
        Ok(self.names(pass).iter().enumerate().filter_map(offer).collect())
    }
}

impl ConvProvider for CudnnProvider {
    fn offers(&self, problem: &ConvProblem) -> Result<Vec<ConvOffer>, String> {
        let mut known = self.0.offers.lock().unwrap_or_else(PoisonError::into_inner);
        let offers = known.entry(problem.to_string()).or_default().clone();
        drop(known);
        offers.get_or_init(|| self.0.ask(problem).map_err(|e| format!("{e:#}"))).clone()
    }

    fn prepare(&self, problem: &ConvProblem, algorithm: &'static str) -> Result<Box<dyn ProvidedConv>, String> {
        let all = || -> Result<Prepared> {
            let _alone = self.0.handle.lock().unwrap_or_else(PoisonError::into_inner);
            let described = self.0.described(&self.0.library, problem)?;
            let pass = problem.conv_pass();
            let number = self.0.names(pass).iter().position(|&name| name == algorithm);
            let number = number.with_context(|| format!("{} has no {algorithm}", self.name()))? as c_int;
            let workspace_bytes = described.workspace_bytes(pass, number)?;
            Ok(Prepared { shared: self.0.clone(), described, pass, number, workspace_bytes })
        };
        all().map(|prepared| -> Box<dyn ProvidedConv> { Box::new(prepared) }).map_err(|e| format!("{e:#}"))
    }
}

/// A convolution with its descriptors.
struct Prepared {
    shared: Arc<Shared>,
    described: Described,
    pass: ConvPass,
    number: c_int,
    workspace_bytes: usize,
}

impl ProvidedConv for Prepared {
    fn queue(&self, stream: &GpuStream, operands: &[u64], workspace: u64, alpha: f64, beta: f64) -> Result<(), String> {
        let &[a, b, c] = operands else {
            return Err(format!("expected 3 operands, given {}", operands.len()));
        };
        // A problem's operands are what is read, in the order x, w, dy, and then what is written.
        let x_w_y = match self.pass {
            ConvPass::Fprop => [a, b, c],
            ConvPass::Dgrad => [c, b, a],
            ConvPass::Wgrad => [a, c, b],
        };
        let all = || -> Result<()> {
            make_current(&self.shared.gpu)?;
            let _alone = self.shared.handle.lock().unwrap_or_else(PoisonError::into_inner);
            self.shared.library.set_stream(stream)?;
            let workspace = (workspace as P, self.workspace_bytes);
            let scalars = (alpha as f32, beta as f32);
            self.described.run((self.pass, self.number), x_w_y.map(|address| address as P), workspace, scalars)
        };
        all().map_err(|e| format!("{e:#}"))
    }
}
