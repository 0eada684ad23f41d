//! Reads what a kernel costs on gfx803 out of clang's assembly text.
//!
//! Two places hold the numbers: the amdhsa metadata (a YAML block at the end, one record per
//! kernel) and the `; Kernel info:` comments after each function. Both are read line by line: the
//! metadata is machine-written with a fixed shape, so a YAML library would add nothing.

use std::collections::HashMap;

use anyhow::{Context, Result, bail, ensure};

/// SIMD units of a compute unit; a work group's waves are spread over them.
const SIMDS: u32 = 4;
/// Lanes of a wave.
const WAVE: u32 = 64;
/// Local memory of a compute unit in bytes.
const LDS_BYTES: u32 = 64 * 1024;
/// Local memory is handed out in blocks of this many bytes.
const LDS_BLOCK: u32 = 512;
/// Work groups of more than one wave that a compute unit holds at a time.
const GROUPS: u32 = 16;

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
}

/// Reads all kernels of an assembly file, in the order of the metadata.
pub fn parse_kernels(assembly: &str) -> Result<Vec<Kernel>> {
    let infos = parse_infos(assembly)?;
    let records = parse_metadata(assembly)?;
    records.iter().map(|record| kernel(record, &infos)).collect()
}

/// Joins a kernel's metadata record with its comments.
fn kernel(record: &Record<'_>, infos: &HashMap<&str, Info>) -> Result<Kernel> {
    let name = record.text(".name")?;
    let info = infos
        .get(name)
        .with_context(|| format!("kernel {name}: the assembly has no `; Kernel info:` for it"))?;
    let number = |key| record.number(key).with_context(|| format!("kernel {name}"));
    let missing = |what| format!("kernel {name}: its comments have no `{what}`");
    Ok(Kernel {
        name: name.to_owned(),
        vgprs: number(".vgpr_count")?,
        sgprs: number(".sgpr_count")?,
        vgpr_spills: number(".vgpr_spill_count")?,
        sgpr_spills: number(".sgpr_spill_count")?,
        lds_bytes: number(".group_segment_fixed_size")?,
        dynamic_lds: record.dynamic_lds,
        scratch_bytes: number(".private_segment_fixed_size")?,
        // Written by some versions of clang only.
        dynamic_stack: record.fields.get(".uses_dynamic_stack") == Some(&"true"),
        max_workgroup: number(".max_flat_workgroup_size")?,
        required_workgroup: match record.workgroup[..] {
            [] => None,
            [x, y, z] => Some([x, y, z]),
            ref other => bail!("kernel {name}: .reqd_workgroup_size has {} entries", other.len()),
        },
        code_bytes: info.code_bytes.with_context(|| missing("codeLenInByte"))?,
        clang_occupancy: info.occupancy.with_context(|| missing("Occupancy"))?,
    })
}

/// The comments after one kernel.
#[derive(Debug, Default)]
struct Info {
    code_bytes: Option<u32>,
    occupancy: Option<u32>,
}

/// Collects the `; Kernel info:` comments by kernel name.
///
/// The block itself does not name its kernel; the `.amdhsa_kernel` directive before it does.
/// Helper functions that were not inlined have a `; Function info:` block of the same shape.
fn parse_infos(assembly: &str) -> Result<HashMap<&str, Info>> {
    let mut infos: HashMap<&str, Info> = HashMap::new();
    let mut announced = None;
    let mut current = None;
    for line in assembly.lines() {
        let line = line.trim();
        if let Some(name) = line.strip_prefix(".amdhsa_kernel ") {
            announced = Some(name.trim());
        } else if line == "; Kernel info:" {
            current = announced.take();
        } else if line == "; Function info:" {
            current = None;
        } else if let Some(name) = current {
            let info = infos.entry(name).or_default();
            if let Some(value) = line.strip_prefix("; codeLenInByte = ") {
                info.code_bytes = Some(parse_number(value)?);
            } else if let Some(value) = line.strip_prefix("; Occupancy: ") {
                info.occupancy = Some(parse_number(value)?);
            }
        }
    }
    Ok(infos)
}

/// One kernel of the metadata.
#[derive(Debug, Default)]
struct Record<'a> {
    /// Its scalar fields.
    fields: HashMap<&'a str, &'a str>,
    /// The entries of `.reqd_workgroup_size`.
    workgroup: Vec<u32>,
    dynamic_lds: bool,
}

impl<'a> Record<'a> {
    fn text(&self, key: &str) -> Result<&'a str> {
        self.fields.get(key).copied().with_context(|| format!("the metadata has no `{key}`"))
    }

    fn number(&self, key: &str) -> Result<u32> {
        parse_number(self.text(key)?).with_context(|| format!("the metadata's `{key}`"))
    }
}

/// Splits the list under `amdhsa.kernels:` into records.
fn parse_metadata(assembly: &str) -> Result<Vec<Record<'_>>> {
    let mut lines = assembly.lines().skip_while(|line| line.trim() != ".amdgpu_metadata");
    ensure!(lines.next().is_some(), "the assembly has no `.amdgpu_metadata`");

    let mut records: Vec<Record<'_>> = Vec::new();
    let mut inside = false;
    let mut item_indent = None;
    let mut key = "";
    for line in lines.take_while(|line| line.trim() != ".end_amdgpu_metadata") {
        let text = line.trim_start();
        let indent = line.len() - text.len();
        if indent == 0 {
            inside = text.starts_with("amdhsa.kernels:");
            continue;
        }
        if !inside {
            continue;
        }
        let item_indent = *item_indent.get_or_insert(indent);
        let field = if indent == item_indent {
            records.push(Record::default());
            text.strip_prefix("- ")
        } else if indent == item_indent + 2 {
            Some(text)
        } else {
            None
        };
        let record = records.last_mut().context("a metadata field before its record")?;
        if let Some(field) = field {
            let (name, value) = field
                .split_once(':')
                .with_context(|| format!("metadata line `{text}` is no field"))?;
            key = name;
            record.fields.insert(name, value.trim().trim_matches('\''));
        } else if key == ".reqd_workgroup_size" {
            record.workgroup.push(parse_number(text.trim_start_matches("- "))?);
        } else if key == ".args" && text.ends_with("dynamic_shared_pointer") {
            record.dynamic_lds = true;
        }
    }
    Ok(records)
}

