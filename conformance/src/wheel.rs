//! The cases, read from the package that ONNX's project publishes.

use crate::proto::{ModelProto, TensorProto};
use crate::stop::Stop;
use crate::value::Value;
use anyhow::{Context as _, Result, bail};
use prost::Message;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use zip::ZipArchive;

/// Where the cases lie in the package.
const FOLDER: &str = "onnx/backend/test/data/node/";

/// The package: a zip archive.
pub struct Wheel {
    archive: ZipArchive<File>,
    /// Files of each case.
    cases: BTreeMap<String, Vec<String>>,
}

/// A model with inputs and what it makes of them.
pub struct Case {
    pub name: String,
    pub model: ModelProto,
    pub data_sets: Vec<DataSet>,
}

/// Values of the graph's inputs and outputs, in its order; a refusal for those that are no tensors we can hold.
pub struct DataSet {
    pub inputs: Vec<Result<Value, Stop>>,
    pub outputs: Vec<Result<Value, Stop>>,
}

impl Wheel {
    /// Opens a package.
    pub fn open(path: &Path) -> Result<Self> {
        let file = File::open(path).with_context(|| format!("opening {}", path.display()))?;
        let archive = ZipArchive::new(file).with_context(|| format!("reading {}", path.display()))?;
        let mut cases = BTreeMap::<String, Vec<String>>::new();
        for name in archive.file_names() {
            let name = name?;
            if let Some((case, _)) = name.strip_prefix(FOLDER).and_then(|rest| rest.split_once('/')) {
                cases.entry(case.to_owned()).or_default().push(name.clone().into_owned());
            }
        }
        if cases.is_empty() {
            bail!("expected cases under {FOLDER} in {}: onnx==1.22.0 has them, later versions do not", path.display());
        }
        Ok(Wheel { archive, cases })
    }

    /// Names of all cases, sorted.
    pub fn names(&self) -> Vec<String> {
        self.cases.keys().cloned().collect()
    }

    fn bytes(&mut self, path: &str) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.archive.by_name(path).with_context(|| format!("finding {path}"))?.read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// Reads a case's model.
    pub fn model(&mut self, name: &str) -> Result<ModelProto> {
        let bytes = self.bytes(&format!("{FOLDER}{name}/model.onnx"))?;
        ModelProto::decode(&bytes[..]).with_context(|| format!("decoding the model of {name}"))
    }

    /// Reads a case's values.
    pub fn case(&mut self, name: &str, model: ModelProto) -> Result<Case> {
        let (mut inputs, mut outputs) = (Vec::new(), Vec::new());
        if let Some(graph) = &model.graph {
            let is_tensor = |value: &crate::proto::ValueInfoProto| {
                value.r#type.as_ref().is_some_and(|value| value.tensor_type.is_some())
            };
            inputs = graph.input.iter().map(is_tensor).collect();
            outputs = graph.output.iter().map(is_tensor).collect();
        }
        let mut data_sets = Vec::new();
        loop {
            let folder = format!("{FOLDER}{name}/test_data_set_{}/", data_sets.len());
            if !self.cases.get(name).is_some_and(|files| files.iter().any(|file| file.starts_with(&folder))) {
                break;
            }
            data_sets.push(DataSet {
                inputs: self.values(&folder, "input", &inputs)?,
                outputs: self.values(&folder, "output", &outputs)?,
            });
        }
        if data_sets.is_empty() {
            bail!("expected data of {name}, given none");
        }
        Ok(Case { name: name.to_owned(), model, data_sets })
    }

    fn values(&mut self, folder: &str, kind: &str, are_tensors: &[bool]) -> Result<Vec<Result<Value, Stop>>> {
        let mut values = Vec::new();
        for (i, is_tensor) in are_tensors.iter().enumerate() {
            values.push(if *is_tensor {
                let path = format!("{folder}{kind}_{i}.pb");
                let tensor =
                    TensorProto::decode(&self.bytes(&path)?[..]).with_context(|| format!("decoding {path}"))?;
                Value::from_proto(&tensor)
            } else {
                Err(Stop::refused("a sequence or an optional value, and no tensor"))
            });
        }
        Ok(values)
    }
}
