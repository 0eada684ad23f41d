//! Of the report of a mixture: what it was chosen from.

use polaris::gguf::TensorType;
use polaris::optimize::Plan;
use polaris::optimize::mixed::Mixture;
use polaris_report::{BarPlot, LinePlot, Page, Series, Style, Table};

use super::super::mixed::Chosen;
use super::{BARS, short};

/// Points of the curve.
const POINTS: usize = 25;

/// The best mixtures, and each format in all tensors.
struct Points<'a> {
    curve: Vec<Mixture>,
    uniform: Vec<(TensorType, Mixture)>,
    chosen: &'a Mixture,
}

/// Divergence over size and over speed.
pub fn curves(page: Page, plan: &Plan<'_>, chosen: &Chosen) -> anyhow::Result<Page> {
    let points = Points {
        curve: chosen.curve(plan, POINTS)?,
        uniform: chosen.uniform(plan),
        chosen: &chosen.mixture,
    };
    let best = if chosen.is_for_speed() { "speed" } else { "size" };
    let mut page = page.section("Mixtures").text(&format!(
        "Each point of the line is the mixture that is predicted to diverge least at its {best}. Dots are formats that all \
         tensors have. All of it is predicted from what each tensor loses alone."
    ));
    let size = |mixture: &Mixture| mixture.bytes as f64 / 1e6;
    page = page.lines(&points.plot("Divergence by size", "megabytes", &size));
    let speed = |mixture: &Mixture| chosen.speed(mixture).unwrap_or(f64::NAN);
    if chosen.times.is_some() {
        let axis = "tokens a second, predicted";
        page = page.lines(&points.plot("Divergence by speed", axis, &speed));
    }
    let row = |name: &str, mixture: &Mixture| {
        let speed = chosen.speed(mixture);
        vec![
            name.to_owned(),
            mixture.bytes.to_string(),
            speed.map_or("-".to_owned(), |speed| format!("{speed:.1}")),
            format!("{:.6}", mixture.divergence),
        ]
    };
    let named = points.uniform.iter().map(|(ty, mixture)| row(ty.name(), mixture));
    Ok(page.table(&Table {
        header: ["", "bytes", "tokens a second, predicted", "divergence, predicted"]
            .map(str::to_owned)
            .to_vec(),
        rows: named.chain([row("chosen", &chosen.mixture)]).collect(),
        numeric: vec![false, true, true, true],
        ..Table::default()
    }))
}

impl Points<'_> {
    /// Divergence over something, with a line at each format.
    fn plot(&self, title: &str, x_label: &str, place: &dyn Fn(&Mixture) -> f64) -> LinePlot {
        let series = |name: &str, mixtures: &mut dyn Iterator<Item = &Mixture>, style| Series {
            name: name.to_owned(),
            points: mixtures.map(|mixture| (place(mixture), mixture.divergence)).collect(),
            style,
        };
        let mut uniform = self.uniform.iter().map(|(_, mixture)| mixture);
        LinePlot {
            title: title.to_owned(),
            x_label: x_label.to_owned(),
            y_label: "nats a token, predicted".to_owned(),
            series: vec![
                series("mixtures", &mut self.curve.iter(), Style::Marked),
                series("one format in all", &mut uniform, Style::Dots),
                series("chosen", &mut std::iter::once(self.chosen), Style::Dots),
            ],
            log_y: true,
            marks: (self.uniform.iter())
                .map(|(ty, mixture)| (place(mixture), ty.name().to_owned()))
                .collect(),
            ..LinePlot::default()
        }
    }
}

/// What was measured with each tensor alone in few bits.
pub fn sensitivities(page: Page, chosen: &Chosen) -> Page {
    let mut entries: Vec<_> = chosen.sensitivities.iter().collect();
    let all = entries.len();
    entries.sort_by(|a, b| b.divergence.total_cmp(&a.divergence));
    entries.truncate(BARS);
    let of = match all > entries.len() {
        true => format!(" The {BARS} largest of {all} are drawn."),
        false => String::new(),
    };
    page.section("Sensitivity")
        .text(&format!(
            "The divergence that was measured with this tensor alone in few bits (Q3_K, or Q4_0 where rows are no multiple \
             of 256).{of}"
        ))
        .bars(&BarPlot {
            title: "Measured divergence".to_owned(),
            y_label: "nats a token".to_owned(),
            groups: entries.iter().map(|entry| short(&entry.name)).collect(),
            series: vec![(
                "divergence".to_owned(),
                entries.iter().map(|entry| Some(entry.divergence)).collect(),
            )],
            ..BarPlot::default()
        })
}
