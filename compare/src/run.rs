//! From options to tables.

use crate::case::{Table, tables};
use crate::contest::{chain, contest};
use crate::options::Options;
use crate::report::{Judge, Roofs, Row, Summary, Writer, markdown, plot};
use crate::session::Session;
use crate::suites::{Kind, SUITES, suite};
use anyhow::{Context as _, Result, bail};
use indicatif::{ProgressBar, ProgressStyle};
use oxidnn::{DType, Math};
use std::io::Write as _;
use std::path::Path;
use std::time::Instant;

/// Does what the options ask for; false when one of our results is wrong.
///
/// # Errors
/// Without a GPU, for an unknown suite, and when a table cannot be written. What goes wrong with one problem stands
/// in its row.
pub fn run(options: &Options) -> Result<bool> {
    let mut out = std::io::stdout().lock();
    if options.list {
        for suite in &SUITES {
            let problems = tables(suite, &Options { passes: options.passes[..1].to_vec(), ..options.clone() })?;
            let problems: usize = problems.iter().take(1).map(|table| table.cases.len()).sum();
            let what = match suite.kind() {
                Kind::Conv => format!("conv problems, {}", suite.dtype),
                Kind::Matmul => format!("matmul problems, {}", suite.dtype),
                Kind::Other => "problems of other operators".to_owned(),
            };
            let batch = suite.batch.map_or(String::new(), |batch| format!(", batch {batch}"));
            writeln!(out, "{:<24} {problems:>3} {what}{batch}", suite.name)?;
        }
        return Ok(true);
    }
    if let Some(path) = &options.calibrate {
        write!(out, "{}", crate::calibrate::write(&options.estimates, path)?)?;
        return Ok(true);
    }
    if !options.estimates.is_empty() {
        let report = crate::estimates::report(&options.estimates, options.verbose)?;
        write!(out, "{report}")?;
        return Ok(true);
    }
    if options.suites.is_empty() {
        bail!("expected a suite, given none; oxidnn compare --list names them");
    }
    let mut all = Vec::new();
    for name in &options.suites {
        all.extend(tables(&suite(name)?, options)?);
    }
    if options.problems {
        for case in all.iter().flat_map(|table| &table.cases) {
            writeln!(out, "{}", case.work.problem().text())?;
        }
        return Ok(true);
    }
    drop(out);
    let judge = options.judge.as_deref().map(Judge::read).transpose()?.unwrap_or_default();
    let kinds: Vec<Kind> = if options.no_peer { Vec::new() } else { all.iter().map(|table| table.kind).collect() };
    let session = Session::new(options, &kinds)?;
    if let Some(folder) = &options.out {
        std::fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
    }
    let start = Instant::now();
    let over = || options.time_budget.is_some_and(|seconds| start.elapsed().as_secs_f64() > seconds);
    let bar = progress(all.iter().map(|table| table.cases.len() as u64).sum());
    let mut summaries = Vec::new();
    let mut all_right = true;
    let mut left_out = 0;
    for table in &all {
        if table.cases.is_empty() || over() {
            left_out += table.cases.len();
            continue;
        }
        let provenance = session.provenance(table.kind);
        let place = |folder: &Path, ending: &str| folder.join(format!("{}.{ending}", table.stem()));
        let mut writer =
            options.out.as_deref().map(|folder| Writer::create(&place(folder, "csv"), &provenance)).transpose()?;
        show(&bar, &format!("{}, {}", table.stem(), provenance.peer));
        let mut rows: Vec<Row> = Vec::new();
        let mut layers = Vec::new();
        for case in &table.cases {
            if over() {
                left_out += table.cases.len() - rows.len();
                break;
            }
            bar.set_message(case.layer.clone());
            if options.verbose {
                show(&bar, &case.work.problem().text());
            }
            let (mut row, prepared) = contest(&session, table, case, options);
            layers.extend(prepared.filter(|_| table.chain));
            row.torch_us = judge.us(&row.problem);
            if let Some(writer) = &mut writer {
                writer.push(&row)?;
            }
            show(&bar, &row.line());
            bar.inc(1);
            all_right &= !(row.note.contains("WRONG") && row.ours_us.is_nan());
            rows.push(row);
            // A fault of one kernel is the end of the process's context; another process can go on.
            session.stream.synchronize().with_context(|| {
                let done = options.skip + rows.len();
                format!("the device is lost after {}; go on behind it with --skip {done}", case.work.problem().text())
            })?;
        }
        // Of single problems only: a chain is another kind of figure.
        let summary = Summary::new(&table.stem(), &rows);
        if table.chain && layers.len() == table.cases.len() {
            let layers: Vec<_> = rows.iter().zip(layers).collect();
            let row = chain(&session, table, &layers);
            if let Some(writer) = &mut writer {
                writer.push(&row)?;
            }
            show(&bar, &row.line());
            rows.push(row);
        }
        show(&bar, &summary.to_string());
        if let Some(folder) = &options.out {
            std::fs::write(place(folder, "md"), markdown(&provenance, &summary, &rows))?;
            plot(&place(folder, "svg"), &summary, &rows, roofs(&session, table))?;
        }
        summaries.push(summary);
    }
    bar.finish_and_clear();
    println!("\n{:.0} s", start.elapsed().as_secs_f64());
    for summary in &summaries {
        println!("{summary}");
    }
    if left_out > 0 {
        println!("{left_out} problems left out: the time was up");
    }
    Ok(all_right)
}

fn progress(problems: u64) -> ProgressBar {
    let bar = ProgressBar::new(problems);
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} {elapsed} eta {eta} {msg}") {
        bar.set_style(style);
    }
    bar
}

/// Prints a line above the bar; also where there is no terminal and so no bar.
fn show(bar: &ProgressBar, line: &str) {
    bar.suspend(|| println!("{line}"));
}

/// The plots' roofs: the copy that was measured, and the makers' figure for dense tensor cores on Hopper (SXM).
fn roofs(session: &Session, table: &Table) -> Roofs {
    let hopper = session.context.info().compute_capability == (9, 0);
    let math = table.math;
    let tflops = match table.dtype.unwrap_or(DType::F32) {
        DType::BF16 | DType::F16 if hopper => 989.4,
        DType::F32 if hopper && math == Math::Tf32 => 494.7,
        DType::F32 | DType::F64 if hopper => 66.9,
        DType::I8 | DType::F8E4M3 | DType::F8E5M2 if hopper => 1978.9,
        _ => f64::NAN,
    };
    Roofs { copy_gbps: session.copy_gbps, tflops }
}
