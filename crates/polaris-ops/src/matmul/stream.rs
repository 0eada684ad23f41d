//! Matmuls larger than the device's memory: operands stay on the host, and blocks are copied to the device and back
//! while it multiplies the previous ones.

use std::sync::Arc;

use polaris_core::{DType, Layout, Shape};
use polaris_runtime::{DeviceExt, DeviceRef, Event, Queue, QueueOptions};

use super::geometry::{A, B, C, Geometry, Matrix, OUT, RESIDUAL};
use super::problem::{Bias, MatMul, Parts};
use super::spares::{Lent, Spares};
use super::timeline::{Overlap, Timeline};
use crate::copy::{Copy, contiguous};
use crate::operation::run;
use crate::{Array, Error, Result};

/// Rows and columns of blocks are multiples of this where there is room, so that tiles fit.
const TILE: usize = 64;
/// What is left free for vectors.
const RESERVE: usize = 64 << 10;
/// The least rows and columns of a block.
const GRANULE: usize = 16;
/// Blocks of fewer rows leave a device without work for all of its units.
const ENOUGH_ROWS: usize = 512;

/// What a streamed product did.
#[derive(Debug, Clone, Copy)]
pub struct Streamed {
    /// Blocks of the result.
    pub blocks: usize,
    /// Rows of a block.
    pub block_rows: usize,
    /// Columns of a block.
    pub block_columns: usize,
    /// Bytes that went to the device.
    pub uploaded: u64,
    /// When copies and products ran, by the device's clock.
    pub overlap: Overlap,
}

impl MatMul {
    /// Computes on `device` what may not fit into its memory: all arrays are on the CPU, the
    /// result too.
    ///
    /// # Errors
    /// If the arrays do not fit together or are not on the CPU, or if not even a narrow stripe of
    /// the operands has room on the device.
    pub fn stream(
        &self,
        device: &DeviceRef,
        inputs: &[&Array],
        output: &Array,
    ) -> Result<Streamed> {
        let parts = self.parts(inputs)?;
        let geometry = Geometry::new(self, &parts, output)?;
        for array in inputs.iter().copied().chain([output]) {
            if array.device().as_cpu().is_none() {
                let what = "streamed operands stay on the CPU; copy them there".to_owned();
                return Err(Error::InvalidParameter { op: "matmul", what });
            }
        }
        let blocks = Blocks::new(device, &geometry, &parts, output)?;
        let mut stream = Stream::new(self, device)?;
        for batch in 0..geometry.batches.elements() {
            let product = Whole::of(&geometry, &parts, output, batch)?;
            stream.product(&product, &blocks)?;
        }
        stream.finish(&blocks)
    }
}

/// The size of blocks.
#[derive(Debug, Clone, Copy)]
struct Blocks {
    rows: usize,
    columns: usize,
}

impl Blocks {
    /// The widest blocks that leave room for enough rows: each stripe of B then travels once, and
    /// A as seldom as possible.
    fn new(device: &DeviceRef, geometry: &Geometry, parts: &Parts, output: &Array) -> Result<Self> {
        let Geometry { m, n, k, .. } = *geometry;
        let memory = device.allocator().memory_use();
        let free = (memory.limit.saturating_sub(memory.used)) as usize;
        let largest = device.capabilities().max_allocation_bytes as usize;
        // Results, and what is added to them, of two blocks.
        let planes = 1 + usize::from(parts.c.is_some()) + usize::from(parts.residual.is_some());
        let [a, b, out] = [parts.a.dtype(), parts.b.dtype(), output.dtype()].map(DType::size);
        let k = k.max(1);
        let rows_for = |columns: usize, right_slots: usize| {
            // The allocator rounds up, and vectors need a little as well.
            let left = (free - free / 8).checked_sub(right_slots * columns * k * b + RESERVE)?;
            let rows = left / (2 * (k * a + planes * columns * out));
            let rows = rows.min(largest / (k * a).max(columns * out)).min(m);
            let granule = if rows >= TILE { TILE } else { GRANULE };
            let fits = rows == m || rows >= granule;
            fits.then(|| if rows == m { m } else { rows / granule * granule })
        };
        let width = |stripes: usize| {
            let columns = n.div_ceil(stripes);
            columns.next_multiple_of(if columns >= TILE { TILE } else { GRANULE }).min(n)
        };
        let stripes = || (1..=n.div_ceil(GRANULE)).filter(|&s| width(s) * k * b <= largest);
        let enough = ENOUGH_ROWS.min(m);
        for (right_slots, least) in [(2, enough), (1, enough), (1, 1)] {
            for stripes in stripes() {
                let columns = width(stripes);
                if let Some(rows) = rows_for(columns, right_slots).filter(|&rows| rows >= least) {
                    return Ok(Self { rows, columns });
                }
            }
        }
        let needed = (3 * GRANULE * k * a.max(b)) as u64;
        Err(polaris_runtime::Error::OutOfMemory {
            device: device.id(),
            asked: needed,
            used: memory.used,
            available: free as u64,
            live: device.allocator().live(),
        }
        .into())
    }
}

