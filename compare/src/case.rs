//! One problem to be timed, with where it comes from.

use crate::options::Options;
use crate::suites::{Kind, Layer, Suite};
use anyhow::{Context as _, Result};
use oxidnn::operators::{AnyProblem, parse_problem};
use oxidnn::ops::conv::{ConvDesc, ConvProblem};
use oxidnn::ops::matmul::{MatmulDesc, MatmulProblem};
use oxidnn::{DType, Math, Role, TensorDesc};
use std::sync::Arc;

/// A pass of a convolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Pass {
    /// The output from the input.
    Fprop,
    /// The input's gradient.
    Dgrad,
    /// The filter's gradient.
    Wgrad,
}

/// The order of dimensions in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Layout {
    /// Channels last, in filters too.
    Nhwc,
    /// Channels before the image, in filters too.
    Nchw,
}

impl Pass {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Pass::Fprop => "fprop",
            Pass::Dgrad => "dgrad",
            Pass::Wgrad => "wgrad",
        }
    }
}

impl Layout {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Layout::Nhwc => "nhwc",
            Layout::Nchw => "nchw",
        }
    }

    fn desc(self, dtype: DType, dims: &[i64]) -> Result<TensorDesc> {
        Ok(match self {
            Layout::Nhwc => TensorDesc::channels_last(dtype, dims)?,
            Layout::Nchw => TensorDesc::packed(dtype, dims)?,
        })
    }
}

/// A problem.
#[derive(Clone)]
pub enum Work {
    /// A convolution.
    Conv(ConvProblem),
    /// A matrix product.
    Matmul(MatmulProblem),
    /// Any other operator's: memory decides its time, and the naive kernel judges its result.
    Other(Arc<dyn AnyProblem>),
}

impl std::fmt::Debug for Work {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.problem().text())
    }
}

impl PartialEq for Work {
    fn eq(&self, other: &Self) -> bool {
        self.problem().text() == other.problem().text()
    }
}

impl Work {
    /// The problem.
    pub fn problem(&self) -> &dyn AnyProblem {
        match self {
            Work::Conv(problem) => problem,
            Work::Matmul(problem) => problem,
            Work::Other(problem) => problem.as_ref(),
        }
    }

    /// The first tensor's description: its element type is the one by which problems are told apart.
    pub fn first(&self) -> TensorDesc {
        self.problem().operands()[0].desc
    }

    /// The element type of the first result.
    pub fn written_dtype(&self) -> DType {
        let operands = self.problem().operands();
        operands.iter().find(|operand| operand.role != Role::Input).unwrap_or(&operands[0]).desc.dtype()
    }
}

/// One problem to be timed.
#[derive(Clone, Debug)]
pub struct Case {
    /// The layer's name; the first one's where several are the same problem.
    pub layer: String,
    /// How often it stands in the network.
    pub count: u32,
    /// What is computed.
    pub work: Work,
}

/// The problems of one table: a suite in one pass, type and layout.
#[derive(Clone, Debug)]
pub struct Table {
    /// The suite's name, with the batch if that is not the suite's own.
    pub suite: String,
    /// What its problems are.
    pub kind: Kind,
    /// The pass; `forward` for matrix products; empty where the problems have several.
    pub pass: &'static str,
    /// Element type of what is multiplied; none where the problems have several.
    pub dtype: Option<DType>,
    /// How f32 is multiplied.
    pub math: Math,
    /// The layout; `rows` for matrix products; empty where the problems have several.
    pub layout: &'static str,
    /// The problems, each once.
    pub cases: Vec<Case>,
    /// Whether they are also timed one after the other as a whole.
    pub chain: bool,
}

impl Table {
    /// What its files are called.
    pub fn stem(&self) -> String {
        let Some(dtype) = self.dtype else { return self.suite.clone() };
        let types = if self.math == Math::Full { dtype.name() } else { self.math.name() };
        format!("{}-{}-{types}-{}", self.suite, self.pass, self.layout)
    }
}

