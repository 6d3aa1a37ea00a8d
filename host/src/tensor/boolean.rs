//! Truth values as tensors hold them.

/// An element of [`DType::Bool`](crate::DType::Bool): a byte of which every value but 0 is true; 1 is written.
#[derive(Clone, Copy, Debug, Default, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(transparent)]
pub struct Boolean(u8);

impl Boolean {
    /// The element for a truth value.
    pub fn new(value: bool) -> Self {
        Boolean(u8::from(value))
    }

    /// Whether it is true.
    pub fn get(self) -> bool {
        self.0 != 0
    }

    /// 0 or 1.
    pub fn to_f64(self) -> f64 {
        f64::from(u8::from(self.get()))
    }

    /// 0 or 1.
    pub fn to_f32(self) -> f32 {
        f32::from(u8::from(self.get()))
    }
}

impl PartialEq for Boolean {
    fn eq(&self, other: &Self) -> bool {
        self.get() == other.get()
    }
}

impl Eq for Boolean {}
