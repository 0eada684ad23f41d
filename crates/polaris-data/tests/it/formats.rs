//! Every format, written by hand here and read back.

use std::io::Write;
use std::path::{Path, PathBuf};

use polaris_data::{
    ArrayDataset, ArrayOptions, CsvOptions, Dataset, Error, Kind, Target, Values, read_npy,
    read_npz,
};
use proptest::prelude::*;

/// A folder with files in it.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Folder(tempfile::tempdir().unwrap())
    }

    fn file(&self, name: &str, contents: &[u8]) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::write(&path, contents).unwrap();
        path
    }
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    packer.write_all(bytes).unwrap();
    packer.finish().unwrap()
}

/// An NPY file as NumPy writes it, its data as they are.
fn npy(version: u8, descr: &str, fortran: bool, dims: &[usize], data: &[u8]) -> Vec<u8> {
    let dims: String = dims.iter().map(|d| format!("{d},")).collect();
    let order = if fortran { "True" } else { "False" };
    let mut header =
        format!("{{'descr': '{descr}', 'fortran_order': {order}, 'shape': ({dims}), }}");
    let start = if version == 1 { 10 } else { 12 };
    while (start + header.len() + 1) % 64 != 0 {
        header.push(' ');
    }
    header.push('\n');
    let mut file = b"\x93NUMPY".to_vec();
    file.extend([version, 0]);
    match version {
        1 => file.extend((header.len() as u16).to_le_bytes()),
        _ => file.extend((header.len() as u32).to_le_bytes()),
    }
    file.extend(header.as_bytes());
    file.extend(data);
    file
}

/// A whole number from -100 to 100 as it is stored.
fn stored(descr: &str, value: i8) -> Vec<u8> {
    let unsigned = value.unsigned_abs();
    let mut bytes = match &descr[1..] {
        "f4" => f32::from(value).to_le_bytes().to_vec(),
        "f8" => f64::from(value).to_le_bytes().to_vec(),
        "i1" => value.to_le_bytes().to_vec(),
        "i2" => i16::from(value).to_le_bytes().to_vec(),
        "i4" => i32::from(value).to_le_bytes().to_vec(),
        "i8" => i64::from(value).to_le_bytes().to_vec(),
        "u1" => unsigned.to_le_bytes().to_vec(),
        "u2" => u16::from(unsigned).to_le_bytes().to_vec(),
        "u4" => u32::from(unsigned).to_le_bytes().to_vec(),
        "u8" => u64::from(unsigned).to_le_bytes().to_vec(),
        "b1" => vec![u8::from(value > 0)],
        other => panic!("no type {other}"),
    };
    if descr.starts_with('>') {
        bytes.reverse();
    }
    bytes
}

/// What a stored number is read as.
fn expected(descr: &str, value: i8) -> i64 {
    match descr.as_bytes()[1] {
        b'u' => i64::from(value).abs(),
        b'b' => i64::from(value > 0),
        _ => i64::from(value),
    }
}

