//! The resources of a kernel, and its occupancy of a compute unit.

/// SIMD units of a compute unit; a work group's waves are spread over them.
pub(crate) const SIMDS: u32 = 4;
/// Lanes of a wave.
pub(crate) const WAVE: u32 = 64;
/// Local memory of a compute unit in bytes.
const LDS_BYTES: u32 = 64 * 1024;
/// Local memory is handed out in blocks of this many bytes.
const LDS_BLOCK: u32 = 512;
/// Work groups of more than one wave that a compute unit holds at a time.
const GROUPS: u32 = 16;
/// Vector registers of a SIMD unit's lane.
const VGPRS: u32 = 256;
/// Waves of a SIMD unit at most.
const MOST_WAVES: u32 = 10;

/// What one kernel uses, as clang reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kernel {
    /// The kernel function.
    pub name: String,
    /// Vector registers of a lane.
    pub vgprs: u32,
    /// Scalar registers of a wave.
    pub sgprs: u32,
    /// Vector registers spilled to scratch.
    pub vgpr_spills: u32,
    /// Scalar registers spilled (to lanes of a vector register, or to scratch).
    pub sgpr_spills: u32,
    /// Local memory known at compile time, in bytes.
    pub lds_bytes: u32,
    /// Whether the kernel takes a `__local` pointer: its size comes on top of `lds_bytes`.
    pub dynamic_lds: bool,
    /// Scratch (private memory) of a work item in bytes.
    pub scratch_bytes: u32,
    /// Whether the stack grows at run time, beyond `scratch_bytes`.
    pub dynamic_stack: bool,
    /// The largest work group the code was compiled for.
    pub max_workgroup: u32,
    /// `reqd_work_group_size`, where the source states it.
    pub required_workgroup: Option<[u32; 3]>,
    /// Length of the code in bytes.
    pub code_bytes: u32,
    /// Waves a SIMD by clang's count; see [`Kernel::occupancy`].
    pub clang_occupancy: u32,
}

impl Kernel {
    /// Spilled registers of both kinds.
    pub fn spills(&self) -> u32 {
        self.vgpr_spills + self.sgpr_spills
    }

    /// Whether the kernel needs any scratch.
    pub fn uses_scratch(&self) -> bool {
        self.scratch_bytes > 0 || self.dynamic_stack
    }

    /// Waves a SIMD holds at a time.
    ///
    /// Clang's figure is right for registers, but clang 15 forgets that the groups which fit into
    /// local memory share four SIMDs (256 items with 17,000 bytes: it says 10, the hardware holds
    /// 3), so the lower of its figure and our own bound counts. Local memory passed as an argument
    /// is unknown here and not counted.
    pub fn occupancy(&self) -> u32 {
        let waves = self.max_workgroup.div_ceil(WAVE).max(1);
        let block = self.lds_bytes.next_multiple_of(LDS_BLOCK);
        let fitting = LDS_BYTES.checked_div(block).unwrap_or(u32::MAX);
        let groups = if waves == 1 { fitting } else { fitting.min(GROUPS) };
        let bound = (groups.saturating_mul(waves) / SIMDS).max(1);
        self.clang_occupancy.min(bound)
    }

    /// Work-groups of so many work-items that a compute unit holds at a time; zero if not even one
    /// fits.
    pub fn groups_at_once(&self, threads: u32) -> u32 {
        let waves = waves_of(threads).max(1);
        // Clang counts both kinds of registers, but not always for this work-group.
        let by_registers = SIMDS * self.clang_occupancy.min(self.waves_by_vgprs()) / waves;
        let block = self.lds_bytes.next_multiple_of(LDS_BLOCK);
        let by_lds = LDS_BYTES.checked_div(block).unwrap_or(u32::MAX);
        let by_barriers = if waves == 1 { u32::MAX } else { GROUPS };
        by_registers.min(by_lds).min(by_barriers)
    }

    /// Wavefronts for whose vector registers a SIMD unit has room: they are handed out in fours.
    fn waves_by_vgprs(&self) -> u32 {
        (VGPRS / self.vgprs.max(1).next_multiple_of(4)).min(MOST_WAVES)
    }
}

/// Wavefronts of a work-group.
pub(crate) fn waves_of(threads: u32) -> u32 {
    threads.div_ceil(WAVE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel() -> Kernel {
        Kernel {
            name: "any".to_owned(),
            vgprs: 24,
            sgprs: 16,
            vgpr_spills: 0,
            sgpr_spills: 0,
            lds_bytes: 0,
            dynamic_lds: false,
            scratch_bytes: 0,
            dynamic_stack: false,
            max_workgroup: 256,
            required_workgroup: None,
            code_bytes: 100,
            clang_occupancy: 10,
        }
    }

    #[test]
    fn local_memory_bounds_occupancy() {
        let waves = |clang_occupancy, lds_bytes, max_workgroup| {
            Kernel { clang_occupancy, lds_bytes, max_workgroup, ..kernel() }.occupancy()
        };
        assert_eq!(waves(10, 0, 256), 10);
        assert_eq!(waves(5, 1024, 256), 5, "registers bind first");
        assert_eq!(waves(10, 17_000, 256), 3);
        assert_eq!(waves(4, 33_000, 256), 1);
        assert_eq!(waves(10, 0, 128), 8, "16 groups of two waves");
        assert_eq!(waves(1, 65_536, 64), 1, "one wave on one of four SIMDs still counts as one");
    }

    #[test]
    fn work_groups_share_registers_and_local_memory() {
        let groups = |vgprs, lds_bytes, threads| {
            Kernel { vgprs, lds_bytes, ..kernel() }.groups_at_once(threads)
        };
        assert_eq!(groups(24, 0, 64), 40, "ten wavefronts on each SIMD unit");
        assert_eq!(groups(24, 0, 128), 16, "as many as there are barriers");
        assert_eq!(groups(126, 16_640, 256), 2, "by registers");
        assert_eq!(groups(126, 33_280, 256), 1, "by local memory");
        assert_eq!(groups(45, 4608, 144), 6, "five wavefronts a SIMD unit, three a work-group");
        assert_eq!(groups(200, 0, 1024), 0);
    }
}
