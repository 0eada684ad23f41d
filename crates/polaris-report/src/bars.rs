//! Bars in groups, to compare a few things in a few cases.

use crate::number::{exact, short};
use crate::scale::{Axis, Range};
use crate::svg::{
    Entry, FONT, Frame, NAME, SMALL, at, colour_class, legend, omissions, scale_name, series_class,
};
use crate::text::{escape, fit, put, shorten, width};

const HEIGHT: f64 = 240.0;

/// A plot of bars: one group for each case, and in it one bar for each series.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct BarPlot {
    /// What the plot shows.
    pub title: String,
    /// What the height of a bar means, with its unit.
    pub y_label: String,
    /// The names of the groups, from left to right.
    pub groups: Vec<String>,
    /// The name of each series and its value in each group. `None`, or a value that is missing at
    /// the end, is drawn as a dash; one that is not finite too, and the legend counts them.
    pub series: Vec<(String, Vec<Option<f64>>)>,
    /// A logarithmic scale. Values at or below zero are left out and counted; where there are no
    /// others, the scale is linear and says so.
    pub log_y: bool,
}

/// What there is to draw for one series in one group.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Value {
    Bar(f64),
    Missing,
    NotFinite,
    NotPositive,
}

impl Value {
    fn new(value: Option<f64>, log: bool) -> Self {
        match value {
            None => Self::Missing,
            Some(value) if !value.is_finite() => Self::NotFinite,
            Some(value) if log && value <= 0.0 => Self::NotPositive,
            Some(value) => Self::Bar(value),
        }
    }
}

impl BarPlot {
    /// The plot as a figure.
    pub(crate) fn render(&self) -> String {
        let given = || self.series.iter().flat_map(|s| &s.1).flatten().copied();
        let log = self.log_y && given().any(|v| v.is_finite() && v > 0.0);
        let values: Vec<Vec<Value>> = self
            .series
            .iter()
            .map(|(_, values)| {
                let value = |group| Value::new(values.get(group).copied().flatten(), log);
                (0..self.group_count()).map(value).collect()
            })
            .collect();
        let drawn = values.iter().flatten().filter_map(|value| match value {
            Value::Bar(value) => Some(*value),
            _ => None,
        });
        let range = match Range::of(drawn) {
            None => Range { lo: 0.0, hi: 1.0 },
            // The smallest bar is to have a height.
            Some(range) if log => Range { lo: range.lo / 1.5, ..range },
            Some(range) => range.with(0.0),
        };
        let y = Axis::covering(range, log);
        let names = GroupNames::new(self, &y);
        // The number of a bar that goes down stands below it.
        let lower = if !log && range.lo < 0.0 { 12.0 } else { 0.0 };
        let frame = Frame::new(None, &y, 38.0, HEIGHT, lower + names.height);

        let mut out = String::from("<figure>");
        put!(&mut out, "<figcaption>{}</figcaption>", escape(&self.title));
        frame.open(&mut out, &self.summary(&values));
        frame.y_axis(&mut out, &y, &scale_name(&self.y_label, self.log_y, log));
        self.draw_bars(&mut out, &frame, &y, &values);
        let base = if log { frame.bottom() } else { frame.y(&y, 0.0) };
        put!(
            &mut out,
            "<path class=\"axis\" d=\"M{} {}h{}\"/>",
            at(frame.left),
            at(base),
            at(frame.width)
        );
        names.draw(&mut out, self, &frame, lower);
        if values.iter().flatten().all(|value| !matches!(value, Value::Bar(_))) {
            frame.nothing(&mut out, "nothing to draw");
        }
        out.push_str("</svg>");
        legend(&mut out, &self.entries(&values), |index| {
            let mut key = String::new();
            bar(&mut key, index, (0.0, 0.0, 34.0, 12.0));
            key
        });
        out.push_str("</figure>");
        out
    }

    /// Values beyond the named groups are drawn as well, in groups without a name.
    fn group_count(&self) -> usize {
        self.series.iter().map(|s| s.1.len()).fold(self.groups.len(), usize::max)
    }

    fn group(&self, index: usize) -> &str {
        self.groups.get(index).map_or("", String::as_str)
    }

