//! IDX files, the format of MNIST, plain or gzip-compressed.

use std::io::Read;
use std::path::Path;

use crate::binary::{self, Element, Stored};
use crate::npy::{NpyArray, bytes};
use crate::{ArrayDataset, ArrayOptions, Error, Kind, Result, files};

impl ArrayDataset {
    /// A data set of two IDX files, such as `train-images-idx3-ubyte.gz` and
    /// `train-labels-idx1-ubyte.gz`.
    ///
    /// Bytes are scaled to 0..1 unless the options say otherwise, and images without a channel
    /// get one: `[H, W]` becomes `[1, H, W]`.
    pub fn from_idx(
        inputs: impl AsRef<Path>,
        targets: impl AsRef<Path>,
        options: &ArrayOptions,
    ) -> Result<Self> {
        let (inputs_path, targets_path) = (inputs.as_ref(), targets.as_ref());
        let (element, inputs) = load(inputs_path, options.input_kind)?;
        let (_, targets) = load(targets_path, options.target_kind())?;
        let mut options = options.clone();
        if element == Element::U1 && options.input_kind == Kind::F32 && options.scale.is_none() {
            options.scale = Some(1.0 / 255.0);
        }
        if let ([_, height, width], None) = (inputs.dims.as_slice(), &options.input_dims) {
            options.input_dims = Some(vec![1, *height, *width]);
        }
        Self::from_arrays((inputs_path, inputs), (targets_path, targets), &options)
    }
}

/// Reads an IDX file as the kind requested.
fn load(path: &Path, kind: Kind) -> Result<(Element, NpyArray)> {
    let mut input = files::open(path)?;
    decode(&mut input.reader, input.most, input.exact, kind).map_err(|reason| Error::Format {
        path: path.into(),
        format: "IDX",
        reason,
    })
}

fn decode(
    reader: &mut dyn Read,
    most: u64,
    exact: bool,
    kind: Kind,
) -> std::result::Result<(Element, NpyArray), String> {
    let start = bytes(reader, 4)?;
    if start[..2] != [0, 0] {
        return Err("it does not start with two zero bytes".into());
    }
    let element = match start[2] {
        0x08 => Element::U1,
        0x09 => Element::I1,
        0x0b => Element::I2,
        0x0c => Element::I4,
        0x0d => Element::F4,
        0x0e => Element::F8,
        other => return Err(format!("its element type 0x{other:02x} is unknown")),
    };
    let rank = usize::from(start[3]);
    let sizes = bytes(reader, 4 * rank)?;
    let dims: Vec<usize> = sizes
        .chunks_exact(4)
        .map(|b| b.iter().fold(0, |size, &byte| size << 8 | usize::from(byte)))
        .collect();
    let most = most.saturating_sub((4 + 4 * rank) as u64);
    let count = binary::count(&dims, element, most)?;
    let stored = Stored { element, big_endian: true, count, certain: exact };
    let values = binary::read(reader, stored, kind)?;
    // Unlike NumPy's, these files hold one array and nothing else; reading on also makes gzip
    // compare its checksum.
    let mut more = Vec::new();
    reader.take(1).read_to_end(&mut more).map_err(|e| e.to_string())?;
    if !more.is_empty() {
        return Err(format!("it continues after its {count} values"));
    }
    Ok((element, NpyArray { dims, values }))
}
