//! Drawing by seed: numbers, extents, tensors and nodes.

use crate::proto::{AttributeProto, NodeProto};
use crate::value::{ElementType, Value};
use half::{bf16, f16};
use oxidnn::{f8e4m3, f8e5m2};

/// A generator of random numbers, SplitMix64: the same seed gives the same nodes on every machine.
pub struct Rng(u64);

impl Rng {
    /// The numbers of one node.
    pub fn new(seed: u64, index: u64) -> Self {
        let mut rng = Rng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ index.wrapping_mul(0xd134_2543_de82_ef95));
        rng.next();
        rng
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// An integer of `low..=high`.
    pub fn int(&mut self, low: i64, high: i64) -> i64 {
        low + (self.next() % (high - low + 1).max(1) as u64) as i64
    }

    /// Whether something of this percentage happens.
    pub fn chance(&mut self, percent: i64) -> bool {
        self.int(0, 99) < percent
    }

    /// One of a list.
    pub fn pick<T>(&mut self, list: &[T]) -> T
    where
        T: Copy,
    {
        list[self.int(0, list.len() as i64 - 1) as usize]
    }

    /// A number of `low..high`.
    pub fn real(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * ((self.next() >> 11) as f64 / (1u64 << 53) as f64)
    }

    /// Extents of `low..=high` dimensions.
    pub fn dims(&mut self, low: i64, high: i64, largest: i64) -> Vec<i64> {
        (0..self.int(low, high)).map(|_| self.int(1, largest)).collect()
    }

    /// The same, now and then without elements.
    pub fn dims_or_none(&mut self, low: i64, high: i64, largest: i64) -> Vec<i64> {
        let mut dims = self.dims(low, high, largest);
        if !dims.is_empty() && self.chance(1) {
            let axis = self.int(0, dims.len() as i64 - 1) as usize;
            dims[axis] = 0;
        }
        dims
    }

    /// An axis as a node may name it, from the front or from the end.
    pub fn named(&mut self, axis: usize, rank: usize) -> i64 {
        if self.chance(40) { axis as i64 - rank as i64 } else { axis as i64 }
    }

    /// Some axes, at least one, in order.
    pub fn axes(&mut self, rank: usize) -> Vec<usize> {
        let first = self.int(0, rank as i64 - 1) as usize;
        (0..rank).filter(|&axis| axis == first || self.chance(40)).collect()
    }
}

/// Which numbers a tensor holds.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Holds {
    /// Numbers of a few units.
    Small,
    /// The same above 0.
    Positive,
    /// Also infinities, NaN, zeros of both signs, and the largest and the smallest numbers; integers of the whole range.
    Edges,
    /// Also infinities, zeros and large numbers, but no NaN.
    Ordered,
}

/// Whether a type has a fraction.
pub fn is_real(element: ElementType) -> bool {
    use ElementType::*;
    matches!(element, Float | Double | Float16 | Bfloat16 | Float8E4M3Fn | Float8E5M2)
}

/// The smallest and the largest number of a type of integers.
pub fn limits(element: ElementType) -> (i128, i128) {
    match element {
        ElementType::Bool => (0, 1),
        ElementType::Uint8 => (0, 255),
        ElementType::Int8 => (-128, 127),
        ElementType::Int32 => (i128::from(i32::MIN), i128::from(i32::MAX)),
        _ => (i128::from(i64::MIN), i128::from(i64::MAX)),
    }
}

/// The largest number of a type with a fraction.
pub fn largest(element: ElementType) -> f64 {
    match element {
        ElementType::Float16 => 65504.0,
        ElementType::Bfloat16 => bf16::MAX.to_f64(),
        ElementType::Float => f64::from(f32::MAX),
        ElementType::Float8E4M3Fn => 448.0,
        ElementType::Float8E5M2 => 57344.0,
        _ => f64::MAX,
    }
}

/// A tensor of random elements.
pub fn tensor(rng: &mut Rng, element: ElementType, dims: &[i64], holds: Holds) -> Value {
    let n_elems = dims.iter().product::<i64>();
    let edgy = rng.chance(50);
    if is_real(element) {
        let (inf, max) = (f64::INFINITY, largest(element));
        let special: &[f64] = &[inf, -inf, 0.0, -0.0, max, -max, max / 2.0, 1.0, -1.0, 0.5, 2.5, f64::NAN];
        let special = &special[..special.len() - usize::from(holds != Holds::Edges)];
        let one = |_| match holds {
            Holds::Positive => rng.real(0.1, 3.0),
            Holds::Edges | Holds::Ordered if edgy && rng.chance(40) => rng.pick(special),
            _ if rng.chance(10) => rng.int(-3, 3) as f64,
            _ => rng.real(-3.0, 3.0),
        };
        return reals(element, dims, &(0..n_elems).map(one).collect::<Vec<_>>());
    }
    let (low, high) = limits(element);
    let one = |_| match holds {
        Holds::Positive => i128::from(rng.int(1, 9)).min(high),
        Holds::Edges | Holds::Ordered if edgy && rng.chance(60) => {
            let near = i128::from(rng.int(0, 3));
            let wide = (1i128 << 60) + near;
            rng.pick(&[low + near, high - near, wide, -wide, (1 << 53) + near]).clamp(low, high)
        }
        _ => i128::from(rng.int(-9, 9)).clamp(low, high),
    };
    ints(element, dims, &(0..n_elems).map(one).collect::<Vec<_>>())
}

