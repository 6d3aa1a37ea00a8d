//! Names: registers, variables and labels of nested scopes.

use super::Decoder;
use super::program::{Register, Special};
use crate::ptx::{Result, Space, Type, Variable};
use std::collections::HashMap;

/// Where a variable lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Symbol {
    /// In which space.
    pub space: Space,
    /// Its address there.
    pub address: u64,
}

/// Where the variables of a module lie that are in memory, by name.
pub type Symbols = HashMap<String, Symbol>;

/// Names that are declared between two braces.
#[derive(Default)]
pub(super) struct Scope<'a> {
    /// Types, and counts for names with numbers.
    pub(super) declared: HashMap<&'a str, (Type, Option<u64>)>,
    /// Those that were used.
    pub(super) used: HashMap<&'a str, (Type, Register)>,
    pub(super) predicates: HashMap<&'a str, u32>,
    pub(super) variables: HashMap<&'a str, Symbol>,
    pub(super) labels: HashMap<&'a str, u32>,
    pub(super) tables: HashMap<&'a str, &'a [&'a str]>,
    /// Names outside are another function's.
    pub(super) is_function: bool,
    /// Where the function returns to.
    pub(super) end: Option<u32>,
}

impl Scope<'_> {
    fn type_of(&self, name: &str) -> Option<Type> {
        if let Some(&(ty, None)) = self.declared.get(name) {
            return Some(ty);
        }
        let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
        // A stem may itself end in digits; PTX of compilers has none such.
        let &(ty, count) = self.declared.get(stem)?;
        let number: u64 = name[stem.len()..].parse().ok()?;
        (number < count?).then_some(ty)
    }
}

impl<'a> Decoder<'a> {
    /// The scopes that are seen from here, innermost first.
    fn visible(&self) -> impl Iterator<Item = usize> + use<> {
        let first = self.scopes.iter().rposition(|scope| scope.is_function).unwrap_or(0);
        (first..self.scopes.len()).rev()
    }

