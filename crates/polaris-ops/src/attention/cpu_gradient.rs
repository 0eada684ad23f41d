//! The gradient of attention on the CPU. A task is a range of the keys of one head of k and v: it passes over all
//! queries that share the head, accumulates the gradients of its keys and values in place, and computes their
//! contribution to the gradients of the queries.

use std::ops::Range;

use polaris_runtime::cpu::CpuDevice;
use polaris_runtime::{DeviceExt, HostOperands};

use super::cpu_gradient_block::{Block, Place, QuerySide};
use super::cpu_loops::{add, slopes_of_scores};
use super::cpu_tiles::{KEYS, Operand, QUERIES, Tile, for_tasks};
use super::geometry::Sizes;
use super::operations::Arrays;
use crate::cpu::blocks::Compute;
use crate::cpu::map::SendPointer;
use crate::matmul::{Strip, TileNumber, Tiles};
use crate::{Array, Result};

/// Tasks that are wanted, whatever the number of threads: the order of sums depends on them.
const TASKS: usize = 32;
/// The fewest keys of a stretch: each takes memory for the gradients of all queries.
const STRETCH: usize = 512;
/// Elements of gradients that a thread adds up at a time.
const GRAIN: usize = 16 * 1024;

pub fn run(sizes: &Sizes, cpu: &CpuDevice, inputs: &[&Array], arrays: &Arrays<'_>) -> Result<()> {
    let output = arrays.output;
    let heads = sizes.batch * sizes.key_heads;
    let stretches = TASKS.div_ceil(heads.max(1)).min(sizes.keys / STRETCH).max(1);
    let elements = sizes.rows() * sizes.depth;
    // The first stretch's gradients of the queries are written to their place.
    let scratch = output.device().allocate(output.dtype(), (stretches - 1) * elements)?;
    let buffers: Vec<_> = inputs.iter().map(|input| input.buffer()).collect();
    let operands = HostOperands::new("attention_gradient", &buffers, output.buffer())?;
    let scratch_operands = HostOperands::new("attention_gradient", &[], &scratch)?;
    let operand = |index: usize| {
        let input = inputs[index];
        Operand::new(operands.input(index), input.dtype(), input.layout())
    };
    let spread = |mask: &Array| -> Result<Operand> {
        let layout = mask.layout().broadcast_to("attention_gradient", &sizes.score_shape()?)?;
        Ok(Operand::new(operands.input(6), mask.dtype(), &layout))
    };
    let size = output.dtype().size();
    let start = operands.output().wrapping_add(output.layout().offset() * size);
    let [of_k, of_v] = sizes.gradient_starts();
    let job = Job {
        sizes: *sizes,
        stretch: sizes.keys.div_ceil(stretches).next_multiple_of(KEYS),
        stretches,
        queries: QuerySide {
            sizes: *sizes,
            q: operand(0),
            output: operand(3),
            log_sum_exp: operand(4),
            g: operand(5),
        },
        k: operand(1),
        v: operand(2),
        mask: arrays.mask.map(spread).transpose()?,
        of_q: SendPointer(start),
        more_of_q: SendPointer(scratch_operands.output()),
        of_k: SendPointer(start.wrapping_add(of_k * size)),
        of_v: SendPointer(start.wrapping_add(of_v * size)),
    };
    match Compute::of(output.dtype()) {
        Compute::F64 => job.run::<f64>(cpu),
        _ => job.run::<f32>(cpu),
    }
    Ok(())
}

/// One gradient, as its threads see it.
struct Job {
    sizes: Sizes,
    /// Keys of a task.
    stretch: usize,
    stretches: usize,
    queries: QuerySide,
    k: Operand,
    v: Operand,
    mask: Option<Operand>,
    of_q: SendPointer,
    /// The gradients of all queries for each stretch but the first.
    more_of_q: SendPointer,
    of_k: SendPointer,
    of_v: SendPointer,
}

/// The memory of a thread.
struct Scratch<C> {
    block: Block<C>,
    /// Scores, then weights.
    scores: Vec<C>,
    /// What the output changes by with the weights, then with the scores.
    slopes: Vec<C>,
    mask: Vec<C>,
    /// The gradients of the queries in the making, turned.
    sums: Vec<C>,
    /// Keys and values where they cannot be read in their place.
    keys: Vec<C>,
    values: Vec<C>,
}

impl Job {
    fn run<C: TileNumber>(&self, cpu: &CpuDevice) {
        let Sizes { batch, key_heads, depth, values, .. } = self.sizes;
        let tiles = C::tiles(cpu.simd());
        let zeros = |elements: usize| vec![C::default(); elements];
        let scratch = || Scratch {
            block: Block::new(&self.sizes),
            scores: zeros(KEYS * QUERIES),
            slopes: zeros(KEYS * QUERIES),
            mask: zeros(if self.mask.is_some() { KEYS * QUERIES } else { 0 }),
            sums: zeros(depth.max(values) * QUERIES),
            keys: zeros(KEYS * depth),
            values: zeros(KEYS * values),
        };
        let tasks = batch * key_heads * self.stretches;
        for_tasks(cpu.pool(), tasks, scratch, |task, scratch| {
            self.task(&tiles, task / self.stretches, task % self.stretches, scratch);
        });
        let elements = if self.stretches > 1 { self.sizes.rows() * depth } else { 0 };
        cpu.pool().for_chunks(elements, GRAIN, |chunk| {
            // SAFETY: all tasks are done; chunks are disjoint and lie inside each part.
            let part = |stretch: usize| unsafe {
                let start = self.gradients_of_queries::<C>(stretch).add(chunk.start);
                std::slice::from_raw_parts_mut(start, chunk.len())
            };
            let sums = part(0);
            (1..self.stretches).for_each(|stretch| add(tiles.level, sums, part(stretch)));
        });
    }