/// Every table that the options ask for of one suite.
///
/// # Errors
/// For a suite's file that cannot be read, or a layer that is no legal problem.
pub fn tables(suite: &Suite, options: &Options) -> Result<Vec<Table>> {
    let layers = suite.layers()?;
    if suite.kind() == Kind::Other {
        let mut table = table(suite, options, ("", "", None), &layers, |layer| match layer {
            Layer::Problem { text, .. } => Ok(Work::Other(parse_problem(text)?.into())),
            _ => anyhow::bail!("expected a problem's text"),
        })?;
        let asked = |work: &Work| options.dtype.is_empty() || options.dtype.contains(&work.first().dtype());
        table.cases.retain(|case| asked(&case.work));
        return Ok(vec![table]);
    }
    let dtypes = if options.dtype.is_empty() { vec![suite.dtype] } else { options.dtype.clone() };
    let mut tables = Vec::new();
    for dtype in dtypes {
        if suite.kind() == Kind::Matmul {
            tables.push(table(suite, options, ("forward", "rows", Some(dtype)), &layers, |layer| {
                matmul(layer, dtype, options.math).map(Work::Matmul)
            })?);
            continue;
        }
        for &layout in &options.layout {
            for &pass in options.passes.iter().filter(|&&pass| dtype.is_general() || pass == Pass::Fprop) {
                tables.push(table(suite, options, (pass.name(), layout.name(), Some(dtype)), &layers, |layer| {
                    conv(layer, pass, (dtype, options.math), layout, options.batch.or(suite.batch)).map(Work::Conv)
                })?);
            }
        }
    }
    Ok(tables)
}

fn table(
    suite: &Suite,
    options: &Options,
    (pass, layout, dtype): (&'static str, &'static str, Option<DType>),
    layers: &[Layer],
    work: impl Fn(&Layer) -> Result<Work>,
) -> Result<Table> {
    let mut cases: Vec<Case> = Vec::new();
    for layer in layers {
        let work = work(layer).with_context(|| format!("{}: {}", suite.name, layer.name()))?;
        match cases.iter_mut().find(|case| case.work == work) {
            Some(case) => case.count += layer.count(),
            None => cases.push(Case { layer: layer.name().to_owned(), count: layer.count(), work }),
        }
    }
    let all = cases.len();
    cases.retain(|case| case.layer.contains(&options.filter) || case.work.problem().text().contains(&options.filter));
    let cases: Vec<Case> = cases.into_iter().skip(options.skip).take(options.limit.unwrap_or(usize::MAX)).collect();
    let is_whole = cases.len() == all;
    let name = match options.batch {
        Some(batch) if suite.kind() == Kind::Conv => format!("{}-batch{batch}", suite.name),
        _ => suite.name.to_owned(),
    };
    Ok(Table {
        suite: name,
        kind: suite.kind(),
        pass,
        dtype,
        math: options.math,
        layout,
        cases,
        chain: suite.chain && is_whole,
    })
}

/// The element type of a result that both sides can write, and that all of it fits.
fn written_type(dtype: DType) -> DType {
    match dtype {
        DType::I8 => DType::I32,
        DType::F8E4M3 | DType::F8E5M2 => DType::BF16,
        _ => dtype,
    }
}

/// The convolution of a layer.
///
/// A transposed convolution is the gradient by x of the convolution that its output would be the input of.
pub(crate) fn conv(
    layer: &Layer,
    pass: Pass,
    (dtype, math): (DType, Math),
    layout: Layout,
    batch: Option<i64>,
) -> Result<ConvProblem> {
    let Layer::Conv(layer) = layer else { anyhow::bail!("expected a convolution, given {}", layer.name()) };
    let n = batch.unwrap_or(layer.n);
    let dims = |channels: i64, extents: &[i64]| -> Vec<i64> { [&[n, channels], extents].concat() };
    let conv = ConvDesc::new()
        .padding(&layer.padding)
        .stride(&layer.stride)
        .dilation(&layer.dilation)
        .groups(layer.groups)
        .math(math);
    let (c, k, image, output, pass) = if layer.transposed {
        let pass = match pass {
            Pass::Fprop => Pass::Dgrad,
            Pass::Dgrad => Pass::Fprop,
            Pass::Wgrad => Pass::Wgrad,
        };
        (layer.k, layer.c, &layer.output, &layer.image, pass)
    } else {
        (layer.c, layer.k, &layer.image, &layer.output, pass)
    };
    let x = layout.desc(dtype, &dims(c, image))?;
    let w = layout.desc(dtype, &[&[k, c / layer.groups], &layer.filter[..]].concat())?;
    let y = layout.desc(written_type(dtype), &dims(k, output))?;
    Ok(match pass {
        Pass::Fprop => ConvProblem::fprop(&conv, &x, &w, &y)?,
        Pass::Dgrad => ConvProblem::dgrad(&conv, &y, &w, &x)?,
        Pass::Wgrad => ConvProblem::wgrad(&conv, &x, &y, &w)?,
    })
}

