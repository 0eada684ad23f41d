//! Models that are well-formed and mean nonsense: fields at their edges, names that clash, graphs with cycles.

use anyhow::Result;
use polaris_onnx::messages::{
    Attribute, DimensionValue, Entry, Graph, Model, Node, Tensor, TypeValue, ValueInfo,
};
use prost::Message;

use super::{use_model, write_model};
use crate::models;
use crate::random::{ODD_FLOATS, ODD_INTEGERS, Random, odd_string};
use crate::trial::Trial;

/// Operators of the standard that a node can be turned into.
const OPERATORS: &str = "Abs Acos Add And ArgMax ArgMin Attention AveragePool BatchNormalization BitShift \
    BitwiseAnd Cast CastLike Ceil Celu CenterCropPad Clip Col2Im Compress Concat ConcatFromSequence Constant \
    ConstantOfShape Conv ConvInteger ConvTranspose Cos CumSum DFT DeformConv DepthToSpace DequantizeLinear Det \
    Div Dropout DynamicQuantizeLinear Einsum Elu Equal Erf Exp Expand EyeLike Flatten Floor GRU Gather \
    GatherElements GatherND Gelu Gemm GlobalAveragePool GlobalMaxPool Greater GridSample GroupNormalization \
    HannWindow HardSigmoid Hardmax Identity If InstanceNormalization IsInf IsNaN LRN LSTM LayerNormalization \
    LeakyRelu Less Log LogSoftmax Loop LpNormalization LpPool MatMul MatMulInteger Max MaxPool MaxRoiPool \
    MaxUnpool Mean MelWeightMatrix Min Mish Mod Mul Multinomial Neg NegativeLogLikelihoodLoss \
    NonMaxSuppression NonZero Not OneHot Optional OptionalGetElement Or PRelu Pad Pow QLinearConv \
    QLinearMatMul QuantizeLinear RMSNormalization RNN RandomNormal RandomUniformLike Range Reciprocal \
    ReduceL1 ReduceL2 ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum Relu Reshape \
    Resize ReverseSequence RoiAlign RotaryEmbedding Round STFT Scan ScatterElements ScatterND Selu \
    SequenceAt SequenceConstruct SequenceEmpty SequenceErase SequenceInsert SequenceLength Shape Shrink \
    Sigmoid Sign Size Slice Softmax SoftmaxCrossEntropyLoss Softplus SpaceToDepth Split SplitToSequence Sqrt \
    Squeeze StringConcat StringNormalizer StringSplit Sub Sum Tan Tanh TensorScatter TfIdfVectorizer Tile \
    TopK Transpose Trilu Unique Unsqueeze Upsample Where Xor Unknown";

pub fn run(trial: &mut Trial<'_>) -> Result<()> {
    trial.may_be_long = true;
    let samples = models::all();
    let mut sample = trial.random.pick(&samples).clone();
    let other = trial.random.pick(&samples).model.clone();
    for _ in 0..trial.random.between(1, 3) {
        distort(&mut sample.model, &other, &mut trial.random);
    }
    write_model(trial, &sample, &sample.model.encode_to_vec())?;
    use_model(trial)?;
    Ok(())
}

