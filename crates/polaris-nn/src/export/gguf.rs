//! Language models as GGUF, the file format of llama.cpp, which `polaris-llm` reads too.

use half::f16;
use polaris_core::DType;
use polaris_gguf::{TensorType, Writer, quantize};
use polaris_tensor::no_grad;

use super::refusal;
use super::vocabulary::Vocabulary;
use crate::models::{Llama, Model};
use crate::quantize::{IntegerWeight, is_of_quantizer};
use crate::train::ModelFile;
use crate::{Module, Pass, Result, parameters};

/// The architecture that readers know the structure by.
const ARCHITECTURE: &str = "llama";

/// The version of block formats, which readers of quantised files ask for.
const QUANTIZATION_VERSION: u32 = 2;

/// Each message between the tokens of ChatML, as the bundled dialogs have them.
const CHAT_TEMPLATE: &str = "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + \
     '<|im_end|>\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

/// A model as a file of GGUF.
#[derive(Debug, Clone, PartialEq)]
pub struct Gguf {
    /// The file.
    pub bytes: Vec<u8>,
    /// How many tensors it has.
    pub tensors: usize,
    /// How many tokens its vocabulary has.
    pub vocabulary: usize,
    /// How many tokens it was trained to see at once.
    pub context: usize,
}

impl Gguf {
    /// A trained model of the kind `llama`, its matrices in a type. Norms stay `f32`; matrices whose rows do not end
    /// with a block of the type become `f16`. Weights that were trained as integers keep these in Q4_0 and Q8_0, where
    /// groups are of whole blocks; their scales become `f16`. Q4_0 is for those of up to four bits, if there are some: a first
    /// or last layer that has more of its own is Q8_0 then.
    ///
    /// # Errors
    /// `NoExport` for a model of another kind, a tokenizer that GGUF has no name for, or a type that nothing here
    /// encodes.
    pub fn of(about: &ModelFile, model: &dyn Module, name: &str, ty: TensorType) -> Result<Self> {
        let Model::Llama(llama) = &about.config.model else {
            return Err(refusal("only models of the kind `llama` are written as GGUF".to_owned()));
        };
        let vocabulary = Vocabulary::new(about.tokenizer.as_deref(), about.outputs)?;
        let context: usize = about.input.iter().product();
        let failed = |error: polaris_gguf::Error| refusal(error.to_string());
        let mut writer = Writer::new();
        write_metadata(&mut writer, llama, name, context).map_err(failed)?;
        write_vocabulary(&mut writer, &vocabulary).map_err(failed)?;
        if matches!(ty, TensorType::Block(_)) {
            let key = "general.quantization_version";
            writer.set(key, QUANTIZATION_VERSION).map_err(failed)?;
        }
        let mut parameters = parameters(model);
        parameters.retain(|(name, _)| !is_of_quantizer(name));
        let integers: Vec<Option<IntegerWeight>> = no_grad(|| {
            parameters.iter().map(|(_, parameter)| parameter.integers()).collect::<Result<_>>()
        })?;
        let is_narrow = |weight: &IntegerWeight| weight.bits <= 4;
        let mixed = ty == TensorType::Q4_0 && integers.iter().flatten().any(is_narrow);
        for ((own, parameter), integers) in parameters.iter().zip(&integers) {
            let name = tensor_name(own)
                .ok_or_else(|| refusal(format!("GGUF has no name for the tensor `{own}`")))?;
            let tensor = no_grad(|| parameter.value(&Pass::evaluation()))?.detach();
            let dims = tensor.dims();
            let ty = match dims {
                [_] => TensorType::F32,
                _ if ty.bytes_of(dims).is_none() => TensorType::F16,
                // Both have blocks of as many elements.
                _ if mixed && integers.as_ref().is_some_and(|own| !is_narrow(own)) => {
                    TensorType::Q8_0
                }
                _ => ty,
            };
            let bytes = match integers.as_ref().and_then(|weight| blocks(weight, ty)) {
                Some(blocks) => blocks,
                None => {
                    let values: Vec<f32> = tensor.to_dtype(DType::F32)?.to_vec()?;
                    quantize(ty, &values).map_err(failed)?
                }
            };
            writer.tensor(&name, dims, ty, bytes).map_err(failed)?;
        }
        Ok(Self {
            bytes: writer.into_bytes().map_err(failed)?,
            tensors: parameters.len(),
            vocabulary: vocabulary.tokens.len(),
            context,
        })
    }
}

/// Elements of a block of Q4_0 and Q8_0.
const BLOCK: usize = 32;

