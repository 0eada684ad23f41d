//! Attention to a cache on the CPU. A task takes the queries of a span of tokens that share a head of keys,
//! and passes over keys with a running softmax. Long sequences of few tokens are cut into parts, whose
//! results are merged in their order.

use std::ops::Range;

use polaris_core::DType;
use polaris_runtime::HostOperands;
use polaris_runtime::cpu::{CpuDevice, SimdLevel};

use super::cpu_loops::{
    FEW, Rows, add_row, add_slopes, cap_scores, score_rows, soften_row, weigh_rows,
};
use super::cpu_tokens::{Integers, KEYS, Merge, Span, Task, spans, tasks};
use super::geometry::Sizes;
use super::{CachedAttention, NAME};
use crate::attention::cpu_loops::{LANES, Running, scale, scale_columns, soften};
use crate::attention::for_tasks;
use crate::cpu::blocks::Row;
use crate::cpu::map::SendPointer;
use crate::format::{Stored, read_blocks, with_block_type};
use crate::matmul::{Strip, TileNumber, TileProduct, Tiles};
use crate::{Array, Result};

/// Rows of blocks shorter than this are gathered: products of so few would be slow.
const SHORT: usize = 16;

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
        table: integers(3),
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

/// An `f32` array of tokens and heads.
#[derive(Clone, Copy)]
struct Plane {
    start: SendPointer,
    strides: [usize; 3],
}

impl Plane {
    fn row(&self, token: usize, head: usize) -> Row {
        let at = token * self.strides[0] + head * self.strides[1];
        let start = self.start.get().wrapping_add(at * size_of::<f32>());
        Row { start, dtype: DType::F32, stride: self.strides[2] }
    }
}

/// Keys or values. Strides are those of blocks, positions, heads and elements.
#[derive(Clone, Copy)]
struct Cache {
    start: SendPointer,
    stored: Stored,
    offset: usize,
    strides: [usize; 4],
    length: usize,
}

impl Cache {
    /// Whether rows are read where they lie.
    fn is_in_place(&self) -> bool {
        self.stored == Stored::Dense(DType::F32) && self.strides[3] == 1
    }

    fn element(&self, block: usize, position: usize, head: usize) -> usize {
        let [of_block, of_position, of_head, _] = self.strides;
        self.offset + block * of_block + position * of_position + head * of_head
    }

    /// Decodes neighbouring positions of a block to dense rows.
    ///
    /// # Safety
    /// The positions must lie inside the cache, which must be registered as read, and the target have room.
    unsafe fn decode(&self, tiles: &Tiles<f32>, first: usize, count: usize, to: *mut f32) {
        let [_, of_position, _, step] = self.strides;
        match self.stored {
            Stored::Dense(dtype) => {
                let strip = Strip {
                    start: self.start.get().wrapping_add(first * dtype.size()),
                    lanes: self.length,
                    lane_stride: step,
                    depth: count,
                    depth_stride: of_position,
                };
                // SAFETY: by the caller's word.
                unsafe { tiles.pack(dtype, &strip, self.length, to) }
            }
            Stored::Block(block) => with_block_type!(block, B => {
                for row in 0..count {
                    let (from, to) = (first + row * of_position, to.wrapping_add(row * self.length));
                    // SAFETY: by the caller's word.
                    unsafe { read_blocks::<B>(self.start.get(), from, step, self.length, to, 1) }
                }
            }),
        }
    }
}

/// Neighbouring rows of a tile.
struct Run {
    first: usize,
    count: usize,
    rows: Rows,
}

/// The memory of a thread.
struct Scratch {
    /// The queries, scaled: as rows, or transposed for tiles.
    queries: Vec<f32>,
    /// Scores, then their exponentials.
    scores: Vec<f32>,
    /// The outputs in the making, transposed for tiles.
    sums: Vec<f32>,
    /// The outputs of a task, a row for each query.
    rows: Vec<f32>,
    /// Keys and values where they cannot be read in place.
    keys: Vec<f32>,
    values: Vec<f32>,
    runs: Vec<Run>,
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
struct Job<'a> {
    op: &'a CachedAttention,
    sizes: Sizes,
    tiles: Tiles<f32>,
    spans: Vec<Span>,
    q: Plane,
    k: Cache,
    v: Cache,
    table: Integers,
    sinks: Option<Vec<f32>>,
    slopes: Option<Vec<f32>>,
    output: Plane,
    /// Results of parts, a row for each column, then the largest score and the sum of each.
    partials: SendPointer,
    /// All columns of parts.
    columns: usize,
}

/// The largest score of each query and the sum of the exponentials of what scores differ from it.
struct Softmax {
    largest: Vec<f32>,
    sums: Vec<f32>,
}

