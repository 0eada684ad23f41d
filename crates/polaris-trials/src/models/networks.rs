//! Networks: layers as they are trained.

use polaris_onnx::messages::Model;

use super::build::*;

pub fn mlp() -> Model {
    let nodes = vec![
        node("Gemm", "x w1 b1", "h", vec![int("transB", 1)]),
        node("Relu", "h", "r", vec![]),
        node("MatMul", "r w2", "m", vec![]),
        node("Add", "m b2", "a", vec![]),
        node("Softmax", "a", "y", vec![int("axis", -1)]),
    ];
    let constants = vec![
        weights("w1", &[16, 8]),
        weights("b1", &[16]),
        weights("w2", &[16, 5]),
        weights("b2", &[5]),
    ];
    let (input, output) = (value("x", F32, &[-1, 8]), value("y", F32, &[-1, 5]));
    model(17, graph(nodes, constants, vec![input], vec![output]))
}

pub fn convolutions() -> Model {
    let nodes = vec![
        node("Conv", "x w b", "c", vec![ints("pads", &[1, 1, 1, 1]), ints("strides", &[1, 1])]),
        node("BatchNormalization", "c s o m v", "n", vec![float("epsilon", 1e-5)]),
        node("Relu", "n", "r", vec![]),
        node("MaxPool", "r", "p", vec![ints("kernel_shape", &[2, 2]), ints("strides", &[2, 2])]),
        node("Conv", "p d", "e", vec![int("group", 4), ints("dilations", &[1, 1])]),
        node("AveragePool", "e", "a", vec![ints("kernel_shape", &[2, 2]), int("ceil_mode", 1)]),
        node("ConvTranspose", "a t", "u", vec![ints("strides", &[2, 2])]),
        node("GlobalAveragePool", "u", "g", vec![]),
        node("Flatten", "g", "f", vec![int("axis", 1)]),
        node("Gemm", "f k", "y", vec![float("alpha", 0.5)]),
    ];
    let ones = constant("v", &[4], &[1.0, 1.5, 0.5, 2.0]);
    let constants = vec![
        weights("w", &[4, 3, 3, 3]),
        weights("b", &[4]),
        weights("s", &[4]),
        weights("o", &[4]),
        weights("m", &[4]),
        ones,
        weights("d", &[4, 1, 2, 2]),
        weights("t", &[4, 6, 2, 2]),
        weights("k", &[6, 3]),
    ];
    let (input, output) = (value("x", F32, &[-1, 3, 8, 8]), value("y", F32, &[-1, 3]));
    model(17, graph(nodes, constants, vec![input], vec![output]))
}

pub fn attention() -> Model {
    let heads = |from: &str, to: &str, perm: &[i64]| {
        vec![
            node("MatMul", &format!("l w{from}"), &format!("{from}1"), vec![]),
            node("Reshape", &format!("{from}1 split"), &format!("{from}2"), vec![]),
            node("Transpose", &format!("{from}2"), to, vec![ints("perm", perm)]),
        ]
    };
    let mut nodes = vec![
        node("Gather", "table ids", "e", vec![int("axis", 0)]),
        node("LayerNormalization", "e g h", "l", vec![int("axis", -1), float("epsilon", 1e-5)]),
    ];
    nodes.extend(heads("q", "q", &[0, 2, 1, 3]));
    nodes.extend(heads("k", "k", &[0, 2, 3, 1]));
    nodes.extend(heads("v", "v", &[0, 2, 1, 3]));
    nodes.extend([
        node("MatMul", "q k", "scores", vec![]),
        node("Div", "scores root", "scaled", vec![]),
        node("Softmax", "scaled", "p", vec![int("axis", -1)]),
        node("MatMul", "p v", "o", vec![]),
        node("Transpose", "o", "o1", vec![ints("perm", &[0, 2, 1, 3])]),
        node("Reshape", "o1 join", "o2", vec![]),
        node("Add", "o2 e", "s", vec![]),
        node("Div", "s sqrt2", "s1", vec![]),
        node("Erf", "s1", "s2", vec![]),
        node("Add", "s2 one", "s3", vec![]),
        node("Mul", "s s3", "s4", vec![]),
        node("Mul", "s4 half", "y", vec![]),
    ]);
    let constants = vec![
        weights("table", &[10, 8]),
        weights("g", &[8]),
        weights("h", &[8]),
        weights("wq", &[8, 8]),
        weights("wk", &[8, 8]),
        weights("wv", &[8, 8]),
        longs("split", &[0, 0, 2, 4]),
        longs("join", &[0, 0, 8]),
        constant("root", &[], &[2.0]),
        constant("sqrt2", &[], &[std::f32::consts::SQRT_2]),
        constant("one", &[], &[1.0]),
        constant("half", &[], &[0.5]),
    ];
    let (input, output) = (value("ids", I64, &[-1, -2]), value("y", F32, &[-1, -2, 8]));
    model(17, graph(nodes, constants, vec![input], vec![output]))
}

pub fn recurrent() -> Model {
    let nodes = vec![
        node("LSTM", "x w r b", "l h c", vec![int("hidden_size", 3)]),
        node("Squeeze", "l axis", "s", vec![]),
        node("GRU", "s w2 r2", "g", vec![int("hidden_size", 2), string("direction", "reverse")]),
        node("ReduceMean", "g", "y", vec![ints("axes", &[0]), int("keepdims", 0)]),
    ];
    let constants = vec![
        weights("w", &[1, 12, 2]),
        weights("r", &[1, 12, 3]),
        weights("b", &[1, 24]),
        longs("axis", &[1]),
        weights("w2", &[1, 6, 3]),
        weights("r2", &[1, 6, 2]),
    ];
    let (input, output) = (value("x", F32, &[-1, -2, 2]), value("y", F32, &[1, -2, 2]));
    model(17, graph(nodes, constants, vec![input], vec![output]))
}

