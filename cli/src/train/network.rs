//! A network as a list of planned steps over a table of tensors.
//!
//! Each layer plans its operators once, for one batch size; training then only runs plans. This is how the library is
//! meant to be used: problems and plans at the start, `Plan::run` in the loop.

use anyhow::Result;
use oxidnn::operators::Operation;
use oxidnn::ops::activation::{ActivationMode, ActivationProblem};
use oxidnn::ops::bias::BiasProblem;
use oxidnn::ops::conv::{ConvDesc, ConvProblem};
use oxidnn::ops::matmul::MatmulDesc;
use oxidnn::ops::pool::{PoolDesc, PoolMode, PoolProblem};
use oxidnn::ops::sgd::{SgdDesc, SgdProblem, SgdTensors};
use oxidnn::ops::softmax::{SoftmaxKind, SoftmaxMode, SoftmaxProblem};
use oxidnn::{Args, Context, DType, Plan, Policy, Role, Stream, Tensor, TensorDesc, Workspace};
use rand::RngExt as _;
use rand_distr::StandardNormal;
use rand_xoshiro::Xoshiro256PlusPlus;

/// A place in the table of tensors.
type Slot = usize;

/// A value that flows through the network, with the place of its gradient.
#[derive(Clone, Copy)]
pub struct Value {
    slot: Slot,
    desc: TensorDesc,
    /// None for the input of the network.
    gradient: Option<Slot>,
}

/// A plan and the tensors it runs on, in the order of its operands.
struct Step {
    plan: Plan,
    slots: Vec<Slot>,
}

/// What stochastic gradient descent is told.
#[derive(Clone, Copy, Debug)]
pub struct Optimizer {
    /// Share of the old velocity.
    pub momentum: f64,
    /// Pull of the parameters to 0.
    pub weight_decay: f64,
}

/// A network under construction, and then in use.
pub struct Network {
    context: Context,
    stream: Stream,
    rng: Xoshiro256PlusPlus,
    optimizer: Optimizer,
    /// None only while a step writes to it.
    tensors: Vec<Option<Tensor>>,
    forward: Vec<Step>,
    /// In the order of the layers; run from the last to the first.
    backward: Vec<Vec<Step>>,
    updates: Vec<Step>,
    workspace: Workspace,
}

impl Network {
    /// An empty network.
    pub fn new(context: &Context, rng: Xoshiro256PlusPlus, optimizer: Optimizer) -> Result<Self> {
        Ok(Network {
            context: context.clone(),
            stream: context.stream()?,
            rng,
            optimizer,
            tensors: Vec::new(),
            forward: Vec::new(),
            backward: Vec::new(),
            updates: Vec::new(),
            workspace: Workspace::none(context)?,
        })
    }

    /// A value given from outside.
    pub fn input(&mut self, dims: &[i64]) -> Result<Value> {
        let desc = TensorDesc::packed(DType::F32, dims)?;
        Ok(Value { slot: self.tensor(&desc)?, desc, gradient: None })
    }

    /// A convolution with `k` filters of `r`×`r`, then a bias.
    pub fn conv(&mut self, x: Value, k: i64, r: i64, padding: i64) -> Result<Value> {
        let c = x.desc.dims()[1];
        let w_desc = TensorDesc::packed(DType::F32, &[k, c, r, r])?;
        let desc = ConvDesc::new().padding(&[padding]);
        let y = self.value(&desc.output_dims(&x.desc, &w_desc)?)?;
        let (w, dw) = self.parameter(&w_desc, c * r * r)?;
        let fprop = self.step(&ConvProblem::fprop(&desc, &x.desc, &w_desc, &y.desc)?, &[x.slot, w, y.slot])?;
        let wgrad = self.step(&ConvProblem::wgrad(&desc, &x.desc, &y.desc, &w_desc)?, &[x.slot, gradient(y), dw])?;
        let mut backward = vec![wgrad];
        if let Some(dx) = x.gradient {
            backward.push(self.step(&ConvProblem::dgrad(&desc, &y.desc, &w_desc, &x.desc)?, &[gradient(y), w, dx])?);
        }
        self.layer(fprop, backward);
        self.bias(y)
    }

