//! The grammar of PTX: a text as functions of statements. Names are not resolved here.

use super::lexer::{Token, tokens};
use super::{Fault, Result, Space, Type};

/// A whole text.
#[derive(Debug, Default)]
pub struct Module<'a> {
    /// Variables outside of functions.
    pub variables: Vec<Variable<'a>>,
    /// Entries and functions that have a body.
    pub functions: Vec<Function<'a>>,
    /// The architecture, such as `sm_90a`.
    pub target: &'a str,
}

/// A variable or parameter.
#[derive(Clone, Debug)]
pub struct Variable<'a> {
    /// Its name.
    pub name: &'a str,
    /// Where it lies.
    pub space: Space,
    /// Its alignment.
    pub align: usize,
    /// Its size; 0 for an array without one.
    pub bytes: usize,
    /// The bytes that it begins with.
    pub initial: Vec<u8>,
}

/// An entry or function.
#[derive(Debug, Default)]
pub struct Function<'a> {
    /// Whether the host launches it.
    pub is_entry: bool,
    /// Its name.
    pub name: &'a str,
    /// Its parameters.
    pub params: Vec<Variable<'a>>,
    /// What it returns.
    pub returns: Vec<Variable<'a>>,
    /// The directives between the parameters and the body, such as `.maxntid`, with their numbers.
    pub limits: Vec<(&'a str, Vec<u64>)>,
    /// What it does.
    pub body: Vec<Statement<'a>>,
}

