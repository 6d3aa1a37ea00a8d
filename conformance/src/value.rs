//! Tensors as ONNX's files hold them.

use crate::proto::TensorProto;
use crate::stop::Stop;
use half::{bf16, f16};
use oxidnn::{DType, Element, f8e4m3, f8e5m2};

/// ONNX's element types that occur in the cases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ElementType {
    Float = 1,
    Uint8 = 2,
    Int8 = 3,
    Uint16 = 4,
    Int16 = 5,
    Int32 = 6,
    Int64 = 7,
    String = 8,
    Bool = 9,
    Float16 = 10,
    Double = 11,
    Uint32 = 12,
    Uint64 = 13,
    Complex64 = 14,
    Complex128 = 15,
    Bfloat16 = 16,
    Float8E4M3Fn = 17,
    Float8E4M3Fnuz = 18,
    Float8E5M2 = 19,
    Float8E5M2Fnuz = 20,
    Uint4 = 21,
    Int4 = 22,
    Float4E2M1 = 23,
    Float8E8M0 = 24,
    Uint2 = 25,
    Int2 = 26,
}

impl ElementType {
    const ALL: [ElementType; 26] = {
        use ElementType::*;
        [
            Float,
            Uint8,
            Int8,
            Uint16,
            Int16,
            Int32,
            Int64,
            String,
            Bool,
            Float16,
            Double,
            Uint32,
            Uint64,
            Complex64,
            Complex128,
            Bfloat16,
            Float8E4M3Fn,
            Float8E4M3Fnuz,
            Float8E5M2,
            Float8E5M2Fnuz,
            Uint4,
            Int4,
            Float4E2M1,
            Float8E8M0,
            Uint2,
            Int2,
        ]
    };

    /// The type with ONNX's number.
    pub fn of(number: i32) -> Result<Self, Stop> {
        let found = Self::ALL.into_iter().find(|element| *element as i32 == number);
        found.ok_or_else(|| Stop::refused(format!("element type {number}, which is not known here")))
    }

    /// The same type among ours.
    pub fn dtype(self) -> Result<DType, Stop> {
        DType::ALL.into_iter().find(|&dtype| Self::of_dtype(dtype) == self).ok_or_else(|| self.unknown())
    }

    fn unknown(self) -> Stop {
        let name = format!("{self:?}").to_lowercase();
        Stop::refused(format!("no operator of ours has the element type {name}"))
    }

    /// The same type among ONNX's.
    pub fn of_dtype(dtype: DType) -> Self {
        match dtype {
            DType::F32 => ElementType::Float,
            DType::F64 => ElementType::Double,
            DType::F16 => ElementType::Float16,
            DType::BF16 => ElementType::Bfloat16,
            DType::I8 => ElementType::Int8,
            DType::I32 => ElementType::Int32,
            DType::F8E4M3 => ElementType::Float8E4M3Fn,
            DType::F8E5M2 => ElementType::Float8E5M2,
            DType::U8 => ElementType::Uint8,
            DType::I64 => ElementType::Int64,
            DType::Bool => ElementType::Bool,
        }
    }

    /// Bytes of an element; none for strings and types of less than a byte.
    fn size_bytes(self) -> Option<usize> {
        use ElementType::*;
        match self {
            Uint8 | Int8 | Bool | Float8E4M3Fn | Float8E4M3Fnuz | Float8E5M2 | Float8E5M2Fnuz | Float8E8M0 => Some(1),
            Uint16 | Int16 | Float16 | Bfloat16 => Some(2),
            Float | Int32 | Uint32 => Some(4),
            Int64 | Uint64 | Double | Complex64 => Some(8),
            Complex128 => Some(16),
            String | Uint4 | Int4 | Float4E2M1 | Uint2 | Int2 => None,
        }
    }
}

/// A tensor in host memory, row-major.
#[derive(Clone, Debug, PartialEq)]
pub struct Value {
    pub element: ElementType,
    /// Extents; none for a scalar.
    pub dims: Vec<i64>,
    /// Its elements, little-endian.
    pub bytes: Vec<u8>,
}

