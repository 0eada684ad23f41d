//! Whole pages, of usual and of meagre searches.

use polaris_tune::{Failure, History, Points, Space, Trial};

use super::*;

fn points() -> Points {
    Space::new("a test")
        .parameter("m", [32, 64, 128])
        .parameter("n", [32, 64, 128, 256])
        .parameter("unroll", [1, 2, 4])
        .parameter("buffers", [1])
        .points()
        .unwrap()
}

/// Every third fails; the others are the faster the larger their tiles are.
fn history(points: &Points, count: usize) -> History {
    let seconds = |point: usize| {
        let values = points.values(point);
        (point % 3 != 2).then(|| 1.0 / (values[0] as f64 * (values[1] as f64).sqrt()))
    };
    let trials = (0..count).map(|point| Trial { point, seconds: seconds(point) }).collect();
    History { trials }
}

fn section<'a>(points: &'a Points, history: &'a History) -> Section<'a> {
    Section {
        title: "64x64x64 nn".into(),
        points,
        history,
        work: Work::Operations(2e9),
        default_seconds: 1e-3,
        best_seconds: 0.8e-3,
        config: None,
        failures: &[],
        predicted: Vec::new(),
    }
}

/// The page as it is written.
fn page(heading: &str, sections: &[Section]) -> String {
    super::page(heading, sections).render()
}

/// The text between `<svg` and `</svg>` of each figure. Each must be closed, and hold numbers only.
fn drawings(page: &str) -> Vec<&str> {
    let drawings: Vec<&str> = page
        .split("<svg class=\"plot\"")
        .skip(1)
        .map(|rest| rest.split_once("</svg>").expect("each drawing should be closed").0)
        .collect();
    for drawing in &drawings {
        assert!(!drawing.contains("NaN") && !drawing.contains("inf"), "{drawing}");
    }
    assert_eq!(page.matches("<figcaption>").count(), drawings.len());
    drawings
}

fn assert_has(page: &str, wanted: &[&str]) {
    for wanted in wanted {
        assert!(page.contains(wanted), "{wanted}: {page}");
    }
}

#[test]
fn a_page_has_the_figures_and_the_plots() {
    let points = points();
    let history = history(&points, points.len());
    let config = Config::from([("m".to_owned(), 64), ("n".to_owned(), 32)]);
    let section = Section {
        config: Some(&config),
        failures: &[(Failure::Build, 5), (Failure::Timeout, 1)],
        predicted: vec![(0.011, 0.01), (0.002, 0.003), (f64::INFINITY, 0.5), (0.5, f64::NAN)],
        ..section(&points, &history)
    };
    let page = page("Tuned products", &[section]);
    assert_has(
        &page,
        &[
            "<h1>Tuned products</h1>",
            "<h2>64x64x64 nn</h2>",
            "Default 2000.0 GFLOPS, best 2500.0 GFLOPS, speed-up 1.25.",
            "36 evaluations of 36 valid configurations, \
             12 failed (5 not built, 1 timed out, 6 in earlier runs).",
            "Configuration: m=64 n=32",
        ],
    );
    let drawings = drawings(&page);
    assert_eq!(drawings.len(), 4);
    assert_has(drawings[0], &["best so far", "default, 2000 GFLOPS"]);
    assert_has(drawings[1], &[">m</text>", ">unroll</text>"]);
    assert!(!drawings[1].contains("buffers"));
    assert_has(drawings[2], &["Best GFLOPS by"]);
    assert_eq!(drawings[3].matches("<circle").count(), 2);
    assert!(!page.contains("<script") && !page.contains("http"));
}

#[test]
fn few_trials_say_nothing_about_the_parameters() {
    let points = points();
    let history = history(&points, 1);
    let page = page("One", &[section(&points, &history)]);
    assert_eq!(drawings(&page).len(), 1);
    assert_has(
        &page,
        &[
            "1 evaluation of 36 valid configurations, none failed.",
            "the default, since nothing is faster",
            "1 configuration was measured, and at least 20 are needed.",
            "There are no predictions",
        ],
    );
}

#[test]
fn a_search_that_found_nothing_or_was_stopped_has_a_page() {
    let points = points();
    let failed: Vec<Trial> = (0..24).map(|point| Trial { point, seconds: None }).collect();
    let odd = [f64::NAN, f64::INFINITY, 0.0, -1.0].map(Some);
    let odd = odd.into_iter().enumerate().map(|(point, seconds)| Trial { point, seconds });
    for trials in [failed, odd.collect(), Vec::new()] {
        let history = History { trials };
        let section = Section {
            default_seconds: f64::INFINITY,
            best_seconds: f64::INFINITY,
            ..section(&points, &history)
        };
        let page = page("None", &[section]);
        assert!(drawings(&page).is_empty());
        assert_has(
            &page,
            &[
                "The best was not compared with the default.",
                "Configuration: not decided.",
                "no configuration could be measured",
                "0 configurations were measured",
            ],
        );
    }
    assert_has(&page("None", &[]), &["Nothing was tuned."]);
}

#[test]
fn equal_times_show_no_importance() {
    let points = points();
    let trials = (0..24).map(|point| Trial { point, seconds: Some(0.5) }).collect();
    let history = History { trials };
    let page = page("Equal", &[section(&points, &history)]);
    assert_eq!(drawings(&page).len(), 1);
    assert_has(&page, &["none changed the measured times"]);
}

#[test]
fn text_is_escaped() {
    let points = points();
    let history = history(&points, 2);
    let hostile = "\"><script>alert(1)</script>&";
    let config = Config::from([(hostile.to_owned(), 1)]);
    let section =
        Section { title: hostile.into(), config: Some(&config), ..section(&points, &history) };
    let page = page(hostile, &[section]);
    assert!(!page.contains("<script") && !page.contains("\"><s"), "{page}");
    // The title of the page, its heading, that of the section, and the configuration.
    assert_eq!(page.matches("&quot;&gt;&lt;script&gt;alert(1)&lt;/script&gt;&amp;").count(), 4);
}

#[test]
fn the_best_rises_in_steps_to_the_last_trial() {
    let trial = |number, rate| Measured { number, point: 0, rate };
    let measured = [trial(2, 5.0), trial(3, 4.0), trial(4, 9.0), trial(5, 9.0)];
    let steps = [(2.0, 5.0), (4.0, 5.0), (4.0, 9.0), (7.0, 9.0)];
    assert_eq!(best_so_far(&measured, 7), steps);
}