/// One product of the batch, as matrices on the host.
struct Whole {
    a: Array,
    b: Array,
    out: Array,
    c: Option<Array>,
    residual: Option<Array>,
    row_scales: Option<Array>,
    column_scales: Option<Array>,
    bias: Option<Array>,
    sizes: [usize; 2],
}

impl Whole {
    fn of(geometry: &Geometry, parts: &Parts, output: &Array, batch: usize) -> Result<Self> {
        let Geometry { m, n, k, .. } = *geometry;
        let at = geometry.batches.point(batch);
        let view = |array: &Array, matrix: Matrix, dims: [usize; 2], operand: usize| {
            let strides = [matrix.rows, matrix.columns];
            let layout = Layout::new(Shape::new(&dims)?, &strides, at[operand])?;
            Array::new(array.buffer().clone(), layout)
        };
        let plane = |array: Option<&Array>, matrix: Matrix, operand: usize| {
            array.map(|array| view(array, matrix, [m, n], operand)).transpose()
        };
        Ok(Self {
            a: view(parts.a, geometry.a, [m, k], A)?,
            b: view(parts.b, geometry.b, [k, n], B)?,
            out: view(output, geometry.out, [m, n], OUT)?,
            c: plane(parts.c, geometry.c, C)?,
            residual: plane(parts.residual, geometry.residual, RESIDUAL)?,
            row_scales: parts.row_scales.cloned(),
            column_scales: parts.column_scales.cloned(),
            bias: parts.bias.cloned(),
            sizes: [m, n],
        })
    }
}

/// A block that is being multiplied.
struct Pending {
    /// Memory of its own that others may have when it is done.
    inputs: Vec<Lent>,
    out: Lent,
    done: Event,
    /// Where its result goes.
    target: Array,
}

struct Stream<'a> {
    op: &'a MatMul,
    device: &'a DeviceRef,
    uploads: Arc<dyn Queue>,
    downloads: Arc<dyn Queue>,
    /// The block before, whose result is on its way while the next one is prepared.
    pending: Option<Pending>,
    /// Memory of blocks that are done. Drivers wait for the whole device when memory is freed.
    spares: Spares,
    blocks: usize,
    uploaded: u64,
    timeline: Timeline,
}

impl<'a> Stream<'a> {
    fn new(op: &'a MatMul, device: &'a DeviceRef) -> Result<Self> {
        let queue =
            || device.new_queue(QueueOptions { profiling: true, ..QueueOptions::default() });
        Ok(Self {
            op,
            device,
            uploads: queue()?,
            downloads: queue()?,
            pending: None,
            spares: Spares::default(),
            blocks: 0,
            uploaded: 0,
            timeline: Timeline::new(queue()?),
        })
    }

