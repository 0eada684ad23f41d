//! The picture of a confusion matrix.

use crate::grid::Grid;
use crate::number::{compact, count, percent};
use crate::svg::{FONT, SMALL, at, open};
use crate::text::{escape, fit, put, width};

/// The room for the squares.
const SIDE: f64 = 610.0;
/// The widest name of a class; longer ones are cut, and whole in the hover title.
const NAME_ROOM: f64 = 120.0;
/// Room between the squares and the recall and precision beside them.
const GAP: f64 = 10.0;
/// Squares with a hover title, the fullest ones, in a picture without numbers.
const TITLED: usize = 800;
/// Shades of squares that have no number; the style sheet has a class for each.
const SHADES: u128 = 10;

/// Where things are in the picture.
struct Places {
    /// The width and the height of a square.
    cell: f64,
    row: f64,
    /// The corner of the first square.
    left: f64,
    top: f64,
    /// Whether the names above the columns are level; else they stand upright.
    level: bool,
    /// Every how many names one is shown, which leaves each the height of its line.
    every: usize,
}

/// Draws a grid that is not empty; `summary` is what a screen reader says in its place.
pub(crate) fn draw(out: &mut String, grid: &Grid, numbered: bool, summary: &str) {
    let size = grid.size as f64;
    let cell = if numbered { (SIDE / size).clamp(30.0, 56.0) } else { SIDE / size };
    let row = cell.min(36.0);
    let every = (13.0 / row).ceil().max(1.0) as usize;
    let widest = grid.names.iter().step_by(every).map(|name| width(name, FONT)).fold(0.0, f64::max);
    let names = widest.min(NAME_ROOM);
    let level = widest <= cell - 4.0;
    let head = if level { 20.0 } else { names + 16.0 };
    // The word on the left of the lowest row is not to be cut either.
    let left = names.max(width("precision %", FONT)) + 38.0;
    let places = Places { cell, row, left, top: head + 22.0, level, every };
    let wide = left + size * cell + GAP + 52.0;
    let tall = places.top + size * row + GAP + 30.0;
    open(out, wide, tall, summary);
    names_of_classes(out, grid, &places);
    if numbered {
        numbered_cells(out, grid, &places);
    } else {
        shaded_cells(out, grid, &places);
    }
    recall_and_precision(out, grid, &places, numbered);
    out.push_str("</svg>");
}

/// Names on the left and above: all of them, or as many as there is room for.
fn names_of_classes(out: &mut String, grid: &Grid, places: &Places) {
    let size = grid.size as f64;
    put!(
        out,
        "<text class=\"name mid\" x=\"{}\" y=\"14\">predicted</text>",
        at(places.left + size * places.cell / 2.0)
    );
    let middle = at(places.top + size * places.row / 2.0);
    put!(
        out,
        "<text class=\"name mid\" x=\"14\" y=\"{middle}\" transform=\"rotate(-90 14 {middle})\">\
         true</text>"
    );
    for (index, name) in grid.names.iter().enumerate().step_by(places.every) {
        let whole = escape(name);
        let cut = fit(name, FONT, NAME_ROOM);
        let label = escape(&cut);
        put!(
            out,
            "<text class=\"end\" x=\"{}\" y=\"{}\"><title>{whole}</title>{label}</text>",
            at(places.left - 6.0),
            at(places.top + (index as f64 + 0.5) * places.row + 4.0)
        );
        let x = places.left + (index as f64 + 0.5) * places.cell;
        let y = at(places.top - 7.0);
        if places.level {
            put!(out, "<text class=\"mid\" x=\"{}\" y=\"{y}\">", at(x));
        } else {
            let x = at(x + 4.0);
            put!(out, "<text x=\"{x}\" y=\"{y}\" transform=\"rotate(-90 {x} {y})\">");
        }
        put!(out, "<title>{whole}</title>{label}</text>");
    }
}

/// The hover title of a square.
fn title(out: &mut String, grid: &Grid, (row, column): (usize, usize), number: u128) {
    put!(
        out,
        "<title>true {}, predicted {}: {} ({}% of the row)</title>",
        escape(&grid.names[row]),
        escape(&grid.names[column]),
        count(number),
        percent(number, grid.rows[row])
    );
}

