//! MelWeightMatrix: triangles that gather a spectrum into bands as wide as the ear hears them.

use super::single_length;
use super::window::output_element;
use crate::limits::checked_elements;
use crate::operators::{Call, one};
use crate::room::filled;
use crate::{ElementType, Error, Result, Tensor, Value};

pub fn mel_weight_matrix(call: &Call<'_>) -> Result<Vec<Value>> {
    let count = |index: usize, name: &str| -> Result<usize> {
        single_length(call, index)?.ok_or_else(|| Error::operands(format!("{name} is missing")))
    };
    let edge = |index: usize| match call.tensor(index)?.to_f64()?.as_slice() {
        [hertz] => Ok(2595.0 * (1.0 + hertz / 700.0).log10()),
        other => Err(Error::operands(format!("{} edges were given, not one", other.len()))),
    };
    let (bands, length) = (count(0, "num_mel_bins")?, count(1, "dft_length")?);
    let rate = count(2, "sample_rate")? as f64;
    let (low, high) = (edge(3)?, edge(4)?);
    let bins = length / 2 + 1;
    let elements = checked_elements(ElementType::F64, &[bins, bands])?;
    let step = (high - low) / (bands as f64 + 2.0);
    // The bin of the spectrum where each triangle begins; the two after it are its peak and its end.
    let bin = |index: usize| -> Result<usize> {
        let hertz = 700.0 * (10f64.powf((low + step * index as f64) / 2595.0) - 1.0);
        let bin = ((length as f64 + 1.0) * hertz / rate).floor();
        let inside = (0.0..=bins as f64).contains(&bin);
        inside.then_some(bin as usize).ok_or_else(|| {
            Error::operands(format!("{hertz} hertz are not in a spectrum of {bins} bins"))
        })
    };
    let mut weights = filled(0.0, elements)?;
    for band in 0..bands {
        let (start, peak, end) = (bin(band)?, bin(band + 1)?, bin(band + 2)?);
        if peak >= bins {
            let why = format!("the band {band} has its peak beyond the spectrum of {bins} bins");
            return Err(Error::operands(why));
        }
        for place in start..peak {
            weights[place * bands + band] = (place - start) as f64 / (peak - start) as f64;
        }
        weights[peak * bands + band] = 1.0;
        for place in peak..end {
            weights[place * bands + band] = (end - place) as f64 / (end - peak) as f64;
        }
    }
    Ok(one(Tensor::from_f64(output_element(call)?, &[bins, bands], &weights)?))
}
