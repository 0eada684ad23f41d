//! One machine instruction, as far as its cost goes.

/// The kinds of instructions that cost differently. Bytes are those of one lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Instruction {
    /// A multiply-add at the full rate: `v_mac_f32`, `v_mad_f32`, `v_mad_i32_i24`.
    MultiplyAdd,
    /// A multiply-add that is rounded once: a quarter of the rate on gfx803.
    FusedMultiplyAdd,
    /// Another vector instruction at the full rate.
    Vector,
    /// Another vector instruction at a quarter of the rate: whole 32-bit products, 64-bit
    /// operations, reciprocals, roots, exponentials.
    SlowVector,
    /// A read of local memory.
    LdsRead {
        /// Bytes that a lane gets.
        bytes: u32,
    },
    /// A write to local memory.
    LdsWrite {
        /// Bytes that a lane gives.
        bytes: u32,
    },
    /// A load from global memory.
    Load {
        /// Bytes that a lane gets.
        bytes: u32,
    },
    /// A store to global memory.
    Store {
        /// Bytes that a lane gives.
        bytes: u32,
    },
    /// A load through the scalar cache, which is counted together with local memory.
    ScalarLoad,
    /// Any other scalar instruction.
    Scalar,
    /// A jump, taken or not.
    Branch,
    /// A barrier of the work-group.
    Barrier,
    /// A wait until at most so many accesses are under way.
    Wait {
        /// Of local memory and scalar loads (`lgkmcnt`).
        lds: Option<u32>,
        /// Of global memory (`vmcnt`).
        memory: Option<u32>,
    },
}

/// Vector instructions at a quarter of the rate, by how their names begin.
const SLOW: [&str; 13] = [
    "v_mul_lo_",
    "v_mul_hi_",
    "v_mad_u64_",
    "v_mad_i64_",
    "v_rcp_",
    "v_rsq_",
    "v_sqrt_",
    "v_exp_",
    "v_log_",
    "v_sin_",
    "v_cos_",
    "v_div_fmas_",
    "v_trig_",
];

impl Instruction {
    /// What a line of assembly is: its mnemonic and the rest.
    pub fn parse(mnemonic: &str, operands: &str) -> Self {
        // `_e32`, `_e64`, `_sdwa` and `_dpp` say how an instruction is written, not what it does.
        let name = ["_e32", "_e64", "_sdwa", "_dpp"]
            .iter()
            .find_map(|form| mnemonic.strip_suffix(form))
            .unwrap_or(mnemonic);
        match name.split_once('_').map_or(name, |(unit, _)| unit) {
            "v" => vector(name),
            "ds" => local(name),
            "flat" | "global" | "buffer" | "tbuffer" | "scratch" => global(name),
            _ => scalar(name, operands),
        }
    }

    /// Whether it is a multiply-add of either kind.
    pub fn multiplies(self) -> bool {
        matches!(self, Self::MultiplyAdd | Self::FusedMultiplyAdd)
    }
}

fn vector(name: &str) -> Instruction {
    let is_any = |prefixes: &[&str]| prefixes.iter().any(|prefix| name.starts_with(prefix));
    if is_any(&["v_mac_f32", "v_mad_f32", "v_madak_f32", "v_madmk_f32", "v_mad_i32_i24"]) {
        Instruction::MultiplyAdd
    } else if is_any(&["v_fma_f32", "v_fmac_f32", "v_fmaak_f32", "v_fmamk_f32"]) {
        Instruction::FusedMultiplyAdd
    } else if is_any(&SLOW) || ["_f64", "_b64", "_u64", "_i64"].iter().any(|s| name.contains(s)) {
        Instruction::SlowVector
    } else {
        Instruction::Vector
    }
}

fn local(name: &str) -> Instruction {
    let width = match name.rsplit('_').next() {
        Some("b64" | "u64" | "i64" | "f64") => 8,
        Some("b96") => 12,
        Some("b128") => 16,
        // Bytes and halves come as whole registers.
        _ => 4,
    };
    let bytes = if name.contains("read2") || name.contains("write2") { 2 * width } else { width };
    if name.contains("read") || name.contains("permute") || name.contains("swizzle") {
        Instruction::LdsRead { bytes }
    } else {
        Instruction::LdsWrite { bytes }
    }
}

fn global(name: &str) -> Instruction {
    let width = if name.ends_with("x2") || name.ends_with("_xy") {
        8
    } else if name.ends_with("x3") || name.ends_with("_xyz") {
        12
    } else if name.ends_with("x4") || name.ends_with("_xyzw") {
        16
    } else if name.contains("byte") {
        1
    } else if name.contains("short") {
        2
    } else {
        4
    };
    if name.contains("_load") {
        Instruction::Load { bytes: width }
    } else {
        Instruction::Store { bytes: width }
    }
}

