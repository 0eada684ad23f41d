//! `polaris plan`: the instructions of a model.

use std::path::PathBuf;

use polaris::graph::Work;
use polaris::graph::passes::Change;
use polaris::graph::plan::{Home, Plan as Instructions, PlanText, Prediction, Row, Side};
use polaris::models::inputs::closed_inputs;
use polaris::runtime::Bytes;
use polaris_bench::model::device_name;
use polaris_report::{BarPlot, Block, BlockPlot, Page, Table as PageTable};
use serde::Serialize;

use super::{load, plan_for};
use crate::arguments::{Global, Plan};
use crate::exit;
use crate::output::{self, print_line, replace_file, say};
use crate::session::Session;

#[derive(Serialize)]
struct Result {
    model: PathBuf,
    device: String,
    inputs: Vec<String>,
    arena_bytes: Arenas,
    work: Work,
    passes: Vec<Change>,
    nodes: usize,
    wholly_on_device: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    prediction: Option<Prediction>,
    instructions: Vec<Row>,
}

#[derive(Serialize)]
struct Arenas {
    cpu: usize,
    gpu: usize,
}

pub fn run(global: Global, options: &Plan) -> anyhow::Result<u8> {
    if crate::commands::llm::is_language_model(&options.choice.model) {
        let lengths = options.choice.lengths();
        let tokens =
            lengths.iter().find(|(name, _)| name == "tokens").map_or(1, |(_, tokens)| *tokens);
        let mode = options.choice.mode;
        return crate::commands::llm::plan::run(global, &options.choice.model, mode, tokens);
    }
    let json = global.json;
    let mut session = Session::for_mode(global, options.choice.mode)?;
    let model = load(&mut session, &options.choice)?;
    let types = closed_inputs(&model, &options.choice.lengths())?;
    let plan = plan_for(&model, &types)?;
    let result = Result {
        model: options.choice.model.clone(),
        device: device_name(&model),
        inputs: types.iter().map(|(name, ty)| format!("{name}: {ty}")).collect(),
        arena_bytes: Arenas { cpu: plan.arena_bytes(Side::Cpu), gpu: plan.arena_bytes(Side::Gpu) },
        work: plan.work(),
        passes: model.changes().to_vec(),
        nodes: model.graph().nodes.len(),
        wholly_on_device: plan.is_wholly_on(model.side()),
        prediction: plan.prediction.clone(),
        instructions: (0..plan.instructions.len()).map(|at| plan.row(model.graph(), at)).collect(),
    };
    if let Some(path) = &options.html {
        replace_file(path, &page(&result, &plan).render())?;
        say!("note: wrote the page to {}", path.display());
    }
    match json {
        true => output::print_json("polaris.plan/1", &result)?,
        false => {
            print_line(&format!("passes: {}", passes_in_words(&result.passes)))?;
            print_line(PlanText { plan: &plan, graph: model.graph() }.to_string().trim_end())?;
        }
    }
    Ok(exit::OK)
}

/// The changes of the passes in one line.
fn passes_in_words(changes: &[Change]) -> String {
    if changes.is_empty() {
        return "nothing changed".to_owned();
    }
    let words: Vec<String> =
        changes.iter().map(|change| format!("{} {}", change.pass, change.count)).collect();
    words.join(", ")
}

/// The plan as a page: kinds of instructions, memory use and every instruction.
fn page(result: &Result, plan: &Instructions) -> Page {
    let mut counts: Vec<(String, f64)> = Vec::new();
    for row in &result.instructions {
        let name = format!("{} ({})", row.name, row.side.name());
        match counts.iter_mut().find(|(other, _)| *other == name) {
            Some((_, count)) => *count += 1.0,
            None => counts.push((name, 1.0)),
        }
    }
    counts.sort_by(|a, b| b.1.total_cmp(&a.1));
    let where_ = if result.wholly_on_device { "entirely" } else { "partly on the CPU" };
    let expected = result.prediction.as_ref().map(Prediction::to_string);
    let mut facts = vec![
        ("Device", format!("{} ({where_})", result.device)),
        ("Inputs", result.inputs.join(", ")),
        ("Passes", passes_in_words(&result.passes)),
        ("Instructions", result.instructions.len().to_string()),
        ("Work", format!("{:.3} GFLOP", result.work.flops as f64 / 1e9)),
        (
            "Memory for activations",
            Bytes((result.arena_bytes.cpu + result.arena_bytes.gpu) as u64).to_string(),
        ),
    ];
    facts.extend(expected.map(|expected| ("Predicted", expected)));
    let header = ["#", "device", "instruction", "into", "from", "node"];
    let row = |(at, row): (usize, &Row)| {
        let [side, name] = [row.side.name().to_owned(), row.name.clone()];
        vec![at.to_string(), side, name, row.outputs.clone(), row.inputs.clone(), row.node.clone()]
    };
    let table = PageTable {
        header: header.map(str::to_owned).to_vec(),
        rows: result.instructions.iter().enumerate().map(row).collect(),
        numeric: vec![true],
        ..PageTable::default()
    };
    let (groups, values): (Vec<String>, Vec<Option<f64>>) =
        counts.into_iter().map(|(name, count)| (name, Some(count))).unzip();
    let kinds = BarPlot {
        title: "Instructions by kind".to_owned(),
        y_label: "instructions".to_owned(),
        groups,
        series: vec![("instructions".to_owned(), values)],
        ..BarPlot::default()
    };
    Page::new(&format!("Plan of {}", result.model.display()))
        .facts(&facts)
        .section("Instructions by kind")
        .bars(&kinds)
        .section("Memory")
        .text("Each block is an activation: its width is its lifetime, from the instruction that writes it to the last \
               one that reads it; its height and position are its place in the arena.")
        .blocks(&arena(plan))
        .section("All instructions")
        .table(&table)
}

/// The arena over time.
fn arena(plan: &Instructions) -> BlockPlot {
    let all: usize = plan.arenas.iter().flatten().sum();
    let (unit, bytes) = if all < 1 << 20 { ("KiB", 1 << 10) } else { ("MiB", 1 << 20) };
    let scaled = |offset: usize| offset as f64 / f64::from(bytes);
    let mut plot = BlockPlot {
        title: "Activations".to_owned(),
        x_label: "instruction".to_owned(),
        y_label: unit.to_owned(),
        kinds: Side::ALL.map(|side| side.name().to_owned()).to_vec(),
        blocks: Vec::new(),
    };
    // Both arenas and their chunks are stacked.
    let mut base = 0;
    for side in Side::ALL {
        for (chunk, &size) in plan.arenas[side.index()].iter().enumerate() {
            for (slot, life) in plan.slots.iter().zip(plan.lives()) {
                let (Home::Arena { chunk: at, offset }, Some(life)) = (&slot.home, life) else {
                    continue;
                };
                if slot.side != side || *at != chunk {
                    continue;
                }
                plot.blocks.push(Block {
                    x: (life.first as f64, life.last as f64 + 1.0),
                    y: (scaled(base + offset), scaled(base + offset + slot.bytes)),
                    kind: side.index(),
                    label: format!("{}: {}", slot.name, Bytes(slot.bytes as u64)),
                });
            }
            base += size;
        }
    }
    plot
}
