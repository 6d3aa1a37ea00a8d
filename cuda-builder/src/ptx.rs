//! From the rewritten module to PTX files with launch bounds.

use crate::compile::run;
use crate::parts::Parts;
use crate::rewrite::{Kernel, Module};
use crate::toolchain::Compiler;
use crate::{Arch, Error};
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

/// What one PTX file is made of.
#[derive(Debug)]
pub struct Job {
    /// The family.
    pub family: String,
    /// The architecture.
    pub arch: Arch,
    /// Its kernels.
    pub kernels: Vec<Kernel>,
    /// The module of these kernels and what they call.
    pub input: String,
}

impl Job {
    /// `conv.sm_80`.
    pub fn stem(&self) -> String {
        format!("{}.{}", self.family, self.arch.name())
    }
}

/// One job for each family and architecture, the longest first.
pub fn jobs(module: &Module, parts: &Parts, archs: &[Arch], only: &[String]) -> Vec<Job> {
    let mut families: BTreeMap<(String, Arch), Vec<Kernel>> = BTreeMap::new();
    let wanted = |kernel: &&Kernel| only.is_empty() || only.iter().any(|family| family == kernel.family());
    for kernel in module.kernels.iter().filter(|kernel| archs.contains(&kernel.arch)).filter(wanted) {
        families.entry((kernel.family().to_owned(), kernel.arch)).or_default().push(kernel.clone());
    }
    let job = |((family, arch), kernels): ((String, Arch), Vec<Kernel>)| {
        let input = parts.excerpt(kernels.iter().map(|kernel| kernel.symbol.as_str()));
        Job { family, arch, kernels, input }
    };
    let mut jobs: Vec<Job> = families.into_iter().map(job).collect();
    jobs.sort_by_key(|job| std::cmp::Reverse(job.input.len()));
    jobs
}

/// Makes a PTX file.
pub fn file(compiler: &Compiler, job: &Job, work_dir: &Path) -> Result<File, Error> {
    let path = |ending: &str| work_dir.join(format!("{}.{ending}", job.stem()));
    let (input, optimized, assembled) = (path("input.ll"), path("ll"), path("raw.ptx"));
    std::fs::write(&input, &job.input).map_err(Error::io(&input))?;
    let keep: Vec<&str> = job.kernels.iter().map(|kernel| kernel.symbol.as_str()).collect();
    let cpu = format!("-mcpu={}", job.arch.name());
    let mut opt = Command::new(&compiler.opt);
    opt.args([&cpu, "-passes=internalize,globaldce,default<O3>"])
        .arg(format!("-internalize-public-api-list={}", keep.join(",")))
        .args(["-S", "-o"])
        .arg(&optimized)
        .arg(&input);
    // Loops over accumulators must unroll: an array indexed by a variable lies in local memory.
    let asked = job.kernels.iter().map(|kernel| kernel.unroll).max().unwrap_or(0);
    let unroll = if job.arch == Arch::Sm90a { asked.max(8000) } else { asked };
    if unroll > 0 {
        opt.arg(format!("-unroll-threshold={unroll}"));
    }
    run(&mut opt)?;
    assemble(compiler, job.arch, &optimized, &assembled)?;
    let text = std::fs::read_to_string(&assembled).map_err(Error::io(&assembled))?;
    let mut ptx = without_comments(&text);
    for kernel in &job.kernels {
        ptx = with_bounds(&ptx, kernel)?;
    }
    Ok(File { family: job.family.clone(), arch: job.arch, kernels: job.kernels.clone(), ptx })
}

fn assemble(compiler: &Compiler, arch: Arch, input: &Path, output: &Path) -> Result<(), Error> {
    let (cpu, feature) = (format!("-mcpu={}", arch.name()), format!("-mattr={}", arch.ptx_feature()));
    run(Command::new(&compiler.llc).args([&cpu, &feature, "-O3", "-fp-contract=fast", "-o"]).arg(output).arg(input))?;
    Ok(())
}

/// The definitions of these globals, line by line. They are no part of the jobs: a layout that changes would have every
/// file made anew.
pub fn globals(compiler: &Compiler, parts: &Parts, names: &[String], work_dir: &Path) -> Result<Vec<String>, Error> {
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let (input, output) = (work_dir.join("globals.ll"), work_dir.join("globals.ptx"));
    let text = parts.excerpt(names.iter().map(String::as_str));
    std::fs::write(&input, text).map_err(Error::io(&input))?;
    assemble(compiler, Arch::Sm80, &input, &output)?;
    let text = std::fs::read_to_string(&output).map_err(Error::io(&output))?;
    Ok(without_comments(&text).lines().filter(|line| line.contains(".visible .global")).map(str::to_owned).collect())
}

impl File {
    /// Puts definitions of globals before the first kernel, those it has not.
    pub fn add_globals(&mut self, globals: &[String]) {
        let lines: String =
            globals.iter().filter(|line| !self.ptx.contains(*line)).map(|line| line.clone() + "\n").collect();
        let at = self.ptx.find(".visible .entry ").unwrap_or(self.ptx.len());
        self.ptx.insert_str(at, &lines);
    }
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
