//! Whatever operands and parameters a file gives an operator, it answers with a result or an error.

use polaris_core::random::SplitMix64;
use polaris_onnx::operators::Scope;
use polaris_onnx::{
    Attribute, Attributes, ElementType, Limits, Node, Tensor, Value, ValueId, interpret_node,
};

/// Operators with operands that are computed element by element, generated, quantised, or multiplied.
const OPERATORS: &[(&str, &str)] = &[
    (
        "",
        "Abs Acos Add And BitCast BitShift BitwiseAnd BitwiseNot Cast CastLike Celu Clip Div Dropout",
    ),
    (
        "",
        "Elu Equal Erf Gelu HardSigmoid Identity IsInf IsNaN Less Max Mean Min Mod Mul Neg Not Or",
    ),
    ("", "PRelu Pow Relu Round Selu Shrink Sign Sub Sum Where Xor"),
    ("", "Bernoulli Constant ConstantOfShape EyeLike Multinomial RandomNormal RandomNormalLike"),
    ("", "RandomUniform RandomUniformLike Range DequantizeLinear DynamicQuantizeLinear"),
    ("", "QuantizeLinear Det Einsum Gemm MatMul MatMulInteger QLinearMatMul"),
    ("", "NegativeLogLikelihoodLoss SoftmaxCrossEntropyLoss"),
    ("ai.onnx.preview.training", "Adagrad Adam Momentum"),
];

/// A graph without values.
struct NoGraph;

impl Scope for NoGraph {
    fn value(&self, _id: ValueId) -> Option<Value> {
        None
    }
}

struct Choices(SplitMix64);

impl Choices {
    fn below(&mut self, limit: usize) -> usize {
        (self.0.bits() % limit as u64) as usize
    }

    fn of<T: Clone>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())].clone()
    }
}

fn operands() -> Vec<Option<Value>> {
    let numbers = [0.0, -1.5, f64::NAN, f64::INFINITY, 3.0, 1e30, -0.0, 0.5];
    let shapes: [&[usize]; 10] =
        [&[], &[1], &[0], &[2], &[3], &[2, 2], &[2, 3], &[3, 2], &[2, 0, 3], &[2, 3, 1, 2, 1]];
    let mut list = vec![None, Some(Value::sequence(Vec::new())), Some(Value::Optional(None))];
    for shape in shapes {
        let count: usize = shape.iter().product();
        let values: Vec<f64> = (0..count).map(|index| numbers[index % numbers.len()]).collect();
        for element in ElementType::ALL {
            let tensor = match element {
                ElementType::String => Tensor::strings(shape, vec!["1x".to_owned(); count]),
                _ => Tensor::from_f64(element, shape, &values),
            };
            list.push(Some(Value::Tensor(tensor.expect("the shape should fit"))));
        }
        let extremes: Vec<i64> =
            (0..count).map(|index| [i64::MAX, -1, i64::MIN, 2, 0][index % 5]).collect();
        let tensor = Tensor::new(shape, extremes).expect("the shape should fit");
        list.push(Some(Value::Tensor(tensor)));
    }
    list
}

fn attributes(choices: &mut Choices) -> Attributes {
    let names = "axis block_size to dtype output_dtype precision saturate round_mode shape k seed \
                 sample_size equation direction reduction ignore_index alpha beta norm_coefficient \
                 mode fmod transA transB approximate value_ints min";
    let integers = [0, 1, -1, 2, 7, 8, 17, 24, 999, 1 << 40, i64::MAX, i64::MIN];
    let strings = [
        "ij,jk->ik",
        "ii->i",
        "...i,...j",
        "a->aa",
        "->",
        "...->...",
        "ab,b,c->c",
        "LEFT",
        "RIGHT",
        "none",
        "nearest",
        "sum",
        "nesterov",
        "tanh",
        "",
    ];
    let mut attributes = Attributes::default();
    for name in names.split_whitespace() {
        let integer = choices.of(&integers);
        let attribute = match (choices.below(3), name) {
            (0, _) => continue,
            (1, "shape" | "value_ints") => Attribute::Ints(vec![integer, choices.of(&integers)]),
            (1, "equation" | "direction" | "reduction" | "mode" | "round_mode" | "approximate") => {
                Attribute::String(choices.of(&strings).as_bytes().to_vec())
            }
            (1, "alpha" | "beta" | "norm_coefficient" | "seed" | "min") => {
                Attribute::Float(choices.of(&[0.0, -1.0, 0.5, f32::NAN, f32::INFINITY]))
            }
            (1, _) => Attribute::Int(integer),
            // One attribute of the wrong kind hides the others.
            _ if choices.below(40) == 0 => Attribute::Float(integer as f32),
            _ => continue,
        };
        attributes.set(name, attribute);
    }
    attributes
}

#[test]
fn no_operands_make_an_operator_panic() {
    let _limits = Limits { largest_tensor: Some(1 << 20), ..Limits::default() }.enter();
    let operands = operands();
    let mut choices = Choices(SplitMix64::new(1));
    let mut answered = 0;
    for &(domain, names) in OPERATORS {
        for name in names.split_whitespace() {
            for _ in 0..4000 {
                let count = choices.below(9);
                let mut inputs: Vec<Option<Value>> =
                    (0..count).map(|_| choices.of(&operands)).collect();
                // Operands of one type get further.
                if choices.below(2) == 0 {
                    let one = choices.of(&operands);
                    inputs.iter_mut().for_each(|input| *input = one.clone());
                }
                let node = Node {
                    path: String::new(),
                    domain: domain.to_owned(),
                    operator: name.to_owned(),
                    version: choices.of(&[6, 7, 10, 11, 13, 19, 21, 25]),
                    attributes: attributes(&mut choices),
                    inputs: vec![None; count],
                    outputs: vec![None],
                };
                answered += usize::from(interpret_node(&node, &inputs, &NoGraph).is_ok());
            }
        }
    }
    assert!(answered > 1000, "only {answered} calls had a result");
}
