//! `polaris export`: writes a trained model as ONNX.

use std::path::{Path, PathBuf};

use anyhow::bail;
use polaris::nn::export::{End, Length, OPSET, Onnx};
use polaris::nn::tensors_file::write_atomically;
use polaris::nn::train::ModelFile;
use serde::Serialize;

use super::eval::model_path;
use super::train::chosen_device;
use crate::arguments::{Export, Global};
use crate::exit;
use crate::output::{self, print_line};
use crate::session::Session;

#[derive(Serialize)]
struct Exported<'a> {
    model: PathBuf,
    path: &'a Path,
    bytes: usize,
    opset: i64,
    input: End,
    output: End,
}

pub fn run(global: Global, options: &Export) -> anyhow::Result<u8> {
    let json = global.json;
    let (model, path) = (model_path(&options.model)?, &options.out);
    if path.is_dir() {
        bail!("{} is a folder; name a file, as in --out model.onnx", path.display());
    }
    if path.exists() && std::fs::canonicalize(path)? == std::fs::canonicalize(&model)? {
        bail!("{} is the model itself; name another file", path.display());
    }
    let mut session = Session::on_cpu(global)?;
    let device = chosen_device(&mut session, "cpu")?;
    let (about, module) = ModelFile::load(&model, &device)?;
    let onnx = Onnx::of(&about, &*module)?;
    write_atomically(path, &onnx.bytes)?;
    let (bytes, Onnx { input, output, .. }) = (onnx.bytes.len(), onnx);
    let exported = Exported { model, path, bytes, opset: OPSET, input, output };
    match json {
        true => output::print_json("polaris.export/1", &exported)?,
        false => print(&exported)?,
    }
    Ok(exit::OK)
}

fn print(exported: &Exported<'_>) -> anyhow::Result<()> {
    let end = |end: &End| {
        let lengths = end.shape.iter().map(|length| match length {
            Length::Known(length) => length.to_string(),
            Length::Open(name) => (*name).to_owned(),
        });
        format!("`{}`, {} [{}]", end.name, end.element, lengths.collect::<Vec<_>>().join(", "))
    };
    let (path, model) = (exported.path.display(), exported.model.display());
    print_line(&format!(
        "exported {model} to {path}: {} bytes of ONNX, opset {OPSET}",
        exported.bytes
    ))?;
    print_line(&format!("  input   {}", end(&exported.input)))?;
    print_line(&format!("  output  {}", end(&exported.output)))
}