fn parse_number(text: &str) -> Result<u32> {
    let text = text.trim();
    text.parse().with_context(|| format!("`{text}` is no number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    // Excerpts of real output of clang 15.0.6: instructions and hidden arguments cut.
    const PLAIN: &str = include_str!("testdata/plain.s");
    const HELPER: &str = include_str!("testdata/helper.s");
    const SCRATCH: &str = include_str!("testdata/scratch.s");
    const SPILL: &str = include_str!("testdata/spill.s");

    fn only(assembly: &str) -> Kernel {
        let mut kernels = parse_kernels(assembly).unwrap();
        assert_eq!(kernels.len(), 1);
        kernels.remove(0)
    }

    #[test]
    fn reads_each_kernel_of_a_file() {
        let kernels = parse_kernels(PLAIN).unwrap();
        let expected = Kernel {
            name: "scale_f32_plain".to_owned(),
            vgprs: 7,
            sgprs: 12,
            vgpr_spills: 0,
            sgpr_spills: 0,
            lds_bytes: 1024,
            dynamic_lds: false,
            scratch_bytes: 0,
            dynamic_stack: false,
            max_workgroup: 256,
            required_workgroup: Some([16, 16, 1]),
            code_bytes: 380,
            clang_occupancy: 10,
        };
        assert_eq!(kernels[0], expected);
        assert_eq!(kernels[1].name, "copy_f32");
        assert_eq!((kernels[1].vgprs, kernels[1].code_bytes), (4, 112));
        assert_eq!(kernels[1].required_workgroup, None);
        assert!(kernels.iter().all(|kernel| kernel.spills() == 0 && !kernel.uses_scratch()));
    }

    #[test]
    fn a_helper_function_is_not_a_kernel() {
        let kernels = parse_kernels(HELPER).unwrap();
        let names: Vec<_> = kernels.iter().map(|kernel| kernel.name.as_str()).collect();
        assert_eq!(names, ["square_f32", "nothing"]);
        // 12 would be the length of the helper.
        assert_eq!((kernels[0].code_bytes, kernels[1].code_bytes), (180, 4));
        assert_eq!((kernels[0].dynamic_lds, kernels[1].dynamic_lds), (true, false));
    }

    #[test]
    fn scratch_without_spills_is_seen() {
        let kernel = only(SCRATCH);
        assert_eq!((kernel.scratch_bytes, kernel.spills()), (260, 0));
        assert!(kernel.uses_scratch());
        let grown = only(&SCRATCH.replace("dynamic_stack: false", "dynamic_stack: true"));
        assert!(grown.dynamic_stack);
    }

    #[test]
    fn spills_are_seen() {
        let kernel = only(SPILL);
        assert_eq!((kernel.vgpr_spills, kernel.sgpr_spills, kernel.spills()), (215, 0, 215));
        assert_eq!((kernel.scratch_bytes, kernel.clang_occupancy), (1312, 4));
        let scalar = only(&SPILL.replace(".sgpr_spill_count: 0", ".sgpr_spill_count: 3"));
        assert_eq!((scalar.sgpr_spills, scalar.spills()), (3, 218));
    }

    #[test]
    fn local_memory_bounds_occupancy() {
        let kernel = only(SPILL);
        let waves = |clang_occupancy, lds_bytes, max_workgroup| {
            Kernel { clang_occupancy, lds_bytes, max_workgroup, ..kernel.clone() }.occupancy()
        };
        assert_eq!(waves(10, 0, 256), 10);
        assert_eq!(waves(5, 1024, 256), 5, "registers bind first");
        assert_eq!(waves(10, 17_000, 256), 3);
        assert_eq!(waves(4, 33_000, 256), 1);
        assert_eq!(waves(10, 0, 128), 8, "16 groups of two waves");
        assert_eq!(waves(1, 65_536, 64), 1, "one wave on one of four SIMDs still counts as one");
    }

    #[test]
    fn missing_parts_are_errors() {
        let message = |text: &str| format!("{:#}", parse_kernels(text).unwrap_err());
        assert!(message("").contains(".amdgpu_metadata"));
        assert!(message(&SPILL.replace("; Occupancy", "; Gone")).contains("wide_f32"));
        assert!(message(&SPILL.replace(".vgpr_spill_count", ".gone")).contains("vgpr_spill_count"));
        assert!(message(&SPILL.replace("; Kernel info:", "")).contains("Kernel info"));
        assert!(message(&SPILL.replace("count:     64", "count: many")).contains("many"));
    }

    #[test]
    fn a_file_without_kernels_is_empty() {
        let empty = "\t.amdgpu_metadata\n---\namdhsa.kernels:  []\namdhsa.target:   x\n...\n";
        assert!(parse_kernels(empty).unwrap().is_empty());
    }
}
