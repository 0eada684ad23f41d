//! GPTQ for the matrices of a model, by the activations that a text makes.
//!
//! Hessians take 4 bytes times the square of a matrix's columns. Matrices with the same inputs (queries, keys and values; gate
//! and up) share one, and each expert has its own. As many as memory allows are collected at a time, in the order of the
//! layers; if not all are, the text is computed again for the others. What is encoded is kept in a work folder until the file
//! is whole, and so are the Hessians of a run that is stopped.

mod collect;
mod inputs;
mod work;

use std::path::Path;

use polaris_gguf::{Tensor, TensorType, dequantize};
use polaris_llm::Engine;
use polaris_ops::encode_best;

use crate::block_gptq::{BlockGptq, Costs};
use crate::hessian::{FactorOptions, Hessian};
use crate::parallel::cpu;
use crate::{Error, Plan, PlannedTensor, Result};
use collect::{Text, collect};
use inputs::Unit;
use work::{Part, Work};

/// Matrices with what is collected for them.
type Group = Vec<(Unit, Hessian)>;

/// How activations are collected, and what is made of them.
#[derive(Debug, Clone, Copy)]
pub struct GptqOptions {
    /// Tokens that are computed without what was before them.
    pub window: usize,
    /// The most windows; all without it.
    pub windows: Option<usize>,
    /// The token that each window begins with, if the model wants one.
    pub first: Option<u32>,
    /// The most bytes of all Hessians that are collected at once. Factoring one takes 16 bytes times the square of its
    /// columns beside it.
    pub memory: u64,
    /// Damping, and the order of columns.
    pub factor: FactorOptions,
    /// The most sweeps of descent after GPTQ.
    pub sweeps: usize,
}

impl Default for GptqOptions {
    fn default() -> Self {
        Self {
            window: 512,
            windows: None,
            first: None,
            memory: 2 << 30,
            factor: FactorOptions::default(),
            sweeps: 10,
        }
    }
}

/// How far it is.
#[derive(Debug, Clone, Copy)]
pub enum Stage<'a> {
    /// The text is computed.
    Collecting {
        /// Windows that are done.
        windows: usize,
        /// Windows that there are.
        of: usize,
        /// Matrices with Hessians that are left after this time, which need another.
        left: usize,
    },
    /// Matrices are encoded.
    Encoding {
        /// Matrices that are done, of experts each.
        matrices: usize,
        /// Matrices that there are.
        of: usize,
        /// The tensor at work.
        tensor: &'a str,
    },
}

/// What GPTQ did for a tensor.
#[derive(Debug, Clone, PartialEq)]
pub struct Calibrated {
    /// Its number in the plan.
    pub tensor: usize,
    /// Matrices of it, experts for example, that were rounded to nearest because the text reaches them too seldom.
    pub rounded: usize,
    /// Of how many.
    pub matrices: usize,
    /// The fewest inputs that a matrix had.
    pub fewest: u64,
    /// What its outputs change by, and what rounding would have changed.
    pub costs: Costs,
}

/// Encoded matrices in a work folder, for [`Plan::write_calibrated`].
#[derive(Debug)]
pub struct Prepared {
    pub(crate) work: Work,
    /// The tensors that are there, in the order of the plan.
    pub tensors: Vec<Calibrated>,
    /// Tensors that GPTQ is not for, and why: by their numbers in the plan.
    pub others: Vec<(usize, &'static str)>,
}

impl Prepared {
    /// The matrices of a tensor, if they are there.
    pub(crate) fn parts(&self, number: usize, planned: &PlannedTensor) -> Option<Parts<'_>> {
        let tensor = self.tensors.iter().find(|tensor| tensor.tensor == number)?;
        let bytes = planned.bytes() / tensor.matrices;
        Some(Parts { work: &self.work, tensor: number, bytes })
    }
}

/// The encoded matrices of a tensor.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Parts<'a> {
    work: &'a Work,
    tensor: usize,
    bytes: usize,
}

/// Reads them, one behind the other.
pub(crate) struct PartsReader<'a> {
    parts: Parts<'a>,
    part: Part,
    next: usize,
}

