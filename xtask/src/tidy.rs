//! The rules of ARCHITECTURE.md that a compiler does not know.

use anyhow::{Context as _, Result, bail};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// A file longer than this has more than one subject.
const MAX_LINES: usize = 600;

/// Words that say nothing about a file's subject.
const EMPTY_NAMES: [&str; 6] = ["utils", "util", "common", "misc", "base", "helpers"];

/// Checks the whole tree and lists everything that is wrong.
pub fn run(root: &Path) -> Result<()> {
    let mut faults = Vec::new();
    let files = rust_files(root)?;
    for path in &files {
        let text = std::fs::read_to_string(root.join(path)).with_context(|| format!("reading {}", path.display()))?;
        check_file(path, &text, &mut faults);
    }
    check_operators(root, &mut faults)?;
    check_layouts(root, &files, &mut faults)?;
    if faults.is_empty() {
        println!("tidy: {} Rust files, no fault", files.len());
        return Ok(());
    }
    bail!("{} faults:\n{}", faults.len(), faults.join("\n"))
}

/// Paths of all Rust sources, relative to `root`.
fn rust_files(root: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).with_context(|| format!("reading {}", folder.display()))? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if path.is_dir() {
                if name != "target" && name != "gpu-bundle" && !name.starts_with('.') {
                    folders.push(path);
                }
            } else if name.ends_with(".rs") {
                files.push(path.strip_prefix(root)?.to_path_buf());
            }
        }
    }
    files.sort();
    Ok(files)
}

fn check_file(path: &Path, text: &str, faults: &mut Vec<String>) {
    let shown = path.display();
    let within = |folder: &str| path.starts_with(folder);
    // This file names what it forbids.
    if path.ends_with("xtask/src/tidy.rs") {
        return;
    }
    if let Some(stem) = path.file_stem().and_then(|stem| stem.to_str())
        && EMPTY_NAMES.contains(&stem)
    {
        faults.push(format!("{shown}: the name says nothing about its subject"));
    }
    let lines: Vec<&str> = text.lines().collect();
    if lines.len() > MAX_LINES {
        faults.push(format!("{shown}: {} lines, at most {MAX_LINES}; split it by subject", lines.len()));
    }
    let host_unsafe = ["host/src/driver", "host/src/launch"].iter().any(|folder| within(folder));
    for (i, line) in lines.iter().enumerate() {
        let code = line.split("//").next().unwrap_or_default();
        let at = i + 1;
        // The builder's fixture stands alone: it must not need the prelude whose build it tests.
        let asm_allowed = ["cuda-std", "cuda-std-macros", "cuda-builder/tests/fixture"].iter().any(|dir| within(dir));
        if (has_word(code, "asm!") || has_word(code, "global_asm!")) && !asm_allowed {
            faults.push(format!("{shown}:{at}: asm! outside cuda-std"));
        }
        if within("host/src") && !host_unsafe && has_word(code, "unsafe") {
            faults.push(format!("{shown}:{at}: unsafe outside driver/ and launch/"));
        }
        if within("host/src") && !path.ends_with("host/src/settings.rs") && code.contains("env::var") {
            faults.push(format!("{shown}:{at}: environment variables are read in settings.rs"));
        }
        let is_block = code.contains("unsafe {") || code.contains("unsafe impl");
        if is_block && !within("cuda-builder") && !has_safety(&lines, i) {
            faults.push(format!("{shown}:{at}: unsafe without a SAFETY sentence"));
        }
        for stub in ["todo!(", "unimplemented!(", "#[ignore"] {
            if code.contains(stub) {
                faults.push(format!("{shown}:{at}: {stub}…: unfinished or skipped code"));
            }
        }
    }
}

/// How far above an `unsafe` its sentence may begin.
const SAFETY_LINES: usize = 8;

fn has_safety(lines: &[&str], at: usize) -> bool {
    lines[at.saturating_sub(SAFETY_LINES)..=at].iter().any(|line| line.contains("SAFETY"))
}

/// Whether `word` stands in `code` by itself.
fn has_word(code: &str, word: &str) -> bool {
    code.match_indices(word).any(|(at, _)| {
        let before = code[..at].chars().next_back();
        let after = code[at + word.len()..].chars().next();
        let joins = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
        !joins(before) && (word.ends_with('!') || !joins(after))
    })
}

/// Files of the host that only launch kernels of others, or say what a problem is to an algorithm's kernels.
const COMPOSED: [(&str, &str); 10] = [
    ("activation", "as_pointwise"),
    ("conv", "nchw_transposed"),
    ("conv", "pointwise_matmul"),
    ("conv", "provided"),
    ("pointwise", "form"),
    ("pool", "as_reduce"),
    ("pool", "nchw_transposed"),
    ("transform", "as_pointwise"),
    ("transform", "copying"),
    ("transform", "transposed"),
];

