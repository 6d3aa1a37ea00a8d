//! A network within many limits of workspace, by many policies, as a table.

use super::{Options, Sizes};
use anyhow::{Context as _, Result};
use oxidnn::driver::driver_version;
use oxidnn::{Context, Error, Network, NetworkChoice};
use oxidnn_compare::report::Provenance;
use std::io::Write as _;
use std::path::Path;

const COLUMNS: [&str; 12] = [
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

    fn choose(self, network: &mut Network, limit: u64) -> Result<NetworkChoice, Error> {
        match self {
            Share::Each => network.reuse(limit),
            Share::Total => network.divide(limit),
            Share::TotalOfEach => {
                let n_layers = network.layers().len() as u64;
                network.divide(limit.saturating_mul(n_layers))
            }
        }
    }
}

/// Writes a row for every policy, limit and way to share it. `make` makes the network for a policy.
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
    let mut file = std::fs::File::create(path).with_context(|| format!("writing {}", path.display()))?;
    for (name, value) in provenance.lines().iter().filter(|(name, _)| *name != "copy") {
        writeln!(file, "# {name}: {value}")?;
    }
    writeln!(file, "# times: {}", if options.estimates { "estimated" } else { "measured" })?;
    let mut table = csv::Writer::from_writer(file);
    table.write_record(COLUMNS)?;
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
                ])?;
                table.flush()?;
            }
        }
    }
    Ok(())
}
