//! From statements to code: names become registers, addresses and jumps, opcodes become operations.

mod asynchronous;
mod barriers;
mod convert;
mod floats;
mod integers;
mod logic;
mod matrices;
mod memory;
mod operands;
mod order;
pub mod program;
mod scope;
mod warps;

pub(crate) use logic::holding;
pub use scope::{Symbol, Symbols};

use crate::exec::registers::{At, Compute, Constants};
use crate::ptx::{Fault, Function, Instruction, Module, Operand, Result, Statement};
use program::{Guard, Inst, Kernel, Op, Param, Special};
use scope::Scope;
use std::collections::HashMap;
use std::sync::Arc;

/// Translates the code of one kernel.
pub(crate) struct Decoder<'a> {
    module: &'a Module<'a>,
    symbols: &'a Symbols,
    scopes: Vec<Scope<'a>>,
    code: Vec<Inst>,
    /// Where each label stands in the code.
    labels: Vec<Option<u32>>,
    n_registers: [usize; 3],
    constants: Constants,
    constant_places: [HashMap<u64, u32>; 2],
    specials: Vec<(Special, program::Register)>,
    special_predicates: Vec<(Special, u32)>,
    /// Where the next variable in shared memory goes, and in a thread's own.
    shared_end: usize,
    local_bytes: usize,
    /// Shared memory that was declared outside of functions and is used.
    outer_shared: HashMap<&'a str, Symbol>,
    /// Where shared memory of a size unknown until the launch begins.
    dynamic_base: usize,
    /// Its alignment; 0 when it is not used.
    dynamic_align: usize,
    /// Of the instruction at hand.
    line: u32,
    guard: Option<Guard>,
    /// What has to follow the instruction at hand.
    after: Vec<(Compute, At)>,
    depth: usize,
    /// The predicate that stands for the condition code, once it is used.
    carry: Option<u32>,
    /// Whether addresses of variables in device memory are in the code.
    uses_variables: bool,
}

/// The words of an opcode behind its first.
pub(crate) struct Modifiers<'a> {
    words: Vec<&'a str>,
}

impl<'a> Modifiers<'a> {
    /// Takes a word away; whether it was there.
    pub(crate) fn take(&mut self, word: &str) -> bool {
        match self.words.iter().position(|&other| other == word) {
            Some(at) => {
                self.words.remove(at);
                true
            }
            None => false,
        }
    }

    /// Takes away the first word that `f` knows.
    pub(crate) fn find<T>(&mut self, f: impl Fn(&str) -> Option<T>) -> Option<T> {
        let at = self.words.iter().position(|&word| f(word).is_some())?;
        f(self.words.remove(at))
    }

    /// Takes away every word that `f` accepts.
    pub(crate) fn drop(&mut self, f: impl Fn(&str) -> bool) {
        self.words.retain(|&word| !f(word));
    }
}

/// How deep functions may call one another.
const MOST_DEPTH: usize = 16;

/// Translates a kernel.
///
/// # Errors
/// Names the first instruction that is not known, or operand that does not fit.
pub fn kernel(module: &Module<'_>, symbols: &Symbols, entry: &Function<'_>) -> Result<Kernel> {
    let (kernel, base) = translate(module, symbols, entry, SHARED_START)?;
    // Only now is known how much comes before the dynamic shared memory.
    if base == SHARED_START { Ok(kernel) } else { Ok(translate(module, symbols, entry, base)?.0) }
}

/// Where shared memory begins: the first KiB is the system's on the hardware too.
pub const SHARED_START: usize = 1024;

