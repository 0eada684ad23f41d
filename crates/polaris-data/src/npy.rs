//! NumPy's array files: NPY (versions 1 to 3) and NPZ, a ZIP archive of them.

use std::io::{BufReader, Read};
use std::path::Path;

use crate::binary::{self, Element, Stored};
use crate::npy_header::Header;
use crate::{ArrayDataset, ArrayOptions, Error, Kind, Result, Values, files, memory, names};

/// An array read from a file, in C order.
#[derive(Debug, Clone, PartialEq)]
pub struct NpyArray {
    /// Its dimensions; none for a single number.
    pub dims: Vec<usize>,
    /// Its numbers, the last dimension varying fastest.
    pub values: Values,
}

/// The longest header read. NumPy's own are some hundred bytes.
const LONGEST_HEADER: usize = 1 << 16;

/// Reads an NPY file: floating point as `f32`, integers and booleans as `i64`.
pub fn read_npy(path: impl AsRef<Path>) -> Result<NpyArray> {
    load_npy(path.as_ref(), None)
}

/// Reads one array of an NPZ archive by its name, which is that of its file without `.npy`.
pub fn read_npz(path: impl AsRef<Path>, name: &str) -> Result<NpyArray> {
    load_npz(path.as_ref(), name, None)
}

impl ArrayDataset {
    /// A data set of two NPY files, the first dimension of both counting the examples.
    pub fn from_npy(
        inputs: impl AsRef<Path>,
        targets: impl AsRef<Path>,
        options: &ArrayOptions,
    ) -> Result<Self> {
        let (inputs, targets) = (inputs.as_ref(), targets.as_ref());
        Self::from_arrays(
            (inputs, load_npy(inputs, Some(options.input_kind))?),
            (targets, load_npy(targets, Some(options.target_kind()))?),
            options,
        )
    }

    /// A data set of two arrays of an NPZ archive.
    pub fn from_npz(
        path: impl AsRef<Path>,
        inputs: &str,
        targets: &str,
        options: &ArrayOptions,
    ) -> Result<Self> {
        let path = path.as_ref();
        Self::from_arrays(
            (path, load_npz(path, inputs, Some(options.input_kind))?),
            (path, load_npz(path, targets, Some(options.target_kind()))?),
            options,
        )
    }
}

/// An NPY file, plain or gzip-compressed, as the kind requested or the one that suits it.
fn load_npy(path: &Path, kind: Option<Kind>) -> Result<NpyArray> {
    let mut input = files::open(path)?;
    decode(&mut input.reader, input.most, input.exact, kind).map_err(|reason| Error::Format {
        path: path.into(),
        format: "NPY",
        reason,
    })
}

/// An array of an NPZ archive.
fn load_npz(path: &Path, name: &str, kind: Option<Kind>) -> Result<NpyArray> {
    let bad = |reason: String| Error::Format { path: path.into(), format: "NPZ", reason };
    let (file, _) = polaris_files::open(path).map_err(files::io(path, "open"))?;
    let mut archive = zip::ZipArchive::new(BufReader::new(file)).map_err(|e| bad(e.to_string()))?;
    let arrays: Vec<String> =
        archive.file_names().filter_map(|n| Some(n.ok()?.strip_suffix(".npy")?.into())).collect();
    let array = &arrays[names::find(path, "array", &arrays, name)?];
    let mut entry = archive
        .by_name(&format!("{array}.npy"))
        .map_err(|e| bad(format!("array `{array}`: {e}")))?;
    // The size in the archive's directory is a claim, too; it is believed as far as the
    // compressed size makes it possible.
    let most = entry.size().min(files::most_unpacked(entry.compressed_size()));
    let array = decode(&mut entry, most, false, kind);
    array.map_err(|reason| bad(format!("array `{name}`: {reason}")))
}

/// Reads an array of which at most `most` bytes are there, and that many if `exact`.
fn decode(
    reader: &mut dyn Read,
    most: u64,
    exact: bool,
    kind: Option<Kind>,
) -> std::result::Result<NpyArray, String> {
    let (Header { element, big_endian, fortran, dims }, length) = header(reader)?;
    let most = most.saturating_sub(length as u64);
    let count = binary::count(&dims, element, most)?;
    let stored = Stored { element, big_endian, count, certain: exact };
    let values = binary::read(reader, stored, kind.unwrap_or(element.kind()))?;
    if !exact {
        // Checksums are compared at the end of what is compressed, so the end must be reached.
        std::io::copy(reader, &mut std::io::sink()).map_err(|e| e.to_string())?;
    }
    let values = if fortran && dims.len() > 1 {
        match values {
            Values::F32(values) => Values::F32(from_fortran(&values, 1, &dims)?),
            Values::I64(values) => Values::I64(from_fortran(&values, 1, &dims)?),
        }
    } else {
        values
    };
    Ok(NpyArray { dims, values })
}

