//! Rectangles over two axes: what is used from when to when, and how much of it.

use crate::scale::{Axis, Range};
use crate::svg::{Entry, Frame, NAME, at, colour_class, legend};
use crate::text::{escape, put, shorten};

const HEIGHT: f64 = 320.0;
/// Sides from which a rectangle has an outline.
const OUTLINED: f64 = 2.0;

/// A plot of rectangles.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct BlockPlot {
    /// What the plot shows.
    pub title: String,
    /// What the horizontal axis means.
    pub x_label: String,
    /// What the vertical axis means.
    pub y_label: String,
    /// The names of the kinds of rectangles; each has a colour.
    pub kinds: Vec<String>,
    /// The rectangles. Those that are not finite are left out.
    pub blocks: Vec<Block>,
}

/// A rectangle.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Block {
    /// From where to where it reaches on the horizontal axis.
    pub x: (f64, f64),
    /// From where to where it reaches on the vertical axis.
    pub y: (f64, f64),
    /// The kind, by its place in the list.
    pub kind: usize,
    /// What it is.
    pub label: String,
}

impl BlockPlot {
    /// The plot as a figure.
    pub(crate) fn render(&self) -> String {
        let finite = |block: &&Block| {
            [block.x.0, block.x.1, block.y.0, block.y.1].iter().all(|value| value.is_finite())
        };
        let blocks: Vec<&Block> = self.blocks.iter().filter(finite).collect();
        let range = |ends: &dyn Fn(&Block) -> [f64; 2]| {
            Range::of(blocks.iter().flat_map(|block| ends(block)))
                .map_or(Range { lo: 0.0, hi: 1.0 }, |range| range.with(0.0))
        };
        let x = Axis::fitted(range(&|block| [block.x.0, block.x.1]), true);
        let y = Axis::covering(range(&|block| [block.y.0, block.y.1]), false);
        let frame = Frame::new(Some(&x), &y, 38.0, HEIGHT, 46.0);
        let mut out = String::from("<figure>");
        put!(&mut out, "<figcaption>{}</figcaption>", escape(&self.title));
        frame.open(&mut out, &format!("{}: {} blocks.", self.title, blocks.len()));
        frame.y_axis(&mut out, &y, &self.y_label);
        for block in &blocks {
            let (left, right) = (frame.x(&x, block.x.0), frame.x(&x, block.x.1));
            let (top, bottom) = (frame.y(&y, block.y.1), frame.y(&y, block.y.0));
            // An outline would be all there is to see of a small one.
            let outlined = right - left > OUTLINED && bottom - top > OUTLINED;
            let class = if outlined { "bar block" } else { "bar" };
            put!(
                &mut out,
                "<g><title>{}</title><rect class=\"{class} {}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"/></g>",
                escape(&shorten(&block.label, NAME)),
                colour_class(block.kind),
                at(left),
                at(top),
                at((right - left).max(0.6)),
                at((bottom - top).max(0.6))
            );
        }
        frame.x_axis(&mut out, &x, &self.x_label);
        if blocks.is_empty() {
            frame.nothing(&mut out, "nothing to draw");
        }
        out.push_str("</svg>");
        let entries: Vec<Entry<'_>> =
            self.kinds.iter().map(|name| Entry { name, note: String::new() }).collect();
        legend(&mut out, &entries, |index| {
            format!("<rect class=\"bar {}\" width=\"34\" height=\"12\"/>", colour_class(index))
        });
        out.push_str("</figure>");
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_drawn_and_odd_ones_left_out() {
        let block = |end| Block { x: (0.0, end), y: (0.0, 5.0), kind: 0, label: "a <b>".into() };
        let plot = BlockPlot {
            kinds: vec!["kind".into()],
            blocks: vec![block(3.0), block(f64::NAN)],
            ..BlockPlot::default()
        };
        let html = plot.render();
        assert_eq!(html.matches("<title>").count(), 1);
        assert!(html.contains("a &lt;b&gt;"), "{html}");
        // Neighbours of one colour are told apart by their outlines, unless there is nothing inside.
        assert!(html.contains("class=\"bar block s0\""), "{html}");
        assert!(crate::style::STYLE.contains(".block{stroke:"));
        let thin = Block { y: (0.0, 0.001), ..block(3.0) };
        let html = BlockPlot { blocks: vec![block(3.0), thin], ..plot }.render();
        assert_eq!(html.matches("bar block s0").count(), 1, "{html}");
        assert!(BlockPlot::default().render().contains("nothing to draw"));
    }
}
