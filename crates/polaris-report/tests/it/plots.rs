//! Curves and bars: what is drawn is what was given.

use crate::parse::{Element, subpaths};
use crate::{assert_stands_alone, read};
use polaris_report::{BarPlot, LinePlot, Page, Series, Style};

fn curves(series: Vec<(&str, Vec<(f64, f64)>)>, log_y: bool) -> Page {
    let series = series
        .into_iter()
        .map(|(name, points)| Series { name: name.into(), points, ..Series::default() })
        .collect();
    let (title, x_label) = ("t".into(), "step".into());
    Page::new("p").lines(&LinePlot { title, x_label, series, log_y, ..LinePlot::default() })
}

/// The path data of each curve in the drawing.
fn drawn(root: &Element) -> Vec<Vec<Vec<(f64, f64)>>> {
    root.with_class("plot")[0]
        .with_class("line")
        .iter()
        .map(|line| subpaths(line.get("d")))
        .collect()
}

fn assert_rising(runs: &[Vec<(f64, f64)>]) {
    let points: Vec<_> = runs.iter().flatten().collect();
    assert!(points.windows(2).all(|pair| pair[0].0 <= pair[1].0), "x goes back");
}

#[test]
fn a_line_has_its_points() {
    let root = read(&curves(vec![("a", vec![(0.0, 1.0), (1.0, 3.0), (4.0, 2.0)])], false));
    let runs = &drawn(&root)[0];
    assert_eq!(runs.len(), 1);
    let line = &runs[0];
    assert_eq!(line.len(), 3);
    assert_rising(runs);
    // A quarter of the way in x is a quarter of the way on the page; y grows upwards.
    let along = (line[1].0 - line[0].0) / (line[2].0 - line[0].0);
    assert!((along - 0.25).abs() < 1e-3, "{line:?}");
    let up = (line[0].1 - line[2].1) / (line[0].1 - line[1].1);
    assert!((up - 0.5).abs() < 1e-2, "{line:?}");
    let titles: Vec<_> =
        root.with_class("hover")[0].named("title").iter().map(|t| t.text.clone()).collect();
    assert_eq!(titles, ["a, step 0: 1", "a, step 1: 3", "a, step 4: 2"]);
}

#[test]
fn what_is_not_finite_leaves_a_gap_and_is_counted() {
    let nan = f64::NAN;
    let points = vec![
        (0.0, 1.0),
        (1.0, 2.0),
        (2.0, nan),
        (3.0, 2.0),
        (4.0, 1.0),
        (5.0, nan),
        (6.0, 1.0),
        (7.0, f64::INFINITY),
    ];
    let root = read(&curves(vec![("a", points)], false));
    let runs = &drawn(&root)[0];
    assert_eq!(runs.iter().map(Vec::len).collect::<Vec<_>>(), [2, 2]);
    let dots = root.with_class("dots");
    assert_eq!(dots.len(), 1, "the point between two gaps is a dot");
    assert_eq!(dots[0].get("d").matches("h0").count(), 1);
    assert!(root.with_class("legend")[0].words().contains("3 not finite"));
}

#[test]
fn logarithmic_scales_leave_out_what_they_cannot_show() {
    let points = vec![(0.0, 1.0), (1.0, 10.0), (2.0, -1.0), (3.0, 0.0), (4.0, 100.0), (5.0, 10.0)];
    let root = read(&curves(vec![("a", points)], true));
    let runs = &drawn(&root)[0];
    assert_eq!(runs.len(), 2);
    assert!((runs[0][1].1 - runs[1][1].1).abs() < 0.11);
    assert!((2.0 * runs[0][1].1 - runs[0][0].1 - runs[1][0].1).abs() < 0.31, "10 is half way");
    let words = root.words();
    assert!(words.contains("2 not above 0") && words.contains("log scale"));

    let root = read(&curves(vec![("a", vec![(0.0, -1.0), (1.0, 0.0)])], true));
    assert_eq!(drawn(&root)[0][0].len(), 2);
    assert!(root.words().contains("linear scale"));
}

#[test]
fn empty_single_and_equal_are_drawn_too() {
    let root = read(&curves(vec![], false));
    assert!(root.words().contains("nothing to draw"));
    let root = read(&curves(vec![("a", vec![])], true));
    assert!(root.words().contains("no points") && root.words().contains("nothing to draw"));
    let root = read(&curves(vec![("a", vec![(3.0, f64::NAN)])], false));
    assert!(root.words().contains("1 not finite") && root.words().contains("nothing to draw"));
    let root = read(&curves(vec![("a", vec![(3.0, 7.0)])], false));
    assert_eq!(root.with_class("dots").len(), 1);
    let root = read(&curves(vec![("a", vec![(0.0, 7.0), (9.0, 7.0)])], false));
    let line = &drawn(&root)[0][0];
    assert_eq!(line[0].1, line[1].1);
}

