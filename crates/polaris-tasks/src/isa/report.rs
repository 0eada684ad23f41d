//! The report of `cargo xtask isa` as a table and as JSON.

use std::fmt::Write;

use polaris_gcn::Kernel;

use super::TARGET;

/// Schema of the JSON report; changed when a field changes its meaning or goes.
const SCHEMA: &str = "polaris.isa/1";

/// The columns of the table; a last one without a name has what is wrong.
pub const COLUMNS: [&str; 10] =
    ["program", "kernel", "group", "VGPRs", "SGPRs", "LDS", "scratch", "spills", "waves", "code"];
/// Columns of figures, aligned to the right.
const FIGURES: std::ops::Range<usize> = 3..10;

/// The cells of a kernel: those of [`COLUMNS`], and what is wrong.
pub type Row = [String; COLUMNS.len() + 1];

/// What became of one program.
#[derive(Debug)]
pub struct Outcome {
    /// The program's name.
    pub program: String,
    /// Its kernels, or why there are none.
    pub kernels: Result<Vec<Kernel>, String>,
}

impl Outcome {
    /// A row for each kernel.
    pub fn rows(&self) -> impl Iterator<Item = Row> {
        self.kernels.iter().flatten().map(|kernel| row(&self.program, kernel))
    }
}

/// Whether all programs compiled and no kernel spills or uses scratch.
pub fn is_clean(outcomes: &[Outcome]) -> bool {
    outcomes.iter().all(|outcome| outcome.kernels.is_ok())
        && kernels(outcomes).all(|(_, kernel)| faults(kernel).is_empty())
}

/// "23 kernels, 0 spills", and what else went wrong.
pub fn summary(outcomes: &[Outcome]) -> String {
    let spills: u32 = kernels(outcomes).map(|(_, kernel)| kernel.spills()).sum();
    let scratch = kernels(outcomes).filter(|(_, kernel)| kernel.uses_scratch()).count();
    let failed = outcomes.iter().filter(|outcome| outcome.kernels.is_err()).count();
    let plural = |count: usize| if count == 1 { "" } else { "s" };
    let count = kernels(outcomes).count();
    let mut text = format!("{count} kernel{}, {spills} spills", plural(count));
    if scratch > 0 {
        write!(text, ", {scratch} with scratch").expect("a String should take any text");
    }
    if failed > 0 {
        write!(text, ", {failed} program{} failed", plural(failed))
            .expect("a String should take any text");
    }
    text
}

/// The table, with its header, without the summary.
pub fn table(outcomes: &[Outcome]) -> String {
    let name = |column: usize| COLUMNS.get(column).map(|&name| name.to_owned());
    let header: Row = std::array::from_fn(|column| name(column).unwrap_or_default());
    let rows: Vec<Row> =
        std::iter::once(header).chain(outcomes.iter().flat_map(Outcome::rows)).collect();
    let widths: [usize; COLUMNS.len() + 1] = std::array::from_fn(|column| {
        rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0)
    });
    let mut text = String::new();
    for row in &rows {
        let mut line = String::new();
        for (column, (cell, width)) in row.iter().zip(widths).enumerate() {
            let gap = " ".repeat(width - cell.chars().count());
            if FIGURES.contains(&column) {
                line += &format!("{gap}{cell}  ");
            } else {
                line += &format!("{cell}{gap}  ");
            }
        }
        text += line.trim_end();
        text.push('\n');
    }
    text
}

/// The report as one JSON object.
pub fn json(outcomes: &[Outcome]) -> String {
    let kernels: Vec<_> = kernels(outcomes).map(|(program, it)| json_kernel(program, it)).collect();
    let errors: Vec<_> = outcomes
        .iter()
        .filter_map(|outcome| {
            let error = outcome.kernels.as_ref().err()?;
            Some(format!("{{\"program\":{},\"error\":{}}}", quote(&outcome.program), quote(error)))
        })
        .collect();
    format!(
        "{{\"schema\":{},\"target\":{},\"clean\":{},\"kernels\":[{}],\"errors\":[{}]}}",
        quote(SCHEMA),
        quote(TARGET),
        is_clean(outcomes),
        kernels.join(","),
        errors.join(",")
    )
}

fn kernels(outcomes: &[Outcome]) -> impl Iterator<Item = (&str, &Kernel)> {
    outcomes.iter().flat_map(|outcome| {
        outcome.kernels.iter().flatten().map(|kernel| (outcome.program.as_str(), kernel))
    })
}

/// What is wrong with a kernel, for the last column.
fn faults(kernel: &Kernel) -> &'static str {
    match (kernel.spills() > 0, kernel.uses_scratch()) {
        (true, _) => "SPILLS",
        (false, true) => "SCRATCH",
        (false, false) => "",
    }
}

