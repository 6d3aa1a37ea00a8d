//! Descriptors of the graph interface: bags of attributes.

use super::library::{Cudnn, P};
use anyhow::Result;
use std::ffi::{c_int, c_void};
use std::rc::Rc;

/// `cudnnBackendAttributeType_t`.
#[derive(Clone, Copy)]
#[repr(i32)]
pub(super) enum Type {
    Handle = 0,
    Element = 1,
    Int64 = 3,
    Float = 4,
    VoidPtr = 6,
    ConvolutionMode = 7,
    HeurMode = 8,
    Knob = 9,
    NumericalNote = 11,
    BackendDescriptor = 15,
    BehaviorNote = 19,
}

/// `cudnnBackendDescriptorType_t`.
#[derive(Clone, Copy)]
#[repr(i32)]
pub(super) enum Kind {
    Convolution = 1,
    Engine = 2,
    EngineConfig = 3,
    EngineHeuristics = 4,
    ExecutionPlan = 5,
    KnobChoice = 7,
    Fprop = 10,
    Wgrad = 11,
    Dgrad = 12,
    OperationGraph = 15,
    VariantPack = 16,
    Tensor = 17,
}

/// `cudnnBackendAttributeName_t`.
#[derive(Clone, Copy, Debug)]
#[repr(i32)]
pub(super) enum Name {
    ConvolutionCompType = 100,
    ConvolutionMode = 101,
    ConvolutionDilations = 102,
    ConvolutionStrides = 103,
    ConvolutionPostPaddings = 104,
    ConvolutionPrePaddings = 105,
    ConvolutionSpatialDims = 106,
    HeuristicsMode = 200,
    HeuristicsGraph = 201,
    HeuristicsResults = 202,
    ConfigEngine = 300,
    ConfigKnobs = 302,
    PlanHandle = 400,
    PlanConfig = 401,
    PlanWorkspace = 402,
    KnobType = 600,
    KnobValue = 601,
    FpropAlpha = 700,
    FpropBeta = 701,
    FpropConv = 702,
    FpropW = 703,
    FpropX = 704,
    FpropY = 705,
    DgradAlpha = 706,
    DgradBeta = 707,
    DgradConv = 708,
    DgradW = 709,
    DgradDx = 710,
    DgradDy = 711,
    WgradAlpha = 712,
    WgradBeta = 713,
    WgradConv = 714,
    WgradDw = 715,
    WgradX = 716,
    WgradDy = 717,
    GraphHandle = 800,
    GraphOperations = 801,
    GraphEngineCount = 802,
    TensorAlignment = 900,
    TensorDataType = 901,
    TensorDimensions = 902,
    TensorStrides = 903,
    TensorUniqueId = 906,
    PackUniqueIds = 1000,
    PackPointers = 1001,
    PackWorkspace = 1003,
    EngineGraph = 1300,
    EngineIndex = 1301,
    EngineNumericalNotes = 1303,
    EngineBehaviorNotes = 1305,
}

/// A descriptor, destroyed when dropped.
pub(super) struct Descriptor<'a> {
    cudnn: &'a Cudnn,
    raw: P,
    /// Descriptors that were set as attributes: whether the library copies them is nowhere said.
    parts: Vec<Rc<Descriptor<'a>>>,
}

impl<'a> Descriptor<'a> {
    /// An empty one.
    pub(super) fn new(cudnn: &'a Cudnn, kind: Kind) -> Result<Self> {
        let mut raw = std::ptr::null_mut();
        // SAFETY: `raw` is a place for a handle.
        let status = unsafe { (cudnn.functions.backend_create)(kind as c_int, &mut raw) };
        cudnn.check("cudnnBackendCreateDescriptor", status)?;
        Ok(Descriptor { cudnn, raw, parts: Vec::new() })
    }

    pub(super) fn raw(&self) -> P {
        self.raw
    }

    /// Sets an attribute to values of a type whose size in memory is that of `T`.
    fn set<T>(&mut self, name: Name, of: Type, values: &[T]) -> Result<()> {
        let place = values.as_ptr().cast::<c_void>();
        let set = self.cudnn.functions.backend_set;
        // SAFETY: the descriptor is alive; `place` has so many values, of the size of the type: callers are the
        // functions below.
        let status = unsafe { set(self.raw, name as c_int, of as c_int, values.len() as i64, place) };
        self.cudnn.check(&format!("setting {name:?}"), status)
    }

