//! Models that were split into several files.

use std::path::Path;

use polaris_gguf::Writer;

use crate::files::{golden, message, open};

fn part(folder: &Path, number: usize, count: usize) -> std::path::PathBuf {
    folder.join(format!("m-{number:05}-of-{count:05}.gguf"))
}

/// Writes a part with one tensor, whatever it says of itself.
fn write(path: &Path, tensor: &str, [no, count, tensors]: [u16; 3]) {
    let mut writer = Writer::new();
    writer.set("split.no", no).unwrap().set("split.count", count).unwrap();
    writer.set("split.tensors.count", i32::from(tensors)).unwrap();
    writer.tensor(tensor, &[1], polaris_gguf::TensorType::F16, &[0, 0x3c][..]).unwrap();
    writer.write(path).unwrap();
}

#[test]
fn golden_parts_are_one_model_whichever_is_opened() {
    for number in 1..=3 {
        let gguf = open(&golden().join(format!("split-{number:05}-of-00003.gguf"))).unwrap();
        assert_eq!((gguf.parts(), gguf.tensor_count()), (3, 5));
        assert_eq!(gguf.metadata().get("test.block_count").unwrap(), Some(5u32));
        let names: Vec<String> = gguf.tensors().map(|tensor| tensor.name().to_owned()).collect();
        assert_eq!(names, (0..5).map(|i| format!("blk.{i}.weight")).collect::<Vec<_>>());
        for (i, tensor) in gguf.tensors().enumerate() {
            assert_eq!(tensor.part(), i / 2);
            assert_eq!(tensor.to_f32().unwrap(), [i as f32; 8]);
            assert_eq!(gguf.tensor(tensor.name()).unwrap().data(), tensor.data());
        }
    }
}

#[test]
fn a_part_alone_is_refused() {
    let bytes = polaris_files::read(&golden().join("split-00001-of-00003.gguf"), 1 << 20).unwrap();
    let error = message(crate::files::parse(&bytes));
    assert!(error.contains("`split.count` is 3; open the model by its path"), "{error}");
}

#[test]
fn parts_that_are_missing_or_wrong_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (part(folder.path(), 1, 2), part(folder.path(), 2, 2));
    write(&first, "a", [0, 2, 2]);
    let refused = |expected: &str| {
        let error = message(open(&first));
        assert!(error.contains(expected), "{error}");
    };
    refused("cannot open ");
    refused("m-00002-of-00002.gguf");
    for (tensor, keys, expected) in [
        ("b", [0, 2, 2], "`split.no` is 0; expected is 1, by the first part and the name"),
        ("b", [1, 3, 2], "`split.count` is 3; expected is 2"),
        ("b", [1, 2, 7], "`split.tensors.count` is 7; expected is 2"),
        ("a", [1, 2, 2], "the tensor `a` is in part 1 too"),
    ] {
        write(&second, tensor, keys);
        refused(expected);
        refused("m-00002-of-00002.gguf");
    }
    write(&second, "b", [1, 2, 2]);
    assert_eq!(open(&second).unwrap().tensor_count(), 2);
    write(&first, "a", [0, 2, 3]);
    write(&second, "b", [1, 2, 3]);
    refused("`split.tensors.count` is 3; the 2 parts have 2 tensors together");
    std::fs::write(&second, "no model").unwrap();
    refused("m-00002-of-00002.gguf: not a valid GGUF file: at byte 0: it begins with \"no m\"");
}

#[test]
fn names_must_say_what_parts_say() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["m.gguf", "m-00002-of-00002.gguf", "m-00001-of-00003.gguf"] {
        let path = folder.path().join(name);
        write(&path, "a", [0, 2, 2]);
        let error = message(open(&path));
        assert!(
            error.contains("makes it part 1 of 2; its name must end in -00001-of-00002.gguf"),
            "{error}"
        );
    }
    // What is merged again says 0, and what has one part may have any name.
    for count in [0, 1] {
        let path = folder.path().join("merged.gguf");
        write(&path, "a", [0, count, 1]);
        assert_eq!(open(&path).unwrap().parts(), 1);
    }
}
