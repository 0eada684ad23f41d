//! Parts of layers that few architectures have: compressed keys, chosen positions, limits of gates,
//! queries scaled by position, xIELU.

use polaris_gguf::PerLayer;

use super::Keys;
use crate::architecture::{Activation, Temperature};
use crate::{Error, Result};

/// Multi-head latent attention: keys and values of all heads are products of one vector, which is cached in their
/// place, together with the part of keys that is rotated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Latent {
    /// Elements of the vector.
    pub rank: usize,
    /// The last elements of each query and key, which are rotated; keys share them.
    pub rotated: usize,
}

/// Whether a token sees only what is before it.
pub(super) fn causal(keys: &Keys, windows: &[Option<usize>], alibi: Option<f64>) -> Result<bool> {
    let causal = keys.architecture.causal && keys.get("attention.causal")?.unwrap_or(true);
    match !causal && (alibi.is_some() || windows.iter().any(Option::is_some)) {
        true => Err(Error::model("it sees later tokens, but has windows or slopes")),
        false => Ok(causal),
    }
}

/// The positions that an indexer chooses for attention.
pub(super) fn chosen_positions(keys: &Keys) -> Result<Option<usize>> {
    let count = keys.count("attention.indexer.top_k")?.filter(|&count| count > 0);
    // Blocks of positions, if there are any.
    let block = keys.count("attention.indexer.block_size")?.unwrap_or(1).max(1);
    Ok(count.map(|count| count.saturating_mul(block)))
}

/// The limits of gated products in each layer, of experts and of dense networks, for architectures that have them.
pub(super) fn limits(keys: &Keys, all: usize) -> Result<Vec<[f64; 2]>> {
    let of = |key: &str| -> Result<Option<PerLayer<f32>>> {
        match keys.architecture.limits {
            true => Ok(keys.metadata.per_layer(&keys.name(key), all)?),
            false => Ok(None),
        }
    };
    let (experts, dense) = (of("swiglu_clamp_exp")?, of("swiglu_clamp_shexp")?);
    let limit = |values: &Option<PerLayer<f32>>, layer: usize| {
        values.as_ref().map_or(0.0, |values| f64::from(values.of(layer)))
    };
    Ok((0..all).map(|layer| [limit(&experts, layer), limit(&dense, layer)]).collect())
}

/// Sizes of compressed keys and values.
pub(super) fn latent(keys: &Keys) -> Result<Option<Latent>> {
    match keys.count("attention.kv_lora_rank")? {
        None | Some(0) => Ok(None),
        Some(rank) => Ok(Some(Latent { rank, rotated: keys.require("rope.dimension_count")? })),
    }
}

/// The size of heads that are cached in a compressed form, in files that have it apart.
pub(super) fn mla_sizes(
    keys: &Keys,
    key: &str,
    otherwise: [Option<usize>; 2],
) -> Result<[Option<usize>; 2]> {
    let own = keys.count(&format!("attention.{key}_mla"))?.filter(|&size| size > 0);
    Ok(own.map_or(otherwise, |size| [Some(size); 2]))
}

/// How queries are scaled by position: scale, length, offset.
pub(super) fn temperature(keys: &Keys, context: usize) -> Result<Option<(f64, f64, f64)>> {
    Ok(match keys.architecture.temperature {
        Temperature::None => None,
        Temperature::Unrotated { scale, length, offset } => Some((scale, length, offset)),
        Temperature::Key | Temperature::LengthKey => {
            let scale = keys.number("attention.temperature_scale", 0.0)?;
            let length = match keys.architecture.temperature {
                Temperature::LengthKey => keys.count("attention.temperature_length")?,
                _ => Some(keys.count("rope.scaling.original_context_length")?.unwrap_or(context)),
            };
            let length = length.unwrap_or(0).max(1);
            (scale != 0.0).then_some((scale, length as f64, 0.0))
        }
    })
}

/// The parameters of xIELU for each layer.
pub(super) fn xielu(keys: &Keys, count: usize) -> Result<Vec<[f64; 4]>> {
    if keys.architecture.activation != Activation::Xielu {
        return Ok(Vec::new());
    }
    let each = |key: &str| -> Result<PerLayer<f32>> {
        let missing = || Error::model(format!("its metadata do not have `{key}`"));
        keys.metadata.per_layer(key, count)?.ok_or_else(missing)
    };
    let all = ["xielu.alpha_n", "xielu.alpha_p", "xielu.beta", "xielu.eps"].map(each);
    let [alpha_n, alpha_p, beta, epsilon] = all;
    let (alpha_n, alpha_p, beta, epsilon) = (alpha_n?, alpha_p?, beta?, epsilon?);
    let softplus = |x: f64| x.max(0.0) + (-x.abs()).exp().ln_1p();
    let of = |layer| {
        let [alpha_n, alpha_p, beta, epsilon] =
            [&alpha_n, &alpha_p, &beta, &epsilon].map(|each| f64::from(each.of(layer)));
        [beta + softplus(alpha_n), softplus(alpha_p), beta, epsilon]
    };
    Ok((0..count).map(of).collect())
}

/// The caps of [`Activation::Situ`].
pub(super) fn situ(keys: &Keys) -> Result<[f64; 2]> {
    if keys.architecture.activation != Activation::Situ {
        return Ok([0.0; 2]);
    }
    let [gate, up] = ["activation.situ_beta", "activation.situ_linear_beta"];
    match keys.number(gate, 1.0)? {
        cap if cap > 0.0 => Ok([cap, keys.number(up, 0.0)?]),
        cap => {
            Err(Error::model(format!("`{}` is {cap}; expected is more than 0", keys.name(gate))))
        }
    }
}
