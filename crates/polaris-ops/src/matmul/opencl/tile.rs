//! The parameters of the tiled kernel, and the named tiles.

use polaris_runtime::Capabilities;

/// The tiled kernel's parameters; `tiled.cl` says what they do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Tile {
    /// Rows of the result that a work-group computes.
    pub m: u16,
    /// Columns of the result that a work-group computes.
    pub n: u16,
    /// Length of a step along k.
    pub k: u16,
    /// Work-items along m.
    pub threads_m: u16,
    /// Work-items along n.
    pub threads_n: u16,
    /// Work-items of a wavefront along m.
    pub lanes_m: u16,
    /// Work-items of a wavefront along n.
    pub lanes_n: u16,
    /// Elements along n that are read at once from local memory and multiplied as one vector.
    pub vector: u8,
    /// Elements along m that are read at once from local memory.
    pub rows_at_once: u8,
    /// Unused elements behind each row in local memory of an operand that is turned on its way
    /// there.
    pub padding: u8,
    /// Tiles of each operand in local memory.
    pub buffers: u8,
    /// 2 if the next operands are read ahead into registers.
    pub fragments: u8,
    /// Steps in k that are written out.
    pub unroll: u8,
    /// How tiles come to local memory.
    pub copy: TileCopy,
    /// How products are added.
    pub multiply: MultiplyAdd,
}

/// How a tile comes to local memory; the numbers are those of the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TileCopy {
    /// Through registers.
    Registers = 0,
    /// By OpenCL's `async_work_group_copy`.
    WorkGroup = 1,
    /// By NVIDIA's `cp.async`.
    Ptx = 2,
}

/// How products are added to accumulators of floating-point numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MultiplyAdd {
    /// As the compiler says is fast.
    Faster,
    /// Rounded as the device likes: full rate on every GPU.
    Mad,
    /// Rounded once: a quarter of the rate on some GPUs.
    Fma,
}

impl MultiplyAdd {
    pub(super) const fn code(self) -> &'static str {
        match self {
            Self::Faster => "FASTER_MULTIPLY_ADD",
            Self::Mad => "mad",
            Self::Fma => "fma",
        }
    }
}

impl Tile {
    /// A double-buffered tile whose work-items lie in rows, with the other parameters at their
    /// plainest.
    pub const fn new(m: u16, n: u16, k: u16, threads_m: u16, threads_n: u16) -> Self {
        const fn at_once(work: u16) -> u8 {
            match (work % 4, work % 2) {
                (0, _) => 4,
                (_, 0) => 2,
                _ => 1,
            }
        }
        Self {
            m,
            n,
            k,
            threads_m,
            threads_n,
            lanes_m: 1,
            lanes_n: threads_n,
            vector: at_once(n / threads_n),
            rows_at_once: at_once(m / threads_m),
            padding: 4,
            buffers: 2,
            fragments: 1,
            unroll: 4,
            copy: TileCopy::Registers,
            multiply: MultiplyAdd::Faster,
        }
    }

    /// Another arrangement of the work-items of a wavefront.
    pub const fn lanes(self, lanes_m: u16, lanes_n: u16) -> Self {
        Self { lanes_m, lanes_n, ..self }
    }

    /// Another number of steps that are written out.
    pub const fn unroll(self, unroll: u8) -> Self {
        Self { unroll, ..self }
    }

    /// Operands read ahead into registers.
    pub const fn read_ahead(self) -> Self {
        Self { fragments: 2, ..self }
    }

    /// Another way to local memory.
    pub const fn copy(self, copy: TileCopy, buffers: u8) -> Self {
        Self { copy, buffers, ..self }
    }

    /// For a processor: wide vectors, one buffer, since there is nobody to fetch meanwhile, and
    /// `fma`, which is one instruction there whatever the compiler says.
    pub const fn for_processor(self) -> Self {
        let (vector, padding, buffers) = (16, 16, 1);
        Self { vector, padding, buffers, unroll: 2, multiply: MultiplyAdd::Fma, ..self }
    }

    /// Work-items in a work-group.
    pub fn threads(&self) -> usize {
        usize::from(self.threads_m) * usize::from(self.threads_n)
    }

