//! Vertical lines with a name across a plot, their names placed so that they do not overlap.

use crate::number::exact;
use crate::scale::Axis;
use crate::svg::{FONT, Frame, NAME, at};
use crate::text::{escape, fit, put, shorten, width};

/// Rows of names above the plot; where they are full, a name shows on hover only.
const ROWS: usize = 4;
const ROW: f64 = 15.0;

/// Marks whose names have their places.
pub(crate) struct Marks<'a> {
    marks: Vec<Mark<'a>>,
    rows: usize,
    top: f64,
}

struct Mark<'a> {
    value: f64,
    name: &'a str,
    label: Option<Label>,
}

struct Label {
    row: usize,
    text: String,
    /// On the left of its line, because the drawing ends on the right.
    left_of_line: bool,
}

impl<'a> Marks<'a> {
    /// Gives each name the first row that has room for it. The rows begin at the top of `frame`,
    /// which then has to move down by [`Self::height`].
    pub(crate) fn new(mut marks: Vec<&'a (f64, String)>, frame: &Frame, x: &Axis) -> Self {
        marks.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut ends: Vec<f64> = Vec::new();
        let mut placed = Vec::with_capacity(marks.len());
        for (value, name) in marks {
            let text = fit(name, FONT, 180.0);
            let wide = width(&text, FONT);
            let line = frame.x(x, *value);
            let left_of_line = line + 4.0 + wide > frame.right() + 8.0;
            let left = if left_of_line { line - 4.0 - wide } else { line };
            let row = ends.iter().position(|&end| left > end).unwrap_or(ends.len());
            let mut label = None;
            if row < ROWS {
                let end = if left_of_line { line } else { line + 4.0 + wide };
                match ends.get_mut(row) {
                    Some(last) => *last = end + 6.0,
                    None => ends.push(end + 6.0),
                }
                label = Some(Label { row, text, left_of_line });
            }
            placed.push(Mark { value: *value, name, label });
        }
        Self { marks: placed, rows: ends.len(), top: frame.top }
    }

    /// The room the names take above the plot.
    pub(crate) fn height(&self) -> f64 {
        self.rows as f64 * ROW
    }

    pub(crate) fn draw(&self, out: &mut String, frame: &Frame, x: &Axis, x_name: &str) {
        for mark in &self.marks {
            let line = frame.x(x, mark.value);
            let top = match &mark.label {
                Some(label) => self.top + label.row as f64 * ROW,
                None => frame.top,
            };
            put!(
                out,
                "<g class=\"mark\"><title>{}, {} {}</title><path d=\"M{} {}V{}\"/>",
                escape(&shorten(mark.name, NAME)),
                escape(&shorten(x_name, NAME)),
                exact(mark.value),
                at(line),
                at(top),
                at(frame.bottom())
            );
            if let Some(label) = &mark.label {
                let (class, shift) = if label.left_of_line { ("end", -4.0) } else { ("", 4.0) };
                put!(
                    out,
                    "<text class=\"{class}\" x=\"{}\" y=\"{}\">{}</text>",
                    at(line + shift),
                    at(top + 10.0),
                    escape(&label.text)
                );
            }
            out.push_str("</g>");
        }
    }
}
