//! `oxidnn plan`: the layers of a network within a limit of workspace, batches divided where that is faster.

mod draw;
mod report;
mod table;

use anyhow::{Context as _, Result, bail};
use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use oxidnn::operators::{AnyProblem, parse_problem};
use oxidnn::{
    Aim, BatchSizes, Context, DType, DeviceInfo, FindOptions, Math, Network, NetworkChoice, NonFinite, PlanRequest,
    Policy,
};
use oxidnn_compare::case::{Layout, Pass};
use oxidnn_compare::network::{Making, read};
use oxidnn_compare::peers::cudnn::CudnnProvider;
use report::Report;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What `oxidnn plan` takes.
#[derive(Args)]
pub struct Options {
    /// A suite of `oxidnn compare --list`, or a file of the same columns that ends in .csv; `:<variant>` behind it takes
    /// the rows with that in their first column
    #[arg(required_unless_present = "load")]
    network: Option<String>,
    /// Images of a batch, instead of the network's own number
    #[arg(long)]
    batch: Option<i64>,
    /// The most workspace, in bytes or with KiB, MiB, GiB behind the number
    #[arg(long, default_value = "64MiB", value_parser = bytes)]
    workspace: u64,
    /// The workspace is that of all layers together, each with a segment of its own, and not the limit of each
    #[arg(long)]
    total: bool,
    /// Which parts a batch may be divided into
    #[arg(long, value_enum, default_value_t = Sizes::PowerOfTwo)]
    policy: Sizes,
    /// Only these algorithms, by their names in `oxidnn info`; `provided` are a provider's
    #[arg(long, value_delimiter = ',')]
    algorithms: Vec<String>,
    /// Offer the algorithms of cuDNN, too; of the library at this path, or of one that is found
    #[arg(long)]
    cudnn: Option<Option<PathBuf>>,
    /// Measure on several GPUs of one kind: on all that the machine has, or on so many
    #[arg(long, conflicts_with_all = ["estimates", "load"])]
    gpus: Option<Gpus>,
    /// Begin no measurement after so many seconds, and choose among what is measured
    #[arg(long, conflicts_with_all = ["estimates", "load"])]
    time_budget: Option<f64>,
    /// Write a table of all `--limits`, of each layer and of all together, and all `--policies`, and print nothing; the
    /// rows of a policy are written when all are there
    #[arg(long, conflicts_with_all = ["load", "svg", "save", "json", "total"])]
    table: Option<PathBuf>,
    /// Add rows to the table that there is
    #[arg(long, requires = "table")]
    append: bool,
    /// The table's limits
    #[arg(long, value_delimiter = ',', default_value = "0,8MiB,64MiB,512MiB", value_parser = bytes)]
    limits: Vec<u64>,
    /// The table's policies
    #[arg(long, value_enum, value_delimiter = ',', default_value = "undivided,power-of-two")]
    policies: Vec<Sizes>,
    /// By estimates, without any work on the device
    #[arg(long)]
    estimates: bool,
    /// cpu, gpu, gpu:<ordinal>; the best there is unless given. With --estimates also h200, which need not be there
    #[arg(long)]
    device: Option<String>,
    /// Passes of convolutions
    #[arg(long, value_delimiter = ',', default_value = "fprop,dgrad,wgrad")]
    passes: Vec<Pass>,
    /// Element type; the suite's own unless given, of a file's layers f32
    #[arg(long)]
    dtype: Option<DType>,
    /// How f32 is multiplied: full, tf32, winograd4x4
    #[arg(long, default_value = "full")]
    math: Math,
    /// Layout of images and filters
    #[arg(long, value_enum, default_value_t = Layout::Nhwc)]
    layout: Layout,
    /// Only layers whose name or problem contains this
    #[arg(long, default_value = "")]
    filter: String,
    /// Write the fronts of time and workspace of every layer, and what was chosen, as a picture
    #[arg(long, conflicts_with = "load")]
    svg: Option<PathBuf>,
    /// Keep the choice in this file
    #[arg(long, conflicts_with = "load")]
    save: Option<PathBuf>,
    /// Read a choice that was kept, for the same device and library, instead of making one
    #[arg(long, conflicts_with = "network")]
    load: Option<PathBuf>,
    /// What infinities and NaNs of operands may reach: default, strict (what the formula says) or any
    #[arg(long, default_value_t, conflicts_with = "load")]
    nonfinite: NonFinite,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// [`BatchSizes`] as words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Sizes {
    /// The whole batch at once
    Undivided,
    /// Powers of two, and the whole batch
    PowerOfTwo,
    /// Any; measured are powers of two, and in rounds those others that the choice depends on
    All,
}

impl Sizes {
    fn sizes(self) -> BatchSizes {
        match self {
            Sizes::Undivided => BatchSizes::Undivided,
            Sizes::PowerOfTwo => BatchSizes::PowerOfTwo,
            Sizes::All => BatchSizes::All,
        }
    }
}

/// How many GPUs measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gpus {
    All,
    Some(usize),
}

impl FromStr for Gpus {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse() {
            _ if text == "all" => Ok(Gpus::All),
            Ok(n) if n > 0 => Ok(Gpus::Some(n)),
            _ => Err(format!("expected all or a number of GPUs, given {text:?}")),
        }
    }
}

