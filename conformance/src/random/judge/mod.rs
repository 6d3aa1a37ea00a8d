//! What the specification says of a node: plain loops over f64 and i128, which know nothing of the mapping.

pub mod elementwise;
pub mod layout;
pub mod norms;
pub mod resample;
pub mod sums;
pub mod training;
pub mod windows;

use super::draw::{Drawn, is_real, largest, limits};
use crate::value::{ElementType, Value};

/// A tensor in wide numbers.
#[derive(Clone, Debug)]
pub struct Wide {
    pub element: ElementType,
    pub dims: Vec<usize>,
    pub elems: Elems,
    /// Whether the elements are those of an input, or numbers rounded once: nothing is lost.
    pub exact: bool,
}

/// Elements: exact, or with the magnitude of the terms that each is a sum of.
#[derive(Clone, Debug)]
pub enum Elems {
    Int(Vec<i128>),
    Real(Vec<(f64, f64)>),
}

impl Wide {
    /// Reads a tensor.
    pub fn of(value: &Value) -> Self {
        let dims = value.dims.iter().map(|&dim| dim as usize).collect();
        let elems = if is_real(value.element) {
            Elems::Real(value.reals().unwrap_or_default().into_iter().map(|real| (real, 0.0)).collect())
        } else {
            Elems::Int(value.ints().unwrap_or_default().into_iter().map(i128::from).collect())
        };
        Wide { element: value.element, dims, elems, exact: true }
    }

    /// A result with a fraction.
    pub fn real(element: ElementType, dims: &[usize], elems: Vec<(f64, f64)>) -> Self {
        Wide { element, dims: dims.to_vec(), elems: Elems::Real(elems), exact: false }
    }

    /// A result of integers, which wrap into their type.
    pub fn int(element: ElementType, dims: &[usize], elems: Vec<i128>) -> Self {
        let (low, high) = limits(element);
        let elems = elems.into_iter().map(|elem| low + (elem - low).rem_euclid(high - low + 1)).collect();
        Wide { element, dims: dims.to_vec(), elems: Elems::Int(elems), exact: true }
    }

    /// Elements with a fraction; those of integers are none.
    pub fn reals(&self) -> Vec<f64> {
        match &self.elems {
            Elems::Real(elems) => elems.iter().map(|elem| elem.0).collect(),
            Elems::Int(elems) => elems.iter().map(|&elem| elem as f64).collect(),
        }
    }

    /// Integers.
    pub fn ints(&self) -> Vec<i128> {
        match &self.elems {
            Elems::Real(elems) => elems.iter().map(|elem| elem.0 as i128).collect(),
            Elems::Int(elems) => elems.clone(),
        }
    }

    /// The same tensor with elements of other places, or a constant where there is none.
    pub fn picked(&self, dims: &[usize], places: &[Option<usize>], constant: f64) -> Self {
        let elems = match &self.elems {
            Elems::Real(elems) => Elems::Real(places.iter().map(|p| p.map_or((constant, 0.0), |p| elems[p])).collect()),
            Elems::Int(elems) => Elems::Int(places.iter().map(|p| p.map_or(constant as i128, |p| elems[p])).collect()),
        };
        Wide { element: self.element, dims: dims.to_vec(), elems, exact: self.exact }
    }
}

/// All indices of a tensor, row-major.
pub fn indices(dims: &[usize]) -> Vec<Vec<usize>> {
    let mut all = vec![vec![]];
    for &dim in dims {
        all = all.iter().flat_map(|head| (0..dim).map(move |i| [&head[..], &[i]].concat())).collect();
    }
    all
}

/// The place of an index, where tensors of fewer dimensions or of extent 1 repeat.
pub fn place(dims: &[usize], index: &[usize]) -> usize {
    let behind = index.len() - dims.len();
    dims.iter().zip(&index[behind..]).fold(0, |at, (&dim, &i)| at * dim + if dim == 1 { 0 } else { i })
}

/// An axis that may be counted from the end.
pub fn counted(axis: i64, rank: usize) -> usize {
    (if axis < 0 { axis + rank as i64 } else { axis }) as usize
}

/// An attribute that is an integer.
pub fn int(drawn: &Drawn, name: &str, default: i64) -> i64 {
    drawn.get(name).map_or(default, |attribute| attribute.i)
}

/// An attribute that is a number; it and its default are `f32`.
pub fn float(drawn: &Drawn, name: &str, default: f64) -> f64 {
    drawn.get(name).map_or(f64::from(default as f32), |attribute| f64::from(attribute.f))
}

/// An attribute that is a word.
pub fn word(drawn: &Drawn, name: &str, default: &str) -> String {
    drawn.get(name).map_or(default.to_owned(), |attribute| String::from_utf8_lossy(&attribute.s).into_owned())
}

/// A list, wherever it stands.
pub fn list(drawn: &Drawn, name: &str, input: usize) -> Option<Vec<i64>> {
    let given = drawn.get(name).map(|attribute| attribute.ints.clone());
    given.or_else(|| drawn.inputs.get(input)?.as_ref()?.ints().ok())
}

/// How much a result may be off, relative to itself and to the magnitude of its terms.
fn tolerance(element: ElementType) -> f64 {
    match element {
        ElementType::Double => 1e-12,
        ElementType::Float => 4e-6,
        ElementType::Float16 => 2.0 / 1024.0,
        _ => 2.0 / 128.0,
    }
}

/// The smallest magnitude that a type tells from 0, below which results may vanish.
fn smallest(element: ElementType) -> f64 {
    match element {
        ElementType::Double => 1e-300,
        ElementType::Float16 => 1e-7,
        _ => 1e-37,
    }
}

/// What is wrong with a result, if something is.
pub fn difference(expected: &Wide, got: &Value) -> Option<String> {
    if got.element != expected.element {
        return Some(format!("expected elements of {:?}, given {:?}", expected.element, got.element));
    }
    let dims: Vec<usize> = got.dims.iter().map(|&dim| dim as usize).collect();
    if dims != expected.dims {
        return Some(format!("expected the extents {:?}, given {dims:?}", expected.dims));
    }
    match (&expected.elems, Wide::of(got).elems) {
        (Elems::Int(want), Elems::Int(got)) => {
            let at = want.iter().zip(&got).position(|(want, got)| want != got)?;
            Some(format!("element {at}: expected {}, given {}", want[at], got[at]))
        }
        (Elems::Real(want), Elems::Real(got)) => {
            let (relative, max) = (tolerance(expected.element), largest(expected.element));
            let good = |&(&(want, magnitude), &(got, _)): &(&(f64, f64), &(f64, f64))| {
                let allowed = relative * (want.abs() + magnitude) + smallest(expected.element);
                let overflows = want.abs() >= max * (1.0 - relative) && got.is_infinite() && want * got > 0.0;
                let near = !expected.exact && (overflows || (want - got).abs() <= allowed);
                want == got || (want.is_nan() && got.is_nan()) || near
            };
            let at = want.iter().zip(&got).position(|pair| !good(&pair))?;
            Some(format!("element {at}: expected {}, given {}", want[at].0, got[at].0))
        }
        _ => Some("expected another kind of elements".to_owned()),
    }
}
