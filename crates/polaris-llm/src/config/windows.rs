//! Which layers slide, and how far they see.

use super::{Keys, switches};
use crate::architecture::Rotated;
use crate::{Error, Result, own};

/// How far each layer sees, if not everything.
pub(super) fn windows(keys: &Keys, count: usize) -> Result<Vec<Option<usize>>> {
    let rule = keys.architecture.window;
    let size = keys.count("attention.sliding_window")?.unwrap_or(rule.default);
    if let Some(slides) = own::layers(keys.metadata, own::SLIDING_LAYERS, count)? {
        if size == 0 && slides.contains(&true) {
            let name = keys.name("attention.sliding_window");
            return Err(Error::model(format!("its metadata do not have `{name}`")));
        }
        return Ok(slides.into_iter().map(|slides| slides.then_some(size)).collect());
    }
    let size = if size > 0 && rule.fixed > 0 { rule.fixed } else { size };
    if size == 0 && keys.architecture.rotated == Rotated::Sliding {
        let name = keys.name("attention.sliding_window");
        return Err(Error::model(format!("its metadata do not have `{name}`")));
    }
    let slides_at_all = rule.period > 0 && size > 0 && (rule.layers == 0 || rule.layers == count);
    if !slides_at_all {
        return Ok(vec![None; count]);
    }
    let key = "attention.sliding_window_pattern";
    let is_list =
        matches!(keys.metadata.value(&keys.name(key)), Some(polaris_gguf::Value::Array(_)));
    let list = if is_list && rule.list { Some(switches(keys, key, count)?) } else { None };
    if let Some(list) = list {
        if list.len() < count {
            return Err(Error::model(format!(
                "`{}` has {} entries for {count} layers",
                keys.name(key),
                list.len()
            )));
        }
        return Ok(list[..count].iter().map(|&slides| slides.then_some(size)).collect());
    }
    let period = if is_list { rule.period } else { keys.count(key)?.unwrap_or(rule.period) };
    let slides = |layer: usize| match (period, rule.first) {
        (0, _) => true,
        (period, true) => !layer.is_multiple_of(period),
        (period, false) => layer % period < period - 1,
    };
    Ok((0..count).map(|layer| slides(layer).then_some(size)).collect())
}
