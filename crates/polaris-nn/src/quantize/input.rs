//! What layers read, rounded to integer levels.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use polaris_core::DType;
use polaris_ops::fused::{Builder, evaluate_into};
use polaris_runtime::DeviceRef;
use polaris_tensor::{Tensor, no_grad};

use super::{LOG_SCALE, Scales, scales};
use crate::{Parameter, Parts, Pass, Result};

/// What a batch counts beside those before it in a moving mean, as in batch norms.
const MOMENTUM: f64 = 0.1;

/// Where a layer reads what it multiplies with a weight: a quantiser may stand there. Clones are the same place.
#[derive(Debug, Clone, Default)]
pub struct InputPoint {
    quantizer: Arc<RwLock<Option<Arc<InputQuantizer>>>>,
}

impl InputPoint {
    /// What the layer computes with: its input in the pass' type, and rounded if there is a quantiser.
    ///
    /// # Errors
    /// If there is no room.
    pub fn value(&self, x: &Tensor, pass: &Pass<'_>) -> Result<Tensor> {
        let x = pass.cast(x)?;
        match self.quantizer() {
            Some(quantizer) => quantizer.apply(&x, pass),
            None => Ok(x),
        }
    }

    /// The quantiser, if there is one.
    pub fn quantizer(&self) -> Option<Arc<InputQuantizer>> {
        self.quantizer.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn set_quantizer(&self, quantizer: InputQuantizer) {
        let mut place = self.quantizer.write().unwrap_or_else(PoisonError::into_inner);
        *place = Some(Arc::new(quantizer));
    }
}

/// Rounds activations to levels from zero on, with one scale and one zero point for a whole tensor.
#[derive(Debug)]
pub struct InputQuantizer {
    method: Scales,
    /// 0 while it does nothing. The state has them as `written`, of which this is a copy.
    bits: AtomicU32,
    written: Tensor,
    /// Whether it has seen nothing yet.
    is_new: AtomicBool,
    /// The lowest and the highest number, by a moving mean.
    range: [Tensor; 2],
    scale: Tensor,
    zero: Tensor,
    /// The logarithm of the scale, where it is learned.
    log_scale: Option<Parameter>,
}

impl InputQuantizer {
    /// One that does nothing yet.
    pub(super) fn new(device: &DeviceRef, method: Scales) -> Result<Self> {
        let number = |value| Tensor::full(device, &[], DType::F32, value);
        let log_scale = || Ok::<_, crate::Error>(Parameter::new(&number(0.0)?)?.without_decay());
        Ok(Self {
            method,
            bits: AtomicU32::new(0),
            written: number(0.0)?,
            is_new: AtomicBool::new(true),
            range: [number(0.0)?, number(0.0)?],
            scale: number(1.0)?,
            zero: number(0.0)?,
            log_scale: (method == Scales::Learned).then(log_scale).transpose()?,
        })
    }

    /// Bits of a level; 0 if it does nothing.
    pub fn bits(&self) -> u32 {
        self.bits.load(Ordering::Relaxed)
    }

    /// Rounds to so many bits, in a range that the next batch of a training gives.
    pub(super) fn begin(&self, bits: u32) -> Result<()> {
        self.bits.store(bits, Ordering::Relaxed);
        self.is_new.store(true, Ordering::Relaxed);
        let device = self.written.device();
        Ok(self.written.copy_from(&Tensor::full(device, &[], DType::F32, f64::from(bits))?)?)
    }

    /// Takes the bits from the state, after that was overwritten.
    pub(super) fn sync(&self) -> Result<()> {
        let bits = self.written.item()?;
        self.bits
            .store(if (2.0..=8.0).contains(&bits) { bits as u32 } else { 0 }, Ordering::Relaxed);
        self.is_new.store(false, Ordering::Relaxed);
        Ok(())
    }

    pub(crate) fn visit(&self, parts: &mut Parts) {
        parts.buffer("bits", &self.written);
        parts.buffer("low", &self.range[0]);
        parts.buffer("high", &self.range[1]);
        parts.buffer("zero", &self.zero);
        match &self.log_scale {
            Some(log_scale) => parts.parameter(LOG_SCALE, log_scale),
            None => parts.buffer("scale", &self.scale),
        }
    }

    fn apply(&self, x: &Tensor, pass: &Pass<'_>) -> Result<Tensor> {
        let bits = self.bits();
        if bits == 0 || x.elements() == 0 {
            return Ok(x.clone());
        }
        if pass.is_training() {
            no_grad(|| self.observe(&x.detach(), bits))?;
        }
        let scale = match &self.log_scale {
            Some(log_scale) => log_scale.tensor().exp()?,
            None => self.scale.clone(),
        };
        let (low, high) = scales::from_zero(bits);
        let slope = 1.0 / (x.elements() as f64 * f64::from(high)).sqrt();
        // Where layers compute in f64, its scale does too.
        let wide = |t: &Tensor| {
            if x.dtype() == DType::F64 { t.to_dtype(DType::F64) } else { Ok(t.clone()) }
        };
        Ok(x.fake_quantize(&wide(&scale)?, &wide(&self.zero)?, (low, high), slope)?)
    }

    /// Follows the range of batches; a scale that is learned only begins with that of the first.
    fn observe(&self, x: &Tensor, bits: u32) -> Result<()> {
        let is_new = self.is_new.swap(false, Ordering::Relaxed);
        if self.log_scale.is_some() && !is_new {
            return Ok(());
        }
        let method = if self.method == Scales::Learned { Scales::Mse } else { self.method };
        let found = scales::of_tensor(&x.to_dtype(DType::F32)?, bits, method)?;
        for (range, found) in self.range.iter().zip(&found) {
            follow(range, found, if is_new { 1.0 } else { MOMENTUM })?;
        }
        let [scale, zero] = scales::levels(&self.range, bits)?;
        self.zero.copy_from(&zero)?;
        match &self.log_scale {
            Some(log_scale) => log_scale.tensor().copy_from(&scale.log()?)?,
            None => self.scale.copy_from(&scale)?,
        }
        Ok(())
    }

    /// Scale and zero point, for an export.
    ///
    /// # Errors
    /// If they cannot be read.
    pub fn scaling(&self) -> Result<(f32, u8)> {
        let scale = match &self.log_scale {
            Some(log_scale) => log_scale.tensor().detach().exp()?,
            None => self.scale.clone(),
        };
        Ok((scale.item()? as f32, self.zero.item()? as u8))
    }
}

/// Moves a number by a part of its distance to another.
fn follow(number: &Tensor, found: &Tensor, part: f64) -> Result<()> {
    let build = Builder::new(2);
    let [before, found_] = build.inputs();
    let (keep, take) = (build.scalar(1.0 - part), build.scalar(part));
    let step = build.finish(before * keep + found_ * take)?;
    Ok(number.update(|array| evaluate_into(&step, &[array, found.array()], array))?)
}
