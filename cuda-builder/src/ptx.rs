//! From the rewritten module to PTX files with launch bounds.

use crate::compile::run;
use crate::rewrite::{Kernel, Module};
use crate::toolchain::Compiler;
use crate::{Arch, Error};
use rayon::prelude::*;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// One PTX file: the kernels of one family for one architecture.
#[derive(Debug)]
pub struct File {
    /// The family.
    pub family: String,
    /// The architecture.
    pub arch: Arch,
    /// Its kernels.
    pub kernels: Vec<Kernel>,
    /// The text.
    pub ptx: String,
}

impl File {
    /// `conv.sm_80.ptx`.
    pub fn name(&self) -> String {
        format!("{}.{}.ptx", self.family, self.arch.name())
    }
}

/// Makes every PTX file.
pub fn files(
    compiler: &Compiler,
    module: &Module,
    archs: &[Arch],
    globals: &[String],
    only: &[String],
    work_dir: &Path,
) -> Result<Vec<File>, Error> {
    let input = work_dir.join("module.ll");
    std::fs::write(&input, &module.text).map_err(Error::io(&input))?;
    let mut families: BTreeMap<(String, Arch), Vec<Kernel>> = BTreeMap::new();
    let wanted = |kernel: &&Kernel| only.is_empty() || only.iter().any(|family| family == kernel.family());
    for kernel in module.kernels.iter().filter(|kernel| archs.contains(&kernel.arch)).filter(wanted) {
        families.entry((kernel.family().to_owned(), kernel.arch)).or_default().push(kernel.clone());
    }
    // As many at a time as there are processors: each program reads the whole module, a quarter of a gigabyte of memory.
    families
        .into_par_iter()
        .map(|((family, arch), kernels)| file(compiler, &input, family, arch, kernels, globals, work_dir))
        .collect()
}

fn file(
    compiler: &Compiler,
    input: &Path,
    family: String,
    arch: Arch,
    kernels: Vec<Kernel>,
    globals: &[String],
    work_dir: &Path,
) -> Result<File, Error> {
    let stem = format!("{family}.{}", arch.name());
    let (optimized, assembled) = (work_dir.join(format!("{stem}.ll")), work_dir.join(format!("{stem}.raw.ptx")));
    let keep: Vec<&str> =
        kernels.iter().map(|kernel| kernel.symbol.as_str()).chain(globals.iter().map(String::as_str)).collect();
    let cpu = format!("-mcpu={}", arch.name());
    let mut opt = Command::new(&compiler.opt);
    opt.args([&cpu, "-passes=internalize,globaldce,default<O3>"])
        .arg(format!("-internalize-public-api-list={}", keep.join(",")))
        .args(["-S", "-o"])
        .arg(&optimized)
        .arg(input);
    // Loops over accumulators must unroll: an array indexed by a variable lies in local memory.
    let asked = kernels.iter().map(|kernel| kernel.unroll).max().unwrap_or(0);
    let unroll = if arch == Arch::Sm90a { asked.max(8000) } else { asked };
    if unroll > 0 {
        opt.arg(format!("-unroll-threshold={unroll}"));
    }
    run(&mut opt)?;
    run(Command::new(&compiler.llc)
        .args([&cpu, &format!("-mattr={}", arch.ptx_feature()), "-O3", "-fp-contract=fast", "-o"])
        .arg(&assembled)
        .arg(&optimized))?;
    let text = std::fs::read_to_string(&assembled).map_err(Error::io(&assembled))?;
    let mut ptx = without_comments(&text);
    for kernel in &kernels {
        ptx = with_bounds(&ptx, kernel)?;
    }
    Ok(File { family, arch, kernels, ptx })
}

/// The text without comments, which are a quarter of it: `llc` frames each piece of assembly with two.
fn without_comments(ptx: &str) -> String {
    let lines = ptx.lines().map(|line| line.split("//").next().unwrap_or(line).trim_end());
    lines.filter(|line| !line.is_empty()).fold(String::with_capacity(ptx.len()), |text, line| text + line + "\n")
}

/// Inserts launch bounds between a kernel's parameters and its body, and aligns a parameter that holds tensor maps.
fn with_bounds(ptx: &str, kernel: &Kernel) -> Result<String, Error> {
    let head = format!(".entry {}(", kernel.symbol);
    let missing = || Error::Module(format!("the PTX has no entry {}", kernel.symbol));
    let start = ptx.find(&head).ok_or_else(missing)?;
    let body = start + ptx[start..].find('{').ok_or_else(missing)?;
    let mut params = ptx[start..body].to_owned();
    if kernel.tensor_maps > 0 {
        // The hardware wants tensor maps at multiples of 64; rustc cannot pass such a struct by value.
        params = params.replace(".param .align 8 .b8", ".param .align 64 .b8");
    }
    let mut bounds = String::new();
    if kernel.threads > 0 {
        bounds.push_str(&format!(".maxntid {}, 1, 1\n", kernel.threads));
    }
    if kernel.min_blocks > 0 {
        bounds.push_str(&format!(".minnctapersm {}\n", kernel.min_blocks));
    }
    if kernel.cluster > 0 {
        bounds.push_str(&format!(".reqnctapercluster {}, 1, 1\n", kernel.cluster));
    }
    Ok(format!("{}{}\n{bounds}{}", &ptx[..start], params.trim_end(), &ptx[body..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_go_and_code_stays() {
        let ptx = "//\n// Generated\n\n.version 8.0\n\t// begin inline asm\n\tbar.sync 0; // all\n\t// end inline asm\n$L: // x\n";
        assert_eq!(without_comments(ptx), ".version 8.0\n\tbar.sync 0;\n$L:\n");
    }

    #[test]
    fn bounds_stand_before_the_body() {
        let kernel = Kernel {
            symbol: "k".to_owned(),
            threads: 384,
            min_blocks: 1,
            cluster: 2,
            arch: Arch::Sm90a,
            allow_local: false,
            tensor_maps: 1,
            unroll: 0,
        };
        let ptx =
            ".visible .entry kk(\n)\n{\n}\n.visible .entry k(\n\t.param .align 8 .b8 k_param_0[256]\n)\n{\n\tret;\n}\n";
        let patched = with_bounds(ptx, &kernel).unwrap();
        assert!(patched.starts_with(".visible .entry kk(\n)\n{\n}\n"), "{patched}");
        assert!(patched.ends_with("(\n\t.param .align 64 .b8 k_param_0[256]\n)\n.maxntid 384, 1, 1\n.minnctapersm 1\n.reqnctapercluster 2, 1, 1\n{\n\tret;\n}\n"), "{patched}");
    }
}
