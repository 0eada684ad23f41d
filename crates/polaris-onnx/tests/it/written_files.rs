//! Models that are written are those that are read.

use polaris_onnx::{
    Attribute, ElementType, Error, Graph, GraphBuilder, Model, NoExternalData, Tensor, Type,
    interpret,
};

fn read(model: &Model) -> Model {
    Model::from_bytes(model.to_bytes().unwrap().into(), &NoExternalData).unwrap()
}

/// Everything of a graph by names, and not by places, which a file does not keep.
fn described(graph: &Graph) -> String {
    let name = |id| &graph.value(id).name;
    let mut values: Vec<String> = graph.values.iter().map(|slot| format!("{slot:?}")).collect();
    values.sort();
    let mut text = format!("{}\n{graph}{}\n", graph.name, values.join("\n"));
    for node in &graph.nodes {
        let head = (&node.path, &node.domain, &node.operator, node.version);
        text += &format!("{head:?}\n");
        for (key, value) in node.attributes.iter() {
            match value {
                Attribute::Graph(inner) => text += &format!("{key}: {}", described(inner)),
                other => text += &format!("{key}: {other:?}\n"),
            }
        }
    }
    for capture in &graph.captures {
        text += &format!("captured {}\n", name(capture.inner));
    }
    text
}

/// A network with everything that a file holds: types, names, attributes, optional operands, graphs in nodes.
fn network() -> Model {
    let mut graph = GraphBuilder::new("network").opset(20);
    let x = graph.input("x", ElementType::F32, ["batch", "2", "8", "8"]);
    let scale = graph.input_with_default("scale", Tensor::scalar(0.5f32));
    let weight = (0..4 * 2 * 3 * 3).map(|at| (at * 37 % 23) as f32 / 11.0 - 1.0).collect();
    let weight = graph.named_constant("conv.weight", Tensor::new(&[4, 2, 3, 3], weight).unwrap());
    let y = graph.call("Conv", [x, weight]).attribute("pads", [1; 4]).named("conv").output();
    let [y, places] = graph.call("MaxPool", [y]).attribute("kernel_shape", [2, 2]).outputs();
    let sizes = graph.constant(Tensor::new(&[4], vec![1f32, 1.0, 2.0, 2.0]).unwrap());
    let y = graph.call("Resize", [Some(y), None, Some(sizes)]).attribute("mode", "linear").output();
    let total = graph.call("ReduceSum", [y]).attribute("keepdims", false).output();
    let nought = graph.scalar(0f32);
    let positive = graph.node("Greater", [total, nought]);
    let branch = |operator: &str| {
        let mut branch = graph.inner(operator);
        let (a, b) = (branch.capture("a", y), branch.capture("b", scale));
        let made = branch.node(operator, [a, b]);
        branch.output(made);
        branch.finish().unwrap()
    };
    let (then, other) = (branch("Mul"), branch("Add"));
    let chosen = graph.call("If", [positive]);
    let chosen = chosen.attribute("then_branch", then).attribute("else_branch", other).output();
    graph.declare(chosen, Type::tensor(ElementType::F32, ["batch", "4", "height", "width"]));
    graph.output_as(chosen, "y");
    graph.output_as(places, "places");
    let mut model = graph.build().unwrap();
    model.metadata.push(("author".to_owned(), "a test".to_owned()));
    model
}