/// A tensor of numbers, rounded to its type.
pub fn reals(element: ElementType, dims: &[i64], values: &[f64]) -> Value {
    let bytes = |value: &f64| match element {
        ElementType::Float16 => f16::from_f64(*value).to_le_bytes().to_vec(),
        ElementType::Bfloat16 => bf16::from_f64(*value).to_le_bytes().to_vec(),
        ElementType::Float => (*value as f32).to_le_bytes().to_vec(),
        ElementType::Float8E4M3Fn => bytemuck::bytes_of(&f8e4m3::from_f64(*value)).to_vec(),
        ElementType::Float8E5M2 => bytemuck::bytes_of(&f8e5m2::from_f64(*value)).to_vec(),
        _ => value.to_le_bytes().to_vec(),
    };
    Value { element, dims: dims.to_vec(), bytes: values.iter().flat_map(bytes).collect() }
}

/// A tensor of integers that fit its type.
pub fn ints(element: ElementType, dims: &[i64], values: &[i128]) -> Value {
    let size = match element {
        ElementType::Bool | ElementType::Uint8 | ElementType::Int8 => 1,
        ElementType::Int32 => 4,
        _ => 8,
    };
    let bytes = values.iter().flat_map(|value| value.to_le_bytes().into_iter().take(size)).collect();
    Value { element, dims: dims.to_vec(), bytes }
}

/// A node with the values of its inputs.
pub struct Drawn {
    pub node: NodeProto,
    /// Version of ONNX's operators.
    pub opset: i64,
    pub inputs: Vec<Option<Value>>,
}

impl Drawn {
    /// A node with one output.
    pub fn new(op: &str, opset: i64) -> Self {
        let node = NodeProto { op_type: op.to_owned(), output: vec!["y0".to_owned()], ..Default::default() };
        Drawn { node, opset, inputs: Vec::new() }
    }

    /// The same of another domain than ONNX's own.
    pub fn of_domain(mut self, domain: &str) -> Self {
        self.node.domain = domain.to_owned();
        self
    }

    /// One more input.
    pub fn input(mut self, value: Value) -> Self {
        self.node.input.push(format!("x{}", self.inputs.len()));
        self.inputs.push(Some(value));
        self
    }

    /// An input that is left out.
    pub fn no_input(mut self) -> Self {
        self.node.input.push(String::new());
        self.inputs.push(None);
        self
    }

    /// One more output.
    pub fn output(mut self) -> Self {
        self.node.output.push(format!("y{}", self.node.output.len()));
        self
    }

    fn attribute(mut self, name: &str, attribute: AttributeProto) -> Self {
        self.node.attribute.push(AttributeProto { name: name.to_owned(), ..attribute });
        self
    }

    /// An attribute that is an integer.
    pub fn int(self, name: &str, i: i64) -> Self {
        self.attribute(name, AttributeProto { i, r#type: 2, ..Default::default() })
    }

    /// An attribute that is a real number.
    pub fn float(self, name: &str, f: f32) -> Self {
        self.attribute(name, AttributeProto { f, r#type: 1, ..Default::default() })
    }

    /// An attribute that is a word.
    pub fn word(self, name: &str, word: &str) -> Self {
        self.attribute(name, AttributeProto { s: word.as_bytes().to_vec(), r#type: 3, ..Default::default() })
    }

    /// An attribute that is a list of integers.
    pub fn ints(self, name: &str, ints: &[i64]) -> Self {
        self.attribute(name, AttributeProto { ints: ints.to_vec(), r#type: 7, ..Default::default() })
    }

    /// An attribute that is a list of real numbers.
    pub fn floats(self, name: &str, floats: &[f32]) -> Self {
        self.attribute(name, AttributeProto { floats: floats.to_vec(), r#type: 6, ..Default::default() })
    }

    /// A list of integers, an attribute before version `since` and an input from there on.
    pub fn ints_or_input(self, since: i64, name: &str, values: &[i64]) -> Self {
        if self.opset < since { self.ints(name, values) } else { self.input(Value::of_ints(values)) }
    }

    /// What an attribute holds, for the judge.
    pub fn get(&self, name: &str) -> Option<&AttributeProto> {
        self.node.attribute.iter().find(|attribute| attribute.name == name)
    }
}

impl std::fmt::Display for Drawn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}-{}", self.node.op_type, self.opset)?;
        for attribute in &self.node.attribute {
            write!(f, " {}=", attribute.name)?;
            match attribute.r#type {
                1 => write!(f, "{}", attribute.f)?,
                2 => write!(f, "{}", attribute.i)?,
                3 => write!(f, "{}", String::from_utf8_lossy(&attribute.s))?,
                6 => write!(f, "{:?}", attribute.floats)?,
                _ => write!(f, "{:?}", attribute.ints)?,
            }
        }
        for input in &self.inputs {
            match input {
                None => write!(f, " (none)")?,
                Some(value) => {
                    write!(f, " {:?}{:?}", value.element, value.dims)?;
                    if value.n_elems() <= 12 {
                        match is_real(value.element) {
                            true => write!(f, "={:?}", value.reals().unwrap_or_default())?,
                            false => write!(f, "={:?}", value.ints().unwrap_or_default())?,
                        }
                    }
                }
            }
        }
        Ok(())
    }
}
