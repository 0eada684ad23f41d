//! A value for each pair of two lists, as colours with numbers on them.

use crate::number::short;
use crate::svg::{FONT, NAME, WIDTH, at, open};
use crate::text::{escape, put, shorten, width};

const TOP: f64 = 24.0;
/// Below the cells there are their labels, the name of the axis and the scale.
const BOTTOM: f64 = 74.0;
const CELL_HEIGHT: f64 = 30.0;
/// The least and the most: each cell has room for its number.
const CELL_WIDTHS: [f64; 2] = [44.0, 90.0];
/// The scale is drawn in so many pieces.
const PIECES: usize = 30;
const PIECE: f64 = 8.0;

/// From low to high: even steps on the straight line from a dark blue to a yellow in OKLab, so
/// that even steps look even. Blue and yellow differ for nearly all people, and the lightness
/// alone tells the order.
const SCALE: [[u8; 3]; 9] = [
    [8, 42, 122],
    [35, 70, 126],
    [63, 94, 128],
    [93, 118, 128],
    [123, 141, 126],
    [155, 164, 121],
    [187, 187, 111],
    [221, 210, 96],
    [255, 233, 69],
];

/// A map of values over two lists. Brighter is higher.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HeatMap {
    /// What the map shows.
    pub title: String,
    /// What runs from left to right.
    pub x_label: String,
    /// What runs from bottom to top.
    pub y_label: String,
    /// The unit of the values.
    pub unit: String,
    /// The labels from left to right.
    pub columns: Vec<String>,
    /// The labels from bottom to top.
    pub rows: Vec<String>,
    /// The cells, row after row from the bottom. One that is missing or not finite stays empty.
    pub cells: Vec<Option<HeatCell>>,
    /// What an empty cell's hover title says, such as `not measured`.
    pub empty: String,
}

/// A cell of a map.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HeatCell {
    /// Its value.
    pub value: f64,
    /// What else its hover title says, before the value.
    pub note: String,
}

/// Where things are in the picture.
struct Places {
    left: f64,
    right: f64,
    bottom: f64,
    cell: f64,
}

impl HeatMap {
    /// The map as a figure, with its scale below.
    pub(crate) fn render(&self) -> String {
        let (columns, rows) = (self.columns.len(), self.rows.len());
        let widest = self.rows.iter().map(|label| width(label, FONT)).fold(0.0, f64::max);
        let left = widest + 40.0;
        let room = (WIDTH - left) / columns.max(1) as f64;
        let cell = room.clamp(CELL_WIDTHS[0], CELL_WIDTHS[1]);
        let right = left + cell * columns as f64;
        let bottom = TOP + CELL_HEIGHT * rows as f64;
        let places = Places { left, right, bottom, cell };
        let mut out = String::from("<figure>");
        put!(&mut out, "<figcaption>{}</figcaption>", escape(&self.title));
        // The figures of a page are of one size, unless many cells need more room.
        open(&mut out, right.max(WIDTH), bottom + BOTTOM, &self.summary());
        let (low, high) = self.range();
        for row in 0..rows {
            for column in 0..columns {
                self.cell(&mut out, &places, (row, column), (low, high));
            }
        }
        self.labels(&mut out, &places);
        if low < high {
            self.scale(&mut out, &places, (low, high));
        }
        out.push_str("</svg></figure>");
        out
    }

    fn summary(&self) -> String {
        let (low, high) = self.range();
        let filled = self.cells.iter().flatten().count();
        let values = match low <= high {
            true => format!(" from {} to {} {}", short(low), short(high), self.unit),
            false => String::new(),
        };
        let cells = self.columns.len() * self.rows.len();
        format!("Heat map: {}. {filled} of {cells} cells{values}.", self.title)
    }

    /// The value of a cell, with what is said of it.
    fn at(&self, row: usize, column: usize) -> Option<&HeatCell> {
        let cell = self.cells.get(row * self.columns.len() + column)?.as_ref()?;
        Some(cell).filter(|cell| cell.value.is_finite())
    }

    fn cell(
        &self,
        out: &mut String,
        places: &Places,
        (row, column): (usize, usize),
        (low, high): (f64, f64),
    ) {
        let cell = self.at(row, column);
        let left = places.left + places.cell * column as f64;
        // Values rise to the right and to the top, as in the other plots.
        let top = places.bottom - CELL_HEIGHT * (row + 1) as f64;
        let look = cell.map(|cell| colour(share(cell.value, low, high)));
        let words = match cell {
            Some(HeatCell { value, note }) => format!("{note}: {} {}", short(*value), self.unit),
            None => self.empty.clone(),
        };
        put!(
            out,
            "<rect class=\"grid\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{CELL_HEIGHT}\" \
             fill=\"{}\"><title>{}={}, {}={}: {}</title></rect>",
            at(left),
            at(top),
            at(places.cell),
            look.map_or("none".to_owned(), hex),
            escape(&shorten(&self.x_label, NAME)),
            escape(&shorten(&self.columns[column], NAME)),
            escape(&shorten(&self.y_label, NAME)),
            escape(&shorten(&self.rows[row], NAME)),
            escape(&words)
        );
        if let Some((cell, look)) = cell.zip(look) {
            put!(
                out,
                "<text class=\"mid {}\" x=\"{}\" y=\"{}\">{}</text>",
                if luminance(look) > MIDDLE { "on-light" } else { "on-dark" },
                at(left + places.cell / 2.0),
                at(top + CELL_HEIGHT / 2.0 + 4.0),
                short(cell.value)
            );
        }
    }

