//! Writes a copy of a GGUF model with its matrices in another type:
//!
//! ```text
//! cargo run -p polaris-gguf --example quantize -- IN.gguf OUT.gguf Q8_0
//! ```
//!
//! Vectors stay as they are, as do rows that do not end with a block. One tensor at a time is in memory beside the file.
//! `bench/gguf/golden.py --check IN.gguf OUT.gguf Q8_0` compares the result with the Python package's.

use std::env;
use std::error::Error;
use std::io;
use std::path::Path;

use bytes::Bytes;
use polaris_gguf::{Gguf, TensorType, Writer, quantize};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [from, to, ty] = arguments.as_slice() else {
        return Err("usage: IN.gguf OUT.gguf TYPE".into());
    };
    let ty = TensorType::ALL.into_iter().find(|known| known.name() == ty).ok_or("no such type")?;

    let gguf =
        Gguf::open(Path::new(from), |path| polaris_files::read(path, u64::MAX).map(Bytes::from))?;
    let mut writer = Writer::new();
    for (key, value) in gguf.metadata().iter().filter(|(key, _)| !key.starts_with("split.")) {
        writer.set(key, value)?;
    }
    for tensor in gguf.tensors() {
        let shape = tensor.shape().dims().to_vec();
        if shape.len() < 2 || ty.bytes_of(&shape).is_none() {
            writer.tensor(tensor.name(), &shape, tensor.ty(), tensor.data())?;
            continue;
        }
        let name = tensor.name();
        writer.tensor_from(name, &shape, ty, move |out| {
            let weights = tensor.to_f32().map_err(io::Error::other)?;
            out.write_all(&quantize(ty, &weights).map_err(io::Error::other)?)
        })?;
    }
    writer.write(Path::new(to))?;
    Ok(())
}
