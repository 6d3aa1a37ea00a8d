//! The older interface's single calls for operators other than convolutions.

use super::described::{created, ints};
use super::library::{Cudnn, Library, P};
use crate::measure::{Call, Set, Tried, trial};
use crate::timing::Clock;
use anyhow::{Context as _, Result, bail};
use oxidnn::driver::{DeviceMemory, GpuContext};
use oxidnn::operators::AnyProblem;
use oxidnn::{DType, Operand, Role, TensorDesc};
use std::collections::HashMap;
use std::ffi::c_int;

/// `CUDNN_PROPAGATE_NAN`.
const PROPAGATE_NAN: c_int = 1;
/// `CUDNN_SOFTMAX_MODE_CHANNEL`; an instance is 0.
const SOFTMAX_CHANNEL: c_int = 1;
/// `CUDNN_BATCHNORM_SPATIAL` and its one-kernel variant.
const SPATIAL: c_int = 1;
const SPATIAL_PERSISTENT: c_int = 2;

/// A problem as the interface sees it.
struct Described<'a> {
    cudnn: &'a Cudnn,
    /// Each operand with its descriptor.
    operands: Vec<(Operand, P)>,
    /// The result of forward, which some backward calls want and our problem does not have: one for each set.
    forward: Option<(P, HashMap<u64, DeviceMemory>)>,
    what: What,
}

/// The call.
enum What {
    Softmax { algorithm: c_int, mode: c_int },
    Pool(P),
    Activation(P),
    Transform,
    Batch { mode: c_int, parameters: P, epsilon: f64, factor: f64 },
}

/// The `key=value` words of a problem's text.
fn keys(text: &str) -> HashMap<&str, &str> {
    text.split_whitespace().filter_map(|word| word.split_once('=')).collect()
}

fn numbers(text: &str) -> Result<Vec<c_int>> {
    text.split('x').map(|number| Ok(number.parse()?)).collect()
}

impl<'a> Described<'a> {
    /// Describes a problem; `variant` counts the ways in which the interface can compute it.
    fn new(cudnn: &'a Cudnn, problem: &dyn AnyProblem, variant: usize) -> Result<Option<Self>> {
        let text = problem.text();
        let keys = keys(&text);
        let key = |name: &str| keys.get(name).copied();
        let Some(what) = what(cudnn, problem, &key, variant)? else { return Ok(None) };
        let mut described = Described { cudnn, operands: Vec::new(), forward: None, what };
        for operand in problem.operands() {
            let descriptor = tensor(cudnn, &operand.desc)?;
            described.operands.push((operand, descriptor));
        }
        Ok(Some(described))
    }

    /// Runs forward on every set, for calls that want its result.
    fn add_forward(&mut self, sets: &[Set], gpu: &GpuContext) -> Result<()> {
        let wants = matches!(self.what, What::Pool(_) | What::Activation(_)) && self.has("dy");
        if !wants {
            return Ok(());
        }
        let Some((dy, _)) = self.operands.iter().find(|(operand, _)| operand.name == "dy") else { return Ok(()) };
        let desc = dy.desc;
        let descriptor = tensor(self.cudnn, &desc)?;
        let mut results = HashMap::new();
        let has_x = self.has("x");
        for set in sets {
            let result = DeviceMemory::alloc(gpu, desc.span_bytes() as usize)?;
            if has_x {
                let (x, x_at) = self.of(set, "x")?;
                self.queue_forward((x, x_at), (descriptor, result.span().address() as P))?;
            }
            results.insert(set.their_address(), result);
        }
        self.forward = Some((descriptor, results));
        Ok(())
    }

    fn has(&self, name: &str) -> bool {
        self.operands.iter().any(|(operand, _)| operand.name == name)
    }

    /// Descriptor and address of an operand.
    fn of(&self, set: &Set, name: &str) -> Result<(P, P)> {
        let list: Vec<Operand> = self.operands.iter().map(|(operand, _)| *operand).collect();
        let at = list.iter().position(|operand| operand.name == name);
        let at = at.with_context(|| format!("the peer wants an operand {name}"))?;
        Ok((self.operands[at].1, set.addresses(&list, &set.theirs)[at] as P))
    }