    /// Where a stretch's gradients of all queries are.
    fn gradients_of_queries<C>(&self, stretch: usize) -> *mut C {
        let elements = self.sizes.rows() * self.sizes.depth;
        match stretch {
            0 => self.of_q.get().cast(),
            _ => self.more_of_q.get().cast::<C>().wrapping_add((stretch - 1) * elements),
        }
    }

    /// Computes what a stretch of keys of one head of all batches gives.
    fn task<C: TileNumber>(
        &self,
        tiles: &Tiles<C>,
        key_head: usize,
        stretch: usize,
        scratch: &mut Scratch<C>,
    ) {
        let sizes = &self.sizes;
        let Sizes { depth, values, queries, .. } = *sizes;
        let limit = |key: usize| key.min(sizes.keys);
        let keys = limit(stretch * self.stretch)..limit((stretch + 1) * self.stretch);
        let row = key_head * sizes.keys + keys.start;
        let of_k = self.of_k.get().cast::<C>().wrapping_add(row * depth);
        let of_v = self.of_v.get().cast::<C>().wrapping_add(row * values);
        // SAFETY: the rows lie inside the output, and belong to this task alone.
        unsafe {
            of_k.write_bytes(0, keys.len() * depth);
            of_v.write_bytes(0, keys.len() * values);
        }
        let (batch, key_head) = (key_head / sizes.key_heads, key_head % sizes.key_heads);
        for head in key_head * sizes.group()..(key_head + 1) * sizes.group() {
            for first_query in (0..queries).step_by(QUERIES) {
                let place = Place {
                    batch,
                    head,
                    key_head,
                    first_query,
                    queries: QUERIES.min(queries - first_query),
                };
                let end = sizes.seen(first_query + place.queries - 1);
                if keys.start < end {
                    scratch.block.load(tiles, &self.queries, &place, &mut scratch.sums);
                }
                let seen = keys.start..keys.end.min(end);
                self.keys(tiles, &place, seen, [of_k, of_v], scratch);
                let strip = Strip {
                    start: scratch.sums.as_ptr().cast(),
                    lanes: depth,
                    lane_stride: place.columns(),
                    depth: place.queries,
                    depth_stride: 1,
                };
                let row = (batch * sizes.heads + head) * queries + first_query;
                // SAFETY: the rows lie inside this stretch's gradients, and no other task has
                // their head.
                unsafe {
                    let target = self.gradients_of_queries::<C>(stretch).add(row * depth);
                    tiles.pack(C::NATIVE, &strip, depth, target);
                }
            }
        }
    }

    /// Passes over keys: adds to the gradients of the keys and values from the first key on, and
    /// leaves the block's gradients of the queries in the sums.
    fn keys<C: TileNumber>(
        &self,
        tiles: &Tiles<C>,
        place: &Place,
        range: Range<usize>,
        [of_k, of_v]: [*mut C; 2],
        scratch: &mut Scratch<C>,
    ) {
        let sizes = &self.sizes;
        let Sizes { depth, values, .. } = *sizes;
        let Scratch { block, scores, slopes, mask, sums, keys: own_keys, values: own_values } =
            scratch;
        let columns = place.columns();
        sums[..depth * columns].fill(C::default());
        for first_key in range.clone().step_by(KEYS) {
            let keys = KEYS.min(range.end - first_key);
            let first_query = place.first_query;
            let tile = Tile { tiles, sizes, first_query, columns, first_key, keys };
            let elements = keys * columns;
            let (scores, slopes) = (&mut scores[..elements], &mut slopes[..elements]);
            // SAFETY: the rows lie inside their arrays, which are registered as read, and the
            // results inside what belongs to this task.
            unsafe {
                let k = self.k.rows(place.batch, place.key_head, first_key, keys);
                let v = self.v.rows(place.batch, place.key_head, first_key, keys);
                let k = k.factor(tiles, depth, own_keys);
                let v = v.factor(tiles, values, own_values);
                tile.scores(k, &block.turned_queries, depth, scores);
                tile.scores(v, &block.turned_g, values, slopes);
                if let Some(operand) = &self.mask {
                    let rows = operand.rows(place.batch, place.head, first_query, place.queries);
                    tile.add_mask(rows.from(first_key), scores, mask);
                }
                let (level, scale) = (tiles.level, C::of(sizes.scale));
                slopes_of_scores(level, scores, slopes, &block.log_sum_exp, &block.means, scale);
                tile.fill_unseen(scores, C::default());
                tile.fill_unseen(slopes, C::default());
                let at = first_key - range.start;
                let [of_k, of_v] = [of_k.add(at * depth), of_v.add(at * values)];
                tile.weigh_queries(scores, &block.g, place.queries, values, of_v);
                tile.weigh_queries(slopes, &block.queries, place.queries, depth, of_k);
                tile.weigh(k, slopes, depth, sums);
            }
        }
    }
}
