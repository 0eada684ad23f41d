//! Writes a page with every part, as a picture of what the crate makes and a place to look at
//! odd cases: `cargo run -p polaris-report --example sample > sample.html`.

use polaris_core::random::SplitMix64;
use polaris_report::{BarPlot, ConfusionMatrix, LinePlot, Page, Series, Table};

struct Noise(SplitMix64);

impl Noise {
    fn next(&mut self) -> f64 {
        self.0.unit()
    }
}

fn main() {
    let mut noise = Noise(SplitMix64::new(1));
    let page = Page::new("Training report: digits, small convolutional network")
        .lead("Test accuracy 96.4% after 12 epochs, the best after 9. One loss was not finite.")
        .facts(&[
            ("model", "conv 16, conv 32, linear 10 (20 490 parameters)".into()),
            ("device", "AMD Radeon RX 580 (OpenCL, Mesa)".into()),
            ("seed", "1".into()),
            ("time", "3 min 12 s".into()),
        ])
        .section("Curves")
        .text("Hover over a line to read its values.")
        .lines(&loss(&mut noise))
        .lines(&accuracy(&mut noise));
    let page = page
        .section("Test set")
        .matrix(&digits(&mut noise))
        .table(&per_class())
        .section("CPU, GPU and both")
        .bars(&comparison())
        .bars(&operations());
    let page = odd_cases(page)
        .section("A hundred classes")
        .matrix(&many_classes(&mut noise))
        .section("Configuration")
        .code("[train]\nepochs = 12\nbatch = 64        # fits 512 MiB\nlearning_rate = 1e-3\n");
    print!("{}", page.render());
}

/// A million steps, with a spike and a gap.
fn loss(noise: &mut Noise) -> LinePlot {
    let mut train: Vec<(f64, f64)> = (0..1_000_000)
        .map(|i| {
            let step = f64::from(i);
            (step, (2.3 * (-step / 150_000.0).exp() + 0.03) * (0.8 + 0.4 * noise.next()))
        })
        .collect();
    train[700_000].1 = 4.0;
    for point in &mut train[400_000..420_000] {
        point.1 = f64::NAN;
    }
    let validation = (0..=12)
        .map(|epoch| (f64::from(epoch) * 83_333.0, 2.2 * (-f64::from(epoch) / 2.0).exp() + 0.08))
        .collect();
    LinePlot {
        title: "Loss".into(),
        x_label: "step".into(),
        y_label: "cross entropy".into(),
        series: vec![
            Series { name: "train".into(), points: train, ..Series::default() },
            Series { name: "validation".into(), points: validation, ..Series::default() },
        ],
        log_y: true,
        marks: vec![
            (400_000.0, "not finite".into()),
            (700_000.0, "learning rate halved".into()),
            (749_997.0, "best".into()),
            (1_000_000.0, "stopped early".into()),
        ],
        ..LinePlot::default()
    }
}

fn accuracy(noise: &mut Noise) -> LinePlot {
    let names = ["train", "validation", "test", "with dropout", "with mixing", "with both"];
    let series = names.iter().enumerate().map(|(index, name)| {
        let top = 0.99 - 0.04 * index as f64;
        let point = |epoch: i32| {
            let rise = 1.0 - (-f64::from(epoch) / 2.5).exp();
            (f64::from(epoch), top * rise + 0.01 * noise.next())
        };
        Series { name: (*name).into(), points: (1..=12).map(point).collect(), ..Series::default() }
    });
    LinePlot {
        title: "Accuracy".into(),
        x_label: "epoch".into(),
        y_label: "share right".into(),
        series: series.collect(),
        marks: vec![(9.0, "best".into())],
        ..LinePlot::default()
    }
}

fn digits(noise: &mut Noise) -> ConfusionMatrix {
    let row = |truth: usize, noise: &mut Noise| {
        (0..10)
            .map(|guess| match (truth, guess) {
                (t, g) if t == g => 950 + (100.0 * noise.next()) as u64,
                (4, 9) => 61,
                (7, 1) => 28,
                _ => (noise.next() * 2.0).powi(4) as u64,
            })
            .collect()
    };
    ConfusionMatrix {
        title: "Digits".into(),
        classes: (0..10).map(|digit| digit.to_string()).collect(),
        counts: (0..10).map(|truth| row(truth, noise)).collect(),
    }
}

