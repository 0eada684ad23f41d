//! Files that declare more than there is, and files that are none: an error that names them, at once.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use image::GrayImage;
use polaris_data::{
    ArrayDataset, ArrayOptions, Bpe, Bytes, CsvOptions, Dataset, ImageFolder, ImageOptions, Kind,
    Lines, PlainNpy, SentenceTokenizer, TextDataset, Tokenizer, Values, read_npy, read_npz,
    read_tokenizer,
};

/// A PNG of so many pixels that holds none.
fn png(width: u32, height: u32) -> Vec<u8> {
    let mut file = b"\x89PNG\r\n\x1a\n".to_vec();
    let mut header = [width.to_be_bytes(), height.to_be_bytes()].concat();
    // Four channels of sixteen bits.
    header.extend([16, 6, 0, 0, 0]);
    let nothing = [0x78, 0x9c, 3, 0, 0, 0, 0, 1];
    for (name, data) in [(b"IHDR", &header[..]), (b"IDAT", &nothing), (b"IEND", &[])] {
        file.extend((data.len() as u32).to_be_bytes());
        let mut sum = flate2::Crc::new();
        sum.update(name);
        sum.update(data);
        file.extend(name);
        file.extend(data);
        file.extend(sum.sum().to_be_bytes());
    }
    file
}

/// A bitmap of so many pixels that holds none.
fn bmp(width: u32, height: u32) -> Vec<u8> {
    let mut file = b"BM".to_vec();
    for word in [54, 0, 54, 40, width, height, 24 << 16 | 1, 0, 0, 0, 0, 0, 0] {
        file.extend(word.to_le_bytes());
    }
    file
}

#[test]
fn an_image_of_a_few_bytes_cannot_ask_for_gigabytes() {
    let root = tempfile::tempdir().unwrap();
    std::fs::create_dir(root.path().join("cat")).unwrap();
    let path = root.path().join("cat").join("huge.png");
    let small = png(60_000, 60_000);
    assert!(small.len() < 80, "{}", small.len());
    let portable = b"P6\n60000 60000\n255\n".to_vec();
    for (kind, bytes) in [("png", small), ("bmp", bmp(60_000, 60_000)), ("ppm", portable)] {
        std::fs::write(&path, bytes).unwrap();
        let data = ImageFolder::open(root.path(), ImageOptions::new(4, 4, 1)).unwrap();
        let (mut input, mut target) = (Values::new(Kind::F32), Values::new(Kind::I64));
        let error = data.append(0, &mut input, &mut target).unwrap_err().to_string();
        assert!(error.contains("huge.png"), "{kind}: {error}");
        assert!(
            error.contains("60000 x 60000 pixels") || error.contains("limit"),
            "{kind}: {error}"
        );
    }
    // So can the size that images are resized to.
    GrayImage::new(2, 2).save(&path).unwrap();
    let data = ImageFolder::open(root.path(), ImageOptions::new(65_536, 65_536, 3)).unwrap();
    let (mut input, mut target) = (Values::new(Kind::F32), Values::new(Kind::I64));
    let error = data.append(0, &mut input, &mut target).unwrap_err().to_string();
    assert!(error.contains("huge.png at 65536x65536") && error.contains("memory"), "{error}");
}

#[test]
fn a_table_of_one_endless_line_is_refused() {
    let endless = std::io::repeat(b'a').take(80 << 20);
    let error = ArrayDataset::from_csv_reader(Path::new("a.csv"), endless, &CsvOptions::default())
        .unwrap_err();
    assert!(error.to_string().contains("a.csv: cannot read: a line is longer"), "{error}");
}

/// Reads a file in each way there is, and gives back what each said.
fn readers(path: &Path) -> Vec<(&'static str, String)> {
    fn said<T>(result: Result<T, polaris_data::Error>) -> String {
        result.err().expect("a special file should be refused").to_string()
    }
    let arrays = ArrayOptions::default();
    vec![
        ("npy", said(read_npy(path))),
        ("plain npy", said(PlainNpy::read(path))),
        ("npz", said(read_npz(path, "x"))),
        ("idx", said(ArrayDataset::from_idx(path, path, &arrays))),
        ("csv", said(ArrayDataset::from_csv(path, &CsvOptions::default()))),
        ("text", said(TextDataset::from_file(path, &Bytes, 2, None))),
        ("bytes", said(TextDataset::from_bytes(path, 2, None))),
        ("tokenizer", said(Bpe::from_file(path))),
        ("tokenizer text", said(read_tokenizer(path))),
        ("sentences", said(SentenceTokenizer::from_file(path))),
        ("lines", said(Lines::open(path))),
    ]
}

