//! A network within many limits of workspace, by many policies, as a table.

use super::{Options, Sizes};
use anyhow::{Context as _, Result};
use oxidnn::driver::driver_version;
use oxidnn::{Aim, Context, Effort, Error, Network};
use oxidnn_compare::report::Provenance;
use std::fs::File;
use std::io::Write as _;
use std::path::Path;

const COLUMNS: [&str; 13] = [
    "network",
    "batch",
    "dtype",
    "layout",
    "algorithms",
    "policy",
    "share",
    "limit_bytes",
    "undivided_us",
    "micro_us",
    "speedup",
    "workspace_bytes",
    "unmeasured",
];

/// How a limit is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Share {
    /// Of each layer; all use one buffer in turn.
    Each,
    /// Of all layers together, a segment each.
    Total,
    /// As `Total`, so much for each layer on average.
    TotalOfEach,
}

impl Share {
    const ALL: [(Share, &'static str); 3] =
        [(Share::Each, "each"), (Share::Total, "total"), (Share::TotalOfEach, "total_of_each")];

    /// What a limit in the table means.
    fn aim(self, network: &Network, limit: u64) -> Aim {
        match self {
            Share::Each => Aim::Each(limit),
            Share::Total => Aim::Total(limit),
            Share::TotalOfEach => Aim::Total(limit.saturating_mul(network.layers().len() as u64)),
        }
    }
}

/// Writes a row for every policy, limit and way to share it, behind those that there are if it is to append. `make` makes
/// the network for a policy. The rows of a policy are written when all of them are there.
pub(super) fn write(
    path: &Path,
    options: &Options,
    context: &Context,
    provider: Option<&str>,
    mut make: impl FnMut(Sizes) -> Result<Network>,
) -> Result<()> {
    let writing = || format!("writing {}", path.display());
    // What cannot be written is better known before measurements than behind them.
    let open = || File::options().create(true).append(true).open(path).with_context(writing);
    let mut file = open()?;
    let mut head = head(options, context, provider)?;
    if !options.append || file.metadata().with_context(writing)?.len() == 0 {
        head.extend_from_slice(&lines([COLUMNS.map(str::to_owned)])?);
    }
    for &policy in &options.policies {
        let group = [std::mem::take(&mut head), group(options, policy, make(policy)?)?].concat();
        if policy == options.policies[0] && !options.append {
            file.set_len(0).with_context(writing)?;
        }
        file.write_all(&group).with_context(writing)?;
    }
    Ok(())
}

/// What was done where, as comments.
fn head(options: &Options, context: &Context, provider: Option<&str>) -> Result<Vec<u8>> {
    let driver = driver_version().unwrap_or(0);
    let provenance = Provenance {
        gpu: context.info().name.clone(),
        driver: format!("CUDA {}.{}", driver / 1000, driver % 1000 / 10),
        peer: provider.unwrap_or("none").to_owned(),
        copy_gbps: 0.0,
    };
    let mut head = Vec::new();
    for (name, value) in provenance.lines().iter().filter(|(name, _)| *name != "copy") {
        writeln!(head, "# {name}: {value}")?;
    }
    writeln!(head, "# times: {}", if options.estimates { "estimated" } else { "measured" })?;
    Ok(head)
}

/// Rows as text.
fn lines<const N: usize>(rows: impl IntoIterator<Item = [String; N]>) -> Result<Vec<u8>> {
    let mut table = csv::Writer::from_writer(Vec::new());
    for row in rows {
        table.write_record(row)?;
    }
    Ok(table.into_inner()?)
}

/// All rows of a policy, with what was measured for them.
fn group(options: &Options, policy: Sizes, mut network: Network) -> Result<Vec<u8>> {
    // What is measured for the largest limit serves all others.
    let mut limits = options.limits.clone();
    limits.sort_unstable_by(|a, b| b.cmp(a));
    let algorithms = if options.algorithms.is_empty() { "all".to_owned() } else { options.algorithms.join("+") };
    let aims: Vec<(u64, &str, Aim)> = (limits.iter())
        .flat_map(|&limit| Share::ALL.map(|(share, name)| (limit, name, share.aim(&network, limit))))
        .collect();
    network.measure(&aims.iter().map(|&(_, _, aim)| aim).collect::<Vec<_>>())?;
    let mut rows = Vec::new();
    for (limit, share, aim) in aims {
        let text = |option: Option<String>| option.unwrap_or_default();
        let us = |us: f64| format!("{us:.2}");
        let (undivided, micro, speedup, bytes) = match network.choose(aim) {
            Ok(choice) => {
                let (undivided, micro) = (choice.undivided_us(), choice.time_us());
                let speedup = undivided.map(|undivided| format!("{:.3}", undivided / micro));
                (undivided.map(us), us(micro), speedup, choice.workspace_bytes.to_string())
            }
            // Empty cells: nothing computes the network so.
            Err(Error::Unsupported { .. } | Error::WorkspaceTotal { .. }) => (None, String::new(), None, String::new()),
            Err(error) => return Err(error.into()),
        };
        rows.push([
            text(options.network.clone()),
            text(options.batch.map(|batch| batch.to_string())),
            text(options.dtype.map(|dtype| dtype.to_string())),
            options.layout.name().to_owned(),
            algorithms.clone(),
            policy.sizes().name().to_owned(),
            share.to_owned(),
            limit.to_string(),
            text(undivided),
            micro,
            text(speedup),
            bytes,
            network.unmeasured(aim)?.to_string(),
        ]);
    }
    let Effort { rounds, parts } = network.effort();
    let effort = format!("# measured for {algorithms}, {}: {parts} parts in {rounds} rounds\n", policy.sizes().name());
    Ok([if parts > 0 { effort.into_bytes() } else { Vec::new() }, lines(rows)?].concat())
}
