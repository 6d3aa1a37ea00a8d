//! `oxidnn train`: a small convolutional network on handwritten digits, through the library's public API.

mod data;
mod network;
mod report;

use anyhow::{Result, bail};
use clap::Args;
use data::{CLASSES, Digit, PIXELS, SIDE};
use indicatif::{ProgressBar, ProgressStyle};
use network::{Network, Optimizer, Value};
use rand::SeedableRng as _;
use rand::seq::SliceRandom as _;
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::Serialize;
use std::io::Write as _;
use std::path::PathBuf;
use std::time::Instant;

/// What `oxidnn train` takes.
#[derive(Args)]
pub struct Options {
    /// cpu, gpu or gpu:<ordinal>; the best there is unless given
    #[arg(long)]
    device: Option<String>,
    /// Rounds through the training set
    #[arg(long, default_value_t = 20)]
    epochs: usize,
    /// Digits of a step
    #[arg(long, default_value_t = 32)]
    batch: usize,
    /// Where split, initial weights and order come from
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Learning rate; halved after each quarter of the epochs
    #[arg(long, default_value_t = 0.05)]
    lr: f64,
    /// Where the report with curves and misclassified digits goes
    #[arg(long, default_value = "report.svg")]
    report: PathBuf,
    /// Print the outcome as JSON, and no progress
    #[arg(long)]
    json: bool,
}

/// What an epoch brought.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Epoch {
    /// Mean loss over the training set, as it went.
    pub loss: f64,
    /// Share of the test set classified right, after it.
    pub test_accuracy: f64,
}

/// A digit classified wrongly.
pub struct Mistake<'a> {
    /// The digit.
    pub digit: &'a Digit,
    /// What it was taken for.
    pub predicted: usize,
}

#[derive(Serialize)]
struct Outcome {
    device: String,
    epochs: Vec<Epoch>,
    test_accuracy: f64,
    test_digits: usize,
    seconds: f64,
    images_per_second: f64,
    report: PathBuf,
}

const OPTIMIZER: Optimizer = Optimizer { momentum: 0.9, weight_decay: 1e-4 };

/// Trains, prints the outcome and writes the report.
pub fn run(options: &Options) -> Result<()> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(options.seed);
    let (mut train, test) = data::split(&mut rng)?;
    if options.epochs == 0 || options.batch == 0 || options.batch > train.len() {
        let (epochs, batch, n) = (options.epochs, options.batch, train.len());
        bail!("expected at least 1 epoch and a batch of 1 to {n}, given {epochs} and {batch}");
    }
    let context = crate::device(options.device.as_deref())?;
    let mut model = Model::new(&context, options.batch, Xoshiro256PlusPlus::seed_from_u64(options.seed ^ 1))?;
    let steps = train.len() / options.batch;
    let bar = if options.json { ProgressBar::hidden() } else { progress_bar(options.epochs * steps)? };
    let start = Instant::now();
    let mut epochs = Vec::new();
    let mut seen = 0;
    for epoch in 0..options.epochs {
        train.shuffle(&mut rng);
        let rate = options.lr * 0.5f64.powi((4 * epoch / options.epochs) as i32);
        let mut loss = 0.0;
        // What is left of the last batch gets its turn in another order.
        for batch in train.chunks_exact(options.batch) {
            loss += model.step(batch, rate)? / steps as f64;
            seen += batch.len();
            bar.set_message(format!(
                "epoch {}/{} {:.0} images/s",
                epoch + 1,
                options.epochs,
                seen as f64 / start.elapsed().as_secs_f64()
            ));
            bar.inc(1);
        }
        let wrong = model.mistakes(&test)?.len();
        let test_accuracy = 1.0 - wrong as f64 / test.len() as f64;
        bar.set_prefix(format!("loss {loss:.4} test {:.1} %", 100.0 * test_accuracy));
        epochs.push(Epoch { loss, test_accuracy });
    }
    let seconds = start.elapsed().as_secs_f64();
    bar.finish();
    let mistakes = model.mistakes(&test)?;
    let device = context.info().name.clone();
    report::write(&options.report, &device, &epochs, &mistakes)?;
    let outcome = Outcome {
        device,
        test_accuracy: 1.0 - mistakes.len() as f64 / test.len() as f64,
        test_digits: test.len(),
        epochs,
        seconds,
        images_per_second: seen as f64 / seconds,
        report: options.report.clone(),
    };
    print(&outcome, options.json)
}

