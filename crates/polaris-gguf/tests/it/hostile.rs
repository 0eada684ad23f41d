//! Files that someone made to break readers: the cases of llama.cpp's and ollama's CVEs, and of llama.cpp's own tests.

use polaris_core::ErrorKind;

use crate::files::{message, parse};

/// A file that is put together from parts that need not fit.
#[derive(Clone)]
struct Raw {
    version: u32,
    tensors: u64,
    pairs: u64,
    body: Vec<u8>,
    data: usize,
}

impl Raw {
    fn new(tensors: u64, pairs: u64) -> Self {
        Self { version: 3, tensors, pairs, body: Vec::new(), data: 64 }
    }

    fn string(mut self, text: &str) -> Self {
        self.body.extend((text.len() as u64).to_le_bytes());
        self.body.extend(text.bytes());
        self
    }

    fn u32(mut self, value: u32) -> Self {
        self.body.extend(value.to_le_bytes());
        self
    }

    fn u64(mut self, value: u64) -> Self {
        self.body.extend(value.to_le_bytes());
        self
    }

    /// A tensor info; dimensions as in the file, innermost first.
    fn tensor(self, name: &str, dims: &[u64], ty: u32, offset: u64) -> Self {
        let raw = self.string(name).u32(dims.len() as u32);
        dims.iter().fold(raw, |raw, &dim| raw.u64(dim)).u32(ty).u64(offset)
    }

    fn file(&self) -> Vec<u8> {
        let mut file = b"GGUF".to_vec();
        file.extend(self.version.to_le_bytes());
        file.extend(self.tensors.to_le_bytes());
        file.extend(self.pairs.to_le_bytes());
        file.extend(&self.body);
        file.resize(file.len().next_multiple_of(32) + self.data, 0);
        file
    }

    #[track_caller]
    fn refused(&self, expected: &str) {
        let error = parse(&self.file()).map(|_| ()).expect_err(expected);
        assert!(error.to_string().contains(expected), "{error}");
        assert!(matches!(error.kind(), ErrorKind::InvalidData | ErrorKind::Unsupported), "{error}");
    }

    #[track_caller]
    fn accepted(&self) {
        assert_eq!(message(parse(&self.file())), "no error");
    }
}

const F32: u32 = 0;
const Q8_0: u32 = 8;
const U32: u32 = 4;
const I32: u32 = 5;
const BOOL: u32 = 7;
const STRING: u32 = 8;
const ARRAY: u32 = 9;

#[test]
fn headers() {
    Raw::new(0, 0).accepted();
    for (version, expected) in [
        (0, "at byte 4: the version is 0; versions 2 and 3 are read"),
        (1, "GGUF version 1; versions 2 and 3 are read: convert the model again"),
        (4, "GGUF version 4; versions 2 and 3 are read"),
        (3 << 24, "a big-endian GGUF file (version 3)"),
    ] {
        Raw { version, ..Raw::new(0, 0) }.refused(expected);
    }
    assert!(
        message(parse(b"ggjt\x03\0\0\0"))
            .contains("it begins with \"ggjt\"; GGUF files begin with \"GGUF\"")
    );
    assert!(
        message(parse(b""))
            .contains("at byte 0: the magic number takes 4 bytes; the file has 0 left")
    );
    assert!(
        message(parse(b"GGUF\x03\0\0\0\x01"))
            .contains("at byte 8: the number of tensors takes 8 bytes")
    );
}

