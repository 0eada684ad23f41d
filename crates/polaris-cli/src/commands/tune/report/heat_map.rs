//! The best speed for each pair of values of two parameters.

use std::fmt::Write;

use polaris_tune::Points;

use super::Measured;
use super::importance::levels;
use crate::commands::bench_gemm::plot::{escape, short};

const LEFT: f64 = 70.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 34.0;
/// Below the cells there are their values, the name of the parameter and the scale.
const BOTTOM: f64 = 74.0;
const CELL_HEIGHT: f64 = 30.0;
/// For all cells of a row, as long as each has room for its number.
const ROW: f64 = 630.0;
const CELL_WIDTHS: [f64; 2] = [44.0, 90.0];
/// The scale is drawn in so many pieces.
const PIECES: usize = 30;
const PIECE: f64 = 8.0;

/// From slow to fast: even steps on the straight line from a dark blue to a yellow in OKLab, so
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

/// What was measured with two values.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Cell {
    /// Of the fastest.
    rate: f64,
    count: usize,
}

/// Two parameters and a cell for each pair of their values.
pub struct HeatMap {
    names: [&'static str; 2],
    unit: &'static str,
    columns: Vec<i64>,
    rows: Vec<i64>,
    /// Row after row; none where nothing was measured.
    cells: Vec<Option<Cell>>,
}

impl HeatMap {
    /// The first parameter is the horizontal one.
    pub fn new(
        points: &Points,
        measured: &[Measured],
        parameters: [usize; 2],
        unit: &'static str,
    ) -> Self {
        let [columns, rows] = parameters.map(|parameter| levels(points, parameter));
        let mut cells: Vec<Option<Cell>> = vec![None; columns.len() * rows.len()];
        for trial in measured {
            let [x, y] = parameters.map(|parameter| points.values(trial.point)[parameter]);
            let (Ok(column), Ok(row)) = (columns.binary_search(&x), rows.binary_search(&y)) else {
                continue;
            };
            let cell = cells[row * columns.len() + column]
                .get_or_insert(Cell { rate: trial.rate, count: 0 });
            cell.rate = cell.rate.max(trial.rate);
            cell.count += 1;
        }
        let names = parameters.map(|parameter| points.names()[parameter]);
        Self { names, unit, columns, rows, cells }
    }

    /// The map, with its scale below.
    pub fn svg(&self) -> String {
        let cell_width =
            (ROW / self.columns.len().max(1) as f64).clamp(CELL_WIDTHS[0], CELL_WIDTHS[1]);
        let (right, bottom) = (
            LEFT + cell_width * self.columns.len() as f64,
            TOP + CELL_HEIGHT * self.rows.len() as f64,
        );
        // The figures of a page are of one size, unless many cells need more room.
        let (width, height) = ((LEFT + ROW + RIGHT).max(right + RIGHT), bottom + BOTTOM);
        let ([x_name, y_name], unit) = (self.names.map(escape), self.unit);
        let mut svg = format!(
            "<svg viewBox=\"0 0 {width} {height}\" role=\"img\" \
             aria-label=\"Best {unit} by {x_name} and {y_name}\">\n\
             <text class=\"title\" x=\"{LEFT}\" y=\"18\">Best {unit} by {x_name} and {y_name}\
             </text>\n"
        );
        let (low, high) = self.range();
        for (place, cell) in self.cells.iter().enumerate() {
            let (row, column) = (place / self.columns.len(), place % self.columns.len());
            // Values rise to the right and to the top, as in the other plots.
            let (left, top) = (
                LEFT + cell_width * column as f64,
                TOP + CELL_HEIGHT * (self.rows.len() - 1 - row) as f64,
            );
            let look = cell.map(|cell| colour(share(cell.rate, low, high)));
            let fill = look.map_or("none".to_owned(), hex);
            let _ = write!(
                svg,
                "<rect class=\"grid\" x=\"{left:.1}\" y=\"{top:.1}\" width=\"{cell_width:.1}\" \
                 height=\"{CELL_HEIGHT}\" fill=\"{fill}\"><title>{x_name}={}, {y_name}={}: \
                 {}</title></rect>",
                self.columns[column],
                self.rows[row],
                cell.map_or("not measured".to_owned(), |cell| format!(
                    "best of {}: {} {unit}",
                    cell.count,
                    short(cell.rate)
                ))
            );
            if let Some((cell, look)) = cell.zip(look) {
                let _ = write!(
                    svg,
                    "<text class=\"middle {}\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                    if luminance(look) > MIDDLE { "on-light" } else { "on-dark" },
                    left + cell_width / 2.0,
                    top + CELL_HEIGHT / 2.0 + 4.0,
                    short(cell.rate)
                );
            }
            svg.push('\n');
        }
        self.labels(&mut svg, cell_width, bottom);
        if low < high {
            self.scale(&mut svg, low, high, bottom + 50.0);
        }
        svg.push_str("</svg>\n");
        svg
    }

