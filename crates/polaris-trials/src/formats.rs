//! Data files, written byte by byte so that they can be wrong.

use serde_json::{Map, Value, json};

/// An NPY file; `shape` is what the header says, whatever follows.
pub fn npy(code: &str, shape: &[i64], bytes: &[u8]) -> Vec<u8> {
    let lengths: String = shape.iter().map(|length| format!("{length},")).collect();
    npy_with(
        &format!("{{'descr': '{code}', 'fortran_order': False, 'shape': ({lengths}), }}"),
        bytes,
    )
}

/// An NPY file with any header.
pub fn npy_with(header: &str, bytes: &[u8]) -> Vec<u8> {
    let mut header = header.to_owned();
    while !(10 + header.len() + 1).is_multiple_of(64) {
        header.push(' ');
    }
    header.push('\n');
    let mut file = b"\x93NUMPY\x01\x00".to_vec();
    file.extend((header.len() as u16).to_le_bytes());
    file.extend(header.as_bytes());
    file.extend(bytes);
    file
}

/// Type, shape and elements of an NPY file in C order.
pub fn read_npy(file: &[u8]) -> Option<(&str, Vec<u64>, &[u8])> {
    let rest = file.strip_prefix(b"\x93NUMPY\x01\x00")?;
    let length = usize::from(u16::from_le_bytes(rest.get(..2)?.try_into().ok()?));
    let header = std::str::from_utf8(rest.get(2..2 + length)?).ok()?;
    let after = |key: &str| header.split_once(key).map(|(_, rest)| rest);
    let code = after("'descr':")?.split('\'').nth(1)?;
    let shape = after("'shape':")?.split(['(', ')']).nth(1)?;
    let lengths = shape.split(',').map(str::trim).filter(|length| !length.is_empty());
    let shape = lengths.map(|length| length.parse().ok()).collect::<Option<Vec<u64>>>()?;
    Some((code, shape, &rest[2 + length..]))
}

pub fn floats(count: usize) -> Vec<u8> {
    (0..count).flat_map(|i| ((i * 37 % 101) as f32 / 50.0 - 1.0).to_le_bytes()).collect()
}

/// A ZIP archive without compression; `claimed` is added to the sizes that it tells.
pub fn zip(members: &[(&str, Vec<u8>)], claimed: u32) -> Vec<u8> {
    let mut file = Vec::new();
    let mut directory = Vec::new();
    for (name, bytes) in members {
        let offset = file.len() as u32;
        let mut common = Vec::new();
        common.extend([20, 0, 0, 0, 0, 0, 0, 0, 0x21, 0]);
        common.extend(crc32(bytes).to_le_bytes());
        let size = (bytes.len() as u32).wrapping_add(claimed);
        common.extend(size.to_le_bytes());
        common.extend(size.to_le_bytes());
        common.extend((name.len() as u16).to_le_bytes());
        common.extend([0, 0]);
        file.extend(b"PK\x03\x04");
        file.extend(&common);
        file.extend(name.as_bytes());
        file.extend(bytes);
        directory.extend(b"PK\x01\x02\x14\x00");
        directory.extend(&common);
        directory.extend([0; 10]);
        directory.extend(offset.to_le_bytes());
        directory.extend(name.as_bytes());
    }
    let start = file.len() as u32;
    let count = (members.len() as u16).to_le_bytes();
    file.extend(&directory);
    file.extend(b"PK\x05\x06\x00\x00\x00\x00");
    file.extend(count.into_iter().chain(count));
    file.extend((directory.len() as u32).to_le_bytes());
    file.extend(start.to_le_bytes());
    file.extend([0, 0]);
    file
}

/// MNIST's format: a type, the lengths, the elements.
pub fn idx(kind: u8, lengths: &[u32], bytes: &[u8]) -> Vec<u8> {
    let mut file = vec![0, 0, kind, lengths.len() as u8];
    file.extend(lengths.iter().flat_map(|length| length.to_be_bytes()));
    file.extend(bytes);
    file
}

