//! Machine code made ahead of time, beside the PTX: what the driver's compiler would make when a module is loaded.
//!
//! A cubin runs only on devices of the architecture it was made for, so PTX is always there too. `cubins.json` ties
//! each to the PTX it was made of; one that does not fit any more is as good as none.

use crate::compile::run;
use crate::manifest::text_hash;
use crate::toolchain::Ptxas;
use crate::{Build, Error, PtxFile};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::process::Command;

/// The list's name, beside the PTX files.
const NAME: &str = "cubins.json";

/// One cubin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cubin {
    /// Its name.
    pub name: String,
    /// The PTX file it was made of.
    pub ptx: String,
    /// Hash of that file's packed form.
    pub ptx_hash: String,
    /// The architecture it runs on, such as `sm_90a`.
    pub arch: String,
    /// Whether it was made of what [`cuda_loader::ptx::waiting`] makes of a portable file.
    pub waits: bool,
    /// Hash of its content.
    pub hash: String,
    /// Its size.
    pub bytes: usize,
    /// Version of the `ptxas` that made it.
    pub ptxas: String,
}

/// The architectures that cubins are made for of a PTX file: a cubin of `sm_80` does not run on Hopper, though its
/// PTX does.
fn targets(file: &PtxFile) -> &'static [&'static str] {
    match file.arch {
        90 => &["sm_90a"],
        _ => &["sm_80", "sm_90"],
    }
}

/// Assembles every PTX file of a build for its architectures, where that has not been done, into the same folder.
///
/// # Errors
/// `Tool` when `ptxas` refuses a file, `Io`.
pub fn assemble(build: &Build, ptxas: &Ptxas) -> Result<Vec<Cubin>, Error> {
    let there = cubins(build);
    let jobs = build.files.iter().flat_map(|file| targets(file).iter().map(move |arch| (file, *arch)));
    let jobs: Vec<(&PtxFile, &str)> = jobs.collect();
    let made: Result<Vec<Cubin>, Error> = jobs
        .into_par_iter()
        .map(|(file, arch)| {
            let fresh = |cubin: &&Cubin| cubin.ptx == file.name && cubin.arch == arch;
            let fresh = there.iter().find(fresh).filter(|cubin| cubin.ptxas == ptxas.version).cloned();
            fresh.map_or_else(|| one(build, file, arch, ptxas), Ok)
        })
        .collect();
    let made = made?;
    let path = build.dir.join(NAME);
    let text = serde_json::to_string_pretty(&made).map_err(|e| Error::Module(e.to_string()))?;
    std::fs::write(&path, text + "\n").map_err(Error::io(&path))?;
    Ok(made)
}

fn one(build: &Build, file: &PtxFile, arch: &str, ptxas: &Ptxas) -> Result<Cubin, Error> {
    let packed_path = build.packed_path(file);
    let packed = std::fs::read(&packed_path).map_err(Error::io(&packed_path))?;
    let name = format!("{}.{arch}.cubin", file.name.trim_end_matches(".ptx"));
    let output = build.dir.join(&name);
    let input = output.with_extension("cubin.ptx");
    let text = build.text(file)?;
    // As the driver gets the text on such a device.
    let waiting = if file.arch < 90 && arch == "sm_90" { cuda_loader::ptx::waiting(&text) } else { None };
    let waits = waiting.is_some();
    std::fs::write(&input, waiting.unwrap_or(text)).map_err(Error::io(&input))?;
    run(Command::new(&ptxas.path).arg(format!("-arch={arch}")).arg("-o").arg(&output).arg(&input))?;
    std::fs::remove_file(&input).map_err(Error::io(&input))?;
    let content = std::fs::read(&output).map_err(Error::io(&output))?;
    Ok(Cubin {
        name,
        ptx: file.name.clone(),
        ptx_hash: text_hash(&packed),
        arch: arch.to_owned(),
        waits,
        hash: text_hash(&content),
        bytes: content.len(),
        ptxas: ptxas.version.clone(),
    })
}

/// The cubins beside a build's PTX that were made of it and are whole. None is no error: they are optional.
pub fn cubins(build: &Build) -> Vec<Cubin> {
    let hash = |path: &Path| std::fs::read(path).ok().map(|content| text_hash(&content));
    let text = std::fs::read_to_string(build.dir.join(NAME)).unwrap_or_default();
    let listed: Vec<Cubin> = serde_json::from_str(&text).unwrap_or_default();
    let fits = |cubin: &Cubin| {
        let file = build.files.iter().find(|file| file.name == cubin.ptx);
        file.and_then(|file| hash(&build.packed_path(file))).as_ref() == Some(&cubin.ptx_hash)
            && hash(&build.dir.join(&cubin.name)).as_ref() == Some(&cubin.hash)
    };
    listed.into_iter().filter(fits).collect()
}

/// The list's path, for who wants to know when it changes.
pub fn cubin_list(dir: &Path) -> std::path::PathBuf {
    dir.join(NAME)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_cubins_of_this_ptx_are_listed() {
        let dir = std::env::temp_dir().join(format!("oxidnn-cubins-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let file = PtxFile {
            name: "a.sm_80.ptx".to_owned(),
            family: "a".to_owned(),
            arch: 80,
            ptx_bytes: 4,
            kernels: Vec::new(),
        };
        let build = Build {
            source_hash: String::new(),
            compiler: String::new(),
            ptxas: None,
            files: vec![file],
            dir: dir.clone(),
        };
        assert_eq!(cubins(&build), []);
        let cubin = Cubin {
            name: "a.sm_80.sm_90.cubin".to_owned(),
            ptx: "a.sm_80.ptx".to_owned(),
            ptx_hash: text_hash(b"text"),
            arch: "sm_90".to_owned(),
            waits: true,
            hash: text_hash(b"code"),
            bytes: 4,
            ptxas: "1".to_owned(),
        };
        std::fs::write(dir.join(NAME), serde_json::to_string(&[&cubin]).unwrap()).unwrap();
        let lists = |ptx: &str, code: &str| {
            std::fs::write(build.packed_path(&build.files[0]), ptx).unwrap();
            std::fs::write(dir.join(&cubin.name), code).unwrap();
            cubins(&build)
        };
        assert_eq!(lists("text", "code"), std::slice::from_ref(&cubin));
        assert_eq!(lists("newer text", "code"), []);
        assert_eq!(lists("text", "cod"), []);
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
