//! The training report: curves and misclassified digits, as SVG.

use super::data::SIDE;
use super::{Epoch, Mistake};
use anyhow::{Result, anyhow};
use plotters::prelude::*;
use std::path::Path;

const WIDTH: u32 = 960;
const CURVES_HEIGHT: u32 = 360;
/// Digits of a row.
const COLUMNS: usize = 10;
/// A digit with its caption.
const CELL: (i32, i32) = (90, 110);
/// A pixel of a digit.
const PIXEL: i32 = 9;

/// Writes the report.
pub fn write(path: &Path, device: &str, epochs: &[Epoch], mistakes: &[Mistake<'_>]) -> Result<()> {
    let rows = mistakes.len().div_ceil(COLUMNS).max(1) as u32;
    let height = CURVES_HEIGHT + 60 + rows * CELL.1 as u32;
    let root = SVGBackend::new(path, (WIDTH, height)).into_drawing_area();
    draw(&root, device, epochs, mistakes).map_err(|e| anyhow!("writing {}: {e}", path.display()))?;
    Ok(())
}

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;
type Drawn = Result<(), Box<dyn std::error::Error>>;

fn draw(root: &Area<'_>, device: &str, epochs: &[Epoch], mistakes: &[Mistake<'_>]) -> Drawn {
    root.fill(&WHITE)?;
    let (curves, digits) = root.split_vertically(CURVES_HEIGHT);
    let (left, right) = curves.split_horizontally(WIDTH / 2);
    let losses: Vec<f64> = epochs.iter().map(|epoch| epoch.loss).collect();
    let accuracies: Vec<f64> = epochs.iter().map(|epoch| 100.0 * epoch.test_accuracy).collect();
    curve(&left, &format!("training loss, {device}"), &losses, &BLUE)?;
    curve(&right, "test accuracy, %", &accuracies, &RED)?;
    let last = accuracies.last().copied().unwrap_or(0.0);
    let title = format!("{} misclassified digits, test accuracy {last:.2} %", mistakes.len());
    digits.draw(&Text::new(title, (20, 15), ("sans-serif", 20)))?;
    for (i, mistake) in mistakes.iter().enumerate() {
        let corner = (30 + (i % COLUMNS) as i32 * CELL.0, 50 + (i / COLUMNS) as i32 * CELL.1);
        draw_digit(&digits, corner, mistake)?;
    }
    root.present()?;
    Ok(())
}

fn curve(area: &Area<'_>, title: &str, values: &[f64], colour: &RGBColor) -> Drawn {
    let (low, high) = values.iter().fold((f64::MAX, f64::MIN), |(low, high), &v| (low.min(v), high.max(v)));
    let margin = ((high - low) * 0.05).max(1e-3);
    let mut chart = ChartBuilder::on(area)
        .caption(title, ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(32)
        .y_label_area_size(48)
        .build_cartesian_2d(1.0..values.len().max(2) as f64, low - margin..high + margin)?;
    chart.configure_mesh().x_desc("epoch").x_label_formatter(&|x| format!("{x:.0}")).draw()?;
    let points = || values.iter().enumerate().map(|(i, &v)| ((i + 1) as f64, v));
    chart.draw_series(LineSeries::new(points(), colour))?;
    chart.draw_series(points().map(|point| Circle::new(point, 3, colour.filled())))?;
    Ok(())
}

fn draw_digit(area: &Area<'_>, (x, y): (i32, i32), mistake: &Mistake<'_>) -> Drawn {
    for (i, &value) in mistake.digit.pixels.iter().enumerate() {
        let (column, row) = ((i % SIDE) as i32, (i / SIDE) as i32);
        let corner = (x + column * PIXEL, y + row * PIXEL);
        let shade = (255.0 * (1.0 - value)) as u8;
        let colour = RGBColor(shade, shade, shade).filled();
        area.draw(&Rectangle::new([corner, (corner.0 + PIXEL, corner.1 + PIXEL)], colour))?;
    }
    let caption = format!("{} taken for {}", mistake.digit.label, mistake.predicted);
    area.draw(&Text::new(caption, (x, y + SIDE as i32 * PIXEL + 4), ("sans-serif", 13)))?;
    Ok(())
}
