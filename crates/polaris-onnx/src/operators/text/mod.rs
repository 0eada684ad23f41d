//! Strings.

mod ngrams;
mod strings;

use super::Operator;

pub(super) const OPERATORS: &[(&str, Operator)] = &[
    ("RegexFullMatch", strings::regex_full_match),
    ("StringConcat", strings::string_concat),
    ("StringNormalizer", strings::string_normalizer),
    ("StringSplit", strings::string_split),
    ("TfIdfVectorizer", ngrams::tf_idf_vectorizer),
];
