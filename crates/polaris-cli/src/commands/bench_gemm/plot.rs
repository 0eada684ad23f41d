//! Plots as SVG, drawn by hand: a page with them needs nothing else.

use std::fmt::Write;

/// A plot of some series over common axes.
pub struct Plot {
    pub title: String,
    pub x_label: &'static str,
    pub y_label: &'static str,
    pub scale: Scale,
    pub series: Vec<Series>,
}

/// How both axes are divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// Evenly; the vertical axis begins at zero.
    Linear,
    /// By powers of ten.
    Logarithmic,
}

/// Points of one colour.
pub struct Series {
    pub name: String,
    pub points: Vec<(f64, f64)>,
    pub style: Style,
}

/// How points are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// As dots with a line through them.
    Line,
    /// As dots.
    Dots,
    /// As a line without dots, for what changes between points or has too many of them.
    Stroke,
    /// As a grey line without dots.
    Limit,
}

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 400.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 34.0;
const BOTTOM: f64 = 46.0;

/// The style of a page with plots, whose classes are the plots' own.
pub const SHEET: &str = "\
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
code { font-size: 13px; }
svg { width: 100%; max-width: 45rem; display: block; margin: 1rem 0; }
svg text { font: 11px system-ui, sans-serif; fill: currentColor; }
svg .title { font-size: 13px; font-weight: 600; }
svg .middle { text-anchor: middle; }
svg .end { text-anchor: end; }
svg .grid { stroke: #8884; }
svg .line { fill: none; stroke-width: 1.5; }
";

/// Colours that people with any kind of sight can tell apart (Okabe and Ito).
pub const COLOURS: [&str; 7] =
    ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#555555"];

/// When the colours are used up, they come again with broken lines.
const LOOKS: [&str; 2] = ["", "5 3"];

const LIMIT_COLOUR: &str = "#999999";

impl Plot {
    /// The plot, with its legend below.
    pub fn svg(&self) -> String {
        let all = || self.series.iter().flat_map(|series| &series.points);
        let x = Axis::new(all().map(|point| point.0), self.scale, false, [LEFT, WIDTH - RIGHT]);
        let y = Axis::new(all().map(|point| point.1), self.scale, true, [HEIGHT - BOTTOM, TOP]);
        let rows = self.series.len().div_ceil(2);
        let height = HEIGHT + 18.0 * rows as f64;
        let mut svg = format!(
            "<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{0}\">\n\
             <text class=\"title\" x=\"{LEFT}\" y=\"18\">{0}</text>\n",
            escape(&self.title)
        );
        self.grid(&mut svg, &x, &y);
        let mut looks =
            LOOKS.iter().flat_map(|dashes| COLOURS.map(|colour| (colour, *dashes))).cycle();
        for (index, series) in self.series.iter().enumerate() {
            let look = match series.style {
                Style::Limit => Some((LIMIT_COLOUR, "")),
                _ => looks.next(),
            };
            let (colour, dashes) = look.unwrap_or((LIMIT_COLOUR, ""));
            draw(&mut svg, series, colour, dashes, &x, &y);
            let (left, top) =
                (LEFT + 330.0 * (index % 2) as f64, HEIGHT + 4.0 + 18.0 * (index / 2) as f64);
            let _ = writeln!(
                svg,
                "<line x1=\"{left}\" y1=\"{0}\" x2=\"{1}\" y2=\"{0}\" stroke=\"{colour}\" \
                 stroke-width=\"3\" stroke-dasharray=\"{dashes}\"/>\
                 <text x=\"{2}\" y=\"{top}\">{3}</text>",
                top - 4.0,
                left + 22.0,
                left + 28.0,
                escape(&series.name)
            );
        }
        svg.push_str("</svg>\n");
        svg
    }

    fn grid(&self, svg: &mut String, x: &Axis, y: &Axis) {
        let (bottom, right) = (HEIGHT - BOTTOM, WIDTH - RIGHT);
        for tick in x.ticks() {
            let at = x.place(tick);
            let _ = writeln!(
                svg,
                "<line class=\"grid\" x1=\"{at:.1}\" y1=\"{TOP}\" x2=\"{at:.1}\" y2=\"{bottom}\"/>\
                 <text class=\"middle\" x=\"{at:.1}\" y=\"{}\">{}</text>",
                bottom + 16.0,
                short(tick)
            );
        }
        for tick in y.ticks() {
            let at = y.place(tick);
            let _ = writeln!(
                svg,
                "<line class=\"grid\" x1=\"{LEFT}\" y1=\"{at:.1}\" x2=\"{right}\" y2=\"{at:.1}\"/>\
                 <text class=\"end\" x=\"{}\" y=\"{:.1}\">{}</text>",
                LEFT - 6.0,
                at + 4.0,
                short(tick)
            );
        }
        let _ = writeln!(
            svg,
            "<text class=\"middle\" x=\"{}\" y=\"{}\">{}</text>\
             <text class=\"middle\" transform=\"translate(16 {}) rotate(-90)\">{}</text>",
            (LEFT + right) / 2.0,
            bottom + 34.0,
            escape(self.x_label),
            (TOP + bottom) / 2.0,
            escape(self.y_label)
        );
    }
}

fn draw(svg: &mut String, series: &Series, colour: &str, dashes: &str, x: &Axis, y: &Axis) {
    let places: Vec<(f64, f64)> =
        series.points.iter().map(|&(a, b)| (x.place(a), y.place(b))).collect();
    if series.style != Style::Dots {
        let points: Vec<String> = places.iter().map(|(a, b)| format!("{a:.1},{b:.1}")).collect();
        let points = points.join(" ");
        let _ = writeln!(
            svg,
            "<polyline class=\"line\" stroke=\"{colour}\" stroke-dasharray=\"{dashes}\" \
             points=\"{points}\"/>"
        );
    }
    if matches!(series.style, Style::Line | Style::Dots) {
        // Whose line is broken has hollow dots.
        let fill = if dashes.is_empty() { colour } else { "none" };
        for ((a, b), (value_x, value_y)) in places.iter().zip(&series.points) {
            let _ = writeln!(
                svg,
                "<circle cx=\"{a:.1}\" cy=\"{b:.1}\" r=\"3\" fill=\"{fill}\" stroke=\"{colour}\"><title>{}: {}, \
                 {}</title></circle>",
                escape(&series.name),
                short(*value_x),
                short(*value_y)
            );
        }
    }
}

/// Where values lie on the page.
struct Axis {
    scale: Scale,
    from: f64,
    to: f64,
    places: [f64; 2],
}

impl Axis {
    fn new(
        values: impl Iterator<Item = f64>,
        scale: Scale,
        from_zero: bool,
        places: [f64; 2],
    ) -> Self {
        let (mut from, mut to) = values
            .filter(|value| value.is_finite() && *value > 0.0)
            .fold((f64::INFINITY, 0.0f64), |(low, high), value| (low.min(value), high.max(value)));
        if to == 0.0 {
            (from, to) = (1.0, 1.0);
        }
        match scale {
            Scale::Logarithmic => (from, to) = (from / 1.4, to * 1.4),
            Scale::Linear if from_zero => (from, to) = (0.0, to * 1.08),
            Scale::Linear => {
                let margin = ((to - from) * 0.04).max(to * 0.01);
                (from, to) = (from - margin, to + margin);
            }
        }
        Self { scale, from, to, places }
    }

    fn place(&self, value: f64) -> f64 {
        let share = match self.scale {
            Scale::Linear => (value - self.from) / (self.to - self.from),
            Scale::Logarithmic => (value / self.from).ln() / (self.to / self.from).ln(),
        };
        self.places[0] + share * (self.places[1] - self.places[0])
    }

    /// Round numbers inside the axis.
    fn ticks(&self) -> Vec<f64> {
        match self.scale {
            Scale::Linear => {
                let step = round_step((self.to - self.from) / 6.0);
                let first = (self.from / step).ceil() as i64;
                (first..).map(|i| i as f64 * step).take_while(|&tick| tick <= self.to).collect()
            }
            Scale::Logarithmic => {
                let decades = self.from.log10().floor() as i32..=self.to.log10().ceil() as i32;
                let ticks = decades.flat_map(|d| [1.0, 2.0, 5.0].map(|x| x * 10f64.powi(d)));
                ticks.filter(|&tick| (self.from..=self.to).contains(&tick)).collect()
            }
        }
    }
}

/// One, two or five times a power of ten, at least this much.
fn round_step(least: f64) -> f64 {
    let decade = 10f64.powf(least.log10().floor());
    [1.0, 2.0, 5.0].iter().map(|x| x * decade).find(|&x| x >= least).unwrap_or(10.0 * decade)
}

/// A number with the digits that can be told apart in a plot.
pub fn short(value: f64) -> String {
    let text = match value.abs() {
        v if v >= 100.0 || v == 0.0 => format!("{value:.0}"),
        v if v >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    };
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

/// Text for HTML and SVG.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_inside() {
        let axis = Axis::new([512.0, 2048.0].into_iter(), Scale::Linear, true, [0.0, 100.0]);
        assert_eq!(axis.ticks(), [0.0, 500.0, 1000.0, 1500.0, 2000.0]);
        let axis = Axis::new([1.0, 100.0].into_iter(), Scale::Logarithmic, true, [0.0, 100.0]);
        assert_eq!(axis.ticks(), [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0]);
        assert!((axis.place(10.0) - 50.0).abs() < 1e-9);
    }

    #[test]
    fn a_plot_of_nothing_or_of_one_point_is_drawn() {
        for points in [vec![], vec![(1.0, 1.0)]] {
            for scale in [Scale::Linear, Scale::Logarithmic] {
                let series =
                    Series { name: "a<b".into(), points: points.clone(), style: Style::Line };
                let series = vec![series];
                let (x_label, y_label) = ("x", "y");
                let svg = Plot { title: "t".into(), x_label, y_label, scale, series }.svg();
                assert!(svg.contains("a&lt;b") && !svg.contains("NaN") && !svg.contains("inf"));
            }
        }
    }
}
