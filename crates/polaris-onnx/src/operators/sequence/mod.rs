//! Sequences and optionals.

mod optionals;
mod sequences;

use super::Operator;

pub(super) const OPERATORS: &[(&str, Operator)] = &[
    ("ConcatFromSequence", sequences::concat_from_sequence),
    ("Optional", optionals::optional),
    ("OptionalGetElement", optionals::optional_get_element),
    ("OptionalHasElement", optionals::optional_has_element),
    ("SequenceAt", sequences::sequence_at),
    ("SequenceConstruct", sequences::sequence_construct),
    ("SequenceEmpty", sequences::sequence_empty),
    ("SequenceErase", sequences::sequence_erase),
    ("SequenceInsert", sequences::sequence_insert),
    ("SequenceLength", sequences::sequence_length),
    ("SplitToSequence", sequences::split_to_sequence),
];
