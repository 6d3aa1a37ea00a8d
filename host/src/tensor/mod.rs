//! Memory with a shape.

mod boolean;
mod element;
mod fp8;
mod memory;
mod strided;
mod view;

pub use boolean::Boolean;
pub use element::Element;
pub(crate) use element::Real;
pub use fp8::{f8e4m3, f8e5m2};
pub(crate) use memory::{HostMemory, Memory, Region, RegionMut};
pub(crate) use strided::{gather, scatter, scatter_typed, store_integers};
pub use view::{TensorView, TensorViewMut};

use crate::{Context, Error, Stream, TensorDesc};

/// A tensor that owns its memory, on one device.
#[derive(Debug)]
pub struct Tensor {
    context: Context,
    desc: TensorDesc,
    memory: Memory,
}

impl Tensor {
    pub(crate) fn zeros(context: &Context, desc: &TensorDesc) -> Result<Self, Error> {
        let memory = context.alloc(desc.span_bytes())?;
        Ok(Tensor { context: context.clone(), desc: *desc, memory })
    }

    pub(crate) fn from_values<T: Element>(context: &Context, desc: &TensorDesc, values: &[T]) -> Result<Self, Error> {
        let mut tensor = Self::zeros(context, desc)?;
        tensor.write(&context.stream()?, values)?;
        Ok(tensor)
    }

    /// Its shape.
    pub fn desc(&self) -> &TensorDesc {
        &self.desc
    }

    /// Its device.
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// Address of its first element: of device memory on a GPU, of host memory on the CPU.
    pub fn address(&self) -> u64 {
        self.memory.region().range().0
    }

