//! A series of points as runs that can be drawn, thinned to what a screen can show.

use crate::Series;

/// A point that can be drawn: both coordinates are finite.
pub(crate) type Point = (f64, f64);

/// A series cut at the points that cannot be drawn.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Curve {
    /// Points with rising x; between two runs the line has a gap.
    pub(crate) runs: Vec<Vec<Point>>,
    /// Points with a coordinate that is infinite or not a number.
    pub(crate) not_finite: usize,
    /// Points a logarithmic scale has no place for.
    pub(crate) not_positive: usize,
}

impl Curve {
    /// Cuts a series. With `log` on an axis, points at or below zero there are left out as well.
    ///
    /// Points are put in order of x, since a run that went on from an earlier checkpoint visits
    /// some steps twice and a line going back would hide that. A point whose x is not finite has
    /// no place of its own; it stays behind the one that came before it.
    pub(crate) fn new(series: &Series, [log_x, log_y]: [bool; 2]) -> Self {
        let mut place = f64::NEG_INFINITY;
        let mut placed: Vec<(f64, f64)> = Vec::with_capacity(series.points.len());
        for &(x, y) in &series.points {
            if x.is_finite() {
                place = x;
            }
            placed.push((place, if x.is_finite() { y } else { f64::NAN }));
        }
        placed.sort_by(|a, b| a.0.total_cmp(&b.0));

        let mut curve = Self::default();
        let mut run = Vec::new();
        for (x, y) in placed {
            let has_no_place = (log_x && x <= 0.0) || (log_y && y <= 0.0);
            if y.is_finite() && !has_no_place {
                run.push((x, y));
                continue;
            }
            if y.is_finite() {
                curve.not_positive += 1;
            } else {
                curve.not_finite += 1;
            }
            if !run.is_empty() {
                curve.runs.push(std::mem::take(&mut run));
            }
        }
        if !run.is_empty() {
            curve.runs.push(run);
        }
        curve
    }

    /// Every point that can be drawn.
    pub(crate) fn points(&self) -> impl Iterator<Item = Point> + '_ {
        self.runs.iter().flatten().copied()
    }

    /// The runs with few enough points for `columns` columns of pixels. `position` gives the
    /// place of an x between 0 and 1.
    ///
    /// Where a column holds many points, the first, the lowest, the highest and the last of them
    /// stay: the picture keeps its every spike and looks the same. Of the gaps inside one column
    /// only the first stays, else a series that fails at every second step would have no bound.
    pub(crate) fn thinned(&self, columns: usize, position: impl Fn(f64) -> f64) -> Vec<Vec<Point>> {
        if self.points().count() <= 2 * columns {
            return self.runs.clone();
        }
        let last = columns.saturating_sub(1);
        let column_of = |x: f64| ((position(x) * columns as f64) as usize).min(last);

        let mut thinned = Vec::new();
        let mut run = Vec::new();
        let mut column: Option<Column> = None;
        let mut gap_in = None;
        for points in &self.runs {
            for (index, &point) in points.iter().enumerate() {
                let at = column_of(point.0);
                let gap = index == 0 && column.is_some() && gap_in != Some(at);
                match &mut column {
                    Some(column) if column.at == at && !gap => column.add(point),
                    _ => {
                        if let Some(done) = column.replace(Column::new(at, point)) {
                            if gap && done.at == at {
                                gap_in = Some(at);
                            }
                            done.finish(&mut run);
                        }
                        if gap {
                            thinned.push(std::mem::take(&mut run));
                        }
                    }
                }
            }
        }
        if let Some(column) = column {
            column.finish(&mut run);
            thinned.push(run);
        }
        thinned
    }
}

/// The points of one column that matter, each with its number so that they can be put in order.
struct Column {
    at: usize,
    seen: usize,
    first: Point,
    lowest: (usize, Point),
    highest: (usize, Point),
    last: Point,
}

impl Column {
    fn new(at: usize, point: Point) -> Self {
        Self { at, seen: 1, first: point, lowest: (0, point), highest: (0, point), last: point }
    }

