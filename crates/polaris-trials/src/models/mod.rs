//! Valid models, built in code: one for each part of the engine that damage shall reach.

mod build;
mod networks;
mod structures;

pub use build::*;

use polaris_onnx::messages::Model;

/// A model with the files next to it.
#[derive(Debug, Clone)]
pub struct Sample {
    pub name: &'static str,
    pub model: Model,
    /// Files that its constants lie in.
    pub files: Vec<(&'static str, Vec<u8>)>,
}

/// All of them.
pub fn all() -> Vec<Sample> {
    let plain = |name, model| Sample { name, model, files: Vec::new() };
    let (external, data) = structures::external();
    vec![
        plain("mlp", networks::mlp()),
        plain("convolutions", networks::convolutions()),
        plain("attention", networks::attention()),
        plain("recurrent", networks::recurrent()),
        plain("quantized", networks::quantized()),
        plain("integers", networks::integers()),
        plain("images", networks::images()),
        plain("control", structures::control()),
        plain("functions", structures::functions()),
        plain("shapes", structures::shapes()),
        plain("sequences", structures::sequences()),
        plain("strings", structures::texts_of()),
        plain("trees", structures::trees()),
        plain("indices", structures::indices()),
        plain("signals", structures::signals()),
        Sample { name: "external", model: external, files: vec![("weights.bin", data)] },
    ]
}