/// Quantised values around products, as tools write them.
pub fn quantized() -> Model {
    let nodes = vec![
        node("QuantizeLinear", "x s z", "q", vec![]),
        node("DequantizeLinear", "q s z", "d", vec![]),
        node("DequantizeLinear", "w ws wz", "wd", vec![int("axis", 0)]),
        node("Conv", "d wd", "c", vec![ints("pads", &[1, 1, 1, 1])]),
        node("Relu", "c", "r", vec![]),
        node("QuantizeLinear", "r s z", "rq", vec![]),
        node("DequantizeLinear", "rq s z", "rd", vec![]),
        node("Reshape", "rd flat", "f", vec![]),
        node("DequantizeLinear", "k s kz", "kd", vec![]),
        node("MatMul", "f kd", "m", vec![]),
        node("QuantizeLinear", "m s z", "mq", vec![]),
        node("DequantizeLinear", "mq s z", "y", vec![]),
    ];
    let bytes = |count: i32| (0..count).map(|i| (i * 37) % 200 - 100).collect::<Vec<i32>>();
    let constants = vec![
        constant("s", &[], &[0.05]),
        small("z", U8, &[], &[128]),
        small("w", I8, &[4, 2, 3, 3], &bytes(72)),
        constant("ws", &[4], &[0.01, 0.02, 0.03, 0.04]),
        small("wz", I8, &[4], &[0; 4]),
        longs("flat", &[0, -1]),
        small("k", I8, &[64, 3], &bytes(192)),
        small("kz", I8, &[], &[0]),
    ];
    let (input, output) = (value("x", F32, &[-1, 2, 4, 4]), value("y", F32, &[-1, 3]));
    model(17, graph(nodes, constants, vec![input], vec![output]))
}

/// Products of integers.
pub fn integers() -> Model {
    let nodes = vec![
        node("DynamicQuantizeLinear", "x", "q s z", vec![]),
        node("MatMulInteger", "q w z", "m", vec![]),
        node("Cast", "m", "f", vec![int("to", 1)]),
        node("Mul", "f s", "y", vec![]),
        node("QLinearMatMul", "q s z w2 one z2 one z", "l", vec![]),
        node("ConvInteger", "image cw", "c", vec![]),
        node("BitShift", "l two", "shifted", vec![string("direction", "RIGHT")]),
    ];
    let bytes = |count: i32| (0..count).map(|i| (i * 37) % 100).collect::<Vec<i32>>();
    let constants = vec![
        small("w", I8, &[6, 4], &bytes(24)),
        small("w2", U8, &[6, 4], &bytes(24)),
        small("z2", U8, &[], &[3]),
        constant("one", &[], &[1.0]),
        small("image", U8, &[1, 1, 4, 4], &bytes(16)),
        small("cw", U8, &[1, 1, 2, 2], &bytes(4)),
        small("two", U8, &[], &[2]),
    ];
    let outputs = vec![value("y", F32, &[-1, 4]), value("shifted", U8, &[-1, 4]), untyped("c")];
    model(17, graph(nodes, constants, vec![value("x", F32, &[-1, 6])], outputs))
}

/// What detectors are made of.
pub fn images() -> Model {
    let nodes = vec![
        node("Resize", "x - scales", "r", vec![string("mode", "linear")]),
        node("Pad", "r pads", "p", vec![string("mode", "reflect")]),
        node("DepthToSpace", "p", "d", vec![int("blocksize", 2)]),
        node("SpaceToDepth", "d", "e", vec![int("blocksize", 2)]),
        node("GridSample", "e grid", "g", vec![string("padding_mode", "border")]),
        node(
            "RoiAlign",
            "e rois batches",
            "a",
            vec![int("output_height", 2), int("output_width", 2)],
        ),
        node("NonMaxSuppression", "boxes scores most iou", "n", vec![]),
        node("LRN", "e", "l", vec![int("size", 3)]),
        node("InstanceNormalization", "l s b", "i", vec![]),
        node("MaxPool", "i", "m where", vec![ints("kernel_shape", &[2, 2])]),
    ];
    let constants = vec![
        constant("scales", &[4], &[1.0, 1.0, 2.0, 1.5]),
        longs("pads", &[0, 0, 1, 1, 0, 0, 1, 1]),
        weights("grid", &[1, 2, 2, 2]),
        constant("rois", &[1, 4], &[0.0, 0.0, 2.0, 2.0]),
        longs("batches", &[0]),
        constant("boxes", &[1, 2, 4], &[0.0, 0.0, 1.0, 1.0, 0.1, 0.0, 1.0, 1.0]),
        constant("scores", &[1, 1, 2], &[0.9, 0.8]),
        longs("most", &[3]),
        constant("iou", &[1], &[0.5]),
        weights("s", &[4]),
        weights("b", &[4]),
    ];
    let outputs = ["g", "a", "n", "m", "where"].map(untyped).to_vec();
    model(16, graph(nodes, constants, vec![value("x", F32, &[1, 4, 3, 4])], outputs))
}
