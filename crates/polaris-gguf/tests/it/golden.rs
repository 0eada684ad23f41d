//! Files of the Python package `gguf`, and its dequantisation and quantisation, bit by bit.

use polaris_gguf::{Gguf, PerLayer, TensorType, Value, dequantize, quantize};

use crate::files::{copy, golden, message, open};

/// NaNs count as equal: which one a product gives is not defined.
fn same(a: f32, b: f32) -> bool {
    a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan())
}

/// The weights beside a tensor of blocks, read as they are.
fn weights(gguf: &Gguf, ty: TensorType) -> Vec<f32> {
    let tensor = gguf.tensor(&format!("{ty}.f32")).unwrap();
    assert_eq!(tensor.ty(), TensorType::F32);
    tensor.data().as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect()
}

#[test]
fn golden_blocks_are_dequantised_bit_by_bit() {
    let gguf = open(&golden().join("decode.gguf")).unwrap();
    for ty in TensorType::ALL {
        let tensor = gguf.tensor(ty.name()).unwrap();
        assert_eq!(tensor.ty(), ty);
        let expected = weights(&gguf, ty);
        assert_eq!(expected.len(), tensor.shape().elements());
        let found = dequantize(ty, tensor.data()).unwrap();
        let differs = found.iter().zip(&expected).position(|(&a, &b)| !same(a, b));
        if let Some(at) = differs {
            panic!("{ty}: weight {at} is {:e} and not {:e}", found[at], expected[at]);
        }
        let blocks = found.len() / ty.block_elements();
        let finite = found.iter().filter(|weight| weight.is_finite()).count();
        assert!(finite >= ty.block_elements(), "{ty}: {finite} weights say little");
        println!("{ty}: {blocks} blocks, {} weights, {finite} of them finite", found.len());
    }
}

#[test]
fn golden_weights_are_quantised_bit_by_bit() {
    let gguf = open(&golden().join("encode.gguf")).unwrap();
    let mut types = 0;
    for ty in TensorType::ALL {
        let Some(tensor) = gguf.find(ty.name()) else { continue };
        let weights = weights(&gguf, ty);
        let found = quantize(ty, &weights).unwrap();
        let blocks =
            found.chunks_exact(ty.block_bytes()).zip(tensor.data().chunks_exact(ty.block_bytes()));
        for (number, (found, expected)) in blocks.enumerate() {
            let is_nan = ty == TensorType::F16 && weights[number].is_nan();
            let first = number * ty.block_elements();
            let block = &weights[first..first + ty.block_elements()];
            assert!(
                is_nan || found == expected,
                "{ty}, block {number}: {found:?} {expected:?} {block:?}"
            );
        }
        assert_eq!(found.len(), tensor.data().len());
        println!("{ty}: {} blocks", found.len() / ty.block_bytes());
        types += 1;
    }
    assert_eq!(types, 8);
}

#[test]
fn golden_metadata_of_every_type_is_read() {
    let gguf = open(&golden().join("metadata.gguf")).unwrap();
    let metadata = gguf.metadata();
    assert_eq!(metadata.len(), 2 + 2 + 22 + 1);
    assert_eq!(metadata.iter().next().unwrap(), ("general.architecture", Value::String(b"test")));
    assert_eq!(metadata.get("test.string").unwrap(), Some("Größe 中 \0 \n"));
    assert_eq!(metadata.get("test.empty").unwrap(), Some(""));
    assert_eq!(metadata.get::<u32>("test.none").unwrap(), None);
    for (key, value) in [
        ("test.uint8", Value::U8(200)),
        ("test.int8", Value::I8(7)),
        ("test.uint16", Value::U16(60000)),
        ("test.int16", Value::I16(7)),
        ("test.uint32", Value::U32(4_000_000_000)),
        ("test.int32", Value::I32(7)),
        ("test.float32", Value::F32(-0.25)),
        ("test.bool", Value::Bool(false)),
        ("test.uint64", Value::U64(1 << 63)),
        ("test.int64", Value::I64(7)),
        ("test.float64", Value::F64(-0.1)),
    ] {
        assert_eq!(metadata.value(key), Some(value));
    }
    assert_eq!(metadata.list("test.int64s").unwrap(), Some(vec![i64::MIN, 7]));
    assert_eq!(metadata.list("test.uint8s").unwrap(), Some(vec![0u32, 200]));
    assert_eq!(metadata.list("test.float32s").unwrap(), Some(vec![1.5f32, -0.25]));
    assert_eq!(metadata.list("test.bools").unwrap(), Some(vec![true, false]));
    let strings: Vec<&str> = metadata.list("test.strings").unwrap().unwrap();
    assert_eq!(strings, ["<s>", "", "▁a", &"x".repeat(100)]);
    assert_eq!(
        metadata.per_layer("test.uint32", 99).unwrap(),
        Some(PerLayer::One(4_000_000_000u32))
    );
    let each: PerLayer<u32> = metadata.per_layer("test.uint16s", 2).unwrap().unwrap();
    assert_eq!((each.of(0), each.of(1)), (0, 60000));
}