/// CVE-2024-21802, -21825, -21836, -23496, -23605: counts and lengths that are used before they are compared with the
/// bytes left.
#[test]
fn cve_2024_21802_counts_and_lengths_beyond_the_file() {
    for count in [u64::MAX, 1 << 63, 1 << 40, 1000] {
        Raw::new(count, 0).refused(&format!(
            "at byte 8: the number of tensors is {count}; with at least 25 bytes"
        ));
        Raw::new(0, count).refused(&format!("at byte 16: the number of metadata pairs is {count}"));
        Raw::new(0, 1)
            .u64(count)
            .refused(&format!("the key of metadata pair 0 takes {count} bytes"));
        let pair = Raw::new(0, 1).string("k");
        pair.clone()
            .u32(STRING)
            .u64(count)
            .refused(&format!("the value of `k` takes {count} bytes"));
        for item in [0, U32, STRING, 12] {
            let array = pair.clone().u32(ARRAY).u32(item).u64(count);
            array.refused(&format!("the length of the value of `k` is {count}; with at least"));
        }
        Raw::new(1, 0).u64(count).refused(&format!("the name of tensor 0 takes {count} bytes"));
    }
    for rank in [5, u32::MAX] {
        let raw = Raw::new(1, 0).string("x").u32(rank).u64(1).u64(1);
        raw.refused(&format!("the tensor `x` has {rank} dimensions; at most 4 are accepted"));
    }
}

#[test]
fn metadata() {
    let pair = |key: &str| Raw::new(0, 1).string(key);
    pair("k").u32(13).refused("the value of `k` has the value type 13; accepted are 0 to 12");
    pair("k").u32(ARRAY).u32(ARRAY).u64(1).u32(U32).u64(0).refused("is an array of arrays");
    pair("k").u32(ARRAY).u32(99).u64(0).refused("value type 99");
    pair("").u32(U32).u32(1).refused("at byte 24: the key of metadata pair 0 is empty");
    pair("k").u32(BOOL).u32(2).refused("the value of `k` is a bool of 2; accepted are 0 and 1");
    let twice = Raw::new(0, 2).string("k").u32(U32).u32(1).string("k").u32(U32).u32(2);
    twice.refused("at byte 41: the metadata key `k` was there before, at byte 24");
    let mut raw = pair("kk").u32(U32).u32(1);
    raw.body[8] = 0xff;
    raw.refused("at byte 24: the key of metadata pair 0 is not UTF-8 text");
    // An escape sequence in a key does not reach the terminal.
    pair("\u{1b}[31m").u32(13).refused("the value of `\\u{1b}[31m` has");
}

#[test]
fn alignments() {
    let raw = |alignment| Raw::new(1, 1).string("general.alignment").u32(U32).u32(alignment);
    for alignment in [0, 13, 48, u32::MAX] {
        let raw = raw(alignment).tensor("x", &[1], F32, 0);
        raw.refused(&format!(
            "`general.alignment` is {alignment} (u32); expected is a u32 that is a power of two"
        ));
    }
    raw(1).tensor("x", &[1], F32, 0).accepted();
    raw(1 << 31).tensor("x", &[1], F32, 0).refused("which begins at byte 2147483648; the file has");
    let signed = Raw::new(0, 1).string("general.alignment").u32(I32).u32(32);
    signed.refused("`general.alignment` is 32 (i32)");
    let off = Raw::new(1, 0).tensor("x", &[1], F32, 4);
    off.refused("the tensor `x` has the offset 4, no multiple of the alignment 32");
}

/// CVE-2026-33298: elements and bytes of a tensor whose products overflow.
#[test]
fn cve_2026_33298_products_that_overflow() {
    for dims in [
        &[1 << 32, 1 << 32][..],
        &[u64::MAX],
        &[1 << 16; 4],
        &[(1 << 31) * 4, (1 << 31) * 4],
        // Six bytes, if the product wrapped around.
        &[3, 0x5555_5555_5555_5556],
        &[i64::MIN as u64],
    ] {
        let raw = Raw::new(1, 0).tensor("x", dims, F32, 0);
        raw.refused("it has more elements than memory can hold");
    }
    Raw::new(1, 0)
        .tensor("x", &[4, 0], F32, 0)
        .refused("has the shape [0, 4]; every dimension must be at least 1");
    let raw = Raw::new(1, 0).tensor("x", &[33], Q8_0, 0);
    raw.refused(
        "the tensor `x` of type Q8_0 has rows of 33 elements; they must be a multiple of 32",
    );
}

