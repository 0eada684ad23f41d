//! Where the system has less memory than a file asks for, operators answer with an error and the process
//! lives on.

#![cfg(target_os = "linux")]

use std::process::Command;

use polaris_onnx::operators::NoScope;
use polaris_onnx::{Attribute, Attributes, Error, Node, Tensor, Value, interpret_node};

/// Says that the test runs in a process with little memory.
const INSIDE: &str = "POLARIS_TEST_LITTLE_MEMORY";
/// Kilobytes of address space of that process.
const SPACE: usize = 1 << 20;
/// Elements of results, which take gigabytes in any type: more than there is, less than is allowed.
const MANY: i64 = 700_000_000;

fn list(values: &[i64]) -> Value {
    Tensor::new(&[values.len()], values.to_vec()).unwrap().into()
}

fn single<T: polaris_onnx::Plain>(value: T) -> Value {
    Tensor::scalar(value).into()
}

fn floats(shape: &[usize]) -> Value {
    Tensor::new(shape, vec![1f32; shape.iter().product()]).unwrap().into()
}

type Case = (&'static str, Vec<Value>, Vec<(&'static str, Attribute)>);

fn cases() -> Vec<Case> {
    let ints = |values: &[i64]| Attribute::Ints(values.to_vec());
    let pool = || vec![("kernel_shape", ints(&[2])), ("pads", ints(&[MANY, 0]))];
    let image = || floats(&[1, 1, 4]);
    vec![
        ("LpPool", vec![image()], pool()),
        ("MaxPool", vec![image()], pool()),
        ("AveragePool", vec![image()], pool()),
        ("Conv", vec![image(), floats(&[1, 1, 2])], vec![("pads", ints(&[MANY, 0]))]),
        (
            "ConvTranspose",
            vec![image(), floats(&[1, 1, 2])],
            vec![("output_padding", ints(&[MANY]))],
        ),
        (
            "MaxUnpool",
            vec![image(), list(&[0; 4])],
            vec![("kernel_shape", ints(&[2])), ("strides", ints(&[MANY / 3]))],
        ),
        ("Range", vec![single(0i64), single(MANY / 2), single(1i64)], vec![]),
        ("Range", vec![single(0f64), single(MANY as f64), single(1f64)], vec![]),
        ("ConstantOfShape", vec![list(&[MANY])], vec![]),
        ("Expand", vec![floats(&[1]), list(&[MANY])], vec![]),
        ("Tile", vec![floats(&[1]), list(&[MANY])], vec![]),
        ("Pad", vec![floats(&[1]), list(&[MANY, 0])], vec![]),
        ("CenterCropPad", vec![floats(&[1]), list(&[MANY])], vec![]),
        ("OneHot", vec![list(&[0]), single(MANY), floats(&[2])], vec![]),
        ("RandomNormal", vec![], vec![("shape", ints(&[MANY]))]),
        ("RandomUniform", vec![], vec![("shape", ints(&[MANY]))]),
        ("Multinomial", vec![floats(&[1, 2])], vec![("sample_size", Attribute::Int(MANY))]),
        ("HannWindow", vec![single(MANY)], vec![]),
        (
            "MelWeightMatrix",
            vec![single(MANY / 2), single(4i64), single(8000i64), single(10f32), single(20f32)],
            vec![],
        ),
        ("DFT", vec![floats(&[1, 4, 1]), single(MANY / 12)], vec![]),
        ("AffineGrid", vec![floats(&[1, 2, 3]), list(&[1, 1, MANY / 2, 1])], vec![]),
        (
            "RoiAlign",
            vec![floats(&[1, 1, 2, 2]), floats(&[1, 4]), list(&[0])],
            vec![("output_height", Attribute::Int(MANY))],
        ),
        (
            "MaxRoiPool",
            vec![floats(&[1, 1, 2, 2]), floats(&[1, 5])],
            vec![("pooled_shape", ints(&[MANY, 1]))],
        ),
        ("Resize", vec![image(), floats(&[0]), floats(&[0]), list(&[1, 1, MANY])], vec![]),
        (
            "Col2Im",
            vec![floats(&[1, 1, 1]), list(&[MANY]), list(&[1])],
            vec![("strides", ints(&[MANY]))],
        ),
    ]
}

#[test]
fn operators_that_want_too_much_fail_alone() {
    if std::env::var_os(INSIDE).is_none() {
        let own = std::env::current_exe().unwrap();
        let name = "little_memory::operators_that_want_too_much_fail_alone";
        let command = format!("ulimit -v {SPACE}; exec \"$0\" --exact {name} --nocapture");
        let output =
            Command::new("sh").arg("-c").arg(command).arg(own).env(INSIDE, "1").output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{}\n{text}", output.status);
        // A name that fits no test would succeed too.
        let told = String::from_utf8_lossy(&output.stdout);
        assert!(told.contains("1 passed"), "{told}");
        return;
    }
    let mut problems = Vec::new();
    for (operator, inputs, attributes) in cases() {
        let mut node = Node {
            path: operator.to_owned(),
            domain: String::new(),
            operator: operator.to_owned(),
            version: 21,
            attributes: Attributes::default(),
            inputs: Vec::new(),
            outputs: vec![None],
        };
        attributes.into_iter().for_each(|(name, value)| node.attributes.set(name, value));
        let inputs: Vec<Option<Value>> = inputs.into_iter().map(Some).collect();
        eprintln!("{operator}");
        match interpret_node(&node, &inputs, &NoScope) {
            Err(Error::Node { reason, .. })
                if matches!(*reason, Error::OutOfMemory { .. } | Error::TooLarge { .. }) => {}
            Err(error) => problems.push(error.to_string()),
            Ok(_) => problems.push(format!("{operator} had room")),
        }
    }
    assert!(problems.is_empty(), "{problems:#?}");
}
