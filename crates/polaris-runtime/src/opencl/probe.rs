//! Capabilities that only the compiler can confirm. An extension in a driver's list is a claim;
//! a program that builds is evidence. Nothing is tried that the driver does not claim, since some compilers crash the
//! process on unknown code.

use crate::opencl::ProgramSource;
use crate::opencl::program::{Defines, EXACT_DIVISION, Programs};

const FP16: &str = "#pragma OPENCL EXTENSION cl_khr_fp16 : enable
__kernel void probe(__global half *x) { x[0] = x[1] * x[2] + x[3]; }";

const FP64: &str = "__kernel void probe(__global double *x) { x[0] = x[1] * x[2] + x[3]; }";

const INT_DOT: &str = "#pragma OPENCL EXTENSION cl_khr_integer_dot_product : enable
__kernel void probe(__global char4 *x, __global int *y) { y[0] = dot_acc_sat(x[0], x[1], y[1]); }";

const SUBGROUPS: &str = "#pragma OPENCL EXTENSION cl_khr_subgroups : enable
__kernel void probe(__global float *x) { x[0] = sub_group_reduce_add(x[1]); }";

const DIVISION: &str = "__kernel void probe(__global float *x) { x[0] = x[1] / sqrt(x[2]); }";

const INLINE_PTX: &str = "__kernel void probe(__global uint *x) {
    uint lane;
    __asm__ volatile(\"mov.u32 %0, %%laneid;\" : \"=r\"(lane));
    x[0] = lane;
}";

/// What the compiler confirms.
#[derive(Debug, Default)]
pub(super) struct Confirmed {
    pub fp16_arithmetic: bool,
    pub fp64: bool,
    pub int_dot: bool,
    pub subgroups: bool,
    pub inline_ptx: bool,
    pub exact_division: bool,
}

/// `exact_division` says whether the driver claims that.
pub(super) fn probe(programs: &Programs, extensions: &str, exact_division: bool) -> Confirmed {
    let listed =
        |name: &str| extensions.split_ascii_whitespace().any(|extension| extension == name);
    let builds_with = |name: &str, parts: &'static [&'static str], options: &'static str| {
        let (name, defines) = (format!("probe {name}"), Defines::new());
        programs.builds(&ProgramSource { name, parts, defines, options })
    };
    let builds = |name: &str, parts: &'static [&'static str]| builds_with(name, parts, "");
    Confirmed {
        fp16_arithmetic: listed("cl_khr_fp16") && builds("fp16", &[FP16]),
        fp64: listed("cl_khr_fp64") && builds("fp64", &[FP64]),
        int_dot: listed("cl_khr_integer_dot_product") && builds("int_dot", &[INT_DOT]),
        subgroups: listed("cl_khr_subgroups") && builds("subgroups", &[SUBGROUPS]),
        // Compilers that list this extension understand PTX; others may abort on foreign assembly.
        inline_ptx: listed("cl_nv_compiler_options") && builds("inline_ptx", &[INLINE_PTX]),
        exact_division: exact_division && builds_with("division", &[DIVISION], EXACT_DIVISION),
    }
}