/// Every operator has its place in every layer, and algorithm files have the same stem on host and device.
fn check_operators(root: &Path, faults: &mut Vec<String>) -> Result<()> {
    let operators = folders(&root.join("kernel-abi/src/ops"))?;
    for layer in ["kernels-gpu/src/ops", "host/src/ops"] {
        let there = folders(&root.join(layer))?;
        for missing in operators.difference(&there) {
            faults.push(format!("{layer}/{missing}: missing; kernel-abi has this operator"));
        }
        for surplus in there.difference(&operators) {
            faults.push(format!("{layer}/{surplus}: kernel-abi has no such operator"));
        }
    }
    for op in &operators {
        for layer in ["reference/src/ops", "tests/src/problems", "tests/tests"] {
            let place = root.join(layer);
            if !place.join(format!("{op}.rs")).is_file() && !place.join(op).is_dir() {
                faults.push(format!("{layer}/{op}: missing; kernel-abi has this operator"));
            }
        }
        let stems = |layer: &str, others: &[&str]| -> Result<BTreeSet<String>> {
            Ok(modules(&root.join(layer).join(op))?
                .into_iter()
                .filter(|stem| !others.contains(&stem.as_str()))
                .collect())
        };
        let host: BTreeSet<String> = stems("host/src/ops", &["mod", "algorithms", "desc"])?
            .into_iter()
            .filter(|stem| !stem.starts_with("cpu"))
            .collect();
        let device = stems("kernels-gpu/src/ops", &["mod", "entry"])?;
        for stem in host.symmetric_difference(&device).filter(|stem| !COMPOSED.contains(&(op.as_str(), stem.as_str())))
        {
            faults.push(format!("ops/{op}/{stem}.rs: stands in only one of host and kernels-gpu"));
        }
    }
    Ok(())
}

/// Every launch-parameter struct is part of the fingerprint by which the host knows PTX of other layouts.
fn check_layouts(root: &Path, files: &[PathBuf], faults: &mut Vec<String>) -> Result<()> {
    const LIST: &str = "kernel-abi/src/ops/mod.rs";
    let read = |path: &Path| std::fs::read_to_string(root.join(path)).with_context(|| path.display().to_string());
    let list = read(Path::new(LIST))?;
    // The macro's own file declares some to try it out.
    let declares = |path: &&PathBuf| path.starts_with("kernel-abi/src") && !path.ends_with("kernel-abi/src/layout.rs");
    for path in files.iter().filter(declares) {
        let text = read(path)?;
        for declaration in text.split("abi_struct! {").skip(1) {
            let name = declaration.split("pub struct ").nth(1).and_then(|rest| rest.split_whitespace().next());
            let name = name.with_context(|| format!("expected a struct in {}", path.display()))?;
            if !list.contains(&format!("::{name}::LAYOUT_HASH")) {
                faults.push(format!("{}: {name} is missing in LAYOUT_HASHES of {LIST}", path.display()));
            }
        }
    }
    Ok(())
}

/// Names of the folders in `place`; none when it is not there.
fn folders(place: &Path) -> Result<BTreeSet<String>> {
    names(place, |path| path.is_dir().then(|| path.file_name()).flatten())
}

/// Stems of the Rust files and names of the folders in `place`.
fn modules(place: &Path) -> Result<BTreeSet<String>> {
    names(place, |path| if path.is_dir() { path.file_name() } else { path.file_stem() })
}

fn names(place: &Path, name: impl Fn(&Path) -> Option<&std::ffi::OsStr>) -> Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    if place.is_dir() {
        for entry in std::fs::read_dir(place)? {
            if let Some(name) = name(&entry?.path()) {
                names.insert(name.to_string_lossy().into_owned());
            }
        }
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_is_tidy() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the workspace");
        if let Err(faults) = run(root) {
            panic!("{faults}");
        }
    }

    #[test]
    fn faults_are_found() {
        let find = |path: &str, text: &str| {
            let mut faults = Vec::new();
            check_file(Path::new(path), text, &mut faults);
            faults.join("\n")
        };
        assert!(find("host/src/a.rs", "fn f() { asm!(\"\") }").contains("asm! outside"));
        assert_eq!(find("cuda-std/src/a.rs", "asm!(\"\")"), "");
        assert!(find("host/src/plan/a.rs", "// SAFETY: x\nunsafe { f() }").contains("unsafe outside"));
        assert!(find("host/src/driver/a.rs", "unsafe { f() }").contains("without a SAFETY"));
        assert_eq!(find("host/src/driver/a.rs", "// SAFETY: x\nunsafe { f() }"), "");
        assert!(find("host/src/a.rs", "std::env::var(\"X\")").contains("settings.rs"));
        assert!(find("cli/src/utils.rs", "").contains("says nothing"));
        assert_eq!(find("host/src/a.rs", "let x = may_unsafe_thing; // unsafe"), "");
    }
}
