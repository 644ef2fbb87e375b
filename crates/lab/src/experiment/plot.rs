//! Plots: curves, and groups of bars.

use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

const SIZE: (u32, u32) = (760, 480);
const FONT: (&str, u32) = ("sans-serif", 13);
/// Height of a plot relative to its highest bar or point. The space above is for the legend.
const HEADROOM: f64 = 1.4;
/// Share of a group's width that its bars take.
const FILLED: f64 = 0.8;

/// Colours that are distinguishable for people with colour blindness.
pub(super) const NATIVE: RGBColor = RGBColor(0, 114, 178);
pub(super) const HERE: RGBColor = RGBColor(213, 94, 0);
pub(super) const PAPER: RGBColor = RGBColor(0, 158, 115);
pub(super) const OTHER: RGBColor = RGBColor(120, 120, 120);
pub(super) const MODEL: RGBColor = RGBColor(204, 121, 167);

type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;
type Drawn = Result<(), Box<dyn std::error::Error>>;

/// Labels of a plot.
pub(super) struct Axes {
    pub(super) caption: &'static str,
    pub(super) x: &'static str,
    pub(super) y: &'static str,
}

/// Style of points.
#[derive(Clone, Copy)]
pub(super) enum Marks {
    /// Connected by a line.
    Line,
    /// Separate crosses, where only single values are known.
    Crosses,
}

/// A series of points.
pub(super) struct Curve {
    pub(super) marks: Marks,
    pub(super) name: &'static str,
    pub(super) colour: RGBColor,
    pub(super) points: Vec<(f64, f64)>,
}

/// A series of bars, at most one in each group.
pub(super) struct Bars {
    pub(super) name: &'static str,
    pub(super) colour: RGBColor,
    pub(super) values: Vec<Option<f64>>,
}

/// A part of stacked bars, with a value for each bar.
pub(super) struct Stack {
    name: &'static str,
    colour: RGBColor,
    pub(super) values: Vec<f64>,
}

impl Stack {
    pub(super) fn new(name: &'static str, colour: RGBColor) -> Stack {
        Stack {
            name,
            colour,
            values: Vec::new(),
        }
    }
}

/// Draws curves and points. Returns SVG.
///
/// # Errors
/// An error of the plotting library, as text.
pub(super) fn curves(axes: &Axes, curves: &[Curve]) -> Result<String, String> {
    curves_from(axes, curves, 0.0)
}

/// Draws curves and points, as [`curves`] does, over an axis that begins at `left`.
///
/// # Errors
/// An error of the plotting library, as text.
pub(super) fn curves_from(axes: &Axes, curves: &[Curve], left: f64) -> Result<String, String> {
    curves_in(axes, curves, (left, 1.05))
}

/// Draws curves and points, as [`curves`] does, below the legend.
///
/// # Errors
/// An error of the plotting library, as text.
pub(super) fn curves_below_legend(axes: &Axes, curves: &[Curve]) -> Result<String, String> {
    curves_in(axes, curves, (0.0, HEADROOM))
}

fn curves_in(
    axes: &Axes,
    curves: &[Curve],
    (left, headroom): (f64, f64),
) -> Result<String, String> {
    let points = || curves.iter().flat_map(|curve| &curve.points);
    let most = |of: fn(&(f64, f64)) -> f64| points().map(of).fold(1e-9, f64::max);
    let mut svg = String::new();
    let drawn = draw(
        axes,
        &mut svg,
        left..most(|point| point.0) * 1.05,
        most(|point| point.1) * headroom,
        Groups::None,
        |chart| {
            for curve in curves {
                let style = curve.colour.stroke_width(2);
                let points = curve.points.clone();
                let drawn = match curve.marks {
                    Marks::Crosses => {
                        let crosses = points.into_iter().map(|point| Cross::new(point, 6, style));
                        chart.draw_series(crosses)?
                    }
                    Marks::Line => chart.draw_series([PathElement::new(points, style)])?,
                };
                drawn
                    .label(curve.name)
                    .legend(move |(x, y)| PathElement::new([(x, y), (x + 20, y)], style));
            }
            Ok(())
        },
    );
    drawn.map_err(|error| format!("cannot draw \"{}\": {error}", axes.caption))?;
    Ok(svg)
}

