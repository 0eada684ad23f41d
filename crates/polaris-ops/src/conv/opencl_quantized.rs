//! Quantised convolutions on OpenCL devices.

use polaris_core::DType;
use polaris_runtime::opencl::{Defines, OpenClDevice, ProgramSource};

use super::quantized::{Parts, QuantizedConvolution};
use crate::opencl::{ELEMENT, Enqueue, dtype_code, pass_array, work_group};
use crate::{Array, Result};

const PARTS: &[&str] = &[ELEMENT, include_str!("convolution_quantized.cl")];

/// What one program is specialised for.
#[derive(Debug, Clone, Copy)]
struct Config {
    x: DType,
    output: DType,
    work_group: usize,
}

impl Config {
    fn key(&self) -> u64 {
        (dtype_code(self.x) << 8 | dtype_code(self.output)) << 16 | self.work_group as u64
    }

    fn source(&self) -> ProgramSource {
        let defines = Defines::new()
            .code("X", self.x.name())
            .code("OUT", self.output.name())
            .number("WORK_GROUP", self.work_group as i64);
        let name = format!("convolution_quantized.cl {}_to_{}", self.x, self.output);
        ProgramSource { name, parts: PARTS, defines, options: "" }
    }
}

pub(super) fn run(
    op: &QuantizedConvolution,
    device: &OpenClDevice,
    parts: &Parts,
    output: &Array,
) -> Result<()> {
    let (x, output_type) = (parts.x.dtype(), output.dtype());
    let config = Config { x, output: output_type, work_group: work_group(device) };
    let key = ("convolution_quantized", config.key());
    let built = device.kernel(key, "convolution_quantized", || config.source())?;
    let geometry = &parts.geometry;
    let [rows, columns] = &geometry.lengths;
    let sizes = [
        geometry.groups * geometry.outputs,
        geometry.outputs,
        geometry.inputs,
        rows.output,
        columns.output,
        rows.kernel,
        columns.kernel,
        usize::from(parts.bias.is_some()),
    ];
    let steps = [
        rows.stride,
        columns.stride,
        rows.padding,
        columns.padding,
        rows.dilation,
        columns.dilation,
        rows.input,
        columns.input,
    ];
    let [low, high] = parts.limits.distances();
    let pair = |first: [usize; 4], second: [usize; 4]| {
        let mut all = [0; 8];
        all[..4].copy_from_slice(&first.map(|stride| stride as u64));
        all[4..].copy_from_slice(&second.map(|stride| stride as u64));
        all
    };
    let stride = |array: &Array| array.layout().strides()[0];
    let bias = parts.bias.unwrap_or(parts.factors);
    let vectors = [stride(parts.factors), stride(bias), 0, 0];
    let elements = output.elements();
    let launch = device
        .launch(&built)
        .value(elements as u64)
        .value(sizes.map(|size| size as u32))
        .value(steps.map(|step| step as u32))
        .value(pair(geometry.x, geometry.y))
        .value(pair(geometry.weight, vectors))
        .value(op.input_zero)
        .value(op.output_zero)
        .value(low)
        .value(high);
    let launch = pass_array(pass_array(pass_array(launch, output), parts.x), parts.weight);
    pass_array(pass_array(launch, parts.factors), bias).enqueue(&[elements], &[config.work_group])
}

/// Both types of images.
pub(super) fn shipped_programs() -> Vec<ProgramSource> {
    let config = |dtype| Config { x: dtype, output: dtype, work_group: 256 };
    [DType::U8, DType::I8].map(|dtype| config(dtype).source()).into()
}
