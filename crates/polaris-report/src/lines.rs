//! Curves over steps, epochs or time, points over two figures, and limits to compare them with.

use crate::curve::{Curve, Point};
use crate::marks::Marks;
use crate::number::{count, exact, short};
use crate::scale::{Axis, Range};
use crate::svg::{
    Entry, Frame, NAME, at, colour_class, legend, omissions, scale_name, series_class,
};
use crate::text::{escape, put, shorten};

const HEIGHT: f64 = 260.0;

/// A plot of curves.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LinePlot {
    /// What the plot shows.
    pub title: String,
    /// What runs from left to right, such as `step`.
    pub x_label: String,
    /// What runs from bottom to top, such as `loss`.
    pub y_label: String,
    /// The curves, in the order of the legend.
    pub series: Vec<Series>,
    /// A logarithmic vertical scale. Points at or below zero are left out and counted; where
    /// there are no others, the scale is linear and says so.
    pub log_y: bool,
    /// A logarithmic horizontal scale, on the same terms.
    pub log_x: bool,
    /// A linear vertical scale begins at zero, so that heights can be compared.
    pub from_zero: bool,
    /// Vertical lines with a name, such as the best epoch. One that is not finite is left out.
    pub marks: Vec<(f64, String)>,
}

/// How the points of a series are drawn.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Style {
    /// As a line.
    #[default]
    Line,
    /// As a line with a dot at each point, where there are few.
    Marked,
    /// As dots.
    Dots,
    /// As a grey line that others are compared with.
    Limit,
}

/// One curve of a plot.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Series {
    /// Its name in the legend.
    pub name: String,
    /// Points `(x, y)`, any number of them: more than a screen can show are thinned, with every
    /// extreme kept. One that is not finite leaves a gap and is counted in the legend.
    pub points: Vec<(f64, f64)>,
    /// How they are drawn.
    pub style: Style,
}

impl LinePlot {
    /// The plot as a figure.
    pub(crate) fn render(&self) -> String {
        let given = || self.series.iter().flat_map(|s| &s.points);
        let log_x = self.log_x && given().any(|p| p.0.is_finite() && p.0 > 0.0);
        let log = self.log_y && given().any(|p| p.1.is_finite() && p.1 > 0.0);
        let curves: Vec<Curve> = self.series.iter().map(|s| Curve::new(s, [log_x, log])).collect();
        let marks: Vec<_> = self.marks.iter().filter(|m| m.0.is_finite()).collect();

        let xs =
            || curves.iter().flat_map(Curve::points).map(|p| p.0).chain(marks.iter().map(|m| m.0));
        let whole = xs().all(|x| x.fract() == 0.0);
        let unit = Range { lo: 0.0, hi: 1.0 };
        let range = Range::of(xs()).unwrap_or(unit);
        let x = if log_x { Axis::covering(range, true) } else { Axis::fitted(range, whole) };
        let ys = curves.iter().flat_map(Curve::points).map(|p| p.1);
        let range = Range::of(ys).unwrap_or(unit);
        let range = if self.from_zero && !log { range.with(0.0) } else { range };
        let y = Axis::covering(range, log);

        let mut frame = Frame::new(Some(&x), &y, 32.0, HEIGHT, 46.0);
        let marks = Marks::new(marks, &frame, &x);
        frame.top += marks.height();

        let mut out = String::from("<figure>");
        put!(&mut out, "<figcaption>{}</figcaption>", escape(&self.title));
        frame.open(&mut out, &self.summary(&curves));
        frame.y_axis(&mut out, &y, &scale_name(&self.y_label, self.log_y, log));
        frame.x_axis(&mut out, &x, &scale_name(&self.x_label, self.log_x, log_x));
        marks.draw(&mut out, &frame, &x, &self.x_label);
        self.draw_curves(&mut out, &frame, (&x, &y), &curves);
        if curves.iter().all(|curve| curve.runs.is_empty()) {
            frame.nothing(&mut out, "nothing to draw");
        }
        out.push_str("</svg>");
        legend(&mut out, &self.entries(&curves), |index| {
            let class = self.class(index);
            match self.series[index].style {
                Style::Line | Style::Limit => {
                    format!("<path class=\"line {class}\" d=\"M1 6h32\"/>")
                }
                Style::Marked => format!(
                    "<path class=\"line {class}\" d=\"M1 6h32\"/><path class=\"dots {class}\" d=\"M17 6h0\"/>"
                ),
                Style::Dots => format!("<path class=\"dots {class}\" d=\"M17 6h0\"/>"),
            }
        });
        out.push_str("</figure>");
        out
    }