    fn labels(&self, out: &mut String, places: &Places) {
        for (column, label) in self.columns.iter().enumerate() {
            put!(
                out,
                "<text class=\"mid\" x=\"{}\" y=\"{}\">{}</text>",
                at(places.left + places.cell * (column as f64 + 0.5)),
                at(places.bottom + 16.0),
                escape(label)
            );
        }
        for (row, label) in self.rows.iter().enumerate() {
            put!(
                out,
                "<text class=\"end\" x=\"{}\" y=\"{}\">{}</text>",
                at(places.left - 6.0),
                at(places.bottom - CELL_HEIGHT * (row as f64 + 0.5) + 4.0),
                escape(label)
            );
        }
        put!(
            out,
            "<text class=\"mid name\" x=\"{}\" y=\"{}\">{}</text>",
            at((places.left + places.right) / 2.0),
            at(places.bottom + 34.0),
            escape(&self.x_label)
        );
        put!(out, "<text class=\"name\" x=\"4\" y=\"14\">{}</text>", escape(&self.y_label));
    }

    /// The lowest and the highest value; the lowest is above the highest where there is none.
    fn range(&self) -> (f64, f64) {
        let all = self.cells.iter().flatten().map(|cell| cell.value).filter(|v| v.is_finite());
        let none = (f64::INFINITY, f64::NEG_INFINITY);
        all.fold(none, |(low, high), value| (low.min(value), high.max(value)))
    }

    /// The colours from low to high, between their numbers.
    fn scale(&self, out: &mut String, places: &Places, (low, high): (f64, f64)) {
        let top = places.bottom + 50.0;
        let base = at(top + 11.0);
        let before = at(places.left - 6.0);
        put!(out, "<text class=\"end\" x=\"{before}\" y=\"{base}\">{}</text>", short(low));
        for piece in 0..PIECES {
            put!(
                out,
                "<rect x=\"{}\" y=\"{}\" width=\"{PIECE}\" height=\"14\" fill=\"{}\" \
                 shape-rendering=\"crispEdges\"/>",
                at(places.left + PIECE * piece as f64),
                at(top),
                hex(colour(piece as f64 / (PIECES - 1) as f64))
            );
        }
        put!(
            out,
            "<text x=\"{}\" y=\"{base}\">{} {}</text>",
            at(places.left + PIECE * PIECES as f64 + 6.0),
            short(high),
            escape(&self.unit)
        );
    }
}

/// Where a value lies between two; at the upper end if they are the same.
fn share(value: f64, low: f64, high: f64) -> f64 {
    if low < high { (value - low) / (high - low) } else { 1.0 }
}

fn colour(share: f64) -> [u8; 3] {
    let place = share.clamp(0.0, 1.0) * (SCALE.len() - 1) as f64;
    let below = (place as usize).min(SCALE.len() - 2);
    let part = place - below as f64;
    std::array::from_fn(|channel| {
        let [from, to] = [below, below + 1].map(|stop| f64::from(SCALE[stop][channel]));
        (from + part * (to - from)).round() as u8
    })
}

fn hex([red, green, blue]: [u8; 3]) -> String {
    format!("#{red:02x}{green:02x}{blue:02x}")
}

/// Where black and white text have the same contrast, as WCAG defines it.
const MIDDLE: f64 = 0.179;

/// The relative luminance of WCAG, from 0 to 1.
fn luminance(colour: [u8; 3]) -> f64 {
    let linear = colour.map(|channel| {
        let value = f64::from(channel) / 255.0;
        if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
    });
    0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(cells: Vec<Option<f64>>, columns: &[&str], rows: &[&str]) -> HeatMap {
        let cell = |value| HeatCell { value, note: "best of 2".into() };
        let owned = |labels: &[&str]| labels.iter().map(|&label| label.to_owned()).collect();
        HeatMap {
            title: "Best".into(),
            x_label: "tile".into(),
            y_label: "threads".into(),
            unit: "GB/s".into(),
            columns: owned(columns),
            rows: owned(rows),
            cells: cells.into_iter().map(|value| value.map(cell)).collect(),
            empty: "not measured".into(),
        }
    }

    #[test]
    fn cells_have_their_colours_numbers_and_titles() {
        let cells = vec![Some(321.0), Some(50.0), None, Some(77.0)];
        let html = map(cells, &["16", "<32>"], &["4", "8"]).render();
        for wanted in [
            ">321</text>",
            ">77</text>",
            "tile=16, threads=8: not measured",
            "tile=16, threads=4: best of 2: 321 GB/s",
            "tile=&lt;32&gt;",
        ] {
            assert!(html.contains(wanted), "{wanted}: {html}");
        }
        assert_eq!(html.matches("fill=\"none\"").count(), 1, "{html}");
        assert!(html.contains(&hex(SCALE[0])) && html.contains(&hex(SCALE[8])), "{html}");
    }

    #[test]
    fn a_map_of_one_cell_or_of_none_is_drawn() {
        for cells in [vec![Some(3.0)], vec![None], vec![Some(f64::NAN)], Vec::new()] {
            let html = map(cells, &["1"], &["2"]).render();
            assert!(!html.contains("NaN") && !html.contains("inf"), "{html}");
        }
        assert!(map(Vec::new(), &[], &[]).render().contains("0 of 0 cells"));
    }

    #[test]
    fn lightness_rises_and_numbers_are_readable() {
        let all: Vec<f64> = (0..=100).map(|i| luminance(colour(f64::from(i) / 100.0))).collect();
        assert!(all.windows(2).all(|pair| pair[0] < pair[1]), "{all:?}");
        for light in all {
            let contrast =
                if light > MIDDLE { (light + 0.05) / 0.05 } else { 1.05 / (light + 0.05) };
            assert!(contrast >= 4.5, "{light}");
        }
    }
}
