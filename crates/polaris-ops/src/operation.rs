//! What all operations have in common, and how a kernel is chosen for one.

use std::collections::HashSet;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use polaris_core::DType;
use polaris_runtime::cpu::CpuDevice;
use polaris_runtime::opencl::OpenClDevice;
use polaris_runtime::{Buffer, DeviceExt, Error as RuntimeError};

use crate::{Array, Result};

/// One operation with its parameters, as plain data. Arrays bring their own types and layouts.
pub trait Operation: fmt::Debug + Sync {
    /// Its OpenCL kernels.
    type Kernel: Copy + PartialEq + fmt::Debug + Send + Sync + 'static;

    /// The OpenCL kernels in the order in which they are tried.
    const KERNELS: &'static [Self::Kernel];

    /// Its name in messages and kernel names.
    fn name(&self) -> &'static str;

    /// Checks shapes, types and aliasing. Everything below may rely on it. An operation that makes
    /// the same checks in `run_cpu` may leave them to it where there is something to compute.
    ///
    /// # Errors
    /// What is wrong, in words.
    fn check(&self, inputs: &[&Array], output: &Array) -> Result<()>;

    /// Whether a kernel can do this on this device.
    fn supports(
        &self,
        kernel: Self::Kernel,
        device: &OpenClDevice,
        inputs: &[&Array],
        output: &Array,
    ) -> bool;

    /// The kernel to try before all others, where the order of [`Self::KERNELS`] does not say
    /// which one suits the shapes. It supports them.
    fn preferred(
        &self,
        _device: &OpenClDevice,
        _inputs: &[&Array],
        _output: &Array,
    ) -> Option<Self::Kernel> {
        None
    }

    /// The kernel's name, `<op>_<dtype>_<variant>`: what is quarantined if it is wrong.
    fn kernel_name(&self, kernel: Self::Kernel, inputs: &[&Array], output: &Array) -> String;

    /// Computes on the CPU. All arrays are there.
    ///
    /// # Errors
    /// If the memory is in use by someone else.
    fn run_cpu(&self, cpu: &CpuDevice, inputs: &[&Array], output: &Array) -> Result<()>;

    /// Enqueues a kernel that supports this.
    ///
    /// # Errors
    /// If it does not build or the device fails.
    fn run_opencl(
        &self,
        device: &OpenClDevice,
        kernel: Self::Kernel,
        inputs: &[&Array],
        output: &Array,
    ) -> Result<()>;

    /// The result by the plain definition, in `f64`, from the inputs' elements in row-major order.
    fn reference(&self, inputs: &[Vec<f64>], input_arrays: &[&Array], output: &Array) -> Vec<f64>;
}

/// Runs an operation where its arrays are: on an OpenCL device with the first kernel that
/// supports it and is trusted, otherwise on the CPU, with a word.
///
/// # Errors
/// If the arrays do not fit together, or the device fails.
pub fn run<O: Operation>(op: &O, inputs: &[&Array], output: &Array) -> Result<()> {
    check_devices(op, inputs, output)?;
    op.check(inputs, output)?;
    if output.elements() == 0 {
        return Ok(());
    }
    if let Some(cpu) = output.device().as_cpu() {
        return op.run_cpu(cpu, inputs, output);
    }
    if let Some(device) = output.device().as_opencl() {
        for kernel in kernels(op, device, inputs, output) {
            let name = || op.kernel_name(kernel, inputs, output);
            if device.is_quarantined(name) {
                say_once(device, &name(), "is quarantined on this driver");
                continue;
            }
            match op.run_opencl(device, kernel, inputs, output) {
                Err(crate::Error::Runtime(error @ RuntimeError::BuildFailed { .. })) => {
                    say_once(device, &name(), &format!("does not build ({})", first_line(&error)));
                    device.quarantine(&name());
                }
                result => return result,
            }
        }
        return run_on_host(op, device, inputs, output);
    }
    Err(RuntimeError::NotHostMemory { device: output.device().id() }.into())
}

/// Runs one kernel, quarantined or not. For checks, measurements and tuning.
///
/// # Errors
/// As for [`run`].
pub fn run_kernel<O: Operation>(
    op: &O,
    kernel: O::Kernel,
    inputs: &[&Array],
    output: &Array,
) -> Result<()> {
    check_devices(op, inputs, output)?;
    op.check(inputs, output)?;
    match output.device().as_opencl() {
        _ if output.elements() == 0 => Ok(()),
        Some(device) => op.run_opencl(device, kernel, inputs, output),
        None => run(op, inputs, output),
    }
}

/// The OpenCL kernels that could do this, most preferred first.
pub fn usable_kernels<O: Operation>(op: &O, inputs: &[&Array], output: &Array) -> Vec<O::Kernel> {
    let Some(device) = output.device().as_opencl() else {
        return Vec::new();
    };
    kernels(op, device, inputs, output).collect()
}

