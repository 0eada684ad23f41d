//! Files that are damaged in every way: read, planned and run without a panic, a hang or a flood of memory.
//!
//! `POLARIS_FUZZ_FILES` says how many (2,000 if it does not), `POLARIS_FUZZ_SEED` which ones. Besides some
//! models made here, those of ONNX' test data are damaged, where they are.

#[path = "../../polaris-core/tests/counting/mod.rs"]
mod counting;
mod models;

use std::sync::Mutex;
use std::time::{Duration, Instant};

use bytes::Bytes;
use polaris_core::CancellationToken;
use polaris_core::random::SplitMix64;
use polaris_graph::{Mode, Options, Session};
use polaris_onnx::{
    Dim, ElementType, Limits, Model, NoExternalData, Tensor, Type, Value, messages,
};
use polaris_runtime::{Runtime, RuntimeOptions};
use prost::Message;

struct Random(SplitMix64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0.bits()
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }
}

/// Damages a file: bits turned, bytes replaced, parts cut out, doubled or taken from another file.
fn mutate(original: &[u8], other: &[u8], random: &mut Random) -> Vec<u8> {
    let mut file = original.to_vec();
    for _ in 0..1 + random.below(4) {
        let at = random.below(file.len());
        match random.below(7) {
            0 if random.below(4) == 0 => file.truncate(at),
            1 if !file.is_empty() => file[at] ^= 1 << random.below(8),
            2 if !file.is_empty() => file[at] = [0, 1, 0x7f, 0x80, 0xff, 0x0a][random.below(6)],
            3 => {
                let end = (at + random.below(16)).min(file.len());
                file.drain(at..end);
            }
            4 => {
                let end = (at + random.below(64)).min(file.len());
                let part = file[at..end].to_vec();
                file.splice(at..at, part);
            }
            5 => {
                let start = random.below(other.len());
                let end = (start + random.below(64)).min(other.len());
                file.splice(at..at, other[start..end].iter().copied());
            }
            // A length or a number becomes huge.
            _ => {
                file.splice(at..at, [0xff, 0xff, 0xff, 0xff, random.below(128) as u8]);
            }
        }
    }
    file
}

/// A number that someone might not have thought of.
fn odd(random: &mut Random) -> i64 {
    const ODD: [i64; 12] =
        [0, 1, -1, 2, 3, -2, 7, 1 << 20, 1 << 33, i64::MAX, i64::MIN, i32::MAX as i64];
    ODD[random.below(ODD.len())]
}

/// Damages a model in its meaning: operators, operands, attributes, constants and types of others.
fn distort(original: &[u8], other: &[u8], random: &mut Random) -> Vec<u8> {
    let (Ok(mut model), Ok(other)) =
        (messages::Model::decode(original), messages::Model::decode(other))
    else {
        return original.to_vec();
    };
    let (Some(graph), Some(other)) = (model.graph.as_mut(), other.graph) else {
        return original.to_vec();
    };
    for _ in 0..1 + random.below(3) {
        let at = random.below(graph.node.len());
        let node = graph.node.get_mut(at);
        let foreign = other.node.get(random.below(other.node.len()));
        match (random.below(9), node, foreign) {
            (0, Some(node), Some(foreign)) => node.op_type.clone_from(&foreign.op_type),
            (1, Some(node), Some(foreign)) => node.attribute.clone_from(&foreign.attribute),
            (2, Some(node), _) if node.input.len() > 1 => node.input.rotate_left(1),
            (3, Some(node), _) => drop(node.input.pop()),
            (4 | 5, Some(node), _) => {
                for attribute in &mut node.attribute {
                    let place = random.below(attribute.ints.len());
                    match attribute.ints.get_mut(place) {
                        Some(number) => *number = odd(random),
                        None => attribute.i = odd(random),
                    }
                }
            }
            (6, ..) => {
                let at = random.below(graph.initializer.len());
                if let Some(tensor) = graph.initializer.get_mut(at) {
                    tensor.int64_data.iter_mut().for_each(|number| *number = odd(random));
                    let raw = tensor.raw_data.to_vec();
                    let turned =
                        raw.iter().map(|byte| byte ^ (random.next() & random.next()) as u8);
                    tensor.raw_data = turned.collect::<Vec<u8>>().into();
                }
            }
            (7, ..) => {
                let at = random.below(graph.input.len());
                let foreign = other.input.get(random.below(other.input.len()));
                if let (Some(input), Some(foreign)) = (graph.input.get_mut(at), foreign) {
                    input.ty.clone_from(&foreign.ty);
                }
            }
            _ => {
                for set in &mut model.opset_import {
                    set.version = 1 + random.below(26) as i64;
                }
            }
        }
    }
    model.encode_to_vec()
}