/// What stands before the numbers, and how many bytes that takes.
pub(crate) fn header(reader: &mut dyn Read) -> std::result::Result<(Header, usize), String> {
    let start = bytes(reader, 8)?;
    if start[..6] != *b"\x93NUMPY" {
        return Err("it does not start with NumPy's magic bytes".into());
    }
    // Version 1 has two bytes for the header's length, later ones four.
    let long = match start[6] {
        1 => 2,
        2 | 3 => 4,
        other => return Err(format!("version {other} is unknown; expected 1, 2 or 3")),
    };
    let mut length = [0; 8];
    length[..long].copy_from_slice(&bytes(reader, long)?);
    let length = usize::try_from(u64::from_le_bytes(length)).unwrap_or(usize::MAX);
    if length > LONGEST_HEADER {
        return Err(format!("its header claims {length} bytes; {LONGEST_HEADER} is the limit"));
    }
    let header = bytes(reader, length)?;
    let header = std::str::from_utf8(&header).map_err(|_| "its header is not text".to_string())?;
    Ok((Header::parse(header)?, 8 + long + length))
}

/// Exactly so many bytes.
pub(crate) fn bytes(reader: &mut dyn Read, count: usize) -> std::result::Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    reader.take(count as u64).read_to_end(&mut bytes).map_err(|e| e.to_string())?;
    if bytes.len() < count {
        return Err(format!("it ends within its header, {} of {count} bytes there", bytes.len()));
    }
    Ok(bytes)
}

/// Brings elements of `width` values each, whose first dimension varies fastest, into C order, where the last one
/// does.
pub(crate) fn from_fortran<T: Copy>(
    values: &[T],
    width: usize,
    dims: &[usize],
) -> std::result::Result<Vec<T>, String> {
    let mut strides = Vec::with_capacity(dims.len());
    let mut stride = 1usize;
    for &dim in dims {
        strides.push(stride);
        // Products past the last dimension are not used; those of empty arrays may overflow.
        stride = stride.wrapping_mul(dim);
    }
    let mut index = vec![0; dims.len()];
    let mut from = 0;
    let mut ordered = Vec::new();
    memory::require(size_of_val(values) as u64)?;
    ordered.try_reserve_exact(values.len()).map_err(|error| error.to_string())?;
    while ordered.len() < values.len() {
        ordered.extend_from_slice(&values[from * width..][..width]);
        for axis in (0..dims.len()).rev() {
            index[axis] += 1;
            from += strides[axis];
            if index[axis] < dims[axis] {
                break;
            }
            from -= strides[axis] * dims[axis];
            index[axis] = 0;
        }
    }
    Ok(ordered)
}

/// The element type of a NumPy type description such as `<f4`.
pub(crate) fn element(descr: &str) -> std::result::Result<(Element, bool), String> {
    let unsupported = || {
        format!(
            "its type `{descr}` is not supported; expected f2, f4, f8, i1 to i8, u1 to u8 or b1 in either \
             byte order (convert with NumPy's astype)"
        )
    };
    let (order, name) = match descr.char_indices().nth(1) {
        Some((at, _)) => descr.split_at(at),
        None => return Err(unsupported()),
    };
    let element = match name {
        "f2" => Element::F2,
        "f4" => Element::F4,
        "f8" => Element::F8,
        "i1" => Element::I1,
        "u1" => Element::U1,
        "i2" => Element::I2,
        "u2" => Element::U2,
        "i4" => Element::I4,
        "u4" => Element::U4,
        "i8" => Element::I8,
        "u8" => Element::U8,
        "b1" => Element::B1,
        _ => return Err(unsupported()),
    };
    match order {
        "<" => Ok((element, false)),
        ">" => Ok((element, true)),
        "|" if element.width() == 1 => Ok((element, false)),
        _ => Err(unsupported()),
    }
}
