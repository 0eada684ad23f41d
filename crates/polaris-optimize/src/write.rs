//! Writing of a planned file: tensor after tensor, some megabytes at a time, which all threads encode.

use std::cell::{Cell, RefCell};
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use polaris_gguf::{Tensor, TensorType, Writer, dequantize, quantize};
use polaris_ops::encode_by_importance;
use polaris_runtime::cpu::CpuDevice;

use crate::calibrated::{Parts, Prepared};
use crate::{Error, Plan, PlannedTensor, Result};

/// Elements that a thread encodes at a time, a multiple of all blocks.
const TASK: usize = 1 << 16;
/// Elements that are in memory at once.
const BATCH: usize = 64 * TASK;

/// The version of the formats of blocks, `general.quantization_version`.
const QUANTIZATION_VERSION: u32 = 2;
/// What is written anew, or is true of the old file alone.
const REPLACED: [&str; 2] = ["general.file_type", "general.quantization_version"];
const OF_SPLITS: &str = "split.";

/// How far it is.
#[derive(Debug, Clone, Copy)]
pub struct Done {
    /// Tensors that are written.
    pub tensors: usize,
    /// Bytes of the old file that were read.
    pub bytes: usize,
}

/// What became of a tensor.
#[derive(Debug, Clone)]
pub struct WrittenTensor {
    /// Its name.
    pub name: String,
    /// The type that it had.
    pub from: TensorType,
    /// The type that it has.
    pub to: TensorType,
    /// The root of the squared error by that of the squares of the elements; none for a tensor that was copied.
    pub relative_error: Option<f64>,
    /// The same, of squares that count by importance; none for a tensor that was encoded without.
    pub weighted_error: Option<f64>,
}

/// Sums over a tensor: of squared errors and of squares.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Sums {
    error: f64,
    square: f64,
    /// The same by importance.
    weighted_error: f64,
    weighted_square: f64,
}

impl Sums {
    fn add(&mut self, other: Self) {
        self.error += other.error;
        self.square += other.square;
        self.weighted_error += other.weighted_error;
        self.weighted_square += other.weighted_square;
    }

    /// The root of the squared error by that of the squares of the elements.
    pub fn relative(self) -> f64 {
        root(self.error, self.square)
    }
}

/// The root of a ratio; 0 of nothing.
fn root(error: f64, square: f64) -> f64 {
    (error / square.max(f64::MIN_POSITIVE)).sqrt()
}

/// The importance of a tensor's elements.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Weights<'a> {
    /// Of the columns of each matrix.
    columns: &'a [f32],
    /// The elements of a row, and of a matrix.
    row: usize,
    matrix: usize,
}

impl Weights<'_> {
    /// Of so many elements from `first` on.
    fn of(&self, first: usize, count: usize) -> Vec<f32> {
        let mut weights = Vec::with_capacity(count);
        while weights.len() < count {
            let at = first + weights.len();
            let row = &self.columns[at / self.matrix * self.row..][..self.row];
            let rest = &row[at % self.row..];
            weights.extend_from_slice(&rest[..rest.len().min(count - weights.len())]);
        }
        weights
    }
}