fn distort(model: &mut Model, other: &Model, random: &mut Random) {
    let Some(graph) = model.graph.as_mut() else { return };
    let Some(foreign) = other.graph.as_ref() else { return };
    match random.below(30) {
        0..=12 => change_node(graph, foreign, random),
        13..=19 => {
            let at = random.below(graph.initializer.len());
            if let Some(tensor) = graph.initializer.get_mut(at) {
                change_tensor(tensor, random);
            }
        }
        20..=22 => {
            let list = if random.once_in(3) { &mut graph.output } else { &mut graph.input };
            let at = random.below(list.len());
            if let Some(value) = list.get_mut(at) {
                change_value(value, random);
            }
        }
        23 => graph.node.reverse(),
        24 => {
            let at = random.below(graph.node.len());
            if let Some(node) = graph.node.get(at).cloned() {
                graph.node.push(node);
            }
        }
        25 => {
            for set in &mut model.opset_import {
                set.version = match random.once_in(4) {
                    true => *random.pick(&ODD_INTEGERS),
                    false => 1 + random.below(26) as i64,
                };
            }
        }
        26 => model.ir_version = *random.pick(&ODD_INTEGERS),
        27 => {
            // A tower of graphs inside one another.
            let depth = random.between(2, 300);
            for _ in 0..depth {
                let inner = std::mem::take(graph);
                let outputs = inner.output.clone();
                let branches = ["then_branch", "else_branch"].map(|name| {
                    models::graph_attribute(name, Graph { input: vec![], ..inner.clone() })
                });
                // Both branches would double with every level.
                let branches = branches.into_iter().take(1).collect();
                let node =
                    Node { attribute: branches, ..models::node("If", "condition", "y", vec![]) };
                let condition = models::small("condition", models::BOOL, &[], &[1]);
                *graph = models::graph(vec![node], vec![condition], inner.input, outputs);
            }
        }
        28 => {
            let huge = vec![0u8; 1 << random.between(10, 22)];
            graph.initializer.push(Tensor {
                dims: vec![huge.len() as i64],
                data_type: 2,
                name: "unused".to_owned(),
                raw_data: huge.into(),
                ..Tensor::default()
            });
        }
        _ => change_function(model, random),
    }
}

fn change_node(graph: &mut Graph, foreign: &Graph, random: &mut Random) {
    let names: Vec<String> = graph.node.iter().flat_map(|node| node.output.clone()).collect();
    let at = random.below(graph.node.len());
    let Some(node) = graph.node.get_mut(at) else { return };
    match random.below(13) {
        0 | 1 => {
            let operators: Vec<&str> = OPERATORS.split_whitespace().collect();
            (*random.pick(&operators)).clone_into(&mut node.op_type);
        }
        2 => {
            if let Some(other) = foreign.node.get(random.below(foreign.node.len())) {
                node.attribute.clone_from(&other.attribute);
            }
        }
        3 => drop(node.input.pop()),
        4 => node.input.push(odd_string(random)),
        5 if !node.input.is_empty() => {
            // Any value of the graph, later ones and its own result among them.
            let place = random.below(node.input.len());
            node.input[place].clone_from(&names[random.below(names.len())]);
        }
        6 if !node.input.is_empty() => {
            let place = random.below(node.input.len());
            node.input[place].clear();
        }
        7 => node.output.push(names[random.below(names.len())].clone()),
        8 if !node.input.is_empty() => node.input.rotate_left(1),
        9 => node.domain = odd_string(random),
        _ => {
            let at = random.below(node.attribute.len());
            match node.attribute.get_mut(at) {
                Some(attribute) => change_attribute(attribute, random),
                None => node.attribute.push(models::int("axis", *random.pick(&ODD_INTEGERS))),
            }
        }
    }
}

fn change_attribute(attribute: &mut Attribute, random: &mut Random) {
    let at = |length: usize, random: &mut Random| random.below(length);
    match random.below(8) {
        0 => attribute.name = odd_string(random),
        1 => attribute.kind = random.below(20) as i32 - 1,
        2 if !attribute.ints.is_empty() => drop(attribute.ints.pop()),
        3 if !attribute.ints.is_empty() => {
            let more = vec![*random.pick(&ODD_INTEGERS); random.between(1, 40)];
            attribute.ints.extend(more);
        }
        _ => {
            let place = at(attribute.ints.len(), random);
            if let Some(number) = attribute.ints.get_mut(place) {
                *number = *random.pick(&ODD_INTEGERS);
            }
            let place = at(attribute.floats.len(), random);
            if let Some(number) = attribute.floats.get_mut(place) {
                *number = *random.pick(&ODD_FLOATS);
            }
            let place = at(attribute.strings.len(), random);
            if let Some(text) = attribute.strings.get_mut(place) {
                *text = odd_string(random).into_bytes().into();
            }
            if !attribute.s.is_empty() {
                attribute.s = odd_string(random).into_bytes().into();
            }
            if let Some(tensor) = attribute.t.as_mut() {
                change_tensor(tensor, random);
            }
            if let Some(graph) = attribute.g.as_mut() {
                let foreign = graph.as_ref().clone();
                change_node(graph, &foreign, random);
            }
            (attribute.i, attribute.f) = (*random.pick(&ODD_INTEGERS), *random.pick(&ODD_FLOATS));
        }
    }
}

