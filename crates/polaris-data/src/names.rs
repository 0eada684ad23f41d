//! Looks names up, and finds the nearest one where there is none: most wrong names are typing
//! mistakes, and the cure is the right name in the message.

use std::path::Path;

use crate::{Error, Result};

/// The position of a name in a list that must hold it exactly once.
pub(crate) fn find<S: AsRef<str>>(
    path: &Path,
    what: &'static str,
    names: &[S],
    name: &str,
) -> Result<usize> {
    let mut places = names.iter().enumerate().filter(|(_, n)| n.as_ref() == name);
    match (places.next(), places.next()) {
        (Some((place, _)), None) => Ok(place),
        (Some((first, _)), Some((second, _))) => Err(Error::Format {
            path: path.into(),
            format: "table",
            reason: format!(
                "the {what} `{name}` occurs twice (number {} and {}); rename one of them",
                first + 1,
                second + 1
            ),
        }),
        (None, _) => Err(unknown(path, what, names, name)),
    }
}

/// The error for a name that is not there.
pub(crate) fn unknown<S: AsRef<str>>(
    path: &Path,
    what: &'static str,
    names: &[S],
    name: &str,
) -> Error {
    Error::UnknownName {
        path: path.into(),
        what,
        name: name.into(),
        known: names.iter().map(|n| n.as_ref().to_string()).collect(),
        nearest: nearest(names, name),
    }
}

/// The most similar name, if it is similar at all: a third of the letters may differ.
pub fn nearest<S: AsRef<str>>(names: &[S], name: &str) -> Option<String> {
    // Distances cost the product of the lengths; names longer than this are no typing mistakes.
    const LONGEST: usize = 64;
    if name.len() > LONGEST {
        return None;
    }
    let wanted = name.to_lowercase();
    names
        .iter()
        .map(AsRef::as_ref)
        .filter(|n| n.len() <= LONGEST)
        .map(|n| (strsim::levenshtein(&n.to_lowercase(), &wanted), n))
        .min()
        .filter(|(d, n)| *d <= n.chars().count().max(wanted.chars().count()).div_ceil(3))
        .map(|(_, n)| n.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances() {
        use strsim::levenshtein as distance;
        assert_eq!(distance("", ""), 0);
        assert_eq!(distance("abc", ""), 3);
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("größe", "grösse"), 2);
    }

    #[test]
    fn the_nearest_name_is_suggested_only_if_near() {
        let names = ["label", "width", "height"];
        assert_eq!(nearest(&names, "lable").as_deref(), Some("label"));
        assert_eq!(nearest(&names, "Height").as_deref(), Some("height"));
        assert_eq!(nearest(&names, "temperature"), None);
        assert_eq!(nearest::<&str>(&[], "x"), None);
    }
}
