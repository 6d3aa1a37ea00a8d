//! The problems of a whole network: every layer in every pass, as often as it stands there.

use crate::case::{Layout, Pass, conv, matmul};
use crate::suites::{Layer, read_layers, suite};
use anyhow::{Context as _, Result, bail};
use oxidnn::operators::{AnyProblem, parse_problem};
use oxidnn::{DType, Math};

/// What the problems of a network are made with.
#[derive(Clone, Debug)]
pub struct Making {
    /// Passes of convolutions.
    pub passes: Vec<Pass>,
    /// Images of a batch, instead of the list's own number.
    pub batch: Option<i64>,
    /// Element type; the suite's own unless given, of a file's layers f32.
    pub dtype: Option<DType>,
    /// How f32 is multiplied.
    pub math: Math,
    /// Layout of images and filters.
    pub layout: Layout,
}

/// A layer in one pass.
pub struct NetworkLayer {
    /// The layer's name.
    pub name: String,
    /// What is computed.
    pub problem: Box<dyn AnyProblem>,
}

/// Reads a network: a suite's name, or a file of the same columns that ends in `.csv`; `:<variant>` behind it takes
/// the rows with that in their first column.
///
/// # Errors
/// For an unknown suite, a file that cannot be read, and layers that are no legal problems.
pub fn read(name: &str, making: &Making) -> Result<Vec<NetworkLayer>> {
    let (source, variant) = name.rsplit_once(':').map_or((name, None), |(source, variant)| (source, Some(variant)));
    let (layers, dtype, batch) = if source.ends_with(".csv") {
        let text = std::fs::read_to_string(source).with_context(|| format!("reading {source}"))?;
        (read_layers(source, &text, variant)?, DType::F32, None)
    } else {
        let known = suite(source)?;
        let layers = match variant {
            Some(variant) => known.of_variant(variant)?,
            None => known.layers()?,
        };
        (layers, known.dtype, known.batch)
    };
    let (dtype, batch) = (making.dtype.unwrap_or(dtype), making.batch.or(batch));
    let mut all = Vec::new();
    for layer in &layers {
        let problems: Vec<Box<dyn AnyProblem>> = match layer {
            Layer::Conv(_) => {
                let of = |&pass: &Pass| -> Result<Box<dyn AnyProblem>> {
                    Ok(Box::new(conv(layer, pass, (dtype, making.math), making.layout, batch)?))
                };
                let passes = making.passes.iter().filter(|&&pass| dtype.is_general() || pass == Pass::Fprop);
                passes.map(of).collect::<Result<_>>()?
            }
            Layer::Gemm(_) => vec![Box::new(matmul(layer, dtype, making.math)?)],
            Layer::Problem { text, .. } => vec![parse_problem(text)?],
        };
        if let (Some(batch), false) = (making.batch, matches!(layer, Layer::Conv(_))) {
            bail!("{}: expected a convolution for a batch of {batch}, the layer has its own", layer.name());
        }
        for problem in problems {
            for _ in 0..layer.count() {
                let problem = parse_problem(&problem.text())?;
                all.push(NetworkLayer { name: layer.name().to_owned(), problem });
            }
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn making() -> Making {
        let passes = vec![Pass::Fprop, Pass::Dgrad, Pass::Wgrad];
        Making { passes, batch: None, dtype: None, math: Math::Full, layout: Layout::Nhwc }
    }

    #[test]
    fn layers_stand_as_often_as_in_the_network() {
        assert_eq!(read("resnet50", &making()).unwrap().len(), 159);
        let alexnet = read("alexnet:ucudnn", &Making { batch: Some(8), ..making() }).unwrap();
        assert_eq!(alexnet.len(), 15);
        assert!(alexnet.iter().all(|layer| layer.problem.text().contains("=8x")));
        assert!(read("alexnet:caffe", &making()).err().unwrap().to_string().contains("ucudnn"));
        assert!(read("memory_softmax", &Making { batch: Some(8), ..making() }).is_err());
        assert!(!read("memory_softmax", &making()).unwrap().is_empty());
    }

    #[test]
    fn a_file_is_read_as_a_suite_is() {
        let path = std::env::temp_dir().join(format!("oxidnn-network-{}.csv", std::process::id()));
        std::fs::write(&path, "name,problem\nlast,softmax:forward x=4x10:f32\n").unwrap();
        let layers = read(path.to_str().unwrap(), &making()).unwrap();
        assert_eq!((layers.len(), layers[0].name.as_str(), layers[0].problem.op()), (1, "last", "softmax"));
        std::fs::remove_file(&path).unwrap();
        assert!(read(path.to_str().unwrap(), &making()).is_err());
    }
}
