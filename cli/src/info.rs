//! `oxidnn info`.

use anyhow::Result;
use clap::Args;
use oxidnn::operators::operators;
use oxidnn::{Context, embedded_modules, kernels_state};
use serde::Serialize;
use std::io::Write as _;

/// What `oxidnn info` takes.
#[derive(Args)]
pub struct Options {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Info {
    version: &'static str,
    devices: Vec<Device>,
    /// Why there is no GPU among the devices.
    no_gpu: Option<String>,
    driver: Option<u32>,
    kernels: Result<&'static str, &'static str>,
    modules: Vec<Module>,
    operators: Vec<Operator>,
}

#[derive(Serialize)]
struct Device {
    name: String,
    compute_capability: Option<String>,
    memory_bytes: Option<u64>,
    multiprocessors: Option<usize>,
}

#[derive(Serialize)]
struct Module {
    name: &'static str,
    arch: u32,
    kernels: usize,
    ptx_bytes: usize,
}

#[derive(Serialize)]
struct Operator {
    name: &'static str,
    passes: Vec<&'static str>,
    dtypes: Vec<&'static str>,
    algorithms: Vec<&'static str>,
}

/// Shows devices, kernels and operators.
pub fn run(options: &Options) -> Result<()> {
    let info = collect();
    let mut out = std::io::stdout().lock();
    if options.json {
        serde_json::to_writer_pretty(&mut out, &info)?;
        writeln!(out)?;
        return Ok(());
    }
    writeln!(out, "oxidnn {}", info.version)?;
    writeln!(out, "\ndevices")?;
    for device in &info.devices {
        write!(out, "  {}", device.name)?;
        if let (Some(capability), Some(bytes), Some(sms)) =
            (&device.compute_capability, device.memory_bytes, device.multiprocessors)
        {
            write!(out, ": compute capability {capability}, {sms} SMs, {:.0} GiB", bytes as f64 / f64::from(1 << 30))?;
        }
        writeln!(out)?;
    }
    if let Some(driver) = info.driver {
        writeln!(out, "  CUDA driver {}.{}", driver / 1000, driver % 1000 / 10)?;
    }
    if let Some(reason) = &info.no_gpu {
        writeln!(out, "  no GPU: {reason}")?;
    }
    match info.kernels {
        Ok(origin) => writeln!(out, "\nkernels ({origin})")?,
        Err(reason) => writeln!(out, "\nno kernels: {reason}")?,
    }
    for module in &info.modules {
        let Module { name, arch, kernels, ptx_bytes } = module;
        writeln!(out, "  {name:<12} sm_{arch} {kernels:>4} kernels {:>6} KB of PTX", ptx_bytes / 1000)?;
    }
    writeln!(out, "\noperators")?;
    for operator in &info.operators {
        writeln!(out, "  {:<12} {}", operator.name, operator.passes.join(", "))?;
        writeln!(out, "  {:<12} {}; {}", "", operator.dtypes.join(" "), operator.algorithms.join(", "))?;
    }
    Ok(())
}

fn collect() -> Info {
    let devices = Context::all()
        .iter()
        .map(|context| {
            let info = context.info();
            let (major, minor) = info.compute_capability;
            Device {
                name: info.name.clone(),
                compute_capability: context.is_gpu().then(|| format!("{major}.{minor}")),
                memory_bytes: context.is_gpu().then_some(info.memory_bytes),
                multiprocessors: context.is_gpu().then_some(info.n_units),
            }
        })
        .collect();
    Info {
        version: env!("CARGO_PKG_VERSION"),
        devices,
        no_gpu: Context::gpu(0).err().map(|e| e.to_string()),
        driver: oxidnn::driver::driver_version().ok(),
        kernels: kernels_state(),
        modules: embedded_modules()
            .iter()
            .map(|module| Module {
                name: module.name,
                arch: module.arch,
                kernels: module.kernels.len(),
                ptx_bytes: module.ptx.len(),
            })
            .collect(),
        operators: operators()
            .iter()
            .map(|operator| Operator {
                name: operator.name,
                passes: operator.passes.to_vec(),
                dtypes: operator.dtypes.iter().map(|dtype| dtype.name()).collect(),
                algorithms: operator.algorithms(),
            })
            .collect(),
    }
}
