//! The rules for symbolic dimensions, and hostile operands.

use std::collections::HashMap;

use super::{Fact, infer_graph, infer_node};
use crate::{Attribute, Attributes, Dim, ElementType, GraphBuilder, Node, Tensor, Type, ValueId};

fn dims(text: &str) -> Vec<Dim> {
    text.split_whitespace().map(Dim::from).collect()
}

fn floats(shape: &str) -> Option<Fact> {
    Some(Fact::tensor(Some(ElementType::F32), Some(dims(shape))))
}

fn list(values: &[i64]) -> Tensor {
    Tensor::new(&[values.len()], values.to_vec()).unwrap()
}

fn constant(values: &[i64]) -> Option<Fact> {
    Some(Fact::constant(list(values)))
}

/// A list of integers of which only this is known.
fn entries(text: &str) -> Option<Fact> {
    let entries = dims(text);
    let shape = vec![Dim::Known(entries.len())];
    let fact = Fact::tensor(Some(ElementType::I64), Some(shape));
    Some(Fact { dims: Some(entries), ..fact })
}

fn node(operator: &str, attributes: &[(&str, Attribute)], inputs: usize) -> Node {
    let mut list = Attributes::default();
    for (name, value) in attributes {
        list.set(name, value.clone());
    }
    Node {
        path: operator.to_owned(),
        domain: String::new(),
        operator: operator.to_owned(),
        version: 22,
        attributes: list,
        inputs: vec![Some(ValueId(0)); inputs],
        outputs: vec![Some(ValueId(0))],
    }
}

fn result(operator: &str, attributes: &[(&str, Attribute)], inputs: &[Option<Fact>]) -> Fact {
    infer_node(&node(operator, attributes, inputs.len()), inputs).unwrap().remove(0)
}

fn fails(operator: &str, attributes: &[(&str, Attribute)], inputs: &[Option<Fact>]) -> bool {
    infer_node(&node(operator, attributes, inputs.len()), inputs).is_err()
}

fn shape(fact: &Fact) -> Vec<Dim> {
    match &fact.ty {
        Some(Type::Tensor(_, Some(shape))) => shape.clone(),
        other => panic!("a shape should be known, not {other:?}"),
    }
}

fn ints(values: &[i64]) -> Attribute {
    Attribute::Ints(values.to_vec())
}

#[test]
fn names_meet() {
    let add = |a: &str, b: &str| shape(&result("Add", &[], &[floats(a), floats(b)]));
    assert_eq!(add("n 1", "n 4"), dims("n 4"));
    assert_eq!(add("n m", "1"), dims("n m"));
    assert_eq!(add("n", "3"), dims("3"));
    assert_eq!(add("n", "m"), dims("?"));
    assert_eq!(add("? n", "2 1"), dims("2 n"));
    assert!(fails("Add", &[], &[floats("2"), floats("3")]));
}

#[test]
fn names_survive_what_changes_nothing() {
    let pads = [("pads", ints(&[1, 1]))];
    let conv = |attributes: &[(&str, Attribute)], kernel| {
        shape(&result("Conv", attributes, &[floats("n 3 length"), floats(kernel)]))
    };
    assert_eq!(conv(&pads, "8 3 3"), dims("n 8 length"));
    assert_eq!(conv(&pads, "8 3 5"), dims("n 8 ?"));
    assert_eq!(conv(&[], "8 3 1"), dims("n 8 length"));
    let axis = [("axis", Attribute::Int(1))];
    let concat = |a, b| shape(&result("Concat", &axis, &[floats(a), floats(b)]));
    assert_eq!(concat("n 0", "n m"), dims("n m"));
    assert_eq!(concat("n 2", "? m"), dims("n ?"));
    assert!(fails("Concat", &axis, &[floats("2 2"), floats("3 2")]));
}

#[test]
fn matrices_that_do_not_fit_are_refused() {
    let product = |a, b| shape(&result("MatMul", &[], &[floats(a), floats(b)]));
    assert_eq!(product("n 1 s 64", "8 64 m"), dims("n 8 s m"));
    assert_eq!(product("64", "64"), dims(""));
    assert!(fails("MatMul", &[], &[floats("n 3"), floats("4 n")]));
    assert!(fails("MatMul", &[], &[floats(""), floats("4")]));
}

#[test]
fn reshape_finds_the_last_length() {
    let reshape = |from, to| shape(&result("Reshape", &[], &[floats(from), to]));
    assert_eq!(reshape("n s 768", constant(&[0, 0, 12, -1])), dims("n s 12 64"));
    assert_eq!(reshape("? s 768", constant(&[0, -1, 12, 64])), dims("? s 12 64"));
    assert_eq!(reshape("n 12 s 64", entries("n -1 768")), dims("n s 768"));
    assert_eq!(reshape("n s 4", constant(&[-1, 4])), dims("? 4"));
    assert_eq!(reshape("2 6", entries("? 4")), dims("3 4"));
    let unknown = Some(Fact::tensor(Some(ElementType::I64), Some(dims("3"))));
    assert_eq!(reshape("2 6", unknown), dims("? ? ?"));
    assert!(fails("Reshape", &[], &[floats("2 3"), constant(&[4, -1])]));
    assert!(fails("Reshape", &[], &[floats("2 3"), constant(&[-1, -1])]));
    assert!(fails("Reshape", &[], &[floats("2 3"), constant(&[-2])]));
}

