//! ImageDecoder: pixels of an encoded image.

use image::{ImageFormat, ImageReader, Limits};

use crate::operators::{Call, one};
use crate::{ElementType, Error, Result, Tensor, Value};

pub fn image_decoder(call: &Call<'_>) -> Result<Vec<Value>> {
    let encoded = call.tensor(0)?;
    if encoded.element() != ElementType::U8 {
        return Err(Error::operands(format!("bytes were expected, not {}", encoded.element())));
    }
    let pixel_format = call.attributes().string_or("pixel_format", "RGB")?;
    let bytes = encoded.bytes()?;
    let Some(format) = format(bytes)? else {
        return nothing();
    };
    let mut reader = ImageReader::with_format(std::io::Cursor::new(bytes.as_ref()), format);
    let mut limits = Limits::default();
    limits.max_alloc = Some(crate::largest_tensor());
    reader.limits(limits);
    // What cannot be decoded is an image without pixels.
    let Ok(decoded) = reader.decode() else { return nothing() };
    let pixels = decoded.into_rgb8();
    let (width, height) = (pixels.width() as usize, pixels.height() as usize);
    let (channels, bytes) = match pixel_format {
        "RGB" => (3, pixels.into_raw()),
        "BGR" => {
            let mut bytes = pixels.into_raw();
            bytes.chunks_exact_mut(3).for_each(|pixel| pixel.swap(0, 2));
            (3, bytes)
        }
        "Grayscale" => (1, pixels.pixels().map(|pixel| luminance(pixel.0)).collect()),
        other => return Err(Error::operands(format!("there is no pixel_format `{other}`"))),
    };
    Ok(one(Tensor::new(&[height, width, channels], bytes)?))
}

fn nothing() -> Result<Vec<Value>> {
    Ok(one(Tensor::zeros(ElementType::U8, &[0, 0, 0])?))
}

/// The weights of ITU-R 601 in 16 bits, rounded.
fn luminance([red, green, blue]: [u8; 3]) -> u8 {
    let sum = 19595 * u32::from(red) + 38470 * u32::from(green) + 7471 * u32::from(blue);
    ((sum + 0x8000) >> 16) as u8
}

/// The format of an image, if it is one that is known.
fn format(bytes: &[u8]) -> Result<Option<ImageFormat>> {
    const JPEG_2000: [&[u8]; 2] = [b"\0\0\0\x0cjP  ", b"\xff\x4f\xff\x51"];
    if JPEG_2000.iter().any(|start| bytes.starts_with(start)) {
        return Err(Error::unsupported("images in the format JPEG 2000"));
    }
    match image::guess_format(bytes) {
        // The standard's tests ask for the bits of one decoder; others differ in the last one.
        Ok(ImageFormat::Jpeg) => {
            Err(Error::unsupported("JPEG images with the bits of libjpeg's decoder"))
        }
        Ok(format) if format.reading_enabled() => Ok(Some(format)),
        Ok(format) => Err(Error::unsupported(format!("images in the format {format:?}"))),
        Err(_) => Ok(None),
    }
}
