//! The live blocks of a device, for out-of-memory errors.

use std::fmt;

use polaris_core::{DType, Shape};

use crate::text::Bytes;

/// One live block: how many bytes, and what it was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Live {
    /// Bytes that it takes up.
    pub bytes: u64,
    /// The type of its elements.
    pub dtype: DType,
    /// The shape it was asked for; one axis for a plain buffer.
    pub shape: Shape,
}

/// Live blocks by ticket. Every allocation passes here: nothing is searched, and room is reused.
#[derive(Default)]
pub(super) struct Register {
    entries: Vec<Option<Live>>,
    vacant: Vec<usize>,
}

impl Register {
    pub fn add(&mut self, live: Live) -> usize {
        match self.vacant.pop() {
            Some(ticket) => {
                self.entries[ticket] = Some(live);
                ticket
            }
            None => {
                self.entries.push(Some(live));
                self.entries.len() - 1
            }
        }
    }

    pub fn remove(&mut self, ticket: usize) {
        self.entries[ticket] = None;
        self.vacant.push(ticket);
    }

    /// All of them, largest first.
    pub fn list(&self) -> LiveBlocks {
        let mut blocks: Vec<Live> = self.entries.iter().flatten().copied().collect();
        blocks.sort_by(|a, b| {
            (b.bytes, b.shape.dims()).cmp(&(a.bytes, a.shape.dims())).then(a.dtype.cmp(&b.dtype))
        });
        LiveBlocks(blocks)
    }
}

/// Live blocks, largest first. In words, only the first few kinds of them are told.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LiveBlocks(pub Vec<Live>);

/// Kinds of blocks that a message tells.
const TOLD: usize = 5;

impl fmt::Display for LiveBlocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return Ok(());
        }
        write!(f, "; live, largest first: ")?;
        let mut rest = &self.0[..];
        for told in 0..TOLD {
            let Some(first) = rest.first() else { break };
            let count = rest.iter().take_while(|live| *live == first).count();
            let separator = if told > 0 { ", " } else { "" };
            let times = if count > 1 { format!("{count} times ") } else { String::new() };
            let Live { bytes, dtype, shape } = first;
            write!(f, "{separator}{times}{dtype} {shape} of {}", Bytes(*bytes))?;
            rest = &rest[count..];
        }
        if !rest.is_empty() {
            let bytes: u64 = rest.iter().map(|live| live.bytes).sum();
            write!(f, ", and {} more of {} together", rest.len(), Bytes(bytes))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_told_largest_first_and_equal_ones_once() {
        let mut register = Register::default();
        let live = |bytes, dims: &[usize]| Live {
            bytes,
            dtype: DType::F32,
            shape: Shape::new(dims).unwrap(),
        };
        let gone = register.add(live(1 << 30, &[1 << 28]));
        for bytes in 1..=7 {
            register.add(live(bytes * 1024, &[256, bytes as usize]));
        }
        register.remove(gone);
        register.add(live(1 << 20, &[512, 512]));
        register.add(live(1 << 20, &[512, 512]));
        let text = register.list().to_string();
        let expected = "; live, largest first: 2 times f32 [512, 512] of 1 MiB, f32 [256, 7] of \
                        7 KiB, f32 [256, 6] of 6 KiB, f32 [256, 5] of 5 KiB, f32 [256, 4] of 4 KiB, \
                        and 3 more of 6 KiB together";
        assert_eq!(text, expected);
        assert_eq!(LiveBlocks::default().to_string(), "");
    }
}