    /// The whole tensor, to be read.
    pub fn view(&self) -> TensorView<'_> {
        TensorView::new(&self.context, self.desc, self.memory.region())
    }

    /// The whole tensor, to be written.
    pub fn view_mut(&mut self) -> TensorViewMut<'_> {
        TensorViewMut::new(&self.context, self.desc, self.memory.region_mut())
    }

    /// A part of the memory seen as another tensor of the same type: `desc` laid from element `offset_elems` on.
    ///
    /// This is how a slice of a batch, or of the channels, is named.
    ///
    /// # Errors
    /// `BadDescriptor` when the part reaches outside the memory or has another type.
    pub fn window(&self, offset_elems: i64, desc: &TensorDesc) -> Result<TensorView<'_>, Error> {
        let (start, end) = self.window_bytes(offset_elems, desc)?;
        Ok(TensorView::new(&self.context, *desc, self.memory.region().part(start, end)))
    }

    /// A part of the memory seen as another tensor, to be written. See [`Tensor::window`].
    ///
    /// # Errors
    /// As there.
    pub fn window_mut(&mut self, offset_elems: i64, desc: &TensorDesc) -> Result<TensorViewMut<'_>, Error> {
        let (start, end) = self.window_bytes(offset_elems, desc)?;
        Ok(TensorViewMut::new(&self.context, *desc, self.memory.region_mut().part(start, end)))
    }

    fn window_bytes(&self, offset_elems: i64, desc: &TensorDesc) -> Result<(u64, u64), Error> {
        let item = self.desc.dtype().size_bytes() as u64;
        let given = u64::try_from(offset_elems).ok().and_then(|offset| offset.checked_mul(item));
        let end = given.and_then(|start| start.checked_add(desc.span_bytes()));
        match given.zip(end) {
            Some((start, end)) if desc.dtype() == self.desc.dtype() && end <= self.memory.len_bytes() => {
                Ok((start, end))
            }
            _ => {
                let reason = format!("expected a part of {}, given {desc} at element {offset_elems}", self.desc);
                Err(Error::bad("tensor", "window", reason))
            }
        }
    }

    /// Overwrites every element with `values`, given in row-major order of its indices; gaps keep their bytes.
    ///
    /// Returns when the values are there. Where indices share an element, the last value stands.
    ///
    /// # Errors
    /// `BadDescriptor` when the number of values is not that of the elements; `Driver`.
    pub fn write<T: Element>(&mut self, stream: &Stream, values: &[T]) -> Result<(), Error> {
        if values.len() as i64 != self.desc.n_elems() {
            let reason = format!("expected {} values for {}, given {}", self.desc.n_elems(), self.desc, values.len());
            return Err(Error::bad("tensor", "values", reason));
        }
        if T::DTYPE == self.desc.dtype() && self.desc.is_packed() {
            return self.memory.region_mut().write_bytes(stream, bytemuck::cast_slice(values));
        }
        if self.context.is_gpu() {
            let mut staged = self.read_bytes(stream)?;
            scatter(&self.desc, values, staged.bytes_mut());
            self.memory.region_mut().write_bytes(stream, staged.bytes())
        } else {
            match self.memory.region_mut() {
                RegionMut::Host(bytes) => scatter(&self.desc, values, bytes),
                RegionMut::Device(_) => unreachable!("the CPU's tensors lie in host memory"),
            }
            Ok(())
        }
    }

    /// Fills a packed tensor with repetitions of `values`, converted to its type.
    pub(crate) fn fill_repeating<T: Element>(&mut self, stream: &Stream, values: &[T]) -> Result<(), Error> {
        let desc = TensorDesc::packed(self.desc.dtype(), &[values.len() as i64])?;
        let mut pattern = HostMemory::zeroed(desc.span_bytes())
            .ok_or_else(|| Error::OutOfMemory { bytes: desc.span_bytes(), device: "the host".to_owned() })?;
        scatter(&desc, values, pattern.bytes_mut());
        self.memory.region_mut().fill_repeating(stream, pattern.bytes())
    }

    /// Every element, in row-major order of its indices, converted to `T`. Waits for `stream` first.
    ///
    /// # Errors
    /// `OutOfMemory`, `Driver`.
    pub fn to_vec<T: Element>(&self, stream: &Stream) -> Result<Vec<T>, Error> {
        let bytes = self.read_bytes(stream)?;
        let mut values = vec![T::from_f64(0.0); self.desc.n_elems() as usize];
        gather(&self.desc, bytes.bytes(), &mut values);
        Ok(values)
    }

    /// The memory's bytes, gaps included. Waits for `stream` first.
    ///
    /// # Errors
    /// `OutOfMemory`, `Driver`.
    pub fn to_bytes(&self, stream: &Stream) -> Result<Vec<u8>, Error> {
        Ok(self.read_bytes(stream)?.bytes().to_vec())
    }

    /// Overwrites the memory's bytes, gaps included.
    ///
    /// # Errors
    /// `BadDescriptor` when the number of bytes is not that of the span; `Driver`.
    pub fn write_bytes(&mut self, stream: &Stream, bytes: &[u8]) -> Result<(), Error> {
        if bytes.len() as u64 != self.desc.span_bytes() {
            let reason = format!("expected {} bytes for {}, given {}", self.desc.span_bytes(), self.desc, bytes.len());
            return Err(Error::bad("tensor", "bytes", reason));
        }
        self.memory.region_mut().write_bytes(stream, bytes)
    }

    fn read_bytes(&self, stream: &Stream) -> Result<HostMemory, Error> {
        let mut bytes = HostMemory::zeroed(self.desc.span_bytes())
            .ok_or_else(|| Error::OutOfMemory { bytes: self.desc.span_bytes(), device: "the host".to_owned() })?;
        self.memory.region().read_bytes(stream, bytes.bytes_mut())?;
        Ok(bytes)
    }

    /// The same elements under another shape: both packed, with equally many elements and one type.
    ///
    /// # Errors
    /// `BadDescriptor` when that does not hold.
    pub fn reshape(mut self, desc: &TensorDesc) -> Result<Self, Error> {
        self.desc = reshaped(&self.desc, desc)?;
        Ok(self)
    }
}

/// Checks that `to` names the memory of `from` in the same order.
pub(crate) fn reshaped(from: &TensorDesc, to: &TensorDesc) -> Result<TensorDesc, Error> {
    if from.dtype() == to.dtype() && from.n_elems() == to.n_elems() && from.is_packed() && to.is_packed() {
        return Ok(*to);
    }
    let reason = format!("expected packed tensors of one type and size, given {from} to be seen as {to}");
    Err(Error::bad("tensor", "reshape", reason))
}