    /// As [`Described::of`], or nothing for an operand that the problem has not.
    fn address_or_null(&self, set: &Set, name: &str) -> P {
        self.of(set, name).map_or(std::ptr::null_mut(), |(_, address)| address)
    }

    fn queue_forward(&self, (x, x_at): (P, P), (y, y_at): (P, P)) -> Result<()> {
        let (f, handle) = (&self.cudnn.functions, self.cudnn.handle);
        let (alpha, beta) = (1.0f32, 0.0f32);
        // SAFETY: descriptors and memory are this problem's; both scalars are read during the call.
        let status = unsafe {
            match self.what {
                What::Softmax { algorithm, mode } => {
                    (f.softmax_forward)(handle, algorithm, mode, &alpha, x, x_at, &beta, y, y_at)
                }
                What::Pool(desc) => (f.pool_forward)(handle, desc, &alpha, x, x_at, &beta, y, y_at),
                What::Activation(desc) => (f.activation_forward)(handle, desc, &alpha, x, x_at, &beta, y, y_at),
                What::Transform => (f.transform)(handle, &alpha, x, x_at, &beta, y, y_at),
                What::Batch { .. } => bail!("expected an operator of one tensor"),
            }
        };
        self.cudnn.check("forward", status)
    }

    fn queue_backward(&self, set: &Set) -> Result<()> {
        let (f, handle) = (&self.cudnn.functions, self.cudnn.handle);
        let (alpha, beta) = (1.0f32, 0.0f32);
        let ((dy, dy_at), (dx, dx_at)) = (self.of(set, "dy")?, self.of(set, "dx")?);
        let (y, y_at) = match &self.forward {
            Some((descriptor, results)) => {
                let result = results.get(&set.their_address()).context("expected a known set")?;
                (*descriptor, result.span().address() as P)
            }
            None => self.of(set, "y")?,
        };
        // Averages have no x; its memory is then not read, but it has to be some.
        let (x, x_at) = self.of(set, "x").unwrap_or((dx, dx_at));
        // SAFETY: as in `queue_forward`.
        let status = unsafe {
            match self.what {
                What::Softmax { algorithm, mode } => {
                    (f.softmax_backward)(handle, algorithm, mode, &alpha, y, y_at, dy, dy_at, &beta, dx, dx_at)
                }
                What::Pool(desc) => {
                    (f.pool_backward)(handle, desc, &alpha, y, y_at, dy, dy_at, x, x_at, &beta, dx, dx_at)
                }
                What::Activation(desc) => {
                    (f.activation_backward)(handle, desc, &alpha, y, y_at, dy, dy_at, x, x_at, &beta, dx, dx_at)
                }
                What::Transform | What::Batch { .. } => bail!("expected an operator of one tensor"),
            }
        };
        self.cudnn.check("backward", status)
    }

    fn queue_batch(&self, set: &Set, (mode, parameters, epsilon, factor): (c_int, P, f64, f64)) -> Result<()> {
        let (f, handle) = (&self.cudnn.functions, self.cudnn.handle);
        let (alpha, beta) = (1.0f32, 0.0f32);
        let (x, x_at) = self.of(set, "x")?;
        let at = |name: &str| self.address_or_null(set, name);
        // SAFETY: as in `queue_forward`.
        let status = unsafe {
            if self.has("dy") {
                let ((dy, dy_at), (dx, dx_at)) = (self.of(set, "dy")?, self.of(set, "dx")?);
                (f.batch_backward)(
                    handle,
                    mode,
                    &alpha,
                    &beta,
                    &alpha,
                    &beta,
                    x,
                    x_at,
                    dy,
                    dy_at,
                    dx,
                    dx_at,
                    parameters,
                    at("scale"),
                    at("dscale"),
                    at("dbias"),
                    epsilon,
                    at("mean"),
                    at("inv_std"),
                )
            } else {
                let (y, y_at) = self.of(set, "y")?;
                let (mean, variance) = (at("running_mean"), at("running_var"));
                if self
                    .operands
                    .iter()
                    .any(|(operand, _)| operand.name == "running_mean" && operand.role == Role::Input)
                {
                    (f.batch_inference)(
                        handle,
                        mode,
                        &alpha,
                        &beta,
                        x,
                        x_at,
                        y,
                        y_at,
                        parameters,
                        at("scale"),
                        at("bias"),
                        mean,
                        variance,
                        epsilon,
                    )
                } else {
                    (f.batch_training)(
                        handle,
                        mode,
                        &alpha,
                        &beta,
                        x,
                        x_at,
                        y,
                        y_at,
                        parameters,
                        at("scale"),
                        at("bias"),
                        factor,
                        mean,
                        variance,
                        epsilon,
                        at("mean"),
                        at("inv_std"),
                    )
                }
            }
        };
        self.cudnn.check("batch norm", status)
    }
}

