//! stub
#![allow(missing_docs, dead_code, clippy::all)]
#[derive(Debug, thiserror::Error)]
#[error("no driver")]
pub struct DriverError;
impl DriverError {
    pub fn is_out_of_memory(&self) -> bool {
        false
    }
}
#[derive(Debug, Clone, Copy)]
pub enum Never {}
#[derive(Debug, Clone)]
pub struct GpuContext(Never);
impl GpuContext {
    pub fn count() -> Result<usize, DriverError> {
        Ok(0)
    }
    pub fn primary(_: usize) -> Result<Self, DriverError> {
        Err(DriverError)
    }
    pub fn compute_capability(&self) -> (u32, u32) {
        match self.0 {}
    }
    pub fn name(&self) -> &str {
        match self.0 {}
    }
    pub fn ordinal(&self) -> usize {
        match self.0 {}
    }
    pub fn sm_count(&self) -> usize {
        match self.0 {}
    }
    pub fn total_bytes(&self) -> u64 {
        match self.0 {}
    }
    pub fn raw(&self) -> *mut u8 {
        match self.0 {}
    }
}
#[derive(Debug, Clone)]
pub struct GpuStream(Never);
impl GpuStream {
    pub fn new(c: &GpuContext) -> Result<Self, DriverError> {
        match c.0 {}
    }
    pub fn synchronize(&self) -> Result<(), DriverError> {
        match self.0 {}
    }
    pub fn context(&self) -> &GpuContext {
        match self.0 {}
    }
}
#[derive(Debug)]
pub struct Event(Never);
impl Event {
    pub fn new(c: &GpuContext) -> Result<Self, DriverError> {
        match c.0 {}
    }
    pub fn record(&self, _: &GpuStream) -> Result<(), DriverError> {
        match self.0 {}
    }
    pub fn synchronize(&self) -> Result<(), DriverError> {
        match self.0 {}
    }
    pub fn elapsed_us(a: &Self, _: &Self) -> Result<f32, DriverError> {
        match a.0 {}
    }
}
#[derive(Debug)]
pub struct DeviceMemory(Never);
impl DeviceMemory {
    pub fn alloc(c: &GpuContext, _: usize) -> Result<Self, DriverError> {
        match c.0 {}
    }
    pub fn len_bytes(&self) -> usize {
        match self.0 {}
    }
    pub fn span(&self) -> DeviceSpan<'_> {
        match self.0 {}
    }
}
#[derive(Debug, Clone, Copy)]
pub struct DeviceSpan<'a>(Never, std::marker::PhantomData<&'a u8>);
impl<'a> DeviceSpan<'a> {
    pub fn address(&self) -> u64 {
        match self.0 {}
    }
    pub fn len_bytes(&self) -> u64 {
        match self.0 {}
    }
    pub fn part(self, _: u64, _: u64) -> Self {
        match self.0 {}
    }
    pub fn read(&self, _: &GpuStream, _: &mut [u8]) -> Result<(), DriverError> {
        match self.0 {}
    }
    pub fn write(&self, _: &GpuStream, _: &[u8]) -> Result<(), DriverError> {
        match self.0 {}
    }
}
#[derive(Debug)]
pub struct Module(Never);
impl Module {
    pub fn load(c: &GpuContext, _: &str) -> Result<Self, DriverError> {
        match c.0 {}
    }
    pub fn function(&self, _: &str) -> Result<Function, DriverError> {
        match self.0 {}
    }
    pub fn global_u64(&self, _: &str) -> Result<u64, DriverError> {
        match self.0 {}
    }
}
#[derive(Debug, Clone)]
pub struct Function(Never);
impl Function {
    pub fn name(&self) -> &str {
        match self.0 {}
    }
}
