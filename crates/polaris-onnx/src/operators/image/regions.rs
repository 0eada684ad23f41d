//! Regions of images: RoiAlign, MaxRoiPool.

use crate::limits::checked_elements;
use crate::operators::{Call, one};
use crate::room::filled;
use crate::{ElementType, Error, Result, Tensor, Value};

/// Samples in one bin, at most.
const MOST_SAMPLES: f64 = (1u64 << 24) as f64;

fn image(x: &Tensor) -> Result<[usize; 4]> {
    <[usize; 4]>::try_from(x.shape())
        .map_err(|_| Error::operands(format!("four axes were expected, not {:?}", x.shape())))
}

/// A length that an attribute says.
fn length(value: i64) -> Result<usize> {
    usize::try_from(value)
        .ok()
        .filter(|&length| length > 0)
        .ok_or_else(|| Error::operands(format!("a result cannot have the length {value}")))
}

/// The image of the batch that an index says.
fn image_at(index: f64, batch: usize) -> Result<usize> {
    if index >= 0.0 && index < batch as f64 {
        return Ok(index as usize);
    }
    Err(Error::operands(format!("there is no image {index} among {batch}")))
}

/// The two elements around a place, each with its weight; none far outside.
fn around(place: f64, length: usize) -> [(usize, f64); 2] {
    let last = length as f64 - 1.0;
    // Not `<`: a place that is NaN lies outside too.
    if !(-1.0..=length as f64).contains(&place) {
        return [(0, 0.0); 2];
    }
    let place = place.clamp(0.0, last);
    let low = place.floor();
    let high = (low + 1.0).min(last);
    [(low as usize, 1.0 - (place - low)), (high as usize, place - low)]
}

/// One axis of a region, cut into bins.
struct Bins {
    start: f64,
    size: f64,
    samples: f64,
}

impl Bins {
    fn new(start: f64, end: f64, count: usize, ratio: i64, at_least_one: bool) -> Self {
        let extent = if at_least_one { (end - start).max(1.0) } else { end - start };
        let size = extent / count as f64;
        let samples = if ratio > 0 { ratio as f64 } else { size.ceil() };
        Self { start, size, samples }
    }

    fn place(&self, bin: usize, sample: usize) -> f64 {
        self.start + bin as f64 * self.size + (sample as f64 + 0.5) * self.size / self.samples
    }
}

pub fn roi_align(call: &Call<'_>) -> Result<Vec<Value>> {
    let attributes = call.attributes();
    let (x, rois) = (call.tensor(0)?, call.tensor(1)?);
    let [batch, channels, height, width] = image(x)?;
    let indices = call.tensor(2)?.to_f64()?;
    if rois.shape() != [indices.len(), 4] || height == 0 || width == 0 {
        let (rois, x) = (rois.shape(), x.shape());
        return Err(Error::operands(format!("regions of {rois:?} do not match {x:?}")));
    }
    let rows = length(attributes.int_or("output_height", 1)?)?;
    let columns = length(attributes.int_or("output_width", 1)?)?;
    let shape = [indices.len(), channels, rows, columns];
    let mut y = filled(0.0, checked_elements(ElementType::F64, &shape)?)?;
    let ratio = attributes.int_or("sampling_ratio", 0)?;
    let scale = f64::from(attributes.float_or("spatial_scale", 1.0)?);
    let largest = match attributes.string_or("mode", "avg")?.to_lowercase().as_str() {
        "avg" => false,
        "max" => true,
        other => return Err(Error::operands(format!("there is no mode `{other}`"))),
    };
    // Version 10 does not shift by half a pixel.
    let default = if call.version() < 16 { "output_half_pixel" } else { "half_pixel" };
    let mode = attributes.string_or("coordinate_transformation_mode", default)?;
    let shifted = mode.eq_ignore_ascii_case("half_pixel");
    let (values, corners) = (x.to_f64()?, rois.to_f64()?);
    let plane = height * width;
    for (region, (corners, &index)) in corners.chunks(4).zip(&indices).enumerate() {
        let of = image_at(index, batch)?;
        let shift = if shifted { 0.5 } else { 0.0 };
        let [left, top, right, bottom] = [0, 1, 2, 3].map(|corner| corners[corner] * scale - shift);
        let vertical = Bins::new(top, bottom, rows, ratio, !shifted);
        let horizontal = Bins::new(left, right, columns, ratio, !shifted);
        let count = vertical.samples.max(0.0) * horizontal.samples.max(0.0);
        if count > MOST_SAMPLES || count.is_nan() {
            return Err(Error::operands(format!("a region needs {count} samples in each bin")));
        }
        for bin in 0..rows * columns {
            let (row, column) = (bin / columns, bin % columns);
            let mut sums = vec![0.0; channels];
            let mut first = true;
            for v in 0..vertical.samples.max(0.0) as usize {
                let ys = around(vertical.place(row, v), height);
                for h in 0..horizontal.samples.max(0.0) as usize {
                    let xs = around(horizontal.place(column, h), width);
                    for (channel, sum) in sums.iter_mut().enumerate() {
                        let source = &values[(of * channels + channel) * plane..][..plane];
                        let corners = ys.iter().flat_map(|&(y, wy)| {
                            xs.iter().map(move |&(x, wx)| wy * wx * source[y * width + x])
                        });
                        if largest {
                            let most = corners.fold(f64::NEG_INFINITY, f64::max);
                            *sum = if first { most } else { sum.max(most) };
                        } else {
                            *sum += corners.sum::<f64>();
                        }
                    }
                    first = false;
                }
            }
            for (channel, sum) in sums.into_iter().enumerate() {
                let value = if largest { sum } else { sum / count.max(1.0) };
                y[((region * channels + channel) * rows + row) * columns + column] = value;
            }
        }
    }
    Ok(one(Tensor::from_f64(x.element(), &shape, &y)?))
}