fn translate<'a>(
    module: &'a Module<'a>,
    symbols: &'a Symbols,
    entry: &'a Function<'a>,
    dynamic_base: usize,
) -> Result<(Kernel, usize)> {
    let mut decoder = Decoder {
        module,
        symbols,
        scopes: Vec::new(),
        code: Vec::new(),
        labels: Vec::new(),
        n_registers: [0; 3],
        constants: Constants::default(),
        constant_places: Default::default(),
        specials: Vec::new(),
        special_predicates: Vec::new(),
        shared_end: SHARED_START,
        local_bytes: 0,
        outer_shared: HashMap::new(),
        dynamic_base,
        dynamic_align: 0,
        line: 0,
        guard: None,
        after: Vec::new(),
        depth: 0,
        carry: None,
        uses_variables: false,
    };
    let (mut params, mut param_bytes) = (Vec::new(), 0usize);
    let mut scope = Scope::default();
    for param in &entry.params {
        let offset = param_bytes.next_multiple_of(param.align.max(1));
        scope.variables.insert(param.name, Symbol { space: crate::ptx::Space::Param, address: offset as u64 });
        params.push(Param { offset, bytes: param.bytes });
        param_bytes = offset + param.bytes;
    }
    scope.is_function = true;
    decoder.function(entry, scope)?;
    let limit = |name: &str| entry.limits.iter().find(|limit| limit.0 == name).map(|limit| limit.1.as_slice());
    let extents = |numbers: &[u64]| std::array::from_fn(|i| numbers.get(i).map_or(1, |&n| n as u32));
    let code = order::arrange(decoder.code, &decoder.labels);
    let dynamic_base = decoder.shared_end.next_multiple_of(decoder.dynamic_align.max(16));
    let kernel = Kernel {
        name: entry.name.to_owned(),
        params,
        param_bytes,
        code,
        n_registers: decoder.n_registers,
        constants: Arc::new(decoder.constants),
        specials: decoder.specials,
        special_predicates: decoder.special_predicates,
        shared_bytes: dynamic_base - SHARED_START,
        local_bytes: decoder.local_bytes.next_multiple_of(16),
        uses_variables: decoder.uses_variables,
        max_threads: limit(".maxntid").map(|numbers| numbers.iter().product()),
        min_blocks: limit(".minnctapersm").and_then(|numbers| numbers.first().copied()),
        required_threads: limit(".reqntid").map(extents),
        required_cluster: limit(".reqnctapercluster").map(extents),
    };
    Ok((kernel, dynamic_base))
}

impl<'a> Decoder<'a> {
    pub(crate) fn fault<T>(&self, reason: impl Into<String>) -> Result<T> {
        Err(Fault { line: self.line, reason: reason.into() })
    }

    /// Translates a body in place; its returns jump behind it.
    fn function(&mut self, function: &'a Function<'a>, mut scope: Scope<'a>) -> Result<()> {
        let end = self.label();
        scope.end = Some(end);
        self.block(&function.body, scope)?;
        self.labels[end as usize] = Some(self.code.len() as u32);
        if self.depth == 0 {
            self.guard = None;
            self.emit(Op::Exit);
        }
        Ok(())
    }

    fn label(&mut self) -> u32 {
        self.labels.push(None);
        self.labels.len() as u32 - 1
    }

