//! The project's chores, as `cargo xtask <chore>`.

mod artifact;
mod build_ptx;
mod demo;
mod gpu_bundle;
mod onnx;
mod process;
mod setup;
mod simulate;
mod test;
mod tidy;

use anyhow::Result;
use clap::{Parser, Subcommand};
use std::path::Path;

/// The project's chores.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Install what building kernels needs: a rustc with the source of core, LLVM's tools, ptxas; fetch ONNX's cases
    Setup,
    /// Compile the kernels into kernels-gpu/ptx, checking every one, and print what each needs
    BuildPtx {
        /// Only check: that the committed files are those of the sources, and that a new build passes every gate
        #[arg(long)]
        check: bool,
        /// Compile and check these families of kernels alone (their symbols' first words), into target/kernels/only
        #[arg(long, value_delimiter = ',', conflicts_with = "check")]
        only: Vec<String>,
        /// Also make cubins beside the PTX, which are not committed: with the library's feature `cubin` they spare
        /// the driver the compilation
        #[arg(long, conflicts_with_all = ["check", "only"])]
        cubin: bool,
    },
    /// Print the PTX of a kernel, or of all whose symbols begin so
    Ptx {
        /// The symbol, such as softmax_forward_naive_f32
        symbol: String,
    },
    /// Run every test of the workspace; on the GPU too, where there is one
    Test {
        /// Leave out the build of the kernels and its gates
        #[arg(long)]
        no_kernels: bool,
        /// Where there is no GPU, run the tests that need one on a simulated device
        #[arg(long)]
        simulate: bool,
    },
    /// Run the GPU tests on a simulated device: the arguments choose among them; or any command
    Simulate {
        /// The arguments are a command, which finds the simulator where it looks for the driver
        #[arg(long)]
        run: bool,
        /// Passed on
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Run ONNX's node tests on every device and hold the results against docs/onnx.md
    Onnx {
        /// Passed on: words that cases' names contain, --device, --write-docs
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Train the digits network on the best device and write a report
    Demo {
        /// Passed on to `oxidnn train`
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Write gpu-bundle/: everything needed to test and bench on a machine that has only a driver
    GpuBundle {
        /// With the cubins that `build-ptx --cubin` made; OXIDNN_CUBIN=off leaves them alone there
        #[arg(long)]
        cubin: bool,
    },
    /// Check the rules of ARCHITECTURE.md that a compiler does not know
    Tidy,
}

fn main() -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."));
    match Cli::parse().chore {
        Chore::Setup => setup::run(root),
        Chore::BuildPtx { check: false, cubin, only } => build_ptx::run(root, cubin, only),
        Chore::BuildPtx { check: true, .. } => build_ptx::check(root),
        Chore::Ptx { symbol } => build_ptx::show(root, &symbol),
        Chore::Test { no_kernels, simulate } => test::run(root, !no_kernels, simulate),
        Chore::Simulate { run, args } => simulate::run(root, run, &args),
        Chore::Onnx { args } => onnx::run(root, &args),
        Chore::Demo { args } => demo::run(root, &args),
        Chore::GpuBundle { cubin } => gpu_bundle::run(root, cubin),
        Chore::Tidy => tidy::run(root),
    }
}