fn change_tensor(tensor: &mut Tensor, random: &mut Random) {
    match random.below(9) {
        0 | 1 => {
            let at = random.below(tensor.dims.len());
            match tensor.dims.get_mut(at) {
                Some(length) => *length = *random.pick(&ODD_INTEGERS),
                None => tensor.dims.push(*random.pick(&ODD_INTEGERS)),
            }
        }
        2 => {
            // Many axes, or a length whose product with others overflows.
            let length = *random.pick(&[0, 1, 2, 1 << 32]);
            tensor.dims.extend(vec![length; random.between(1, 70)]);
        }
        3 => {
            tensor.data_type = *random.pick(&[0, 1, 2, 7, 8, 9, 10, 11, 14, 16, 22, 23, 26, 27, -1])
        }
        4 => tensor.name = odd_string(random),
        5 => tensor.int64_data.iter_mut().for_each(|number| *number = *random.pick(&ODD_INTEGERS)),
        6 => {
            let kept = tensor.raw_data.len() / 2;
            tensor.raw_data.truncate(kept);
        }
        7 => {
            // Other bits of any type: NaNs, huge numbers, bools that are neither 0 nor 1.
            let changed = |byte: &u8| byte ^ (random.next() & random.next()) as u8;
            tensor.raw_data = tensor.raw_data.iter().map(changed).collect::<Vec<u8>>().into();
            tensor.int32_data.iter_mut().for_each(|number| *number ^= random.next() as i32);
        }
        _ => {
            tensor.data_location = 1;
            let entry = |key: &str, value: String| Entry { key: key.to_owned(), value };
            let number = |random: &mut Random| random.pick(&ODD_INTEGERS).to_string();
            let place = *random.pick(&["model.onnx", "weights.bin", ".", "missing", "/dev/zero"]);
            let place = if random.once_in(3) { odd_string(random) } else { place.to_owned() };
            tensor.external_data = vec![entry("location", place)];
            if random.once_in(2) {
                tensor.external_data.push(entry("offset", number(random)));
            }
            if random.once_in(2) {
                tensor.external_data.push(entry("length", number(random)));
            }
        }
    }
}

fn change_value(value: &mut ValueInfo, random: &mut Random) {
    let tensor = match value.ty.as_mut().and_then(|ty| ty.value.as_mut()) {
        Some(TypeValue::Tensor(tensor)) if !random.once_in(8) => tensor,
        _ => {
            match random.once_in(2) {
                true => value.ty = None,
                false => value.name = odd_string(random),
            }
            return;
        }
    };
    match random.below(3) {
        0 => tensor.elem_type = random.below(30) as i32 - 1,
        1 => tensor.shape = None,
        _ => {
            let dims = tensor.shape.get_or_insert_default();
            let at = random.below(dims.dim.len());
            match dims.dim.get_mut(at) {
                Some(dim) => {
                    let name = DimensionValue::Name(odd_string(random));
                    let number = DimensionValue::Value(*random.pick(&ODD_INTEGERS));
                    dim.value = Some(if random.once_in(4) { name } else { number });
                }
                None => dims.dim.push(Default::default()),
            }
        }
    }
}

fn change_function(model: &mut Model, random: &mut Random) {
    let Some(function) = model.functions.first_mut() else { return };
    match random.below(4) {
        // One that calls itself.
        0 => {
            let call = Node { domain: "own".to_owned(), ..models::node("Twice", "a", "b", vec![]) };
            function.node = vec![call];
        }
        1 => function.input.push(odd_string(random)),
        2 => function.output.clear(),
        _ => {
            // Each calls the next one twice: the written-out graph would be 2^40 nodes.
            let template = function.clone();
            model.functions = (0..40)
                .map(|level| {
                    let next = format!("F{}", level + 1);
                    let own = |input: &str, output: &str| Node {
                        domain: "own".to_owned(),
                        ..models::node(&next, input, output, vec![])
                    };
                    let mut function = template.clone();
                    function.name =
                        if level == 0 { "Twice".to_owned() } else { format!("F{level}") };
                    function.node = match level {
                        39 => vec![models::node("Add", "a a", "b", vec![])],
                        _ => vec![own("a", "m"), own("m", "b")],
                    };
                    function
                })
                .collect();
        }
    }
}
