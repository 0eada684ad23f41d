//! The work folder: what is encoded, and Hessians of a run that was stopped.
//!
//! `work` says what the work is, `T-M.part` has matrix M of tensor T in blocks, `collected` and `T-M.hessian` are there after
//! an interruption. Each file appears whole or not at all.

use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use polaris_core::random::mix;
use polaris_files::{AtomicFile, FileLock};
use polaris_runtime::DeviceRef;

use super::collect::Text;
use super::inputs::Unit;
use super::{Calibrated, GptqOptions, Group};
use crate::block_gptq::Costs;
use crate::hessian::Hessian;
use crate::{Error, Plan, Result};

const MANIFEST: &str = "work";
const LOCK: &str = "lock";
const COLLECTED: &str = "collected";
/// The most bytes of a manifest or a list.
const LARGEST: u64 = 16 << 20;
/// Behind the blocks of a part: inputs, whether it is GPTQ's, three costs, a check.
const TRAILER: usize = 48;
/// Bytes of weights that count as one in what says which file it is.
const SAMPLE: usize = 1 << 20;

/// What the work is: the file, the plan, the text and the options, as one number.
pub(crate) fn fingerprint(plan: &Plan<'_>, text: &Text<'_>, options: &GptqOptions) -> u64 {
    let mut hash = 1;
    let mut add = |value: u64| hash = mix(hash ^ value);
    for (tensor, planned) in plan.gguf.tensors().zip(plan.tensors()) {
        planned.name.bytes().for_each(|byte| add(byte.into()));
        planned.dims.iter().for_each(|&dim| add(dim as u64));
        planned.to.name().bytes().for_each(|byte| add(byte.into()));
        // A part of the weights tells one model from another.
        for sample in tensor.data().chunks(SAMPLE) {
            for word in sample.chunks_exact(8).take(64) {
                add(u64::from_le_bytes(*word.first_chunk().expect("a word should have 8 bytes")));
            }
        }
    }
    text.tokens[..text.windows * text.window].iter().for_each(|&token| add(token.into()));
    add(text.first.map_or(u64::MAX, u64::from));
    add(text.window as u64);
    add(options.factor.damping.to_bits());
    add(options.factor.order as u64);
    add(options.sweeps as u64);
    hash
}

/// A work folder that this process alone uses.
#[derive(Debug)]
pub(crate) struct Work {
    folder: PathBuf,
    _lock: FileLock,
}

impl Work {
    /// Begins work in a folder, or goes on with it.
    pub fn open(folder: &Path, fingerprint: u64) -> Result<Self> {
        let failed = |source| Error::Io { path: folder.to_owned(), source };
        let refused = |what| Error::Work { folder: folder.to_owned(), what };
        fs::create_dir_all(folder).map_err(failed)?;
        let manifest = folder.join(MANIFEST);
        // A run that was stopped at once leaves its lock alone.
        let mut names =
            fs::read_dir(folder).map_err(failed)?.flatten().map(|file| file.file_name());
        if !manifest.exists() && names.any(|name| name != LOCK) {
            return Err(refused("the folder has other files; name one that is empty or missing"));
        }
        let lock = FileLock::try_now(&folder.join(LOCK)).map_err(failed)?;
        let lock = lock.ok_or_else(|| refused("another process works there; wait for it"))?;
        let is = format!("polaris gptq 1\n{fingerprint:016x}\n");
        if manifest.exists() {
            if polaris_files::read(&manifest, LARGEST).map_err(failed)? != is.as_bytes() {
                return Err(refused(
                    "it has work on another model, text or type, or with other options; remove it, or name another folder",
                ));
            }
        } else {
            polaris_files::write_atomic(&manifest, is.as_bytes()).map_err(failed)?;
        }
        Ok(Self { folder: folder.to_owned(), _lock: lock })
    }

    fn path(&self, tensor: usize, matrix: usize, ending: &str) -> PathBuf {
        self.folder.join(format!("{tensor}-{matrix}.{ending}"))
    }

