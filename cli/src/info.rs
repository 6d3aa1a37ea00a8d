//! `oxidnn info`.

use anyhow::Result;
use clap::Args;
use oxidnn::operators::operators;
use oxidnn::{Context, Image, embedded_modules, kernels_state};
use serde::Serialize;
use std::io::Write as _;

/// What `oxidnn info` takes.
#[derive(Args)]
pub struct Options {
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Load every module on the first GPU, and show what each was loaded from and how long that took
    #[arg(long)]
    load: bool,
}

#[derive(Serialize)]
struct Info {
    version: &'static str,
    devices: Vec<Device>,
    /// Why there is no GPU among the devices.
    no_gpu: Option<String>,
    driver: Option<u32>,
    kernels: Result<&'static str, &'static str>,
    /// Where the policy Find keeps its measurements on the first device.
    store: String,
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
    /// What it takes of this binary.
    packed_bytes: usize,
    /// Architectures that machine code is embedded for.
    cubins: Vec<&'static str>,
    /// What the first GPU takes: the machine code of this architecture, or `PTX`. None without a GPU that runs it.
    takes: Option<String>,
    /// With `--load`: how long it took.
    load_us: Option<f64>,
    /// With `--load`: why the driver did not take the machine code.
    cubin_refused: Option<String>,
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
    let info = collect(options.load)?;
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
        let Module { name, arch, kernels, .. } = module;
        let (ptx_kb, packed_kb) = (module.ptx_bytes / 1000, module.packed_bytes / 1000);
        write!(out, "  {name:<12} sm_{arch} {kernels:>4} kernels {ptx_kb:>6} KB of PTX in {packed_kb:>4}")?;
        if !module.cubins.is_empty() {
            write!(out, ", cubins {}", module.cubins.join(" "))?;
        }
        match (&module.takes, module.load_us) {
            (Some(takes), Some(us)) => write!(out, "; loaded from {takes} in {:.1} ms", us / 1e3)?,
            (Some(takes), None) => write!(out, "; loads from {takes}")?,
            (None, _) => {}
        }
        if let Some(reason) = &module.cubin_refused {
            write!(out, " (cubin refused: {reason})")?;
        }
        writeln!(out)?;
    }
    writeln!(out, "\nmeasurements of the policy find are kept {}", info.store)?;
    writeln!(out, "\noperators")?;
    for operator in &info.operators {
        writeln!(out, "  {:<12} {}", operator.name, operator.passes.join(", "))?;
        writeln!(out, "  {:<12} {}; {}", "", operator.dtypes.join(" "), operator.algorithms.join(", "))?;
    }
    Ok(())
}

fn collect(load: bool) -> Result<Info> {
    let contexts = Context::all();
    let gpu = contexts.iter().find(|context| context.is_gpu());
    if let (true, Some(gpu)) = (load, gpu) {
        gpu.load_all_modules()?;
    }
    let loaded = gpu.map(Context::loaded_modules).unwrap_or_default();
    let modules = embedded_modules()
        .iter()
        .map(|module| {
            let loaded = loaded.iter().find(|loaded| (loaded.name, loaded.arch) == (module.name, module.arch));
            let would_take = gpu.map(|gpu| gpu.info().compute_capability).filter(|&cc| module.runs_on(cc)).map(|cc| {
                let cubin = module.cubin_for(cc).map(|cubin| Image::Cubin(cubin.arch));
                cubin.unwrap_or(Image::Ptx).to_string()
            });
            Module {
                name: module.name,
                arch: module.arch,
                kernels: module.kernels.len(),
                ptx_bytes: module.ptx_bytes,
                packed_bytes: module.packed_bytes(),
                cubins: module.cubins.iter().map(|cubin| cubin.arch).collect(),
                takes: loaded.map(|loaded| loaded.image.to_string()).or(would_take),
                load_us: loaded.map(|loaded| loaded.load_us),
                cubin_refused: gpu.and_then(|gpu| gpu.cubin_refusal(module)),
            }
        })
        .collect();
    let devices = contexts
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
    Ok(Info {
        version: env!("CARGO_PKG_VERSION"),
        devices,
        no_gpu: Context::gpu(0).err().map(|e| e.to_string()),
        driver: oxidnn::driver::driver_version().ok(),
        kernels: kernels_state(),
        store: contexts.first().map(|context| context.store_status().to_string()).unwrap_or_default(),
        modules,
        operators: operators()
            .iter()
            .map(|operator| Operator {
                name: operator.name,
                passes: operator.passes.to_vec(),
                dtypes: operator.dtypes.iter().map(|dtype| dtype.name()).collect(),
                algorithms: operator.algorithms(),
            })
            .collect(),
    })
}
