//! Elementwise functions on the CPU: blocks of the compute type, one loop for each function.

use polaris_runtime::cpu::CpuDevice;

use super::Function;
use super::cpu_functions::{float, integer};
use crate::cpu::blocks::Compute;
use crate::cpu::map::map_blocks;
use crate::{Array, Result};

pub fn run(function: Function, cpu: &CpuDevice, inputs: &[&Array], output: &Array) -> Result<()> {
    let name = function.name();
    match Compute::of(inputs[inputs.len() - 1].dtype()) {
        Compute::F32 => map_blocks(name, &float::<f32>(function), cpu, inputs, output),
        Compute::F64 => map_blocks(name, &float::<f64>(function), cpu, inputs, output),
        Compute::I64 => map_blocks(name, &integer(function), cpu, inputs, output),
    }
}
