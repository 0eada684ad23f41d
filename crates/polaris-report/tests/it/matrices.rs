//! Confusion matrices, from two classes to thousands.

use crate::parse::Element;
use crate::{assert_stands_alone, read};
use polaris_report::{ConfusionMatrix, Page};

fn matrix(classes: usize, count: impl Fn(usize, usize) -> u64) -> ConfusionMatrix {
    let row = |truth| (0..classes).map(|guess| count(truth, guess)).collect();
    ConfusionMatrix {
        title: "m".into(),
        classes: (0..classes).map(|class| format!("c{class}")).collect(),
        counts: (0..classes).map(row).collect(),
    }
}

fn page(matrix: &ConfusionMatrix) -> Page {
    Page::new("p").matrix(matrix)
}

fn title_of(element: &Element) -> &str {
    &element.named("title")[0].text
}

#[test]
fn recall_precision_and_accuracy_are_right() {
    let counts = [[8, 2], [4, 6]];
    let root = read(&page(&matrix(2, |t, p| counts[t][p])));
    let words = root.words();
    assert!(words.contains("accuracy 70.0% (14 of 20 right)"));
    for expected in [
        "recall of c0: 80.0 % of 10",
        "recall of c1: 60.0 % of 10",
        "precision of c0: 66.7 % of 12",
        "precision of c1: 75.0 % of 8",
        "true c0, predicted c1: 2 (20.0% of the row)",
    ] {
        assert!(words.contains(expected), "{expected} in {words}");
    }
    assert!(root.named("table").is_empty(), "the numbers are in the squares");
    assert!(root.with_class("plot")[0].get("aria-label").contains("accuracy 70.0%"));
}

#[test]
fn squares_are_shaded_by_their_share_of_the_row() {
    // The second row has a hundred times the examples of the first, in the same shares.
    let counts = [[9, 1], [100, 900]];
    let root = read(&page(&matrix(2, |t, p| counts[t][p])));
    let shades: Vec<f64> =
        root.with_class("cell").iter().map(|cell| cell.number("fill-opacity")).collect();
    assert_eq!(shades[0], shades[3]);
    assert_eq!(shades[1], shades[2]);
    assert!(shades[0] > 0.8 && shades[1] < 0.2 && shades[1] > 0.0);
}

#[test]
fn classes_without_examples_have_no_recall() {
    let root = read(&page(&matrix(3, |t, p| u64::from(t == 0 && p < 2))));
    let words = root.words();
    assert!(words.contains("recall of c1: – % of 0"));
    assert!(words.contains("precision of c1: 0 % of 1"));
    let nothing = read(&page(&matrix(3, |_, _| 0)));
    assert!(nothing.words().contains("nothing was counted"));
    assert_eq!(nothing.with_class("cell").len(), 9);
    let empty = read(&page(&ConfusionMatrix::default()));
    assert!(empty.words().contains("no classes"));
}

#[test]
fn long_names_are_cut_and_whole_on_hover() {
    let mut long = matrix(3, |t, p| u64::from(t == p));
    long.classes[1] = "the class of everything that is neither one nor the other".into();
    let root = read(&page(&long));
    let label = root.named("text").into_iter().find(|text| text.words().contains('…'));
    assert_eq!(title_of(label.expect("a name that was cut")), long.classes[1]);
    // All names begin inside the drawing: the widest fits beside the squares.
    let first = root.with_class("cell")[0].number("x");
    assert!(first > 120.0 && first < 200.0, "{first}");
}

#[test]
fn a_hundred_classes_are_small_and_list_their_confusions() {
    let counts = |t: usize, p: usize| match (t, p) {
        (t, p) if t == p => 50,
        (7, 9) => 25,
        (9, 7) => 24,
        (t, p) if p == (t * 13) % 100 => 1 + (t as u64) % 5,
        _ => 0,
    };
    let root = read(&page(&matrix(100, counts)));
    assert!(root.with_class("cell").is_empty(), "no squares with numbers");
    let titles = root.words();
    assert!(titles.contains("true c7, predicted c9: 25"));
    assert!(titles.contains("recall of c99:") && titles.contains("precision of c99:"));
    let rows = root.named("tbody")[0].named("tr");
    assert_eq!(rows.len(), 10);
    let cells: Vec<_> = rows[0].named("td").iter().map(|td| td.text.clone()).collect();
    // 50 right, 25 wrong and 3 more at (7, 91).
    assert_eq!(cells, ["c7", "c9", "25", "32.1"]);
    let numbers: Vec<u64> =
        rows.iter().map(|row| row.named("td")[2].text.parse().expect("a count")).collect();
    assert!(numbers.windows(2).all(|pair| pair[0] >= pair[1]));
    // Names that are shown do not touch.
    let mut left: Vec<f64> = root
        .named("text")
        .iter()
        .filter(|text| text.get("class") == "end")
        .map(|text| text.number("y"))
        .collect();
    left.sort_by(f64::total_cmp);
    assert!(left.windows(2).all(|pair| pair[1] - pair[0] >= 12.0));
}

#[test]
fn thousands_of_classes_are_a_small_page() {
    let dense = matrix(2000, |t, p| ((t * 31 + p * 17) % 23) as u64);
    let html = page(&dense).render();
    assert!(html.len() < 600_000, "{} bytes", html.len());
    assert_stands_alone(&html);
    assert!(html.contains("stands for 16 classes"));
    let sparse = matrix(2000, |t, p| u64::from(t == p));
    let root = read(&page(&sparse));
    assert!(root.words().contains("accuracy 100%"));
    assert!(root.words().contains("No class was taken for another"));
    let dense = page(&matrix(128, |t, p| ((t * 31 + p * 17) % 23) as u64)).render();
    assert!(dense.len() < 600_000, "{} bytes", dense.len());
}