/// A tensor's descriptor. The interface wants at least four dimensions of most operators.
fn tensor(cudnn: &Cudnn, desc: &TensorDesc) -> Result<P> {
    const LEAST_RANK: usize = 4;
    let descriptor = created(cudnn, cudnn.functions.tensor_create)?;
    let mut dims = ints(desc.dims().iter().copied())?;
    let mut strides = ints(desc.strides().iter().copied())?;
    while dims.len() < LEAST_RANK {
        dims.push(1);
        strides.push(1);
    }
    let (dtype, rank) = (Library::data_type(desc.dtype()), dims.len() as c_int);
    // SAFETY: the descriptor was just made; both lists have `rank` numbers.
    let status = unsafe { (cudnn.functions.tensor_set)(descriptor, dtype, rank, dims.as_ptr(), strides.as_ptr()) };
    cudnn.check("cudnnSetTensorNdDescriptor", status)?;
    Ok(descriptor)
}

/// The call for a problem; none where there is no such variant.
fn what<'k>(
    cudnn: &Cudnn,
    problem: &dyn AnyProblem,
    key: &dyn Fn(&str) -> Option<&'k str>,
    variant: usize,
) -> Result<Option<What>> {
    let f = &cudnn.functions;
    Ok(match (problem.op(), variant) {
        ("softmax", 0) => {
            let algorithm = match key("kind") {
                Some("fast") => 0,
                Some("log") => 2,
                _ => 1,
            };
            let mode = if key("mode") == Some("channel") { SOFTMAX_CHANNEL } else { 0 };
            Some(What::Softmax { algorithm, mode })
        }
        ("pool", 0 | 1) => {
            let window = numbers(key("window").context("bins have no call")?)?;
            let list = |name: &str, least: c_int| key(name).map_or(Ok(vec![least; window.len()]), numbers);
            let (padding, stride, dilation) = (list("pad", 0)?, list("stride", 1)?, list("dil", 1)?);
            let others = ["pad_end", "ceil"].iter().find(|name| key(name).is_some_and(|value| value != "0"));
            if others.is_some() || dilation.iter().any(|&step| step != 1) {
                bail!("expected symmetric padding and no dilation");
            }
            // The second variant is the maximum whose gradient has a fixed order.
            let mode = match (key("mode"), variant) {
                (Some("max"), 0) => 0,
                (Some("max"), 1) => 3,
                (Some("average_include_padding"), 0) => 1,
                (Some("average_exclude_padding"), 0) => 2,
                (_, 1) => return Ok(None),
                (other, _) => bail!("no call for mode {other:?}"),
            };
            let desc = created(cudnn, f.pool_create)?;
            let rank = window.len() as c_int;
            // SAFETY: the descriptor was just made; the lists have `rank` numbers each.
            let status = unsafe {
                (f.pool_set)(desc, mode, PROPAGATE_NAN, rank, window.as_ptr(), padding.as_ptr(), stride.as_ptr())
            };
            cudnn.check("cudnnSetPoolingNdDescriptor", status)?;
            Some(What::Pool(desc))
        }
        ("activation", 0) => {
            let names = ["sigmoid", "relu", "tanh", "clipped_relu", "elu", "identity", "swish"];
            let mode = names.iter().position(|name| key("mode") == Some(name));
            let mode = mode.with_context(|| format!("no call for mode {:?}", key("mode")))? as c_int;
            let coefficient = key("coef").map_or(Ok(1.0), str::parse)?;
            let desc = created(cudnn, f.activation_create)?;
            // SAFETY: the descriptor was just made.
            let status = unsafe { (f.activation_set)(desc, mode, PROPAGATE_NAN, coefficient) };
            cudnn.check("cudnnSetActivationDescriptor", status)?;
            Some(What::Activation(desc))
        }
        ("transform", 0) => Some(What::Transform),
        ("norm", 0 | 1) if key("mode") == Some("batch") && key("act").is_none() && key("z").is_none() => {
            let channels = problem.operands()[0].desc.dims()[1];
            let parameters = tensor(cudnn, &TensorDesc::packed(DType::F32, &[1, channels, 1, 1])?)?;
            let mode = if variant == 0 { SPATIAL } else { SPATIAL_PERSISTENT };
            let number = |name: &str, usual: f64| key(name).map_or(Ok(usual), str::parse);
            Some(What::Batch { mode, parameters, epsilon: number("eps", 1e-5)?, factor: number("factor", 0.1)? })
        }
        (_, 0) => bail!("no call for {}", problem.op()),
        _ => None,
    })
}

