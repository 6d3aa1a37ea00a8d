//! Borrowed tensors.

use super::{Region, RegionMut, Tensor, reshaped};
use crate::{Context, Error, TensorDesc};

/// A tensor to be read: a descriptor over borrowed memory.
#[derive(Clone, Copy, Debug)]
pub struct TensorView<'a> {
    context: &'a Context,
    desc: TensorDesc,
    region: Region<'a>,
}

/// A tensor to be written: a descriptor over exclusively borrowed memory.
#[derive(Debug)]
pub struct TensorViewMut<'a> {
    context: &'a Context,
    desc: TensorDesc,
    region: RegionMut<'a>,
}

impl<'a> TensorView<'a> {
    pub(crate) fn new(context: &'a Context, desc: TensorDesc, region: Region<'a>) -> Self {
        TensorView { context, desc, region }
    }

    /// Its shape.
    pub fn desc(&self) -> &TensorDesc {
        &self.desc
    }

    /// Its device.
    pub fn context(&self) -> &'a Context {
        self.context
    }

    /// The same elements under another shape: both packed, with equally many elements and one type.
    ///
    /// # Errors
    /// `BadDescriptor` when that does not hold.
    pub fn reshape(mut self, desc: &TensorDesc) -> Result<Self, Error> {
        self.desc = reshaped(&self.desc, desc)?;
        Ok(self)
    }

    pub(crate) fn region(&self) -> Region<'a> {
        self.region
    }
}

impl<'a> TensorViewMut<'a> {
    pub(crate) fn new(context: &'a Context, desc: TensorDesc, region: RegionMut<'a>) -> Self {
        TensorViewMut { context, desc, region }
    }

    /// Its shape.
    pub fn desc(&self) -> &TensorDesc {
        &self.desc
    }

    /// Its device.
    pub fn context(&self) -> &'a Context {
        self.context
    }

    /// The same elements under another shape: both packed, with equally many elements and one type.
    ///
    /// # Errors
    /// `BadDescriptor` when that does not hold.
    pub fn reshape(mut self, desc: &TensorDesc) -> Result<Self, Error> {
        self.desc = reshaped(&self.desc, desc)?;
        Ok(self)
    }

    pub(crate) fn into_region(self) -> RegionMut<'a> {
        self.region
    }
}

impl<'a> From<&'a Tensor> for TensorView<'a> {
    fn from(tensor: &'a Tensor) -> Self {
        tensor.view()
    }
}

impl<'a> From<&'a mut Tensor> for TensorViewMut<'a> {
    fn from(tensor: &'a mut Tensor) -> Self {
        tensor.view_mut()
    }
}
