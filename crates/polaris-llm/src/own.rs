//! Keys of our own in metadata: what `config.json` of Hugging Face says and GGUF has no key for. They come before the
//! rules of an architecture.

use polaris_gguf::Metadata;
use polaris_ops::Pairing;

use crate::{Error, Result};

/// Which elements of a head are rotated together: GGUF's files of some architectures have rows in another order.
pub const PAIRING: &str = "polaris.rope.pairing";
/// Whether each layer rotates.
pub const ROTATED_LAYERS: &str = "polaris.rope.layers";
/// Whether the ramp of YaRN begins and ends at whole pairs.
pub const YARN_TRUNCATES: &str = "polaris.rope.yarn_truncates";
/// Whether each layer slides.
pub const SLIDING_LAYERS: &str = "polaris.attention.sliding_layers";
/// By what scores are multiplied.
pub const ATTENTION_SCALE: &str = "polaris.attention.scale";

const PAIRINGS: [(&str, Pairing); 2] =
    [("halves", Pairing::Halves), ("adjacent", Pairing::Adjacent)];

/// The name of a pairing.
pub fn name_of(pairing: Pairing) -> &'static str {
    PAIRINGS.iter().find(|known| known.1 == pairing).map_or("", |known| known.0)
}

/// The pairing, if it is stated.
pub fn pairing(metadata: &Metadata) -> Result<Option<Pairing>> {
    let Some(name) = metadata.get::<&str>(PAIRING)? else { return Ok(None) };
    let known = PAIRINGS.iter().find(|known| known.0 == name);
    known.map(|known| Some(known.1)).ok_or_else(|| {
        let name = polaris_core::printable(name);
        Error::model(format!("`{PAIRING}` is `{name}`; accepted are halves and adjacent"))
    })
}

/// A switch for each layer, if they are stated.
pub fn layers(metadata: &Metadata, key: &str, count: usize) -> Result<Option<Vec<bool>>> {
    match metadata.list::<bool>(key)? {
        Some(list) if list.len() != count => {
            let found = list.len();
            Err(Error::model(format!("`{key}` has {found} entries for {count} layers")))
        }
        list => Ok(list),
    }
}

/// By what scores are multiplied, if it is stated.
pub fn attention_scale(metadata: &Metadata) -> Result<Option<f64>> {
    let scale = metadata.get::<f32>(ATTENTION_SCALE)?.map(f64::from);
    match scale {
        Some(scale) if !scale.is_finite() => {
            Err(Error::model(format!("`{ATTENTION_SCALE}` is {scale}")))
        }
        scale => Ok(scale),
    }
}
