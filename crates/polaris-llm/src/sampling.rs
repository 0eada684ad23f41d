//! How a model's file wants tokens to be chosen: GGUF's keys `general.sampling.*`.

use polaris_gguf::Metadata;
use polaris_sample::{Mirostat, Options};

/// The prefix of the keys.
pub(crate) const PREFIX: &str = "general.sampling.";

/// Sets an option to a number.
type Set = fn(&mut Options, f64);

/// Keys, and what their numbers are.
const KEYS: &[(&str, Set)] = &[
    ("temp", |options, value| options.temperature = value as f32),
    ("top_k", |options, value| options.top_k = value as i32),
    ("top_p", |options, value| options.top_p = value as f32),
    ("min_p", |options, value| options.min_p = value as f32),
    ("xtc_probability", |options, value| options.xtc_probability = value as f32),
    ("xtc_threshold", |options, value| options.xtc_threshold = value as f32),
    ("penalty_last_n", |options, value| options.penalty_last_n = value as i32),
    ("penalty_repeat", |options, value| options.penalty_repeat = value as f32),
    ("mirostat", |options, value| {
        options.mirostat = match value as i32 {
            1 => Mirostat::V1,
            2 => Mirostat::V2,
            _ => Mirostat::Off,
        }
    }),
    ("mirostat_tau", |options, value| options.mirostat_tau = value as f32),
    ("mirostat_eta", |options, value| options.mirostat_eta = value as f32),
];

/// The defaults, with what a file says in their place. A value that makes no sense is left out with a warning: it is a
/// suggestion, and no reason not to run a model.
pub(crate) fn suggested(metadata: &Metadata) -> Options {
    let mut options = Options::default();
    for (name, set) in KEYS {
        let key = format!("{PREFIX}{name}");
        if metadata.value(&key).is_none() {
            continue;
        }
        let integer = metadata.get::<i64>(&key).ok().flatten().map(|value| value as f64);
        let number = integer.or(metadata.get::<f32>(&key).ok().flatten().map(f64::from));
        let mut changed = options.clone();
        if let Some(number) = number {
            set(&mut changed, number);
        }
        match changed.for_context(1).check(1) {
            Ok(()) if number.is_some() => options = changed,
            Ok(()) => log::warn!("`{key}` is no number; it is left out"),
            Err(error) => log::warn!("`{key}` is left out: {error}"),
        }
    }
    options
}

#[cfg(test)]
mod tests {
    use polaris_gguf::{Gguf, Writer};

    use super::*;

    #[test]
    fn what_a_file_says_takes_the_place_of_defaults() {
        let mut writer = Writer::new();
        writer.set("general.architecture", "llama").unwrap();
        writer.set("general.sampling.temp", 0.6f32).unwrap();
        writer.set("general.sampling.top_k", 20i32).unwrap();
        writer.set("general.sampling.penalty_last_n", -1i32).unwrap();
        writer.set("general.sampling.mirostat", 2u32).unwrap();
        // These make no sense.
        writer.set("general.sampling.top_p", 7.0f32).unwrap();
        writer.set("general.sampling.min_p", f32::NAN).unwrap();
        writer.set("general.sampling.penalty_repeat", "often").unwrap();
        let gguf = Gguf::from_bytes(writer.into_bytes().unwrap().into()).unwrap();
        let expected = Options {
            temperature: 0.6,
            top_k: 20,
            penalty_last_n: -1,
            mirostat: Mirostat::V2,
            ..Options::default()
        };
        assert_eq!(suggested(gguf.metadata()), expected);
    }
}