impl Job<'_> {
    fn level(&self) -> SimdLevel {
        self.tiles.level
    }

    /// Queries of a span that share a head of keys.
    fn columns(&self, span: &Span) -> usize {
        span.positions.len() * self.sizes.group()
    }

    /// The token, counted from the span's first, and the head of a column.
    fn place(&self, column: usize, key_head: usize) -> (usize, usize) {
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

    /// The rows of a tile of keys or values, in place or decoded.
    fn runs(
        &self,
        cache: &Cache,
        span: &Span,
        head: usize,
        keys: &Range<usize>,
        scratch: &mut [f32],
        runs: &mut Vec<Run>,
    ) {
        runs.clear();
        let block_size = self.sizes.block_size;
        let in_place = cache.is_in_place() && block_size >= SHORT;
        let mut key = keys.start;
        while key < keys.end {
            let (entry, position) = (key / block_size, key % block_size);
            let count = (block_size - position).min(keys.end - key);
            // SAFETY: the entry was checked.
            let block = unsafe { self.table.at(span.sequence, entry) } as usize;
            let element = cache.element(block, position, head);
            let first = key - keys.start;
            if in_place {
                let start = self.element_pointer(cache, element);
                let rows = Rows { start, stride: cache.strides[1], length: cache.length };
                runs.push(Run { first, count, rows });
            } else {
                assert!(scratch.len() >= (first + count) * cache.length);
                let to = scratch.as_mut_ptr().wrapping_add(first * cache.length);
                // SAFETY: the block was checked, and there is room.
                unsafe { cache.decode(&self.tiles, element, count, to) };
            }
            key += count;
        }
        if !in_place {
            let rows = Rows { start: scratch.as_ptr(), stride: cache.length, length: cache.length };
            runs.push(Run { first: 0, count: keys.len(), rows });
        }
    }

    fn element_pointer(&self, cache: &Cache, element: usize) -> *const f32 {
        cache.start.get().cast::<f32>().wrapping_add(element)
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
        for first in task.keys.clone().step_by(KEYS) {
            let keys = first..task.keys.end.min(first + KEYS);
            let width = keys.len();
            let scores = &mut scores[..columns * width];
            self.runs(&self.k, span, task.key_head, &keys, own_keys, runs);
            for run in &*runs {
                score_rows(level, queries, run.rows, run.count, scores, width, run.first);
            }
            if let Some(cap) = self.op.softcap {
                cap_scores(level, scores, cap as f32);
            }
            self.runs(&self.v, span, task.key_head, &keys, own_values, runs);
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

    /// Many queries: tiles with a row for each key and a column for each query.
    fn tiles(&self, span: &Span, task: &Task, scratch: &mut Scratch) -> Softmax {
        let Sizes { depth, values, .. } = self.sizes;
        let (count, tiles, level) = (self.columns(span), &self.tiles, self.level());
        let columns = count.next_multiple_of(LANES);
        let Scratch { queries, scores, sums, rows, keys: own_keys, values: own_values, runs } =
            scratch;
        let (queries, sums) = (&mut queries[..depth * columns], &mut sums[..values * columns]);
        queries.fill(0.0);
        for column in 0..count {
            let (token, head) = self.place(column, task.key_head);
            let row = self.q.row(span.first_token + token, head);
            for element in 0..depth {
                // SAFETY: the row lies inside q, which is registered as read.
                queries[element * columns + column] =
                    unsafe { *row.start.cast::<f32>().add(element * row.stride) };
            }
        }
        scale(level, queries, self.sizes.scale as f32);
        sums.fill(0.0);
        let slopes = self.slopes.as_ref().map(|slopes| {
            let of_column = |column: usize| match column < count {
                true => {
                    let (token, head) = self.place(column, task.key_head);
                    (slopes[head], span.positions[token] as f32)
                }
                false => (0.0, 0.0),
            };
            (0..columns).map(of_column).unzip::<f32, f32, Vec<f32>, Vec<f32>>()
        });
        let mut running = Running::<f32>::new(columns);
        for first in task.keys.clone().step_by(KEYS) {
            let keys = first..task.keys.end.min(first + KEYS);
            let scores = &mut scores[..keys.len() * columns];
            self.runs(&self.k, span, task.key_head, &keys, own_keys, runs);
            for run in &*runs {
                let product = TileProduct {
                    m: run.count,
                    n: columns,
                    k: depth,
                    a: run.rows.start,
                    a_stride: run.rows.stride,
                    a_rows_are_adjacent: false,
                    b: queries.as_ptr(),
                    b_stride: columns,
                    from: std::ptr::null(),
                    to: scores[run.first * columns..].as_mut_ptr(),
                    to_stride: columns,
                };
                // SAFETY: the run's rows are readable, and the tiles have room for whole vectors.
                unsafe { tiles.multiply(&product) };
            }
            if let Some(cap) = self.op.softcap {
                cap_scores(level, scores, cap as f32);
            }
            if let Some((slopes, from)) = &slopes {
                add_slopes(level, scores, slopes, from, first as f32);
            }
            self.hide(span, &keys, columns, scores);
            if soften(level, scores, &mut running) {
                scale_columns(level, sums, &running.factors);
            }
            self.runs(&self.v, span, task.key_head, &keys, own_values, runs);
            for run in &*runs {
                let product = TileProduct {
                    m: values,
                    n: columns,
                    k: run.count,
                    a: run.rows.start,
                    a_stride: run.rows.stride,
                    a_rows_are_adjacent: true,
                    b: scores[run.first * columns..].as_ptr(),
                    b_stride: columns,
                    from: sums.as_ptr(),
                    to: sums.as_mut_ptr(),
                    to_stride: columns,
                };
                // SAFETY: as above.
                unsafe { tiles.multiply(&product) };
            }
        }
        let strip = Strip {
            start: sums.as_ptr().cast(),
            lanes: values,
            lane_stride: columns,
            depth: count,
            depth_stride: 1,
        };
        // SAFETY: there is room for a row of each query.
        unsafe { tiles.pack(DType::F32, &strip, values, rows.as_mut_ptr()) };
        Softmax { largest: running.largest, sums: running.sums }
    }

    /// Sets the scores of what a token does not see.
    fn hide(&self, span: &Span, keys: &Range<usize>, columns: usize, scores: &mut [f32]) {
        let group = self.sizes.group();
        for (token, &position) in span.positions.iter().enumerate() {
            let sight = self.op.sight(position);
            let [start, end] =
                [sight.start, sight.end].map(|at| at.clamp(keys.start, keys.end) - keys.start);
            for key in (0..start).chain(end..keys.len()) {
                scores[key * columns + token * group..][..group].fill(f32::NEG_INFINITY);
            }
        }
    }
}
