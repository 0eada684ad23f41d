//! What the writer accepts, and that it writes all or nothing.

use std::io::Write;

use polaris_gguf::{Error, TensorType, Writer, quantize};

use crate::files::{message, open, parse};

#[test]
fn tensors_are_padded_and_aligned() {
    for alignment in [1u32, 32, 256] {
        let mut writer = Writer::new();
        writer.set("general.alignment", alignment).unwrap();
        writer.tensor("a", &[3], TensorType::F16, vec![1; 6]).unwrap();
        let source = |out: &mut dyn Write| (0..34).try_for_each(|i| out.write_all(&[i]));
        writer.tensor_from("b", &[1, 32], TensorType::Q8_0, source).unwrap();
        let bytes = writer.into_bytes().unwrap();
        let gguf = parse(&bytes).unwrap();
        let (a, b) = (gguf.tensor("a").unwrap(), gguf.tensor("b").unwrap());
        let alignment = alignment as usize;
        assert_eq!(a.range().start % alignment, 0);
        // llama.cpp wants each tensor where the one before ends, padded, and the padding of the last one.
        assert_eq!(b.range().start, a.range().end.next_multiple_of(alignment));
        assert_eq!(bytes.len() % alignment, 0);
        assert_eq!(bytes.len() - b.range().end, b.range().end.wrapping_neg() % alignment);
        assert!(bytes[a.range().end..b.range().start].iter().all(|&byte| byte == 0));
        assert_eq!((a.data(), b.data()[33]), (&[1; 6][..], 33));
    }
}

#[test]
fn a_source_that_fails_leaves_the_old_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    let mut writer = Writer::new();
    writer.tensor("a", &[1], TensorType::F32, vec![0; 4]).unwrap();
    writer.write(&path).unwrap();
    for (bytes, expected) in [
        (3, "the tensor `b` takes 4 bytes; its source wrote 3"),
        (5, "the source of a tensor writes 5 bytes too many"),
    ] {
        let mut writer = Writer::new();
        let source = move |out: &mut dyn Write| {
            out.write_all(&vec![0; bytes.min(4)])?;
            if bytes > 4 { out.write_all(&[0; 5]) } else { Ok(()) }
        };
        writer.tensor_from("b", &[1], TensorType::F32, source).unwrap();
        let error = message(writer.write(&path));
        assert!(error.contains(expected), "{error}");
        assert!(open(&path).unwrap().find("a").is_some());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }
    assert!(matches!(Writer::new().write(&folder.path().join("none/x")), Err(Error::Write { .. })));
}

#[test]
fn what_cannot_be_read_is_not_written() {
    let mut writer = Writer::new();
    writer.set("a", 1u8).unwrap();
    assert_eq!(message(writer.set("a", 2u8)), "the metadata key `a` was set before");
    assert_eq!(message(writer.set("", 2u8)), "the metadata key `` is empty");
    for error in [
        message(writer.set("general.alignment", 48u32)),
        message(writer.set("general.alignment", 0u32)),
        message(writer.set("general.alignment", 32u64)),
    ] {
        assert!(error.contains("expected is a u32 that is a power of two"), "{error}");
    }
    let mut refused = |name: &str, shape: &[usize], ty, bytes: usize, expected: &str| {
        assert_eq!(
            message(writer.tensor(name, shape, ty, vec![0; bytes])),
            format!("the tensor `{expected}")
        );
    };
    let (f32, q4_0) = (TensorType::F32, TensorType::Q4_0);
    refused("", &[1], f32, 4, "` has a name that is empty");
    let long = "x".repeat(64);
    refused(
        &long,
        &[1],
        f32,
        4,
        &format!("{long}` has a name that has 64 bytes; at most 63 are accepted"),
    );
    refused(
        "x",
        &[1; 5],
        f32,
        4,
        "x` has the shape [1, 1, 1, 1, 1]; at most 4 dimensions are accepted",
    );
    refused("x", &[2, 0], f32, 0, "x` has the shape [2, 0]; every dimension must be at least 1");
    refused(
        "x",
        &[32, 16],
        q4_0,
        9,
        "x` of type Q4_0 has rows of 16 elements; they must be a multiple of 32",
    );
    refused("x", &[2], f32, 7, "x` of type F32 and shape [2] takes 8 bytes; 7 were given");
    writer.tensor("x", &[1], f32, vec![0; 4]).unwrap();
    let again = message(writer.tensor("x", &[1], f32, vec![0; 4]));
    assert_eq!(again, "the tensor `x` was added before");
}

#[test]
fn weights_that_blocks_cannot_hold_are_refused() {
    let mut weights = [0.0; 64];
    weights[40] = f32::NAN;
    assert_eq!(
        message(quantize(TensorType::Q4_1, &weights)),
        "Q4_1: weight 40 is NaN; weights must be finite"
    );
    weights[40] = 1e7;
    assert_eq!(
        message(quantize(TensorType::Q8_0, &weights)),
        "Q8_0: in the block of weights 32 to 63: the scale 78740.16 is beyond half precision, which ends at 65504"
    );
    assert!(quantize(TensorType::MXFP4, &weights).is_ok());
    assert!(
        message(quantize(TensorType::Q4_K, &weights))
            .starts_with("not supported: quantising to Q4_K; ")
    );
    assert_eq!(
        message(quantize(TensorType::Q4_0, &weights[..33])),
        "Q4_0: 33 weights are no multiple of the block's 32"
    );
    assert_eq!(
        message(polaris_gguf::dequantize(TensorType::Q6_K, &[0; 211])),
        "Q6_K: 211 bytes are no multiple of the block's 210"
    );
}