#[cfg(unix)]
#[test]
fn special_files_are_refused_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let fifo = folder.path().join("fifo.png");
    let made = std::process::Command::new("mkfifo").arg(&fifo).status().unwrap();
    assert!(made.success());
    for (path, kind) in [(fifo.clone(), "a FIFO"), (PathBuf::from("/dev/zero"), "a device")] {
        for (reader, said) in readers(&path) {
            let name = path.display().to_string();
            assert!(said.contains(&name) && said.contains(kind), "{reader}: {said}");
        }
    }
    let root = tempfile::tempdir().unwrap();
    std::fs::create_dir(root.path().join("cat")).unwrap();
    std::fs::rename(fifo, root.path().join("cat").join("fifo.png")).unwrap();
    let data = ImageFolder::open(root.path(), ImageOptions::new(4, 4, 1)).unwrap();
    let (mut input, mut target) = (Values::new(Kind::F32), Values::new(Kind::I64));
    let error = data.append(0, &mut input, &mut target).unwrap_err().to_string();
    assert!(error.contains("fifo.png") && error.contains("a FIFO"), "{error}");
}

/// A tokenizer of letters whose texts begin with a token.
fn tokenizer(first: &str, id: u32, padding: u32) -> Vec<u8> {
    serde_json::json!({
        "version": "1.0", "truncation": { "direction": "Right", "max_length": 3, "strategy": "LongestFirst", "stride": 0 },
        "padding": { "strategy": "BatchLongest", "direction": "Right", "pad_to_multiple_of": null,
                     "pad_id": padding, "pad_type_id": 0, "pad_token": "[UNK]" },
        "added_tokens": [], "normalizer": null, "pre_tokenizer": { "type": "Whitespace" },
        "post_processor": { "type": "TemplateProcessing",
            "single": [{ "SpecialToken": { "id": first, "type_id": 0 } }, { "Sequence": { "id": "A", "type_id": 0 } }],
            "pair": [{ "Sequence": { "id": "A", "type_id": 0 } }, { "Sequence": { "id": "B", "type_id": 0 } }],
            "special_tokens": { "[CLS]": { "id": "[CLS]", "ids": [id], "tokens": ["[CLS]"] } } },
        "decoder": null,
        "model": { "type": "WordLevel", "unk_token": "[UNK]", "vocab": { "[UNK]": 0, "[CLS]": 1, "a": 2 } },
    })
    .to_string()
    .into_bytes()
}

#[test]
fn a_tokenizer_that_contradicts_itself_is_refused_when_it_is_read() {
    SentenceTokenizer::from_json(&tokenizer("[CLS]", 1, 0)).unwrap();
    for (json, what) in [
        (tokenizer("[missing]", 1, 0), "contradicts itself"),
        (tokenizer("[CLS]", 99, 0), "token 99, but its vocabulary has 3"),
        (tokenizer("[CLS]", 1, 77), "token 77, but its vocabulary has 3"),
    ] {
        let error = SentenceTokenizer::from_json(&json).unwrap_err().to_string();
        assert!(error.contains(what), "{error}");
    }
    // A text to learn from is not cut to the length that suited another program.
    let whole = Bpe::from_json(&tokenizer("[CLS]", 1, 0)).unwrap();
    assert_eq!(whole.encode(&"a ".repeat(100)).unwrap().len(), 100);
}

#[test]
fn what_is_compressed_is_read_up_to_a_limit() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tokenizer.json");
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    // More than any tokenizer has, in about a megabyte.
    let zeros = vec![b' '; 1 << 20];
    (0..257).for_each(|_| packed.write_all(&zeros).unwrap());
    std::fs::write(&path, packed.finish().unwrap()).unwrap();
    let error = read_tokenizer(&path).unwrap_err().to_string();
    assert!(error.contains("tokenizer.json") && error.contains("268435456 bytes"), "{error}");
}