    /// Whether a matrix is encoded.
    pub fn has(&self, tensor: usize, matrix: usize) -> bool {
        self.path(tensor, matrix, "part").is_file()
    }

    /// Begins a matrix.
    pub fn part(&self, tensor: usize, matrix: usize) -> Result<PartWriter> {
        let path = self.path(tensor, matrix, "part");
        let file =
            AtomicFile::create(&path).map_err(|source| Error::Io { path: path.clone(), source })?;
        Ok(PartWriter { file, path, check: 0, costs: Costs::default() })
    }

    /// Opens a matrix of so many bytes.
    pub fn open_part(&self, tensor: usize, matrix: usize, bytes: usize) -> Result<Part> {
        Part::open(self.path(tensor, matrix, "part"), bytes)
    }

    /// What was done for a tensor.
    pub fn calibrated(&self, tensor: usize, units: &[&Unit]) -> Result<Calibrated> {
        let mut all = Calibrated {
            tensor,
            rounded: 0,
            matrices: units.len(),
            fewest: u64::MAX,
            costs: Costs::default(),
        };
        for unit in units {
            let path = self.path(tensor, unit.matrix, "part");
            let length = fs::metadata(&path).map(|metadata| metadata.len());
            let length = length.map_err(|source| Error::Io { path: path.clone(), source })?;
            let part = Part::open(path, (length as usize).saturating_sub(TRAILER))?;
            all.rounded += usize::from(!part.is_gptq);
            all.fewest = all.fewest.min(part.rows);
            all.costs.error += part.costs.error;
            all.costs.nearest += part.costs.nearest;
            all.costs.outputs += part.costs.outputs;
        }
        Ok(all)
    }

    /// Keeps Hessians of so many windows.
    pub fn keep(&self, group: &[(Unit, Hessian)], windows: usize) -> Result<()> {
        self.forget_collected();
        let mut list = format!("{windows}\n");
        for (unit, hessian) in group {
            hessian.save(&self.path(unit.tensors[0], unit.matrix, "hessian"))?;
            list.push_str(&format!("{} {}\n", unit.tensors[0], unit.matrix));
        }
        let path = self.folder.join(COLLECTED);
        polaris_files::write_atomic(&path, list.as_bytes())
            .map_err(|source| Error::Io { path, source })
    }

    /// The Hessians that were kept, with their windows, if they are of units that are open.
    pub fn collected(
        &mut self,
        device: &DeviceRef,
        open: &[&Unit],
    ) -> Result<Option<(Group, usize)>> {
        let path = self.folder.join(COLLECTED);
        if !path.exists() {
            return Ok(None);
        }
        let text = polaris_files::read_text(&path, LARGEST)
            .map_err(|source| Error::Io { path: path.clone(), source })?;
        let damaged =
            || Error::Damaged { path: path.clone(), what: "it is no list of Hessians".to_owned() };
        let mut lines = text.lines();
        let windows = lines.next().and_then(|line| line.parse().ok()).ok_or_else(damaged)?;
        let mut group = Vec::new();
        for line in lines {
            let numbers = line.split_once(' ');
            let numbers = numbers.and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
            let (tensor, matrix): (usize, usize) = numbers.ok_or_else(damaged)?;
            let is_it = |unit: &&&Unit| (unit.tensors[0], unit.matrix) == (tensor, matrix);
            // What was encoded meanwhile needs no Hessian.
            let Some(unit) = open.iter().find(is_it) else { continue };
            let hessian = Hessian::load(device, &self.path(tensor, matrix, "hessian"))?;
            if hessian.columns() != unit.columns {
                return Err(damaged());
            }
            group.push(((*unit).clone(), hessian));
        }
        Ok((!group.is_empty()).then_some((group, windows)))
    }

    /// Removes Hessians that were kept.
    pub fn forget_collected(&self) {
        let _ = fs::remove_file(self.folder.join(COLLECTED));
        self.remove_files("hessian");
    }

