//! Attention to a cache on the CPU. A task takes the queries of a span of tokens that share a head of keys,
//! and passes over keys with a running softmax. Long sequences of few tokens are cut into parts, whose
//! results are merged in their order.

use polaris_runtime::HostOperands;
use polaris_runtime::cpu::{CpuDevice, SimdLevel};

use super::cpu_cache::{Cache, Plane, Run};
use super::cpu_loops::{FEW, add_row, add_slopes, cap_scores, score_rows, soften_row, weigh_rows};
use super::cpu_tokens::{Integers, KEYS, Merge, Span, Task, spans, tasks};
use super::geometry::Sizes;
use super::{CachedAttention, NAME};
use crate::attention::cpu_loops::{LANES, scale};
use crate::attention::for_tasks;
use crate::cpu::map::SendPointer;
use crate::matmul::{TileNumber, Tiles};
use crate::{Array, Result};

pub fn run(op: &CachedAttention, cpu: &CpuDevice, inputs: &[&Array], output: &Array) -> Result<()> {
    let sizes = Sizes::new(op, inputs)?;
    let buffers: Vec<_> = inputs.iter().map(|input| input.buffer()).collect();
    let operands = HostOperands::new(NAME, &buffers, output.buffer())?;
    let integers = |index: usize| Integers::new(operands.input(index), inputs[index].layout());
    // SAFETY: the arrays were checked to have these sizes, and are registered.
    let spans = unsafe { spans(op, &sizes, integers(4), integers(3)) }?;
    let plane = |array: &Array, start: *mut u8| Plane {
        start: SendPointer(start.wrapping_add(array.layout().offset() * size_of::<f32>())),
        strides: [
            array.layout().strides()[0],
            array.layout().strides()[1],
            array.layout().strides()[2],
        ],
    };
    let cache = |index: usize| {
        let strides = inputs[index].layout().strides();
        Cache {
            start: SendPointer(operands.input(index).cast_mut()),
            stored: inputs[index].stored(),
            offset: inputs[index].layout().offset(),
            strides: [strides[0], strides[1], strides[2], strides[3]],
            length: inputs[index].shape()[3],
            table: integers(3),
            block_size: sizes.block_size,
        }
    };
    let vector = |index: usize| -> Vec<f32> {
        let layout = inputs[index].layout();
        let start = operands.input(index).cast::<f32>();
        let at = |head: usize| layout.offset() + head * layout.strides()[0];
        // SAFETY: the layout was checked against the buffer, which is registered as read.
        (0..sizes.heads).map(|head| unsafe { *start.add(at(head)) }).collect()
    };
    let (tasks, merges, columns) = tasks(&sizes, &spans);
    let mut partials = vec![0.0f32; columns * (sizes.values + 2)];
    let job = Job {
        op,
        sizes,
        tiles: f32::tiles(cpu.simd()),
        spans,
        q: plane(inputs[0], operands.input(0).cast_mut()),
        k: cache(1),
        v: cache(2),
        sinks: op.sinks.then(|| vector(5)),
        slopes: op.slopes.then(|| vector(inputs.len() - 1)),
        output: plane(output, operands.output()),
        partials: SendPointer(partials.as_mut_ptr().cast()),
        columns,
    };
    let columns = job.spans.iter().map(|span| job.columns(span)).max().unwrap_or(0);
    let scratch = || Scratch::new(&sizes, columns);
    for_tasks(cpu.pool(), tasks.len(), scratch, |task, scratch| job.task(&tasks[task], scratch));
    cpu.pool().for_chunks(merges.len(), 1, |chunk| {
        merges[chunk].iter().for_each(|merge| job.merge(merge));
    });
    Ok(())
}

/// The memory of a thread.
pub struct Scratch {
    /// The queries, scaled: as rows, or transposed for tiles.
    pub queries: Vec<f32>,
    /// Scores, then their exponentials.
    pub scores: Vec<f32>,
    /// The outputs in the making, transposed for tiles.
    pub sums: Vec<f32>,
    /// The outputs of a task, a row for each query.
    pub rows: Vec<f32>,
    /// Keys and values where they cannot be read in place.
    pub keys: Vec<f32>,
    pub values: Vec<f32>,
    pub runs: Vec<Run>,
}