    fn labels(&self, svg: &mut String, cell_width: f64, bottom: f64) {
        for (column, value) in self.columns.iter().enumerate() {
            let middle = LEFT + cell_width * (column as f64 + 0.5);
            let below = bottom + 16.0;
            let _ = writeln!(
                svg,
                "<text class=\"middle\" x=\"{middle:.1}\" y=\"{below}\">{value}</text>"
            );
        }
        for (row, value) in self.rows.iter().rev().enumerate() {
            let middle = TOP + CELL_HEIGHT * (row as f64 + 0.5) + 4.0;
            let beside = LEFT - 6.0;
            let _ = writeln!(
                svg,
                "<text class=\"end\" x=\"{beside}\" y=\"{middle:.1}\">{value}</text>"
            );
        }
        let _ = writeln!(
            svg,
            "<text class=\"middle\" x=\"{:.1}\" y=\"{}\">{}</text>\
             <text class=\"middle\" transform=\"translate(16 {:.1}) rotate(-90)\">{}</text>",
            LEFT + cell_width * self.columns.len() as f64 / 2.0,
            bottom + 34.0,
            escape(self.names[0]),
            (TOP + bottom) / 2.0,
            escape(self.names[1])
        );
    }

    /// The slowest and the fastest cell.
    fn range(&self) -> (f64, f64) {
        let all = self.cells.iter().flatten().map(|cell| cell.rate);
        all.fold((f64::INFINITY, 0.0f64), |(low, high), value| (low.min(value), high.max(value)))
    }

    /// The colours from slow to fast, between their numbers.
    fn scale(&self, svg: &mut String, low: f64, high: f64, top: f64) {
        let (before, base) = (LEFT - 6.0, top + 11.0);
        let _ =
            writeln!(svg, "<text class=\"end\" x=\"{before}\" y=\"{base}\">{}</text>", short(low));
        for piece in 0..PIECES {
            let fill = hex(colour(piece as f64 / (PIECES - 1) as f64));
            let left = LEFT + PIECE * piece as f64;
            let _ = writeln!(
                svg,
                "<rect x=\"{left}\" y=\"{top}\" width=\"{PIECE}\" height=\"14\" fill=\"{fill}\" \
                 shape-rendering=\"crispEdges\"/>"
            );
        }
        let behind = LEFT + PIECE * PIECES as f64 + 6.0;
        let _ =
            writeln!(svg, "<text x=\"{behind}\" y=\"{base}\">{} {}</text>", short(high), self.unit);
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
    use polaris_tune::Space;

    use super::*;

    #[test]
    fn cells_hold_the_best_of_their_points() {
        let points = Space::new("a test")
            .parameter("tile", [32, 16])
            .parameter("unroll", [1, 2])
            .parameter("threads", [4, 8])
            .points()
            .unwrap();
        let trial = |values: [i64; 3], rate| {
            let point = points.find(&values).unwrap();
            Measured { number: 1, point, rate }
        };
        let measured = [
            trial([16, 1, 4], 150.0),
            trial([16, 2, 4], 321.0),
            trial([32, 2, 4], 50.0),
            trial([32, 1, 8], 77.0),
        ];
        let map = HeatMap::new(&points, &measured, [0, 2], "GB/s");
        assert_eq!((&map.columns[..], &map.rows[..]), (&[16, 32][..], &[4, 8][..]));
        let cell = |rate, count| Some(Cell { rate, count });
        assert_eq!(map.cells, [cell(321.0, 2), cell(50.0, 1), None, cell(77.0, 1)]);
        let svg = map.svg();
        for wanted in [">321</text>", ">77</text>", "tile=16, threads=8: not measured", "321 GB/s"]
        {
            assert!(svg.contains(wanted), "{wanted}: {svg}");
        }
        assert!(!svg.contains(">150<") && svg.matches("fill=\"none\"").count() == 1, "{svg}");
        assert!(svg.contains(&hex(SCALE[0])) && svg.contains(&hex(SCALE[8])), "{svg}");
    }

    #[test]
    fn a_map_of_one_cell_or_of_none_is_drawn() {
        let points = Space::new("a test").parameter("a", [1]).parameter("b", [2]).points().unwrap();
        let one = [Measured { number: 1, point: 0, rate: 3.0 }];
        for measured in [&one[..], &[]] {
            let svg = HeatMap::new(&points, measured, [0, 1], "GB/s").svg();
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        }
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
