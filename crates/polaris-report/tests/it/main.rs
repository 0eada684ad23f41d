//! Pages as a browser would read them: form, safety, independence of anything outside.

mod matrices;
mod parse;
mod plots;

use parse::{Element, parse};
use polaris_report::{BarPlot, ConfusionMatrix, LinePlot, Page, Series, Table};
use proptest::prelude::*;

/// What a page may be made of. Nothing here runs, loads or leads anywhere.
const ELEMENTS: &[&str] = &[
    "html",
    "head",
    "meta",
    "title",
    "style",
    "body",
    "main",
    "header",
    "section",
    "h1",
    "h2",
    "p",
    "dl",
    "dt",
    "dd",
    "div",
    "table",
    "caption",
    "thead",
    "tbody",
    "tr",
    "th",
    "td",
    "pre",
    "figure",
    "figcaption",
    "svg",
    "g",
    "path",
    "rect",
    "circle",
    "text",
    "ul",
    "li",
    "span",
];
const ATTRIBUTES: &[&str] = &[
    "lang",
    "charset",
    "name",
    "content",
    "class",
    "tabindex",
    "scope",
    "role",
    "aria-label",
    "aria-hidden",
    "viewBox",
    "width",
    "height",
    "x",
    "y",
    "cx",
    "cy",
    "r",
    "d",
    "transform",
    "stroke-width",
    "fill-opacity",
];

/// Reads a page and checks what is true of every page.
pub fn read(page: &Page) -> Element {
    let root = parse(&page.render());
    let html = &root.children[0];
    assert_eq!((html.name.as_str(), html.get("lang")), ("html", "en"));
    for element in html.all() {
        assert!(ELEMENTS.contains(&element.name.as_str()), "<{}>", element.name);
        for attribute in element.attributes.keys() {
            assert!(ATTRIBUTES.contains(&attribute.as_str()), "{attribute}=");
        }
        for number in ["x", "y", "cx", "cy", "r", "width", "height"] {
            if element.attributes.contains_key(number) && element.name != "meta" {
                assert!(element.number(number).is_finite());
            }
        }
        assert!(!["d", "transform"].iter().any(|a| element.get(a).contains(['N', 'n', 'i'])));
    }
    for plot in html.with_class("plot") {
        assert_eq!(plot.get("role"), "img");
        assert!(!plot.get("aria-label").is_empty());
    }
    root
}

/// Nothing in the page reaches outside it.
pub fn assert_stands_alone(html: &str) {
    for word in ["http", "src=", "href=", "@import", "url(", "<script", "javascript", " on"] {
        let found = html.find(word).map(|at| &html[at..(at + 60).min(html.len())]);
        assert_eq!(found, None, "{word}");
    }
}

/// A page with every part, each text made by `name`.
fn full_page(name: &mut impl FnMut() -> String) -> Page {
    let points = vec![(0.0, 3.0), (1.0, f64::NAN), (2.0, 2.0), (3.0, 1.0)];
    let plot = LinePlot {
        title: name(),
        x_label: name(),
        y_label: name(),
        series: vec![
            Series { name: name(), points: points.clone(), ..Series::default() },
            Series { name: name(), points, ..Series::default() },
        ],
        log_y: true,
        marks: vec![(1.0, name()), (2.5, name())],
        ..LinePlot::default()
    };
    let bars = BarPlot {
        title: name(),
        y_label: name(),
        groups: vec![name(), name()],
        series: vec![(name(), vec![Some(1.0), None]), (name(), vec![Some(-2.0), Some(f64::NAN)])],
        log_y: false,
    };
    let table = Table {
        header: vec![name(), name()],
        rows: vec![vec![name(), name()]],
        numeric: vec![false, true],
        caption: name(),
    };
    let small = ConfusionMatrix {
        title: name(),
        classes: vec![name(), name()],
        counts: vec![vec![4, 1], vec![0, 5]],
    };
    let large = ConfusionMatrix {
        title: name(),
        classes: (0..110).map(|_| name()).collect(),
        counts: (0..110).map(|t| (0..110).map(|p| (t * p) % 7).collect()).collect(),
    };
    let many = Page::new(&name()).lead(&name()).facts(&[(&name(), name())]).section(&name());
    many.text(&name())
        .table(&table)
        .lines(&plot)
        .bars(&bars)
        .matrix(&small)
        .matrix(&large)
        .code(&name())
}

#[test]
fn a_full_page_stands_alone() {
    let mut number = 0;
    let page = full_page(&mut || {
        number += 1;
        format!("word{number}")
    });
    let root = read(&page);
    assert_stands_alone(&page.render());
    // Every text that went in can be read.
    let words = root.words();
    for index in 1..=number {
        assert!(words.contains(&format!("word{index}")), "word{index} is lost");
    }
    let style = &root.named("style")[0].text;
    assert!(style.contains("prefers-color-scheme:dark") && style.contains("@media print"));
}

#[test]
fn parts_belong_to_the_section_before_them() {
    let page = Page::new("t").text("a\n\nb").section("one").text("c").section("two").code("\n d\n");
    let root = read(&page);
    let sections = root.named("section");
    assert_eq!(sections.len(), 2);
    assert_eq!(sections[0].named("p").len(), 1);
    assert_eq!(root.named("p").len(), 3);
    // A browser drops the first line break of a pre.
    assert_eq!(sections[1].named("pre")[0].text, "\n\n d\n");
}

#[test]
fn markup_in_any_text_is_harmless() {
    for attack in [
        "<script>alert(1)</script>",
        "\"><img src=x onerror=alert(1)>",
        "' onmouseover='alert(1)",
        "</title></style></svg></pre><b>",
        "]]>&lt;<!--",
        "\0\u{1b}[31m\u{7f}",
    ] {
        // `read` refuses any element and attribute that this crate does not write.
        let root = read(&full_page(&mut || attack.to_owned()));
        let shown: String =
            attack.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
        assert_eq!(root.named("h1")[0].text, shown);
    }
}

fn any_number() -> impl Strategy<Value = f64> {
    prop_oneof![any::<f64>(), -10.0..10.0f64, Just(0.0), Just(f64::NAN), Just(f64::INFINITY)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn no_input_breaks_a_page(
        text in ".{0,40}",
        points in prop::collection::vec((any_number(), any_number()), 0..40),
        marks in prop::collection::vec((any_number(), "[a-z<]{0,12}"), 0..6),
        values in prop::collection::vec(prop::collection::vec(prop::option::of(any_number()), 0..5), 0..4),
        counts in prop::collection::vec(prop::collection::vec(any::<u64>(), 0..24), 0..24),
        log_y: bool,
    ) {
        let series = vec![Series { name: text.clone(), points, ..Series::default() }];
        let names = |count| (0..count).map(|_| text.clone()).collect::<Vec<_>>();
        let page = Page::new(&text)
            .lines(&LinePlot { title: text.clone(), series, log_y, marks, ..LinePlot::default() })
            .bars(&BarPlot {
                groups: names(2),
                series: values.into_iter().map(|values| (text.clone(), values)).collect(),
                log_y,
                ..BarPlot::default()
            })
            .matrix(&ConfusionMatrix { title: text.clone(), classes: names(3), counts });
        read(&page);
    }
}