impl Scratch {
    fn new(sizes: &Sizes, columns: usize) -> Self {
        let zeros = |elements: usize| vec![0.0; elements];
        let wide = columns.next_multiple_of(LANES);
        Self {
            queries: zeros(sizes.depth * wide),
            scores: zeros(KEYS * wide),
            sums: zeros(sizes.values * wide),
            rows: zeros(sizes.values * columns),
            keys: zeros(KEYS * sizes.depth),
            values: zeros(KEYS * sizes.values),
            runs: Vec::new(),
        }
    }
}

/// One call, as its threads see it.
pub struct Job<'a> {
    pub op: &'a CachedAttention,
    pub sizes: Sizes,
    pub tiles: Tiles<f32>,
    pub spans: Vec<Span>,
    pub q: Plane,
    pub k: Cache,
    pub v: Cache,
    pub sinks: Option<Vec<f32>>,
    pub slopes: Option<Vec<f32>>,
    pub output: Plane,
    /// Results of parts, a row for each column, then the largest score and the sum of each.
    pub partials: SendPointer,
    /// All columns of parts.
    pub columns: usize,
}

/// The largest score of each query and the sum of the exponentials of what scores differ from it.
pub struct Softmax {
    pub largest: Vec<f32>,
    pub sums: Vec<f32>,
}

