//! Structure: control flow, functions, shapes that are computed, sequences, strings, trees, other files.

use polaris_onnx::messages::{Entry, Function, Model, Node, OperatorSet, Tensor};

use super::build::*;

/// A loop that refers to values outside, a choice, and a scan.
pub fn control() -> Model {
    let body = graph(
        vec![
            node("Add", "sum x", "next", vec![]),
            node("Identity", "go", "go_on", vec![]),
            node("Mul", "next next", "square", vec![]),
        ],
        vec![],
        ["step", "go", "sum"].map(untyped).to_vec(),
        ["go_on", "next", "square"].map(untyped).to_vec(),
    );
    let branch = |operator: &str| {
        graph(
            vec![node(operator, "last", "chosen", vec![])],
            vec![],
            vec![],
            vec![untyped("chosen")],
        )
    };
    let scan = graph(
        vec![
            node("Add", "state row", "state_out", vec![]),
            node("Abs", "state_out", "row_out", vec![]),
        ],
        vec![],
        vec![value("state", F32, &[3]), value("row", F32, &[3])],
        vec![value("state_out", F32, &[3]), value("row_out", F32, &[3])],
    );
    let nodes = vec![
        node("Loop", "count - x", "last all", vec![graph_attribute("body", body)]),
        node("ReduceSum", "last", "total", vec![int("keepdims", 0)]),
        node("Greater", "total nought", "positive", vec![]),
        node(
            "If",
            "positive",
            "y",
            vec![
                graph_attribute("then_branch", branch("Sqrt")),
                graph_attribute("else_branch", branch("Neg")),
            ],
        ),
        node(
            "Scan",
            "start x",
            "end rows",
            vec![graph_attribute("body", scan), int("num_scan_inputs", 1)],
        ),
    ];
    let constants =
        vec![long("count", 4), constant("nought", &[], &[0.0]), constant("start", &[3], &[0.0; 3])];
    let outputs = vec![value("y", F32, &[2, 3]), value("all", F32, &[4, 2, 3]), untyped("rows")];
    model(17, graph(nodes, constants, vec![value("x", F32, &[2, 3])], outputs))
}

/// A function of the model's own, called twice.
pub fn functions() -> Model {
    let twice = Function {
        name: "Twice".to_owned(),
        domain: "own".to_owned(),
        input: vec!["a".to_owned()],
        output: vec!["b".to_owned()],
        node: vec![node("Add", "a a", "b", vec![])],
        opset_import: vec![OperatorSet { domain: String::new(), version: 17 }],
        ..Function::default()
    };
    let own = |input: &str, output: &str| Node {
        domain: "own".to_owned(),
        ..node("Twice", input, output, vec![])
    };
    let nodes = vec![own("x", "z"), own("z", "y")];
    let ends = (vec![value("x", F32, &[4])], vec![value("y", F32, &[4])]);
    Model { functions: vec![twice], ..model(17, graph(nodes, vec![], ends.0, ends.1)) }
}

/// Shapes computed from shapes and from elements.
pub fn shapes() -> Model {
    let nodes = vec![
        node("Shape", "x", "s", vec![]),
        node("Gather", "s zero", "rows", vec![int("axis", 0)]),
        node("Unsqueeze", "rows axis", "rows1", vec![]),
        node("Concat", "rows1 rest", "shape", vec![int("axis", 0)]),
        node("Reshape", "x shape", "r", vec![]),
        node("Transpose", "r", "t", vec![ints("perm", &[1, 0])]),
        node("NonZero", "t", "places", vec![]),
        node("Cast", "places", "floats", vec![int("to", 1)]),
        node("ReduceSum", "floats", "y", vec![int("keepdims", 0)]),
        node("Range", "zero rows step", "range", vec![]),
        node("ConstantOfShape", "shape_of", "c", vec![]),
        node("Expand", "range wide", "e", vec![]),
        node("Tile", "e times", "tiled", vec![]),
        node("Slice", "t from to axis", "slice", vec![]),
        node("Split", "x parts", "p1 p2", vec![int("axis", 1)]),
        node("OneHot", "range depth values", "o", vec![]),
        node("CumSum", "t zero", "cs", vec![int("exclusive", 1)]),
        node("Compress", "x mask", "compressed", vec![int("axis", 1)]),
    ];
    let constants = vec![
        long("zero", 0),
        long("step", 1),
        longs("axis", &[0]),
        longs("rest", &[-1]),
        longs("shape_of", &[2, 3]),
        longs("wide", &[3, 1]),
        longs("times", &[2, 2]),
        longs("from", &[-1]),
        longs("to", &[-9_223_372_036_854_775_807]),
        longs("parts", &[1, 2]),
        long("depth", 4),
        constant("values", &[2], &[0.0, 1.0]),
        small("mask", BOOL, &[3], &[1, 0, 1]),
    ];
    let outputs = ["y", "c", "tiled", "slice", "p2", "o", "cs", "compressed"].map(untyped).to_vec();
    model(17, graph(nodes, constants, vec![value("x", F32, &[-1, 3, 2])], outputs))
}

