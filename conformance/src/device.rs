//! A device with tensors on it, and runs of our operators.

use crate::layout::Layout;
use crate::stop::Stop;
use crate::value::{ElementType, Value};
use oxidnn::operators::Operation;
use oxidnn::ops::transform::TransformProblem;
use oxidnn::{Args, BadDescriptor, Context, DType, Policy, Stream, Tensor, TensorDesc, TensorView, TensorViewMut};

/// A device on which cases are computed.
pub struct Device {
    context: Context,
    stream: Stream,
}

/// A row-major tensor on the device.
pub struct Array {
    tensor: Tensor,
    dims: Vec<i64>,
}

impl Device {
    /// The device of a context.
    pub fn new(context: &Context) -> Result<Self, oxidnn::Error> {
        Ok(Device { context: context.clone(), stream: context.stream()? })
    }

    /// Copies a value to the device.
    ///
    /// # Errors
    /// Refuses element types that are not ours, and tensors without elements.
    pub fn array(&self, value: &Value) -> Result<Array, Stop> {
        let mut array = self.zeros(value.element.dtype()?, &value.dims)?;
        array.tensor.write_bytes(&self.stream, &value.bytes).map_err(Stop::failed)?;
        Ok(array)
    }

    /// A tensor to be written, zeros until then.
    pub fn zeros(&self, dtype: DType, dims: &[i64]) -> Result<Array, Stop> {
        let tensor = self.context.tensor(&Layout::packed(dtype, dims)?.desc)?;
        Ok(Array { tensor, dims: dims.to_vec() })
    }

    /// Computes a problem.
    ///
    /// # Errors
    /// Refuses what no algorithm takes; fails when the run does.
    pub fn run<P: Operation>(&self, problem: &P, args: Args<'_>) -> Result<(), Stop> {
        let plan = self.context.plan(problem, Policy::Heuristic)?;
        let mut workspace = plan.workspace()?;
        plan.run(&self.stream, args, &mut workspace).map_err(Stop::failed)?;
        self.stream.synchronize().map_err(Stop::failed)
    }

    /// Computes a problem that makes `y` of `x`, made for what both views describe.
    pub fn map<P: Operation>(
        &self,
        (x, x_layout): (&Array, &Layout),
        (y, y_layout): (&mut Array, &Layout),
        problem: impl FnOnce(&TensorDesc, &TensorDesc) -> Result<P, BadDescriptor>,
    ) -> Result<(), Stop> {
        let problem = problem(&x_layout.desc, &y_layout.desc)?;
        self.run(&problem, Args::new().input("x", x.at(x_layout)?).output("y", y.at_mut(y_layout)?))
    }

    /// Copies the elements of a view into another, by `transform`.
    pub fn copy(&self, from: (&Array, &Layout), to: (&mut Array, &Layout)) -> Result<(), Stop> {
        self.map(from, to, TransformProblem::new)
    }

    /// The elements of a view as a tensor with these extents, by `transform`.
    pub fn packed(&self, from: (&Array, &Layout), dims: &[i64]) -> Result<Array, Stop> {
        let mut to = self.zeros(from.0.dtype(), from.1.dims())?;
        let layout = to.layout();
        self.copy(from, (&mut to, &layout))?;
        to.with_dims(dims)
    }

    /// Copies a tensor back.
    pub fn value(&self, array: &Array) -> Result<Value, Stop> {
        let bytes = array.tensor.to_bytes(&self.stream).map_err(Stop::failed)?;
        Ok(Value { element: ElementType::of_dtype(array.dtype()), dims: array.dims.clone(), bytes })
    }
}

impl Array {
    /// Extents, as ONNX has them.
    pub fn dims(&self) -> &[i64] {
        &self.dims
    }

    /// Element type.
    pub fn dtype(&self) -> DType {
        self.tensor.desc().dtype()
    }

    /// How it lies as a whole.
    pub fn layout(&self) -> Layout {
        Layout { offset: 0, desc: *self.tensor.desc() }
    }

    /// The same elements under other extents.
    pub fn with_dims(mut self, dims: &[i64]) -> Result<Self, Stop> {
        let desc = self.layout().reshaped(dims)?.desc;
        self.tensor = self.tensor.reshape(&desc)?;
        self.dims = dims.to_vec();
        Ok(self)
    }

    /// Its elements as a view has them, to be read.
    pub fn at(&self, layout: &Layout) -> Result<TensorView<'_>, Stop> {
        self.tensor.window(layout.offset, &layout.desc).map_err(Stop::failed)
    }

    /// Its elements as a view has them, to be written.
    pub fn at_mut(&mut self, layout: &Layout) -> Result<TensorViewMut<'_>, Stop> {
        self.tensor.window_mut(layout.offset, &layout.desc).map_err(Stop::failed)
    }
}
