//! Scales of activations, from their histograms.

use std::collections::HashMap;

use polaris_onnx::ValueId;

use super::rewrite::Activations;
use super::{Float, QuantizeOptions};
use crate::Result;
use crate::calibration::{Histograms, Range};
use crate::integer::Grid;

/// What the bytes of a tensor mean.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bytes {
    pub range: Range,
    pub scale: f32,
    pub zero: i32,
}

impl Bytes {
    fn new(range: Range, activations: Activations) -> Self {
        let positive = |scale: f64| (scale as f32).max(f32::MIN_POSITIVE);
        let (lowest, steps) = match activations {
            Activations::U8 => (0, 255.0),
            Activations::I8 if range.low == 0.0 => (-128, 255.0),
            Activations::I8 => {
                let most = range.high.max(-range.low);
                let range = Range { low: -most, high: most };
                return Self { range, scale: positive(most / 127.0), zero: 0 };
            }
        };
        let scale = positive((range.high - range.low) / steps);
        let zero = (-range.low / f64::from(scale)).round_ties_even().clamp(0.0, 255.0);
        Self { range, scale, zero: lowest + zero as i32 }
    }
}

/// The grid on which a range is chosen: levels are symmetric where bytes are, which they are not where nothing is negative.
fn grid(histograms: &Histograms, name: &str, activations: Activations) -> Grid {
    let least = histograms.get(name).and_then(|tensor| tensor.whole().extremes());
    let has_negative = least.is_some_and(|(min, _)| min < 0.0);
    Grid { symmetric: activations == Activations::I8 && has_negative, ..Grid::INT8 }
}

/// What the bytes of each tensor mean that has some: those that share a scale have a range that contains all of theirs.
pub fn all(
    float: &Float,
    histograms: &Histograms,
    options: &QuantizeOptions,
) -> Result<HashMap<ValueId, Bytes>> {
    let graph = &float.model.graph;
    let mut ranges: HashMap<ValueId, Range> = HashMap::new();
    for id in float.regions.origins() {
        let name = &graph.value(id).name;
        let grid = grid(histograms, name, options.activations);
        let range = histograms.range(name, options.calibrator, grid)?;
        let of_all = ranges.entry(float.regions.scale_of(id)).or_insert(range);
        *of_all = of_all.with(range);
    }
    let bytes = |&id: &ValueId| {
        let range = ranges.get(&float.regions.scale_of(id))?;
        Some((id, Bytes::new(*range, options.activations)))
    };
    Ok(float.regions.values.iter().filter_map(bytes).collect())
}
