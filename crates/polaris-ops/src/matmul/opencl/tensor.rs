//! The parameters of the kernel for tensor cores.

use polaris_core::DType;
use polaris_runtime::Capabilities;

/// The tensor kernel's parameters; `tensor.cl` says what they do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Tensor {
    /// Rows of the result that a work-group computes.
    pub m: u16,
    /// Columns of the result that a work-group computes.
    pub n: u16,
    /// Length of a step along k, in bytes: elements of two bytes go twice as far.
    pub step_bytes: u16,
    /// Rows of the result that a warp computes.
    pub warp_m: u16,
    /// Columns of the result that a warp computes.
    pub warp_n: u16,
    /// Tiles of each operand in local memory.
    pub buffers: u8,
}

impl Tensor {
    /// Work-items in a work-group.
    pub fn threads(&self) -> usize {
        32 * usize::from(self.m / self.warp_m) * usize::from(self.n / self.warp_n)
    }

    /// Whether the parameters fit together, the element type and the device; if not, what does
    /// not.
    ///
    /// # Errors
    /// A description of the violated condition.
    pub fn check(&self, device: &Capabilities, dtype: DType) -> Result<(), String> {
        let rule = |holds: bool, what: &str| if holds { Ok(()) } else { Err(what.to_owned()) };
        rule(device.inline_ptx, "the compiler takes inline PTX")?;
        let types = [DType::F32, DType::F16, DType::BF16];
        rule(types.contains(&dtype), "tensor cores multiply f32, f16 and bf16")?;
        rule(self.warp_m > 0 && self.warp_m.is_multiple_of(16), "warp_m is a multiple of 16")?;
        rule(self.warp_n > 0 && self.warp_n.is_multiple_of(16), "warp_n is a multiple of 16")?;
        rule(self.m.is_multiple_of(self.warp_m), "warp_m divides m")?;
        rule(self.n.is_multiple_of(self.warp_n), "warp_n divides n")?;
        // Registers alternate between two instructions' worth of k, 32 bytes each.
        let bytes = usize::from(self.step_bytes);
        rule(bytes > 0 && bytes.is_multiple_of(64), "step_bytes is a multiple of 64")?;
        rule(self.buffers >= 2, "there are at least two buffers")?;
        let chunks = [self.m, self.n].map(|lines| usize::from(lines) * bytes / 16);
        let shared = chunks.iter().all(|chunks| chunks.is_multiple_of(self.threads()));
        rule(shared, "work-items share the chunks of a tile evenly")?;
        rule(self.threads() <= device.max_work_group, "the work-group fits the device")?;
        let local = (usize::from(self.m) + usize::from(self.n)) * bytes * usize::from(self.buffers);
        rule(local as u64 <= device.local_memory_bytes, "the tiles fit local memory")
    }

    /// Its name in kernel names.
    pub fn name(&self) -> String {
        let Self { m, n, step_bytes, warp_m, warp_n, buffers } = self;
        format!("tensor{m}x{n}x{step_bytes}_{warp_m}x{warp_n}_{buffers}")
    }
}