/// A number of bytes, as in `64MiB`.
fn bytes(text: &str) -> Result<u64, String> {
    const UNITS: [(&str, u64); 4] = [("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30), ("B", 1)];
    let unit = UNITS.iter().find_map(|&(unit, size)| Some((text.strip_suffix(unit)?, size)));
    let (number, size) = unit.unwrap_or((text, 1));
    let parsed = number.trim().parse::<u64>().ok().and_then(|number| number.checked_mul(size));
    parsed.ok_or_else(|| format!("expected a number of bytes, as 1000 or 64MiB, given {text:?}"))
}

/// Chooses, and prints, draws and keeps the choice.
pub fn run(options: &Options) -> Result<()> {
    let context = device(options)?;
    let Some(network) = &options.network else { return load(options, &context) };
    let making = Making {
        passes: options.passes.clone(),
        batch: options.batch,
        dtype: options.dtype,
        math: options.math,
        layout: options.layout,
    };
    let mut layers = read(network, &making)?;
    layers.retain(|layer| layer.name.contains(&options.filter) || layer.problem.text().contains(&options.filter));
    if layers.is_empty() {
        bail!("{network}: expected a layer that contains {:?}, given none", options.filter);
    }
    let names: Vec<String> = layers.iter().map(|layer| layer.name.clone()).collect();
    let devices = others(options, &context)?;
    let provider = provider(options, &context, &devices)?;
    let bar = progress_bar();
    let find = find_options(options, &bar).devices(devices);
    let network = |sizes: Sizes| -> Result<Network> {
        let problems: Vec<Box<dyn AnyProblem>> =
            layers.iter().map(|layer| parse_problem(&layer.problem.text())).collect::<Result<_, _>>()?;
        let policy = if options.estimates { Policy::Heuristic } else { Policy::Find };
        let request = PlanRequest::from(policy).micro_batches(sizes.sizes()).find_options(find.clone());
        Ok(Network::new(&context, problems, request.nonfinite(options.nonfinite).only(&options.algorithms)))
    };
    if let Some(path) = &options.table {
        table::write(path, options, &context, provider.as_deref(), network)?;
        bar.finish_and_clear();
        return Ok(());
    }
    let mut network = network(options.policy)?;
    let aim = if options.total { Aim::Total(options.workspace) } else { Aim::Each(options.workspace) };
    let choice = network.choose(aim)?;
    bar.finish_and_clear();
    let report = Report::new(&context, &names, &choice).measured(network.effort(), network.unmeasured(aim)?);
    report.print(options.json)?;
    if let Some(path) = &options.svg {
        let fronts: Vec<_> =
            (0..names.len()).map(|layer| network.divisions(layer, options.workspace)).collect::<Result<_, _>>()?;
        draw::draw(path, &report, &fronts, &choice)?;
    }
    if let Some(path) = &options.save {
        std::fs::write(path, choice.to_text(&context)).with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(())
}

/// The GPUs that measure beside the context's.
fn others(options: &Options, context: &Context) -> Result<Vec<Context>> {
    let mut others = if options.gpus.is_some() { context.alike() } else { Vec::new() };
    if let Some(Gpus::Some(n)) = options.gpus {
        if n > 1 + others.len() {
            bail!("--gpus: expected at most {} of the kind of {}, given {n}", 1 + others.len(), context.info().name);
        }
        others.truncate(n - 1);
    }
    Ok(others)
}

/// Offers cuDNN's algorithms on all devices where they are asked for, and says whose they are.
fn provider(options: &Options, context: &Context, others: &[Context]) -> Result<Option<String>> {
    let Some(path) = &options.cudnn else { return Ok(None) };
    if options.estimates {
        bail!("--cudnn with --estimates: the times of another library's algorithms can only be measured");
    }
    let mut name = None;
    for context in others.iter().chain([context]) {
        let provider = CudnnProvider::new(context, path.as_deref())?;
        name = Some(provider.name());
        context.provide_convolutions(Arc::new(provider))?;
    }
    Ok(name)
}

fn device(options: &Options) -> Result<Context> {
    match options.device.as_deref() {
        Some("h200") if options.estimates || options.load.is_some() => Ok(Context::described(DeviceInfo::h200())),
        Some("h200") => bail!("--device h200: nothing is measured on a device that is only described; add --estimates"),
        word => crate::device(word),
    }
}

/// Prints a choice that was kept.
fn load(options: &Options, context: &Context) -> Result<()> {
    let Some(path) = &options.load else { bail!("expected a network or --load, given neither") };
    let text = std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    let choice = NetworkChoice::from_text(context, &text).with_context(|| format!("loading {}", path.display()))?;
    let names: Vec<String> = (1..=choice.layers.len()).map(|layer| format!("layer {layer}")).collect();
    Report::new(context, &names, &choice).print(options.json)
}

/// A bar over all parts that are measured; it shows itself with the first one.
fn progress_bar() -> ProgressBar {
    let bar = ProgressBar::hidden();
    let style = ProgressStyle::with_template("{elapsed_precise} {bar:30} {pos}/{len}, {eta} left: {wide_msg}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar
}

/// Find with a bar on the terminal, which says what is measured, and with an end.
fn find_options(options: &Options, bar: &ProgressBar) -> FindOptions {
    let bar = bar.clone();
    let find = FindOptions::new().observer(move |progress| {
        if bar.is_hidden() {
            bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        bar.set_length(progress.n_parts as u64);
        bar.set_position(progress.part as u64);
        bar.set_message(progress.problem.to_owned());
    });
    match options.time_budget.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()) {
        Some(budget) => find.until(Instant::now() + budget),
        None => find,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_units() {
        assert_eq!(bytes("64MiB"), Ok(64 << 20));
        assert_eq!(bytes("1000"), Ok(1000));
        assert_eq!(bytes("2 GiB"), Ok(2 << 30));
        assert!(bytes("64MB").unwrap_err().contains("64MB"));
        assert!(bytes("99999999999999GiB").is_err());
    }
}