#[test]
fn slices_of_named_axes() {
    let slice = |start, end| {
        let inputs = [floats("n 4"), constant(&[start]), end, constant(&[0])];
        shape(&result("Slice", &[], &inputs))
    };
    assert_eq!(slice(0, constant(&[i64::MAX])), dims("n 4"));
    assert_eq!(slice(0, entries("n")), dims("n 4"));
    assert_eq!(slice(1, constant(&[i64::MAX])), dims("? 4"));
    assert_eq!(slice(0, entries("?")), dims("? 4"));
}

#[test]
fn a_length_that_is_written_as_a_negative_number_is_none() {
    let fact = result("Shape", &[], &[floats("-1 n 3")]);
    assert_eq!(fact.dims, Some(dims("? n 3")));
}

/// An operator, the values that it takes, and constants as further operands.
type Step<'a> = (&'a str, &'a [usize], &'a [&'a [i64]]);

/// A graph of one input and nodes; the last value's facts.
fn last(input: &str, nodes: &[Step<'_>]) -> Fact {
    let mut graph = GraphBuilder::new("steps").opset(22);
    let mut values = vec![graph.input("x", ElementType::F32, dims(input))];
    for (operator, operands, constants) in nodes {
        let mut inputs: Vec<ValueId> = operands.iter().map(|&index| values[index]).collect();
        for numbers in *constants {
            inputs.push(match numbers {
                // One number is a scalar: an index rather than a list.
                [number] if *operator == "Gather" => graph.scalar(*number),
                _ => graph.integers(numbers),
            });
        }
        values.push(graph.node_with(operator, inputs, [("axis", 0)]));
    }
    let facts = infer_graph(graph.graph(), &HashMap::new()).unwrap();
    facts[values[values.len() - 1].index()].clone()
}

#[test]
fn shapes_flow_through_a_graph() {
    // Reshape(x, Concat(Unsqueeze(Gather(Shape(x), 0)), [-1], Mul(12, 64))).
    let nodes: &[Step<'_>] = &[
        ("Shape", &[0], &[]),
        ("Gather", &[1], &[&[0]]),
        ("Unsqueeze", &[2], &[&[0]]),
        ("Mul", &[], &[&[12], &[64]]),
        ("Concat", &[3], &[&[-1]]),
        ("Concat", &[5, 4], &[]),
        ("Reshape", &[0, 6], &[]),
    ];
    assert_eq!(shape(&last("n s 768", nodes)), dims("n s 768"));
    assert_eq!(shape(&last("2 5 768", nodes)), dims("2 5 768"));
    assert_eq!(shape(&last("n s t 768", nodes)), dims("n ? 768"));
}

#[test]
fn a_missing_length_is_told_from_one_with_a_name() {
    // Expand(x, Where(Equal(shape, -1), 1, shape)) with a shape that is partly a name.
    let nodes: &[Step<'_>] = &[
        ("Shape", &[0], &[]),
        ("Concat", &[1], &[&[-1, 4]]),
        ("Equal", &[2], &[&[-1]]),
        ("Identity", &[], &[&[1]]),
        ("Where", &[3, 4, 2], &[]),
        ("Expand", &[0, 5], &[]),
    ];
    assert_eq!(last("n", &nodes[..5]).dims, Some(dims("n 1 4")));
    assert_eq!(shape(&last("1", nodes)), dims("1 1 4"));
}

#[test]
fn huge_numbers_are_no_shapes() {
    let huge = [i64::MAX, i64::MIN, -1, 0];
    for a in huge {
        for b in huge {
            for operator in
                ["Expand", "Tile", "Reshape", "ConstantOfShape", "Pad", "Slice", "Range"]
            {
                let inputs = [floats("n 7"), constant(&[a, b]), constant(&[b, a])];
                let _ = infer_node(&node(operator, &[], 3), &inputs);
                let inputs = [constant(&[a, b]), constant(&[a]), constant(&[b])];
                let _ = infer_node(&node(operator, &[], 3), &inputs);
            }
            let attributes =
                [("strides", ints(&[a])), ("dilations", ints(&[b])), ("pads", ints(&[a, b]))];
            for operator in ["Conv", "ConvTranspose", "MaxPool"] {
                let inputs = [floats("1 1 7"), floats("1 1 3")];
                let _ = infer_node(&node(operator, &attributes, 2), &inputs);
            }
        }
    }
}