impl<'a> Parts<'a> {
    /// Opens the first.
    pub fn open(&self) -> Result<PartsReader<'a>> {
        let part = self.work.open_part(self.tensor, 0, self.bytes)?;
        Ok(PartsReader { parts: *self, part, next: 1 })
    }
}

impl PartsReader<'_> {
    /// Fills a buffer from as many matrices as it takes.
    pub fn read(&mut self, mut buffer: &mut [u8]) -> Result<()> {
        while !buffer.is_empty() {
            let read = self.part.read(buffer)?;
            buffer = &mut buffer[read..];
            if read == 0 {
                let Parts { work, tensor, bytes, .. } = self.parts;
                self.part = work.open_part(tensor, self.next, bytes)?;
                self.next += 1;
            }
        }
        Ok(())
    }
}

/// A matrix is rounded if its inputs are fewer than its columns by this factor: the others would be fitted to chance.
const FEWEST: u64 = 4;

impl Plan<'_> {
    /// Encodes by GPTQ what the plan makes blocks of and a model multiplies with. The engine runs the model of this file on
    /// the CPU, with activations as they are. The folder keeps what is done: a run with the same file, plan, text and options goes on there.
    ///
    /// # Errors
    /// If the text is shorter than a window, activations are not finite, one Hessian does not fit the memory, the folder is
    /// that of other work or cannot be written, or `cancelled` says so.
    pub fn gptq(
        &self,
        engine: &mut Engine,
        tokens: &[u32],
        options: &GptqOptions,
        folder: &Path,
        progress: &mut dyn FnMut(Stage<'_>),
        cancelled: &dyn Fn() -> bool,
    ) -> Result<Prepared> {
        let text = Text::new(engine, tokens, options)?;
        let mut work = Work::open(folder, work::fingerprint(self, &text, options))?;
        let targets: Vec<Option<&'static str>> =
            self.tensors().iter().map(|tensor| inputs::excluded(tensor)).collect();
        let is_target = |name: &str| {
            let at = self.tensors().iter().position(|tensor| tensor.name == name);
            at.filter(|&at| targets[at].is_none())
        };
        let units = inputs::units(engine, &text, &is_target, cancelled)?;
        let device = engine.model().device().clone();
        let is_open =
            |unit: &&Unit| unit.tensors.iter().any(|&tensor| !work.has(tensor, unit.matrix));
        if let Some(columns) = units.iter().filter(is_open).map(|unit| unit.columns).max() {
            let needed = 4 * (columns as u64).pow(2);
            if needed > options.memory {
                return Err(Error::Memory { columns, needed, limit: options.memory });
            }
        }
        let all: usize = units.iter().map(|unit| unit.tensors.len()).sum();
        let is_done = |work: &Work, unit: &Unit| {
            unit.tensors.iter().all(|&tensor| work.has(tensor, unit.matrix))
        };
        loop {
            let open: Vec<&Unit> = units.iter().filter(|unit| !is_done(&work, unit)).collect();
            let done = all - open.iter().map(|unit| unit.tensors.len()).sum::<usize>();
            if open.is_empty() {
                break;
            }
            let (mut group, start) = match work.collected(&device, &open)? {
                Some(kept) => kept,
                None => (fitting(&device, &open, options.memory)?, 0),
            };
            let left = open.len() - group.len();
            let mut windows = start;
            let mut tell = |done: usize| {
                windows = done;
                progress(Stage::Collecting { windows: done, of: text.windows, left });
            };
            let result = collect(engine, &text, &mut group, start, self, &mut tell, cancelled);
            if let Err(error) = result {
                if matches!(error, Error::Cancelled) {
                    work.keep(&group, windows)?;
                }
                return Err(error);
            }
            let mut matrices = done;
            for at in 0..group.len() {
                let (unit, hessian) = &group[at];
                let mut encoded = |tensor: usize| {
                    let tensor = &self.tensors()[tensor].name;
                    progress(Stage::Encoding { matrices, of: all, tensor });
                    matrices += 1;
                };
                let result = self.unit(unit, hessian, options, &work, &mut encoded, cancelled);
                if let Err(error) = result {
                    if matches!(error, Error::Cancelled) {
                        work.keep(&group[at..], text.windows)?;
                    }
                    return Err(error);
                }
            }
            work.forget_collected();
        }
        let mut others: Vec<(usize, &'static str)> = Vec::new();
        let mut tensors: Vec<Calibrated> = Vec::new();
        for (number, reason) in targets.iter().enumerate() {
            let of: Vec<&Unit> =
                units.iter().filter(|unit| unit.tensors.contains(&number)).collect();
            match (reason, &of[..]) {
                (Some(""), _) => {}
                (Some(reason), _) => others.push((number, reason)),
                (None, []) => others.push((number, "no activations are multiplied with it")),
                (None, units) => tensors.push(work.calibrated(number, units)?),
            }
        }
        Ok(Prepared { work, tensors, others })
    }

    /// Encodes the matrices of a unit that are not there yet.
    fn unit(
        &self,
        unit: &Unit,
        hessian: &Hessian,
        options: &GptqOptions,
        work: &Work,
        progress: &mut dyn FnMut(usize),
        cancelled: &dyn Fn() -> bool,
    ) -> Result<()> {
        let is_enough = hessian.rows().saturating_mul(FEWEST) >= hessian.columns() as u64;
        let mut method = None;
        for &number in &unit.tensors {
            progress(number);
            if work.has(number, unit.matrix) {
                continue;
            }
            let planned = &self.tensors()[number];
            let TensorType::Block(block) = planned.to else { continue };
            let tensor = self.gguf.tensor(&planned.name)?;
            let of = |error: Error| match error {
                Error::Block(source) => Error::Encode { tensor: planned.name.clone(), source },
                error => error,
            };
            let mut part = work.part(number, unit.matrix)?;
            let strip = STRIP / hessian.columns() + 1;
            for elements in rows(&tensor, unit, strip) {
                let elements = elements?;
                if is_enough {
                    if method.is_none() {
                        let sweeps = options.sweeps;
                        method = Some(BlockGptq::new(hessian, &options.factor, sweeps)?);
                    }
                    let Some(method) = &method else { continue };
                    let encoded = method.encode(&elements, block, cancelled).map_err(of)?;
                    part.add(&encoded.bytes, encoded.costs)?;
                } else {
                    let device = hessian.device();
                    let mut bytes = vec![0; elements.len() / block.elements() * block.bytes()];
                    encode_best(cpu(device)?.simd(), block, &elements, &mut bytes)
                        .map_err(|source| of(Error::Block(source)))?;
                    part.add(&bytes, Costs::default())?;
                }
            }
            part.finish(hessian.rows(), is_enough)?;
        }
        Ok(())
    }
}

/// Elements of a matrix that are in memory at once.
const STRIP: usize = 1 << 24;

/// The rows of a matrix of a tensor, some at a time.
fn rows<'a>(
    tensor: &Tensor<'a>,
    unit: &Unit,
    strip: usize,
) -> impl Iterator<Item = Result<Vec<f32>>> + use<'a> {
    let dims = tensor.shape().dims();
    let (columns, rows) = (dims[dims.len() - 1], dims[dims.len() - 2]);
    let ty = tensor.ty();
    let row = columns / ty.block_elements() * ty.block_bytes();
    let data = tensor.data();
    let start = unit.matrix * rows * row;
    let matrix = &data[start..start + rows * row];
    matrix.chunks(strip * row).map(move |bytes| Ok(dequantize(ty, bytes)?))
}

/// As many of the first units as Hessians fit the memory.
fn fitting(device: &polaris_runtime::DeviceRef, units: &[&Unit], memory: u64) -> Result<Group> {
    let mut group = Vec::new();
    let mut used = 0u64;
    for unit in units {
        let needed = 4 * (unit.columns as u64).pow(2);
        used = used.saturating_add(needed);
        if used > memory {
            break;
        }
        group.push(((*unit).clone(), Hessian::new(device, unit.columns)?));
    }
    Ok(group)
}
