//! Damaged files: read without a panic, a hang, or more memory than the file has bytes. A binary of its own, since it
//! counts what the process allocates.

#[path = "../../polaris-core/tests/counting/mod.rs"]
mod counting;

use std::path::Path;

use bytes::Bytes;
use counting::measured;
use polaris_core::random::SplitMix64;
use polaris_gguf::Gguf;

fn below(random: &mut SplitMix64, end: usize) -> usize {
    (random.bits() % end.max(1) as u64) as usize
}

/// Bits flipped, bytes and whole numbers replaced, parts cut out or doubled.
fn damage(file: &mut Vec<u8>, random: &mut SplitMix64) {
    const ODD: [u64; 10] =
        [0, 1, 31, 255, 1 << 31, u32::MAX as u64, 1 << 32, i64::MAX as u64, 1 << 63, u64::MAX];
    for _ in 0..1 + below(random, 3) {
        let at = below(random, file.len());
        let end = (at + below(random, 40)).min(file.len());
        match below(random, 6) {
            _ if file.is_empty() => {}
            0 => file[at] ^= 1 << below(random, 8),
            1 => file[at] = random.bits() as u8,
            2 => {
                let number = ODD[below(random, ODD.len())].to_le_bytes();
                let end = (at + 8).min(file.len());
                file[at..end].copy_from_slice(&number[..end - at]);
            }
            3 => drop(file.drain(at..end)),
            4 => {
                let part = file[at..end].to_vec();
                file.splice(at..at, part);
            }
            _ => file.truncate(at),
        }
    }
}

/// Everything that a reader can be asked for.
fn read_all(bytes: Bytes) -> bool {
    let Ok(gguf) = Gguf::from_bytes(bytes) else { return false };
    for (key, value) in gguf.metadata().iter() {
        assert!(gguf.metadata().value(key).is_some());
        let _ =
            (value.to_string(), gguf.metadata().get::<u32>(key), gguf.metadata().list::<&str>(key));
        let _ = gguf.metadata().per_layer::<f32>(key, 2);
    }
    for tensor in gguf.tensors() {
        assert_eq!(gguf.tensor(tensor.name()).unwrap().range(), tensor.range());
        tensor.to_f32().unwrap();
    }
    true
}

/// What a file of this size may make the reader allocate.
fn allowed(file: usize) -> usize {
    file + (1 << 20)
}

/// A seed for each of 20,000 files, so that one that fails can be made again.
fn damaged_files_are_read_or_refused() {
    let original =
        std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/metadata.gguf"))
            .unwrap();
    let mut read = 0;
    for seed in 0..20_000 {
        let mut file = original.clone();
        damage(&mut file, &mut SplitMix64::new(seed));
        let size = file.len();
        let bytes = Bytes::from(file);
        let (parsed, allocated) = measured(|| Gguf::from_bytes(bytes.clone()).map(drop));
        let peak = allocated.peak;
        assert!(peak <= allowed(size), "seed {seed}: {peak} bytes for a file of {size}");
        assert_eq!(read_all(bytes), parsed.is_ok(), "seed {seed}");
        read += usize::from(parsed.is_ok());
    }
    assert!((200..19_000).contains(&read), "{read} of 20000 damaged files were read");
}

/// A file that is nothing but the smallest pairs, or tensor infos, or strings: what costs most for each byte.
fn floods_stay_within_the_size_of_the_file() {
    const COUNT: u64 = 100_000;
    let header = |tensors: u64, pairs: u64| {
        let mut file = b"GGUF\x03\0\0\0".to_vec();
        file.extend(tensors.to_le_bytes());
        file.extend(pairs.to_le_bytes());
        file
    };
    let name = |file: &mut Vec<u8>, number: u64| {
        file.extend(3u64.to_le_bytes());
        file.extend([
            b'0' + (number % 64) as u8,
            b'0' + (number / 64 % 64) as u8,
            b'0' + (number / 4096) as u8,
        ]);
    };
    let mut pairs = header(0, COUNT);
    let mut tensors = header(COUNT, 0);
    for number in 0..COUNT {
        name(&mut pairs, number);
        pairs.extend([0, 0, 0, 0, 7]);
        name(&mut tensors, number);
        tensors.extend([0; 8]);
        tensors.extend((32 * number).to_le_bytes());
    }
    tensors.resize(tensors.len().next_multiple_of(32) + 32 * COUNT as usize, 0);
    let mut strings = header(0, 1);
    strings.extend([1, 0, 0, 0, 0, 0, 0, 0, b'k', 9, 0, 0, 0, 8, 0, 0, 0]);
    strings.extend(COUNT.to_le_bytes());
    strings.resize(strings.len() + 8 * COUNT as usize, 0);
    for (what, file) in [("pairs", pairs), ("tensors", tensors), ("strings", strings)] {
        let size = file.len();
        let (parsed, allocated) = measured(|| Gguf::from_bytes(file.into()));
        let peak = allocated.peak;
        println!("{COUNT} {what}: {size} bytes, {peak} allocated");
        assert!(parsed.is_ok(), "{what}: {:?}", parsed.map(drop));
        assert!(peak <= allowed(size) && peak <= size, "{what}: {peak} bytes for a file of {size}");
    }
}

/// One after the other: what both allocate would be added up.
#[test]
fn hostile_files_cost_no_memory() {
    damaged_files_are_read_or_refused();
    floods_stay_within_the_size_of_the_file();
}
