//! `polaris export`: writes a trained model as ONNX or GGUF.

use std::path::{Path, PathBuf};

use anyhow::bail;
use polaris::nn::Module;
use polaris::nn::export::{End, Gguf, Length, Onnx};
use polaris::nn::quantize::{Quantize, Quantizers};
use polaris::nn::tensors_file::write_atomically;
use polaris::nn::train::{Config, ConfigTable, ModelFile};
use serde::Serialize;

use super::eval::model_path;
use super::train::{changed, chosen_device};
use crate::arguments::{Export, Global, WeightType};
use crate::exit::{self, Usage};
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

/// The same for GGUF.
#[derive(Serialize)]
struct ExportedGguf<'a> {
    model: PathBuf,
    path: &'a Path,
    bytes: usize,
    r#type: &'static str,
    tensors: usize,
    vocabulary: usize,
    context: usize,
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
    let is_gguf = path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("gguf"));
    if !is_gguf && options.r#type.is_some() {
        let what = "--type is for GGUF; name a file that ends in .gguf with --out";
        return Err(Usage(what.to_owned()).into());
    }
    let mut session = Session::on_cpu(global)?;
    let device = chosen_device(&mut session, "cpu")?;
    let (about, module) = ModelFile::load(&model, &device)?;
    let quantize = match options.set.is_empty() {
        true => about.config.quantize.clone(),
        false => round_weights(&about, &*module, &options.set)?,
    };
    match is_gguf {
        true => export_gguf(&about, &*module, &quantize, model, options, json)?,
        false => export_onnx(&about, &*module, model, path, json)?,
    }
    Ok(exit::OK)
}

/// Rounds the weights of a model that was trained without, by the values of the command line.
fn round_weights(
    about: &ModelFile,
    module: &dyn Module,
    set: &[String],
) -> anyhow::Result<Quantize> {
    let config = changed(&ConfigTable::of(&about.config)?, set)?;
    let same = Config { quantize: about.config.quantize.clone(), ..config.clone() };
    let quantize = config.quantize;
    if same != about.config {
        return Err(Usage("--set of an export is for values of [quantize] only".to_owned()).into());
    }
    if !about.config.quantize.is_off() {
        bail!("the model was trained with [quantize]; export it as it is, without --set");
    }
    if quantize.activations > 0 || quantize.start > 0 || quantize.after > 0 {
        bail!(
            "ranges of activations, and bits that rise, need a training: `polaris train` with --set \
             train.start=MODEL begins with this model"
        );
    }
    Quantizers::attach(module, &quantize)?.set_bits(quantize.weights)?;
    Ok(quantize)
}

fn export_onnx(
    about: &ModelFile,
    module: &dyn Module,
    model: PathBuf,
    path: &Path,
    json: bool,
) -> anyhow::Result<()> {
    let onnx = Onnx::of(about, module)?;
    write_atomically(path, &onnx.bytes)?;
    let (bytes, Onnx { opset, input, output, .. }) = (onnx.bytes.len(), onnx);
    if json {
        let exported = Exported { model, path, bytes, opset, input, output };
        return output::print_json("polaris.export/1", &exported);
    }
    let end = |end: &End| {
        let lengths = end.shape.iter().map(|length| match length {
            Length::Known(length) => length.to_string(),
            Length::Open(name) => (*name).to_owned(),
        });
        format!("`{}`, {} [{}]", end.name, end.element, lengths.collect::<Vec<_>>().join(", "))
    };
    let (shown, model) = (path.display(), model.display());
    print_line(&format!("exported {model} to {shown}: {bytes} bytes of ONNX, opset {opset}"))?;
    print_line(&format!("  input   {}", end(&input)))?;
    print_line(&format!("  output  {}", end(&output)))
}

fn export_gguf(
    about: &ModelFile,
    module: &dyn Module,
    quantize: &Quantize,
    model: PathBuf,
    options: &Export,
    json: bool,
) -> anyhow::Result<()> {
    let path = &*options.out;
    let name = path.file_stem().map_or("model".into(), |stem| stem.to_string_lossy());
    // A type that keeps the integers of weights in groups of its blocks.
    let own = match quantize {
        Quantize { weights: 2..=4, group: 32, .. } => WeightType::Q4_0,
        Quantize { weights: 5..=8, group: 32, .. } => WeightType::Q8_0,
        _ => WeightType::F16,
    };
    let ty = options.r#type.unwrap_or(own).tensor_type();
    let gguf = Gguf::of(about, module, &name, ty)?;
    write_atomically(path, &gguf.bytes)?;
    let Gguf { bytes, tensors, vocabulary, context } = gguf;
    let bytes = bytes.len();
    if json {
        let r#type = ty.name();
        let exported = ExportedGguf { model, path, bytes, r#type, tensors, vocabulary, context };
        return output::print_json("polaris.export.gguf/1", &exported);
    }
    let (shown, model) = (path.display(), model.display());
    print_line(&format!("exported {model} to {shown}: {bytes} bytes of GGUF, matrices in {ty}"))?;
    print_line(&format!("  {tensors} tensors, {vocabulary} tokens, a context of {context}"))?;
    print_line(&format!("  try: polaris generate {shown} -p 'And the'"))
}