const TYPES: [&str; 19] = [
    "<f4", ">f4", "<f8", ">f8", "|i1", "|u1", "|b1", "<i2", ">i2", "<u2", ">u2", "<i4", ">i4",
    "<u4", ">u4", "<i8", ">i8", "<u8", ">u8",
];

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

    #[test]
    fn npy_comes_back_in_every_type_order_and_version(
        version in 1u8..=3,
        descr in prop::sample::select(TYPES.to_vec()),
        fortran: bool,
        dims in prop::collection::vec(0usize..4, 0..5),
        seed: u8,
    ) {
        let count: usize = dims.iter().product();
        let value = |place: usize| ((place * 37 + usize::from(seed)) % 201) as i32 as i16 - 100;
        let value = |place: usize| value(place) as i8;
        // Where the n-th number in C order lies in the file.
        let place = |n: usize| {
            if !fortran {
                return n;
            }
            let (mut rest, mut index) = (n, vec![0; dims.len()]);
            for axis in (0..dims.len()).rev() {
                index[axis] = rest % dims[axis];
                rest /= dims[axis];
            }
            index.iter().zip(&dims).rev().fold(0, |place, (i, d)| place * d + i)
        };
        let mut data = vec![Vec::new(); count];
        (0..count).for_each(|n| data[place(n)] = stored(descr, value(n)));
        let folder = Folder::new();
        let path = folder.file("a.npy", &npy(version, descr, fortran, &dims, &data.concat()));
        let array = read_npy(&path).unwrap();
        prop_assert_eq!(&array.dims, &dims);
        let wanted: Vec<i64> = (0..count).map(|n| expected(descr, value(n))).collect();
        match array.values {
            Values::F32(values) => {
                prop_assert_eq!(descr.as_bytes()[1], b'f');
                prop_assert_eq!(values, wanted.iter().map(|&x| x as f32).collect::<Vec<_>>());
            }
            Values::I64(values) => prop_assert_eq!(values, wanted),
        }
    }

    #[test]
    fn csv_comes_back(
        rows in prop::collection::vec((prop::collection::vec(-1e6f32..1e6, 3), 0usize..4), 1..20),
        delimiter in prop::sample::select(vec![b',', b';', b'\t']),
        zipped: bool,
    ) {
        let names = ["red", "green", "blue", "a b"];
        let by = char::from(delimiter).to_string();
        let mut text = ["x", "colour", "y", "z"].join(&by) + "\r\n";
        for (values, class) in &rows {
            let cells = [
                values[0].to_string(),
                format!("\"{}\"", names[*class]),
                values[1].to_string(),
                values[2].to_string(),
            ];
            text += &(cells.join(&by) + "\n");
        }
        let folder = Folder::new();
        let bytes = if zipped { gzip(text.as_bytes()) } else { text.into_bytes() };
        let path = folder.file("a.csv", &bytes);
        let options = CsvOptions {
            target_column: Some("colour".into()),
            columns: Some(vec!["z".into(), "x".into()]),
            delimiter,
            ..CsvOptions::default()
        };
        let data = ArrayDataset::from_csv(&path, &options).unwrap();
        prop_assert_eq!(data.len(), rows.len());
        let inputs: Vec<f32> = rows.iter().flat_map(|(v, _)| [v[2], v[0]]).collect();
        prop_assert_eq!(data.inputs(), &Values::F32(inputs));
        prop_assert!(data.classes().is_sorted());
        for (index, (_, class)) in rows.iter().enumerate() {
            prop_assert_eq!(&data.classes()[data.label(index).unwrap()], names[*class]);
        }
    }
}

#[test]
fn floats_of_every_kind_survive() {
    let values = [0.0f32, -0.0, 1e-45, f32::MAX, f32::INFINITY, f32::NEG_INFINITY, 0.1];
    let data: Vec<u8> = values.iter().flat_map(|x| x.to_be_bytes()).collect();
    let folder = Folder::new();
    let path = folder.file("a.npy.gz", &gzip(&npy(1, ">f4", false, &[7], &data)));
    assert_eq!(read_npy(&path).unwrap().values, Values::F32(values.to_vec()));
}

#[test]
fn numbers_that_do_not_fit_are_errors() {
    let folder = Folder::new();
    let path = folder.file("a.npy", &npy(1, "<u8", false, &[1], &u64::MAX.to_le_bytes()));
    assert!(read_npy(&path).unwrap_err().to_string().contains("18446744073709551615"));
    let inputs = folder.file("x.npy", &npy(1, "<f4", false, &[1, 1], &1f32.to_le_bytes()));
    let labels = folder.file("y.npy", &npy(1, "<f4", false, &[1], &1.5f32.to_le_bytes()));
    let error = ArrayDataset::from_npy(&inputs, &labels, &ArrayOptions::default()).unwrap_err();
    assert!(error.to_string().contains("1.5 where a whole number"), "{error}");
}

fn npz(folder: &Folder, method: zip::CompressionMethod) -> PathBuf {
    let path = folder.0.path().join("a.npz");
    let mut archive = zip::ZipWriter::new(std::fs::File::create(&path).unwrap());
    let options = zip::write::SimpleFileOptions::default().compression_method(method);
    let inputs: Vec<u8> = (0..3 * 4).collect();
    archive.start_file("images.npy", options).unwrap();
    archive.write_all(&npy(1, "|u1", false, &[3, 2, 2], &inputs)).unwrap();
    let labels: Vec<u8> = [7i64, 3, 7].iter().flat_map(|x| x.to_le_bytes()).collect();
    archive.start_file("labels.npy", options).unwrap();
    archive.write_all(&npy(1, "<i8", false, &[3], &labels)).unwrap();
    archive.finish().unwrap();
    path
}