    pub(super) fn declare(&mut self, ty: Type, names: &[(&'a str, Option<u64>)]) {
        if let Some(scope) = self.scopes.last_mut() {
            scope.declared.extend(names.iter().map(|&(name, count)| (name, (ty, count))));
        }
    }

    /// A new register for this type.
    pub(super) fn fresh(&mut self, ty: Type) -> Register {
        let wide = ty.bytes() == 8;
        let count = &mut self.n_registers[usize::from(wide)];
        *count += 1;
        let at = *count as u32 - 1;
        if wide { Register::W64(at) } else { Register::W32(at) }
    }

    pub(super) fn fresh_predicate(&mut self) -> u32 {
        self.n_registers[2] += 1;
        self.n_registers[2] as u32 - 1
    }

    /// The register of a name, with the type of its declaration.
    pub(super) fn find_register(&mut self, name: &'a str) -> Option<(Type, Register)> {
        for i in self.visible() {
            if let Some(found) = self.scopes[i].used.get(name) {
                return Some(*found);
            }
            if let Some(ty) = self.scopes[i].type_of(name)
                && ty != Type::Pred
                && ty != Type::B128
            {
                let register = self.fresh(ty);
                self.scopes[i].used.insert(name, (ty, register));
                return Some((ty, register));
            }
        }
        None
    }

    /// The predicate of a name.
    pub(super) fn predicate(&mut self, name: &'a str) -> Result<u32> {
        if name == "%is_explicit_cluster" {
            let predicate = self.fresh_predicate();
            self.special_predicates.push((Special::IsExplicitCluster, predicate));
            return Ok(predicate);
        }
        for i in self.visible() {
            if let Some(&found) = self.scopes[i].predicates.get(name) {
                return Ok(found);
            }
            if self.scopes[i].type_of(name) == Some(Type::Pred) {
                let predicate = self.fresh_predicate();
                self.scopes[i].predicates.insert(name, predicate);
                return Ok(predicate);
            }
        }
        self.fault(format!("there is no predicate {name}"))
    }

    pub(super) fn is_predicate(&self, name: &str) -> bool {
        self.visible().find_map(|i| self.scopes[i].type_of(name)) == Some(Type::Pred)
    }

    pub(super) fn find_label(&self, name: &str) -> Result<u32> {
        let found = self.visible().find_map(|i| self.scopes[i].labels.get(name));
        found.copied().map_or_else(|| self.fault(format!("there is no label {name}")), Ok)
    }

    /// Shared memory that is declared outside of functions gets its place in a kernel that uses it.
    pub(super) fn find_variable(&mut self, name: &'a str) -> Option<Symbol> {
        let found = self.visible().find_map(|i| self.scopes[i].variables.get(name).copied());
        if let Some(symbol) = found {
            return Some(symbol);
        }
        if let Some(symbol) = self.symbols.get(name) {
            self.uses_variables = true;
            return Some(*symbol);
        }
        if let Some(symbol) = self.outer_shared.get(name) {
            return Some(*symbol);
        }
        let module = self.module;
        let variable = module.variables.iter().find(|other| other.name == name && other.space == Space::Shared)?;
        if variable.bytes == 0 {
            self.dynamic_align = self.dynamic_align.max(variable.align);
            return Some(Symbol { space: Space::Shared, address: self.dynamic_base as u64 });
        }
        let address = self.shared_end.next_multiple_of(variable.align.max(1));
        self.shared_end = address + variable.bytes;
        let symbol = Symbol { space: Space::Shared, address: address as u64 };
        self.outer_shared.insert(variable.name, symbol);
        Some(symbol)
    }

    /// Gives a variable of a function its place.
    pub(super) fn place(&mut self, variable: &Variable<'a>) -> Result<()> {
        let (space, size) = match variable.space {
            Space::Shared | Space::SharedCluster => (Space::Shared, &mut self.shared_end),
            // Arguments of calls lie with a thread's own memory.
            Space::Local | Space::Param => (Space::Local, &mut self.local_bytes),
            _ => return self.fault(format!("{}: this space has no variables in functions", variable.name)),
        };
        let address = size.next_multiple_of(variable.align.max(1));
        *size = address + variable.bytes;
        if let Some(scope) = self.scopes.last_mut() {
            scope.variables.insert(variable.name, Symbol { space, address: address as u64 });
        }
        Ok(())
    }

    /// The register of a name that the hardware defines.
    pub(super) fn special(&mut self, name: &str) -> Option<Register> {
        let axis = |axis: &str| Some(["x", "y", "z"].iter().position(|&other| other == axis)).flatten();
        let special = match name.split_once('.') {
            Some((name, end)) => {
                let axis = match axis(end) {
                    Some(axis) => axis,
                    None if end == "w" => return Some(self.special_register(Special::Zero)),
                    None => return None,
                };
                match name {
                    "%tid" => Special::Tid(axis),
                    "%ntid" => Special::Ntid(axis),
                    "%ctaid" => Special::Ctaid(axis),
                    "%nctaid" => Special::Nctaid(axis),
                    "%clusterid" => Special::Clusterid(axis),
                    "%nclusterid" => Special::Nclusterid(axis),
                    "%cluster_ctaid" => Special::ClusterCtaid(axis),
                    "%cluster_nctaid" => Special::ClusterNctaid(axis),
                    _ => return None,
                }
            }
            None => match name {
                "%laneid" => Special::Laneid,
                "%warpid" => Special::Warpid,
                "%nwarpid" => Special::Nwarpid,
                "%smid" => Special::Smid,
                "%nsmid" => Special::Nsmid,
                "%gridid" => Special::Gridid,
                "%lanemask_eq" => Special::LanemaskEq,
                "%lanemask_le" => Special::LanemaskLe,
                "%lanemask_lt" => Special::LanemaskLt,
                "%lanemask_ge" => Special::LanemaskGe,
                "%lanemask_gt" => Special::LanemaskGt,
                "%cluster_ctarank" => Special::ClusterCtarank,
                "%cluster_nctarank" => Special::ClusterNctarank,
                "%dynamic_smem_size" => Special::DynamicSmemSize,
                "%total_smem_size" => Special::TotalSmemSize,
                _ => return None,
            },
        };
        Some(self.special_register(special))
    }

    fn special_register(&mut self, special: Special) -> Register {
        if let Some(&(_, register)) = self.specials.iter().find(|(other, _)| *other == special) {
            return register;
        }
        let register = self.fresh(if special == Special::Gridid { Type::U64 } else { Type::U32 });
        self.specials.push((special, register));
        register
    }
}
