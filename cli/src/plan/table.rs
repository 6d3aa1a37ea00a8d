//! A network within many limits of workspace, by many policies, as a table.

use super::{Options, Sizes};
use anyhow::{Context as _, Result};
use oxidnn::driver::driver_version;
use oxidnn::{Context, Error, Network, NetworkChoice};
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

    /// The limit of workspace, of each layer or of all, that a limit in the table means.
    fn bytes(self, network: &Network, limit: u64) -> u64 {
        match self {
            Share::Each | Share::Total => limit,
            Share::TotalOfEach => limit.saturating_mul(network.layers().len() as u64),
        }
    }

    fn choose(self, network: &mut Network, limit: u64) -> Result<NetworkChoice, Error> {
        let bytes = self.bytes(network, limit);
        match self {
            Share::Each => network.reuse(bytes),
            Share::Total | Share::TotalOfEach => network.divide(bytes),
        }
    }

    /// Parts of all layers that were not measured as they should be.
    fn unmeasured(self, network: &mut Network, limit: u64) -> Result<usize, Error> {
        let (bytes, n_layers) = (self.bytes(network, limit), network.layers().len());
        (0..n_layers).map(|layer| Ok(network.divisions(layer, bytes)?.unmeasured)).sum()
    }
}

/// Writes a row for every policy, limit and way to share it, behind those that there are if it is to append. `make` makes
/// the network for a policy.
pub(super) fn write(
    path: &Path,
    options: &Options,
    context: &Context,
    provider: Option<&str>,
    mut make: impl FnMut(Sizes) -> Result<Network>,
) -> Result<()> {
    let driver = driver_version().unwrap_or(0);
    let provenance = Provenance {
        gpu: context.info().name.clone(),
        driver: format!("CUDA {}.{}", driver / 1000, driver % 1000 / 10),
        peer: provider.unwrap_or("none").to_owned(),
        copy_gbps: 0.0,
    };
    let writing = || format!("writing {}", path.display());
    let mut file = File::options()
        .create(true)
        .write(true)
        .append(options.append)
        .truncate(!options.append)
        .open(path)
        .with_context(writing)?;
    let is_new = file.metadata().with_context(writing)?.len() == 0;
    for (name, value) in provenance.lines().iter().filter(|(name, _)| *name != "copy") {
        writeln!(file, "# {name}: {value}")?;
    }
    writeln!(file, "# times: {}", if options.estimates { "estimated" } else { "measured" })?;
    let mut table = csv::Writer::from_writer(file);
    if is_new {
        table.write_record(COLUMNS)?;
    }
    // What is measured for the largest limit serves all others.
    let mut limits = options.limits.clone();
    limits.sort_unstable_by(|a, b| b.cmp(a));
    let algorithms = if options.algorithms.is_empty() { "all".to_owned() } else { options.algorithms.join("+") };
    for &policy in &options.policies {
        let mut network = make(policy)?;
        for &limit in &limits {
            for (share, share_name) in Share::ALL {
                let text = |option: Option<String>| option.unwrap_or_default();
                let us = |us: f64| format!("{us:.2}");
                let (undivided, micro, speedup, bytes) = match share.choose(&mut network, limit) {
                    Ok(choice) => {
                        let (undivided, micro) = (choice.undivided_us(), choice.time_us());
                        let speedup = undivided.map(|undivided| format!("{:.3}", undivided / micro));
                        (undivided.map(us), us(micro), speedup, choice.workspace_bytes.to_string())
                    }
                    // Empty cells: nothing computes the network so.
                    Err(Error::Unsupported { .. } | Error::WorkspaceTotal { .. }) => {
                        (None, String::new(), None, String::new())
                    }
                    Err(error) => return Err(error.into()),
                };
                table.write_record([
                    text(options.network.clone()),
                    text(options.batch.map(|batch| batch.to_string())),
                    text(options.dtype.map(|dtype| dtype.to_string())),
                    options.layout.name().to_owned(),
                    algorithms.clone(),
                    policy.sizes().name().to_owned(),
                    share_name.to_owned(),
                    limit.to_string(),
                    text(undivided),
                    micro,
                    text(speedup),
                    bytes,
                    share.unmeasured(&mut network, limit)?.to_string(),
                ])?;
                table.flush()?;
            }
        }
    }
    Ok(())
}