    fn product(&mut self, whole: &Whole, blocks: &Blocks) -> Result<()> {
        let [m, n] = whole.sizes;
        for first_column in (0..n).step_by(blocks.columns) {
            let columns = first_column..n.min(first_column + blocks.columns);
            let stripe = whole.b.slice(1, columns.clone(), 1)?;
            let b = self.upload(&stripe)?;
            for first_row in (0..m).step_by(blocks.rows) {
                let rows = first_row..m.min(first_row + blocks.rows);
                let target = whole.out.slice(0, rows.clone(), 1)?.slice(1, columns.clone(), 1)?;
                let mut sources = vec![whole.a.slice(0, rows.clone(), 1)?];
                if let Some(c) = &whole.c {
                    sources.push(c.slice(0, rows.clone(), 1)?.slice(1, columns.clone(), 1)?);
                }
                let per_row = self.op.epilogue.bias == Some(Bias::PerRow);
                let vectors = [
                    (&whole.row_scales, true),
                    (&whole.column_scales, false),
                    (&whole.bias, per_row),
                ];
                for (vector, along_rows) in vectors {
                    if let Some(vector) = vector {
                        let range = if along_rows { rows.clone() } else { columns.clone() };
                        sources.push(vector.slice(0, range, 1)?);
                    }
                }
                if let Some(residual) = &whole.residual {
                    sources.push(residual.slice(0, rows.clone(), 1)?.slice(
                        1,
                        columns.clone(),
                        1,
                    )?);
                }
                self.block(&sources, &b.array, target)?;
            }
            let done = self.pending.as_ref().map_or(Event::COMPLETE, |last| last.done.clone());
            self.spares.put(b, done);
        }
        Ok(())
    }

    /// One block: operands up, product, and the result of the block before down, meanwhile.
    fn block(&mut self, sources: &[Array], b: &Array, target: Array) -> Result<()> {
        let mut inputs = Vec::new();
        for source in sources {
            inputs.push(self.upload(source)?);
        }
        let mut operands: Vec<&Array> = inputs.iter().map(|input| &input.array).collect();
        operands.insert(1, b);
        let there = self.uploads.record()?;
        let compute = self.device.queue();
        compute.wait_for(&there)?;
        let out =
            self.spares.take(self.device, &self.downloads, target.dtype(), *target.shape())?;
        run(self.op, &operands, &out.array)?;
        let done = compute.record()?;
        self.timeline.computed(&there, &done)?;
        compute.flush()?;
        self.collect()?;
        self.pending = Some(Pending { inputs, out, done, target });
        self.blocks += 1;
        Ok(())
    }

    /// A copy on the device.
    fn upload(&mut self, source: &Array) -> Result<Lent> {
        let dense =
            if source.layout().is_contiguous() { source.clone() } else { contiguous(source)? };
        let start = dense.layout().offset();
        let host = dense.buffer().view(start..start + dense.elements())?;
        let lent = self.spares.take(self.device, &self.uploads, host.dtype(), *dense.shape())?;
        let begin = self.uploads.record()?;
        host.copy_to(lent.array.buffer())?;
        self.timeline.copied(begin, self.uploads.record()?);
        self.uploads.flush()?;
        self.uploaded += host.bytes() as u64;
        Ok(lent)
    }

    /// Brings the result of the block before to the host, if there is one.
    fn collect(&mut self) -> Result<()> {
        let Some(Pending { inputs, out, target, done }) = self.pending.take() else {
            return Ok(());
        };
        for input in inputs {
            self.spares.put(input, done.clone());
        }
        self.downloads.wait_for(&done)?;
        let begin = self.downloads.record()?;
        let host = target.device().allocate(target.dtype(), target.elements())?;
        out.array.buffer().copy_to(&host)?;
        self.timeline.copied(begin, self.downloads.record()?);
        self.spares.put(out, Event::COMPLETE);
        let host = Array::new(host, Layout::contiguous(*target.shape()))?;
        run(&Copy, &[&host], &target)
    }

    fn finish(mut self, blocks: &Blocks) -> Result<Streamed> {
        self.collect()?;
        Ok(Streamed {
            blocks: self.blocks,
            block_rows: blocks.rows,
            block_columns: blocks.columns,
            uploaded: self.uploaded,
            overlap: self.timeline.overlap()?,
        })
    }
}
