//! Images resized, sampled, decoded, put together from columns; regions of them.

use super::{Fact, Known, Rule, dims};
use crate::{Dim, ElementType, Error, Result, operators};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("AffineGrid", affine_grid),
    ("Col2Im", col2im),
    ("GridSample", grid_sample),
    ("ImageDecoder", image_decoder),
    ("MaxRoiPool", max_roi_pool),
    ("Resize", resize),
    ("RoiAlign", roi_align),
    ("Upsample", upsample),
];

/// A length times a scale, cut off as in f32.
fn scaled(length: &Dim, scale: f64) -> Result<Dim> {
    if scale == 1.0 {
        return Ok(length.clone());
    }
    dims::map(length, |length| {
        let scaled = f64::from((length as f32) * (scale as f32)).floor();
        if !(scale > 0.0 && scaled < 1e15) {
            let why = format!("an axis of {length} cannot be scaled by {scale}");
            return Err(Error::operands(why));
        }
        Ok(scaled as usize)
    })
}

/// The chosen axes of a shape scaled; all open where the scales are not known.
fn all_scaled(shape: Vec<Dim>, axes: &[usize], scales: Option<Vec<f64>>) -> Result<Vec<Dim>> {
    let mut result = shape.clone();
    if let Some(scales) = &scales
        && scales.len() != axes.len()
    {
        let (found, axes) = (scales.len(), axes.len());
        return Err(Error::operands(format!("{found} scales for {axes} axes")));
    }
    for (index, &at) in axes.iter().enumerate() {
        result[at] = match &scales {
            Some(scales) => scaled(&shape[at], scales[index])?,
            None => Dim::Unknown,
        };
    }
    Ok(result)
}

fn upsample(known: &Known<'_>) -> Result<Vec<Fact>> {
    let scales = match known.fact(1) {
        Some(_) => known.floats(1),
        None => {
            let list = known.attributes().floats("scales")?;
            list.map(|list| list.iter().map(|&scale| f64::from(scale)).collect())
        }
    };
    let shape = match known.shape(0) {
        Some(shape) => {
            let axes: Vec<usize> = (0..shape.len()).collect();
            Some(all_scaled(shape, &axes, scales)?)
        }
        None => None,
    };
    Ok(vec![Fact::tensor(known.element(0), shape)])
}

fn resize(known: &Known<'_>) -> Result<Vec<Fact>> {
    if known.version() < 11 {
        return upsample(known);
    }
    let element = known.element(0);
    let Some(shape) = known.shape(0) else { return Ok(vec![Fact::tensor(element, None)]) };
    let axes = match known.attributes().ints("axes")? {
        Some(list) => {
            let axes = list.iter().map(|&at| operators::axis(at, shape.len()));
            axes.collect::<Result<Vec<usize>>>()?
        }
        None => (0..shape.len()).collect(),
    };
    if axes.iter().any(|&at| at >= shape.len()) {
        return Err(Error::operands("a scalar cannot be resized"));
    }
    let shape = if known.has(3) {
        resized(known, shape, &axes)?
    } else if known.has(2) {
        all_scaled(shape, &axes, known.floats(2))?
    } else {
        shape
    };
    Ok(vec![Fact::tensor(element, Some(shape))])
}

/// The chosen axes of a shape in the sizes that an operand says.
fn resized(known: &Known<'_>, mut shape: Vec<Dim>, axes: &[usize]) -> Result<Vec<Dim>> {
    // An operand that may be empty may leave everything to the scales.
    let Some(sizes) = known.entries(3).filter(|sizes| sizes.len() == axes.len()) else {
        axes.iter().for_each(|&at| shape[at] = Dim::Unknown);
        return Ok(shape);
    };
    let policy = known.attributes().string_or("keep_aspect_ratio_policy", "stretch")?;
    if policy == "stretch" {
        for (&at, size) in axes.iter().zip(&sizes) {
            shape[at] = dims::length(size)?;
        }
        return Ok(shape);
    }
    let ratio = |(&at, size): (&usize, &Dim)| {
        Some(dims::signed(size)? as f64 / shape[at].known().map(|length| length as f64)?)
    };
    let ratios: Option<Vec<f64>> = axes.iter().zip(&sizes).map(ratio).collect();
    let common = ratios.and_then(|ratios| match policy {
        "not_larger" => Some(ratios.into_iter().fold(f64::INFINITY, f64::min)),
        "not_smaller" => Some(ratios.into_iter().fold(0.0, f64::max)),
        _ => None,
    });
    let old = shape.clone();
    for &at in axes {
        let length = common.zip(old[at].known());
        let length = length.map(|(scale, length)| (scale * length as f64 + 0.5).floor());
        let length = length.filter(|length| (0.0..1e15).contains(length));
        shape[at] = length.map_or(Dim::Unknown, |length| Dim::Known(length as usize));
    }
    Ok(shape)
}