fn per_class() -> Table {
    let row = |name: &str, seen: &str, share: &str| vec![name.into(), seen.into(), share.into()];
    Table {
        header: vec!["class".into(), "examples".into(), "right %".into()],
        rows: vec![row("0", "1004", "99.1"), row("1", "972", "98.8"), row("4", "990", "93.0")],
        numeric: vec![false, true, true],
        caption: "Some classes".into(),
    }
}

fn comparison() -> BarPlot {
    BarPlot {
        title: "Images per second".into(),
        y_label: "images/s".into(),
        groups: vec!["mlp".into(), "small conv".into(), "resnet 18".into(), "text 10M".into()],
        series: vec![
            ("cpu".into(), vec![Some(41_200.0), Some(5210.0), Some(38.5), Some(212.0)]),
            ("gpu".into(), vec![Some(18_400.0), Some(22_900.0), Some(311.0), None]),
            ("hybrid".into(), vec![Some(43_000.0), Some(26_100.0), Some(342.0), Some(f64::NAN)]),
        ],
        log_y: true,
    }
}

fn operations() -> BarPlot {
    let names = ["matmul", "convolution forward", "convolution backward", "batch norm", "softmax"];
    let groups: Vec<String> =
        (0..15).map(|i| format!("{} {}", names[i % 5], 64 << (i / 5))).collect();
    let change = |scale: f64| (0..15).map(|i| Some(scale * (f64::from(i) - 4.0))).collect();
    BarPlot {
        title: "Change of time by operation".into(),
        y_label: "%".into(),
        groups,
        series: vec![("after tuning".into(), change(-2.5)), ("with fusion".into(), change(-3.5))],
        log_y: false,
    }
}

fn odd_cases(page: Page) -> Page {
    let series = |name: &str, points: &[(f64, f64)]| Series {
        name: name.into(),
        points: points.into(),
        ..Series::default()
    };
    let plot = |title: &str, series: Vec<Series>, log_y: bool| LinePlot {
        title: title.into(),
        x_label: "step".into(),
        y_label: "value".into(),
        series,
        log_y,
        ..LinePlot::default()
    };
    let awkward = ["cat", "<script>alert(1)</script>", "a name that goes on and on and on", "犬"];
    page.section("Odd cases")
        .lines(&plot("No points", vec![series("empty", &[])], false))
        .lines(&plot("One point", vec![series("single", &[(5.0, 0.25)])], false))
        .lines(&plot(
            "Equal values, and isolated ones",
            vec![
                series("equal", &[(0.0, 1e9), (1.0, 1e9), (2.0, 1e9)]),
                series(
                    "isolated",
                    &[
                        (0.0, 8e8),
                        (0.5, f64::NAN),
                        (1.0, 8.2e8),
                        (1.5, f64::INFINITY),
                        (2.0, 8.1e8),
                    ],
                ),
            ],
            false,
        ))
        .lines(&plot(
            "Nothing above zero on a logarithmic scale",
            vec![series("negative", &[(0.0, -3.0), (1.0, 0.0), (2.0, -1e-3)])],
            true,
        ))
        .matrix(&ConfusionMatrix {
            title: "Awkward names".into(),
            classes: awkward.iter().map(|name| (*name).into()).collect(),
            counts: vec![vec![123_456, 3, 0, 0], vec![0, 0, 0, 0], vec![1, 0, 88, 20], vec![0; 4]],
        })
}

fn many_classes(noise: &mut Noise) -> ConfusionMatrix {
    let row = |truth: usize, noise: &mut Noise| {
        (0..100)
            .map(|guess| match guess {
                g if g == truth => 60 + (40.0 * noise.next()) as u64,
                g if g / 5 == truth / 5 => (9.0 * noise.next()) as u64,
                _ => (noise.next() * 1.06) as u64,
            })
            .collect()
    };
    ConfusionMatrix {
        title: "Objects".into(),
        classes: (0..100)
            .map(|c| format!("{} {c}", ["tree", "bird", "small vehicle"][c % 3]))
            .collect(),
        counts: (0..100).map(|truth| row(truth, noise)).collect(),
    }
}