#[test]
fn what_is_written_is_read_again() {
    let model = network();
    let again = read(&model);
    assert_eq!(described(&again.graph), described(&read(&again).graph));
    assert_eq!(again.graph.to_string(), model.graph.to_string());
    assert_eq!((again.ir_version, &again.opsets), (model.ir_version, &model.opsets));
    assert_eq!((&again.producer, &again.metadata), (&model.producer, &model.metadata));
    for slot in &model.graph.values {
        let found = again.graph.values.iter().find(|other| other.name == slot.name).unwrap();
        assert_eq!((&found.ty, &found.constant), (&slot.ty, &slot.constant), "{}", slot.name);
    }
    for (node, found) in model.graph.nodes.iter().zip(&again.graph.nodes) {
        assert_eq!((&node.path, node.version), (&found.path, found.version));
        let keys = |node: &polaris_onnx::Node| -> Vec<String> {
            node.attributes.iter().map(|(key, _)| key.to_owned()).collect()
        };
        assert_eq!(keys(node), keys(found));
    }
    let x = (0..3 * 2 * 8 * 8).map(|at| (at * 31 % 17) as f32 / 8.0 - 1.0).collect();
    let x = Tensor::new::<f32>(&[3, 2, 8, 8], x).unwrap();
    let run = |graph: &Graph| interpret(graph, &[Some(x.clone().into()), None], &[]).unwrap();
    assert_eq!(run(&model.graph), run(&again.graph));
}

#[test]
fn constants_of_every_type_are_written() {
    let values = [1.0, 0.0, 1.0, 1.0, 0.0, 1.0, 1.0];
    let mut graph = GraphBuilder::new("constants").opset(25);
    for element in ElementType::ALL {
        for shape in [&[7][..], &[0, 3]] {
            let count = shape.iter().product();
            let tensor = match element {
                ElementType::String => Tensor::strings(shape, vec!["text".to_owned(); count]),
                _ => Tensor::from_f64(element, shape, &values[..count]),
            };
            let id = graph.constant(tensor.unwrap());
            graph.output_as(id, &format!("{element} {shape:?}"));
        }
    }
    let lowest = Tensor::from_f64(ElementType::I4, &[3], &[-8.0, 7.0, -1.0]).unwrap();
    let id = graph.constant(lowest);
    graph.output_as(id, "narrow");
    let model = graph.build().unwrap();
    let again = read(&model);
    for (&id, &other) in model.graph.outputs.iter().zip(&again.graph.outputs) {
        assert_eq!(model.graph.value(id).constant, again.graph.value(other).constant);
    }
}

#[test]
fn a_file_is_saved_whole_or_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.onnx");
    network().save(&path).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    let again = Model::from_bytes(bytes.into(), &NoExternalData).unwrap();
    assert_eq!(again.graph.to_string(), network().graph.to_string());
    let error = network().save(&folder.path().join("missing/model.onnx")).unwrap_err();
    assert!(matches!(&error, Error::Write { .. }) && error.to_string().contains("missing"));
}

/// Constants share one piece of memory, so that the test takes little.
#[test]
fn models_beyond_two_gigabytes_are_refused() {
    let bytes = bytes::Bytes::from(vec![0u8; 32 << 20]);
    let piece = Tensor::from_bytes(ElementType::U8, &[32 << 20], bytes).unwrap();
    let mut graph = GraphBuilder::new("large");
    for _ in 0..64 {
        let id = graph.constant(piece.clone());
        graph.output(id);
    }
    let error = graph.build().unwrap().to_bytes().unwrap_err();
    assert!(matches!(error, Error::FileTooLarge { bytes, .. } if bytes > 2 << 30), "{error}");
}

#[test]
fn one_file_has_one_version_of_the_operators() {
    let mixed = |old: i64, new: i64| {
        let mut graph = GraphBuilder::new("mixed").opset(old);
        let x = graph.input("x", ElementType::F32, [2, 3]);
        let y = graph.node("Softmax", [x]);
        let y = graph.call("Gelu", [y]).version(new).output();
        graph.output(y);
        graph.build().unwrap()
    };
    let again = read(&mixed(17, 20));
    assert_eq!(again.opsets[""], 20);
    assert!(again.graph.nodes.iter().all(|node| node.version == 20));
    let error = mixed(11, 20).to_bytes().unwrap_err().to_string();
    assert!(error.contains("`Softmax_0` (Softmax) of version 11"), "{error}");
}

#[test]
fn graphs_that_are_none_are_not_written() {
    let mut model = network();
    model.graph.nodes.swap(0, 1);
    assert!(matches!(model.to_bytes(), Err(Error::Format { .. })));
}