/// The batch and channels of images, and the places of a grid.
fn grid_sample(known: &Known<'_>) -> Result<Vec<Fact>> {
    let shape = match (known.shape(0).as_deref(), known.shape(1).as_deref()) {
        (Some([batch, channels, ..]), Some([_, places @ .., _])) => {
            let mut shape = vec![batch.clone(), channels.clone()];
            shape.extend_from_slice(places);
            Some(shape)
        }
        _ => None,
    };
    Ok(vec![Fact::tensor(known.element(0), shape)])
}

fn affine_grid(known: &Known<'_>) -> Result<Vec<Fact>> {
    let shape = match known.entries(1).as_deref() {
        Some([batch, _, space @ ..]) if matches!(space.len(), 2 | 3) => {
            let mut shape = vec![dims::length(batch)?];
            for length in space {
                shape.push(dims::length(length)?);
            }
            shape.push(Dim::Known(space.len()));
            Some(shape)
        }
        _ => None,
    };
    Ok(vec![Fact::tensor(known.element(0), shape)])
}

fn image_decoder(_: &Known<'_>) -> Result<Vec<Fact>> {
    Ok(vec![Fact::tensor(Some(ElementType::U8), dims::open(3))])
}

/// So many regions with the channels of an image, in a size.
fn regions(known: &Known<'_>, count: Dim, size: [i64; 2]) -> Result<Vec<Fact>> {
    let channels = known.shape(0).filter(|shape| shape.len() == 4);
    let channels = channels.map_or(Dim::Unknown, |shape| shape[1].clone());
    let [height, width] = size.map(|length| dims::length(&dims::from_signed(length)));
    let shape = vec![count, channels, height?, width?];
    Ok(vec![Fact::tensor(known.element(0), Some(shape))])
}

fn first_length(known: &Known<'_>, index: usize) -> Dim {
    let shape = known.shape(index).unwrap_or_default();
    shape.into_iter().next().unwrap_or(Dim::Unknown)
}

fn roi_align(known: &Known<'_>) -> Result<Vec<Fact>> {
    let attributes = known.attributes();
    let size = [attributes.int_or("output_height", 1)?, attributes.int_or("output_width", 1)?];
    let count = dims::same(&first_length(known, 1), &first_length(known, 2))?;
    regions(known, count, size)
}

fn max_roi_pool(known: &Known<'_>) -> Result<Vec<Fact>> {
    match known.attributes().ints("pooled_shape")? {
        Some(&[height, width]) => regions(known, first_length(known, 1), [height, width]),
        _ => Ok(vec![Fact::tensor(known.element(0), dims::open(4))]),
    }
}

fn col2im(known: &Known<'_>) -> Result<Vec<Fact>> {
    let element = known.element(0);
    let columns = known.shape(0).filter(|shape| shape.len() == 3);
    let (Some(columns), Some(image)) = (columns, known.entries(1)) else {
        return Ok(vec![Fact::tensor(element, None)]);
    };
    let block = known.ints(2).and_then(|list| {
        let mut lengths = list.into_iter().map(|length| usize::try_from(length).ok());
        lengths.try_fold(1usize, |all, length| all.checked_mul(length?))
    });
    let channels = match block {
        Some(1) => columns[1].clone(),
        Some(block) => dims::map(&columns[1], |rows| {
            let whole = rows.checked_rem(block) == Some(0);
            whole
                .then(|| rows / block)
                .ok_or_else(|| Error::operands(format!("{rows} is not made of blocks of {block}")))
        })?,
        None => Dim::Unknown,
    };
    let mut shape = vec![columns[0].clone(), channels];
    for length in &image {
        shape.push(dims::length(length)?);
    }
    Ok(vec![Fact::tensor(element, Some(shape))])
}