    fn add(&mut self, point: Point) {
        if point.1 < self.lowest.1.1 {
            self.lowest = (self.seen, point);
        }
        if point.1 > self.highest.1.1 {
            self.highest = (self.seen, point);
        }
        self.last = point;
        self.seen += 1;
    }

    fn finish(self, run: &mut Vec<Point>) {
        let mut kept = [(0, self.first), self.lowest, self.highest, (self.seen - 1, self.last)];
        kept.sort_by_key(|&(number, _)| number);
        let mut before = None;
        for (number, point) in kept {
            if before != Some(number) {
                run.push(point);
            }
            before = Some(number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn series(points: Vec<Point>) -> Series {
        Series { name: "s".to_owned(), points, ..Series::default() }
    }

    #[test]
    fn a_curve_breaks_where_it_cannot_be_drawn() {
        let points = vec![
            (0.0, 1.0),
            (1.0, f64::NAN),
            (2.0, 2.0),
            (3.0, -3.0),
            (f64::INFINITY, 1.0),
            (4.0, 4.0),
            (5.0, f64::NEG_INFINITY),
        ];
        let curve = Curve::new(&series(points.clone()), [false; 2]);
        assert_eq!(curve.runs, [vec![(0.0, 1.0)], vec![(2.0, 2.0), (3.0, -3.0)], vec![(4.0, 4.0)]]);
        assert_eq!((curve.not_finite, curve.not_positive), (3, 0));
        let curve = Curve::new(&series(points), [false, true]);
        assert_eq!(curve.runs, [[(0.0, 1.0)], [(2.0, 2.0)], [(4.0, 4.0)]]);
        assert_eq!((curve.not_finite, curve.not_positive), (3, 1));
    }

    #[test]
    fn points_are_put_in_order() {
        let curve = Curve::new(&series(vec![(2.0, 0.0), (0.0, 1.0), (1.0, 2.0)]), [false; 2]);
        assert_eq!(curve.runs, [[(0.0, 1.0), (1.0, 2.0), (2.0, 0.0)]]);
    }

    #[test]
    fn a_gap_wider_than_a_column_stays() {
        let value = |i: usize| if (4000..5000).contains(&i) { f64::NAN } else { i as f64 };
        let points = (0..10_000).map(|i| (i as f64, value(i))).collect();
        let thinned = Curve::new(&series(points), [false; 2]).thinned(100, |x| x / 9999.0);
        assert_eq!(thinned.len(), 2);
        assert_eq!(thinned[0].last(), Some(&(3999.0, 3999.0)));
        assert_eq!(thinned[1].first(), Some(&(5000.0, 5000.0)));
    }

    proptest! {
        #[test]
        fn thinning_keeps_order_extremes_and_bounds(
            values in prop::collection::vec(
                prop_oneof![8 => -1e3..1e3f64, 1 => Just(f64::NAN), 1 => Just(1e6)], 1..3000),
            columns in 1usize..40,
        ) {
            let points: Vec<Point> =
                values.iter().enumerate().map(|(i, &v)| (i as f64, v)).collect();
            let length = points.len() as f64;
            let curve = Curve::new(&series(points), [false; 2]);
            let position = |x: f64| x / length;
            let thinned = curve.thinned(columns, position);
            let kept: Vec<Point> = thinned.iter().flatten().copied().collect();
            prop_assert!(thinned.iter().all(|run| !run.is_empty()));
            prop_assert!(kept.len() <= (8 * columns).max(2 * columns));
            prop_assert!(kept.windows(2).all(|pair| pair[0].0 < pair[1].0));
            let all: Vec<Point> = curve.points().collect();
            prop_assert!(kept.iter().all(|point| all.contains(point)), "only real points");
            // In each column the lowest and the highest value are the true ones.
            let column = |x: f64| ((position(x) * columns as f64) as usize).min(columns - 1);
            for at in 0..columns {
                let extremes = |points: &[Point]| {
                    points.iter().filter(|point| column(point.0) == at).fold(
                        (f64::INFINITY, f64::NEG_INFINITY),
                        |(lo, hi), point| (lo.min(point.1), hi.max(point.1)),
                    )
                };
                prop_assert_eq!(extremes(&kept), extremes(&all));
            }
        }
    }
}
