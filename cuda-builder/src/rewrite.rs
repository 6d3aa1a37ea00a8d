//! Rewrites the text of a module where rustc has no words for what a GPU needs.
//!
//! - Inline assembly with side effects becomes `convergent`: LLVM may then not duplicate or sink a barrier.
//! - Statics in the section `.shared` move to address space 3.
//! - `#[kernel]`'s statics are read and removed.
//! - The attributes that tie functions to the one architecture of the compilation are removed.

use crate::{Arch, Error};
use std::collections::HashSet;

/// What `#[kernel(...)]` said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// Its name in the PTX.
    pub symbol: String,
    /// Block size, 0 when not said.
    pub threads: u32,
    /// Blocks a multiprocessor, 0 when not said.
    pub min_blocks: u32,
    /// Blocks of a cluster, 0 when not said.
    pub cluster: u32,
    /// The architecture.
    pub arch: Arch,
    /// Whether it may use local memory.
    pub allow_local: bool,
    /// Tensor maps at the start of its parameter struct.
    pub tensor_maps: u32,
    /// The cost up to which loops of constant length unroll; 0 for the compiler's choice.
    pub unroll: u32,
}

impl Kernel {
    /// The family: the symbol's first word.
    pub fn family(&self) -> &str {
        self.symbol.split('_').next().unwrap_or_default()
    }
}

/// A module ready for `opt`.
#[derive(Debug)]
pub struct Module {
    /// Its text.
    pub text: String,
    /// Its kernels, by symbol.
    pub kernels: Vec<Kernel>,
}

/// The prefix of the statics that `#[kernel]` leaves.
const MARKER: &str = "@__cuda_kernel_";

/// Rewrites a module.
pub fn module(text: &str) -> Result<Module, Error> {
    let mut kernels = Vec::new();
    let shared: HashSet<&str> = text.lines().filter_map(shared_name).collect();
    let mut out = String::with_capacity(text.len());
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line.starts_with("define ptx_kernel ") && line.contains(" x i64] %") {
            let body = lines.by_ref().take_while(|line| *line != "}").collect::<Vec<_>>();
            for line in params_in_place(line, &body) {
                push_line(&mut out, &line, &shared);
                out.push('\n');
            }
        } else if let Some(rest) = line.strip_prefix(MARKER) {
            kernels.push(kernel(rest)?);
        } else if line.starts_with("@llvm.used =") || line.starts_with("@llvm.compiler.used =") {
            // They hold the markers; what must stay is named to `opt`.
        } else {
            push_line(&mut out, line, &shared);
            out.push('\n');
        }
    }
    kernels.sort_by(|a, b| a.symbol.cmp(&b.symbol));
    if kernels.is_empty() {
        return Err(Error::Module("no kernel; is there a function with #[kernel]?".to_owned()));
    }
    Ok(Module { text: out, kernels })
}

fn push_line(out: &mut String, line: &str, shared: &HashSet<&str>) {
    if line.starts_with("attributes #") {
        out.push_str(&without_target(line));
    } else if shared_name(line).is_some() {
        out.push_str(&shared_definition(line));
    } else if !shared.is_empty() && line.contains('@') && line.starts_with(' ') {
        out.push_str(&convergent(&shared_uses(line, shared)));
    } else {
        out.push_str(&convergent(line));
    }
}

/// Makes a kernel use its parameter struct where it lies.
///
/// rustc passes the struct as an array of words, which the kernel stores into a copy on its stack; indexed by a
/// variable, that copy ends up in local memory. As `byval` the struct stays in parameter space, where indexed reads
/// are as good as any. Kernels must not write to their parameters.
fn params_in_place(head: &str, body: &[&str]) -> Vec<String> {
    let parse = || {
        let (before, rest) = head.split_once('(')?;
        let (array, rest) = rest.split_once("] %")?;
        let (number, after) = rest.split_once(')')?;
        let value = format!("%{number}");
        let stored = body.iter().find_map(|line| line.strip_prefix(&format!("  store {array}] {value}, ptr ")))?;
        let first = stored.split(',').next()?.to_owned();
        let copied = format!(", ptr align 8 {first}, ");
        let copy = body.iter().find(|line| line.contains("@llvm.memcpy") && line.contains(&copied));
        let params = match copy {
            Some(line) => line.split_once("(ptr align 8 ")?.1.split(',').next()?.to_owned(),
            None => first.clone(),
        };
        let head = format!("{before}(ptr noalias readonly align 8 byval({array}]) {params}){after}");
        let gone = |line: &str| {
            let of = |name: &str| {
                line.starts_with(&format!("  {name} = alloca "))
                    || line.contains(&format!("@llvm.lifetime.start.p0(ptr {name})"))
                    || line.contains(&format!("@llvm.lifetime.end.p0(ptr {name})"))
            };
            of(&first)
                || of(&params)
                || line.contains(&copied)
                || line.starts_with(&format!("  store {array}] {value}, "))
        };
        let body = body.iter().filter(|line| !gone(line)).map(|line| (*line).to_owned());
        Some(std::iter::once(head).chain(body).collect())
    };
    let unchanged = || std::iter::once(head).chain(body.iter().copied()).map(str::to_owned).collect();
    let mut lines: Vec<String> = parse().unwrap_or_else(unchanged);
    lines.push("}".to_owned());
    lines
}

