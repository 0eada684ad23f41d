//! The list of operations: what checks, tests, the machine-code report and the documentation go through.
//! A new operation is its folder and a line here.

use polaris_runtime::opencl::ProgramSource;

use crate::suite::{Case, CaseParameters};

/// A family of operations, which one folder implements: a function with its gradients, for example.
#[derive(Debug)]
pub struct Family {
    /// Its name, that of the folder.
    pub name: &'static str,
    /// Every program configuration that stands for others, for the machine-code report.
    pub programs: fn() -> Vec<ProgramSource>,
    /// How many variants (functions, types) its cases have.
    pub variants: fn() -> usize,
    /// Whether a variant is one that even a short check should not leave out.
    pub is_essential: fn(usize) -> bool,
    /// Whether a full check takes a variant with a layout, by its place in
    /// [`CaseParameters::fixed`]. Each program costs a build.
    pub takes: fn(usize, usize) -> bool,
    /// The case of a variant and parameters.
    pub case: fn(usize, &CaseParameters) -> Case,
}

/// Every family, in the order of checks.
pub const FAMILIES: &[Family] = &[
    crate::elementwise::FAMILY,
    crate::copy::FAMILY,
    crate::fill::FAMILY,
    crate::random::FAMILY,
    crate::reduce::FAMILY,
    crate::softmax::FAMILY,
    crate::norm::FAMILY,
    crate::fused::FAMILY,
    crate::batch_norm::FAMILY,
    crate::pool::FAMILY,
    crate::cross_entropy::FAMILY,
    crate::indexing::FAMILY,
    crate::pad::FAMILY,
    crate::scan::FAMILY,
    crate::sort::FAMILY,
    crate::attention::FAMILY,
    crate::cached_attention::FAMILY,
    crate::cache_write::FAMILY,
    crate::causal_conv::FAMILY,
    crate::linear_attention::FAMILY,
    crate::expert_matmul::FAMILY,
    crate::linears::FAMILY,
    crate::route::FAMILY,
    crate::rope::FAMILY,
    crate::quantize::FAMILY,
    crate::conv::FAMILY,
    crate::matmul::FAMILY,
];

impl Family {
    /// A family whose full check takes every variant in every layout.
    pub(crate) const fn new(
        name: &'static str,
        programs: fn() -> Vec<ProgramSource>,
        variants: fn() -> usize,
        is_essential: fn(usize) -> bool,
        case: fn(usize, &CaseParameters) -> Case,
    ) -> Self {
        Self { name, programs, variants, is_essential, takes: |_, _| true, case }
    }
}

/// Every program configuration that operations ship, for the machine-code report. The names begin with
/// the `.cl` file.
pub fn shipped_programs() -> Vec<ProgramSource> {
    let mut programs: Vec<ProgramSource> =
        FAMILIES.iter().flat_map(|family| (family.programs)()).collect();
    programs.extend(crate::opencl::radix::shipped_programs());
    programs
}