/// The preferred kernel, then the others that support this.
fn kernels<'a, O: Operation>(
    op: &'a O,
    device: &'a OpenClDevice,
    inputs: &'a [&'a Array],
    output: &'a Array,
) -> impl Iterator<Item = O::Kernel> + 'a {
    let preferred = op.preferred(device, inputs, output);
    let others = O::KERNELS.iter().copied().filter(move |&kernel| {
        Some(kernel) != preferred && op.supports(kernel, device, inputs, output)
    });
    preferred.into_iter().chain(others)
}

fn check_devices<O: Operation>(op: &O, inputs: &[&Array], output: &Array) -> Result<()> {
    let there = output.device();
    // Memory of the CPU is the same in every runtime.
    let elsewhere = |input: &&&Array| {
        let device = input.device();
        !Arc::ptr_eq(device, there) && (device.id() != there.id() || device.as_cpu().is_none())
    };
    match inputs.iter().find(elsewhere) {
        Some(other) => {
            Err(RuntimeError::mismatch(op.name(), other.device().id(), there.id()).into())
        }
        None => Ok(()),
    }
}

/// No kernel can be used: the arrays travel to the host, and the result back.
fn run_on_host<O: Operation>(
    op: &O,
    device: &OpenClDevice,
    inputs: &[&Array],
    output: &Array,
) -> Result<()> {
    say_once(device, op.name(), "has no usable kernel for this and runs on the CPU");
    let host = device.host();
    let cpu = host.as_cpu().expect("the host of an OpenCL device should be the CPU");
    let to_host = |buffer: &Buffer| -> Result<Buffer> {
        let copy = host.allocate(buffer.dtype(), buffer.len())?;
        buffer.copy_to(&copy)?;
        Ok(copy)
    };
    // The output travels too: its layout may leave out elements that must keep their values.
    let host_output = Array::new(to_host(output.buffer())?, *output.layout())?;
    let host_inputs = inputs
        .iter()
        .map(|input| match input.buffer().shares_memory_with(output.buffer()) {
            // In-place work stays in place if it is the same view; another view of the same
            // memory was checked not to overlap.
            true if input.buffer().byte_offset() == output.buffer().byte_offset() => {
                Array::new(host_output.buffer().clone(), *input.layout())
            }
            _ => Array::new(to_host(input.buffer())?, *input.layout()),
        })
        .collect::<Result<Vec<Array>>>()?;
    let host_inputs: Vec<&Array> = host_inputs.iter().collect();
    op.run_cpu(cpu, &host_inputs, &host_output)?;
    Ok(host_output.buffer().copy_to(output.buffer())?)
}

/// Tells the user once per process that something does not run as it should.
fn say_once(device: &OpenClDevice, what: &str, why: &str) {
    static SAID: Mutex<Option<HashSet<String>>> = Mutex::new(None);
    let message = format!("{}: {what} {why}", polaris_runtime::Device::id(device));
    let mut said = SAID.lock().unwrap_or_else(PoisonError::into_inner);
    if said.get_or_insert_default().insert(message.clone()) {
        log::warn!("{message}; another way is taken");
    }
}

fn first_line(error: &RuntimeError) -> String {
    let text = error.to_string();
    text.lines()
        .find(|line| line.contains("error"))
        .or(text.lines().next())
        .unwrap_or_default()
        .trim()
        .to_owned()
}

/// Whether the output may share memory with this input: only if each element is read no later
/// than it is written, which holds when both are the very same elements in the same order.
pub(crate) fn alias_is_harmless(input: &Array, output: &Array) -> bool {
    !input.overlaps(output) || is_same_place(input, output)
}

/// Whether two arrays are the very same elements in the same order.
pub(crate) fn is_same_place(a: &Array, b: &Array) -> bool {
    a.buffer().shares_memory_with(b.buffer())
        && a.dtype() == b.dtype()
        && a.buffer().byte_offset() == b.buffer().byte_offset()
        && a.layout() == b.layout()
}

/// Refuses an output in which several indices lead to one element: the result would depend on the
/// order in which they are written.
pub(crate) fn writes_each_element_once(op: &'static str, output: &Array) -> Result<()> {
    if output.layout().overlaps_itself() {
        let layout = output.layout().to_string();
        return Err(polaris_core::Error::OverlappingOutput { op, layout }.into());
    }
    Ok(())
}

/// Refuses an output that shares memory with an input of which elements are read after others were
/// written.
pub(crate) fn check_apart(op: &'static str, input: &Array, output: &Array) -> Result<()> {
    match input.overlaps(output) {
        true => Err(crate::Error::AliasedOutput { op }),
        false => Ok(()),
    }
}

/// The type in which elements of this type are added up: at least `f32`.
pub(crate) const fn sum_dtype(dtype: DType) -> DType {
    match dtype {
        DType::F64 => DType::F64,
        _ => DType::F32,
    }
}