    pub(super) fn set_i64s(&mut self, name: Name, values: &[i64]) -> Result<()> {
        self.set(name, Type::Int64, values)
    }

    pub(super) fn set_f32(&mut self, name: Name, value: f32) -> Result<()> {
        self.set(name, Type::Float, &[value])
    }

    /// Sets an attribute whose type is one of the library's enums.
    pub(super) fn set_enum(&mut self, name: Name, of: Type, value: c_int) -> Result<()> {
        self.set(name, of, &[value])
    }

    pub(super) fn set_handle(&mut self, name: Name) -> Result<()> {
        let handle = self.cudnn.handle;
        self.set(name, Type::Handle, &[handle])
    }

    pub(super) fn set_pointers(&mut self, name: Name, values: &[P]) -> Result<()> {
        self.set(name, Type::VoidPtr, values)
    }

    pub(super) fn set_descriptor(&mut self, name: Name, value: &Rc<Descriptor<'a>>) -> Result<()> {
        self.set(name, Type::BackendDescriptor, &[value.raw])?;
        self.parts.push(value.clone());
        Ok(())
    }

    /// Ends setting.
    pub(super) fn finalize(self, what: &str) -> Result<Rc<Self>> {
        // SAFETY: the descriptor is alive.
        let status = unsafe { (self.cudnn.functions.backend_finalize)(self.raw) };
        self.cudnn.check(what, status)?;
        Ok(Rc::new(self))
    }

    /// Reads an attribute into `places`; how many values there are, which may be more than places.
    fn get<T>(&self, name: Name, of: Type, places: &mut [T]) -> Result<usize> {
        let mut n = 0i64;
        let place = if places.is_empty() { std::ptr::null_mut() } else { places.as_mut_ptr().cast::<c_void>() };
        let get = self.cudnn.functions.backend_get;
        // SAFETY: the descriptor is alive; `place` has room for so many values of the size of the type: callers are
        // the functions below.
        let status = unsafe { get(self.raw, name as c_int, of as c_int, places.len() as i64, &mut n, place) };
        self.cudnn.check(&format!("reading {name:?}"), status)?;
        Ok(n.max(0) as usize)
    }

    pub(super) fn get_i64(&self, name: Name) -> Result<i64> {
        let mut place = [0i64];
        self.get(name, Type::Int64, &mut place)?;
        Ok(place[0])
    }

    /// Values of an enum, at most `most`.
    pub(super) fn get_enums(&self, name: Name, of: Type, most: usize) -> Result<Vec<c_int>> {
        let mut places = vec![0 as c_int; most];
        let n = self.get(name, of, &mut places)?;
        places.truncate(n);
        Ok(places)
    }

    /// The descriptors that an attribute holds, at most `most`.
    pub(super) fn get_descriptors(&self, name: Name, kind: Kind, most: usize) -> Result<Vec<Descriptor<'a>>> {
        let n = self.get::<P>(name, Type::BackendDescriptor, &mut [])?.min(most);
        self.get_descriptors_exactly(name, kind, n)
    }

    /// [`Self::get_descriptors`] where the number is known.
    pub(super) fn get_descriptors_exactly(&self, name: Name, kind: Kind, n: usize) -> Result<Vec<Descriptor<'a>>> {
        let mut made = (0..n).map(|_| Descriptor::new(self.cudnn, kind)).collect::<Result<Vec<_>>>()?;
        if n == 0 {
            return Ok(made);
        }
        // The library fills descriptors that the caller has made.
        let mut raw: Vec<P> = made.iter().map(Descriptor::raw).collect();
        let there = self.get(name, Type::BackendDescriptor, &mut raw)?;
        made.truncate(there);
        Ok(made)
    }
}

impl Drop for Descriptor<'_> {
    fn drop(&mut self) {
        // SAFETY: nobody else has the descriptor. A failure at this point is no news.
        let _ = unsafe { (self.cudnn.functions.backend_destroy)(self.raw) };
    }
}
