//! What passes are tested with: constants that look random, and graphs that are interpreted before and after.

use polaris_onnx::{Graph, GraphBuilder, Tensor, Value, interpret};

use super::{Place, dead};

/// Numbers between -1 and 1 that look random.
pub fn floats(shape: &[usize]) -> Tensor {
    let count: usize = shape.iter().product();
    let value = |index: usize| ((index * 7919 + count * 31) % 1009) as f32 / 504.5 - 1.0;
    Tensor::new(shape, (0..count).map(value).collect::<Vec<f32>>()).unwrap()
}

/// Runs a pass, and compares what the graph computes before and after it, by the largest result.
pub fn check_pass(
    builder: GraphBuilder,
    pass: impl Fn(&mut Graph, Place) -> usize,
    inputs: &[(&str, Tensor)],
    tolerance: f64,
) -> Graph {
    let before = builder.finish().unwrap();
    let mut after = before.clone();
    let count = pass(&mut after, Place::Model);
    let names = |graph: &Graph| -> Vec<String> {
        graph.outputs.iter().map(|&id| graph.value(id).name.clone()).collect()
    };
    assert_eq!(names(&before), names(&after));
    let (expected, found) = (evaluate(&before, inputs), evaluate(&after, inputs));
    for (expected, found) in expected.iter().zip(&found) {
        assert_same(expected, found, tolerance);
    }
    assert!(count > 0 || before.nodes.len() == after.nodes.len());
    after
}

/// The pass, then the removal of what nobody reads any more.
pub fn and_dead(pass: impl Fn(&mut Graph, Place) -> usize) -> impl Fn(&mut Graph, Place) -> usize {
    move |graph, place| {
        let found = pass(graph, place);
        dead::run(graph, place);
        found
    }
}

/// Runs a pass that shall find nothing.
pub fn check_unchanged(builder: GraphBuilder, pass: impl Fn(&mut Graph, Place) -> usize) {
    let mut graph = builder.finish().unwrap();
    let before = graph.to_string();
    assert_eq!(pass(&mut graph, Place::Model), 0, "{graph}");
    assert_eq!(before, graph.to_string());
}

fn evaluate(graph: &Graph, inputs: &[(&str, Tensor)]) -> Vec<Tensor> {
    let given: Vec<Option<Value>> = (graph.inputs.iter())
        .map(|&id| {
            let named = inputs.iter().find(|(name, _)| *name == graph.value(id).name);
            named.map(|(_, tensor)| tensor.clone().into())
        })
        .collect();
    let values = interpret(graph, &given, &[]).unwrap_or_else(|error| panic!("{error}\n{graph}"));
    values.iter().map(|value| value.tensor().unwrap().clone()).collect()
}

fn assert_same(expected: &Tensor, found: &Tensor, tolerance: f64) {
    assert_eq!((expected.element(), expected.shape()), (found.element(), found.shape()));
    let (expected, found) = (expected.to_f64().unwrap(), found.to_f64().unwrap());
    let most = expected.iter().fold(0.0f64, |most, value| most.max(value.abs()));
    for (at, (a, b)) in expected.iter().zip(&found).enumerate() {
        let same = (a - b).abs() <= tolerance * most.max(1e-30) || a.is_nan() && b.is_nan();
        assert!(same, "element {at}: {a} before, {b} after");
    }
}

/// How often an operator occurs.
pub fn count(graph: &Graph, operator: &str) -> usize {
    graph.nodes.iter().filter(|node| node.operator == operator).count()
}
