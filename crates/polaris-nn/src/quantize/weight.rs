//! Weights that layers see rounded to integer levels.

use std::sync::atomic::{AtomicU32, Ordering};

use polaris_core::{DType, f16};
use polaris_tensor::{Tensor, no_grad};

use super::{LOG_SCALE, Scales, scales};
use crate::{Parameter, Parts, Result, Transform};

/// A matrix of integers: what an export writes of a weight.
#[derive(Debug, Clone, PartialEq)]
pub struct IntegerWeight {
    /// Bits of a level. Levels are around zero, without the lowest.
    pub bits: u32,
    /// Rows: one for each output.
    pub rows: usize,
    /// Elements of a row.
    pub columns: usize,
    /// Elements of a row that share a scale; the last group of a row may have fewer.
    pub group: usize,
    /// The levels, row by row.
    pub levels: Vec<i8>,
    /// The scales, row by row.
    pub scales: Vec<f32>,
}

/// Rounds a weight to levels around zero, with a scale for each group of columns.
#[derive(Debug)]
pub struct WeightQuantizer {
    method: Scales,
    rows: usize,
    columns: usize,
    group: usize,
    /// 0 while it does nothing. The state has them as `written`, of which this is a copy.
    bits: AtomicU32,
    written: Tensor,
    /// Logarithms of the scales `[rows, groups]`, where these are learned: steps of an optimiser then change scales
    /// by parts of what they are, and never to zero.
    log_scale: Option<Parameter>,
}

impl WeightQuantizer {
    /// For a weight whose first axis is that of outputs; it does nothing yet.
    pub(super) fn new(weight: &Tensor, group: usize, method: Scales) -> Result<Self> {
        let rows = weight.dims().first().copied().unwrap_or(1);
        let columns = weight.elements() / rows.max(1);
        let group = if group == 0 { columns } else { group.min(columns) }.max(1);
        let dims = [rows, columns.div_ceil(group)];
        let log_scale = || Parameter::new(&Tensor::zeros(weight.device(), &dims, weight.dtype())?);
        let log_scale = (method == Scales::Learned).then(log_scale).transpose()?;
        Ok(Self {
            method,
            rows,
            columns,
            group,
            bits: AtomicU32::new(0),
            written: Tensor::zeros(weight.device(), &[], DType::F32)?,
            log_scale: log_scale.map(Parameter::without_decay),
        })
    }

    /// Bits of a level; 0 if it does nothing.
    pub fn bits(&self) -> u32 {
        self.bits.load(Ordering::Relaxed)
    }

    /// Whether there are several scales in a row.
    pub fn has_groups(&self) -> bool {
        self.group < self.columns
    }

    /// Rounds to so many bits from now on. Scales that are learned begin anew.
    pub(super) fn begin(&self, weight: &Tensor, bits: u32) -> Result<()> {
        self.bits.store(bits, Ordering::Relaxed);
        let device = self.written.device();
        self.written.copy_from(&Tensor::full(device, &[], DType::F32, f64::from(bits))?)?;
        if let Some(log_scale) = self.log_scale.as_ref().filter(|_| bits > 0) {
            let scale = no_grad(|| self.found(&weight.detach(), Scales::Mse))?;
            log_scale.tensor().copy_from(&scale.log()?)?;
        }
        Ok(())
    }

    /// Takes the bits from the state, after that was overwritten.
    pub(super) fn sync(&self) -> Result<()> {
        let bits = self.written.item()?;
        self.bits
            .store(if (2.0..=8.0).contains(&bits) { bits as u32 } else { 0 }, Ordering::Relaxed);
        Ok(())
    }

    /// Scales `[rows, groups]` of what the weight is.
    fn found(&self, weight: &Tensor, method: Scales) -> Result<Tensor> {
        let groups = self.columns.div_ceil(self.group);
        let flat = weight.reshape(&[self.rows, self.columns])?;
        let missing = groups * self.group - self.columns;
        let flat = match missing {
            0 => flat,
            _ => {
                let zeros = Tensor::zeros(flat.device(), &[self.rows, missing], flat.dtype())?;
                Tensor::concatenate(&[&flat, &zeros], 1)?
            }
        };
        let flat = flat.reshape(&[self.rows, groups, self.group])?;
        Ok(scales::of_groups(&flat, self.bits(), method)?.reshape(&[self.rows, groups])?)
    }

    /// The scales `[rows, groups]`. Those of groups are numbers of half precision: block formats have them exactly.
    fn scale(&self, weight: &Tensor) -> Result<Tensor> {
        let scale = match &self.log_scale {
            Some(log_scale) => log_scale.tensor().exp()?,
            None => no_grad(|| self.found(&weight.detach(), self.method))?,
        };
        if !self.has_groups() {
            return Ok(scale);
        }
        let rounded = no_grad(|| {
            let known = scale.detach();
            let fitting =
                known.clamp(f64::from(f16::MIN_POSITIVE_SUBNORMAL), f64::from(f16::MAX))?;
            fitting.to_dtype(DType::F16)?.to_dtype(known.dtype())?.sub(&known)
        })?;
        // Gradients pass as they are: half precision has no room for small ones.
        Ok(scale.add(&rounded)?)
    }

    /// Scales for each element, or for each row.
    fn spread(&self, scale: &Tensor) -> Result<Tensor> {
        match self.has_groups() {
            true => Ok(scale.repeat_interleave(self.group, 1)?.narrow(1, 0..self.columns)?),
            false => Ok(scale.clone()),
        }
    }
}

impl Transform for WeightQuantizer {
    fn apply(&self, parameter: &Tensor) -> Result<Tensor> {
        let bits = self.bits();
        if bits == 0 {
            return Ok(parameter.clone());
        }
        let (low, high) = scales::around_zero(bits);
        let scale = self.spread(&self.scale(parameter)?)?;
        let zero = Tensor::zeros(parameter.device(), &[], parameter.dtype())?;
        let slope = 1.0 / (self.group as f64 * f64::from(high)).sqrt();
        let flat = parameter.reshape(&[self.rows, self.columns])?;
        let rounded = flat.fake_quantize(&scale, &zero, (low, high), slope)?;
        Ok(rounded.reshape(parameter.dims())?)
    }

    fn visit(&self, parts: &mut Parts) {
        parts.buffer("bits", &self.written);
        if let Some(log_scale) = &self.log_scale {
            parts.parameter(LOG_SCALE, log_scale);
        }
    }

    fn integers(&self, parameter: &Tensor) -> Result<Option<IntegerWeight>> {
        let bits = self.bits();
        if bits == 0 {
            return Ok(None);
        }
        no_grad(|| {
            let scale = self.scale(parameter)?.detach();
            // As `apply` rounds: the quotient in the type of both.
            let flat = parameter.detach().reshape(&[self.rows, self.columns])?;
            let (low, high) = scales::around_zero(bits);
            let levels = flat.div(&self.spread(&scale)?)?.round()?;
            let levels = levels.clamp(f64::from(low), f64::from(high))?.to_f64()?;
            Ok(Some(IntegerWeight {
                bits,
                rows: self.rows,
                columns: self.columns,
                group: self.group,
                levels: levels.into_iter().map(|level| level as i8).collect(),
                scales: scale.to_dtype(DType::F32)?.to_vec()?,
            }))
        })
    }
}
