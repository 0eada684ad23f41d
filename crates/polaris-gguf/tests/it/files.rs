//! What the tests share.

use std::path::{Path, PathBuf};

use bytes::Bytes;
use polaris_gguf::{Gguf, Result, Writer};

/// The files that `bench/gguf/golden.py` made: the committed ones, or those of the folder that `POLARIS_GGUF_GOLDEN`
/// names, which may have many more blocks.
pub fn golden() -> PathBuf {
    match std::env::var_os("POLARIS_GGUF_GOLDEN") {
        Some(folder) => folder.into(),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden"),
    }
}

pub fn open(path: &Path) -> Result<Gguf> {
    Gguf::open(path, |path| polaris_files::read(path, 1 << 32).map(Bytes::from))
}

pub fn parse(bytes: &[u8]) -> Result<Gguf> {
    Gguf::from_bytes(Bytes::copy_from_slice(bytes))
}

/// What an error says, or that there is none.
pub fn message<T>(result: Result<T>) -> String {
    result.err().map_or_else(|| "no error".to_owned(), |error| error.to_string())
}

/// A writer with the metadata and the tensors of a file.
pub fn copy(gguf: &Gguf) -> Writer<'_> {
    let mut writer = Writer::new();
    for (key, value) in gguf.metadata().iter() {
        writer.set(key, value).unwrap();
    }
    for tensor in gguf.tensors() {
        writer.tensor(tensor.name(), tensor.shape(), tensor.ty(), tensor.data()).unwrap();
    }
    writer
}