/// Squares with their numbers.
fn numbered_cells(out: &mut String, grid: &Grid, places: &Places) {
    for row in 0..grid.size {
        for column in 0..grid.size {
            let number = grid.cells.get(&(row, column)).copied().unwrap_or(0);
            let left = places.left + column as f64 * places.cell;
            let top = places.top + row as f64 * places.row;
            let share = number as f64 / grid.rows[row].max(1) as f64;
            let shade = if number == 0 { 0.0 } else { 0.1 + 0.9 * share };
            let class = if row == column { "cell right" } else { "cell" };
            out.push_str("<g>");
            title(out, grid, (row, column), number);
            put!(
                out,
                "<rect class=\"{class}\" fill-opacity=\"{shade:.3}\" x=\"{}\" y=\"{}\" width=\"{}\" \
                 height=\"{}\"/>",
                at(left + 1.0),
                at(top + 1.0),
                at(places.cell - 2.0),
                at(places.row - 2.0)
            );
            let (style, text) = match number {
                0 => ("small mid faint", "0".to_owned()),
                _ if width(&count(number), SMALL) <= places.cell - 8.0 => {
                    ("small mid", count(number))
                }
                _ => ("small mid", compact(number.try_into().unwrap_or(u64::MAX))),
            };
            put!(
                out,
                "<text class=\"{style}\" x=\"{}\" y=\"{}\">{text}</text></g>",
                at(left + places.cell / 2.0),
                at(top + places.row / 2.0 + 4.0)
            );
        }
    }
}

/// Squares without numbers. The fullest have a hover title each; of the others there can be
/// thousands, and all of one shade are a single path.
fn shaded_cells(out: &mut String, grid: &Grid, places: &Places) {
    let (wide, tall) = (grid.size as f64 * places.cell, grid.size as f64 * places.row);
    put!(
        out,
        "<rect class=\"field\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"/>",
        at(places.left),
        at(places.top),
        at(wide),
        at(tall)
    );
    let mut cells: Vec<_> = grid.cells.iter().map(|(&place, &number)| (number, place)).collect();
    cells.sort_by_key(|&(number, place)| (u128::MAX - number, place));
    let shade = |number: u128, row: usize| (number * SHADES).div_ceil(grid.rows[row].max(1)) - 1;
    let (cell_wide, cell_tall) = (at(places.cell), at(places.row));
    let corner = |(row, column): (usize, usize)| {
        (at(places.left + column as f64 * places.cell), at(places.top + row as f64 * places.row))
    };
    let mut paths = vec![String::new(); SHADES as usize];
    for &(number, place) in cells.iter().skip(TITLED) {
        let (x, y) = corner(place);
        let path = &mut paths[shade(number, place.0) as usize];
        put!(path, "M{x} {y}h{cell_wide}v{cell_tall}H{x}");
    }
    for (shade, path) in paths.iter().enumerate().filter(|(_, path)| !path.is_empty()) {
        put!(out, "<path class=\"h{shade}\" d=\"{path}\"/>");
    }
    for &(number, place) in cells.iter().take(TITLED) {
        let (x, y) = corner(place);
        put!(
            out,
            "<rect class=\"h{}\" x=\"{x}\" y=\"{y}\" width=\"{cell_wide}\" height=\"{cell_tall}\">",
            shade(number, place.0)
        );
        title(out, grid, place, number);
        out.push_str("</rect>");
    }
}

/// Recall on the right and precision below: in numbers, or as shaded strips with hover titles.
fn recall_and_precision(out: &mut String, grid: &Grid, places: &Places, numbered: bool) {
    let size = grid.size as f64;
    let (right, bottom) =
        (places.left + size * places.cell + GAP, places.top + size * places.row + GAP);
    put!(
        out,
        "<text class=\"name\" x=\"{}\" y=\"{}\">recall{}</text>",
        at(right),
        at(places.top - 7.0),
        if numbered { " %" } else { "" }
    );
    put!(
        out,
        "<text class=\"name end\" x=\"{}\" y=\"{}\">precision{}</text>",
        at(places.left - 6.0),
        at(bottom + if numbered { 16.0 } else { 11.0 }),
        if numbered { " %" } else { "" }
    );
    for index in 0..grid.size {
        let name = escape(&grid.names[index]);
        let along = index as f64 + 0.5;
        let (row, column) = (places.top + along * places.row, places.left + along * places.cell);
        let strips = [
            ("recall", grid.rows[index], (right, row - places.row / 2.0, 14.0, places.row)),
            (
                "precision",
                grid.columns[index],
                (column - places.cell / 2.0, bottom, places.cell, 14.0),
            ),
        ];
        for (what, whole, (x, y, wide, tall)) in strips {
            let share = percent(grid.right[index], whole);
            let of = count(whole);
            put!(out, "<g><title>{what} of {name}: {share} % of {of}</title>");
            if numbered && what == "recall" {
                put!(
                    out,
                    "<text class=\"small\" x=\"{}\" y=\"{}\">{share}</text>",
                    at(x),
                    at(row + 4.0)
                );
            } else if numbered {
                put!(
                    out,
                    "<text class=\"small mid\" x=\"{}\" y=\"{}\">{share}</text>",
                    at(column),
                    at(y + 16.0)
                );
            } else {
                let shade = match whole {
                    0 => "field".to_owned(),
                    _ => format!("h{}", (grid.right[index] * (SHADES - 1)) / whole),
                };
                put!(
                    out,
                    "<rect class=\"{shade}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"/>",
                    at(x),
                    at(y),
                    at(wide),
                    at(tall)
                );
            }
            out.push_str("</g>");
        }
    }
}