    /// Bytes of local memory, if both operands are turned on their way there.
    pub fn local_bytes(&self) -> usize {
        let lines = usize::from(self.m) + usize::from(self.n) + 2 * usize::from(self.padding);
        4 * lines * usize::from(self.k) * usize::from(self.buffers)
    }

    /// Whether a tile of `lines` rows or columns can be fetched `width` elements at a time.
    pub(super) fn fetches(&self, lines: u16, along_k: bool, width: usize) -> bool {
        let dense = usize::from(if along_k { self.k } else { lines });
        let elements = usize::from(lines) * usize::from(self.k);
        dense.is_multiple_of(width) && elements.is_multiple_of(width * self.threads())
    }

    /// Whether the parameters fit together and the device; if not, what does not.
    ///
    /// # Errors
    /// A description of the violated condition.
    pub fn check(&self, device: &Capabilities) -> Result<(), String> {
        let rule = |holds: bool, what: &str| if holds { Ok(()) } else { Err(what.to_owned()) };
        let sizes = [self.m, self.n, self.k, self.threads_m, self.threads_n];
        rule(sizes.iter().all(|&size| size > 0), "sizes are at least one")?;
        rule(self.m.is_multiple_of(self.threads_m), "threads_m divides m")?;
        rule(self.n.is_multiple_of(self.threads_n), "threads_n divides n")?;
        let lanes = self.lanes_m > 0 && self.lanes_n > 0;
        rule(lanes && self.threads_m.is_multiple_of(self.lanes_m), "lanes_m divides threads_m")?;
        rule(self.threads_n.is_multiple_of(self.lanes_n), "lanes_n divides threads_n")?;
        let widths = [self.vector, self.rows_at_once];
        let powers = widths.iter().all(|width| matches!(width, 1 | 2 | 4 | 8 | 16));
        rule(powers, "vectors have 1, 2, 4, 8 or 16 elements")?;
        let rows = (self.m / self.threads_m).is_multiple_of(self.rows_at_once.into());
        rule(rows, "rows_at_once divides a work-item's rows")?;
        let columns = (self.n / self.threads_n).is_multiple_of(self.vector.into());
        rule(columns, "vector divides a work-item's columns")?;
        let aligned = widths.iter().all(|&width| self.padding.is_multiple_of(width));
        rule(aligned && self.padding.is_multiple_of(4), "padding keeps vectors aligned")?;
        rule(matches!(self.fragments, 1 | 2), "fragments is 1 or 2")?;
        rule(self.fragments == 1 || self.k.is_multiple_of(2), "reading ahead needs an even k")?;
        rule(self.unroll > 0, "unroll is at least one")?;
        let buffers = match (self.copy, self.fragments) {
            (TileCopy::Ptx, _) => 2..=8,
            (_, 2) | (TileCopy::WorkGroup, _) => 2..=2,
            _ => 1..=2,
        };
        rule(buffers.contains(&self.buffers), "buffers fit the way of copying")?;
        rule(self.copy != TileCopy::Ptx || self.fragments == 2, "cp.async reads ahead")?;
        let fetched = [self.m, self.n].iter().all(|&lines| self.fetches(lines, true, 1));
        rule(fetched, "work-items share the elements of a tile evenly")?;
        rule(self.threads() <= device.max_work_group, "the work-group fits the device")?;
        let local = device.local_memory_bytes;
        rule(self.local_bytes() as u64 <= local, "the tiles fit local memory")?;
        rule(self.copy != TileCopy::Ptx || device.inline_ptx, "the compiler takes inline PTX")
    }

    /// Its name in kernel names: what tells it from other tiles.
    pub fn name(&self) -> String {
        let Self { m, n, k, threads_m, threads_n, .. } = self;
        let copy = match self.copy {
            TileCopy::Registers => "",
            TileCopy::WorkGroup => "_async",
            TileCopy::Ptx => "_ptx",
        };
        let vector = if self.vector > 4 { "_wide" } else { "" };
        let ahead = if self.fragments == 2 { "_ahead" } else { "" };
        format!("tile{m}x{n}x{k}_{threads_m}x{threads_n}{vector}{ahead}{copy}")
    }
}
