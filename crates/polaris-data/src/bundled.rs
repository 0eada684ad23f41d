//! The two small data sets that come with Polaris. Their sources and licences are in
//! `data/LICENSES.md`.

use std::io::Read;
use std::path::Path;

use flate2::read::GzDecoder;

use crate::{ArrayDataset, CsvOptions, Result, files};

/// 1,797 handwritten digits of 8x8 pixels: inputs `[1, 8, 8]` from 0 to 1, classes 0 to 9.
///
/// "Optical Recognition of Handwritten Digits" by E. Alpaydin and C. Kaynak, CC BY 4.0.
pub fn digits() -> Result<ArrayDataset> {
    const PACKED: &[u8] = include_bytes!("../data/digits.csv.gz");
    let options = CsvOptions {
        input_dims: Some(vec![1, 8, 8]),
        scale: Some(1.0 / 16.0),
        ..CsvOptions::default()
    };
    ArrayDataset::from_csv_reader(Path::new("bundled digits"), GzDecoder::new(PACKED), &options)
}

/// About a megabyte of English, one sentence or two a line: Genesis to Judges in the King James
/// Version of 1611, in the public domain.
pub fn text() -> Result<String> {
    const PACKED: &[u8] = include_bytes!("../data/text.txt.gz");
    let mut text = String::new();
    GzDecoder::new(PACKED)
        .read_to_string(&mut text)
        .map_err(files::io(Path::new("bundled text"), "read"))?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Dataset, Kind};

    #[test]
    fn digits_are_what_they_should_be() {
        let digits = digits().unwrap();
        assert_eq!(digits.len(), 1797);
        assert_eq!(digits.input().dims, [1, 8, 8]);
        assert_eq!(digits.target().kind, Kind::I64);
        assert_eq!(digits.classes(), ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"]);
        let pixels = digits.inputs().as_f32().unwrap();
        assert!(pixels.iter().all(|&x| (0.0..=1.0).contains(&x) && (x * 16.0).fract() == 0.0));
        assert_eq!(pixels[2..6], [5.0 / 16.0, 13.0 / 16.0, 9.0 / 16.0, 1.0 / 16.0]);
        let mut counts = [0; 10];
        (0..digits.len()).for_each(|i| counts[digits.label(i).unwrap()] += 1);
        assert_eq!(counts, [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]);
    }

    #[test]
    fn the_text_is_whole() {
        let text = text().unwrap();
        assert_eq!(text.len(), 1_014_148);
        assert!(text.is_ascii());
        assert!(text.starts_with("In the beginning"));
        assert!(text.ends_with("right in his own eyes.\n"));
    }
}
