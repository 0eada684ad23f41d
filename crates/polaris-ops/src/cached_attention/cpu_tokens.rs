//! The tokens of a call on the CPU: checked, in spans that share their keys, cut into tasks.

use std::ops::Range;

use polaris_core::Layout;

use super::geometry::Sizes;
use super::{CachedAttention, NAME};
use crate::cpu::map::SendPointer;
use crate::{Error, Result};

/// Queries, of all heads that share keys, that are worked on together.
const COLUMNS: usize = 64;
/// Positions that are worked on together: with their values and weights they stay in the L2 cache.
pub const KEYS: usize = 128;
/// Where there are fewer tasks than this, keys are cut into parts. It does not depend on the number of
/// threads, so that results do not either.
const SPREAD: usize = 64;
/// The fewest positions that are worth a part.
const LEAST_KEYS: usize = 2 * KEYS;

/// A matrix of `i32` in memory.
#[derive(Clone, Copy)]
pub struct Integers {
    start: SendPointer,
    strides: [usize; 2],
}

impl Integers {
    /// The array of a layout with two axes.
    pub fn new(start: *const u8, layout: &Layout) -> Self {
        let start = start.cast_mut().wrapping_add(layout.offset() * size_of::<i32>());
        Self { start: SendPointer(start), strides: [layout.strides()[0], layout.strides()[1]] }
    }

    /// # Safety
    /// The element must lie inside the array, which must be registered as read.
    pub unsafe fn at(&self, row: usize, column: usize) -> i32 {
        let at = row * self.strides[0] + column * self.strides[1];
        // SAFETY: by the caller's word.
        unsafe { *self.start.get().cast::<i32>().add(at) }
    }
}

/// Neighbouring tokens of one sequence, which are worked on together.
#[derive(Debug, Clone)]
pub struct Span {
    pub first_token: usize,
    /// The position of each token.
    pub positions: Vec<usize>,
    pub sequence: usize,
    /// The positions that any of them sees.
    pub keys: Range<usize>,
}

/// Some keys of a span and a head of keys.
#[derive(Debug, Clone)]
pub struct Task {
    pub span: usize,
    pub key_head: usize,
    pub keys: Range<usize>,
    /// Where its result goes if there are several parts, in columns.
    pub partial: Option<usize>,
}

/// The parts of a span and a head of keys, whose results follow one another.
#[derive(Debug, Clone, Copy)]
pub struct Merge {
    pub span: usize,
    pub key_head: usize,
    pub first_partial: usize,
    pub parts: usize,
}

/// All spans of a call.
///
/// # Errors
/// If a token or an entry of the table that is needed leads nowhere.
///
/// # Safety
/// The arrays must be those of the sizes, and registered as read.
pub unsafe fn spans(
    op: &CachedAttention,
    sizes: &Sizes,
    tokens: Integers,
    table: Integers,
) -> Result<Vec<Span>> {
    let most = (COLUMNS / sizes.group().max(1)).max(1);
    let mut spans: Vec<Span> = Vec::new();
    for token in 0..sizes.tokens {
        // SAFETY: the tokens by the caller's word.
        let [sequence, position] = [0, 1].map(|column| unsafe { tokens.at(token, column) });
        let index = i64::from(sequence);
        let Some(sequence) = below(index, sizes.sequences) else {
            let length = sizes.sequences;
            return Err(Error::IndexOutOfRange {
                op: NAME,
                index,
                position: 2 * token,
                axis: 0,
                length,
            });
        };
        let Some(position) = below(position.into(), op.longest) else {
            let what = format!(
                "token {token} has position {position}, but the longest sequence has {} positions",
                op.longest
            );
            return Err(Error::InvalidParameter { op: NAME, what });
        };
        let sight = op.sight(position);
        match spans.last_mut() {
            Some(span)
                if span.sequence == sequence
                    && span.positions.len() < most
                    && touches(&span.keys, &sight) =>
            {
                span.positions.push(position);
                span.keys = span.keys.start.min(sight.start)..span.keys.end.max(sight.end);
            }
            _ => spans.push(Span {
                first_token: token,
                positions: vec![position],
                sequence,
                keys: sight,
            }),
        }
    }
    for span in &spans {
        let last = (span.keys.end - 1) / sizes.block_size;
        for entry in span.keys.start / sizes.block_size..=last {
            // SAFETY: positions are below the longest sequence, whose blocks the table has.
            let index = i64::from(unsafe { table.at(span.sequence, entry) });
            if below(index, sizes.blocks).is_none() {
                let (position, length) = (span.sequence * sizes.most_blocks + entry, sizes.blocks);
                return Err(Error::IndexOutOfRange { op: NAME, index, position, axis: 0, length });
            }
        }
    }
    Ok(spans)
}

/// Whether two ranges have no gap between them: each position of both together is then seen by someone.
fn touches(a: &Range<usize>, b: &Range<usize>) -> bool {
    a.start <= b.end && b.start <= a.end
}

fn below(index: i64, length: usize) -> Option<usize> {
    usize::try_from(index).ok().filter(|&index| index < length)
}

/// The tasks of spans, what is to be merged after them, and how many columns of partial results there are.
pub fn tasks(sizes: &Sizes, spans: &[Span]) -> (Vec<Task>, Vec<Merge>, usize) {
    let whole = spans.len() * sizes.key_heads;
    let (mut tasks, mut merges, mut columns) = (Vec::new(), Vec::new(), 0);
    for (index, span) in spans.iter().enumerate() {
        let wanted = if whole >= SPREAD { 1 } else { SPREAD.div_ceil(whole) };
        let parts = wanted.min(span.keys.len() / LEAST_KEYS).max(1);
        let length = span.keys.len().div_ceil(parts).next_multiple_of(KEYS);
        let parts = span.keys.len().div_ceil(length);
        for key_head in 0..sizes.key_heads {
            if parts > 1 {
                merges.push(Merge { span: index, key_head, first_partial: columns, parts });
            }
            for part in 0..parts {
                let first = span.keys.start + part * length;
                let keys = first..span.keys.end.min(first + length);
                let partial = (parts > 1).then_some(columns);
                tasks.push(Task { span: index, key_head, keys, partial });
                if parts > 1 {
                    columns += span.positions.len() * sizes.group();
                }
            }
        }
    }
    (tasks, merges, columns)
}