#[test]
fn npz_arrays_are_found_by_name() {
    for method in [zip::CompressionMethod::Stored, zip::CompressionMethod::Deflated] {
        let folder = Folder::new();
        let path = npz(&folder, method);
        assert_eq!(read_npz(&path, "images").unwrap().dims, [3, 2, 2]);
        let options = ArrayOptions {
            input_dims: Some(vec![1, 2, 2]),
            scale: Some(0.5),
            ..ArrayOptions::default()
        };
        let data = ArrayDataset::from_npz(&path, "images", "labels", &options).unwrap();
        assert_eq!(data.input().dims, [1, 2, 2]);
        assert_eq!(data.classes(), ["3", "7"]);
        assert_eq!(data.targets(), &Values::I64(vec![1, 0, 1]));
        assert_eq!(data.inputs().as_f32().unwrap()[..4], [0.0, 0.5, 1.0, 1.5]);
        let error = read_npz(&path, "image").unwrap_err().to_string();
        assert!(error.contains("`labels`") && error.contains("mean `images`"), "{error}");
    }
}

#[test]
fn arrays_that_do_not_go_together_are_errors() {
    let folder = Folder::new();
    let inputs = folder.file("x.npy", &npy(1, "|u1", false, &[2, 3], &[1, 2, 3, 4, 5, 6]));
    let read =
        |labels: &Path, options: &ArrayOptions| ArrayDataset::from_npy(&inputs, labels, options);
    let short = folder.file("y.npy", &npy(1, "|u1", false, &[1], &[0]));
    assert!(matches!(
        read(&short, &ArrayOptions::default()),
        Err(Error::CountMismatch { expected: 2, found: 1, .. })
    ));
    let wide = folder.file("w.npy", &npy(1, "|u1", false, &[2, 2], &[0, 1, 2, 3]));
    assert!(read(&wide, &ArrayOptions::default()).is_err());
    let numbers = ArrayOptions { target: Target::Number, ..ArrayOptions::default() };
    assert_eq!(read(&wide, &numbers).unwrap().target().dims, [2]);
    let tokens =
        ArrayOptions { target: Target::Integers, input_kind: Kind::I64, ..ArrayOptions::default() };
    let data = read(&wide, &tokens).unwrap();
    assert_eq!(data.inputs(), &Values::I64(vec![1, 2, 3, 4, 5, 6]));
    assert!(data.classes().is_empty() && data.label(0).is_none());
    let scaled = ArrayOptions { scale: Some(2.0), ..tokens };
    assert!(matches!(read(&wide, &scaled), Err(Error::BadOption { option: "scale", .. })));
    let column = folder.file("c.npy", &npy(1, "|u1", false, &[2, 1], &[5, 4]));
    assert_eq!(read(&column, &ArrayOptions::default()).unwrap().classes(), ["4", "5"]);
    let given = ArrayOptions { classes: Some(vec!["5".into()]), ..ArrayOptions::default() };
    assert!(matches!(read(&column, &given), Err(Error::UnknownName { what: "class", .. })));
    let dims = ArrayOptions { input_dims: Some(vec![2, 2]), ..ArrayOptions::default() };
    assert!(read(&column, &dims).unwrap_err().to_string().contains("4 were expected, 3 found"));
    let scalar = folder.file("s.npy", &npy(1, "|u1", false, &[], &[1]));
    assert!(read(&scalar, &ArrayOptions::default()).is_err());
    let missing = folder.0.path().join("none.npy");
    assert!(matches!(read(&missing, &ArrayOptions::default()), Err(Error::Io { .. })));
}

#[test]
fn idx_comes_back_plain_and_zipped() {
    let mut images = vec![0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 2];
    images.extend([0, 255, 51, 102]);
    let labels = vec![0, 0, 8, 1, 0, 0, 0, 2, 9, 4];
    let folder = Folder::new();
    for pack in [|b: &[u8]| b.to_vec(), gzip as fn(&[u8]) -> Vec<u8>] {
        let images = folder.file("images", &pack(&images));
        let labels = folder.file("labels", &pack(&labels));
        let data = ArrayDataset::from_idx(&images, &labels, &ArrayOptions::default()).unwrap();
        assert_eq!(data.input().dims, [1, 1, 2]);
        assert_eq!(data.classes(), ["4", "9"]);
        for (found, wanted) in data.inputs().as_f32().unwrap().iter().zip([0.0, 1.0, 0.2, 0.4]) {
            assert!((found - wanted).abs() < 1e-7);
        }
        let raw = ArrayOptions { scale: Some(1.0), ..ArrayOptions::default() };
        let data = ArrayDataset::from_idx(&images, &labels, &raw).unwrap();
        assert_eq!(data.inputs(), &Values::F32(vec![0.0, 255.0, 51.0, 102.0]));
    }
    let mut long = labels.clone();
    long.push(1);
    let (long, labels) = (folder.file("long", &long), folder.file("labels", &labels));
    let error = ArrayDataset::from_idx(&long, &labels, &ArrayOptions::default()).unwrap_err();
    assert!(error.to_string().contains("continues after"), "{error}");
    // Wider numbers, most significant byte first.
    let wide = [0, 0, 0x0b, 1, 0, 0, 0, 2, 0xff, 0xfe, 1, 0];
    let wide = folder.file("wide", &wide);
    let data = ArrayDataset::from_idx(&wide, &labels, &ArrayOptions::default()).unwrap();
    assert_eq!(data.inputs(), &Values::F32(vec![-2.0, 256.0]));
}