    /// A fully connected layer to `features`, then a bias. Values of higher rank are flattened.
    pub fn linear(&mut self, x: Value, features: i64) -> Result<Value> {
        let batch = x.desc.dims()[0];
        let inputs = x.desc.n_elems() / batch;
        let x_desc = TensorDesc::packed(DType::F32, &[batch, inputs])?;
        let w_desc = TensorDesc::packed(DType::F32, &[inputs, features])?;
        let y = self.value(&[batch, features])?;
        let (w, dw) = self.parameter(&w_desc, inputs)?;
        let product = |transpose_a, transpose_b, a: &TensorDesc, b: &TensorDesc, c: &TensorDesc| {
            MatmulDesc { transpose_a, transpose_b, ..MatmulDesc::default() }.problem(a, b, c)
        };
        let forward = self.step(&product(false, false, &x_desc, &w_desc, &y.desc)?, &[x.slot, w, y.slot])?;
        let to_w = self.step(&product(true, false, &x_desc, &y.desc, &w_desc)?, &[x.slot, gradient(y), dw])?;
        let mut backward = vec![to_w];
        if let Some(dx) = x.gradient {
            backward.push(self.step(&product(false, true, &y.desc, &w_desc, &x_desc)?, &[gradient(y), w, dx])?);
        }
        self.layer(forward, backward);
        self.bias(y)
    }

    /// One number added to each channel. The gradient passes unchanged, so input and output share its tensor.
    fn bias(&mut self, x: Value) -> Result<Value> {
        let b_desc = TensorDesc::packed(DType::F32, &[x.desc.dims()[1]])?;
        let y = Value { slot: self.tensor(&x.desc)?, ..x };
        let (b, db) = self.parameter(&b_desc, 0)?;
        let forward = self.step(&BiasProblem::forward(&x.desc, &b_desc, &y.desc)?, &[x.slot, b, y.slot])?;
        let backward = self.step(&BiasProblem::backward(&y.desc, &b_desc)?, &[gradient(y), db])?;
        self.layer(forward, vec![backward]);
        Ok(y)
    }

    /// max(x, 0).
    pub fn relu(&mut self, x: Value) -> Result<Value> {
        let y = self.value(x.desc.dims())?;
        let mode = ActivationMode::Relu;
        let forward = self.step(&ActivationProblem::forward(mode, &x.desc, &y.desc)?, &[x.slot, y.slot])?;
        let problem = ActivationProblem::backward(mode, &x.desc, &y.desc, &x.desc)?;
        let backward = self.step(&problem, &[x.slot, gradient(y), gradient(x)])?;
        self.layer(forward, vec![backward]);
        Ok(y)
    }

    /// The maximum of each 2×2 square.
    pub fn max_pool(&mut self, x: Value) -> Result<Value> {
        let desc = PoolDesc::new(PoolMode::Max, &[2]);
        let y = self.value(&desc.output_dims(&x.desc)?)?;
        let forward = self.step(&PoolProblem::forward(&desc, &x.desc, &y.desc)?, &[x.slot, y.slot])?;
        let problem = PoolProblem::backward(&desc, &x.desc, &y.desc, &x.desc)?;
        let backward = self.step(&problem, &[x.slot, gradient(y), gradient(x)])?;
        self.layer(forward, vec![backward]);
        Ok(y)
    }

    /// Logarithms of class probabilities.
    pub fn log_softmax(&mut self, x: Value) -> Result<Value> {
        let y = self.value(x.desc.dims())?;
        let (kind, mode) = (SoftmaxKind::Log, SoftmaxMode::Channel);
        let forward = self.step(&SoftmaxProblem::forward(kind, mode, &x.desc, &y.desc)?, &[x.slot, y.slot])?;
        let problem = SoftmaxProblem::backward(kind, mode, &y.desc, &y.desc, &x.desc)?;
        let backward = self.step(&problem, &[y.slot, gradient(y), gradient(x)])?;
        self.layer(forward, vec![backward]);
        Ok(y)
    }

    /// Computes every value from `x`, given in row-major order, and returns `y`.
    pub fn predict(&mut self, x: (Value, &[f32]), y: Value) -> Result<Vec<f32>> {
        self.write(x.0.slot, x.1)?;
        for step in &self.forward {
            run(step, &mut self.tensors, &self.stream, &mut self.workspace, 1.0)?;
        }
        Ok(self.tensors[y.slot].as_ref().map(|y| y.to_vec(&self.stream)).transpose()?.unwrap_or_default())
    }

