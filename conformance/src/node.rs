//! A node with its attributes and the values of its inputs.

use crate::proto::{AttributeProto, NodeProto};
use crate::stop::Stop;
use crate::value::Value;
use std::cell::RefCell;
use std::collections::BTreeSet;

/// A node as the families of operators see it.
pub struct Node<'a> {
    proto: &'a NodeProto,
    /// Version of the operators of its domain.
    pub opset: i64,
    inputs: Vec<Option<&'a Value>>,
    /// Attributes that were asked for.
    read: RefCell<BTreeSet<&'a str>>,
}

impl<'a> Node<'a> {
    /// A node whose inputs have these values, none for those left out.
    pub fn new(proto: &'a NodeProto, opset: i64, inputs: Vec<Option<&'a Value>>) -> Self {
        Node { proto, opset, inputs, read: RefCell::default() }
    }

    /// The operator's name.
    pub fn op(&self) -> &'a str {
        &self.proto.op_type
    }

    /// A required input.
    pub fn input(&self, i: usize) -> Result<&'a Value, Stop> {
        self.optional(i).ok_or_else(|| Stop::failed(format!("expected an input {i}, given none")))
    }

    /// An input that may be left out.
    pub fn optional(&self, i: usize) -> Option<&'a Value> {
        self.inputs.get(i).copied().flatten()
    }

    /// All inputs of a node that takes any number of them.
    pub fn inputs(&self) -> Result<Vec<&'a Value>, Stop> {
        (0..self.inputs.len()).map(|i| self.input(i)).collect()
    }

    /// How many outputs there are.
    pub fn n_outputs(&self) -> usize {
        self.proto.output.len()
    }

    /// Whether an output is asked for.
    pub fn wants(&self, output: usize) -> bool {
        self.proto.output.get(output).is_some_and(|name| !name.is_empty())
    }

    fn attribute(&self, name: &str) -> Option<&'a AttributeProto> {
        let attribute = self.proto.attribute.iter().find(|attribute| attribute.name == name)?;
        self.read.borrow_mut().insert(&attribute.name);
        Some(attribute)
    }

    /// An attribute that is an integer.
    pub fn int(&self, name: &str, default: i64) -> i64 {
        self.attribute(name).map_or(default, |attribute| attribute.i)
    }

    /// An attribute that is an integer without a default.
    pub fn optional_int(&self, name: &str) -> Option<i64> {
        self.attribute(name).map(|attribute| attribute.i)
    }

    /// An attribute that is a real number; it and its default are `f32`.
    pub fn float(&self, name: &str, default: f64) -> f64 {
        self.optional_float(name).unwrap_or(f64::from(default as f32))
    }

    /// An attribute that is a real number without a default.
    pub fn optional_float(&self, name: &str) -> Option<f64> {
        self.attribute(name).map(|attribute| f64::from(attribute.f))
    }

    /// An attribute that is a word.
    pub fn word(&self, name: &str, default: &'a str) -> Result<&'a str, Stop> {
        self.attribute(name).map_or(Ok(default), |attribute| std::str::from_utf8(&attribute.s).map_err(Stop::failed))
    }

    /// An attribute that is a list of real numbers.
    pub fn floats(&self, name: &str) -> Option<Vec<f64>> {
        self.attribute(name).map(|attribute| attribute.floats.iter().copied().map(f64::from).collect())
    }

    /// An attribute that is a list of integers.
    pub fn ints(&self, name: &str) -> Option<&'a [i64]> {
        self.attribute(name).map(|attribute| &attribute.ints[..])
    }

    /// An attribute that is a tensor.
    pub fn tensor(&self, name: &str) -> Option<Result<Value, Stop>> {
        self.attribute(name)?.t.as_ref().map(Value::from_proto)
    }

    /// An attribute or, in later versions, an input that names axes; each at least 0. None where all are meant.
    pub fn axes(&self, input: usize, rank: usize) -> Result<Option<Vec<usize>>, Stop> {
        let axes = match (self.ints("axes"), self.optional(input)) {
            (Some(axes), _) => axes.to_vec(),
            (None, Some(value)) => value.ints()?,
            (None, None) => return Ok(None),
        };
        axes.iter().map(|&axis| axis_of(axis, rank)).collect::<Result<_, _>>().map(Some)
    }

    /// What is an attribute before version `since` and an input from there on: a list of integers.
    pub fn ints_or_input(&self, since: i64, name: &str, input: usize) -> Result<Vec<i64>, Stop> {
        if self.opset >= since {
            return self.input(input)?.ints();
        }
        let missing = || Stop::refused(format!("version {} has the attribute {name}, given none", self.opset));
        self.ints(name).map(<[i64]>::to_vec).ok_or_else(missing)
    }

    /// The attribute `axis`, at least 0.
    pub fn axis(&self, default: i64, rank: usize) -> Result<usize, Stop> {
        axis_of(self.int("axis", default), rank)
    }

    /// Fails when an attribute was never looked at: what it asks for would have been ignored.
    pub fn all_read(&self) -> Result<(), Stop> {
        let read = self.read.borrow();
        // Which inputs may be overwritten, before version 6: a hint that changes no result.
        let is_hint = |name: &str| name == "consumed_inputs" && self.opset < 6;
        let ignored = |attribute: &&AttributeProto| !read.contains(&attribute.name[..]) && !is_hint(&attribute.name);
        match self.proto.attribute.iter().find(ignored) {
            None => Ok(()),
            Some(attribute) => Err(Stop::failed(format!("the attribute {} was not looked at", attribute.name))),
        }
    }
}

/// An axis that may be counted from the end.
pub fn axis_of(axis: i64, rank: usize) -> Result<usize, Stop> {
    let counted = if axis < 0 { axis + rank as i64 } else { axis };
    if (0..rank as i64).contains(&counted) {
        return Ok(counted as usize);
    }
    Err(Stop::failed(format!("expected an axis of {rank} dimensions, given {axis}")))
}
