//! Shapes that are inferred are those that operators make: memory is reserved by them.

use polaris_core::random::SplitMix64;
use polaris_onnx::infer::{Fact, infer_node};
use polaris_onnx::operators::NoScope;
use polaris_onnx::{
    Attribute, Attributes, Dim, ElementType, Node, Tensor, Type, Value, interpret_node,
};

struct Choices(SplitMix64);

impl Choices {
    fn below(&mut self, limit: usize) -> usize {
        (self.0.bits() % limit as u64) as usize
    }

    fn between(&mut self, low: i64, high: i64) -> i64 {
        low + self.below((high - low + 1) as usize) as i64
    }
}

fn floats(shape: &[usize]) -> Value {
    let count: usize = shape.iter().product();
    let values = (0..count).map(|at| (at * 7 % 11) as f32 - 5.0).collect();
    Tensor::new::<f32>(shape, values).unwrap().into()
}

fn node(operator: &str, attributes: Attributes, outputs: usize) -> Node {
    Node {
        path: operator.to_owned(),
        domain: String::new(),
        operator: operator.to_owned(),
        version: 22,
        attributes,
        inputs: Vec::new(),
        outputs: vec![Some(polaris_onnx::ValueId(0)); outputs],
    }
}

/// Runs a node and infers its results, from types and from constants; both must agree.
/// Returns whether there was a result.
fn check(node: &Node, inputs: &[Option<Value>]) -> bool {
    let made = interpret_node(node, inputs, &NoScope);
    let of_type = |value: &Value| Fact::of(value.ty());
    let constant = |value: &Value| {
        value.tensor().map_or_else(|_| of_type(value), |t| Fact::constant(t.clone()))
    };
    let ways: [&dyn Fn(&Value) -> Fact; 2] = [&of_type, &constant];
    for fact in ways {
        let facts: Vec<Option<Fact>> =
            inputs.iter().map(|input| input.as_ref().map(fact)).collect();
        let Ok(made) = &made else { continue };
        let shapes: Vec<String> =
            inputs.iter().flatten().map(|value| value.ty().to_string()).collect();
        let about = format!("{} of {shapes:?} with {:?}", node.operator, node.attributes);
        let inferred = infer_node(node, &facts).unwrap_or_else(|error| panic!("{about}: {error}"));
        for (value, fact) in made.iter().zip(&inferred) {
            let (Value::Tensor(tensor), Some(Type::Tensor(element, shape))) = (value, &fact.ty)
            else {
                continue;
            };
            assert_eq!(tensor.element(), *element, "{about}");
            let Some(shape) = shape else { continue };
            assert_eq!(tensor.shape().len(), shape.len(), "{about}: {fact:?}");
            for (&length, dim) in tensor.shape().iter().zip(shape) {
                let agrees = !matches!(dim, Dim::Known(known) if *known != length);
                assert!(agrees, "{about}: made {:?}, inferred {shape:?}", tensor.shape());
            }
        }
    }
    made.is_ok()
}

/// Kernels, strides, dilations, padding and rounding of every kind.
#[test]
fn windows_stand_where_they_were_expected() {
    let mut choices = Choices(SplitMix64::new(3));
    let mut answered = 0;
    for _ in 0..20_000 {
        let operator = ["MaxPool", "AveragePool", "LpPool", "Conv", "ConvTranspose", "MaxUnpool"]
            [choices.below(6)];
        let axes = 1 + choices.below(2);
        let mut ints = |low, high, count: usize| -> Vec<i64> {
            (0..count).map(|_| choices.between(low, high)).collect()
        };
        let kernel = ints(1, 4, axes);
        let lengths = ints(0, 9, axes + 1);
        let mut attributes = Attributes::default();
        for (name, high, low, count) in
            [("strides", 5, 1, axes), ("dilations", 3, 1, axes), ("pads", 3, 0, 2 * axes)]
        {
            attributes.set(name, Attribute::Ints(ints(low, high, count)));
        }
        let is_transposed = operator == "ConvTranspose";
        if is_transposed && ints(0, 2, 1)[0] == 0 {
            attributes.set("output_padding", Attribute::Ints(ints(0, 2, axes)));
        }
        if is_transposed && ints(0, 2, 1)[0] == 0 {
            attributes.set("output_shape", Attribute::Ints(ints(1, 12, axes)));
        }
        attributes.set("kernel_shape", Attribute::Ints(kernel.clone()));
        let auto = ["NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"][choices.below(4)];
        attributes.set("auto_pad", Attribute::String(auto.as_bytes().to_vec()));
        let has_window = operator.ends_with("Pool");
        if has_window {
            attributes.set("ceil_mode", Attribute::Int(choices.below(2) as i64));
        }
        let mut shape = vec![1 + choices.below(2), 2];
        shape.extend(lengths[..axes].iter().map(|&length| length as usize));
        let mut inputs = vec![Some(floats(&shape))];
        if operator.starts_with("Conv") {
            let mut weight = vec![2, 2];
            weight.extend(kernel.iter().map(|&length| length as usize));
            inputs.push(Some(floats(&weight)));
        }
        if operator == "MaxUnpool" {
            let places = vec![0i64; shape.iter().product()];
            inputs.push(Some(Tensor::new(&shape, places).unwrap().into()));
        }
        let outputs = 1 + usize::from(operator == "MaxPool" && choices.below(2) == 0);
        answered += usize::from(check(&node(operator, attributes, outputs), &inputs));
    }
    assert!(answered > 5000, "only {answered} calls had a result");
}

/// The standard's formula: of windows without padding those that fit are taken, with either rounding.
#[test]
fn windows_without_padding_are_those_that_fit() {
    let mut attributes = Attributes::default();
    attributes.set("kernel_shape", Attribute::Ints(vec![2]));
    attributes.set("strides", Attribute::Ints(vec![3]));
    attributes.set("ceil_mode", Attribute::Int(1));
    attributes.set("auto_pad", Attribute::String(b"VALID".to_vec()));
    let node = node("MaxPool", attributes, 2);
    let x = floats(&[1, 1, 4]);
    let inferred = infer_node(&node, &[Some(Fact::of(x.ty()))]).unwrap();
    let expected = [Dim::Known(1), Dim::Known(1), Dim::Known(1)];
    for (fact, element) in inferred.iter().zip([ElementType::F32, ElementType::I64]) {
        assert_eq!(fact.ty, Some(Type::Tensor(element, Some(expected.to_vec()))));
    }
    assert!(check(&node, &[Some(x)]));
}
