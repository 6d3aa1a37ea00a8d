//! Suites: the layers of known networks and benchmarks, from `benches/shapes`.

use anyhow::{Context as _, Result, bail};
use oxidnn::DType;
use std::collections::HashMap;

/// A list of layers.
#[derive(Clone, Copy, Debug)]
pub struct Suite {
    /// What it is called.
    pub name: &'static str,
    /// Its element type unless another is asked for.
    pub dtype: DType,
    /// Images of a batch, where not the file's.
    pub batch: Option<i64>,
    /// Whether its layers are also timed as a whole network: with one image, launches and caches decide.
    pub chain: bool,
    source: Source,
    /// Only rows with this in their first column.
    variant: Option<&'static str>,
    /// Only convolutions with square filters of this extent, and of those that differ in their batch one.
    taps: Option<i64>,
}

#[derive(Clone, Copy, Debug)]
enum Source {
    Conv(&'static str),
    Gemm(&'static str),
    Problems(&'static str),
}

/// What a suite's problems are, and so who the peers are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Convolutions: cuDNN.
    Conv,
    /// Matrix products: cuBLASLt.
    Matmul,
    /// Other operators, whose time is memory's: PyTorch.
    Other,
}

/// A row of a suite.
#[derive(Clone, Debug, PartialEq)]
pub enum Layer {
    /// A convolution.
    Conv(ConvLayer),
    /// A matrix product.
    Gemm(GemmLayer),
    /// A problem of any operator.
    Problem {
        /// The row's name.
        name: String,
        /// The problem's text.
        text: String,
    },
}

/// A convolution of a network, all lists outermost axis first.
#[derive(Clone, Debug, PartialEq)]
pub struct ConvLayer {
    /// The layer's name.
    pub name: String,
    /// Images.
    pub n: i64,
    /// Input channels.
    pub c: i64,
    /// Output channels.
    pub k: i64,
    /// Groups.
    pub groups: i64,
    /// Extents of the input.
    pub image: Vec<i64>,
    /// Extents of the filter.
    pub filter: Vec<i64>,
    /// Extents of the output.
    pub output: Vec<i64>,
    /// Padding, at both ends.
    pub padding: Vec<i64>,
    /// Stride.
    pub stride: Vec<i64>,
    /// Dilation.
    pub dilation: Vec<i64>,
    /// Whether it is a transposed convolution.
    pub transposed: bool,
    /// How often it stands in the network.
    pub count: u32,
}

/// A product of column-major matrices, `c[m, n] = op(a) op(b)`.
#[derive(Clone, Debug, PartialEq)]
pub struct GemmLayer {
    /// The row's name.
    pub name: String,
    /// Rows of c.
    pub m: i64,
    /// Columns of c.
    pub n: i64,
    /// Length of the sums.
    pub k: i64,
    /// Whether a is stored transposed.
    pub transpose_a: bool,
    /// Whether b is stored transposed.
    pub transpose_b: bool,
}

impl Layer {
    /// Its name.
    pub fn name(&self) -> &str {
        match self {
            Layer::Conv(layer) => &layer.name,
            Layer::Gemm(layer) => &layer.name,
            Layer::Problem { name, .. } => name,
        }
    }

    /// How often it stands in the network.
    pub fn count(&self) -> u32 {
        match self {
            Layer::Conv(layer) => layer.count,
            Layer::Gemm(_) | Layer::Problem { .. } => 1,
        }
    }
}

macro_rules! shapes {
    ($file:literal) => {
        include_str!(concat!("../../benches/shapes/", $file, ".csv"))
    };
}

/// A suite of convolutions.
const fn conv(name: &'static str, text: &'static str) -> Suite {
    Suite { name, dtype: DType::BF16, batch: None, chain: false, source: Source::Conv(text), variant: None, taps: None }
}

/// A suite of matrix products.
const fn gemm(name: &'static str, text: &'static str) -> Suite {
    Suite { name, dtype: DType::BF16, batch: None, chain: false, source: Source::Gemm(text), variant: None, taps: None }
}

/// A suite of problems of any operator. The element types are the problems' own.
const fn problems(name: &'static str, text: &'static str) -> Suite {
    Suite {
        name,
        dtype: DType::BF16,
        batch: None,
        chain: false,
        source: Source::Problems(text),
        variant: None,
        taps: None,
    }
}

impl Suite {
    const fn of(mut self, variant: &'static str) -> Self {
        self.variant = Some(variant);
        self
    }

    const fn with_taps(mut self, taps: i64) -> Self {
        self.taps = Some(taps);
        self
    }

    const fn with_dtype(mut self, dtype: DType) -> Self {
        self.dtype = dtype;
        self
    }

    const fn as_chain(mut self) -> Self {
        self.chain = true;
        self
    }

    const fn with_batch(mut self, batch: i64) -> Self {
        self.batch = Some(batch);
        self
    }

    /// What its problems are.
    pub fn kind(&self) -> Kind {
        match self.source {
            Source::Conv(_) => Kind::Conv,
            Source::Gemm(_) => Kind::Matmul,
            Source::Problems(_) => Kind::Other,
        }
    }

    /// The rows of its file that have this in their first column.
    ///
    /// # Errors
    /// As [`Suite::layers`].
    pub fn of_variant(&self, variant: &str) -> Result<Vec<Layer>> {
        let (Source::Conv(text) | Source::Gemm(text) | Source::Problems(text)) = self.source;
        read_layers(self.name, text, Some(variant))
    }

    /// Its rows.
    ///
    /// # Errors
    /// For a missing column or a number that is none.
    pub fn layers(&self) -> Result<Vec<Layer>> {
        let (Source::Conv(text) | Source::Gemm(text) | Source::Problems(text)) = self.source;
        let mut layers = read_layers(self.name, text, self.variant)?;
        if let Some(taps) = self.taps {
            let mut seen = Vec::new();
            layers.retain(|layer| {
                let Layer::Conv(layer) = layer else { return false };
                let shape = ConvLayer { name: String::new(), n: 0, ..layer.clone() };
                let is_new = layer.filter == [taps, taps] && !seen.contains(&shape);
                seen.push(shape);
                is_new
            });
        }
        Ok(layers)
    }
}

/// The rows of a list of layers: of convolutions (columns r, s, …), of matrix products (trans_a, …), or of problems'
/// texts (problem); of a variant, those with its name in their first column.
///
/// # Errors
/// For a missing column, a number that is none, and no rows at all.
pub fn read_layers(name: &str, text: &str, variant: Option<&str>) -> Result<Vec<Layer>> {
    let mut reader = csv::ReaderBuilder::new().comment(Some(b'#')).from_reader(text.as_bytes());
    let columns = reader.headers()?.clone();
    let has = |column: &str| columns.iter().any(|given| given == column);
    let (is_problem, is_gemm) = (has("problem"), has("trans_a"));
    let mut layers = Vec::new();
    let mut variants = Vec::new();
    for record in reader.records() {
        let record = record?;
        let row = Row(columns.iter().zip(record.iter()).collect());
        let first = record.get(0).unwrap_or_default();
        if variant.is_some_and(|variant| first != variant) {
            variants.push(first.to_owned());
            continue;
        }
        let layer = if is_problem {
            row.problem()
        } else if is_gemm {
            row.gemm().map(Layer::Gemm)
        } else {
            row.conv().map(Layer::Conv)
        };
        layers.push(layer.with_context(|| format!("{name}: row {record:?}"))?);
    }
    if layers.is_empty() {
        variants.dedup();
        bail!("{name}: expected layers, given none; first columns are: {}", variants.join(", "));
    }
    Ok(layers)
}

/// Cells of a row by column.
struct Row<'a>(HashMap<&'a str, &'a str>);

impl Row<'_> {
    fn text(&self, column: &str) -> Result<&str> {
        self.0.get(column).copied().with_context(|| format!("expected a column {column}"))
    }

    fn number(&self, column: &str) -> Result<i64> {
        let text = self.text(column)?;
        text.parse().with_context(|| format!("expected a number in column {column}, given {text:?}"))
    }

    fn numbers(&self, columns: &[&str]) -> Result<Vec<i64>> {
        columns.iter().map(|column| self.number(column)).collect()
    }

    fn conv(&self) -> Result<ConvLayer> {
        let volume = self.0.contains_key("d");
        let image: &[&str] = if volume { &["d", "h", "w"] } else { &["h", "w"] };
        let filter: &[&str] = if volume { &["t", "r", "s"] } else { &["r", "s"] };
        let output: &[&str] = if volume { &["od", "oh", "ow"] } else { &["p", "q"] };
        let prefixed = |prefix: &str| -> Result<Vec<i64>> {
            image.iter().map(|axis| self.number(&format!("{prefix}_{axis}"))).collect()
        };
        let dilation = if volume { vec![1; 3] } else { prefixed("dil")? };
        let transposed = match self.0.get("kind").copied() {
            None | Some("conv") => false,
            Some("conv_transpose") => true,
            Some(other) => bail!("expected kind conv or conv_transpose, given {other:?}"),
        };
        Ok(ConvLayer {
            name: self.text("name")?.to_owned(),
            n: self.number("n")?,
            c: self.number("c")?,
            k: self.number("k")?,
            groups: self.number("groups")?,
            image: self.numbers(image)?,
            filter: self.numbers(filter)?,
            output: self.numbers(output)?,
            padding: prefixed("pad")?,
            stride: prefixed("stride")?,
            dilation,
            transposed,
            count: self.number("count")?.try_into()?,
        })
    }

    fn problem(&self) -> Result<Layer> {
        Ok(Layer::Problem { name: self.text("name")?.to_owned(), text: self.text("problem")?.to_owned() })
    }

    fn gemm(&self) -> Result<GemmLayer> {
        Ok(GemmLayer {
            name: self.text("name")?.to_owned(),
            m: self.number("m")?,
            n: self.number("n")?,
            k: self.number("k")?,
            transpose_a: self.number("trans_a")? != 0,
            transpose_b: self.number("trans_b")? != 0,
        })
    }
}

/// Every suite.
pub const SUITES: [Suite; 36] = [
    conv("resnet50", shapes!("resnet50")).of("v1.5"),
    conv("resnet50_n1", shapes!("resnet50")).of("v1.5").with_batch(1).as_chain(),
    conv("resnet50_v1", shapes!("resnet50")).of("v1"),
    conv("resnet18", shapes!("resnet18")),
    conv("alexnet", shapes!("alexnet")),
    conv("vgg", shapes!("vgg")),
    conv("stem", shapes!("stem")).of("7x7"),
    conv("first_layers", shapes!("stem")).of("other"),
    conv("deepbench_conv", shapes!("deepbench_conv")).of("training").with_dtype(DType::F16),
    conv("deepbench_conv_server", shapes!("deepbench_conv")).of("inference_server").with_dtype(DType::F16),
    conv("deepbench_conv_device", shapes!("deepbench_conv")).of("inference_device").with_dtype(DType::F16),
    conv("deepbench_3x3", shapes!("deepbench_conv")).of("training").with_taps(3).with_batch(256),
    conv("deepbench_5x5", shapes!("deepbench_conv")).of("training").with_taps(5).with_batch(256),
    conv("densenet40", shapes!("densenet40")),
    conv("mobilenet_depthwise", shapes!("mobilenet_depthwise")),
    conv("resnext50_grouped", shapes!("resnext50_grouped")),
    conv("unet3d", shapes!("unet3d")),
    conv("cudnn2014_table", shapes!("cudnn2014_table")),
    gemm("matmul", shapes!("matmul")),
    gemm("deepbench_gemm", shapes!("deepbench_gemm")).of("training"),
    gemm("deepbench_gemm_server", shapes!("deepbench_gemm")).of("inference_server"),
    gemm("deepbench_gemm_device", shapes!("deepbench_gemm")).of("inference_device"),
    problems("memory_activation", shapes!("memory_activation")),
    problems("memory_crossentropy", shapes!("memory_crossentropy")),
    problems("memory_dropout", shapes!("memory_dropout")),
    problems("memory_gather", shapes!("memory_gather")),
    problems("memory_lrn", shapes!("memory_lrn")),
    problems("memory_norm", shapes!("memory_norm")),
    problems("memory_optimizer", shapes!("memory_optimizer")),
    problems("memory_pad", shapes!("memory_pad")),
    problems("memory_pointwise", shapes!("memory_pointwise")),
    problems("memory_pool", shapes!("memory_pool")),
    problems("memory_reduce", shapes!("memory_reduce")),
    problems("memory_resample", shapes!("memory_resample")),
    problems("memory_softmax", shapes!("memory_softmax")),
    problems("memory_transform", shapes!("memory_transform")),
];

/// The suite of that name.
///
/// # Errors
/// For an unknown one, with the names of all.
pub fn suite(name: &str) -> Result<Suite> {
    SUITES.iter().find(|suite| suite.name == name).copied().with_context(|| {
        let known: Vec<&str> = SUITES.iter().map(|suite| suite.name).collect();
        format!("suite: expected one of {}, given {name:?}", known.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_is_read_whole() {
        let rows: Vec<(&str, usize)> = SUITES.iter().map(|suite| (suite.name, suite.layers().unwrap().len())).collect();
        let expected = [
            ("resnet50", 23),
            ("resnet50_n1", 23),
            ("resnet50_v1", 20),
            ("resnet18", 11),
            ("alexnet", 15),
            ("vgg", 25),
            ("stem", 4),
            ("first_layers", 7),
            ("deepbench_conv", 94),
            ("deepbench_conv_server", 107),
            ("deepbench_conv_device", 16),
            ("deepbench_3x3", 22),
            ("deepbench_5x5", 7),
            ("densenet40", 114),
            ("mobilenet_depthwise", 47),
            ("resnext50_grouped", 7),
            ("unet3d", 36),
            ("cudnn2014_table", 5),
            ("matmul", 12),
            ("deepbench_gemm", 160),
            ("deepbench_gemm_server", 75),
            ("deepbench_gemm_device", 13),
            ("memory_activation", 108),
            ("memory_crossentropy", 10),
            ("memory_dropout", 8),
            ("memory_gather", 9),
            ("memory_lrn", 8),
            ("memory_norm", 181),
            ("memory_optimizer", 16),
            ("memory_pad", 20),
            ("memory_pointwise", 35),
            ("memory_pool", 52),
            ("memory_reduce", 51),
            ("memory_resample", 34),
            ("memory_softmax", 48),
            ("memory_transform", 102),
        ];
        assert_eq!(rows, expected);
    }

    #[test]
    fn outputs_are_what_the_rule_gives() {
        for layer in SUITES.iter().flat_map(|suite| suite.layers().unwrap()) {
            let Layer::Conv(layer) = layer else { continue };
            for i in 0..layer.image.len() {
                let window = (layer.filter[i] - 1) * layer.dilation[i] + 1;
                let forward = |image: i64| (image + 2 * layer.padding[i] - window) / layer.stride[i] + 1;
                let (from, to) = if layer.transposed {
                    (layer.output[i], layer.image[i])
                } else {
                    (layer.image[i], layer.output[i])
                };
                assert_eq!(forward(from), to, "{} axis {i}", layer.name);
            }
        }
    }

    #[test]
    fn unknown_names_are_answered_with_the_known() {
        assert!(suite("resnet51").unwrap_err().to_string().contains("resnet50, "));
    }
}
