//! `polaris quantize`: makes a model smaller.

mod calibrate;
mod gguf;
mod mixed;
mod onnx;
mod page;
mod report;
mod validate;

use std::io::Read;
use std::path::Path;

use anyhow::bail;

use crate::arguments::{Global, Quantize};
use crate::exit::Usage;

pub fn run(global: Global, options: &Quantize) -> anyhow::Result<u8> {
    if let Some(out) = options.out.as_deref().filter(|_| !options.dry_run) {
        check_place(out, &options.model, "the model")?;
    }
    if options.model.is_dir() {
        bail!("{} is a folder; convert it to GGUF or ONNX first", options.model.display());
    }
    let is_gguf = is_gguf(&options.model);
    let (kind, others) = match is_gguf {
        true => ("GGUF", options.of_onnx()),
        false => ("ONNX", options.of_gguf()),
    };
    if let Some(option) = others.first() {
        return Err(Usage(format!("{option} is not for models in {kind}")).into());
    }
    if is_gguf { gguf::run(global, options) } else { onnx::run(global, options) }
}

/// Whether a file is of language models: by its first bytes, or by its name if it has none.
pub fn is_gguf(path: &Path) -> bool {
    let mut magic = [0; 4];
    match polaris::files::open(path).and_then(|(mut file, _)| file.read_exact(&mut magic)) {
        Ok(()) => magic == *b"GGUF",
        Err(_) => path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("gguf")),
    }
}

/// That a file can be written there without harm to one that is read.
pub fn check_place(out: &Path, read: &Path, what: &str) -> anyhow::Result<()> {
    if out.is_dir() {
        bail!("{} is a folder; name a file, as in -o smaller.onnx", out.display());
    }
    let same = |path: &Path| std::fs::canonicalize(path).ok();
    if out.exists() && same(out).is_some() && same(out) == same(read) {
        bail!("{} is {what} itself; name another file", out.display());
    }
    Ok(())
}
