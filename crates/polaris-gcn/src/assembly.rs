//! Reads what a kernel uses out of clang's assembly text.
//!
//! Two places hold the numbers: the amdhsa metadata (a YAML block at the end, one record per
//! kernel) and the `; Kernel info:` comments after each function. Both are read line by line: the
//! metadata is machine-written with a fixed shape, so a YAML library would add nothing.

use std::collections::HashMap;

use crate::error::{Error, Result};
use crate::kernel::Kernel;

/// Reads all kernels of an assembly file, in the order of the metadata.
///
/// # Errors
/// [`Error::Assembly`] if the text is not what clang writes.
pub fn parse_kernels(assembly: &str) -> Result<Vec<Kernel>> {
    let kernels = || -> Parsed<Vec<Kernel>> {
        let infos = parse_infos(assembly)?;
        let records = parse_metadata(assembly)?;
        records.iter().map(|record| kernel(record, &infos)).collect()
    };
    kernels().map_err(Error::assembly)
}

/// What was read, or what is wrong with it.
type Parsed<T> = std::result::Result<T, String>;

/// Joins a kernel's metadata record with its comments.
fn kernel(record: &Record<'_>, infos: &HashMap<&str, Info>) -> Parsed<Kernel> {
    let name = record.text(".name")?;
    let of_kernel = |what: &str| format!("kernel {name}: {what}");
    let info =
        infos.get(name).ok_or_else(|| of_kernel("the assembly has no `; Kernel info:` for it"))?;
    let number = |key| record.number(key).map_err(|error| of_kernel(&error));
    let missing = |what| of_kernel(&format!("its comments have no `{what}`"));
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
            ref other => {
                let entries = other.len();
                return Err(of_kernel(&format!(".reqd_workgroup_size has {entries} entries")));
            }
        },
        code_bytes: info.code_bytes.ok_or_else(|| missing("codeLenInByte"))?,
        clang_occupancy: info.occupancy.ok_or_else(|| missing("Occupancy"))?,
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
fn parse_infos(assembly: &str) -> Parsed<HashMap<&str, Info>> {
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
    fn text(&self, key: &str) -> Parsed<&'a str> {
        let missing = || format!("the metadata has no `{key}`");
        self.fields.get(key).copied().ok_or_else(missing)
    }

    fn number(&self, key: &str) -> Parsed<u32> {
        parse_number(self.text(key)?).map_err(|error| format!("the metadata's `{key}`: {error}"))
    }
}

/// Splits the list under `amdhsa.kernels:` into records.
fn parse_metadata(assembly: &str) -> Parsed<Vec<Record<'_>>> {
    let mut lines = assembly.lines().skip_while(|line| line.trim() != ".amdgpu_metadata");
    if lines.next().is_none() {
        return Err("it has no `.amdgpu_metadata`".to_owned());
    }

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
        let record = records.last_mut().ok_or("a metadata field before its record")?;
        if let Some(field) = field {
            let no_field = || format!("metadata line `{text}` is not a field");
            let (name, value) = field.split_once(':').ok_or_else(no_field)?;
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

fn parse_number(text: &str) -> Parsed<u32> {
    let text = text.trim();
    text.parse().map_err(|_| format!("`{text}` is not a number"))
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
    fn missing_parts_are_errors() {
        let message = |text: &str| parse_kernels(text).unwrap_err().to_string();
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
