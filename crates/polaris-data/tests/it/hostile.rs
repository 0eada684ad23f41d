//! Broken and hostile files: an error, never a panic, and never memory for what is not there.

use std::io::Write;
use std::path::Path;

use polaris_data::{
    ArrayDataset, ArrayOptions, Bpe, CsvOptions, Dataset, Error, TextDataset, Tokenizer, read_npy,
    read_npz,
};
use proptest::prelude::*;

fn npy(descr: &str, shape: &str, data: &[u8]) -> Vec<u8> {
    let header = format!("{{'descr': '{descr}', 'fortran_order': True, 'shape': {shape}, }}\n");
    let mut file = b"\x93NUMPY\x01\0".to_vec();
    file.extend((header.len() as u16).to_le_bytes());
    file.extend(header.as_bytes());
    file.extend(data);
    file
}

fn npz(method: zip::CompressionMethod) -> Vec<u8> {
    let mut archive = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    let options = zip::write::SimpleFileOptions::default().compression_method(method);
    archive.start_file("x.npy", options).unwrap();
    archive.write_all(&npy("<f4", "(2, 2)", &[3; 16])).unwrap();
    archive.finish().unwrap().into_inner()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    packer.write_all(bytes).unwrap();
    packer.finish().unwrap()
}

const IDX: &[u8] = &[0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 2, 1, 2, 3, 4];
const CSV: &[u8] = b"a,\"b\",label\r\n1,2.5,x\r\n-3,4e2,\"y\"\n5,6,x\n";

fn write(folder: &tempfile::TempDir, bytes: &[u8]) -> std::path::PathBuf {
    let path = folder.path().join("file");
    std::fs::write(&path, bytes).unwrap();
    path
}

fn read_idx(path: &Path) -> Result<ArrayDataset, Error> {
    let labels = path.with_file_name("labels");
    std::fs::write(&labels, [0, 0, 8, 1, 0, 0, 0, 2, 1, 2]).unwrap();
    ArrayDataset::from_idx(path, &labels, &ArrayOptions::default())
}

#[test]
fn every_part_of_a_binary_file_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let array = npy("<i2", "(2, 3)", &[1; 12]);
    let fails = |name: &str, whole: &[u8], read: &dyn Fn(&Path) -> Result<(), Error>| {
        assert!(read(&write(&folder, whole)).is_ok(), "{name}");
        for end in 0..whole.len() {
            let error = read(&write(&folder, &whole[..end])).expect_err(name);
            let known = matches!(error, Error::Format { .. });
            assert!(known, "{name} of {end} bytes: {error}");
        }
    };
    fails("npy", &array, &|p| read_npy(p).map(drop));
    fails("npy.gz", &gzip(&array), &|p| read_npy(p).map(drop));
    for method in [zip::CompressionMethod::Stored, zip::CompressionMethod::Deflated] {
        fails("npz", &npz(method), &|p| read_npz(p, "x").map(drop));
    }
    fails("idx", IDX, &|p| read_idx(p).map(drop));
    fails("idx.gz", &gzip(IDX), &|p| read_idx(p).map(drop));
}

#[test]
fn every_part_of_a_table_is_an_error_or_a_shorter_table() {
    let folder = tempfile::tempdir().unwrap();
    let mut lengths = Vec::new();
    for end in 0..=CSV.len() {
        let path = write(&folder, &CSV[..end]);
        if let Ok(data) = ArrayDataset::from_csv(path, &CsvOptions::default()) {
            assert!(data.len() <= 3);
            lengths.push(data.len());
        }
    }
    assert!(lengths.is_sorted() && lengths.first() == Some(&1) && lengths.last() == Some(&3));
    let packed = gzip(CSV);
    for end in 0..packed.len() {
        let path = write(&folder, &packed[..end]);
        assert!(ArrayDataset::from_csv(path, &CsvOptions::default()).is_err(), "{end}");
    }
}