#[test]
fn tables_say_where_they_are_wrong() {
    let folder = Folder::new();
    let read = |text: &[u8], options: &CsvOptions| {
        ArrayDataset::from_csv(folder.file("t.csv", text), options).unwrap_err().to_string()
    };
    let plain = CsvOptions::default();
    for (text, parts) in [
        (&b""[..], &["t.csv", "no header"][..]),
        (b"a,b\n", &["no rows"]),
        (b"a,b\n1,x\n2\n", &["line 3", "1 fields", "header has 2"]),
        (b"a,b\n1,x,9\n", &["line 2", "3 fields"]),
        (b"a,b\n1,x\n\none,y\n", &["line 4", "column `a`", "`one` is not a number"]),
        (b"a,b\r\n1,x\r\n\r\none,y", &["line 4", "column `a`"]),
        (b"a,b\n1,\"x\ny\n\"\n\none,y", &["line 6", "column `a`"]),
        (b"a,b\r\n1,\"x\"\r\n2\r\n", &["line 3", "1 fields"]),
        (b"\na,b\n1,x\none,y", &["line 4", "column `a`"]),
        (b"a,b\n,x\n", &["line 2", "column `a`", "empty"]),
        (b"a,b\nnan,x\n", &["column `a`", "finite"]),
        (b"a,b\n1e99,x\n", &["column `a`", "finite"]),
        (b"a,b\n1,\n", &["column `b`", "class is missing"]),
        (b"a,b\n\xff,x\n", &["column `a`", "UTF-8"]),
        (b"a;b\n1;x\n", &["delimiter"]),
        (b"a,b\n1,0.5\n2,0.25\n", &["column `b`", "are fractions"]),
    ] {
        let message = read(text, &plain);
        assert!(parts.iter().all(|part| message.contains(part)), "{message} lacks {parts:?}");
    }
    let text = b"width,height,label\n1,2,x\n";
    let column = |name: &str| CsvOptions { target_column: Some(name.into()), ..plain.clone() };
    let message = read(text, &column("lable"));
    for part in ["no column `lable`", "`width`, `height`, `label`", "did you mean `label`"] {
        assert!(message.contains(part), "{message}");
    }
    let among = CsvOptions { columns: Some(vec!["label".into()]), ..plain.clone() };
    assert!(read(text, &among).contains("among the inputs"));
    assert!(read(b"a,a,b\n1,1,1\n", &column("a")).contains("twice"));
    let number = CsvOptions { target: Target::Number, ..plain.clone() };
    assert!(read(text, &number).contains("`x` is not a number"));
    let integers = CsvOptions { target: Target::Integers, ..plain.clone() };
    assert!(read(b"a,b\n1,1.5\n", &integers).contains("not an integer"));
    let given = CsvOptions { classes: Some(vec!["y".into()]), ..plain.clone() };
    assert!(read(text, &given).contains("no class `x`"));
    let dims = CsvOptions { input_dims: Some(vec![3]), ..plain };
    assert!(read(text, &dims).contains("3 were expected, 2 found"));
}

#[test]
fn tables_of_numbers_and_with_marks_of_byte_order() {
    let folder = Folder::new();
    let path = folder.file("t.csv", b"\xef\xbb\xbfa, b\n 1 , 2.5\n3,-1e-3\n");
    let options = CsvOptions { target: Target::Number, scale: Some(2.0), ..CsvOptions::default() };
    let data = ArrayDataset::from_csv(&path, &options).unwrap();
    assert_eq!(data.targets(), &Values::F32(vec![2.5, -1e-3]));
    assert_eq!(data.inputs(), &Values::F32(vec![2.0, 6.0]));
    let named = CsvOptions { target_column: Some("a".into()), ..CsvOptions::default() };
    assert_eq!(ArrayDataset::from_csv(&path, &named).unwrap().classes(), ["1", "3"]);
}