/// Integers as blocks of a type, if it has their levels and a scale for each of their groups.
fn blocks(weight: &IntegerWeight, ty: TensorType) -> Option<Vec<u8>> {
    let IntegerWeight { bits, columns, group, levels, scales, .. } = weight;
    let is_narrow = match ty {
        TensorType::Q4_0 => true,
        TensorType::Q8_0 => false,
        _ => return None,
    };
    let fits = columns.is_multiple_of(BLOCK) && (group.is_multiple_of(BLOCK) || group == columns);
    if !fits || (is_narrow && *bits > 4) {
        return None;
    }
    let groups = columns.div_ceil(*group);
    let mut bytes = Vec::new();
    for (row, levels) in levels.chunks(*columns).enumerate() {
        for (at, block) in levels.chunks(BLOCK).enumerate() {
            let scale = scales[row * groups + at * BLOCK / group];
            bytes.extend(f16::from_f32(scale).to_le_bytes());
            if is_narrow {
                // The first half of a block is in the lower bits; zero is 8.
                let (low, high) = block.split_at(BLOCK / 2);
                let unsigned = |level: &i8| (level + 8) as u8;
                let pairs = low.iter().zip(high);
                bytes.extend(pairs.map(|(low, high)| unsigned(low) | unsigned(high) << 4));
            } else {
                bytes.extend(block.iter().map(|&level| level as u8));
            }
        }
    }
    Some(bytes)
}

fn write_metadata(
    writer: &mut Writer<'_>,
    llama: &Llama,
    name: &str,
    context: usize,
) -> polaris_gguf::Result<()> {
    writer.set("general.architecture", ARCHITECTURE)?;
    writer.set("general.name", name)?;
    let head = llama.width / llama.heads.max(1);
    for (key, value) in [
        ("block_count", llama.layers),
        ("context_length", context),
        ("embedding_length", llama.width),
        ("feed_forward_length", llama.feed_forward),
        ("attention.head_count", llama.heads),
        ("attention.head_count_kv", llama.kv_heads),
        ("rope.dimension_count", head),
    ] {
        writer.set(&format!("{ARCHITECTURE}.{key}"), value as u32)?;
    }
    for (key, value) in
        [("attention.layer_norm_rms_epsilon", Llama::EPSILON), ("rope.freq_base", llama.rope_theta)]
    {
        writer.set(&format!("{ARCHITECTURE}.{key}"), value as f32)?;
    }
    Ok(())
}

fn write_vocabulary(writer: &mut Writer<'_>, vocabulary: &Vocabulary) -> polaris_gguf::Result<()> {
    writer.set("tokenizer.ggml.model", "gpt2")?;
    writer.set("tokenizer.ggml.pre", "gpt-2")?;
    writer.set("tokenizer.ggml.tokens", &vocabulary.tokens[..])?;
    writer.set("tokenizer.ggml.token_type", &vocabulary.kinds[..])?;
    writer.set("tokenizer.ggml.merges", &vocabulary.merges[..])?;
    writer.set("tokenizer.ggml.add_bos_token", false)?;
    let [end, start, stop] = polaris_data::DIALOG_TOKENS.map(|text| vocabulary.id(text));
    if let Some(end) = end {
        writer.set("tokenizer.ggml.bos_token_id", end)?;
        writer.set("tokenizer.ggml.eos_token_id", end)?;
    }
    if let (Some(_), Some(stop)) = (start, stop) {
        writer.set("tokenizer.ggml.eot_token_id", stop)?;
        writer.set("tokenizer.chat_template", CHAT_TEMPLATE)?;
    }
    Ok(())
}

/// The name that GGUF has for a parameter.
fn tensor_name(own: &str) -> Option<String> {
    let outer = match own {
        "token_embedding.weight" => Some("token_embd.weight"),
        "norm.weight" => Some("output_norm.weight"),
        "head.weight" => Some("output.weight"),
        _ => None,
    };
    if let Some(outer) = outer {
        return Some(outer.to_owned());
    }
    let (block, part) = own.strip_prefix("blocks.")?.split_once('.')?;
    let part = match part {
        "norm1.weight" => "attn_norm",
        "attention.query.weight" => "attn_q",
        "attention.key.weight" => "attn_k",
        "attention.value.weight" => "attn_v",
        "attention.output.weight" => "attn_output",
        "norm2.weight" => "ffn_norm",
        "feed_forward.gate.weight" => "ffn_gate",
        "feed_forward.up.weight" => "ffn_up",
        "feed_forward.down.weight" => "ffn_down",
        _ => return None,
    };
    Some(format!("blk.{block}.{part}.weight"))
}
