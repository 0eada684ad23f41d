//! Matmul with B in a block format and A rounded to bytes: see `cpu/int8`.

use std::sync::atomic::{AtomicUsize, Ordering};

use polaris_runtime::HostOperands;
use polaris_runtime::cpu::CpuDevice;

use super::blocks::{TASKS_PER_THREAD, each_column};
use super::finish::{Place, TILE_STRIDE, store};
use super::multiply::Scratch;
use super::product::Product;
use crate::cpu::int8::activations::{Rows, Tile, Tiles};
use crate::cpu::int8::panels::{Ahead, Panel, ROWS};
use crate::cpu::int8::{Instructions, WeightRows, dots, panels};
use crate::cpu::map::SendPointer;
use crate::format::Blocks;
use crate::{Array, Result};

/// Elements of A that are worth a task.
const ROUND_TASK: usize = 1 << 14;
/// The most panels that a worker takes at once.
const MOST_PANELS: usize = 8;
/// The most rows of a tile of any kernel.
const MOST_TOKENS: usize = 16;

/// A product whose B is rows of whole blocks along k, from `blocks` on; rows of A are dense along k.
pub(super) struct Int8<'a> {
    pub cpu: &'a CpuDevice,
    pub product: &'a Product,
    pub blocks: SendPointer,
}

impl Int8<'_> {
    pub fn run<B: Blocks>(&self, output: &Array) -> Result<()> {
        let &Product { m, k, .. } = self.product;
        let few = m <= dots::TOKENS;
        let panel_kernels = panels::kernels::<B>(Instructions::of(self.cpu.simd()));
        let most = if few { 1 } else { 2 * panel_kernels.multiply.len() };
        let tiles = Tiles::new(m, k, most, B::GROUP);
        let tile_bytes = tiles.bytes().next_multiple_of(64);
        let workers = if few { 0 } else { self.cpu.pool().threads() };
        let scratch = Scratch::new(output.device(), tile_bytes + workers * Panel::bytes(k))?;
        let operands = scratch.operands()?;
        let memory = operands.as_ref().map_or(std::ptr::null_mut(), HostOperands::output);
        self.round(tiles, SendPointer(memory));
        if few {
            self.few::<B>(tiles, memory);
        } else {
            let panels = SendPointer(memory.wrapping_add(tile_bytes));
            self.many::<B>(tiles, SendPointer(memory), panels);
        }
        Ok(())
    }

    /// Rounds A.
    fn round(&self, tiles: Tiles, memory: SendPointer) {
        let &Product { m, k, a, .. } = self.product;
        let start = SendPointer(a.at(0, 0));
        let instructions = Instructions::of(self.cpu.simd());
        let grain = ROUND_TASK.div_ceil(tiles.tokens * k.max(1)).max(1);
        self.cpu.pool().for_chunks(tiles.count, grain, |numbers| {
            let start = start.get().cast::<f32>().cast_const();
            let rows = Rows { start, stride: a.row_stride, count: m, length: k };
            for number in numbers {
                // SAFETY: A is registered as read, the memory is this call's, and each tile is written once.
                unsafe { tiles.write(instructions, rows, number, memory.get()) };
            }
        });
    }

    /// Bytes from one row of B to the next.
    fn row_bytes<B: Blocks>(&self) -> usize {
        self.product.b.column_stride / B::ELEMENTS * B::BYTES
    }

    /// Each row of B once, for all rows of A.
    fn few<B: Blocks>(&self, tiles: Tiles, memory: *mut u8) {
        let &Product { m, k, .. } = self.product;
        let mut tokens = [tiles.tile(memory, 0); dots::TOKENS];
        for (number, token) in tokens.iter_mut().enumerate().take(m) {
            *token = tiles.tile(memory, number);
        }
        let tokens = Tokens(tokens);
        let kernel = dots::kernels::<B>(Instructions::of(self.cpu.simd()))[m - 1];
        each_column::<B>(self.cpu, self.product, self.blocks, &|rows, to| {
            // SAFETY: the rows lie inside B, which is registered as read, and the tokens are as long.
            unsafe { kernel(rows, k, tokens.get(m), to, TILE_STRIDE) };
        });
    }

    /// Sixteen rows of B after the other, for all tiles of A.
    fn many<B: Blocks>(&self, tiles: Tiles, memory: SendPointer, panels: SendPointer) {
        let &Product { m, n, k, .. } = self.product;
        let (pool, level) = (self.cpu.pool(), self.cpu.simd());
        let kernels = panels::kernels::<B>(Instructions::of(level));
        let multiply = kernels.multiply[tiles.tokens / 2 - 1];
        let stride = self.row_bytes::<B>();
        let next = AtomicUsize::new(0);
        // While a panel is multiplied, the next is fetched: so a worker knows it beforehand, and takes some that follow
        // one another.
        let run = (n.div_ceil(ROWS) / (pool.threads() * TASKS_PER_THREAD)).clamp(1, MOST_PANELS);
        let claim = || ROWS * run * next.fetch_add(1, Ordering::Relaxed);
        pool.run(pool.threads().min(n.div_ceil(ROWS * run)), |worker| {
            let panel = Panel::new(panels.get().wrapping_add(worker * Panel::bytes(k)), k);
            let start =
                |column: usize| self.blocks.get().wrapping_add(column * stride).cast_const();
            let mut column = claim();
            let mut end = column + ROWS * run;
            while column < n {
                let mut following = column + ROWS;
                if following == end {
                    following = claim();
                    end = following + ROWS * run;
                }
                let bytes = ROWS.min(n.saturating_sub(following)) * stride;
                let ahead = Ahead { start: start(following), bytes };
                let count = ROWS.min(n - column);
                let rows = WeightRows { start: start(column), stride, count };
                // SAFETY: the rows lie inside B, which is registered as read, and the panel is this worker's.
                unsafe { (kernels.pack)(rows, k, panel) };
                for number in 0..tiles.count {
                    let mut sums = [0.0; TILE_STRIDE * MOST_TOKENS];
                    let row = number * tiles.tokens;
                    let rows = tiles.tokens.min(m - row);
                    let tile = tiles.tile(memory.get(), number);
                    let ahead = ahead.part(number, tiles.count);
                    // SAFETY: the panel and the tile are written and equally long; the operands are registered,
                    // and each column is computed by one worker.
                    unsafe {
                        multiply(panel, tile, sums.as_mut_ptr(), TILE_STRIDE, ahead);
                        let place = Place { row, rows, column, columns: count };
                        store(level, self.product, &sums, place);
                    }
                }
                column = following;
            }
        });
    }
}

/// Rows of A that all threads read.
struct Tokens([Tile; dots::TOKENS]);

// SAFETY: they are read only while tasks run.
unsafe impl Sync for Tokens {}

impl Tokens {
    fn get(&self, count: usize) -> &[Tile] {
        &self.0[..count]
    }
}