/// The matrix product of a layer. The layers' matrices are column-major, so that rows of ours are columns of theirs:
/// cᵀ = bᵀ aᵀ. Products of 8 bits have the sum contiguous in both factors, which is all that the peer takes.
pub(crate) fn matmul(layer: &Layer, dtype: DType, math: Math) -> Result<MatmulProblem> {
    let Layer::Gemm(layer) = layer else { anyhow::bail!("expected a matrix product, given {}", layer.name()) };
    let stored = |transposed: bool, rows: i64, columns: i64| {
        TensorDesc::packed(dtype, &if transposed { [columns, rows] } else { [rows, columns] })
    };
    let (transpose_a, transpose_b) =
        if dtype.is_general() { (layer.transpose_b, layer.transpose_a) } else { (false, true) };
    let a = stored(transpose_a, layer.n, layer.k)?;
    let b = stored(transpose_b, layer.k, layer.m)?;
    let c = TensorDesc::packed(written_type(dtype), &[layer.n, layer.m])?;
    let desc = MatmulDesc { transpose_a, transpose_b, math };
    Ok(desc.problem(&a, &b, &c)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suites::{SUITES, suite};
    use clap::Parser as _;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        options: Options,
    }

    fn options(words: &str) -> Options {
        Line::parse_from(["compare"].into_iter().chain(words.split_whitespace())).options
    }

    #[test]
    fn every_suite_gives_legal_problems() {
        for suite in &SUITES {
            for table in tables(suite, &options("--layout nhwc,nchw")).unwrap() {
                assert!(!table.cases.is_empty());
                for case in &table.cases {
                    let text = case.work.problem().text();
                    assert!(parse_problem(&text).is_ok(), "{text}");
                }
            }
        }
    }

    #[test]
    fn equal_layers_are_one_problem() {
        let table = &tables(&suite("vgg").unwrap(), &options("--passes fprop")).unwrap()[0];
        assert!(table.cases.len() < suite("vgg").unwrap().layers().unwrap().len());
        let total: u32 = table.cases.iter().map(|case| case.count).sum();
        let layers: u32 = suite("vgg").unwrap().layers().unwrap().iter().map(Layer::count).sum();
        assert_eq!(total, layers);
    }

    #[test]
    fn options_choose_problems() {
        let of = |name: &str, words: &str| tables(&suite(name).unwrap(), &options(words)).unwrap();
        let tables = of("resnet50", "--passes dgrad --layout nchw --dtype f16,f32 --batch 8 --filter res4 --limit 2");
        assert_eq!(tables.len(), 2);
        assert_eq!(tables[1].stem(), "resnet50-batch8-dgrad-f32-nchw");
        assert_eq!(tables[0].cases.len(), 2);
        let text = tables[0].cases[0].work.problem().text();
        assert!(text.starts_with("conv:dgrad") && text.contains("dy=8x1024x14x14:f16 "), "{text}");
        let one = of("resnet50_n1", "--passes fprop");
        assert!(one[0].cases[0].work.problem().text().contains("x=1x3x224x224:bf16:nhwc"));
        assert_eq!(of("deepbench_conv", "")[0].dtype, Some(DType::F16));
        assert_eq!(of("resnet50", "--passes fprop --skip 20")[0].cases.len(), 3);
    }

    #[test]
    fn transposed_convolutions_are_gradients() {
        let tables = tables(&suite("unet3d").unwrap(), &options("--filter up5.upsample")).unwrap();
        let text = |i: usize| -> String {
            let table: &Table = &tables[i];
            table.cases[0].work.problem().text()
        };
        assert!(text(0).starts_with("conv:dgrad"), "{}", text(0));
        assert!(text(0).contains("dx=2x32x128x128x128:bf16:nhwc"), "{}", text(0));
        assert!(text(1).starts_with("conv:fprop"));
        assert!(text(2).starts_with("conv:wgrad"));
    }

    #[test]
    fn column_major_products_are_ours_with_operands_exchanged() {
        let tables = tables(&suite("deepbench_gemm").unwrap(), &options("--limit 1")).unwrap();
        let Work::Matmul(problem) = &tables[0].cases[0].work else { panic!("expected a product") };
        assert_eq!((problem.gemm_m(), problem.gemm_n(), problem.gemm_k()), (16, 1760, 1760));
    }
}
