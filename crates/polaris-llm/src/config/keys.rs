//! Metadata under the name of an architecture, with limits of what they may say.

use polaris_gguf::{FromValue, Metadata, PerLayer};

use super::MOST_ELEMENTS;
use crate::architecture::Architecture;
use crate::{Error, Result};

/// Metadata of an architecture.
pub(crate) struct Keys<'a> {
    pub metadata: &'a Metadata,
    pub architecture: &'static Architecture,
}

impl<'a> Keys<'a> {
    pub fn name(&self, key: &str) -> String {
        format!("{}.{key}", self.architecture.name)
    }

    pub fn get<T: FromValue<'a>>(&self, key: &str) -> Result<Option<T>> {
        Ok(self.metadata.get(&self.name(key))?)
    }

    pub fn number(&self, key: &str, default: f64) -> Result<f64> {
        let value = self.get::<f32>(key)?.map_or(default, f64::from);
        match value.is_finite() {
            true => Ok(value),
            false => Err(Error::model(format!("`{}` is {value}", self.name(key)))),
        }
    }

    pub fn count(&self, key: &str) -> Result<Option<usize>> {
        let Some(value) = self.get::<u64>(key)? else { return Ok(None) };
        match usize::try_from(value) {
            Ok(value) if value <= MOST_ELEMENTS => Ok(Some(value)),
            _ => Err(Error::model(format!("`{}` is {value}, which is too large", self.name(key)))),
        }
    }

    pub fn require(&self, key: &str) -> Result<usize> {
        let missing = || Error::model(format!("its metadata do not have `{}`", self.name(key)));
        match self.count(key)?.ok_or_else(missing)? {
            0 => Err(Error::model(format!("`{}` is 0", self.name(key)))),
            value => Ok(value),
        }
    }

    pub fn per_layer(&self, key: &str, layers: usize) -> Result<Option<Vec<usize>>> {
        let values: Option<PerLayer<u64>> = self.metadata.per_layer(&self.name(key), layers)?;
        let Some(values) = values else { return Ok(None) };
        let of = |layer| {
            let value = usize::try_from(values.of(layer)).unwrap_or(usize::MAX);
            match value <= MOST_ELEMENTS {
                true => Ok(value),
                false => Err(Error::model(format!("`{}` is too large", self.name(key)))),
            }
        };
        (0..layers).map(of).collect::<Result<_>>().map(Some)
    }
}

/// A list of switches, which files have as booleans or as integers.
pub(crate) fn switches(keys: &Keys, key: &str, layers: usize) -> Result<Vec<bool>> {
    let name = keys.name(key);
    if let Ok(Some(list)) = keys.metadata.list::<bool>(&name) {
        return Ok(list);
    }
    // A single one is for all layers.
    let single = match keys.metadata.get::<bool>(&name) {
        Ok(value) => value,
        Err(_) => keys.metadata.get::<u64>(&name).ok().flatten().map(|value| value != 0),
    };
    if let Some(value) = single {
        return Ok(vec![value; layers]);
    }
    let list = keys.metadata.list::<u64>(&name)?.unwrap_or_default();
    Ok(list.into_iter().map(|value| value != 0).collect())
}