/// Draws groups of bars with these group names. Returns SVG.
///
/// # Errors
/// An error of the plotting library, as text.
pub(super) fn bars(axes: &Axes, groups: &[String], kinds: &[Bars]) -> Result<String, String> {
    let values = kinds.iter().flat_map(|kind| kind.values.iter().flatten());
    let most = values.copied().fold(1e-9, f64::max) * HEADROOM;
    let width = FILLED / kinds.len().max(1) as f64;
    let mut svg = String::new();
    let drawn = draw(
        axes,
        &mut svg,
        0.0..groups.len() as f64,
        most,
        Groups::Level(groups),
        |chart| {
            for (number, kind) in kinds.iter().enumerate() {
                let left = (1.0 - FILLED) / 2.0 + number as f64 * width;
                let there = kind.values.iter().enumerate();
                let there =
                    there.filter_map(|(group, value)| Some((group as f64 + left, (*value)?)));
                let style = kind.colour.filled();
                let boxes =
                    there.map(|(x, y)| Rectangle::new([(x, 0.0), (x + width * 0.95, y)], style));
                chart
                    .draw_series(boxes)?
                    .label(kind.name)
                    .legend(move |(x, y)| Rectangle::new([(x + 5, y - 5), (x + 15, y + 5)], style));
            }
            Ok(())
        },
    );
    drawn.map_err(|error| format!("cannot draw \"{}\": {error}", axes.caption))?;
    Ok(svg)
}

/// Draws stacked bars with these names. Returns SVG.
///
/// # Errors
/// An error of the plotting library, as text.
pub(super) fn stacks(axes: &Axes, bars: &[String], parts: &[Stack]) -> Result<String, String> {
    let value = |part: &Stack, bar: usize| part.values.get(bar).copied().unwrap_or(0.0);
    let height = |bar: usize| parts.iter().map(|part| value(part, bar)).sum::<f64>();
    let most = (0..bars.len()).map(height).fold(1e-9, f64::max) * HEADROOM;
    let mut svg = String::new();
    let drawn = draw(
        axes,
        &mut svg,
        0.0..bars.len() as f64,
        most,
        Groups::Upright(bars),
        |chart| {
            for (number, part) in parts.iter().enumerate() {
                let boxes = (0..bars.len()).map(|bar| {
                    let below = parts[..number].iter().map(|part| value(part, bar));
                    let below = below.sum::<f64>();
                    let (left, right) = (bar as f64 + 0.1, bar as f64 + 0.9);
                    let corners = [(left, below), (right, below + value(part, bar))];
                    Rectangle::new(corners, part.colour.filled())
                });
                let style = part.colour.filled();
                chart
                    .draw_series(boxes)?
                    .label(part.name)
                    .legend(move |(x, y)| Rectangle::new([(x + 5, y - 5), (x + 15, y + 5)], style));
            }
            Ok(())
        },
    );
    drawn.map_err(|error| format!("cannot draw \"{}\": {error}", axes.caption))?;
    Ok(svg)
}

/// Names in place of the numbers of the horizontal axis.
#[derive(Clone, Copy)]
enum Groups<'g> {
    None,
    /// Written from left to right.
    Level(&'g [String]),
    /// Written from bottom to top, for many of them.
    Upright(&'g [String]),
}

impl<'g> Groups<'g> {
    fn names(self) -> &'g [String] {
        match self {
            Groups::None => &[],
            Groups::Level(names) | Groups::Upright(names) => names,
        }
    }
}

fn draw(
    axes: &Axes,
    svg: &mut String,
    across: std::ops::Range<f64>,
    top: f64,
    groups: Groups<'_>,
    content: impl FnOnce(&mut Chart<'_, '_>) -> Drawn,
) -> Drawn {
    let area = SVGBackend::with_string(svg, SIZE).into_drawing_area();
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&area)
        .caption(axes.caption, ("sans-serif", 20))
        .margin(12)
        .x_label_area_size(match groups {
            Groups::Upright(_) => 84,
            _ => 40,
        })
        .y_label_area_size(52)
        .build_cartesian_2d(across, 0.0..top)?;
    let mut mesh = chart.configure_mesh();
    mesh.x_desc(axes.x).y_desc(axes.y).label_style(FONT);
    if !groups.names().is_empty() {
        // Groups have names instead of numbers.
        mesh.disable_x_mesh().x_label_formatter(&|_| String::new());
    }
    mesh.draw()?;
    for (number, group) in groups.names().iter().enumerate() {
        let style = match groups {
            Groups::Upright(_) => TextStyle::from(FONT)
                .transform(FontTransform::Rotate270)
                .pos(Pos::new(HPos::Right, VPos::Center)),
            _ => TextStyle::from(FONT).pos(Pos::new(HPos::Center, VPos::Top)),
        };
        let (x, _) = chart.backend_coord(&(number as f64 + 0.5, 0.0));
        let (_, y) = chart.backend_coord(&(0.0, 0.0));
        area.draw(&Text::new(group.clone(), (x, y + 6), style))?;
    }
    content(&mut chart)?;
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.8))
        .label_font(FONT)
        .draw()?;
    area.present()?;
    Ok(())
}