fn progress_bar(steps: usize) -> Result<ProgressBar> {
    let style = ProgressStyle::with_template("{bar:30} {percent:>3} % {msg} {prefix}")?;
    Ok(ProgressBar::new(steps as u64).with_style(style))
}

fn print(outcome: &Outcome, json: bool) -> Result<()> {
    let mut out = std::io::stdout().lock();
    if json {
        serde_json::to_writer_pretty(&mut out, outcome)?;
        writeln!(out)?;
        return Ok(());
    }
    let Outcome { device, test_accuracy, test_digits, seconds, images_per_second, report, .. } = outcome;
    writeln!(out, "device         {device}")?;
    writeln!(out, "training       {seconds:.1} s, {images_per_second:.0} images/s")?;
    writeln!(out, "test accuracy  {:.2} % of {test_digits} digits", 100.0 * test_accuracy)?;
    writeln!(out, "report         {}", report.display())?;
    Ok(())
}

/// A network in the manner of LeNet-5, for 8×8 pixels.
struct Model {
    network: Network,
    batch: usize,
    x: Value,
    /// Logarithms of class probabilities.
    y: Value,
}

impl Model {
    fn new(context: &oxidnn::Context, batch: usize, rng: Xoshiro256PlusPlus) -> Result<Self> {
        let mut network = Network::new(context, rng, OPTIMIZER)?;
        let x = network.input(&[batch as i64, 1, SIDE as i64, SIDE as i64])?;
        let h = network.conv(x, 16, 3, 1)?;
        let h = network.relu(h)?;
        let h = network.max_pool(h)?;
        let h = network.conv(h, 32, 3, 1)?;
        let h = network.relu(h)?;
        let h = network.max_pool(h)?;
        let h = network.linear(h, 64)?;
        let h = network.relu(h)?;
        let h = network.linear(h, CLASSES as i64)?;
        let y = network.log_softmax(h)?;
        Ok(Model { network, batch, x, y })
    }

    /// One step of training on a whole batch; gives the mean negative log likelihood before it.
    fn step(&mut self, digits: &[Digit], rate: f64) -> Result<f64> {
        let log_probabilities = self.predict(digits)?;
        let share = 1.0 / digits.len() as f32;
        let mut dy = vec![0.0; log_probabilities.len()];
        let mut loss = 0.0;
        for (i, digit) in digits.iter().enumerate() {
            let at = i * CLASSES + digit.label;
            loss -= f64::from(log_probabilities[at] * share);
            dy[at] = -share;
        }
        self.network.learn((self.y, &dy), rate)?;
        Ok(loss)
    }

    /// The digits that are taken for another.
    fn mistakes<'a>(&mut self, digits: &'a [Digit]) -> Result<Vec<Mistake<'a>>> {
        let mut mistakes = Vec::new();
        for batch in digits.chunks(self.batch) {
            let log_probabilities = self.predict(batch)?;
            for (digit, scores) in batch.iter().zip(log_probabilities.chunks(CLASSES)) {
                let predicted = (0..CLASSES).max_by(|&a, &b| scores[a].total_cmp(&scores[b])).unwrap_or(0);
                if predicted != digit.label {
                    mistakes.push(Mistake { digit, predicted });
                }
            }
        }
        Ok(mistakes)
    }

    /// Scores of at most a batch of digits; what is missing from a batch is blank.
    fn predict(&mut self, digits: &[Digit]) -> Result<Vec<f32>> {
        let mut pixels: Vec<f32> = digits.iter().flat_map(|digit| digit.pixels).collect();
        pixels.resize(self.batch * PIXELS, 0.0);
        self.network.predict((self.x, &pixels), self.y)
    }
}