    /// Computes the gradient of every parameter from that of `y`, after [`Network::predict`], and takes a step.
    pub fn learn(&mut self, (y, dy): (Value, &[f32]), learning_rate: f64) -> Result<()> {
        self.write(gradient(y), dy)?;
        for step in self.backward.iter().rev().flatten() {
            run(step, &mut self.tensors, &self.stream, &mut self.workspace, 1.0)?;
        }
        for step in &self.updates {
            run(step, &mut self.tensors, &self.stream, &mut self.workspace, learning_rate)?;
        }
        Ok(())
    }

    fn write(&mut self, slot: Slot, values: &[f32]) -> Result<()> {
        if let Some(tensor) = &mut self.tensors[slot] {
            tensor.write(&self.stream, values)?;
        }
        Ok(())
    }

    fn tensor(&mut self, desc: &TensorDesc) -> Result<Slot> {
        self.tensors.push(Some(self.context.tensor(desc)?));
        Ok(self.tensors.len() - 1)
    }

    /// A value computed by a layer, with room for its gradient.
    fn value(&mut self, dims: &[i64]) -> Result<Value> {
        let desc = TensorDesc::packed(DType::F32, dims)?;
        Ok(Value { slot: self.tensor(&desc)?, desc, gradient: Some(self.tensor(&desc)?) })
    }

    /// A parameter and its gradient, with the step that updates it. Normal with variance 2 / `fan_in`, as He et al.
    /// (arXiv 1502.01852) advise for rectifiers; zero where `fan_in` is.
    fn parameter(&mut self, desc: &TensorDesc, fan_in: i64) -> Result<(Slot, Slot)> {
        let scale = if fan_in > 0 { (2.0 / fan_in as f64).sqrt() } else { 0.0 };
        let values: Vec<f32> =
            (0..desc.n_elems()).map(|_| (scale * self.rng.sample::<f64, _>(StandardNormal)) as f32).collect();
        let (w, dw, v) = (self.tensor(desc)?, self.tensor(desc)?, self.tensor(desc)?);
        self.write(w, &values)?;
        let Optimizer { momentum, weight_decay } = self.optimizer;
        let tensors = SgdTensors { dw: *desc, v: Some(*desc), master: None, w: *desc };
        let step = SgdDesc::new().momentum(momentum).weight_decay(weight_decay);
        let update = self.step(&SgdProblem::new(step, &[tensors])?, &[dw, v, w])?;
        self.updates.push(update);
        Ok((w, dw))
    }

    fn step<P: Operation>(&mut self, problem: &P, slots: &[Slot]) -> Result<Step> {
        let plan = self.context.plan(problem, Policy::Heuristic)?;
        self.workspace.grow(plan.workspace_bytes())?;
        Ok(Step { plan, slots: slots.to_vec() })
    }

    fn layer(&mut self, forward: Step, backward: Vec<Step>) {
        self.forward.push(forward);
        self.backward.push(backward);
    }
}

/// Layers behind the first have inputs with gradients.
fn gradient(value: Value) -> Slot {
    value.gradient.unwrap_or(value.slot)
}

/// Runs a plan on its tensors, seen in the shapes it was made for.
fn run(
    step: &Step,
    tensors: &mut [Option<Tensor>],
    stream: &Stream,
    workspace: &mut Workspace,
    alpha: f64,
) -> Result<()> {
    let operands = step.plan.operands();
    // What is written is taken out of the table, so that the rest can be read beside it.
    let mut written: Vec<Option<Tensor>> = operands
        .iter()
        .zip(&step.slots)
        .map(|(operand, &slot)| if operand.role == Role::Input { None } else { tensors[slot].take() })
        .collect();
    let mut args = Args::new().alpha(alpha);
    for ((operand, &slot), output) in operands.iter().zip(&step.slots).zip(&mut written) {
        if let Some(tensor) = output {
            args = args.output(operand.name, tensor.view_mut().reshape(&operand.desc)?);
        } else if let Some(tensor) = &tensors[slot] {
            args = args.input(operand.name, tensor.view().reshape(&operand.desc)?);
        }
    }
    let outcome = step.plan.run(stream, args, workspace);
    for (output, &slot) in written.into_iter().zip(&step.slots) {
        if output.is_some() {
            tensors[slot] = output;
        }
    }
    Ok(outcome?)
}
