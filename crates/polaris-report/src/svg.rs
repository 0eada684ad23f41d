//! Common parts of all plots: the drawing's frame, axes, legend and the numbering of styles.

use crate::number::count;
use crate::scale::Axis;
use crate::text::{escape, put, width};

/// The width of a drawing, in the pixels of a page that is not zoomed.
pub(crate) const WIDTH: f64 = 820.0;
/// The size of labels; the style sheet sets the same.
pub(crate) const FONT: f64 = 12.0;
/// The size of numbers inside a plot; the style sheet sets the same.
pub(crate) const SMALL: f64 = 11.0;
/// Characters of a name in a hover title.
pub(crate) const NAME: usize = 80;

/// Colours of the palette and dash patterns. The numbers share no divisor, so that 42 series pass
/// before a pair of both comes back.
const COLOURS: usize = 6;
const DASHES: usize = 7;

/// The classes that give series number `index` its colour and its dashes.
pub(crate) fn series_class(index: usize) -> String {
    format!("{} d{}", colour_class(index), index % DASHES)
}

/// The class that gives series number `index` its colour alone.
pub(crate) fn colour_class(index: usize) -> String {
    format!("s{}", index % COLOURS)
}

/// A coordinate with a tenth of a pixel, which is finer than a screen shows.
pub(crate) fn at(value: f64) -> String {
    let text = format!("{value:.1}");
    match text.strip_suffix(".0") {
        Some("-0") => "0".to_owned(),
        Some(whole) => whole.to_owned(),
        None => text,
    }
}

/// The rectangle that values are drawn in, and the drawing around it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Frame {
    pub(crate) left: f64,
    pub(crate) top: f64,
    pub(crate) width: f64,
    pub(crate) height: f64,
    /// Room below the rectangle.
    pub(crate) below: f64,
}

impl Frame {
    /// A frame that leaves room for the labels of its axes, of which half of the last one on the
    /// horizontal axis is on the right of the frame.
    pub(crate) fn new(x: Option<&Axis>, y: &Axis, top: f64, height: f64, below: f64) -> Self {
        let last = x.and_then(|axis| axis.ticks.last());
        let right = last.map_or(0.0, |tick| width(&tick.label, FONT) / 2.0).max(10.0);
        let widest = y.ticks.iter().map(|tick| width(&tick.label, FONT)).fold(0.0, f64::max);
        let left = (widest + 14.0).max(40.0);
        Self { left, top, width: WIDTH - left - right, height, below }
    }

    pub(crate) fn right(&self) -> f64 {
        self.left + self.width
    }

    pub(crate) fn bottom(&self) -> f64 {
        self.top + self.height
    }

    pub(crate) fn x(&self, axis: &Axis, value: f64) -> f64 {
        self.left + axis.position(value) * self.width
    }

    pub(crate) fn y(&self, axis: &Axis, value: f64) -> f64 {
        self.bottom() - axis.position(value) * self.height
    }

    /// Opens the drawing; `summary` is what a screen reader says in its place.
    pub(crate) fn open(&self, out: &mut String, summary: &str) {
        open(out, WIDTH, self.bottom() + self.below, summary);
    }

    /// The vertical axis: lines across, labels, and its name above, where it needs no turned text.
    pub(crate) fn y_axis(&self, out: &mut String, axis: &Axis, name: &str) {
        for tick in &axis.ticks {
            let y = self.y(axis, tick.value);
            put!(
                out,
                "<path class=\"grid\" d=\"M{} {}h{}\"/>",
                at(self.left),
                at(y),
                at(self.width)
            );
            put!(
                out,
                "<text class=\"end\" x=\"{}\" y=\"{}\">{}</text>",
                at(self.left - 7.0),
                at(y + 4.0),
                escape(&tick.label)
            );
        }
        put!(out, "<text class=\"name\" x=\"4\" y=\"14\">{}</text>", escape(name));
    }

    /// The horizontal axis: short lines, labels and its name below.
    pub(crate) fn x_axis(&self, out: &mut String, axis: &Axis, name: &str) {
        let bottom = at(self.bottom());
        put!(out, "<path class=\"axis\" d=\"M{} {bottom}h{}\"/>", at(self.left), at(self.width));
        for tick in &axis.ticks {
            let x = at(self.x(axis, tick.value));
            put!(out, "<path class=\"axis\" d=\"M{x} {bottom}v5\"/>");
            put!(
                out,
                "<text class=\"mid\" x=\"{x}\" y=\"{}\">{}</text>",
                at(self.bottom() + 19.0),
                escape(&tick.label)
            );
        }
        put!(
            out,
            "<text class=\"mid name\" x=\"{}\" y=\"{}\">{}</text>",
            at(self.left + self.width / 2.0),
            at(self.bottom() + 38.0),
            escape(name)
        );
    }

    /// Words in place of values.
    pub(crate) fn nothing(&self, out: &mut String, words: &str) {
        put!(
            out,
            "<text class=\"mid name\" x=\"{}\" y=\"{}\">{}</text>",
            at(self.left + self.width / 2.0),
            at(self.top + self.height / 2.0),
            escape(words)
        );
    }
}

/// Opens a drawing of the given size.
pub(crate) fn open(out: &mut String, width: f64, height: f64, summary: &str) {
    let (width, height) = (at(width), at(height));
    put!(
        out,
        "<svg class=\"plot\" role=\"img\" aria-label=\"{}\" viewBox=\"0 0 {width} {height}\" \
         width=\"{width}\" height=\"{height}\">",
        escape(summary)
    );
}

/// The name of a value axis, with what a reader must know about its scale.
pub(crate) fn scale_name(name: &str, asked_log: bool, log: bool) -> String {
    let note = match (asked_log, log) {
        (true, true) => "log scale",
        (true, false) => "linear scale: nothing above 0",
        _ => return name.to_owned(),
    };
    if name.is_empty() { note.to_owned() } else { format!("{name} ({note})") }
}

/// What a series has that its picture does not show; empty where it shows all.
pub(crate) fn omissions(missing: usize, not_finite: usize, not_positive: usize) -> String {
    [(missing, "missing"), (not_finite, "not finite"), (not_positive, "not above 0")]
        .into_iter()
        .filter(|&(number, _)| number > 0)
        .map(|(number, words)| format!("{} {words}", count(number as u128)))
        .collect::<Vec<_>>()
        .join(", ")
}

/// One line of a legend.
pub(crate) struct Entry<'a> {
    pub(crate) name: &'a str,
    pub(crate) note: String,
}

/// The legend below a drawing, in the order of the series; `key` draws each one's sample.
pub(crate) fn legend(out: &mut String, entries: &[Entry<'_>], key: impl Fn(usize) -> String) {
    if entries.is_empty() {
        return;
    }
    out.push_str("<ul class=\"legend\">");
    for (index, entry) in entries.iter().enumerate() {
        put!(
            out,
            "<li><svg class=\"key\" viewBox=\"0 0 34 12\" width=\"34\" height=\"12\" \
             aria-hidden=\"true\">{}</svg>{}",
            key(index),
            escape(entry.name)
        );
        if !entry.note.is_empty() {
            put!(out, " <span class=\"note\">({})</span>", escape(&entry.note));
        }
        out.push_str("</li>");
    }
    out.push_str("</ul>");
}
