//! Graphs that are right, and what is said of those that are not.

use super::*;
use crate::{NoExternalData, interpret};

fn layer() -> GraphBuilder {
    let mut graph = GraphBuilder::new("layer");
    let x = graph.input("x", ElementType::F32, ["rows", "2"]);
    let w = graph.named_constant("w", Tensor::new(&[2, 3], vec![1f32; 6]).unwrap());
    let y = graph.node("MatMul", [x, w]);
    graph.output_as(y, "y");
    graph
}

fn refusal<T>(change: impl FnOnce(&mut GraphBuilder) -> T) -> String {
    let mut graph = layer();
    change(&mut graph);
    graph.build().unwrap_err().to_string()
}

#[test]
fn mistakes_are_told_with_their_node() {
    let x = ValueId(0);
    let found = refusal(|graph| graph.output_as(x, "w"));
    assert!(found.contains("two values have the name `w`"), "{found}");
    let found = refusal(|graph| graph.node("Fly", [x]));
    assert!(found.starts_with("node `Fly_1` (Fly): not supported"), "{found}");
    let found = refusal(|graph| graph.node("Add", [x]));
    assert_eq!(found, "node `Add_1` (Add): in version 17 it has 2 operands, but 1 were given");
    let found = refusal(|graph| graph.node("Gelu", [x]));
    assert!(found.contains("came with version 20"), "{found}");
    let found = refusal(|graph| graph.node("MatMul", [ValueId(1), ValueId(1)]));
    assert!(found.starts_with("node `MatMul_1` (MatMul)"), "{found}");
    let found = refusal(|graph| graph.node("Relu", [ValueId(99)]));
    assert!(found.contains("node `Relu_1` is the value 99"), "{found}");
    let found = refusal(|graph| {
        graph.call("Softmax", [x]).attribute("axis", 0).attribute("axis", 1).output()
    });
    assert!(found.contains("node `Softmax_1` (Softmax)") && found.contains("twice"), "{found}");
    let found = refusal(|graph| graph.declare(ValueId(2), Type::tensor(ElementType::F32, [4, 4])));
    assert!(found.contains("`y` is declared as f32[4, 4], but is f32[rows, 3]"), "{found}");
    let found = refusal(|graph| graph.rename(ValueId(99), "z"));
    assert!(found.contains("the value 99 is none of this graph"), "{found}");
    let found = refusal(|graph| graph.input("", ElementType::F32, [1]));
    assert!(found.contains("the input at place 1 has no name"), "{found}");
}

#[test]
fn generated_names_give_way_to_chosen_ones() {
    let mut graph = GraphBuilder::new("names");
    let x = graph.input("Relu_0", ElementType::F32, [2]);
    let a = graph.node("Relu", [x]);
    let b = graph.node("Exp", [a]);
    graph.output_as(a, "Exp_1");
    graph.output_as(a, "again");
    graph.output_as(x, "same");
    graph.output(b);
    let graph = graph.finish().unwrap();
    let names: Vec<&str> = graph.outputs.iter().map(|&id| graph.value(id).name.as_str()).collect();
    assert_eq!(names, ["Exp_1", "again", "same", "Exp_1_1"]);
    let operators: Vec<&str> = graph.nodes.iter().map(|node| node.operator.as_str()).collect();
    assert_eq!(operators, ["Relu", "Exp", "Identity", "Identity"]);
}

#[test]
fn constants_that_stand_for_inputs_decide_no_shape() {
    let mut graph = GraphBuilder::new("reshaped");
    let x = graph.input("x", ElementType::F32, [6]);
    let shape = graph.input_with_default("shape", Tensor::new(&[2], vec![2i64, 3]).unwrap());
    let y = graph.node("Reshape", [x, shape]);
    graph.output_as(y, "y");
    let graph = graph.finish().unwrap();
    let ty = graph.value(graph.outputs[0]).ty.as_ref().unwrap();
    assert_eq!(ty.to_string(), "f32[?, ?]");
}

#[test]
fn graphs_inside_nodes_refer_to_values_outside() {
    let mut graph = GraphBuilder::new("sums");
    let x = graph.input("x", ElementType::F32, [2]);
    let count = graph.scalar(3i64);
    let mut body = graph.inner("body");
    body.untyped_input("step");
    let go = body.untyped_input("go");
    let sum = body.untyped_input("sum");
    let outer = body.capture("x", x);
    let next = body.node("Add", [sum, outer]);
    let go_on = body.node("Identity", [go]);
    for id in [go_on, next] {
        body.output(id);
    }
    let body = body.finish().unwrap();
    let y = graph.call("Loop", [Some(count), None, Some(x)]).attribute("body", body).output();
    graph.output_as(y, "y");
    let model = graph.build().unwrap();
    let read = Model::from_bytes(model.to_bytes().unwrap().into(), &NoExternalData).unwrap();
    for graph in [&model.graph, &read.graph] {
        let x = Tensor::new(&[2], vec![1f32, 2.0]).unwrap();
        let y = interpret(graph, &[Some(x.into())], &[]).unwrap();
        assert_eq!(y[0].tensor().unwrap().to_f64().unwrap(), [4.0, 8.0]);
    }
}

#[test]
fn other_domains_are_not_judged() {
    let mut graph = GraphBuilder::new("own").opset_of("com.example", 3);
    let x = graph.input("x", ElementType::F32, [2]);
    let y = graph.call("Fly", [x]).domain("com.example").named("flight").output();
    graph.output(y);
    let model = graph.build().unwrap();
    assert_eq!((model.opsets["com.example"], model.graph.nodes[0].version), (3, 3));
    assert_eq!(model.graph.value(y).name, "flight");
}