impl Job<'_> {
    pub fn level(&self) -> SimdLevel {
        self.tiles.level
    }

    /// Queries of a span that share a head of keys.
    pub fn columns(&self, span: &Span) -> usize {
        span.positions.len() * self.sizes.group()
    }

    /// The token, counted from the span's first, and the head of a column.
    pub fn place(&self, column: usize, key_head: usize) -> (usize, usize) {
        let group = self.sizes.group();
        (column / group, key_head * group + column % group)
    }

    fn task(&self, task: &Task, scratch: &mut Scratch) {
        let span = &self.spans[task.span];
        let columns = self.columns(span);
        let softmax = match columns <= FEW {
            true => self.few(span, task, scratch),
            false => self.tiles(span, task, scratch),
        };
        let values = self.sizes.values;
        let rows = &scratch.rows[..columns * values];
        let Some(first) = task.partial else {
            for column in 0..columns {
                let row = &rows[column * values..][..values];
                let part = (row, softmax.largest[column], softmax.sums[column]);
                self.finish(span, task.key_head, column, &[part]);
            }
            return;
        };
        let partials = self.partials.get().cast::<f32>();
        // SAFETY: there is room for all columns of parts, of which these are this task's.
        unsafe {
            let to = partials.add(first * values);
            std::ptr::copy_nonoverlapping(rows.as_ptr(), to, rows.len());
            for (at, state) in [softmax.largest, softmax.sums].into_iter().enumerate() {
                let to = partials.add(self.columns * (values + at) + first);
                std::ptr::copy_nonoverlapping(state.as_ptr(), to, columns);
            }
        }
    }

    /// Merges the parts of a span.
    fn merge(&self, merge: &Merge) {
        let span = &self.spans[merge.span];
        let (columns, values) = (self.columns(span), self.sizes.values);
        let partials = self.partials.get().cast::<f32>();
        for column in 0..columns {
            let part = |part: usize| {
                let at = merge.first_partial + part * columns + column;
                // SAFETY: the part was written by a task that is done.
                unsafe {
                    let row = std::slice::from_raw_parts(partials.add(at * values), values);
                    let state = partials.add(self.columns * values + at);
                    (row, *state, *state.add(self.columns))
                }
            };
            let parts: Vec<_> = (0..merge.parts).map(part).collect();
            self.finish(span, merge.key_head, column, &parts);
        }
    }

    /// Writes the output of a query from its parts: weighted values, largest score and sum.
    fn finish(&self, span: &Span, key_head: usize, column: usize, parts: &[(&[f32], f32, f32)]) {
        let (token, head) = self.place(column, key_head);
        let sink = self.sinks.as_ref().map(|sinks| sinks[head]);
        let larger = |a: f32, b: f32| if b > a { b } else { a };
        let logits = parts.iter().map(|part| part.1).chain(sink);
        let largest = logits.fold(f32::NEG_INFINITY, larger);
        let shift = if largest == f32::NEG_INFINITY { 0.0 } else { largest };
        let shares = parts.iter().map(|(_, largest, sum)| ((largest - shift).exp(), sum));
        let total = shares.map(|(share, sum)| share * sum).sum::<f32>()
            + sink.map_or(0.0, |sink| (sink - shift).exp());
        let mut result = vec![0.0f32; self.sizes.values];
        for (row, largest, _) in parts {
            // A query for which nothing counts.
            let factor = if total == 0.0 { 0.0 } else { (largest - shift).exp() / total };
            add_row(self.level(), &mut result, factor, row);
        }
        // SAFETY: the row lies inside the output, and each is written once.
        unsafe { self.output.row(span.first_token + token, head).store(0, &result) };
    }

    /// A few queries: a row of scores for each.
    fn few(&self, span: &Span, task: &Task, scratch: &mut Scratch) -> Softmax {
        let Sizes { depth, values, .. } = self.sizes;
        let (columns, level) = (self.columns(span), self.level());
        let Scratch { queries, scores, rows, keys: own_keys, values: own_values, runs, .. } =
            scratch;
        let queries = &mut queries[..columns * depth];
        self.load_queries(span, task.key_head, queries);
        scale(level, queries, self.sizes.scale as f32);
        let sums = &mut rows[..columns * values];
        sums.fill(0.0);
        let mut state =
            Softmax { largest: vec![f32::NEG_INFINITY; columns], sums: vec![0.0; columns] };
        let place = [span.sequence, task.key_head];
        for first in task.keys.clone().step_by(KEYS) {
            let keys = first..task.keys.end.min(first + KEYS);
            let width = keys.len();
            let scores = &mut scores[..columns * width];
            // SAFETY: the span's positions were checked, and all arrays are registered.
            unsafe { self.k.runs(&self.tiles, place, &keys, own_keys, runs) };
            for run in &*runs {
                score_rows(level, queries, run.rows, run.count, scores, width, run.first);
            }
            if let Some(cap) = self.op.softcap {
                cap_scores(level, scores, cap as f32);
            }
            // SAFETY: the span's positions were checked, and all arrays are registered.
            unsafe { self.v.runs(&self.tiles, place, &keys, own_values, runs) };
            for (column, scores) in scores.chunks_exact_mut(width).enumerate() {
                let (token, head) = self.place(column, task.key_head);
                let position = span.positions[token];
                if let Some(slopes) = &self.slopes {
                    add_slopes(level, scores, &[slopes[head]], &[position as f32], first as f32);
                }
                let sight = self.op.sight(position);
                scores[..sight.start.clamp(first, keys.end) - first].fill(f32::NEG_INFINITY);
                scores[sight.end.clamp(first, keys.end) - first..].fill(f32::NEG_INFINITY);
                let (largest, total) = (&mut state.largest[column], &mut state.sums[column]);
                let mut factor = soften_row(level, scores, largest, total);
                let sum = &mut sums[column * values..][..values];
                for run in &*runs {
                    weigh_rows(level, run.rows, &scores[run.first..][..run.count], factor, sum);
                    factor = 1.0;
                }
            }
        }
        state
    }

    /// Copies the queries of a span to dense rows.
    fn load_queries(&self, span: &Span, key_head: usize, queries: &mut [f32]) {
        let depth = self.sizes.depth;
        if depth == 0 {
            return;
        }
        for (column, to) in queries.chunks_exact_mut(depth).enumerate() {
            let (token, head) = self.place(column, key_head);
            let row = self.q.row(span.first_token + token, head);
            for (at, to) in to.iter_mut().enumerate() {
                // SAFETY: the row lies inside q, which is registered as read.
                *to = unsafe { *row.start.cast::<f32>().add(at * row.stride) };
            }
        }
    }
}