/// A statement in a function.
#[derive(Debug)]
pub enum Statement<'a> {
    /// A place to jump to.
    Label(&'a str),
    /// A scope of names.
    Block(Vec<Statement<'a>>),
    /// Registers: a type, and names each with a count for `%r<8>`.
    Registers(Type, Vec<(&'a str, Option<u64>)>),
    /// Memory.
    Variable(Variable<'a>),
    /// A table of labels.
    Targets(&'a str, Vec<&'a str>),
    /// An instruction.
    Instruction(Instruction<'a>),
}

/// An instruction.
#[derive(Debug)]
pub struct Instruction<'a> {
    /// Its line.
    pub line: u32,
    /// The predicate that guards it, and whether it is negated.
    pub guard: Option<(&'a str, bool)>,
    /// The opcode as it is written.
    pub opcode: &'a str,
    /// Its operands.
    pub operands: Vec<Operand<'a>>,
}

/// An operand.
#[derive(Clone, Debug, PartialEq)]
pub enum Operand<'a> {
    /// A register, variable or label.
    Name(&'a str),
    /// A negated predicate.
    Not(&'a str),
    /// A variable's address and an offset.
    Sum(&'a str, i64),
    /// A whole number.
    Int(u64),
    /// Bits of a single-precision number.
    F32(u32),
    /// Bits of a double-precision number.
    F64(u64),
    /// `_`: nothing is written.
    Sink,
    /// `a|b`: two results.
    Pair(Box<Operand<'a>>, Box<Operand<'a>>),
    /// `{a, b}`.
    Vector(Vec<Operand<'a>>),
    /// `[a+4]`, or `[a, {x, y}]` with what stands behind the comma.
    Address(Box<Operand<'a>>, i64, Vec<Operand<'a>>),
    /// `(a, b)`.
    List(Vec<Operand<'a>>),
}

/// Reads a text.
///
/// # Errors
/// Names the first line that does not belong to the grammar.
pub fn parse(text: &str) -> Result<Module<'_>> {
    let mut parser = Parser { tokens: tokens(text)?, at: 0 };
    parser.module()
}

struct Parser<'a> {
    tokens: Vec<(Token<'a>, u32)>,
    at: usize,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Option<Token<'a>> {
        self.tokens.get(self.at).map(|token| token.0)
    }

    fn line(&self) -> u32 {
        self.tokens.get(self.at).or(self.tokens.last()).map_or(0, |token| token.1)
    }

    fn next(&mut self) -> Option<Token<'a>> {
        let token = self.peek();
        self.at += 1;
        token
    }

    fn fault<T>(&self, expected: &str) -> Result<T> {
        let found = self.peek().map_or("the end".to_owned(), |token| format!("{token:?}"));
        Err(Fault { line: self.line(), reason: format!("expected {expected}, found {found}") })
    }

    fn takes(&mut self, sign: u8) -> bool {
        let is_there = self.peek() == Some(Token::Sign(sign));
        self.at += usize::from(is_there);
        is_there
    }

    fn expect(&mut self, sign: u8) -> Result<()> {
        if self.takes(sign) { Ok(()) } else { self.fault(&format!("{:?}", sign as char)) }
    }

    fn word(&mut self) -> Result<&'a str> {
        match self.peek() {
            Some(Token::Word(word)) => {
                self.at += 1;
                Ok(word)
            }
            _ => self.fault("a name"),
        }
    }

    fn int(&mut self) -> Result<u64> {
        match self.peek() {
            Some(Token::Int(value)) => {
                self.at += 1;
                Ok(value)
            }
            _ => self.fault("a whole number"),
        }
    }

    fn ints(&mut self) -> Result<Vec<u64>> {
        let mut all = Vec::new();
        while let Some(Token::Int(_)) = self.peek() {
            all.push(self.int()?);
            self.takes(b',');
        }
        Ok(all)
    }

    fn module(&mut self) -> Result<Module<'a>> {
        let mut module = Module::default();
        while let Some(token) = self.peek() {
            let Token::Word(word) = token else { return self.fault("a directive") };
            match word {
                ".version" | ".address_size" => self.at += 2,
                ".target" => {
                    self.at += 1;
                    module.target = self.word()?;
                    while self.takes(b',') {
                        self.word()?;
                    }
                }
                ".visible" | ".extern" | ".weak" => self.at += 1,
                ".file" | ".section" => return self.fault("no debugging information"),
                ".entry" | ".func" => {
                    if let Some(function) = self.function()? {
                        module.functions.push(function);
                    }
                }
                _ => {
                    let space = self.space()?;
                    module.variables.extend(self.variables(space)?);
                }
            }
        }
        Ok(module)
    }

    fn space(&mut self) -> Result<Space> {
        let word = self.word()?;
        match word.strip_prefix('.').and_then(Space::of) {
            Some(space) => Ok(space),
            None => {
                self.at -= 1;
                self.fault("a state space")
            }
        }
    }

    /// What follows the space: `.align 4 .b8 name[8] = {1, 2}, other;`.
    fn variables(&mut self, space: Space) -> Result<Vec<Variable<'a>>> {
        let mut all = vec![self.variable(space)?];
        while self.takes(b',') {
            let mut next = all[0].clone();
            next.name = self.word()?;
            all.push(next);
        }
        self.expect(b';')?;
        Ok(all)
    }

    fn variable(&mut self, space: Space) -> Result<Variable<'a>> {
        let (mut align, mut lanes) = (None, 1);
        let ty = loop {
            match self.word()? {
                ".align" => align = Some(self.int()? as usize),
                ".ptr" => {}
                ".v2" => lanes = 2,
                ".v4" => lanes = 4,
                word => match word.strip_prefix('.').and_then(Type::of) {
                    Some(ty) => break ty,
                    None if word.strip_prefix('.').and_then(Space::of).is_some() => {}
                    None => {
                        self.at -= 1;
                        return self.fault("a type");
                    }
                },
            }
        };
        // A pointer's properties stand behind its type.
        loop {
            match self.peek() {
                Some(Token::Word(".ptr" | ".global" | ".const" | ".local" | ".shared")) => self.at += 1,
                Some(Token::Word(".align")) => self.at += 2,
                _ => break,
            }
        }
        let name = self.word()?;
        let mut bytes = ty.bytes() * lanes;
        let natural = bytes;
        while self.takes(b'[') {
            bytes *= if self.peek() == Some(Token::Sign(b']')) { 0 } else { self.int()? as usize };
            self.expect(b']')?;
        }
        let mut initial = Vec::new();
        if self.takes(b'=') {
            self.initial(ty, &mut initial)?;
        }
        Ok(Variable { name, space, align: align.unwrap_or(natural), bytes, initial })
    }

    fn initial(&mut self, ty: Type, into: &mut Vec<u8>) -> Result<()> {
        if self.takes(b'{') {
            while !self.takes(b'}') {
                self.initial(ty, into)?;
                self.takes(b',');
            }
            return Ok(());
        }
        let negative = self.takes(b'-');
        let bits = match self.next() {
            Some(Token::Int(value)) if negative => value.wrapping_neg(),
            Some(Token::Int(value)) => value,
            Some(Token::F32(bits)) => u64::from(bits),
            Some(Token::F64(bits)) => bits,
            _ => {
                self.at -= 1;
                return self.fault("a number (addresses in initial values are not supported)");
            }
        };
        into.extend_from_slice(&bits.to_le_bytes()[..ty.bytes()]);
        Ok(())
    }

    fn parameters(&mut self) -> Result<Vec<Variable<'a>>> {
        let mut all = Vec::new();
        while !self.takes(b')') {
            match self.word()? {
                ".param" | ".reg" => all.push(self.variable(Space::Param)?),
                _ => {
                    self.at -= 1;
                    return self.fault("a parameter");
                }
            }
            self.takes(b',');
        }
        Ok(all)
    }

    /// None for a declaration.
    fn function(&mut self) -> Result<Option<Function<'a>>> {
        let mut function = Function { is_entry: self.word()? == ".entry", ..Function::default() };
        if self.takes(b'(') {
            function.returns = self.parameters()?;
        }
        function.name = self.word()?;
        if self.takes(b'(') {
            function.params = self.parameters()?;
        }
        loop {
            match self.peek() {
                Some(Token::Sign(b';')) => {
                    self.at += 1;
                    return Ok(None);
                }
                Some(Token::Sign(b'{')) => break,
                Some(Token::Word(".pragma")) => {
                    self.at += 2;
                    self.expect(b';')?;
                }
                Some(Token::Word(word)) => {
                    self.at += 1;
                    let numbers = self.ints()?;
                    function.limits.push((word, numbers));
                }
                _ => return self.fault("a body"),
            }
        }
        self.expect(b'{')?;
        function.body = self.block()?;
        Ok(Some(function))
    }

    /// Statements up to the closing brace.
    fn block(&mut self) -> Result<Vec<Statement<'a>>> {
        let mut all = Vec::new();
        loop {
            let line = self.line();
            let mut guard = None;
            match self.next() {
                Some(Token::Sign(b'}')) => return Ok(all),
                Some(Token::Sign(b'{')) => {
                    all.push(Statement::Block(self.block()?));
                    continue;
                }
                Some(Token::Sign(b';')) => continue,
                Some(Token::Sign(b'@')) => {
                    let negated = self.takes(b'!');
                    guard = Some((self.word()?, negated));
                }
                Some(Token::Word(".pragma")) => {
                    self.at += 1;
                    self.expect(b';')?;
                    continue;
                }
                Some(Token::Word(".loc")) => {
                    while !matches!(self.peek(), Some(Token::Word(_)) | None) {
                        self.at += 1;
                    }
                    continue;
                }
                Some(Token::Word(".reg")) => {
                    all.push(self.registers()?);
                    continue;
                }
                Some(Token::Word(word)) if word.strip_prefix('.').and_then(Space::of).is_some() => {
                    self.at -= 1;
                    let space = self.space()?;
                    all.extend(self.variables(space)?.into_iter().map(Statement::Variable));
                    continue;
                }
                Some(Token::Word(word)) if self.takes(b':') => {
                    all.push(match self.peek() {
                        Some(Token::Word(".branchtargets")) => {
                            self.at += 1;
                            let mut labels = vec![self.word()?];
                            while self.takes(b',') {
                                labels.push(self.word()?);
                            }
                            self.expect(b';')?;
                            Statement::Targets(word, labels)
                        }
                        Some(Token::Word(".callprototype" | ".calltargets")) => {
                            return self.fault("no indirect calls, which are not supported");
                        }
                        _ => Statement::Label(word),
                    });
                    continue;
                }
                Some(Token::Word(_)) => self.at -= 1,
                _ => {
                    self.at -= 1;
                    return self.fault("a statement");
                }
            }
            let opcode = self.word()?;
            let mut operands = Vec::new();
            while !self.takes(b';') {
                operands.push(self.operand()?);
                if self.takes(b'|') {
                    let second = self.operand()?;
                    let first = operands.pop().unwrap_or(Operand::Sink);
                    operands.push(Operand::Pair(Box::new(first), Box::new(second)));
                }
                if !self.takes(b',') && self.peek() != Some(Token::Sign(b';')) {
                    return self.fault("a comma or semicolon");
                }
            }
            all.push(Statement::Instruction(Instruction { line, guard, opcode, operands }));
        }
    }

    fn registers(&mut self) -> Result<Statement<'a>> {
        let word = self.word()?;
        let Some(ty) = word.strip_prefix('.').and_then(Type::of) else {
            self.at -= 1;
            return self.fault("a register's type");
        };
        let mut names = Vec::new();
        loop {
            let name = self.word()?;
            let mut count = None;
            if self.takes(b'<') {
                count = Some(self.int()?);
                self.expect(b'>')?;
            }
            names.push((name, count));
            if !self.takes(b',') {
                break;
            }
        }
        self.expect(b';')?;
        Ok(Statement::Registers(ty, names))
    }

    fn offset(&mut self) -> Result<Option<i64>> {
        let mut sign = match self.peek() {
            Some(Token::Sign(b'+')) => 1,
            Some(Token::Sign(b'-')) => -1,
            _ => return Ok(None),
        };
        self.at += 1;
        if self.takes(b'-') {
            sign = -sign;
        }
        Ok(Some((self.int()? as i64).wrapping_mul(sign)))
    }

    fn list(&mut self, end: u8) -> Result<Vec<Operand<'a>>> {
        let mut all = Vec::new();
        while !self.takes(end) {
            all.push(self.operand()?);
            if !self.takes(b',') && self.peek() != Some(Token::Sign(end)) {
                return self.fault("a comma");
            }
        }
        Ok(all)
    }

    fn operand(&mut self) -> Result<Operand<'a>> {
        Ok(match self.next() {
            Some(Token::Word("_")) => Operand::Sink,
            Some(Token::Word(name)) => match self.offset()? {
                Some(offset) => Operand::Sum(name, offset),
                None => Operand::Name(name),
            },
            Some(Token::Int(value)) => Operand::Int(value),
            Some(Token::F32(bits)) => Operand::F32(bits),
            Some(Token::F64(bits)) => Operand::F64(bits),
            Some(Token::Sign(b'-')) => match self.next() {
                Some(Token::Int(value)) => Operand::Int(value.wrapping_neg()),
                Some(Token::F32(bits)) => Operand::F32(bits ^ 1 << 31),
                Some(Token::F64(bits)) => Operand::F64(bits ^ 1 << 63),
                _ => {
                    self.at -= 1;
                    return self.fault("a number");
                }
            },
            Some(Token::Sign(b'!')) => Operand::Not(self.word()?),
            Some(Token::Sign(b'{')) => Operand::Vector(self.list(b'}')?),
            Some(Token::Sign(b'(')) => Operand::List(self.list(b')')?),
            Some(Token::Sign(b'[')) => {
                let (base, offset) = match self.operand()? {
                    Operand::Sum(name, offset) => (Operand::Name(name), offset),
                    base => (base, self.offset()?.unwrap_or(0)),
                };
                let more = if self.takes(b',') {
                    self.list(b']')?
                } else {
                    self.expect(b']')?;
                    Vec::new()
                };
                Operand::Address(Box::new(base), offset, more)
            }
            _ => {
                self.at -= 1;
                return self.fault("an operand");
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_with_scopes_and_tables() {
        let text = ".version 8.0\n.target sm_90a\n.address_size 64\n.extern .shared .align 1024 .b8 dyn[];\n\
            .visible .global .align 8 .b8 G[2] = {1, 255};\n.func f\n()\n;\n\
            .visible .entry k(\n.param .u64 .ptr .global .align 1 a,\n.param .align 8 .b8 b[16]\n)\n.maxntid 256, 1, 1\n{\n\
            .reg .pred %p<3>;\n{ .reg .b32 t; W: @!%p1 bra W; }\nT: .branchtargets A, B;\n\
            A: setp.eq.b32 %p1|%p2, %r1, -1;\nB: cp.x [%r1+-4, {%r2, 3}], [%r3], dyn+8;\nret;\n}\n";
        let module = parse(text).unwrap();
        assert_eq!((module.variables[0].align, module.variables[0].bytes), (1024, 0));
        assert_eq!(module.variables[1].initial, [1, 255]);
        let entry = &module.functions[0];
        assert!(entry.is_entry && module.functions.len() == 1);
        assert_eq!(
            entry.params.iter().map(|p| (p.name, p.align, p.bytes)).collect::<Vec<_>>(),
            [("a", 8, 8), ("b", 8, 16)]
        );
        assert_eq!(entry.limits, [(".maxntid", vec![256, 1, 1])]);
        let Some(Statement::Instruction(copy)) = entry.body.iter().rev().nth(1) else { panic!() };
        assert_eq!(copy.operands[2], Operand::Sum("dyn", 8));
        assert!(matches!(&copy.operands[0], Operand::Address(_, -4, more) if more.len() == 1));
        assert!(parse(".entry k() { add.u32 %r1 %r2; }").unwrap_err().reason.contains("comma"));
    }
}