fn scalar(name: &str, operands: &str) -> Instruction {
    match name {
        "s_barrier" => Instruction::Barrier,
        "s_waitcnt" => wait(operands),
        _ if name.starts_with("s_branch") || name.starts_with("s_cbranch") => Instruction::Branch,
        _ if name.starts_with("s_load") || name.starts_with("s_buffer_load") => {
            Instruction::ScalarLoad
        }
        _ => Instruction::Scalar,
    }
}

/// `vmcnt(0) lgkmcnt(3)`; a bare number is taken as a wait for everything.
fn wait(operands: &str) -> Instruction {
    let count = |name: &str| {
        let (_, rest) = operands.split_once(name)?;
        rest.split_once(')')?.0.trim().parse().ok()
    };
    match (count("lgkmcnt("), count("vmcnt("), operands.contains("expcnt(")) {
        (None, None, false) => Instruction::Wait { lds: Some(0), memory: Some(0) },
        (lds, memory, _) => Instruction::Wait { lds, memory },
    }
}

#[cfg(test)]
mod tests {
    use super::Instruction::*;
    use super::*;

    fn of(line: &str) -> Instruction {
        let (mnemonic, operands) = line.split_once(' ').unwrap_or((line, ""));
        Instruction::parse(mnemonic, operands)
    }

    #[test]
    fn vector_instructions_have_two_rates() {
        for line in ["v_mac_f32_e32 v1, v2, v3", "v_mad_f32 v1, v2, v3, v4", "v_mad_i32_i24 v1"] {
            assert_eq!(of(line), MultiplyAdd, "{line}");
        }
        assert_eq!(of("v_fma_f32 v1, v2, v3, v4"), FusedMultiplyAdd);
        for line in ["v_add_u32_e32 v1, vcc, v2, v3", "v_mul_f32_e32 v1", "v_mad_u32_u24 v1"] {
            assert_eq!(of(line), Vector, "{line}");
        }
        for line in
            ["v_mul_lo_u32 v1", "v_lshlrev_b64 v[0:1]", "v_rcp_iflag_f32_e32 v1", "v_add_f64 v"]
        {
            assert_eq!(of(line), SlowVector, "{line}");
        }
        // Names that only look like exponentials.
        assert_eq!(of("v_frexp_exp_i32_f32_e32 v1, v2"), Vector);
    }

    #[test]
    fn accesses_have_their_bytes() {
        assert_eq!(of("ds_read_b128 v[0:3], v9 offset:16"), LdsRead { bytes: 16 });
        assert_eq!(of("ds_read2_b64 v[0:3], v9 offset1:8"), LdsRead { bytes: 16 });
        assert_eq!(of("ds_read2st64_b32 v[0:1], v9"), LdsRead { bytes: 8 });
        assert_eq!(of("ds_read_u16 v0, v9"), LdsRead { bytes: 4 });
        assert_eq!(of("ds_write2_b32 v5, v1, v2"), LdsWrite { bytes: 8 });
        assert_eq!(of("ds_write_b128 v5, v[1:4]"), LdsWrite { bytes: 16 });
        assert_eq!(of("flat_load_dwordx4 v[0:3], v[0:1]"), Load { bytes: 16 });
        assert_eq!(of("buffer_load_dword v0, off, s[0:3], 0"), Load { bytes: 4 });
        assert_eq!(of("flat_load_ushort v0, v[0:1]"), Load { bytes: 2 });
        assert_eq!(of("global_store_dwordx2 v[0:1], v[2:3], off"), Store { bytes: 8 });
    }

    #[test]
    fn scalar_instructions_and_waits() {
        assert_eq!(of("s_barrier"), Barrier);
        assert_eq!(of("s_cbranch_scc1 .LBB0_1"), Branch);
        assert_eq!(of("s_load_dwordx4 s[0:3], s[4:5], 0x0"), ScalarLoad);
        assert_eq!(of("s_add_i32 s0, s1, s2"), Scalar);
        assert_eq!(of("s_waitcnt lgkmcnt(3)"), Wait { lds: Some(3), memory: None });
        assert_eq!(
            of("s_waitcnt vmcnt(0) expcnt(0) lgkmcnt(1)"),
            Wait { lds: Some(1), memory: Some(0) }
        );
        assert_eq!(of("s_waitcnt expcnt(0)"), Wait { lds: None, memory: None });
        assert_eq!(of("s_waitcnt 0"), Wait { lds: Some(0), memory: Some(0) });
    }
}