impl Drop for Described<'_> {
    fn drop(&mut self) {
        let f = &self.cudnn.functions;
        let forward = self.forward.as_ref().map(|(descriptor, _)| *descriptor);
        let parameters = if let What::Batch { parameters, .. } = self.what { Some(parameters) } else { None };
        let tensors = self.operands.iter().map(|(_, descriptor)| *descriptor).chain(forward).chain(parameters);
        for descriptor in tensors {
            // SAFETY: nobody else has the descriptor. A failure at this point is no news.
            let _ = unsafe { (f.tensor_destroy)(descriptor) };
        }
        // SAFETY: as above.
        let _ = unsafe {
            match self.what {
                What::Pool(desc) => (f.pool_destroy)(desc),
                What::Activation(desc) => (f.activation_destroy)(desc),
                What::Softmax { .. } | What::Transform | What::Batch { .. } => 0,
            }
        };
    }
}

impl Call for Described<'_> {
    fn name(&self) -> String {
        match self.what {
            What::Softmax { .. } => "call:softmax".to_owned(),
            What::Pool(_) => "call:pooling".to_owned(),
            What::Activation(_) => "call:activation".to_owned(),
            What::Transform => "call:transform".to_owned(),
            What::Batch { mode: SPATIAL_PERSISTENT, .. } => "call:batch_norm_persistent".to_owned(),
            What::Batch { .. } => "call:batch_norm".to_owned(),
        }
    }

    fn workspace_bytes(&self) -> u64 {
        0
    }

    fn queue(&self, set: &Set) -> Result<()> {
        match self.what {
            What::Batch { mode, parameters, epsilon, factor } => {
                self.queue_batch(set, (mode, parameters, epsilon, factor))
            }
            _ if self.has("dy") => self.queue_backward(set),
            _ => self.queue_forward(self.of(set, "x")?, self.of(set, "y")?),
        }
    }
}

/// Every way in which the interface computes a problem, with its time, best first, and what went wrong on the way.
pub(crate) fn search<'a>(
    cudnn: &'a Cudnn,
    problem: &dyn AnyProblem,
    sets: &[Set],
    clock: &Clock<'_>,
    gpu: &GpuContext,
) -> (Vec<Tried<'a>>, Vec<String>) {
    let (mut tried, mut notes): (Vec<Tried<'a>>, Vec<String>) = (Vec::new(), Vec::new());
    for variant in 0.. {
        let attempt = || -> Result<Option<Tried<'a>>> {
            let Some(mut call) = Described::new(cudnn, problem, variant)? else { return Ok(None) };
            call.add_forward(sets, gpu)?;
            let us = trial(&call, sets, clock, f64::INFINITY)?;
            Ok(Some(Tried { call: Box::new(call), us }))
        };
        match attempt() {
            Ok(Some(found)) => tried.push(found),
            Ok(None) => break,
            Err(e) => {
                notes.push(format!("cuDNN: {e:#}"));
                if variant > 0 || tried.is_empty() {
                    break;
                }
            }
        }
    }
    tried.sort_by(|a, b| a.us.total_cmp(&b.us));
    (tried, notes)
}