/// The largest element of each bin, of regions whose corners are whole pixels.
pub fn max_roi_pool(call: &Call<'_>) -> Result<Vec<Value>> {
    let attributes = call.attributes();
    let (x, rois) = (call.tensor(0)?, call.tensor(1)?);
    let [batch, channels, height, width] = image(x)?;
    let &[regions, 5] = rois.shape() else {
        return Err(Error::operands(format!("regions have five values, not {:?}", rois.shape())));
    };
    let Some(&[rows, columns]) = attributes.ints("pooled_shape")? else {
        return Err(Error::operands("`pooled_shape` should have two values"));
    };
    let (rows, columns) = (length(rows)?, length(columns)?);
    let shape = [regions, channels, rows, columns];
    let mut y = filled(0.0, checked_elements(ElementType::F64, &shape)?)?;
    let scale = f64::from(attributes.float_or("spatial_scale", 1.0)?);
    let (values, corners) = (x.to_f64()?, rois.to_f64()?);
    let plane = height * width;
    for (region, numbers) in corners.chunks(5).enumerate() {
        let of = image_at(numbers[0], batch)?;
        let [left, top, right, bottom] =
            [1, 2, 3, 4].map(|corner| (numbers[corner] * scale).round());
        for bin in 0..rows * columns {
            let (row, column) = (bin / columns, bin % columns);
            let (y0, y1) = pixels(top, bottom, row, rows, height);
            let (x0, x1) = pixels(left, right, column, columns, width);
            for channel in 0..channels {
                let source = &values[(of * channels + channel) * plane..][..plane];
                let mut most: Option<f64> = None;
                for line in y0..y1 {
                    for &value in &source[line * width + x0..line * width + x1.max(x0)] {
                        most = Some(most.map_or(value, |most| most.max(value)));
                    }
                }
                // A bin without pixels is zero.
                let at = ((region * channels + channel) * rows + row) * columns + column;
                y[at] = most.unwrap_or(0.0);
            }
        }
    }
    Ok(one(Tensor::from_f64(x.element(), &shape, &y)?))
}

/// The pixels of one bin along an axis of this length: from, and up to.
fn pixels(start: f64, end: f64, bin: usize, bins: usize, length: usize) -> (usize, usize) {
    let size = (end - start + 1.0).max(1.0) / bins as f64;
    let clamp = |place: f64| place.clamp(0.0, length as f64) as usize;
    let from = clamp((bin as f64 * size).floor() + start);
    let to = clamp(((bin as f64 + 1.0) * size).ceil() + start);
    (from, to.max(from))
}
