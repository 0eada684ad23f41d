//! Pages a command leaves behind for a person: one HTML file with its style and its pictures
//! inside, so that it can be mailed, printed or opened in ten years without anything else.
//!
//! Nothing here fails and nothing here panics: a report is written at the end of a long run, when
//! an odd number in it (a loss that became NaN, a class nobody named) must not cost the report.
//! What cannot be drawn is omitted and counted below the plot.
//!
//! ```
//! use polaris_report::{LinePlot, Page, Series};
//!
//! let loss = Series { name: "train".into(), points: vec![(0.0, 2.3), (1.0, 0.9), (2.0, 0.4)], ..Series::default() };
//! let html = Page::new("A small run")
//!     .facts(&[("model", "mlp".into()), ("seed", "1".into())])
//!     .section("Curves")
//!     .lines(&LinePlot {
//!         title: "Loss".into(),
//!         x_label: "epoch".into(),
//!         y_label: "cross entropy".into(),
//!         series: vec![loss],
//!         ..LinePlot::default()
//!     })
//!     .render();
//! assert!(html.starts_with("<!DOCTYPE html>"));
//! ```

#![forbid(unsafe_code)]

mod bars;
mod blocks;
mod cells;
mod curve;
mod grid;
mod heat_map;
mod lines;
mod marks;
mod matrix;
mod number;
mod page;
mod scale;
mod style;
mod svg;
mod table;
mod text;

pub use bars::BarPlot;
pub use blocks::{Block, BlockPlot};
pub use heat_map::{HeatCell, HeatMap};
pub use lines::{LinePlot, Series, Style};
pub use matrix::ConfusionMatrix;
pub use number::short;
pub use page::Page;
pub use table::Table;