impl Plan<'_> {
    /// Writes the file, whole or not at all.
    ///
    /// # Errors
    /// If the file cannot be written, weights are not finite or too large for half precision, or `cancelled` says so.
    pub fn write(
        &self,
        path: &Path,
        cpu: &CpuDevice,
        progress: &mut dyn FnMut(Done),
        cancelled: &dyn Fn() -> bool,
    ) -> Result<Vec<WrittenTensor>> {
        self.write_from(path, cpu, None, progress, cancelled)
    }

    /// The same with the matrices that GPTQ has encoded. Once the file is whole, the work folder is removed.
    ///
    /// # Errors
    /// As [`Plan::write`], and if a file of the work folder is damaged.
    pub fn write_calibrated(
        &self,
        path: &Path,
        cpu: &CpuDevice,
        prepared: Prepared,
        progress: &mut dyn FnMut(Done),
        cancelled: &dyn Fn() -> bool,
    ) -> Result<Vec<WrittenTensor>> {
        let written = self.write_from(path, cpu, Some(&prepared), progress, cancelled)?;
        prepared.work.remove();
        Ok(written)
    }

    fn write_from(
        &self,
        path: &Path,
        cpu: &CpuDevice,
        prepared: Option<&Prepared>,
        progress: &mut dyn FnMut(Done),
        cancelled: &dyn Fn() -> bool,
    ) -> Result<Vec<WrittenTensor>> {
        let run = Run {
            cpu,
            progress: RefCell::new(progress),
            cancelled,
            done: Cell::new(Done { tensors: 0, bytes: 0 }),
            written: RefCell::default(),
            failed: RefCell::default(),
        };
        let mut writer = Writer::new();
        for (key, value) in self.gguf.metadata().iter() {
            if !REPLACED.contains(&key) && !key.starts_with(OF_SPLITS) {
                writer.set(key, value)?;
            }
        }
        writer.set(REPLACED[0], self.recipe.file_type())?;
        writer.set(REPLACED[1], QUANTIZATION_VERSION)?;
        for (number, (tensor, planned)) in self.gguf.tensors().zip(self.tensors()).enumerate() {
            let run = &run;
            let weights = self.importance(number).map(|columns| {
                let row = planned.dims.last().copied().unwrap_or(1);
                let elements: usize = planned.dims.iter().product();
                Weights { columns, row, matrix: elements / (columns.len() / row) }
            });
            let parts = prepared.and_then(|prepared| prepared.parts(number, planned));
            writer.tensor_from(&planned.name, &planned.dims, planned.to, move |out| {
                run.tensor(&tensor, planned, weights, parts.as_ref(), out).map_err(|error| {
                    match error {
                        Failure::Io(error) => error,
                        Failure::Other(error) => {
                            let told = io::Error::other(error.to_string());
                            run.failed.replace(Some(error));
                            told
                        }
                    }
                })
            })?;
        }
        let result = writer.write(path);
        // What a source failed with says more than that the file could not be written.
        match run.failed.take() {
            Some(error) => Err(error),
            None => result.map(|()| run.written.take()).map_err(Error::from),
        }
    }
}

enum Failure {
    Io(io::Error),
    Other(Error),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Other(error)
    }
}

/// What is shared by all tensors of a file that is being written.
struct Run<'a> {
    cpu: &'a CpuDevice,
    progress: RefCell<&'a mut dyn FnMut(Done)>,
    cancelled: &'a dyn Fn() -> bool,
    done: Cell<Done>,
    written: RefCell<Vec<WrittenTensor>>,
    failed: RefCell<Option<Error>>,
}

impl Run<'_> {
    fn tensor(
        &self,
        tensor: &Tensor<'_>,
        planned: &PlannedTensor,
        weights: Option<Weights<'_>>,
        parts: Option<&Parts<'_>>,
        out: &mut dyn Write,
    ) -> Result<(), Failure> {
        let &PlannedTensor { from, to, .. } = planned;
        let mut sums = Sums::default();
        let mut parts = parts.map(|parts| parts.open()).transpose()?;
        let batch = BATCH / from.block_elements() * from.block_bytes();
        for (number, bytes) in tensor.data().chunks(batch).enumerate() {
            if (self.cancelled)() {
                return Err(Error::Cancelled.into());
            }
            if from == to {
                out.write_all(bytes)?;
            } else {
                let how = match parts.as_mut() {
                    Some(parts) => {
                        let blocks = bytes.len() / from.block_bytes() * from.block_elements()
                            / to.block_elements();
                        let mut there = vec![0; blocks * to.block_bytes()];
                        parts.read(&mut there)?;
                        How::There(there)
                    }
                    None => How::Search(weights.as_ref().map(|weights| (weights, number * BATCH))),
                };
                let (encoded, some) = encode(self.cpu, planned, how, bytes)?;
                sums.add(some);
                out.write_all(&encoded)?;
            }
            self.tell(Done { bytes: self.done.get().bytes + bytes.len(), ..self.done.get() });
        }
        let weighted = root(sums.weighted_error, sums.weighted_square);
        self.written.borrow_mut().push(WrittenTensor {
            name: planned.name.clone(),
            from,
            to,
            relative_error: (from != to).then(|| sums.relative()),
            weighted_error: weights.map(|_| weighted),
        });
        self.tell(Done { tensors: self.done.get().tensors + 1, ..self.done.get() });
        Ok(())
    }

    fn tell(&self, done: Done) {
        self.done.set(done);
        (self.progress.borrow_mut())(done);
    }
}

