//! Image classifiers: preprocessing of images, and the most probable classes of the output.

use std::path::Path;

use image::imageops::FilterType;
use polaris_graph::Session;
use polaris_onnx::{Dim, ElementType, Tensor, Type};
use serde::Serialize;

use crate::{Error, Result};

/// Mean and deviation of each colour over ImageNet, by which its models were trained.
const MEAN: [f32; 3] = [0.485, 0.456, 0.406];
const DEVIATION: [f32; 3] = [0.229, 0.224, 0.225];
/// The side of an image where the model leaves it open.
const USUAL_SIDE: usize = 224;

/// A class, and how likely it is.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Class {
    /// Its number.
    pub class: usize,
    /// Its name, if it has one.
    pub label: Option<String>,
    /// From 0 to 1.
    pub probability: f64,
}

/// Whether an input takes images.
pub fn takes_images(declared: Option<&Type>) -> bool {
    let Some(Type::Tensor(ElementType::F32, Some(dims))) = declared else { return false };
    dims.len() == 4 && dims[1] == Dim::Known(3)
}

/// A picture for an input `[N, 3, H, W]`: the shorter side scaled to 256/224 of the input's, the middle cut
/// out, colours normalised. A batch holds it several times.
///
/// # Errors
/// If the input takes no images, or if the file is none.
pub fn read_image(path: &Path, declared: Option<&Type>, name: &str) -> Result<Tensor> {
    let Some(Type::Tensor(_, Some(dims))) = declared.filter(|ty| takes_images(Some(ty))) else {
        return Err(Error::NoImageInput { input: name.to_owned() });
    };
    let side = |dim: &Dim| dim.known().unwrap_or(USUAL_SIDE);
    let (height, width) = (side(&dims[2]), side(&dims[3]));
    let picture = polaris_data::read_image(path)?.to_rgb8();
    let pixels = |side: usize| u32::try_from(side).map_err(|error| Error::file(path, error));
    let (width, height) = (pixels(width)?, pixels(height)?);
    if width == 0 || height == 0 || picture.width() == 0 || picture.height() == 0 {
        return Err(Error::file(path, "an image without pixels"));
    }
    let scale = |wanted: u32, there: u32| f64::from(wanted) * 256.0 / 224.0 / f64::from(there);
    let factor = scale(width, picture.width()).max(scale(height, picture.height()));
    let scaled = |length: u32, least: u32| ((f64::from(length) * factor).round() as u32).max(least);
    let (w, h) = (scaled(picture.width(), width), scaled(picture.height(), height));
    let picture = image::imageops::resize(&picture, w, h, FilterType::Triangle);
    let (left, top) = ((w - width) / 2, (h - height) / 2);
    let mut values = Vec::with_capacity(3 * (width * height) as usize);
    for channel in 0..3 {
        for y in 0..height {
            for x in 0..width {
                let level = f32::from(picture.get_pixel(left + x, top + y)[channel]) / 255.0;
                values.push((level - MEAN[channel]) / DEVIATION[channel]);
            }
        }
    }
    let batch = dims[0].known().unwrap_or(1);
    Ok(Tensor::new(&[batch, 3, height as usize, width as usize], values.repeat(batch))?)
}

/// Names of classes that the model brings along.
pub fn labels_of(model: &Session) -> Option<Vec<String>> {
    crate::samples::classes(&model.model().metadata)
}

/// The five likeliest classes of the first example.
///
/// # Errors
/// If they are not numbers.
pub fn likeliest(tensor: &Tensor, labels: Option<&[String]>) -> Result<Vec<Class>> {
    // Classifiers may end in a pooling, with axes of one element behind the classes.
    let row = tensor.elements() / tensor.shape().first().copied().unwrap_or(1).max(1);
    let mut numbers = tensor.to_f64()?;
    numbers.truncate(row);
    let sum: f64 = numbers.iter().sum();
    let are_probabilities =
        numbers.iter().all(|&x| (0.0..=1.0).contains(&x)) && (sum - 1.0).abs() < 1e-3;
    if !are_probabilities {
        let largest = numbers.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        numbers.iter_mut().for_each(|x| *x = (*x - largest).exp());
        let sum: f64 = numbers.iter().sum();
        numbers.iter_mut().for_each(|x| *x /= sum);
    }
    let mut order: Vec<usize> = (0..numbers.len()).collect();
    order.sort_by(|&a, &b| numbers[b].total_cmp(&numbers[a]));
    let class = |class: usize| Class {
        class,
        label: labels.and_then(|labels| labels.get(class).cloned()),
        probability: numbers[class],
    };
    Ok(order.into_iter().take(5).map(class).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_become_probabilities_and_probabilities_stay() {
        let row = |values: &[f32]| Tensor::new(&[1, values.len()], values.to_vec()).unwrap();
        let labels = ["cat".to_owned(), "dog".to_owned()];
        let classes = likeliest(&row(&[0.25, 0.75]), Some(&labels)).unwrap();
        assert_eq!((classes[0].label.as_deref(), classes[0].probability), (Some("dog"), 0.75));
        let classes = likeliest(&row(&[1.0, 3.0, 1.0]), None).unwrap();
        let sum: f64 = classes.iter().map(|class| class.probability).sum();
        assert!(classes[0].class == 1 && (sum - 1.0).abs() < 1e-12, "{classes:?}");
    }
}