#[test]
fn a_million_steps_are_a_small_page_and_keep_their_spikes() {
    let value = |i: u32| 1.0 + f64::from(i.wrapping_mul(2_654_435_761) >> 16) / 65_536.0;
    let mut points: Vec<_> = (0..1_000_000).map(|i| (f64::from(i), value(i))).collect();
    points[345_678].1 = 9.0;
    points[765_432].1 = 0.0;
    let page = curves((0..4).map(|_| ("a", points.clone())).collect(), false);
    let html = page.render();
    assert!(html.len() < 300_000, "{} bytes", html.len());
    assert_stands_alone(&html);
    let root = read(&page);
    for runs in drawn(&root) {
        assert_rising(&runs);
        assert_eq!(runs.len(), 1);
        let at = |y: f64| runs[0].iter().find(|point| point.1 == y).expect("a spike").0;
        let (mut ys, first, last) = (
            runs[0].iter().map(|p| p.1).collect::<Vec<_>>(),
            runs[0][0].0,
            runs[0][runs[0].len() - 1].0,
        );
        ys.sort_by(f64::total_cmp);
        let across = |y| (at(y) - first) / (last - first);
        assert!((across(ys[0]) - 0.345_678).abs() < 2e-3);
        assert!((across(ys[ys.len() - 1]) - 0.765_432).abs() < 2e-3);
        assert!(ys[1] > ys[0] + 50.0, "only the spike is that high");
    }
    let titles = root.with_class("hover")[0].words();
    assert!(titles.contains("step 345678: 9 ") && titles.contains("step 765432: 0 "));
}

#[test]
fn the_size_is_bounded_whatever_the_points_are() {
    // Every second point is missing: as many runs as points.
    let half = |i: u32| if i.is_multiple_of(2) { f64::from(i % 977) } else { f64::NAN };
    let points: Vec<_> = (0..1_000_000).map(|i| (f64::from(i), half(i))).collect();
    let page = curves(vec![("a", points)], false);
    assert!(page.render().len() < 150_000);
    assert!(read(&page).words().contains("500\u{202f}000 not finite"));

    let points: Vec<_> = (0..5000).map(|i| (f64::from(i), f64::from(i % 89))).collect();
    let page = curves((0..60).map(|_| ("a", points.clone())).collect(), false);
    assert!(page.render().len() < 600_000, "{}", page.render().len());
}

#[test]
fn series_differ_in_more_than_colour() {
    let root = read(&curves((0..7).map(|_| ("a", vec![(0.0, 0.0), (1.0, 1.0)])).collect(), false));
    let lines = root.with_class("plot")[0].with_class("line");
    let class = |e: &Element, kind: char| {
        e.get("class").split(' ').find(|c| c.starts_with(kind)).map(str::to_owned)
    };
    let mut dashes: Vec<_> = lines.iter().map(|line| class(line, 'd')).collect();
    dashes.sort();
    dashes.dedup();
    assert_eq!(dashes.len(), 7);
    // Each class that is used has a rule.
    let style = &root.named("style")[0].text;
    for index in 0..7 {
        assert!(index == 0 || style.contains(&format!(".line.d{index}{{stroke-dasharray")));
        assert!(style.contains(&format!(".stripes.d{index}{{")));
        assert!(index == 6 || style.contains(&format!(".s{index}{{--s:")));
    }
}

#[test]
fn names_of_marks_do_not_overlap() {
    let marks = vec![
        (50.0, "best of all".to_owned()),
        (52.0, "stopped".to_owned()),
        (f64::NAN, "nowhere".to_owned()),
        (100.0, "the end of it".to_owned()),
    ];
    let series = vec![Series {
        name: "a".into(),
        points: vec![(0.0, 0.0), (100.0, 1.0)],
        ..Series::default()
    }];
    let page = Page::new("p").lines(&LinePlot { series, marks, ..LinePlot::default() });
    let root = read(&page);
    let marks = root.with_class("mark");
    assert_eq!(marks.len(), 3);
    let label = |index: usize| marks[index].named("text")[0];
    assert_ne!(label(0).number("y"), label(1).number("y"));
    assert!(label(2).get("class").contains("end"), "no room on the right");
    assert!(!root.words().contains("nowhere"));
}

fn bars(series: Vec<(&str, Vec<Option<f64>>)>, log_y: bool) -> Element {
    let series = series.into_iter().map(|(name, values)| (name.into(), values)).collect();
    let groups = vec!["one".into(), "two".into()];
    let plot = BarPlot { title: "t".into(), y_label: "ms".into(), groups, series, log_y };
    read(&Page::new("p").bars(&plot))
}

fn heights(root: &Element) -> Vec<f64> {
    root.with_class("plot")[0].with_class("bar").iter().map(|bar| bar.number("height")).collect()
}

