//! Draws rates as an SVG picture: one bar for each side of each program.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::report::Row;

const WIDTH: u32 = 900;
/// Height of a bar with its spacing, and of the space above and below all bars.
const BAR: u32 = 20;
const AROUND: u32 = 110;
const FONT: (&str, u32) = ("sans-serif", 15);

/// Draws the picture and returns it as SVG.
///
/// # Errors
/// A message, if there are no rows or drawing fails.
pub(super) fn draw(rows: &[Row]) -> Result<String, String> {
    if rows.is_empty() {
        return Err("nothing was measured that could be drawn".to_string());
    }
    let mut svg = String::new();
    drawn(rows, &mut svg).map_err(|error| format!("cannot draw the figures: {error}"))?;
    Ok(svg)
}

fn drawn(rows: &[Row], svg: &mut String) -> Result<(), Box<dyn std::error::Error>> {
    let height = AROUND + BAR * rows.len() as u32;
    let area = SVGBackend::with_string(svg, (WIDTH, height)).into_drawing_area();
    area.fill(&WHITE)?;
    let most = rows.iter().map(|row| row.mpps).fold(0.0, f64::max);
    // The first row is at the top, where the axis has its largest values.
    let place = |row: usize| (rows.len() - 1 - row) as i32;
    let mut chart = ChartBuilder::on(&area)
        .caption("Packets in memory, million a second", ("sans-serif", 22))
        .margin(12)
        .x_label_area_size(30)
        .y_label_area_size(190)
        .build_cartesian_2d(
            0.0..most.max(1e-6) * 1.1,
            (0..rows.len() as i32 - 1).into_segmented(),
        )?;
    let name = |at: &SegmentValue<i32>| match at {
        SegmentValue::CenterOf(at) => {
            let row = rows.iter().enumerate().find(|(row, _)| place(*row) == *at);
            row.map_or(String::new(), |(_, row)| label(row))
        }
        _ => String::new(),
    };
    chart
        .configure_mesh()
        .disable_y_mesh()
        // With 0 lines the library searches for a step for ever.
        .max_light_lines(1)
        .light_line_style(TRANSPARENT)
        .y_labels(rows.len())
        .y_label_formatter(&name)
        .label_style(FONT)
        .draw()?;
    chart.draw_series(rows.iter().enumerate().map(|(row, figures)| {
        let at = place(row);
        let corners = [
            (0.0, SegmentValue::Exact(at)),
            (figures.mpps, SegmentValue::Exact(at + 1)),
        ];
        let mut bar = Rectangle::new(corners, colour(&figures.engine).filled());
        bar.set_margin(3, 3, 0, 0);
        bar
    }))?;
    let beside = Pos::new(HPos::Left, VPos::Center);
    chart.draw_series(rows.iter().enumerate().map(|(row, figures)| {
        let end = (figures.mpps, SegmentValue::CenterOf(place(row)));
        let style = TextStyle::from(FONT).pos(beside);
        Text::new(format!(" {:.2}", figures.mpps), end, style)
    }))?;
    area.present()?;
    Ok(())
}

fn label(row: &Row) -> String {
    let workers = match row.workers {
        1 => String::new(),
        workers => format!(", {workers} workers"),
    };
    format!(
        "{}, {} flows: {}{workers}",
        row.program, row.flows, row.engine
    )
}

/// Returns the bar colour for a side. The colours are distinguishable for people with colour
/// blindness.
fn colour(engine: &str) -> RGBColor {
    match engine {
        "jit" => RGBColor(0, 114, 178),
        "interp" => RGBColor(230, 159, 0),
        "hand" => RGBColor(0, 158, 115),
        _ => RGBColor(153, 153, 153),
    }
}
