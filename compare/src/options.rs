//! What is compared, and how.

use crate::case::{Layout, Pass};
use oxidnn::{DType, Math};
use std::path::PathBuf;

/// What `oxidnn compare` takes.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// Suites of problems, one after the other; see --list
    pub suites: Vec<String>,
    /// List the suites and end
    #[arg(long)]
    pub list: bool,
    /// Print the problems that would be timed and end; needs no GPU
    #[arg(long)]
    pub problems: bool,
    /// Passes of convolutions
    #[arg(long, value_delimiter = ',', default_value = "fprop,dgrad,wgrad")]
    pub passes: Vec<Pass>,
    /// Element types: bf16, f16, f32; of fprop and products also i8 (to i32), f8e4m3, f8e5m2 (to bf16), products with the
    /// sum contiguous; the suite's own unless given
    #[arg(long, value_delimiter = ',')]
    pub dtype: Vec<DType>,
    /// How f32 is multiplied on both sides: full, tf32, or of convolutions also winograd4x4, by which our side may take
    /// larger tiles
    #[arg(long, default_value = "full")]
    pub math: Math,
    /// Layouts of images and filters
    #[arg(long, value_delimiter = ',', default_value = "nhwc")]
    pub layout: Vec<Layout>,
    /// Images of a batch, instead of the suite's own number
    #[arg(long)]
    pub batch: Option<i64>,
    /// Only problems whose text or layer contains this
    #[arg(long, default_value = "")]
    pub filter: String,
    /// Leave out the first so many problems of each table
    #[arg(long, default_value_t = 0)]
    pub skip: usize,
    /// At most so many problems of each table
    #[arg(long)]
    pub limit: Option<usize>,
    /// The folder for tables and plots; nothing is written without it
    #[arg(long)]
    pub out: Option<PathBuf>,
    /// Fewer turns, fewer of the peer's candidates, and results only checked by samples
    #[arg(long)]
    pub quick: bool,
    /// Only ours
    #[arg(long)]
    pub no_peer: bool,
    /// Start no problem after so many seconds
    #[arg(long)]
    pub time_budget: Option<f64>,
    /// Which of our kernels are tried: all that are able, or the heuristic's choice
    #[arg(long, value_enum, default_value_t = Algorithms::All)]
    pub algorithms: Algorithms,
    /// Only this algorithm or kernel of ours
    #[arg(long)]
    pub algorithm: Option<String>,
    /// libcudnn.so.9 or its folder; else OXIDNN_CUDNN, the loader's path, Python installations, CUDA toolkits
    #[arg(long)]
    pub cudnn: Option<PathBuf>,
    /// The Python that has PyTorch, the peer of operators other than products
    #[arg(long, default_value = "python3")]
    pub python: PathBuf,
    /// An earlier table, or a folder of them: the peer's best algorithms there are taken without a new search
    #[arg(long)]
    pub earlier: Option<PathBuf>,
    /// A table with columns problem and torch_us (benches/judge_pytorch.py), merged into ours
    #[arg(long)]
    pub judge: Option<PathBuf>,
    /// Instead of comparing: hold the estimates of an H200 against the times in what earlier runs with --verbose
    /// printed, and say how good the heuristic's choices are; needs no GPU. With --verbose, every candidate
    #[arg(long, num_args = 1..)]
    pub estimates: Vec<PathBuf>,
    /// Write the file of times that estimates are corrected by: with the times of the logs given to --estimates, and of
    /// what stands in the file if there is one, and with today's models
    #[arg(long)]
    pub calibrate: Option<PathBuf>,
    /// Print every candidate of either side with its time
    #[arg(long)]
    pub verbose: bool,
}

/// Which of our kernels are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Algorithms {
    /// Every one that is able; the best is reported, and the heuristic's choice beside it.
    All,
    /// The heuristic's choice.
    Heuristic,
}
