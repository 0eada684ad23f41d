//! Images as the usual classifiers take them.

use std::path::Path;

use anyhow::{Context, bail};
use image::imageops::FilterType;
use polaris::onnx::{Dim, ElementType, Tensor, Type};

/// Mean and deviation of each colour over ImageNet, by which its models were trained.
const MEAN: [f32; 3] = [0.485, 0.456, 0.406];
const DEVIATION: [f32; 3] = [0.229, 0.224, 0.225];
/// The side of an image where the model leaves it open.
const USUAL_SIDE: usize = 224;

/// Whether an input takes images.
pub fn fits(declared: Option<&Type>) -> bool {
    let Some(Type::Tensor(ElementType::F32, Some(dims))) = declared else { return false };
    dims.len() == 4 && dims[1] == Dim::Known(3)
}

/// A picture for an input `[N, 3, H, W]`: the shorter side scaled to 256/224 of the input's, the middle cut
/// out, colours normalised. A batch holds it several times.
pub fn read(path: &Path, declared: Option<&Type>, name: &str) -> anyhow::Result<Tensor> {
    let Some(Type::Tensor(_, Some(dims))) = declared.filter(|ty| fits(Some(ty))) else {
        bail!("an image needs an input of f32[N, 3, H, W]; `{name}` is another");
    };
    let side = |dim: &Dim| dim.known().unwrap_or(USUAL_SIDE);
    let (height, width) = (side(&dims[2]), side(&dims[3]));
    let picture = image::open(path).with_context(|| format!("{}", path.display()))?.to_rgb8();
    let (width, height) = (u32::try_from(width)?, u32::try_from(height)?);
    if width == 0 || height == 0 || picture.width() == 0 || picture.height() == 0 {
        bail!("{}: an image without pixels", path.display());
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