#[test]
fn wrong_kinds_of_metadata_are_named() {
    let gguf = open(&golden().join("metadata.gguf")).unwrap();
    let metadata = gguf.metadata();
    let text = |error: String, expected: &str| {
        assert_eq!(error, format!("the metadata key `test.{expected}"))
    };
    text(message(metadata.require::<u32>("test.none")), "none` is missing; expected is a u32");
    text(
        message(metadata.get::<u32>("test.string")),
        "string` is \"Größe 中 \\u{0} \\n\"; expected is a u32",
    );
    text(
        message(metadata.get::<u32>("test.uint64")),
        "uint64` is 9223372036854775808 (u64); expected is a u32",
    );
    text(
        message(metadata.get::<&str>("test.float32")),
        "float32` is -0.25 (f32); expected is a string of UTF-8 text",
    );
    text(
        message(metadata.get::<f32>("test.strings")),
        "strings` is an array of 4 strings; expected is an f32",
    );
    text(
        message(metadata.list::<u32>("test.int8s")),
        "int8s` has -100 (i8) as element 0; expected is a u32",
    );
    text(
        message(metadata.list::<bool>("test.bool")),
        "bool` is false; expected is an array, each element a bool",
    );
    text(
        message(metadata.per_layer::<u32>("test.uint8s", 3)),
        "uint8s` has 2 values; the model has 3 layers",
    );
}

#[test]
fn golden_tensors_have_their_shapes() {
    let gguf = open(&golden().join("metadata.gguf")).unwrap();
    let names: Vec<&str> = gguf.tensors().map(|tensor| tensor.name()).collect();
    assert_eq!(names, ["scalar", "vector", "matrix", "cube", "four"]);
    let dims = |name| gguf.tensor(name).unwrap().shape().dims().to_vec();
    assert_eq!((dims("scalar"), dims("vector"), dims("matrix")), (vec![], vec![5], vec![2, 3]));
    assert_eq!((dims("cube"), dims("four")), (vec![2, 3, 4], vec![2, 1, 3, 4]));
    let cube = gguf.tensor("cube").unwrap();
    assert_eq!(cube.range().start % 64, 0);
    assert_eq!(cube.bytes(), cube.data());
    let counted: Vec<f32> = (0..24).map(|i| i as f32).collect();
    assert_eq!(cube.to_f32().unwrap(), counted);
    assert_eq!(
        message(gguf.tensor("cubes")),
        "the file has no tensor `cubes`; `Gguf::tensors` lists the 5 that it has"
    );
}

#[test]
fn a_copy_of_a_golden_file_is_the_same_file() {
    for name in ["decode.gguf", "encode.gguf", "metadata.gguf"] {
        let path = golden().join(name);
        let copied = copy(&open(&path).unwrap()).into_bytes().unwrap();
        assert!(copied == polaris_files::read(&path, 1 << 32).unwrap(), "{name}");
    }
}

#[test]
fn version_2_is_read_and_big_endian_files_are_named() {
    let mut bytes = polaris_files::read(&golden().join("metadata.gguf"), 1 << 20).unwrap();
    assert_eq!(bytes[4], 3);
    bytes[4] = 2;
    assert_eq!(crate::files::parse(&bytes).unwrap().tensor_count(), 5);
    let error = message(open(&golden().join("big-endian.gguf")));
    assert!(
        error.contains("a big-endian GGUF file (version 3); little-endian ones are read"),
        "{error}"
    );
}
