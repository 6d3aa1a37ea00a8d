//! A table as a picture: the ratio of every problem, and both sides under the machine's roofs.

use super::row::Row;
use super::summary::Summary;
use anyhow::{Result, anyhow};
use plotters::coord::Shift;
use plotters::prelude::*;
use std::path::Path;

const WIDTH: u32 = 1280;
const RATIO_HEIGHT: u32 = 420;
const ROOFLINE_HEIGHT: u32 = 460;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn = Result<(), Box<dyn std::error::Error>>;

/// What the machine can do at most.
#[derive(Clone, Copy, Debug)]
pub struct Roofs {
    /// Bytes of a plain copy, in GB/s.
    pub copy_gbps: f64,
    /// Arithmetic of the element type, in TFLOP/s; NaN where not known.
    pub tflops: f64,
}

/// Writes the picture.
///
/// # Errors
/// When it cannot be written.
pub fn plot(path: &Path, summary: &Summary, rows: &[Row], roofs: Roofs) -> Result<()> {
    let compared: Vec<&Row> = rows.iter().filter(|row| row.ours_us.is_finite()).collect();
    if compared.is_empty() {
        return Ok(());
    }
    let root = SVGBackend::new(path, (WIDTH, RATIO_HEIGHT + ROOFLINE_HEIGHT)).into_drawing_area();
    let draw = || -> Drawn {
        root.fill(&WHITE)?;
        let (upper, lower) = root.split_vertically(RATIO_HEIGHT);
        ratios(&upper, summary, &compared)?;
        roofline(&lower, &compared, roofs)?;
        Ok(root.present()?)
    };
    draw().map_err(|e| anyhow!("writing {}: {e}", path.display()))
}

/// A span that holds all values with some room, of a logarithmic axis.
fn span(values: impl Iterator<Item = f64>) -> std::ops::Range<f64> {
    let (low, high) = values
        .filter(|value| value.is_finite() && *value > 0.0)
        .fold((f64::INFINITY, 0.0f64), |(low, high), value| (low.min(value), high.max(value)));
    if high > 0.0 { low * 0.8..high * 1.25 } else { 0.5..2.0 }
}

fn ratios(area: &Area<'_>, summary: &Summary, rows: &[&Row]) -> Drawn {
    let y = span(rows.iter().map(|row| row.ratio()).chain([0.9, 1.5]));
    let mut chart = ChartBuilder::on(area)
        .caption(format!("{summary}"), ("sans-serif", 15))
        .margin(12)
        .x_label_area_size(30)
        .y_label_area_size(56)
        .build_cartesian_2d(-0.5..rows.len() as f64 - 0.5, y.log_scale())?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .x_desc("problem, in the table's order")
        .y_desc("peer's time / ours")
        .x_label_formatter(&|x| format!("{x:.0}"))
        .y_label_formatter(&|y| format!("{y:.2}"))
        .draw()?;
    for (i, row) in rows.iter().enumerate().filter(|(_, row)| row.ratio().is_finite()) {
        let colour = if row.ratio() >= 1.0 { RGBColor(40, 120, 60) } else { RGBColor(190, 40, 40) };
        let (left, right) = (i as f64 - 0.35, i as f64 + 0.35);
        chart.draw_series([Rectangle::new([(left, 1.0), (right, row.ratio())], colour.filled())])?;
    }
    chart.draw_series(LineSeries::new([(-0.5, 1.0), (rows.len() as f64 - 0.5, 1.0)], &BLACK))?;
    Ok(())
}

fn roofline(area: &Area<'_>, rows: &[&Row], roofs: Roofs) -> Drawn {
    let intensity = |row: &Row| row.flops / row.bytes;
    let rate = |row: &Row, us: f64| row.flops / us / 1e6;
    let x = span(rows.iter().map(|row| intensity(row)));
    let rates = rows.iter().flat_map(|row| [rate(row, row.ours_us), rate(row, row.peer_us)]);
    let y = span(rates.chain([roofs.tflops]));
    let mut chart = ChartBuilder::on(area)
        .caption("roofline: ours blue, peer orange", ("sans-serif", 15))
        .margin(12)
        .x_label_area_size(36)
        .y_label_area_size(56)
        .build_cartesian_2d(x.clone().log_scale(), y.clone().log_scale())?;
    chart
        .configure_mesh()
        .x_desc("operations / byte of the operands")
        .y_desc("TFLOP/s")
        .x_label_formatter(&|x| format!("{x:.0}"))
        .y_label_formatter(&|y| format!("{y:.0}"))
        .draw()?;
    const STEPS: i32 = 200;
    let roof = (0..=STEPS).filter_map(|step| {
        let at = x.start * (x.end / x.start).powf(f64::from(step) / f64::from(STEPS));
        let reached = (at * roofs.copy_gbps / 1e3).min(roofs.tflops);
        y.contains(&reached).then_some((at, reached))
    });
    chart.draw_series(LineSeries::new(roof, &BLACK))?;
    for (us, colour) in
        [(peer_us as fn(&Row) -> f64, RGBColor(230, 130, 30)), (ours_us as fn(&Row) -> f64, RGBColor(30, 90, 190))]
    {
        let points = rows.iter().map(|row| (intensity(row), rate(row, us(row))));
        let points = points.filter(|(x, y)| x.is_finite() && y.is_finite());
        chart.draw_series(points.map(|point| Circle::new(point, 3, colour.filled())))?;
    }
    Ok(())
}

fn ours_us(row: &Row) -> f64 {
    row.ours_us
}

fn peer_us(row: &Row) -> f64 {
    row.peer_us
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_is_drawn_also_of_incomplete_rows() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("plot.svg");
        let row = |ours_us, peer_us| Row { ours_us, peer_us, flops: 1e9, bytes: 1e6, ..Row::unmeasured() };
        let rows = [row(1.0, 2.0), row(2.0, 1.0), row(1.0, f64::NAN), row(f64::NAN, 1.0)];
        let roofs = Roofs { copy_gbps: 4000.0, tflops: 990.0 };
        plot(&path, &Summary::new("t", &rows), &rows, roofs).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.starts_with("<svg") && text.contains("TFLOP/s"));
        plot(&path, &Summary::new("t", &[]), &[], roofs).unwrap();
    }
}