/// Reads a marker's line behind its prefix: `name = constant [32 x i8] c"...", align 4`.
fn kernel(rest: &str) -> Result<Kernel, Error> {
    let bad = || Error::Module(format!("a #[kernel] static that cannot be read: {rest}"));
    let (symbol, rest) = rest.split_once(" = ").ok_or_else(bad)?;
    let words = if rest.contains("zeroinitializer") { vec![0; 8] } else { words(rest).ok_or_else(bad)? };
    let [1, threads, min_blocks, cluster, arch, allow_local, tensor_maps, unroll] = words[..] else {
        return Err(bad());
    };
    let arch = match arch {
        80 => Arch::Sm80,
        90 => Arch::Sm90a,
        _ => return Err(bad()),
    };
    Ok(Kernel {
        symbol: symbol.to_owned(),
        threads,
        min_blocks,
        cluster,
        arch,
        allow_local: allow_local != 0,
        tensor_maps,
        unroll,
    })
}

/// The little-endian words of `c"\01\00…"`.
fn words(text: &str) -> Option<Vec<u32>> {
    let literal = text.split_once("c\"")?.1;
    let literal = &literal[..literal.rfind('"')?];
    let mut bytes = Vec::new();
    let mut rest = literal.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'\\' {
            let digits = [rest.next()?, rest.next()?];
            bytes.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
        } else {
            bytes.push(byte);
        }
    }
    Some(bytes.chunks_exact(4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]])).collect())
}

/// The name of a global in the section `.shared`, `@` included.
fn shared_name(line: &str) -> Option<&str> {
    if !line.starts_with('@') || !line.contains("section \".shared\"") {
        return None;
    }
    line.split_once(" = ").map(|(name, _)| name)
}

/// `@X = internal addrspace(3) global <type> undef, align N`: shared memory has no initial value.
fn shared_definition(line: &str) -> String {
    let (name, rest) = line.split_once(" = ").unwrap_or((line, ""));
    let kind = rest.split_once("global ").map_or(rest, |(_, kind)| kind);
    let ty = kind.split_once(" undef").or_else(|| kind.split_once(" zeroinitializer")).map_or(kind, |(ty, _)| ty);
    let ty = ty.strip_suffix(" poison").unwrap_or(ty);
    let align = line.rsplit_once("align ").map_or("16", |(_, align)| align.trim());
    let ty = ty.split_once(", section").map_or(ty, |(ty, _)| ty);
    format!("{name} = internal addrspace(3) global {ty} undef, align {align}")
}

/// Casts every use of a shared global to the generic address space, which the optimizer then sees through.
fn shared_uses(line: &str, shared: &HashSet<&str>) -> String {
    let mut out = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(start) = rest.find('@') {
        let end = rest[start + 1..]
            .find(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '.' | '$' | '-' | '"')))
            .map_or(rest.len(), |end| start + 1 + end);
        let name = &rest[start..end];
        out.push_str(&rest[..start]);
        if shared.contains(name) {
            out.push_str(&format!("addrspacecast (ptr addrspace(3) {name} to ptr)"));
        } else {
            out.push_str(name);
        }
        rest = &rest[end..];
    }
    out.push_str(rest);
    out
}