/// Where blocks come from.
pub(crate) enum How<'a> {
    /// Their scales are searched for; with weights, these and the number of the first element.
    Search(Option<(&'a Weights<'a>, usize)>),
    /// They are there already.
    There(Vec<u8>),
}

/// Some whole blocks in another type, and their sums.
pub(crate) fn encode(
    cpu: &CpuDevice,
    planned: &PlannedTensor,
    how: How<'_>,
    bytes: &[u8],
) -> Result<(Vec<u8>, Sums)> {
    let &PlannedTensor { from, to, .. } = planned;
    let size = |ty: TensorType, elements: usize| elements / ty.block_elements() * ty.block_bytes();
    let elements = bytes.len() / from.block_bytes() * from.block_elements();
    let (mut encoded, weights, is_there) = match how {
        How::Search(weights) => (vec![0; size(to, elements)], weights, false),
        How::There(encoded) => (encoded, None, true),
    };
    let parts = encoded.chunks_mut(size(to, TASK)).zip(bytes.chunks(size(from, TASK)));
    let parts: Vec<_> =
        parts.map(|(to, from)| Mutex::new((to, from, Ok(Sums::default())))).collect();
    cpu.pool().run(parts.len(), |number| {
        let mut locked = parts[number].lock().unwrap_or_else(PoisonError::into_inner);
        let (encoded, bytes, result) = &mut *locked;
        let weights = weights.map(|(weights, first)| (weights, first + number * TASK));
        *result = part(cpu, [from, to], weights, bytes, encoded, is_there);
    });
    let mut sums = Sums::default();
    for part in parts {
        let (_, _, result) = part.into_inner().unwrap_or_else(PoisonError::into_inner);
        sums.add(result.map_err(|error| error.of(&planned.name))?);
    }
    Ok((encoded, sums))
}

fn part(
    cpu: &CpuDevice,
    [from, to]: [TensorType; 2],
    weights: Option<(&Weights<'_>, usize)>,
    bytes: &[u8],
    encoded: &mut [u8],
    is_there: bool,
) -> Result<Sums, PartError> {
    let elements = dequantize(from, bytes)?;
    let weights = weights.map(|(weights, first)| weights.of(first, elements.len()));
    match to {
        _ if is_there => {}
        TensorType::Block(block) => {
            encode_by_importance(cpu.simd(), block, &elements, weights.as_deref(), encoded)?;
        }
        _ => encoded.copy_from_slice(&quantize(to, &elements)?),
    }
    let decoded = dequantize(to, encoded)?;
    let mut sums = Sums::default();
    for (elements, decoded) in elements.chunks(256).zip(decoded.chunks(256)) {
        let pairs = elements.iter().zip(decoded);
        sums.error += f64::from(pairs.map(|(a, b)| (a - b) * (a - b)).sum::<f32>());
        sums.square += f64::from(elements.iter().map(|a| a * a).sum::<f32>());
    }
    for ((a, b), by) in elements.iter().zip(&decoded).zip(weights.iter().flatten()) {
        let [a, b, by] = [a, b, by].map(|&x| f64::from(x));
        sums.weighted_error += by * (a - b) * (a - b);
        sums.weighted_square += by * a * a;
    }
    Ok(sums)
}

/// What a part of a tensor failed with.
enum PartError {
    Gguf(polaris_gguf::Error),
    Blocks(polaris_blocks::Error),
}

impl From<polaris_gguf::Error> for PartError {
    fn from(error: polaris_gguf::Error) -> Self {
        Self::Gguf(error)
    }
}

impl From<polaris_blocks::Error> for PartError {
    fn from(error: polaris_blocks::Error) -> Self {
        Self::Blocks(error)
    }
}

impl PartError {
    /// The error of the tensor.
    fn of(self, tensor: &str) -> Error {
        match self {
            Self::Gguf(error) => error.into(),
            Self::Blocks(source) => Error::Encode { tensor: tensor.to_owned(), source },
        }
    }
}
