//! PyTorch, in a process of its own that does its turns when it is asked to.
//!
//! `judge_pytorch.py --serve` records a problem as a CUDA graph over operands of its own and then replays it at each
//! request, timed by its own events. While it works we wait, and while we work it waits, so that neither takes
//! anything from the other.

use anyhow::{Context as _, Result, bail};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

const SCRIPT: &str = "judge_pytorch.py";

/// The process.
#[derive(Debug)]
pub(crate) struct Torch {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    name: String,
}

impl Torch {
    /// Starts it; `python` is an interpreter that has PyTorch.
    pub(crate) fn start(python: &Path) -> Result<Self> {
        let script = script()?;
        let mut child = Command::new(python)
            .arg(&script)
            .arg("--serve")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("starting {} {}", python.display(), script.display()))?;
        let (to, from) = (child.stdin.take().context("a pipe")?, child.stdout.take().context("a pipe")?);
        let mut torch = Torch { child, to, from: BufReader::new(from), name: String::new() };
        torch.name = torch.answer()?;
        Ok(torch)
    }

    /// Name and version.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Takes up a problem in the last one's place; an error says why it cannot.
    pub(crate) fn prepare(&mut self, problem: &str) -> Result<()> {
        let answer = self.ask(&format!("problem {problem}"))?;
        match answer.strip_prefix("ready") {
            Some(_) => Ok(()),
            None => bail!("{answer}"),
        }
    }

    /// Microseconds of one call, of a turn of many.
    pub(crate) fn turn(&mut self) -> Result<f64> {
        let answer = self.ask("turn")?;
        answer.parse().with_context(|| format!("expected a time, given {answer:?}"))
    }

    fn ask(&mut self, request: &str) -> Result<String> {
        writeln!(self.to, "{request}").and_then(|()| self.to.flush()).context("asking PyTorch")?;
        self.answer()
    }

    fn answer(&mut self) -> Result<String> {
        let mut line = String::new();
        if self.from.read_line(&mut line).context("PyTorch's answer")? == 0 {
            bail!("PyTorch's process ended; it says why above");
        }
        Ok(line.trim().to_owned())
    }
}

impl Drop for Torch {
    fn drop(&mut self) {
        // It ends by itself when its input does; a failure at this point is no news.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The script beside the bundle's folder of binaries, or in the workspace.
fn script() -> Result<PathBuf> {
    let binary = std::env::current_exe().context("the binary's own path")?;
    let bundled = binary.ancestors().skip(1).take(2).map(|folder| folder.join(SCRIPT));
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../benches").join(SCRIPT);
    let mut places = bundled.chain([source]);
    places.find(|path| path.is_file()).with_context(|| format!("expected {SCRIPT} beside the bundle's folder bin"))
}