    /// The classes of a series; limits have a look of their own.
    fn class(&self, index: usize) -> String {
        match self.series[index].style {
            Style::Limit => "limit".to_owned(),
            _ => series_class(index),
        }
    }

    fn entries(&self, curves: &[Curve]) -> Vec<Entry<'_>> {
        self.series
            .iter()
            .zip(curves)
            .map(|(series, curve)| Entry {
                name: &series.name,
                note: match series.points.len() {
                    0 => "no points".to_owned(),
                    _ => omissions(0, curve.not_finite, curve.not_positive),
                },
            })
            .collect()
    }

    /// What a screen reader says: each curve's length and where it begins and ends.
    fn summary(&self, curves: &[Curve]) -> String {
        let mut out = format!("Line plot: {}.", self.title);
        for (entry, curve) in self.entries(curves).iter().zip(curves) {
            let (first, last) = (curve.points().next(), curve.points().last());
            let points = count(curve.points().count() as u128);
            put!(&mut out, " {}: {points} points", shorten(entry.name, NAME));
            if let (Some(first), Some(last)) = (first, last) {
                put!(&mut out, ", from {} to {}", short(first.1), short(last.1));
            }
            if !entry.note.is_empty() {
                put!(&mut out, ", {}", entry.note);
            }
            out.push('.');
        }
        out
    }

    fn draw_curves(
        &self,
        out: &mut String,
        frame: &Frame,
        (x, y): (&Axis, &Axis),
        curves: &[Curve],
    ) {
        // Many curves share what is spent on one page.
        let share = curves.len().max(1);
        let columns = (8 * frame.width as usize / share).clamp(100, frame.width as usize);
        let hover_columns = (240 / share).clamp(4, 40);
        let place = |point: &Point| (frame.x(x, point.0), frame.y(y, point.1));

        for (index, curve) in curves.iter().enumerate() {
            let runs = curve.thinned(columns, |value| x.position(value));
            let class = self.class(index);
            let style = self.series[index].style;
            let lines = || runs.iter().filter(|run| run.len() > 1);
            let line = if style == Style::Dots { String::new() } else { path(lines(), place) };
            if !line.is_empty() {
                put!(out, "<path class=\"line {class}\" d=\"{line}\"/>");
            }
            // A point between two gaps has no line to be seen by.
            let all = matches!(style, Style::Dots | Style::Marked);
            let mut dots = String::new();
            for point in runs.iter().filter(|run| all || run.len() == 1).flatten() {
                let (px, py) = place(point);
                put!(&mut dots, "M{} {}h0", at(px), at(py));
            }
            if !dots.is_empty() {
                put!(out, "<path class=\"dots {class}\" d=\"{dots}\"/>");
            }
        }
        // On top of every line, so that none of them hides another's values.
        for (index, (series, curve)) in self.series.iter().zip(curves).enumerate() {
            // A limit is there to be seen; the values are those of the others.
            if series.style == Style::Limit {
                continue;
            }
            let name = shorten(&series.name, NAME);
            put!(out, "<g class=\"hover {}\">", colour_class(index));
            for point in curve.thinned(hover_columns, |value| x.position(value)).iter().flatten() {
                let (px, py) = place(point);
                put!(
                    out,
                    "<circle cx=\"{}\" cy=\"{}\" r=\"6\"><title>{}, {} {}: {}</title></circle>",
                    at(px),
                    at(py),
                    escape(&name),
                    escape(&shorten(&self.x_label, NAME)),
                    exact(point.0),
                    exact(point.1)
                );
            }
            out.push_str("</g>");
        }
    }
}

/// The path data of runs: one `M` for each, then its other points.
fn path<'a>(
    runs: impl Iterator<Item = &'a Vec<Point>>,
    place: impl Fn(&Point) -> (f64, f64),
) -> String {
    let mut out = String::new();
    for run in runs {
        for (index, point) in run.iter().enumerate() {
            let (px, py) = place(point);
            let before = match index {
                0 => "M",
                1 => "L",
                _ => " ",
            };
            put!(&mut out, "{before}{} {}", at(px), at(py));
        }
    }
    out
}
