//! PTX files that were made and checked before, by what they were made of.

use crate::gates::Checked;
use crate::manifest::{KernelReport, text_hash};
use crate::ptx::{File, Job};
use crate::toolchain::{Compiler, Ptxas};
use crate::{Error, manifest::PIPELINE};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// A folder of finished files.
#[derive(Debug)]
pub struct Cache {
    dir: PathBuf,
    /// What all files depend on.
    tools: String,
}

/// What is kept of a file.
#[derive(Serialize, Deserialize)]
struct Entry {
    ptx: String,
    reports: Vec<KernelReport>,
}

impl Cache {
    /// The cache in a folder, for files made by these programs.
    pub fn open(dir: PathBuf, compiler: &Compiler, ptxas: Option<&Ptxas>) -> Result<Self, Error> {
        std::fs::create_dir_all(&dir).map_err(Error::io(&dir))?;
        let ptxas = ptxas.map_or("no ptxas", |ptxas| &ptxas.version);
        Ok(Cache { dir, tools: format!("{PIPELINE} {} {ptxas}", compiler.version) })
    }

    /// Changes whenever the file that a job makes does.
    pub fn key(&self, job: &Job) -> String {
        let made_of = format!("{} {:?} {:?}\n{}", self.tools, job.arch, job.kernels, job.input);
        format!("{}-{}", job.stem(), text_hash(made_of.as_bytes()))
    }

    /// The finished file of a job, if it is there.
    pub fn get(&self, key: &str, job: &Job) -> Option<Checked> {
        let text = std::fs::read_to_string(self.path(key)).ok()?;
        let Entry { ptx, reports } = serde_json::from_str(&text).ok()?;
        let file = File { family: job.family.clone(), arch: job.arch, kernels: job.kernels.clone(), ptx };
        Some(Checked { file, reports })
    }

    /// Keeps a file that passed its gates. A cache that cannot be written costs nothing but the next build's time.
    pub fn put(&self, key: &str, checked: &Checked) {
        let entry = Entry { ptx: checked.file.ptx.clone(), reports: checked.reports.clone() };
        let part = self.dir.join(format!("{key}.{}.part", std::process::id()));
        let written = serde_json::to_string(&entry).is_ok_and(|text| std::fs::write(&part, text).is_ok());
        // Whoever finds the name finds all of it.
        if !written || std::fs::rename(&part, self.path(key)).is_err() {
            let _ = std::fs::remove_file(&part);
        }
    }

    /// Removes every entry but these.
    pub fn keep_only(&self, keys: &HashSet<String>) {
        let Ok(entries) = std::fs::read_dir(&self.dir) else { return };
        for path in entries.flatten().map(|entry| entry.path()) {
            if !path.file_stem().and_then(|stem| stem.to_str()).is_some_and(|stem| keys.contains(stem)) {
                let _ = std::fs::remove_file(path);
            }
        }
    }

    fn path(&self, key: &str) -> PathBuf {
        Path::new(&self.dir).join(format!("{key}.json"))
    }
}