#[test]
fn bars_are_as_high_as_their_values() {
    let root =
        bars(vec![("a", vec![Some(10.0), Some(5.0)]), ("b", vec![Some(-5.0), Some(0.0)])], false);
    let high = heights(&root);
    assert!((high[0] / high[1] - 2.0).abs() < 0.01 && (high[1] - high[2]).abs() < 0.21);
    assert_eq!(high[3], 0.0);
    let plot = root.with_class("plot")[0];
    let bar = plot.with_class("bar");
    let base = bar[0].number("y") + high[0];
    assert!((base - bar[2].number("y")).abs() < 0.21, "a negative bar goes down from zero");
    assert!(plot.words().contains("one, a: 10") && plot.words().contains("two, a: 5"));
    assert!(plot.get("aria-label").contains("one: a 10, b -5."));
    // Bars begin at zero even where all values are far from it.
    let high = heights(&bars(vec![("a", vec![Some(10.0), Some(9.0)])], false));
    assert!((high[1] / high[0] - 0.9).abs() < 0.01);
}

#[test]
fn missing_bars_are_said_not_drawn() {
    let root =
        bars(vec![("a", vec![Some(1.0), None]), ("b", vec![Some(f64::NAN)]), ("c", vec![])], false);
    assert_eq!(heights(&root).len(), 1);
    let legend = root.with_class("legend")[0].words();
    assert!(legend.contains("(1 missing)") && legend.contains("(1 missing, 1 not finite)"));
    assert!(legend.contains("(2 missing)"));
    assert!(root.words().contains("two, a: no value"));
    // More values than names of groups.
    let root = bars(vec![("a", vec![Some(1.0); 3])], false);
    assert_eq!(heights(&root).len(), 3);
    assert!(bars(vec![], true).words().contains("nothing to draw"));
}

#[test]
fn logarithmic_bars_all_have_a_height() {
    let root =
        bars(vec![("a", vec![Some(1.0), Some(1000.0)]), ("b", vec![Some(0.0), Some(-1.0)])], true);
    let high = heights(&root);
    assert_eq!(high.len(), 2);
    assert!(high[0] > 5.0 && high[1] < 20.0 * high[0], "{high:?}");
    assert!(root.words().contains("2 not above 0"));
}

#[test]
fn dots_and_limits_are_drawn_on_two_logarithmic_scales() {
    let series =
        |name: &str, points: Vec<(f64, f64)>, style| Series { name: name.into(), points, style };
    let plot = |points: Vec<(f64, f64)>, log: bool| {
        let limit = series("limit", vec![(1.0, 1.0), (100.0, 100.0)], Style::Limit);
        let series = vec![limit, series("a<b", points, Style::Dots)];
        let title = "t".into();
        let plot = LinePlot { title, series, log_x: log, log_y: log, ..LinePlot::default() };
        Page::new("p").lines(&plot)
    };
    let root = read(&plot(vec![(10.0, 10.0), (0.0, 5.0)], true));
    let drawing = root.with_class("plot")[0].clone();
    // Ten is half way between one and a hundred on both scales; zero has no place.
    let limit = &subpaths(drawing.with_class("limit")[0].get("d"))[0];
    let dots = drawing.with_class("dots")[0].get("d").to_owned();
    let middle = |a: f64, b: f64| format!("{:.0}", (a + b) / 2.0);
    let dot = &subpaths(&dots.replace("h0", ""))[0][0];
    assert_eq!(middle(limit[0].0, limit[1].0), format!("{:.0}", dot.0));
    assert_eq!(middle(limit[0].1, limit[1].1), format!("{:.0}", dot.1));
    assert_eq!(dots.matches("h0").count(), 1);
    assert_eq!(drawing.named("circle").len(), 1, "a limit has no values to hover over");
    assert!(root.words().contains("1 not above 0") && root.words().contains("a<b"));
    for points in [vec![], vec![(1.0, 1.0)]] {
        for log in [false, true] {
            let html = plot(points.clone(), log).render();
            assert!(html.contains("a&lt;b") && !html.contains("NaN") && !html.contains("inf"));
        }
    }
}

#[test]
fn heights_can_be_compared_from_zero() {
    let series = vec![Series {
        name: "a".into(),
        points: vec![(512.0, 900.0), (2048.0, 1000.0)],
        style: Style::Marked,
    }];
    let plot = LinePlot { series, from_zero: true, ..LinePlot::default() };
    let root = read(&Page::new("p").lines(&plot));
    let ticks: Vec<String> = root.with_class("end").iter().map(|text| text.text.clone()).collect();
    assert_eq!(ticks.first().map(String::as_str), Some("0"), "{ticks:?}");
    assert_eq!(root.with_class("plot")[0].with_class("dots")[0].get("d").matches("h0").count(), 2);
}
