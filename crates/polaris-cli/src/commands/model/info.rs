//! `polaris info`: inputs, outputs, parameters and operators of a model.

use std::path::PathBuf;

use polaris::graph::{Information, Work, information, open_model};
use polaris::models::inputs::closed_inputs;
use polaris::onnx::infer::infer_graph;
use polaris::onnx::{Graph, Type, ValueId};
use polaris::runtime::Bytes;
use serde::Serialize;

use super::{options, plan_for};
use crate::arguments::{Global, Info};
use crate::exit;
use crate::output::{self, Table, print_line, say};
use crate::session::Session;

#[derive(Serialize)]
struct Result {
    model: PathBuf,
    producer: String,
    ir_version: i64,
    opsets: std::collections::BTreeMap<String, i64>,
    inputs: Vec<Named>,
    outputs: Vec<Named>,
    #[serde(flatten)]
    information: Information,
    /// Of one run with the given dimensions.
    work: Option<Work>,
    /// Bytes for activations, on CPU and device.
    arena_bytes: Option<usize>,
}

#[derive(Serialize)]
struct Named {
    name: String,
    r#type: String,
}

pub fn run(global: Global, arguments: &Info) -> anyhow::Result<u8> {
    let path = &arguments.choice.model;
    if crate::commands::llm::is_language_model(path) {
        let context = arguments.context.map(|context| context as usize);
        return crate::commands::llm::info::run(
            global,
            path,
            arguments.choice.mode,
            context,
            arguments.cache_type.into(),
        );
    }
    let json = global.json;
    let mut session = Session::for_mode(global, arguments.choice.mode)?;
    let opened = open_model(path)?;
    let information = information(&opened.model.graph);
    let graph = &opened.model.graph;
    // Types that the file does not declare may follow from the rest.
    let facts = infer_graph(graph, &std::collections::HashMap::new()).unwrap_or_default();
    let named = |graph: &Graph, id: ValueId| {
        let inferred = facts.get(id.index()).and_then(|fact| fact.ty.clone());
        let ty = inferred.or_else(|| graph.value(id).ty.clone());
        let r#type = ty.as_ref().map_or("?".to_owned(), Type::to_string);
        Named { name: graph.value(id).name.clone(), r#type }
    };
    let mut result = Result {
        model: path.clone(),
        producer: opened.model.producer.clone(),
        ir_version: opened.model.ir_version,
        opsets: opened
            .model
            .opsets
            .iter()
            .map(|(domain, version)| (domain.clone(), *version))
            .collect(),
        inputs: graph.required_inputs().map(|id| named(graph, id)).collect(),
        outputs: graph.outputs.iter().map(|&id| named(graph, id)).collect(),
        information,
        work: None,
        arena_bytes: None,
    };
    if result.information.unsupported.is_empty() {
        let options = options(&mut session, arguments.choice.mode, &arguments.choice.passes)?;
        let model = polaris::graph::Session::open(&session.runtime, path, &options)?;
        let types = closed_inputs(&model, &arguments.choice.lengths());
        let plan = types.map_err(Into::into).and_then(|types| plan_for(&model, &types));
        match plan {
            Ok(plan) => {
                result.work = Some(plan.work());
                result.arena_bytes = Some(plan.arenas.iter().flatten().sum());
            }
            Err(error) if exit::code_of(&error) == exit::USAGE => return Err(error),
            Err(error) => say!("note: the work of a run is unknown: {error:#}"),
        }
    }
    match json {
        true => output::print_json("polaris.info/1", &result)?,
        false => print(&result)?,
    }
    Ok(exit::OK)
}

fn print(result: &Result) -> anyhow::Result<()> {
    let information = &result.information;
    let opsets: Vec<String> = (result.opsets.iter())
        .map(|(domain, version)| match domain.as_str() {
            "" => format!("{version}"),
            domain => format!("{domain} {version}"),
        })
        .collect();
    let opsets = opsets.join(", ");
    print_line(&format!("{} ({}, opset {opsets})", result.model.display(), result.producer))?;
    for (what, list) in [("input", &result.inputs), ("output", &result.outputs)] {
        for Named { name, r#type } in list {
            print_line(&format!("  {what:<7} {name}: {}", r#type))?;
        }
    }
    let (parameters, bytes) = (information.parameters, Bytes(information.parameter_bytes));
    print_line(&format!("  {parameters} parameters in {bytes}, {} nodes", information.nodes))?;
    if let Some(work) = &result.work {
        let giga = work.flops as f64 / 1e9;
        let (traffic, arena) = (Bytes(work.bytes), Bytes(result.arena_bytes.unwrap_or(0) as u64));
        print_line(&format!(
            "  one run: {giga:.3} GFLOP, {traffic} read and written, {arena} for activations, {} instructions on the \
             host",
            work.on_host
        ))?;
    }
    let mut table = Table::new(&["operator", ">nodes", ""]);
    for operator in &information.operators {
        let word = if operator.supported { "" } else { "not supported" };
        table.row(vec![operator.operator.clone(), operator.count.to_string(), word.to_owned()]);
    }
    table.print()?;
    for missing in &information.unsupported {
        let nodes: Vec<&str> = missing.nodes.iter().take(5).map(String::as_str).collect();
        print_line(&format!("  {} is not supported (at {})", missing.operator, nodes.join(", ")))?;
    }
    Ok(())
}
