//! Routing on OpenCL devices.

use polaris_runtime::Device;
use polaris_runtime::opencl::{Defines, OpenClDevice, ProgramSource};

use super::{Gating, Groups, LEAST_SUM, Route, RouteIds};
use crate::opencl::{ELEMENT, Enqueue, pass_array, work_group};
use crate::{Array, Result, copy};

/// The kernels of routers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kernel {
    /// A work-group chooses the experts of a token.
    Grouped,
    /// A work-item computes the weights of a token.
    Tokens,
}

impl Kernel {
    /// Its part of the kernel's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Grouped => "grouped",
            Self::Tokens => "tokens",
        }
    }
}

const PARTS: &[&str] = &[ELEMENT, include_str!("route.cl")];

/// Work-items of a group: a wavefront, or the largest power of two that the device has.
fn items(device: &OpenClDevice) -> usize {
    1 << work_group(device).clamp(1, 64).ilog2()
}

fn source(work_group: usize) -> ProgramSource {
    let defines = Defines::new().number("WORK_GROUP", work_group as i64);
    ProgramSource { name: "route.cl f32".to_owned(), parts: PARTS, defines, options: "" }
}

fn are_near(arrays: &[&Array]) -> bool {
    let strides = arrays.iter().flat_map(|array| array.layout().strides());
    let lengths = arrays.iter().flat_map(|array| array.shape().iter());
    strides.chain(lengths).all(|&value| value <= i32::MAX as usize / 64)
}

pub fn supports_ids(
    op: &RouteIds,
    device: &OpenClDevice,
    inputs: &[&Array],
    output: &Array,
) -> bool {
    let groups = op.route.groups.map_or(0, |groups| groups.count);
    let local = (inputs[0].shape()[1] + groups + 2 * items(device)) * size_of::<f32>();
    are_near(inputs)
        && are_near(&[output])
        && device.capabilities().local_memory_bytes >= local as u64
}

pub fn supports_weights(inputs: &[&Array], output: &Array) -> bool {
    are_near(inputs) && are_near(&[output])
}

/// The sizes and strides that both kernels are given.
fn numbers(
    route: &Route,
    gating: Gating,
    bias: bool,
    logits: &Array,
    output: &Array,
) -> ([u32; 8], [u32; 4]) {
    let [tokens, experts] = [0, 1].map(|axis| logits.shape()[axis]);
    let none = Groups { count: 0, used: 0, best: 0 };
    let Groups { count, used, best } = route.groups.unwrap_or(none);
    let sizes =
        [experts, route.used, gating as usize, usize::from(bias), count, used, best, tokens];
    let (from, to) = (logits.layout().strides(), output.layout().strides());
    (sizes.map(|size| size as u32), [from[0], from[1], to[0], to[1]].map(|stride| stride as u32))
}

pub fn run_ids(
    op: &RouteIds,
    device: &OpenClDevice,
    inputs: &[&Array],
    output: &Array,
) -> Result<()> {
    let work_group = items(device);
    let key = ("route", (work_group as u64) << 1);
    let built = device.kernel(key, "route_ids", || source(work_group))?;
    let logits = inputs[0];
    let gating = match op.route.needs_scores(op.bias) {
        true => op.route.gating,
        false => Gating::SoftmaxOfChosen,
    };
    let (sizes, strides) = numbers(&op.route, gating, op.bias, logits, output);
    let bias = inputs.get(1).copied().unwrap_or(logits);
    let launch = device.launch(&built).value(sizes).value(strides);
    let launch = pass_array(pass_array(pass_array(launch, output), logits), bias);
    let bytes = |elements: u32| elements.max(1) as usize * size_of::<f32>();
    launch
        .value(bias.layout().strides()[0] as u64)
        .local(bytes(sizes[0]))
        .local(bytes(sizes[4]))
        .enqueue(&[logits.shape()[0] * work_group], &[work_group])
}

pub fn run_weights(
    route: &Route,
    device: &OpenClDevice,
    inputs: &[&Array],
    output: &Array,
) -> Result<()> {
    let work_group = items(device);
    let key = ("route", (work_group as u64) << 1 | 1);
    let built = device.kernel(key, "route_weights", || source(work_group))?;
    let logits = inputs[0];
    let ids = match inputs[1].layout().is_contiguous() {
        true => inputs[1].clone(),
        false => copy::contiguous(inputs[1])?,
    };
    let (sizes, strides) = numbers(route, route.gating, false, logits, output);
    let launch = device.launch(&built).value(sizes).value(strides);
    let launch = pass_array(pass_array(pass_array(launch, output), logits), &ids);
    launch
        .value(u32::from(route.normalise))
        .value(route.scale as f32)
        .value(LEAST_SUM as f32)
        .enqueue(&[logits.shape()[0]], &[work_group])
}

/// The one program.
pub(super) fn shipped_programs() -> Vec<ProgramSource> {
    vec![source(64)]
}
