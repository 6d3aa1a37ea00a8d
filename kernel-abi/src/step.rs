//! What the problems of optimizers have in common: lists of tensors, each with a gradient, state and parameters.

use crate::DType;
use crate::desc::{BadDescriptor, TensorDesc};
use crate::problem::{general_dtype, list_name, no_overlap, same_dims, same_dtype};
use crate::text::Fields;

/// An operand beside the parameters.
pub(crate) struct Part<'a> {
    name: &'static str,
    desc: &'a TensorDesc,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Gradient,
    State,
    Master,
}

impl<'a> Part<'a> {
    /// A gradient: of the parameters' type.
    pub(crate) fn gradient(name: &'static str, desc: &'a TensorDesc) -> Self {
        Part { name, desc, kind: Kind::Gradient }
    }

    /// What is kept from step to step: of the parameters' type, or f32 where that has 16 bits.
    pub(crate) fn state(name: &'static str, desc: &'a TensorDesc) -> Self {
        Part { name, desc, kind: Kind::State }
    }

    /// The parameters in f32, beside those of 16 bits.
    pub(crate) fn master(name: &'static str, desc: &'a TensorDesc) -> Self {
        Part { name, desc, kind: Kind::Master }
    }
}

/// Refuses a coefficient that is negative or not finite.
pub(crate) fn check_coefficient(op: &'static str, name: &str, value: f64) -> Result<(), BadDescriptor> {
    if value >= 0.0 && value.is_finite() {
        return Ok(());
    }
    Err(BadDescriptor::new(op, name, format!("expected a finite number of at least 0, given {value}")))
}

/// Refuses another pass than the only one.
pub(crate) fn check_pass(op: &'static str, fields: &Fields<'_>) -> Result<(), BadDescriptor> {
    if fields.pass() == "update" {
        return Ok(());
    }
    Err(BadDescriptor::new(op, "pass", format!("expected update, given {:?}", fields.pass())))
}

/// Takes a 0 or 1.
pub(crate) fn take_flag(
    op: &'static str,
    fields: &mut Fields<'_>,
    key: &'static str,
    default: bool,
) -> Result<bool, BadDescriptor> {
    match fields.take_optional::<u32>(key)? {
        None => Ok(default),
        Some(flag @ (0 | 1)) => Ok(flag == 1),
        Some(flag) => Err(BadDescriptor::new(op, key, format!("expected 0 or 1, given {flag}"))),
    }
}

/// Judges the operands of every tensor: `parts` names the parameters and what belongs to them.
pub(crate) fn check_tensors<'a, T>(
    op: &'static str,
    tensors: &'a [T],
    parts: impl Fn(usize, &'a T) -> Result<(&'static str, TensorDesc, Vec<Part<'a>>), BadDescriptor>,
) -> Result<(), BadDescriptor> {
    let Some(first) = tensors.first() else {
        return Err(BadDescriptor::new(op, "w", "expected at least one tensor, given none"));
    };
    let types = |w: &TensorDesc, parts: &[Part<'_>]| {
        let types: Vec<&str> = parts.iter().map(|part| part.desc.dtype().name()).collect();
        format!("{} with {}", w.dtype(), types.join(", "))
    };
    let (_, first_w, first_parts) = parts(0, first)?;
    let expected = types(&first_w, &first_parts);
    for (i, tensor) in tensors.iter().enumerate() {
        let (w_name, w, parts) = parts(i, tensor)?;
        general_dtype(op, w_name, &w)?;
        no_overlap(op, w_name, &w)?;
        let is_narrow = w.dtype().size_bytes() == 2;
        let has_master = parts.iter().any(|part| part.kind == Kind::Master);
        for Part { name, desc, kind } in &parts {
            same_dims(op, name, desc, w_name, &w)?;
            match kind {
                Kind::Gradient => same_dtype(op, name, desc, w_name, &w)?,
                Kind::State => {
                    no_overlap(op, name, desc)?;
                    let single = is_narrow && desc.dtype() == DType::F32;
                    if has_master && desc.dtype() != DType::F32 {
                        let reason = format!("expected f32 beside a master, given {}", desc.dtype());
                        return Err(BadDescriptor::new(op, *name, reason));
                    }
                    if !single {
                        same_dtype(op, name, desc, w_name, &w)?;
                    }
                }
                Kind::Master => {
                    no_overlap(op, name, desc)?;
                    if !is_narrow || desc.dtype() != DType::F32 {
                        let reason = format!(
                            "expected f32 beside a {w_name} of 16 bits, given {} beside {}",
                            desc.dtype(),
                            w.dtype()
                        );
                        return Err(BadDescriptor::new(op, *name, reason));
                    }
                }
            }
        }
        let mut states = parts.iter().filter(|part| part.kind == Kind::State);
        if let Some(first) = states.next() {
            states.try_for_each(|state| same_dtype(op, state.name, state.desc, first.name, first.desc))?;
        }
        let given = types(&w, &parts);
        if given != expected {
            let reason = format!("expected the types of the first tensor, {expected}, given {given}");
            return Err(BadDescriptor::new(op, w_name, reason));
        }
    }
    Ok(())
}

/// Takes the operands of every tensor, by its `w` or `w0`, `w1`, …; `take` gets the name of an operand's key.
pub(crate) fn take_tensors<T>(
    fields: &mut Fields<'_>,
    mut take: impl FnMut(&mut Fields<'_>, TensorDesc, &dyn Fn(&'static str) -> &'static str) -> Result<T, BadDescriptor>,
) -> Result<Vec<T>, BadDescriptor> {
    if let Some(w) = fields.take_optional("w")? {
        return Ok(vec![take(fields, w, &|name| name)?]);
    }
    let mut tensors = Vec::new();
    // More than one, as far as names are concerned.
    let name = |name, i| list_name(name, i, usize::MAX);
    while let Some(w) = fields.take_optional(name("w", tensors.len()))? {
        let i = tensors.len();
        tensors.push(take(fields, w, &|key| name(key, i))?);
    }
    Ok(tensors)
}