impl Value {
    /// Reads a tensor.
    ///
    /// # Errors
    /// Refuses element types without a size; fails when the number of bytes is not that of the extents.
    pub fn from_proto(tensor: &TensorProto) -> Result<Self, Stop> {
        let element = ElementType::of(tensor.data_type)?;
        let size = element.size_bytes().ok_or_else(|| element.unknown())?;
        let bytes = if !tensor.raw_data.is_empty() {
            tensor.raw_data.clone()
        } else if !tensor.int32_data.is_empty() {
            // Every type of at most 32 bits but float: the low bytes.
            tensor.int32_data.iter().flat_map(|v| v.to_le_bytes().into_iter().take(size)).collect()
        } else if !tensor.uint64_data.is_empty() {
            tensor.uint64_data.iter().flat_map(|v| v.to_le_bytes().into_iter().take(size)).collect()
        } else {
            let floats = tensor.float_data.iter().flat_map(|v| v.to_le_bytes());
            let ints = tensor.int64_data.iter().flat_map(|v| v.to_le_bytes());
            floats.chain(ints).chain(tensor.double_data.iter().flat_map(|v| v.to_le_bytes())).collect()
        };
        let n_elems: i64 = tensor.dims.iter().product();
        if bytes.len() as i64 != n_elems * size as i64 {
            let given = bytes.len();
            return Err(Stop::failed(format!("expected {n_elems} elements of {size} bytes, given {given} bytes")));
        }
        Ok(Value { element, dims: tensor.dims.clone(), bytes })
    }

    /// A list of integers.
    pub fn of_ints(ints: &[i64]) -> Self {
        let bytes = ints.iter().flat_map(|v| v.to_le_bytes()).collect();
        Value { element: ElementType::Int64, dims: vec![ints.len() as i64], bytes }
    }

    /// Number of elements.
    pub fn n_elems(&self) -> usize {
        self.dims.iter().product::<i64>() as usize
    }

    /// The same elements under other extents.
    pub fn with_dims(mut self, dims: &[i64]) -> Self {
        self.dims = dims.to_vec();
        self
    }

    /// Elements of a type of integers: shapes, axes, indices.
    pub fn ints(&self) -> Result<Vec<i64>, Stop> {
        use ElementType::*;
        let whole = matches!(self.element, Bool | Uint8 | Int8 | Uint16 | Int16 | Uint32 | Int32 | Uint64 | Int64);
        if !whole {
            return Err(Stop::failed(format!("expected integers, given {:?}", self.element)));
        }
        let size = self.element.size_bytes().unwrap_or(1);
        let signed = matches!(self.element, Int8 | Int16 | Int32 | Int64);
        let int = |bytes: &[u8]| {
            let fill = if signed && bytes.last().is_some_and(|top| top & 0x80 != 0) { 0xff } else { 0 };
            let mut word = [fill; 8];
            word[..size].copy_from_slice(bytes);
            i64::from_le_bytes(word)
        };
        Ok(self.bytes.chunks_exact(size).map(int).collect())
    }

    /// Elements as real numbers.
    pub fn reals(&self) -> Result<Vec<f64>, Stop> {
        fn all<T>(bytes: &[u8], real: impl Fn(T) -> f64) -> Vec<f64>
        where
            T: Element,
        {
            bytes.chunks_exact(size_of::<T>()).map(|chunk| real(bytemuck::pod_read_unaligned(chunk))).collect()
        }
        let bytes = &self.bytes;
        Ok(match self.element {
            ElementType::Float => all(bytes, |v: f32| f64::from(v)),
            ElementType::Double => all(bytes, |v: f64| v),
            ElementType::Float16 => all(bytes, |v: f16| v.to_f64()),
            ElementType::Bfloat16 => all(bytes, |v: bf16| v.to_f64()),
            ElementType::Float8E4M3Fn => all(bytes, |v: f8e4m3| v.to_f64()),
            ElementType::Float8E5M2 => all(bytes, |v: f8e5m2| v.to_f64()),
            _ => self.ints()?.into_iter().map(|v| v as f64).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_raw_bytes_are_the_same() {
        let listed =
            TensorProto { dims: vec![2], data_type: 10, int32_data: vec![0x3c00, 0xbc00], ..Default::default() };
        let raw = TensorProto { int32_data: vec![], raw_data: vec![0, 0x3c, 0, 0xbc], ..listed.clone() };
        let value = Value::from_proto(&listed).unwrap();
        assert_eq!(value, Value::from_proto(&raw).unwrap());
        assert_eq!(value.reals().unwrap(), [1.0, -1.0]);
    }

    #[test]
    fn integers_keep_their_sign() {
        let value = Value { element: ElementType::Int16, dims: vec![2], bytes: vec![0xff, 0xff, 1, 0] };
        assert_eq!(value.ints().unwrap(), [-1, 1]);
        let value = Value { element: ElementType::Uint16, ..value };
        assert_eq!(value.ints().unwrap(), [65535, 1]);
        assert!(value.element.dtype().is_err());
    }

    #[test]
    fn sizes_must_fit() {
        let tensor = TensorProto { dims: vec![2], data_type: 1, raw_data: vec![0; 7], ..Default::default() };
        assert!(matches!(Value::from_proto(&tensor), Err(Stop::Failed(_))));
    }
}
