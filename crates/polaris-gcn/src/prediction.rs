//! The prediction of the model, and how its components combine to one time.

/// How well units work at the same time: 1 would be one after the other, infinity perfectly.
const OVERLAP: f64 = 3.5;

/// What a product will take, and why.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Prediction {
    /// Time from the command to its end.
    pub seconds: f64,
    /// Thousand millions of floating-point operations a second; tiles beyond the edge do not count.
    pub gflops: f64,
    /// The same as a share of the card's peak.
    pub share_of_peak: f64,
    /// Work-groups that a compute unit holds at a time.
    pub groups_at_once: u32,
    /// Wavefronts of a SIMD unit that these are.
    pub waves_per_simd: f64,
    /// The components of the time.
    pub parts: Parts,
    /// The largest part.
    pub bound: Bound,
}

/// Seconds that each part would take if it were alone. All but the last three go on at the same
/// time.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Parts {
    /// Multiply-adds: a part of `vector`.
    pub products: f64,
    /// All vector instructions.
    pub vector: f64,
    /// Data of local memory.
    pub lds: f64,
    /// Looking up addresses of global memory.
    pub addresses: f64,
    /// The second cache.
    pub l2: f64,
    /// Memory.
    pub dram: f64,
    /// Wavefronts that wait for their own data.
    pub latency: f64,
    /// Work-groups that wait together: for global memory, at barriers, at their beginning and end.
    pub together: f64,
    /// Compute units without work while the last work-groups run.
    pub tail: f64,
    /// Giving the command.
    pub launch: f64,
}

/// What bounds a product.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Bound {
    /// Vector instructions.
    Vector,
    /// The speed of local memory.
    Lds,
    /// Looking up addresses of global memory.
    Addresses,
    /// The speed of the L2 cache or of memory.
    Memory,
    /// Waiting, with too few wavefronts to fill the time.
    Latency,
    /// Too few work-groups for the compute units, or too short a product.
    Tail,
}

impl Bound {
    /// A description.
    pub fn name(self) -> &'static str {
        match self {
            Self::Vector => "vector instructions",
            Self::Lds => "local memory",
            Self::Addresses => "addresses of global memory",
            Self::Memory => "cache and memory",
            Self::Latency => "latency",
            Self::Tail => "tail and launch",
        }
    }
}

impl Parts {
    pub(crate) fn bound(&self) -> Bound {
        let parts = [
            (self.vector, Bound::Vector),
            (self.lds, Bound::Lds),
            (self.addresses, Bound::Addresses),
            (self.l2.max(self.dram), Bound::Memory),
            (self.latency.max(self.together), Bound::Latency),
            (self.tail + self.launch, Bound::Tail),
        ];
        parts
            .into_iter()
            .max_by(|one, other| one.0.total_cmp(&other.0))
            .map_or(Bound::Vector, |it| it.1)
    }

    pub(crate) fn add(&mut self, round: &Parts, times: f64) {
        self.products += times * round.products;
        self.vector += times * round.vector;
        self.lds += times * round.lds;
        self.addresses += times * round.addresses;
        self.l2 += times * round.l2;
        self.dram += times * round.dram;
        self.latency += times * round.latency;
        self.together += times * round.together;
    }

    /// The time of parts that go on at the same time, and of what comes on top.
    pub(crate) fn norm(&self) -> f64 {
        let parts = [self.vector, self.lds, self.addresses, self.l2, self.dram, self.latency];
        let sum: f64 = parts.iter().map(|part| part.powf(OVERLAP)).sum();
        sum.powf(OVERLAP.recip()) + self.together
    }
}