    /// Removes the files of this work, and the folder if nothing else is in it.
    pub fn remove(self) {
        self.forget_collected();
        self.remove_files("part");
        for name in [MANIFEST, LOCK] {
            let _ = fs::remove_file(self.folder.join(name));
        }
        let _ = fs::remove_dir(&self.folder);
    }

    fn remove_files(&self, ending: &str) {
        let Ok(files) = fs::read_dir(&self.folder) else { return };
        for path in files.flatten().map(|entry| entry.path()) {
            if path.extension().is_some_and(|found| found == ending) {
                let _ = fs::remove_file(path);
            }
        }
    }
}

/// A matrix that is being encoded.
pub(crate) struct PartWriter {
    file: AtomicFile,
    path: PathBuf,
    check: u64,
    costs: Costs,
}

impl PartWriter {
    /// Adds rows in blocks.
    pub fn add(&mut self, bytes: &[u8], costs: Costs) -> Result<()> {
        self.check = checked(self.check, bytes);
        self.costs.error += costs.error;
        self.costs.nearest += costs.nearest;
        self.costs.outputs += costs.outputs;
        self.file.write_all(bytes).map_err(|source| Error::Io { path: self.path.clone(), source })
    }

    /// Brings it to the disk.
    pub fn finish(mut self, rows: u64, is_gptq: bool) -> Result<()> {
        let Costs { error, nearest, outputs } = self.costs;
        let [error, nearest, outputs] = [error, nearest, outputs].map(f64::to_bits);
        let mut trailer = Vec::with_capacity(TRAILER);
        for number in [rows, u64::from(is_gptq), error, nearest, outputs] {
            trailer.extend_from_slice(&number.to_le_bytes());
        }
        let check = checked(self.check, &trailer);
        trailer.extend_from_slice(&check.to_le_bytes());
        let path = self.path;
        let written = self.file.write_all(&trailer).and_then(|()| self.file.finish());
        written.map_err(|source| Error::Io { path, source })
    }
}

/// A check that does not depend on how bytes are split: of each by itself.
fn checked(check: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(check, |check, &byte| {
        (check ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(5)
    })
}

/// A matrix that is encoded; it reads its blocks, which are checked before.
#[derive(Debug)]
pub(crate) struct Part {
    path: PathBuf,
    blocks: io::Take<fs::File>,
    rows: u64,
    is_gptq: bool,
    costs: Costs,
}

impl Part {
    fn open(path: PathBuf, bytes: usize) -> Result<Self> {
        let failed = |source| Error::Io { path: path.clone(), source };
        let (mut file, metadata) = polaris_files::open(&path).map_err(failed)?;
        let damaged = |what: &str| Error::Damaged { path: path.clone(), what: what.to_owned() };
        if metadata.len() != (bytes + TRAILER) as u64 {
            return Err(damaged("it has another length than its matrix"));
        }
        let (mut check, mut left) = (0, bytes);
        let mut buffer = vec![0; SAMPLE];
        while left > 0 {
            let some = left.min(SAMPLE);
            file.read_exact(&mut buffer[..some]).map_err(failed)?;
            check = checked(check, &buffer[..some]);
            left -= some;
        }
        let mut trailer = [0; TRAILER];
        file.read_exact(&mut trailer).map_err(failed)?;
        let number = |at: usize| {
            u64::from_le_bytes(*trailer[8 * at..].first_chunk().expect("it should be whole"))
        };
        if checked(check, &trailer[..TRAILER - 8]) != number(5) {
            return Err(damaged("its check does not fit its contents"));
        }
        io::Seek::rewind(&mut file).map_err(failed)?;
        let [error, nearest, outputs] = [2, 3, 4].map(|at| f64::from_bits(number(at)));
        let costs = Costs { error, nearest, outputs };
        let (rows, is_gptq) = (number(0), number(1) != 0);
        Ok(Self { path, blocks: file.take(bytes as u64), rows, is_gptq, costs })
    }
}

impl Part {
    /// Some of its blocks; none at the end.
    pub fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let read = self.blocks.read(buffer);
        read.map_err(|source| Error::Io { path: self.path.clone(), source })
    }
}
