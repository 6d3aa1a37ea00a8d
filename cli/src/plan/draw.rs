//! A picture of every layer: what time each amount of workspace buys, with and without dividing the batch.

use super::report::Report;
use anyhow::{Result, anyhow};
use oxidnn::{Division, Divisions, NetworkChoice};
use plotters::coord::Shift;
use plotters::prelude::*;
use std::path::Path;
use std::sync::Arc;

const COLUMNS: usize = 3;
const CELL: (u32, u32) = (420, 260);
const DIVIDED: RGBColor = RGBColor(30, 90, 190);
const WHOLE: RGBColor = RGBColor(150, 150, 150);
const CHOSEN: RGBColor = RGBColor(210, 60, 40);

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn = Result<(), Box<dyn std::error::Error>>;

/// Writes the picture; layers that are the same problem stand in it once.
pub(super) fn draw(path: &Path, report: &Report, fronts: &[Arc<Divisions>], choice: &NetworkChoice) -> Result<()> {
    let mut layers: Vec<(String, &Divisions, Vec<&Division>)> = Vec::new();
    for ((row, front), chosen) in report.layers.iter().zip(fronts).zip(&choice.layers) {
        match layers.iter_mut().find(|(_, other, _)| other.problem == front.problem) {
            Some((_, _, divisions)) => divisions.push(&chosen.division),
            None => {
                let pass = row.problem.split(' ').next().unwrap_or_default();
                layers.push((format!("{} {pass}: {}", row.name, row.split()), front, vec![&chosen.division]));
            }
        }
    }
    let rows = layers.len().div_ceil(COLUMNS);
    let size = (COLUMNS as u32 * CELL.0, rows as u32 * CELL.1);
    let root = SVGBackend::new(path, size).into_drawing_area();
    let all = || -> Drawn {
        root.fill(&WHITE)?;
        for (cell, (title, front, chosen)) in root.split_evenly((rows, COLUMNS)).iter().zip(&layers) {
            layer(cell, title, front, chosen)?;
        }
        Ok(root.present()?)
    };
    all().map_err(|e| anyhow!("writing {}: {e}", path.display()))
}

fn point(division: &Division) -> (f64, f64) {
    (division.workspace_bytes as f64 / f64::from(1 << 20), division.time_us())
}

fn layer(area: &Area<'_>, title: &str, divisions: &Divisions, chosen: &[&Division]) -> Drawn {
    let all = || divisions.front.iter().chain(&divisions.undivided).map(point);
    let most = all().map(|(mib, _)| mib).fold(0.0, f64::max);
    let (low, high) = all().fold((f64::INFINITY, 0.0), |(low, high): (f64, f64), (_, us)| (low.min(us), high.max(us)));
    let mut chart = ChartBuilder::on(area)
        .caption(title, ("sans-serif", 11))
        .margin(8)
        .x_label_area_size(32)
        .y_label_area_size(56)
        .build_cartesian_2d(-0.03 * most.max(1.0)..most.max(1.0) * 1.08, low * 0.9..high * 1.1)?;
    chart.configure_mesh().x_desc("workspace, MiB").y_desc("us").x_labels(5).y_labels(5).draw()?;
    for (list, colour) in [(&divisions.undivided, WHOLE), (&divisions.front, DIVIDED)] {
        let points: Vec<(f64, f64)> = list.iter().map(point).collect();
        chart.draw_series(LineSeries::new(points.iter().copied(), &colour))?;
        chart.draw_series(points.into_iter().map(|at| Circle::new(at, 2, colour.filled())))?;
    }
    chart.draw_series(chosen.iter().map(|division| Circle::new(point(division), 5, CHOSEN.stroke_width(2))))?;
    Ok(())
}