/// Adds `convergent` to a call of assembly with side effects, before its attribute groups or metadata.
fn convergent(line: &str) -> String {
    let Some(call) = line.find("call ").filter(|_| line.contains("asm sideeffect")) else {
        return line.to_owned();
    };
    // The argument list ends at the last parenthesis before attributes and metadata; both have none of their own.
    match line.rfind(')') {
        Some(end) if end > call => format!("{} convergent{}", &line[..=end], &line[end + 1..]),
        _ => line.to_owned(),
    }
}

/// Drops `"target-cpu"="…"` and `"target-features"="…"`.
fn without_target(line: &str) -> String {
    let mut out = line.to_owned();
    for key in ["\"target-cpu\"=\"", "\"target-features\"=\""] {
        while let Some(start) = out.find(key) {
            let end = out[start + key.len()..].find('"').map_or(out.len(), |end| start + key.len() + end + 1);
            out.replace_range(start..end, "");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_are_read_and_removed() {
        let text = "@__cuda_kernel_copy_f32 = constant [32 x i8] c\"\\01\\00\\00\\00\\80\\01\\00\\00\\02\\00\\00\\00\\00\\00\\00\\00Z\\00\\00\\00\\01\\00\\00\\00\\03\\00\\00\\00\\00\\00\\00\\00\", align 4\n@llvm.used = appending global [1 x ptr] [ptr @x]\nattributes #0 = { convergent \"target-cpu\"=\"sm_90a\" \"target-features\"=\"+ptx86\" }\n";
        let module = module(text).unwrap();
        let expected = Kernel {
            symbol: "copy_f32".to_owned(),
            threads: 384,
            min_blocks: 2,
            cluster: 0,
            arch: Arch::Sm90a,
            allow_local: true,
            tensor_maps: 3,
            unroll: 0,
        };
        assert_eq!(module.kernels, [expected]);
        assert_eq!(module.text, "attributes #0 = { convergent   }\n");
    }

    #[test]
    fn assembly_with_side_effects_becomes_convergent() {
        let barrier = "  call void asm sideeffect \"bar.sync 0;\", \"~{memory}\"() #21, !srcloc !9";
        assert_eq!(
            convergent(barrier),
            "  call void asm sideeffect \"bar.sync 0;\", \"~{memory}\"() convergent #21, !srcloc !9"
        );
        let register = "  %3 = call i32 asm \"mov.u32 ${0}, %tid.x;\", \"=&r\"() #20";
        assert_eq!(convergent(register), register);
    }

    #[test]
    fn parameters_stay_where_they_are() {
        let head = "define ptx_kernel void @k([2 x i64] %0) unnamed_addr #1 {";
        let body = [
            "start:",
            "  %1 = alloca [16 x i8], align 8",
            "  %params = alloca [16 x i8], align 8",
            "  call void @llvm.lifetime.start.p0(ptr %1)",
            "  store [2 x i64] %0, ptr %1, align 8",
            "  call void @llvm.memcpy.p0.p0.i64(ptr align 8 %params, ptr align 8 %1, i64 16, i1 false)",
            "  call void @llvm.lifetime.end.p0(ptr %1)",
            "  call void @f(ptr %params) #23",
            "  ret void",
        ];
        let expected = [
            "define ptx_kernel void @k(ptr noalias readonly align 8 byval([2 x i64]) %params) unnamed_addr #1 {",
            "start:",
            "  call void @f(ptr %params) #23",
            "  ret void",
            "}",
        ];
        assert_eq!(params_in_place(head, &body), expected);
    }

    #[test]
    fn shared_statics_change_their_address_space() {
        let text = "@X = internal global [256 x i8] undef, section \".shared\", align 16\n  store i8 0, ptr @X, align 1\n  store i8 0, ptr @XY, align 1";
        let shared = HashSet::from(["@X"]);
        let mut lines = text.lines();
        assert_eq!(shared_name(lines.next().unwrap()), Some("@X"));
        assert_eq!(
            shared_definition(text.lines().next().unwrap()),
            "@X = internal addrspace(3) global [256 x i8] undef, align 16"
        );
        assert_eq!(
            shared_uses(lines.next().unwrap(), &shared),
            "  store i8 0, ptr addrspacecast (ptr addrspace(3) @X to ptr), align 1"
        );
        assert_eq!(shared_uses(lines.next().unwrap(), &shared), "  store i8 0, ptr @XY, align 1");
        assert_eq!(
            shared_uses("  call void @f(ptr noundef @X)", &shared),
            "  call void @f(ptr noundef addrspacecast (ptr addrspace(3) @X to ptr))"
        );
    }
}