#[test]
fn claims_beyond_the_file_are_refused_before_memory_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let before = peak();
    let most = u64::MAX;
    let shapes = [
        "(1099511627776,)".to_string(),
        "(4294967296, 4294967296)".into(),
        format!("({most}, {most}, 2)"),
        "(17,)".into(),
    ];
    for shape in shapes {
        let error = read_npy(write(&folder, &npy("|u1", &shape, &[0; 16]))).unwrap_err();
        assert!(error.to_string().contains("need more than the 16 bytes"), "{error}");
    }
    // Nothing is there, in too many places to count: an array, and no data set.
    let nothing = write(&folder, &npy("|u1", &format!("({most}, {most}, 0)"), &[]));
    assert!(read_npy(&nothing).unwrap().values.is_empty());
    let data = ArrayDataset::from_npy(&nothing, &nothing, &ArrayOptions::default());
    assert!(data.is_err());
    let huge = [0, 0, 8, 3, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1];
    assert!(read_idx(&write(&folder, &huge)).is_err());
    let deep: Vec<u8> = [0, 0, 8, 255].into_iter().chain(vec![255; 1020]).collect();
    assert!(read_idx(&write(&folder, &deep)).is_err());
    // A header of 4 GiB.
    let long = b"\x93NUMPY\x02\0\xff\xff\xff\xff{";
    assert!(read_npy(write(&folder, long)).unwrap_err().to_string().contains("limit"));
    // Four megabytes that cannot be compressed could, by their size, unpack to the 4 GiB that
    // their header claims, and those would be 16 GiB of floats.
    let mut random = polaris_data::Random::new(&[1]);
    let noise: Vec<u8> = (0..4 << 20).map(|_| random.bits() as u8).collect();
    let packed = gzip(&npy("|u1", "(4294967296, 1)", &noise));
    let path = write(&folder, &packed);
    let error = ArrayDataset::from_npy(&path, &path, &ArrayOptions::default()).unwrap_err();
    assert!(error.to_string().contains("it ends within"), "{error}");
    if let (Some(before), Some(after)) = (before, peak()) {
        assert!(after - before < 1 << 30, "{} bytes more at the peak", after - before);
    }
}

/// The largest address space this process has had, in bytes, where the system tells.
fn peak() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|l| l.starts_with("VmPeak:"))?;
    Some(line.split_whitespace().nth(1)?.parse::<u64>().ok()? * 1024)
}

#[test]
fn bytes_that_are_no_text_and_no_tokenizer() {
    let folder = tempfile::tempdir().unwrap();
    let path = write(&folder, b"abc\xffdef");
    let error = TextDataset::from_file(&path, &polaris_data::Bytes, 2, None).unwrap_err();
    assert!(error.to_string().contains("byte 3"), "{error}");
    assert_eq!(TextDataset::from_bytes(&path, 2, None).unwrap().tokens()[3], 255);
    let json = Bpe::train("some text, some more text, and some more", 260, &[])
        .unwrap()
        .to_json()
        .unwrap();
    for end in (0..json.len()).step_by(97) {
        let error = Bpe::from_file(write(&folder, &json.as_bytes()[..end])).unwrap_err();
        assert!(matches!(error, Error::Format { format: "tokenizer.json", .. }), "{error}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    /// A changed byte gives an error, or what was there, or (where nothing guards it) other
    /// values; it never gives a panic.
    #[test]
    fn a_changed_byte_does_no_harm(at: prop::sample::Index, value: u8, deflate: bool) {
        let folder = tempfile::tempdir().unwrap();
        let change = |whole: &[u8]| {
            let mut bytes = whole.to_vec();
            bytes[at.index(whole.len())] = value;
            write(&folder, &bytes)
        };
        let _ = read_npy(change(&npy("<i2", "(2, 3)", &[1; 12])));
        let _ = read_idx(&change(IDX));
        let _ = ArrayDataset::from_csv(change(CSV), &CsvOptions::default());
        let whole = npz(if deflate {
            zip::CompressionMethod::Deflated
        } else {
            zip::CompressionMethod::Stored
        });
        let good = read_npz(write(&folder, &whole), "x").unwrap();
        // Archives have checksums: other values are never taken for these.
        if let Ok(array) = read_npz(change(&whole), "x") {
            prop_assert_eq!(array, good);
        }
    }

    #[test]
    fn a_changed_byte_in_a_tokenizer_does_no_harm(at: prop::sample::Index, value in 32u8..127) {
        static JSON: std::sync::OnceLock<Vec<u8>> = std::sync::OnceLock::new();
        let json = JSON.get_or_init(|| {
            Bpe::train("some text, some more text, and some more", 260, &[]).unwrap().to_json().unwrap().into_bytes()
        });
        let mut json = json.clone();
        let at = at.index(json.len());
        json[at] = value;
        if let Ok(bpe) = Bpe::from_json(&json) {
            let tokens = bpe.encode("some other text ä").unwrap_or_default();
            prop_assert!(tokens.iter().all(|&t| (t as usize) < bpe.vocabulary()));
            let _ = bpe.decode(&tokens);
        }
    }

    #[test]
    fn random_bytes_are_no_file(mut bytes in prop::collection::vec(any::<u8>(), 0..200), magic in 0..5) {
        let start: &[u8] = match magic {
            0 => b"\x93NUMPY\x01\0\x20\0{'descr': '<f4', ",
            1 => b"PK\x03\x04",
            2 => b"\0\0\x08\x02",
            3 => b"\x1f\x8b\x08\0\0\0\0\0\0\0",
            _ => b"",
        };
        bytes.splice(0..0, start.iter().copied());
        let folder = tempfile::tempdir().unwrap();
        let path = write(&folder, &bytes);
        let _ = read_npy(&path);
        let _ = read_npz(&path, "x");
        let _ = read_idx(&path);
        let _ = ArrayDataset::from_csv(&path, &CsvOptions::default());
        let _ = TextDataset::from_bytes(&path, 4, None);
        let _ = Bpe::from_file(&path);
    }
}