fn row(program: &str, kernel: &Kernel) -> Row {
    // A `+`: more of it at run time than is known here.
    let open = |bytes: u32, more: bool| format!("{bytes}{}", if more { "+" } else { "" });
    let group = kernel.required_workgroup.map(|[x, y, z]| format!("{x}x{y}x{z}"));
    [
        program.to_owned(),
        kernel.name.clone(),
        group.unwrap_or_else(|| "any".to_owned()),
        kernel.vgprs.to_string(),
        kernel.sgprs.to_string(),
        open(kernel.lds_bytes, kernel.dynamic_lds),
        open(kernel.scratch_bytes, kernel.dynamic_stack),
        kernel.spills().to_string(),
        kernel.occupancy().to_string(),
        kernel.code_bytes.to_string(),
        faults(kernel).to_owned(),
    ]
}

fn json_kernel(program: &str, kernel: &Kernel) -> String {
    let group = match kernel.required_workgroup {
        Some([x, y, z]) => format!("[{x},{y},{z}]"),
        None => "null".to_owned(),
    };
    let fields = [
        ("program", quote(program)),
        ("kernel", quote(&kernel.name)),
        ("required_workgroup", group),
        ("max_workgroup", kernel.max_workgroup.to_string()),
        ("vgprs", kernel.vgprs.to_string()),
        ("sgprs", kernel.sgprs.to_string()),
        ("lds_bytes", kernel.lds_bytes.to_string()),
        ("dynamic_lds", kernel.dynamic_lds.to_string()),
        ("scratch_bytes", kernel.scratch_bytes.to_string()),
        ("dynamic_stack", kernel.dynamic_stack.to_string()),
        ("vgpr_spills", kernel.vgpr_spills.to_string()),
        ("sgpr_spills", kernel.sgpr_spills.to_string()),
        ("waves_per_simd", kernel.occupancy().to_string()),
        ("code_bytes", kernel.code_bytes.to_string()),
    ];
    let fields = fields.map(|(name, value)| format!("\"{name}\":{value}"));
    format!("{{{}}}", fields.join(","))
}

/// A JSON string.
fn quote(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => quoted += "\\\"",
            '\\' => quoted += "\\\\",
            '\n' => quoted += "\\n",
            c if c.is_control() => quoted += &format!("\\u{:04x}", u32::from(c)),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use polaris_gcn::parse_kernels;

    use super::*;

    const PLAIN: &str = include_str!("../../../polaris-gcn/src/testdata/plain.s");
    const SCRATCH: &str = include_str!("../../../polaris-gcn/src/testdata/scratch.s");
    const SPILL: &str = include_str!("../../../polaris-gcn/src/testdata/spill.s");

    fn outcome(program: &str, assembly: &str) -> Outcome {
        Outcome { program: program.to_owned(), kernels: Ok(parse_kernels(assembly).unwrap()) }
    }

    fn plain() -> Outcome {
        outcome("scale.cl", PLAIN)
    }

    #[test]
    fn clean_means_compiled_without_spills_and_scratch() {
        assert!(is_clean(&[plain()]));
        assert_eq!(summary(&[plain()]), "2 kernels, 0 spills");

        let scratch = [plain(), outcome("pick.cl", SCRATCH)];
        assert!(!is_clean(&scratch));
        assert_eq!(summary(&scratch), "3 kernels, 0 spills, 1 with scratch");

        let spill = [outcome("wide.cl", SPILL)];
        assert!(!is_clean(&spill));
        assert_eq!(summary(&spill), "1 kernel, 215 spills, 1 with scratch");

        let failed = [plain(), Outcome { program: "x.cl".into(), kernels: Err("error".into()) }];
        assert!(!is_clean(&failed));
        assert_eq!(summary(&failed), "2 kernels, 0 spills, 1 program failed");
    }

    #[test]
    fn the_table_is_aligned_and_marks_faults() {
        let outcomes = [plain(), outcome("wide.cl", SPILL)];
        let expected = "\
program   kernel           group     VGPRs  SGPRs   LDS  scratch  spills  waves    code
scale.cl  scale_f32_plain  16x16x1       7     12  1024        0       0     10     380
scale.cl  copy_f32         any           4     12     0        0       0     10     112
wide.cl   wide_f32         1024x1x1     64     18     0     1312     215      4  111048  SPILLS
";
        assert_eq!(table(&outcomes), expected);
    }

    #[test]
    fn json_is_versioned_and_escaped() {
        let failed = Outcome { program: "a\"b".into(), kernels: Err("x\n\t\\".into()) };
        let expected = r#"{"schema":"polaris.isa/1","target":"gfx803","clean":false,"kernels":[],"errors":[{"program":"a\"b","error":"x\n\u0009\\"}]}"#;
        assert_eq!(json(&[failed]), expected);
        let text = json(&[plain()]);
        assert!(text.contains(r#""clean":true"#), "{text}");
        assert!(text.contains(r#""kernel":"scale_f32_plain","required_workgroup":[16,16,1]"#));
        assert!(text.contains(r#""kernel":"copy_f32","required_workgroup":null"#), "{text}");
    }
}