/// A small image in one of the formats that are read.
pub fn image(width: u32, height: u32, format: image::ImageFormat) -> Vec<u8> {
    let pixel = |x: u32, y: u32| image::Rgb([(x * 40) as u8, (y * 40) as u8, (x * y) as u8]);
    let mut file = std::io::Cursor::new(Vec::new());
    let image = image::DynamicImage::ImageRgb8(image::RgbImage::from_fn(width, height, pixel));
    image.write_to(&mut file, format).expect("a small image should be written");
    file.into_inner()
}

/// Gives a PNG other lengths, with a checksum that fits them.
pub fn set_png_size(png: &mut [u8], width: u32, height: u32) {
    png[16..20].copy_from_slice(&width.to_be_bytes());
    png[20..24].copy_from_slice(&height.to_be_bytes());
    let sum = crc32(&png[12..29]);
    png[29..33].copy_from_slice(&sum.to_be_bytes());
}

/// A safetensors file of a header and bytes.
pub fn safetensors(header: &Value, bytes: &[u8]) -> Vec<u8> {
    let text = header.to_string();
    let mut file = (text.len() as u64).to_le_bytes().to_vec();
    file.extend(text.as_bytes());
    file.extend(bytes);
    file
}

/// A safetensors file of floats.
pub fn safetensors_of(tensors: &[(String, Vec<usize>, Vec<f32>)]) -> Vec<u8> {
    let (mut header, mut bytes) = (Map::new(), Vec::new());
    for (name, shape, values) in tensors {
        let start = bytes.len();
        bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        let entry = json!({ "dtype": "F32", "shape": shape, "data_offsets": [start, bytes.len()] });
        header.insert(name.clone(), entry);
    }
    safetensors(&Value::Object(header), &bytes)
}

/// Header and bytes of a safetensors file.
pub fn split_safetensors(file: &[u8]) -> Option<(Value, &[u8])> {
    let length = u64::from_le_bytes(file.get(..8)?.try_into().ok()?) as usize;
    let header = serde_json::from_slice(file.get(8..8 + length)?).ok()?;
    Some((header, &file[8 + length..]))
}

/// A gzip file without compression.
pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut file = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
    let chunks: Vec<&[u8]> = bytes.chunks(60_000).collect();
    for (index, chunk) in chunks.iter().enumerate() {
        file.push(u8::from(index + 1 == chunks.len()));
        let length = chunk.len() as u16;
        file.extend(length.to_le_bytes().into_iter().chain((!length).to_le_bytes()));
        file.extend(*chunk);
    }
    file.extend(crc32(bytes).to_le_bytes());
    file.extend((bytes.len() as u32).to_le_bytes());
    file
}

fn crc32(bytes: &[u8]) -> u32 {
    let mut sum = !0u32;
    for byte in bytes {
        sum ^= u32::from(*byte);
        for _ in 0..8 {
            sum = if sum & 1 == 1 { (sum >> 1) ^ 0xedb8_8320 } else { sum >> 1 };
        }
    }
    !sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_that_of_zip_and_png() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
    }

    #[test]
    fn arrays_are_read_as_they_are_written() {
        let file = npy("<f4", &[2, 1], &floats(2));
        assert_eq!(read_npy(&file), Some(("<f4", vec![2, 1], &floats(2)[..])));
        let scalar = npy("|b1", &[], &[1]);
        assert_eq!(read_npy(&scalar), Some(("|b1", vec![], &[1][..])));
    }

    #[test]
    fn a_png_of_another_size_has_a_valid_header() {
        let mut png = image(4, 4, image::ImageFormat::Png);
        let before = png.clone();
        set_png_size(&mut png, 4, 4);
        assert_eq!(png, before);
    }

    #[test]
    fn safetensors_come_apart_as_they_were_put_together() {
        let file = safetensors_of(&[("a".to_owned(), vec![2], vec![1.0, 2.0])]);
        let (header, bytes) = split_safetensors(&file).unwrap();
        assert_eq!(header["a"]["shape"], json!([2]));
        assert_eq!(bytes.len(), 8);
    }
}
