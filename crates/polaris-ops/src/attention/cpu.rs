//! Attention on the CPU: each thread takes blocks of queries and passes over their keys.

use polaris_runtime::HostOperands;
use polaris_runtime::cpu::CpuDevice;

use super::cpu_loops::{LANES, Running, scale, scale_columns, soften};
use super::cpu_tiles::{KEYS, Operand, QUERIES, Tile, for_tasks};
use super::geometry::Sizes;
use super::operations::Arrays;
use crate::cpu::blocks::Compute;
use crate::cpu::map::SendPointer;
use crate::matmul::{Strip, TileNumber, Tiles};
use crate::{Array, Result};

pub fn run(sizes: &Sizes, cpu: &CpuDevice, inputs: &[&Array], arrays: &Arrays<'_>) -> Result<()> {
    let buffers: Vec<_> = inputs.iter().map(|input| input.buffer()).collect();
    let operands = HostOperands::new("attention", &buffers, arrays.output.buffer())?;
    let operand = |index: usize| {
        let input = inputs[index];
        Operand::new(operands.input(index), input.dtype(), input.layout())
    };
    let spread = |mask: &Array| -> Result<Operand> {
        let layout = mask.layout().broadcast_to("attention", &sizes.score_shape()?)?;
        Ok(Operand::new(operands.input(3), mask.dtype(), &layout))
    };
    let size = arrays.output.dtype().size();
    let start = operands.output().wrapping_add(arrays.output.layout().offset() * size);
    let job = Job {
        sizes: *sizes,
        q: operand(0),
        k: operand(1),
        v: operand(2),
        mask: arrays.mask.map(spread).transpose()?,
        output: SendPointer(start),
        log_sum_exp: SendPointer(start.wrapping_add(sizes.rows() * sizes.values * size)),
    };
    match Compute::of(arrays.output.dtype()) {
        Compute::F64 => job.run::<f64>(cpu),
        _ => job.run::<f32>(cpu),
    }
    Ok(())
}

/// One attention, as its threads see it.
struct Job {
    sizes: Sizes,
    q: Operand,
    k: Operand,
    v: Operand,
    mask: Option<Operand>,
    output: SendPointer,
    log_sum_exp: SendPointer,
}

/// The memory of a thread.
struct Scratch<C> {
    /// The block's queries, turned and scaled.
    queries: Vec<C>,
    /// Scores, then their exponentials.
    scores: Vec<C>,
    mask: Vec<C>,
    /// The outputs in the making, turned.
    sums: Vec<C>,
    /// Keys and values where they cannot be read in their place.
    keys: Vec<C>,
    values: Vec<C>,
}

impl Job {
    fn run<C: TileNumber>(&self, cpu: &CpuDevice) {
        let Sizes { batch, heads, queries, depth, values, .. } = self.sizes;
        let tiles = C::tiles(cpu.simd());
        let zeros = |elements: usize| vec![C::default(); elements];
        let scratch = || Scratch {
            queries: zeros(depth * QUERIES),
            scores: zeros(KEYS * QUERIES),
            mask: zeros(if self.mask.is_some() { KEYS * QUERIES } else { 0 }),
            sums: zeros(values * QUERIES),
            keys: zeros(KEYS * depth),
            values: zeros(KEYS * values),
        };
        let blocks = queries.div_ceil(QUERIES);
        for_tasks(cpu.pool(), batch * heads * blocks, scratch, |task, scratch| {
            self.block(&tiles, task / blocks, task % blocks * QUERIES, scratch);
        });
    }

    /// Computes a block of queries of one head of all batches.
    fn block<C: TileNumber>(
        &self,
        tiles: &Tiles<C>,
        head: usize,
        first_query: usize,
        scratch: &mut Scratch<C>,
    ) {
        let sizes = &self.sizes;
        let Sizes { depth, values, .. } = *sizes;
        let level = tiles.level;
        let count = QUERIES.min(sizes.queries - first_query);
        let columns = count.next_multiple_of(LANES);
        let (batch, head) = (head / sizes.heads, head % sizes.heads);
        let key_head = head / sizes.group();
        let Scratch { queries, scores, mask, sums, keys: own_keys, values: own_values } = scratch;
        let (queries, sums) = (&mut queries[..depth * columns], &mut sums[..values * columns]);
        let q = self.q.rows(batch, head, first_query, count);
        // SAFETY: the rows lie inside the array, which is registered as read.
        unsafe { q.turn(tiles, depth, columns, queries) };
        scale(level, queries, C::of(sizes.scale));
        sums.fill(C::default());
        let mut running = Running::new(columns);
        let end = sizes.seen(first_query + count - 1);
        for first_key in (0..end).step_by(KEYS) {
            let keys = KEYS.min(end - first_key);
            let tile = Tile { tiles, sizes, first_query, columns, first_key, keys };
            let scores = &mut scores[..keys * columns];
            // SAFETY: the rows lie inside their arrays, which are registered as read.
            unsafe {
                let k = self.k.rows(batch, key_head, first_key, keys);
                tile.scores(k.factor(tiles, depth, own_keys), queries, depth, scores);
                if let Some(operand) = &self.mask {
                    let rows = operand.rows(batch, head, first_query, count);
                    tile.add_mask(rows.from(first_key), scores, mask);
                }
            }
            tile.fill_unseen(scores, C::of(f64::NEG_INFINITY));
            if soften(level, scores, &mut running) {
                scale_columns(level, sums, &running.factors);
            }
            // SAFETY: as above.
            unsafe {
                let v = self.v.rows(batch, key_head, first_key, keys);
                tile.weigh(v.factor(tiles, values, own_values), scores, values, sums);
            }
        }
        let row = (batch * sizes.heads + head) * sizes.queries + first_query;
        self.finish(tiles, running, sums, row, count);
    }

    /// Divides by the sums of the exponentials and writes the outputs.
    fn finish<C: TileNumber>(
        &self,
        tiles: &Tiles<C>,
        mut running: Running<C>,
        sums: &mut [C],
        row: usize,
        count: usize,
    ) {
        let values = self.sizes.values;
        let columns = running.sums.len();
        let zero = C::default();
        for (factor, &sum) in running.factors.iter_mut().zip(&running.sums) {
            // A query that sees nothing.
            *factor = if sum == zero { zero } else { C::of(1.0) / sum };
        }
        scale_columns(tiles.level, sums, &running.factors);
        let strip = Strip {
            start: sums.as_ptr().cast(),
            lanes: values,
            lane_stride: columns,
            depth: count,
            depth_stride: 1,
        };
        let output = self.output.get().cast::<C>();
        let log_sum_exp = self.log_sum_exp.get().cast::<C>();
        // SAFETY: the rows lie inside the output, and each is written by one thread.
        unsafe {
            tiles.pack(C::NATIVE, &strip, values, output.add(row * values));
            for query in 0..count {
                let (largest, sum) = (running.largest[query], running.sums[query]);
                let shift = if largest == C::of(f64::NEG_INFINITY) { zero } else { largest };
                *log_sum_exp.add(row + query) = shift + sum.ln();
            }
        }
    }
}