/// Offsets and sizes whose sums overflow.
#[test]
fn cve_2025_53630_and_2026_27940_sums_that_overflow() {
    for offset in [u64::MAX - 31, 1 << 63, 1 << 40, 64] {
        Raw::new(1, 0)
            .tensor("x", &[16], F32, offset)
            .refused(&format!("the tensor `x` has 64 bytes at offset {offset}"));
    }
    let huge = (isize::MAX as u64 / 8) & !63;
    let raw = Raw::new(2, 0).tensor("x", &[huge], F32, 0).tensor("y", &[huge], F32, huge * 4);
    raw.refused("at offset 0 of the data, which begins at byte");
}

/// Tensors that reach beyond the file.
#[test]
fn cve_2026_7482_tensors_beyond_the_file() {
    Raw { data: 63, ..Raw::new(1, 0) }
        .tensor("x", &[16], F32, 0)
        .refused("the file has 127 bytes and may be cut off");
    Raw::new(1, 0).tensor("x", &[16], F32, 0).accepted();
}

/// CVE-2025-49847, CVE-2025-52566: lengths and numbers that are narrowed.
#[test]
fn cve_2025_49847_and_52566_numbers_are_not_narrowed() {
    let narrowed = (1 << 32) + 1;
    Raw::new(0, 1)
        .u64(narrowed)
        .u32(0)
        .refused("the key of metadata pair 0 takes 4294967297 bytes");
    Raw::new(1, 0).tensor("x", &[narrowed], F32, 0).refused("has 17179869188 bytes at offset 0");
    let raw = Raw::new(0, 1).string("id").u32(11).u64(u64::MAX);
    let gguf = parse(&raw.file()).unwrap();
    let error = message(gguf.metadata().get::<u32>("id"));
    assert_eq!(error, "the metadata key `id` is -1 (i64); expected is a u32");
}

#[test]
fn names_types_and_overlaps_of_tensors() {
    let two = |a: &str, b: &str, offset| {
        Raw::new(2, 0).tensor(a, &[8], F32, 0).tensor(b, &[8], F32, offset)
    };
    two("a", "b", 32).accepted();
    two("a", "a", 32).refused("the tensor `a` was there before, at byte 24");
    two("a", "b", 0).refused("the tensors `a` (offset 0, 32 bytes) and `b` (offset 0) overlap");
    Raw::new(2, 0).tensor("b", &[8], F32, 32).tensor("a", &[8], F32, 0).accepted();
    Raw::new(1, 0).tensor("", &[1], F32, 0).refused("the name of tensor 0 is empty");
    let long = "x".repeat(64);
    Raw::new(1, 0)
        .tensor(&long, &[1], F32, 0)
        .refused("the name of tensor 0 has 64 bytes; at most 63");
    Raw::new(1, 0)
        .tensor("x", &[1], 4, 0)
        .refused("the tensor `x` has the type 4; supported are F32, F16, BF16, Q4_0");
    Raw::new(1, 0)
        .tensor("x", &[256], 16, 0)
        .refused("the tensor `x` has the type 16 (IQ2_XXS); supported are");
    Raw::new(1, 0).tensor("x", &[1], u32::MAX, 0).refused("has the type 4294967295; supported");
}

#[test]
fn files_that_are_cut_off_anywhere_are_refused() {
    let whole = Raw::new(1, 2)
        .string("a")
        .u32(STRING)
        .string("text")
        .string("b")
        .u32(ARRAY)
        .u32(STRING)
        .u64(2)
        .string("x")
        .string("")
        .tensor("x", &[16], F32, 0);
    let file = whole.file();
    assert_eq!(message(parse(&file)), "no error");
    for length in 0..file.len() {
        let error = message(parse(&file[..length]));
        assert!(error.starts_with("not a valid GGUF file: at byte "), "{length}: {error}");
    }
}
