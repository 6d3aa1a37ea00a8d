//! What every kernel must satisfy before its PTX is used.

use crate::compile::run;
use crate::manifest::KernelReport;
use crate::ptx::File;
use crate::rewrite::Kernel;
use crate::toolchain::Ptxas;
use crate::{Arch, Error};
use std::path::Path;
use std::process::Command;

/// A PTX file that passed, with what is known of its kernels.
#[derive(Debug)]
pub struct Checked {
    /// The file.
    pub file: File,
    /// One report a kernel.
    pub reports: Vec<KernelReport>,
}

/// Remarks of `ptxas` that mean a tensor-core kernel runs slowly: wgmma serialized, setmaxnreg ignored.
const SLOW_REMARKS: [&str; 10] =
    ["C7507", "C7508", "C7509", "C7510", "C7511", "C7514", "C7515", "C7517", "C7518", "C7519"];

/// Checks a file; gives its faults too.
pub fn check(file: File, ptxas: Option<&Ptxas>, work_dir: &Path) -> (Checked, Vec<String>) {
    let mut faults = Vec::new();
    let name = file.name();
    if let Some(line) = file.ptx.lines().find(|line| line.contains(".extern .func")) {
        faults.push(format!("{name}: calls a function that nobody defines: {}", line.trim()));
    }
    for kernel in &file.kernels {
        let body = body(&file.ptx, &kernel.symbol);
        if body.contains("__local_depot") && !kernel.allow_local {
            faults.push(format!("{}: uses local memory; if it must, say so with allow_local", kernel.symbol));
        }
    }
    let mut reports: Vec<KernelReport> = file.kernels.iter().map(|kernel| report(kernel, &file)).collect();
    if let Some(ptxas) = ptxas {
        match assemble(ptxas, &file, work_dir) {
            Ok(log) => read_log(&log, &file, &mut reports, &mut faults),
            Err(e) => faults.push(format!("{name}: {e}")),
        }
    }
    (Checked { file, reports }, faults)
}

/// A fault for each file without one of these globals.
pub fn missing_globals(files: &[Checked], globals: &[String]) -> Vec<String> {
    let has = |file: &File, global: &String| {
        file.ptx.lines().any(|line| line.contains(".visible .global") && line.contains(global.as_str()))
    };
    let missing = |checked: &Checked| {
        let (name, missing) = (checked.file.name(), globals.iter().filter(|global| !has(&checked.file, global)));
        missing.map(|global| format!("{name}: the global {global} is missing")).collect::<Vec<_>>()
    };
    files.iter().flat_map(missing).collect()
}

fn report(kernel: &Kernel, file: &File) -> KernelReport {
    KernelReport {
        symbol: kernel.symbol.clone(),
        arch: file.arch.number(),
        registers: None,
        shared_bytes: None,
        spill_bytes: None,
        ptx_bytes: body(&file.ptx, &kernel.symbol).len(),
    }
}

/// The text of an entry, from its name to the next one.
fn body<'a>(ptx: &'a str, symbol: &str) -> &'a str {
    let Some(start) = ptx.find(&format!(".entry {symbol}(")) else { return "" };
    // Assembly has braces of its own, so the end is where the next entry begins.
    let end = ptx[start + 1..].find(".visible .entry ").map_or(ptx.len(), |end| start + 1 + end);
    &ptx[start..end]
}

fn assemble(ptxas: &Ptxas, file: &File, work_dir: &Path) -> Result<String, Error> {
    let path = work_dir.join(file.name());
    std::fs::write(&path, &file.ptx).map_err(Error::io(&path))?;
    let cubin = work_dir.join(format!("{}.cubin", file.name()));
    let arch = match file.arch {
        Arch::Sm80 => "-arch=sm_80",
        Arch::Sm90a => "-arch=sm_90a",
    };
    run(Command::new(&ptxas.path).args([arch, "-v", "-o"]).arg(cubin).arg(path))
}

/// Reads `ptxas -v`: for each entry a line with its name, one with stack and spills, one with registers.
fn read_log(log: &str, file: &File, reports: &mut [KernelReport], faults: &mut Vec<String>) {
    for line in log.lines() {
        if let Some(code) = SLOW_REMARKS.iter().find(|code| line.contains(*code)) {
            faults.push(format!("{}: {code}: {line}", file.name()));
        }
    }
    let mut current: Option<usize> = None;
    for line in log.lines() {
        if let Some((_, rest)) = line.split_once("Compiling entry function '") {
            let symbol = rest.split('\'').next().unwrap_or_default();
            current = reports.iter().position(|report| report.symbol == symbol);
        }
        let Some(at) = current else { continue };
        let report = &mut reports[at];
        if let Some(stack) = number_before(line, " bytes stack frame") {
            let spills = number_before(line, " bytes spill stores").unwrap_or(0)
                + number_before(line, " bytes spill loads").unwrap_or(0);
            report.spill_bytes = Some(spills);
            let allowed = file.kernels.iter().any(|kernel| kernel.symbol == report.symbol && kernel.allow_local);
            if (spills > 0 || stack > 0) && !allowed {
                faults.push(format!("{}: {stack} bytes of stack, {spills} bytes of spills", report.symbol));
            }
        }
        if let Some(registers) = line.split_once("Used ").and_then(|(_, rest)| rest.split(' ').next()?.parse().ok()) {
            report.registers = Some(registers);
            report.shared_bytes = Some(number_before(line, " bytes smem").unwrap_or(0));
        }
    }
}

/// The number that stands before `words`.
fn number_before(line: &str, words: &str) -> Option<u32> {
    line[..line.find(words)?].rsplit(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_are_read() {
        let kernel = Kernel {
            symbol: "k".to_owned(),
            threads: 0,
            min_blocks: 0,
            cluster: 0,
            arch: Arch::Sm80,
            allow_local: false,
            tensor_maps: 0,
            unroll: 0,
        };
        let file = File { family: "k".to_owned(), arch: Arch::Sm80, kernels: vec![kernel.clone()], ptx: String::new() };
        let log = "ptxas info    : Compiling entry function 'k' for 'sm_80'\nptxas info    : Function properties for k\n    16 bytes stack frame, 8 bytes spill stores, 4 bytes spill loads\nptxas info    : Used 40 registers, used 1 barriers, 1024 bytes smem, 400 bytes cmem[0]\n(C7510) potential performance loss";
        let (mut reports, mut faults) = (vec![report(&kernel, &file)], Vec::new());
        read_log(log, &file, &mut reports, &mut faults);
        assert_eq!(
            (reports[0].registers, reports[0].shared_bytes, reports[0].spill_bytes),
            (Some(40), Some(1024), Some(12))
        );
        assert_eq!(faults.len(), 2, "{faults:?}");
    }
}
