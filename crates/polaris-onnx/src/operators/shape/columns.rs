//! Col2Im: blocks that lie in columns, added up to an image.

use std::ops::AddAssign;

use super::length;
use crate::limits::checked_elements;
use crate::operators::{Call, one, walk};
use crate::room::filled;
use crate::{Error, Result, Tensor, Value};

/// How blocks lie in an image, one entry for each axis of space.
struct Layout {
    image: Vec<usize>,
    block: Vec<usize>,
    /// How many blocks there are along each axis.
    blocks: Vec<usize>,
    before: Vec<usize>,
    steps: Vec<usize>,
    dilations: Vec<usize>,
}

impl Layout {
    fn new(call: &Call<'_>) -> Result<Self> {
        let lengths = |values: &[i64]| values.iter().copied().map(length).collect::<Result<_>>();
        let image: Vec<usize> = lengths(&call.tensor(1)?.to_i64()?)?;
        let block: Vec<usize> = lengths(&call.tensor(2)?.to_i64()?)?;
        let axes = image.len();
        let list = |name: &str, count: usize, default: usize| -> Result<Vec<usize>> {
            let values = call.attributes().ints(name)?;
            values.map_or_else(|| Ok(vec![default; count]), &lengths)
        };
        let (pads, steps) = (list("pads", 2 * axes, 0)?, list("strides", axes, 1)?);
        let dilations = list("dilations", axes, 1)?;
        if [block.len(), steps.len(), dilations.len()] != [axes; 3] || pads.len() != 2 * axes {
            return Err(Error::operands(
                "image, block, pads, strides and dilations differ in axes",
            ));
        }
        let mut blocks = Vec::with_capacity(axes);
        for axis in 0..axes {
            let around = pads[axis].checked_add(pads[axes + axis]);
            let whole = around.and_then(|pads| pads.checked_add(image[axis]));
            let block = block[axis]
                .checked_sub(1)
                .and_then(|gaps| gaps.checked_mul(dilations[axis])?.checked_add(1));
            let count = match (whole, block) {
                (Some(whole), Some(block)) if steps[axis] > 0 => {
                    whole.checked_sub(block).map(|rest| rest / steps[axis] + 1)
                }
                _ => None,
            };
            blocks.push(count.ok_or_else(|| {
                Error::operands(format!("no block fits along the axis {axis} of the image"))
            })?);
        }
        let before = pads[..axes].to_vec();
        Ok(Self { image, block, blocks, before, steps, dilations })
    }

    /// Where in the image the block of each place along one axis has its element `within`.
    fn along(&self, axis: usize, within: usize) -> Vec<Option<usize>> {
        let start = within * self.dilations[axis];
        let place =
            |index: usize| (index * self.steps[axis] + start).checked_sub(self.before[axis]);
        let inside = |place: &usize| *place < self.image[axis];
        (0..self.blocks[axis]).map(|index| place(index).filter(inside)).collect()
    }
}

pub fn col2im(call: &Call<'_>) -> Result<Vec<Value>> {
    let data = call.tensor(0)?;
    let layout = Layout::new(call)?;
    let &[batch, rows, columns] = data.shape() else {
        let shape = data.shape();
        return Err(Error::operands(format!("three axes were expected, not {shape:?}")));
    };
    let product = |list: &[usize]| list.iter().try_fold(1usize, |all, &n| all.checked_mul(n));
    let (block, blocks) = (product(&layout.block), product(&layout.blocks));
    let channels = block.filter(|&block| block > 0 && rows % block == 0 && blocks == Some(columns));
    let channels = channels.map(|block| rows / block).ok_or_else(|| {
        let (block, blocks) = (&layout.block, &layout.blocks);
        let why = format!("{rows} by {columns} is not made of {blocks:?} blocks of {block:?}");
        Error::operands(why)
    })?;
    let mut shape = vec![batch, channels];
    shape.extend_from_slice(&layout.image);
    let images = batch * channels;
    checked_elements(crate::ElementType::C128, &shape)?;
    if images == 0 {
        return Ok(one(Tensor::zeros(data.element(), &shape)?));
    }
    let result = if data.element().is_float() {
        Tensor::from_f64(data.element(), &shape, &sums(&data.to_f64()?, &layout, images)?)?
    } else {
        Tensor::from_integers(
            data.element(),
            &shape,
            &sums(&data.to_integers()?, &layout, images)?,
        )?
    };
    Ok(one(result))
}

/// Adds each element of each block to the pixel where it lies.
fn sums<T: Copy + Default + AddAssign>(
    columns: &[T],
    layout: &Layout,
    images: usize,
) -> Result<Vec<T>> {
    let pixels: usize = layout.image.iter().product();
    let block: usize = layout.block.iter().product();
    let blocks: usize = layout.blocks.iter().product();
    let strides = walk::strides(&layout.image);
    let mut result = filled(T::default(), images * pixels)?;
    for element in 0..block {
        let within = walk::coordinates(element, &layout.block);
        // Flat places in the image of this element of every block, in the order of the columns.
        let mut places = vec![Some(0)];
        for (axis, &within) in within.iter().enumerate() {
            let along = layout.along(axis, within);
            let further = |start: Option<usize>| {
                let stride = strides[axis];
                along.iter().map(move |&place| Some(start? + place? * stride))
            };
            places = places.into_iter().flat_map(further).collect();
        }
        for image in 0..images {
            let row = (image * block + element) * blocks;
            for (&value, place) in columns[row..row + blocks].iter().zip(&places) {
                if let Some(place) = place {
                    result[image * pixels + place] += value;
                }
            }
        }
    }
    Ok(result)
}
