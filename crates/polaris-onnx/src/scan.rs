//! Estimates the memory that the messages of a file would take, before it is read. An empty message has two
//! bytes in a file and some hundred in memory, so that a hostile file could ask for a hundred times its size.

use crate::messages::{Attribute, Entry, Function, Graph, Node, SparseTensor, Tensor, ValueInfo};
use crate::{Error, Result};

/// Memory for messages that no file needs to justify.
const ALLOWED: usize = 64 << 20;
/// Graphs inside graphs, at most; what is deeper is refused when it is read.
const DEEPEST: usize = 100;

/// A kind of message: the fields that hold others, and the bytes of each entry in memory.
struct Kind(&'static [(u64, usize, Option<&'static Kind>)]);

/// A string or bytes.
const TEXT: usize = 32;

static MODEL: Kind = Kind(&[
    (7, size_of::<Graph>(), Some(&GRAPH)),
    (8, size_of::<Entry>(), None),
    (14, size_of::<Entry>(), None),
    (25, size_of::<Function>(), Some(&FUNCTION)),
]);
static FUNCTION: Kind = Kind(&[
    (4, TEXT, None),
    (5, TEXT, None),
    (6, TEXT, None),
    (7, size_of::<Node>(), Some(&NODE)),
    (9, size_of::<Entry>(), None),
    (11, size_of::<Attribute>(), Some(&ATTRIBUTE)),
]);
static GRAPH: Kind = Kind(&[
    (1, size_of::<Node>(), Some(&NODE)),
    (5, size_of::<Tensor>(), Some(&TENSOR)),
    (11, size_of::<ValueInfo>(), None),
    (12, size_of::<ValueInfo>(), None),
    (13, size_of::<ValueInfo>(), None),
    (15, size_of::<SparseTensor>(), None),
]);
static NODE: Kind =
    Kind(&[(1, TEXT, None), (2, TEXT, None), (5, size_of::<Attribute>(), Some(&ATTRIBUTE))]);
static ATTRIBUTE: Kind = Kind(&[
    (5, size_of::<Tensor>(), Some(&TENSOR)),
    (6, size_of::<Graph>(), Some(&GRAPH)),
    (9, TEXT, None),
    (10, size_of::<Tensor>(), Some(&TENSOR)),
    (11, size_of::<Graph>(), Some(&GRAPH)),
]);
static TENSOR: Kind = Kind(&[(6, TEXT, None), (13, size_of::<Entry>(), None)]);

/// Refuses a model whose messages would take far more memory than the file. What is not a valid file is left to who
/// reads it.
pub fn check(file: &[u8]) -> Result<()> {
    let most = file.len().saturating_mul(4).saturating_add(ALLOWED);
    let mut used = 0;
    match scan(file, &MODEL, 0, most, &mut used) {
        Some(()) => Ok(()),
        None => Err(Error::format(format!(
            "its {} bytes hold messages that would take more than {most} bytes of memory",
            file.len()
        ))),
    }
}

/// Adds up the messages in `bytes`; `None` if they are too many.
fn scan(mut bytes: &[u8], kind: &Kind, depth: usize, most: usize, used: &mut usize) -> Option<()> {
    while let Some(key) = varint(&mut bytes) {
        let length = match key & 7 {
            0 => {
                let Some(_) = varint(&mut bytes) else { return Some(()) };
                continue;
            }
            1 => 8,
            5 => 4,
            2 => match varint(&mut bytes).and_then(|length| usize::try_from(length).ok()) {
                Some(length) => length,
                None => return Some(()),
            },
            _ => return Some(()),
        };
        let Some((field, rest)) = bytes.split_at_checked(length) else { return Some(()) };
        bytes = rest;
        if let Some((_, size, inner)) = kind.0.iter().find(|(number, ..)| *number == key >> 3) {
            // Lists that grow are twice as long as they need to be.
            *used += 2 * size;
            if *used > most {
                return None;
            }
            if let (Some(inner), true) = (inner, depth < DEEPEST) {
                scan(field, inner, depth + 1, most, used)?;
            }
        }
    }
    Some(())
}

/// The next number of the format; `None` at the end or where there is none.
fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 127) << shift;
        if byte < 128 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A field with a length, as the format has it.
    fn field(number: u8, content: &[u8]) -> Vec<u8> {
        let mut bytes = vec![number << 3 | 2];
        let mut length = content.len();
        while length >= 128 {
            bytes.push(length as u8 | 128);
            length >>= 7;
        }
        bytes.push(length as u8);
        bytes.extend_from_slice(content);
        bytes
    }

    #[test]
    fn a_flood_of_empty_messages_is_refused() {
        for number in [1, 5, 13] {
            let flood = field(number, &[]).repeat(1 << 20);
            let error = check(&field(7, &flood)).unwrap_err().to_string();
            assert!(error.contains("would take more than"), "{error}");
        }
        let attributes = field(1, &field(5, &[]).repeat(1 << 20));
        assert!(check(&field(7, &attributes)).is_err());
    }

    #[test]
    fn usual_files_and_broken_ones_pass() {
        let weights = field(5, &field(9, &vec![7; 1 << 20]));
        assert!(check(&field(7, &weights)).is_ok());
        assert!(check(&[0xff; 40]).is_ok());
        assert!(check(&field(7, &[0x0a, 0x7f])).is_ok());
        assert!(check(&[]).is_ok());
    }
}