    fn block(&mut self, statements: &'a [Statement<'a>], mut scope: Scope<'a>) -> Result<()> {
        for statement in statements {
            match statement {
                Statement::Label(name) => {
                    let label = self.label();
                    scope.labels.insert(name, label);
                }
                Statement::Targets(name, labels) => {
                    scope.tables.insert(name, labels);
                }
                _ => {}
            }
        }
        self.scopes.push(scope);
        for statement in statements {
            match statement {
                Statement::Label(name) => {
                    let label = self.find_label(name)?;
                    self.labels[label as usize] = Some(self.code.len() as u32);
                }
                Statement::Block(inner) => self.block(inner, Scope::default())?,
                Statement::Registers(ty, names) => self.declare(*ty, names),
                Statement::Variable(variable) => self.place(variable)?,
                Statement::Targets(..) => {}
                Statement::Instruction(instruction) => self.instruction(instruction)?,
            }
        }
        self.scopes.pop();
        Ok(())
    }

    fn instruction(&mut self, instruction: &'a Instruction<'a>) -> Result<()> {
        self.line = instruction.line;
        self.guard = None;
        if let Some((name, negated)) = instruction.guard {
            self.guard = Some(Guard { predicate: self.predicate(name)?, negated });
        }
        let mut words = instruction.opcode.split('.');
        let name = words.next().unwrap_or_default();
        let mut modifiers = Modifiers { words: words.collect() };
        let operands = &instruction.operands;
        let known = integers::decode(self, name, &mut modifiers, operands)?
            || floats::decode(self, name, &mut modifiers, operands)?
            || logic::decode(self, name, &mut modifiers, operands)?
            || convert::decode(self, name, &mut modifiers, operands)?
            || memory::decode(self, name, &mut modifiers, operands)?
            || self.control(name, &mut modifiers, operands)?
            || warps::decode(self, name, &mut modifiers, operands)?
            || barriers::decode(self, name, &mut modifiers, operands)?
            || asynchronous::decode(self, name, &mut modifiers, operands)?
            || matrices::decode(self, name, &mut modifiers, operands)?;
        if !known {
            return self.fault(format!("unknown instruction {}", instruction.opcode));
        }
        if let Some(word) = modifiers.words.first() {
            return self.fault(format!("unknown modifier .{word} in {}", instruction.opcode));
        }
        for (compute, at) in std::mem::take(&mut self.after) {
            self.emit(Op::Compute(compute, at));
        }
        Ok(())
    }

    pub(crate) fn emit(&mut self, op: Op) {
        self.code.push(Inst { guard: self.guard, line: self.line, op });
    }

    pub(crate) fn compute(&mut self, compute: Compute, registers: &[u32]) {
        let mut at = [0; 6];
        at[..registers.len()].copy_from_slice(registers);
        self.emit(Op::Compute(compute, at));
    }

    /// Jumps, calls and ends.
    fn control(&mut self, name: &str, modifiers: &mut Modifiers<'_>, operands: &'a [Operand<'a>]) -> Result<bool> {
        modifiers.take("uni");
        match (name, operands) {
            ("bra", [Operand::Name(label)]) => {
                let label = self.find_label(label)?;
                self.emit(Op::Jump(label));
            }
            ("brx", [index, Operand::Name(table)]) => {
                modifiers.take("idx");
                let index = self.register(index)?;
                let Some(names) = self.scopes.iter().rev().find_map(|scope| scope.tables.get(table).copied()) else {
                    return self.fault(format!("there is no table {table}"));
                };
                let labels = names.iter().map(|name| self.find_label(name)).collect::<Result<_>>()?;
                self.emit(Op::Table(index, labels));
            }
            ("ret", []) if self.depth > 0 => {
                let end = self.scopes.iter().rev().find_map(|scope| scope.end);
                self.emit(Op::Jump(end.unwrap_or_default()));
            }
            ("ret" | "exit", []) => self.emit(Op::Exit),
            ("trap", []) => self.emit(Op::Trap),
            ("brkpt", []) => self.emit(Op::Nothing),
            ("call", _) => self.call(operands)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// The called function's body takes the call's place.
    fn call(&mut self, operands: &'a [Operand<'a>]) -> Result<()> {
        let (returns, callee, arguments): (&[Operand<'a>], _, &[Operand<'a>]) = match operands {
            [Operand::List(returns), Operand::Name(callee), Operand::List(arguments)] => (returns, callee, arguments),
            [Operand::Name(callee), Operand::List(arguments)] => (&[], callee, arguments),
            [Operand::Name(callee)] => (&[], callee, &[]),
            _ => return self.fault("only direct calls are supported"),
        };
        let module = self.module;
        let Some(function) = module.functions.iter().find(|function| function.name == *callee && !function.is_entry)
        else {
            return self.fault(format!("there is no function {callee}"));
        };
        if self.depth == MOST_DEPTH {
            return self.fault(format!("functions call one another more than {MOST_DEPTH} deep"));
        }
        let skip = self.guard.take().map(|guard| {
            let behind = self.label();
            self.guard = Some(Guard { negated: !guard.negated, ..guard });
            self.emit(Op::Jump(behind));
            self.guard = None;
            behind
        });
        let mut scope = Scope { is_function: true, ..Scope::default() };
        let formal = function.returns.iter().zip(returns).chain(function.params.iter().zip(arguments));
        for (param, argument) in formal {
            let Operand::Name(name) = argument else { return self.fault("arguments of calls lie in .param variables") };
            let Some(symbol) = self.find_variable(name) else {
                return self.fault(format!("there is no variable {name}"));
            };
            scope.variables.insert(param.name, symbol);
        }
        let line = self.line;
        self.depth += 1;
        self.function(function, scope)?;
        self.depth -= 1;
        (self.line, self.guard) = (line, None);
        if let Some(behind) = skip {
            self.labels[behind as usize] = Some(self.code.len() as u32);
        }
        Ok(())
    }
}
