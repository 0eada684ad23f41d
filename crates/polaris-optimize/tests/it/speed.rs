//! Times of tokens, measured with small models. What they are is the machine's business; whose they are is not.

use std::time::Duration;

use bytes::Bytes;
use polaris_blocks::Block;
use polaris_gguf::{Gguf, TensorType};
use polaris_llm::{LoadOptions, Model, Source};
use polaris_optimize::speed::{SpeedOptions, TokenTimes, measure, tokens_per_second};
use polaris_optimize::{Error, Override, Plan, PlanOptions, Result};

use crate::drawn::device;
use crate::tiny::Tiny;

const ONCE: SpeedOptions =
    SpeedOptions { least: 1, enough: 1, shortest: Duration::ZERO, longest: Duration::ZERO };
const FEW: TensorType = TensorType::Block(Block::Q4_0);
const MANY: TensorType = TensorType::Block(Block::Q8_0);

fn gguf(tiny: Tiny) -> Gguf {
    Gguf::from_bytes(Bytes::from(tiny.bytes())).unwrap()
}

fn measured(gguf: &Gguf, overrides: Vec<Override>, cancelled: bool) -> Result<TokenTimes> {
    let plan = Plan::new(gguf, &PlanOptions { overrides, ..PlanOptions::default() }).unwrap();
    let is_chosen = |name: &&str| name.contains("ffn_") || name.contains("token_embd");
    let is_matrix = |name: &&str| !name.contains("norm") && !name.contains("gate_inp");
    let names = plan.tensors().iter().map(|tensor| tensor.name.as_str());
    let chosen = names.filter(is_chosen).filter(is_matrix);
    // One of them has fewer formats than the others.
    let formats: Vec<_> = chosen
        .map(|name| match name.contains("down") {
            true => (name, vec![MANY]),
            false => (name, vec![FEW, MANY]),
        })
        .collect();
    let device = device();
    let cpu = device.as_cpu().unwrap();
    measure(gguf, plan.tensors(), &formats, &device, cpu, &ONCE, &|| cancelled)
}

#[test]
fn matrices_have_times_in_their_formats() {
    for experts in [0, 2] {
        let gguf = gguf(Tiny { experts, ..Tiny::LLAMA });
        let output = Override { pattern: "output.".to_owned(), ty: TensorType::F16 };
        let times = measured(&gguf, vec![output], false).unwrap();
        assert!(times.source > 0.0 && times.rest >= 0.0, "{times:?}");
        assert_eq!(times.matrices.len(), 1 + 3 * crate::tiny::LAYERS);
        for (name, formats) in &times.matrices {
            let types: Vec<TensorType> = formats.iter().map(|&(ty, _)| ty).collect();
            match name.contains("down") {
                true => assert_eq!(types, [MANY], "{name}"),
                false => assert_eq!(types, [FEW, MANY], "{name}"),
            }
            // What is looked up is part of the rest; layers share what was measured of all of them.
            let is_table = name == "token_embd.weight";
            for &(ty, time) in formats {
                assert!(time.is_finite() && (time == 0.0) == is_table, "{name} {ty}: {time}");
                let other = name.replace("blk.0.", "blk.2.");
                assert_eq!(time, times.of(&other, ty));
            }
        }
        assert_eq!(times.of("output.weight", TensorType::F16), 0.0);
    }
}

#[test]
fn speeds_of_several_models_are_measured_in_turns() {
    let source = Source::from_gguf(&gguf(Tiny::LLAMA)).unwrap();
    let model = Model::load(&source, &device(), &LoadOptions::default(), |_| Ok(())).unwrap();
    let speeds = tokens_per_second(&[&model, &model], &ONCE, &|| false).unwrap();
    assert!(speeds.len() == 2 && speeds.iter().all(|&speed| speed > 0.0), "{speeds:?}");
    assert!(tokens_per_second(&[], &ONCE, &|| false).unwrap().is_empty());
}

#[test]
fn measuring_can_be_stopped() {
    let error = measured(&gguf(Tiny::LLAMA), Vec::new(), true).unwrap_err();
    assert!(matches!(error, Error::Llm(polaris_llm::Error::Cancelled)), "{error}");
}