pub fn sequences() -> Model {
    let nodes = vec![
        node("SplitToSequence", "x - ", "parts", vec![int("axis", 0), int("keepdims", 1)]),
        node("SequenceInsert", "parts x", "more", vec![]),
        node("SequenceAt", "more zero", "first", vec![]),
        node("SequenceErase", "more last", "less", vec![]),
        node("SequenceLength", "less", "length", vec![]),
        node("ConcatFromSequence", "less", "y", vec![int("axis", 0)]),
        node("SequenceConstruct", "first x", "made", vec![]),
        node("Optional", "made", "maybe", vec![]),
        node("OptionalHasElement", "maybe", "has", vec![]),
        node("OptionalGetElement", "maybe", "got", vec![]),
        node("ConcatFromSequence", "got", "z", vec![int("axis", 0), int("new_axis", 0)]),
    ];
    let constants = vec![long("zero", 0), long("last", -1)];
    let outputs = ["y", "length", "has", "z"].map(untyped).to_vec();
    model(18, graph(nodes, constants, vec![value("x", F32, &[-1, 2])], outputs))
}

pub fn texts_of() -> Model {
    let ngrams = vec![
        string("mode", "TF"),
        int("min_gram_length", 1),
        int("max_gram_length", 2),
        int("max_skip_count", 1),
        ints("ngram_counts", &[0, 2]),
        ints("ngram_indexes", &[0, 1, 2]),
        strings("pool_strings", &["a", "b", "a", "c"]),
    ];
    let nodes = vec![
        node("StringNormalizer", "text", "low", vec![string("case_change_action", "LOWER")]),
        node("StringConcat", "low tail", "joined", vec![]),
        node("StringSplit", "joined", "pieces counts", vec![string("delimiter", "-")]),
        node("RegexFullMatch", "joined", "match", vec![string("pattern", "[a-z]+-x")]),
        node("TfIdfVectorizer", "low", "tf", ngrams),
        node("Equal", "low joined", "same", vec![]),
        node("Cast", "x", "numbers", vec![int("to", 8)]),
    ];
    let constants = vec![texts("text", &[3], &["A", "b", "Ünï"]), texts("tail", &[1], &["-x"])];
    let outputs = ["pieces", "counts", "match", "tf", "same", "numbers"].map(untyped).to_vec();
    model(20, graph(nodes, constants, vec![value("x", F32, &[2])], outputs))
}

/// Trees and their surroundings, of the domain for classic machine learning.
pub fn trees() -> Model {
    let ml = |node: Node| Node { domain: "ai.onnx.ml".to_owned(), ..node };
    let tree = vec![
        ints("nodes_treeids", &[0, 0, 0]),
        ints("nodes_nodeids", &[0, 1, 2]),
        ints("nodes_featureids", &[0, 0, 0]),
        strings("nodes_modes", &["BRANCH_LEQ", "LEAF", "LEAF"]),
        floats("nodes_values", &[0.5, 0.0, 0.0]),
        ints("nodes_truenodeids", &[1, 0, 0]),
        ints("nodes_falsenodeids", &[2, 0, 0]),
        ints("class_treeids", &[0, 0]),
        ints("class_nodeids", &[1, 2]),
        ints("class_ids", &[0, 1]),
        floats("class_weights", &[1.0, 1.0]),
        ints("classlabels_int64s", &[7, 9]),
    ];
    let encoder = vec![ints("keys_int64s", &[7, 9]), strings("values_strings", &["no", "yes"])];
    let linear = vec![
        floats("coefficients", &[0.1, -0.2, 0.3, 0.4]),
        floats("intercepts", &[0.0, 0.1]),
        int("targets", 2),
    ];
    let nodes = vec![
        ml(node("Scaler", "x", "s", vec![floats("scale", &[2.0]), floats("offset", &[0.1])])),
        ml(node("TreeEnsembleClassifier", "s", "label scores", tree)),
        ml(node("LabelEncoder", "label", "word", encoder)),
        ml(node("LinearRegressor", "s", "l", linear)),
        ml(node("Normalizer", "l", "n", vec![string("norm", "L2")])),
        ml(node("Imputer", "x", "i", vec![floats("imputed_value_floats", &[0.0])])),
    ];
    let outputs = ["word", "scores", "n", "i"].map(untyped).to_vec();
    model(17, graph(nodes, vec![], vec![value("x", F32, &[-1, 2])], outputs))
}