    fn entries(&self, values: &[Vec<Value>]) -> Vec<Entry<'_>> {
        let note = |values: &[Value]| {
            let count = |what: Value| values.iter().filter(|&&value| value == what).count();
            omissions(count(Value::Missing), count(Value::NotFinite), count(Value::NotPositive))
        };
        self.series
            .iter()
            .zip(values)
            .map(|((name, _), values)| Entry { name, note: note(values) })
            .collect()
    }

    /// What a screen reader says: every value of a plot that a person could take in by eye.
    fn summary(&self, values: &[Vec<Value>]) -> String {
        let mut out = format!("Bar plot: {}.", self.title);
        let total = values.iter().map(Vec::len).sum::<usize>();
        if total > 60 {
            put!(&mut out, " {total} bars in {} groups.", self.group_count());
            return out;
        }
        for group in 0..self.group_count() {
            put!(&mut out, " {}:", shorten(self.group(group), NAME));
            for (index, ((name, _), values)) in self.series.iter().zip(values).enumerate() {
                let value = match values.get(group) {
                    Some(Value::Bar(value)) => short(*value),
                    _ => "none".to_owned(),
                };
                let comma = if index == 0 { "" } else { "," };
                put!(&mut out, "{comma} {} {value}", shorten(name, NAME));
            }
            out.push('.');
        }
        out
    }

    fn draw_bars(&self, out: &mut String, frame: &Frame, y: &Axis, values: &[Vec<Value>]) {
        let slot = frame.width / self.group_count().max(1) as f64;
        let step = (slot * 0.8 / values.len().max(1) as f64).min(90.0);
        let gap = if step > 8.0 { 2.0 } else { 0.0 };
        let base = if y.log { frame.bottom() } else { frame.y(y, 0.0) };
        // Numbers at every bar or at none: at some, they would look chosen.
        let fits = |value: &Value| match value {
            Value::Bar(value) => width(&short(*value), SMALL) <= step + 2.0,
            _ => true,
        };
        let numbered = values.iter().flatten().all(fits);
        for (index, values) in values.iter().enumerate() {
            let name = shorten(&self.series[index].0, NAME);
            for (group, value) in values.iter().enumerate() {
                let start = frame.left + (group as f64 + 0.5) * slot
                    - step * self.series.len() as f64 / 2.0
                    + step * index as f64;
                let words = match value {
                    Value::Bar(value) => exact(*value),
                    Value::Missing => "no value".to_owned(),
                    Value::NotFinite => "not finite".to_owned(),
                    Value::NotPositive => "not above 0".to_owned(),
                };
                let group_name = shorten(self.group(group), NAME);
                put!(out, "<g><title>{}, {}: {words}</title>", escape(&group_name), escape(&name));
                let (text, text_y) = match value {
                    Value::Bar(value) => {
                        let end = frame.y(y, *value);
                        let (top, tall) = (end.min(base), (end - base).abs());
                        bar(out, index, (start + gap / 2.0, top, step - gap, tall));
                        let below = *value < 0.0 && !y.log;
                        (short(*value), if below { end + 12.0 } else { end - 4.0 })
                    }
                    _ => ("–".to_owned(), base - 4.0),
                };
                if numbered || !matches!(value, Value::Bar(_)) {
                    put!(
                        out,
                        "<text class=\"mid small\" x=\"{}\" y=\"{}\">{}</text>",
                        at(start + step / 2.0),
                        at(text_y),
                        escape(&text)
                    );
                }
                out.push_str("</g>");
            }
        }
    }
}

/// One bar: its colour, and across it stripes in the dash pattern of its series.
fn bar(out: &mut String, index: usize, (left, top, wide, tall): (f64, f64, f64, f64)) {
    put!(
        out,
        "<rect class=\"bar {}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"/>",
        colour_class(index),
        at(left),
        at(top),
        at(wide),
        at(tall)
    );
    // A thick upright line whose dashes are the stripes: patterns proper would need a reference
    // from one element to another.
    put!(
        out,
        "<path class=\"stripes {}\" stroke-width=\"{}\" d=\"M{} {}v{}\"/>",
        series_class(index),
        at(wide),
        at(left + wide / 2.0),
        at(top),
        at(tall)
    );
}

/// How the names of the groups are written: level where they fit, else slanted, and where even
/// that is too dense, not all of them.
struct GroupNames {
    slanted: bool,
    every: usize,
    height: f64,
}

/// The room for a slanted name along its slant, and the sine of the slant.
const SLANTED_ROOM: f64 = 170.0;
const SLANT: f64 = 0.574;

impl GroupNames {
    fn new(plot: &BarPlot, y: &Axis) -> Self {
        let slot = Frame::new(None, y, 0.0, 0.0, 0.0).width / plot.group_count().max(1) as f64;
        let widest = plot.groups.iter().map(|name| width(name, FONT)).fold(0.0, f64::max);
        if widest <= slot - 6.0 {
            return Self { slanted: false, every: 1, height: 28.0 };
        }
        let every = (22.0 / slot).ceil().max(1.0) as usize;
        Self { slanted: true, every, height: 28.0 + SLANT * widest.min(SLANTED_ROOM) }
    }

    fn draw(&self, out: &mut String, plot: &BarPlot, frame: &Frame, lower: f64) {
        let slot = frame.width / plot.group_count().max(1) as f64;
        for (index, name) in plot.groups.iter().enumerate().step_by(self.every) {
            let (x, y) = (frame.left + (index as f64 + 0.5) * slot, frame.bottom() + lower + 18.0);
            if !self.slanted {
                put!(
                    out,
                    "<text class=\"mid\" x=\"{}\" y=\"{}\">{}</text>",
                    at(x),
                    at(y),
                    escape(name)
                );
                continue;
            }
            // The first names have less room on their left.
            let room = SLANTED_ROOM.min(x / 0.82);
            let (x, y) = (at(x + 4.0), at(y - 4.0));
            put!(
                out,
                "<text class=\"end\" x=\"{x}\" y=\"{y}\" transform=\"rotate(-35 {x} {y})\">\
                 <title>{}</title>{}</text>",
                escape(&shorten(name, NAME)),
                escape(&fit(name, FONT, room))
            );
        }
    }
}