/// An input of a type that a damaged model declares, if it is small.
fn input(ty: Option<&Type>) -> Option<Value> {
    let Some(Type::Tensor(element, dims)) = ty else { return None };
    let close = |dim: &Dim| dim.known().unwrap_or(2);
    let shape: Vec<usize> = dims.as_deref().unwrap_or_default().iter().map(close).collect();
    let count = shape.iter().try_fold(1usize, |count, &length| count.checked_mul(length))?;
    if count > 1 << 16 || *element == ElementType::String {
        return None;
    }
    let values: Vec<f64> = (0..count).map(|index| (index % 5) as f64).collect();
    Tensor::from_f64(*element, &shape, &values).ok().map(Value::Tensor)
}

/// When the file that is tried now shall be given up: a loop may well be without an end.
static GIVE_UP: Mutex<Option<Instant>> = Mutex::new(None);

fn time_is_up() -> bool {
    GIVE_UP.lock().unwrap().is_some_and(|end| Instant::now() > end)
}

#[test]
fn damaged_files_are_survived() {
    let number = |name: &str, default| {
        std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
    };
    let (files, seed): (u64, u64) =
        (number("POLARIS_FUZZ_FILES", 2000), number("POLARIS_FUZZ_SEED", 1));
    let runtime = Runtime::discover(&RuntimeOptions::default()).unwrap();
    let cancellation = Some(CancellationToken::when(time_is_up));
    let options = Options { mode: Mode::Cpu, cancellation, ..Options::default() };
    let mut originals = models::all();
    if let Some(data) = models::onnx_data() {
        for case in std::fs::read_dir(data.join("node")).unwrap() {
            originals.push(std::fs::read(case.unwrap().path().join("model.onnx")).unwrap());
        }
    }
    // The order of a folder's entries is not fixed, but the files of a seed are.
    originals.sort();
    let (mut read, mut ran, mut slowest) = (0, 0, Duration::ZERO);
    for index in 0..files {
        let seed_of_file = seed.wrapping_mul(0x1_0000_0000).wrapping_add(index);
        let mut random = Random(SplitMix64::new(seed_of_file));
        let original = &originals[random.below(originals.len())];
        let other = &originals[random.below(originals.len())];
        let file = Bytes::from(match index % 2 {
            0 => mutate(original, other, &mut random),
            _ => distort(original, other, &mut random),
        });
        let size = file.len();
        let start = Instant::now();
        *GIVE_UP.lock().unwrap() = Some(start + Duration::from_secs(5));
        let work = || {
            let (model, allocated) =
                counting::measured(|| Model::from_bytes(file, &NoExternalData));
            let (all, largest) = (allocated.peak, allocated.largest);
            // The shortest list of messages takes some kilobytes.
            assert!(
                largest <= 4 * size + (32 << 10),
                "{largest} bytes at once for a file of {size}"
            );
            // A node of thirty bytes becomes structures of some hundred.
            assert!(all <= 24 * size + (64 << 10), "{all} bytes for a file of {size}");
            let Ok(model) = model else { return (false, false) };
            // What is not wrong may still be large: tensors are limited, as a user can limit memory.
            let largest_tensor = Some(16 << 20);
            let _limits = Limits { largest_tensor, ..Limits::default() }.enter();
            let Ok(session) = Session::new(&runtime, model, &options) else { return (true, false) };
            let given: Option<Vec<(&str, Value)>> =
                session.inputs().into_iter().map(|(name, ty)| Some((name, input(ty)?))).collect();
            let ran = given.is_some_and(|given| session.run(&given).is_ok());
            (true, ran)
        };
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        let (was_read, has_run) =
            outcome.unwrap_or_else(|_| panic!("file {index} of seed {seed} panics"));
        read += u64::from(was_read);
        ran += u64::from(has_run);
        let taken = start.elapsed();
        assert!(taken < Duration::from_secs(10), "file {index} of seed {seed} takes {taken:?}");
        slowest = slowest.max(taken);
    }
    eprintln!(
        "{files} files: {read} could be read, {ran} could be run, the slowest took {slowest:?}"
    );
    assert!(ran > 0 && read > ran, "the damage should be neither too small nor too large");
}