/// Operators that take indices.
pub fn indices() -> Model {
    let nodes = vec![
        node("TopK", "x two", "top places", vec![int("axis", -1)]),
        node("GatherElements", "x places", "ge", vec![int("axis", 1)]),
        node(
            "ScatterElements",
            "x places top",
            "se",
            vec![int("axis", 1), string("reduction", "add")],
        ),
        node("GatherND", "x nd", "gnd", vec![]),
        node("ScatterND", "x nd updates", "snd", vec![]),
        node("ArgMax", "x", "am", vec![int("axis", 0)]),
        node("Unique", "x", "u ui uv uc", vec![int("sorted", 1)]),
        node("Einsum", "x x", "e", vec![string("equation", "ij,kj->ik")]),
        node("Trilu", "e", "t", vec![int("upper", 0)]),
        node("ReverseSequence", "x lengths", "rs", vec![int("batch_axis", 0), int("time_axis", 1)]),
        node("Where", "mask x x", "w", vec![]),
        node("EyeLike", "e", "eye", vec![int("k", 1)]),
        node("Det", "e", "det", vec![]),
    ];
    let constants = vec![
        longs("two", &[2]),
        Tensor { dims: vec![2, 2], ..longs("nd", &[0, 1, 1, 0]) },
        constant("updates", &[2], &[5.0, 6.0]),
        longs("lengths", &[2, 4]),
        small("mask", BOOL, &[4], &[1, 0, 1, 0]),
    ];
    let outputs = ["ge", "se", "gnd", "snd", "am", "u", "uc", "t", "rs", "w", "eye", "det"];
    let outputs = outputs.map(untyped).to_vec();
    model(17, graph(nodes, constants, vec![value("x", F32, &[2, 4])], outputs))
}

pub fn signals() -> Model {
    let nodes = vec![
        node("HannWindow", "size", "window", vec![]),
        node("STFT", "x step window size", "stft", vec![]),
        node("DFT", "x - ", "dft", vec![int("axis", 1)]),
        node("MelWeightMatrix", "bins size rate low high", "mel", vec![]),
        node("RandomUniform", "", "noise", vec![ints("shape", &[2, 3]), float("seed", 1.0)]),
        node("Bernoulli", "noise", "coins", vec![]),
        node("Multinomial", "noise", "drawn", vec![int("sample_size", 4)]),
        node("MeanVarianceNormalization", "x", "mvn", vec![ints("axes", &[0, 1])]),
    ];
    let constants = vec![
        long("size", 8),
        long("step", 4),
        long("bins", 4),
        long("rate", 100),
        constant("low", &[], &[0.0]),
        constant("high", &[], &[50.0]),
    ];
    let outputs = ["stft", "dft", "mel", "coins", "drawn", "mvn"].map(untyped).to_vec();
    model(17, graph(nodes, constants, vec![value("x", F32, &[1, 32, 1])], outputs))
}

/// Constants in a file next to the model's.
pub fn external() -> (Model, Vec<u8>) {
    let entry = |key: &str, value: &str| Entry { key: key.to_owned(), value: value.to_owned() };
    let outside = |name: &str, dims: &[i64], offset: usize| Tensor {
        raw_data: Default::default(),
        data_location: 1,
        external_data: vec![
            entry("location", "weights.bin"),
            entry("offset", &offset.to_string()),
            entry("length", &(dims.iter().product::<i64>() * 4).to_string()),
        ],
        ..weights(name, dims)
    };
    let nodes = vec![node("Gemm", "x w b", "h", vec![]), node("Relu", "h", "y", vec![])];
    let constants = vec![outside("w", &[6, 5], 0), outside("b", &[5], 120)];
    let ends = (vec![value("x", F32, &[-1, 6])], vec![value("y", F32, &[-1, 5])]);
    let data = (0..35).flat_map(|i| (i as f32 / 20.0 - 1.0).to_le_bytes()).collect();
    (model(17, graph(nodes, constants, ends.0, ends.1)), data)
}
