//! Confusion matrices.

use crate::Table;
use crate::cells::draw;
use crate::grid::{Grid, class_name, counts};
use crate::number::{count, percent};
use crate::text::{escape, put};

/// Classes up to which each square has its number.
const NUMBERED: usize = 20;
/// Confusions in the list below a picture without numbers.
const LISTED: usize = 10;

/// How often each class was taken for each: a square for every pair, shaded by its share of the
/// row, with recall beside the rows and precision below the columns.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ConfusionMatrix {
    /// What was classified.
    pub title: String,
    /// The names of the classes.
    pub classes: Vec<String>,
    /// `counts[truth][predicted]`. What is missing is zero; rows and columns beyond the named
    /// classes are drawn under their number.
    pub counts: Vec<Vec<u64>>,
}

impl ConfusionMatrix {
    /// The matrix as a figure, followed by the most frequent confusions where the picture is too
    /// dense for numbers.
    pub(crate) fn render(&self) -> String {
        let grid = Grid::new(self);
        let total = grid.total();
        let right: u128 = grid.right.iter().sum();
        let numbered = grid.size <= NUMBERED && grid.joined == 1;

        let mut caption = self.title.clone();
        if !caption.is_empty() {
            caption.push_str(": ");
        }
        match total {
            0 => caption.push_str("nothing was counted"),
            _ => put!(
                &mut caption,
                "accuracy {}% ({} of {} right)",
                percent(right, total),
                count(right),
                count(total)
            ),
        }
        let mut out = String::from("<figure>");
        put!(&mut out, "<figcaption>{}</figcaption>", escape(&caption));
        if grid.size == 0 {
            out.push_str("<p class=\"note\">no classes</p>");
        } else {
            let summary = format!("Confusion matrix of {} classes. {caption}", grid.classes);
            draw(&mut out, &grid, numbered, &summary);
            out.push_str("<p class=\"note\">A square is shaded by its share of the row.");
            if grid.joined > 1 {
                put!(&mut out, " Each row and column stands for {} classes.", grid.joined);
            }
            out.push_str("</p>");
        }
        out.push_str("</figure>");
        if !numbered {
            out.push_str(&self.confusions(&grid).render());
        }
        out
    }

    /// The pairs of different classes that were counted most.
    fn confusions(&self, grid: &Grid) -> Table {
        let mut pairs: Vec<_> = counts(self).filter(|&(truth, guess, _)| truth != guess).collect();
        let total = pairs.len();
        pairs.sort_by_key(|&(truth, guess, count)| (u64::MAX - count, truth, guess));
        pairs.truncate(LISTED);
        let rows = pairs
            .iter()
            .map(|&(truth, guess, number)| {
                let row: u128 = self.counts[truth].iter().map(|&count| u128::from(count)).sum();
                vec![
                    class_name(self, truth),
                    class_name(self, guess),
                    count(number.into()),
                    percent(number.into(), row),
                ]
            })
            .collect();
        let caption = match (grid.total(), total) {
            (0, _) => "Nothing was counted".to_owned(),
            (_, 0) => "No class was taken for another".to_owned(),
            (_, ..=LISTED) => "All confusions".to_owned(),
            _ => format!("The {LISTED} most frequent confusions of {}", count(total as u128)),
        };
        let header = ["true", "predicted", "count", "% of the true class"];
        Table {
            header: header.map(str::to_owned).to_vec(),
            rows,
            numeric: vec![false, false, true, true],
            caption,
        }
    }
}
