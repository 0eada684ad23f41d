//! The `Operation` trait, and the choice of a kernel.

use std::any::Any;
use std::collections::HashSet;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use polaris_core::DType;
use polaris_runtime::cpu::CpuDevice;
use polaris_runtime::opencl::OpenClDevice;
use polaris_runtime::{Buffer, DeviceExt, Error as RuntimeError};

use crate::format::{Format, check_dense};
use crate::{Array, ArrayType, Class, Result, Work};

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

    /// Whether it reads an input in a format other than dense.
    fn accepts(&self, _input: usize, _format: Format) -> bool {
        false
    }

    /// Whether it writes an output in a format other than dense.
    fn writes(&self, _format: Format) -> bool {
        false
    }

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

    /// What it has to do, whatever device does it. A result for each element is what most do.
    fn work(&self, inputs: &[ArrayType], output: &ArrayType) -> Work {
        Work::per_result(1, inputs, output)
    }

    /// What operations it is like, in the share of a device's speed that it reaches.
    fn class(&self) -> Class {
        Class::Elementwise
    }

    /// Whether the result may lie where an input of the same layout lies.
    fn works_in_place(&self) -> bool {
        false
    }

    /// The result by definition, in `f64`, from the inputs' elements in row-major order.
    fn reference(&self, inputs: &[Vec<f64>], input_arrays: &[&Array], output: &Array) -> Vec<f64>;
}

/// An operation of any type, whose kernels are known by number: what lists of operations hold.
pub trait AnyOperation: fmt::Debug + Any + Send + Sync {
    /// See [`Operation::name`].
    fn name(&self) -> &'static str;

    /// The names of the OpenCL kernels that could do this, most preferred first.
    fn kernels(&self, inputs: &[&Array], output: &Array) -> Vec<String>;

    /// Each entry of the operation's list of OpenCL kernels, and whether it could do this.
    fn entries(&self, inputs: &[&Array], output: &Array) -> Vec<(String, bool)>;

    /// See [`run`].
    ///
    /// # Errors
    /// As for [`run`].
    fn run(&self, inputs: &[&Array], output: &Array) -> Result<()>;

    /// Runs one of [`Self::kernels`], quarantined or not; the CPU where there is none.
    ///
    /// # Errors
    /// As for [`run`], and if there is no such kernel.
    fn run_kernel(&self, index: usize, inputs: &[&Array], output: &Array) -> Result<()>;

    /// See [`has_trusted_kernel`].
    fn has_trusted_kernel(&self, inputs: &[&Array], output: &Array) -> bool;

    /// See [`Operation::work`].
    fn work(&self, inputs: &[ArrayType], output: &ArrayType) -> Work;

    /// See [`Operation::class`].
    fn class(&self) -> Class;

    /// See [`Operation::works_in_place`].
    fn works_in_place(&self) -> bool;

    /// See [`Operation::reference`].
    fn reference(&self, values: &[Vec<f64>], inputs: &[&Array], output: &Array) -> Vec<f64>;
}

impl<O: Operation + Send + 'static> AnyOperation for O {
    fn name(&self) -> &'static str {
        Operation::name(self)
    }

    fn kernels(&self, inputs: &[&Array], output: &Array) -> Vec<String> {
        let kernels = usable_kernels(self, inputs, output);
        kernels.into_iter().map(|kernel| self.kernel_name(kernel, inputs, output)).collect()
    }

    fn entries(&self, inputs: &[&Array], output: &Array) -> Vec<(String, bool)> {
        let Some(device) = output.device().as_opencl() else {
            return Vec::new();
        };
        let entry = |&kernel: &O::Kernel| {
            let name = format!("{} {kernel:?}", std::any::type_name::<O>());
            (name, self.supports(kernel, device, inputs, output))
        };
        O::KERNELS.iter().map(entry).collect()
    }

    fn run(&self, inputs: &[&Array], output: &Array) -> Result<()> {
        run(self, inputs, output)
    }

    fn run_kernel(&self, index: usize, inputs: &[&Array], output: &Array) -> Result<()> {
        let kernels = usable_kernels(self, inputs, output);
        match kernels.get(index) {
            Some(&kernel) => run_kernel(self, kernel, inputs, output),
            None if kernels.is_empty() => run(self, inputs, output),
            None => Err(crate::Error::InvalidParameter {
                op: Operation::name(self),
                what: format!("there is no kernel {index}"),
            }),
        }
    }

    fn has_trusted_kernel(&self, inputs: &[&Array], output: &Array) -> bool {
        has_trusted_kernel(self, inputs, output)
    }

    fn work(&self, inputs: &[ArrayType], output: &ArrayType) -> Work {
        Operation::work(self, inputs, output)
    }

    fn class(&self) -> Class {
        Operation::class(self)
    }

    fn works_in_place(&self) -> bool {
        Operation::works_in_place(self)
    }

    fn reference(&self, values: &[Vec<f64>], inputs: &[&Array], output: &Array) -> Vec<f64> {
        Operation::reference(self, values, inputs, output)
    }
}

/// Runs an operation where its arrays are: on an OpenCL device with the first kernel that
/// supports it and is trusted, otherwise on the CPU, with a word.
///
/// # Errors
/// If the arrays do not fit together, or the device fails.
pub fn run<O: Operation>(op: &O, inputs: &[&Array], output: &Array) -> Result<()> {
    check_arrays(op, inputs, output)?;
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
                say_once(device, &name(), "is quarantined with this driver");
                continue;
            }
            match op.run_opencl(device, kernel, inputs, output) {
                Err(crate::Error::Runtime(error @ RuntimeError::BuildFailed { .. })) => {
                    give_up(device, &name(), &error);
                }
                result => return result,
            }
        }
        let run_cpu =
            |cpu: &CpuDevice, inputs: &[&Array], output: &Array| op.run_cpu(cpu, inputs, output);
        return run_on_host(op.name(), &run_cpu, device, inputs, output);
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
    check_arrays(op, inputs, output)?;
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

/// Whether an OpenCL device has a kernel for this that is trusted. A device without one would send the
/// arrays to the CPU and back.
pub fn has_trusted_kernel<O: Operation>(op: &O, inputs: &[&Array], output: &Array) -> bool {
    output.device().as_opencl().is_some_and(|device| {
        kernels(op, device, inputs, output)
            .any(|kernel| !device.is_quarantined(|| op.kernel_name(kernel, inputs, output)))
    })
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

/// Refuses arrays of different devices, and formats that the operation does not read.
fn check_arrays<O: Operation>(op: &O, inputs: &[&Array], output: &Array) -> Result<()> {
    if !op.writes(output.format()) {
        check_dense(op.name(), output.format())?;
    }
    check_inputs(op.name(), &|place, format| op.accepts(place, format), inputs, output)
}

// What follows is compiled once, and not for each of 85 operations.

fn check_inputs(
    op: &'static str,
    accepts: &dyn Fn(usize, Format) -> bool,
    inputs: &[&Array],
    output: &Array,
) -> Result<()> {
    for (place, input) in inputs.iter().enumerate() {
        if !input.is_dense() && !accepts(place, input.format()) {
            return Err(crate::Error::UnsupportedFormat { op, format: input.format() });
        }
    }
    let there = output.device();
    // Memory of the CPU is the same in every runtime.
    let elsewhere = |input: &&&Array| {
        let device = input.device();
        !Arc::ptr_eq(device, there) && (device.id() != there.id() || device.as_cpu().is_none())
    };
    match inputs.iter().find(elsewhere) {
        Some(other) => Err(RuntimeError::mismatch(op, other.device().id(), there.id()).into()),
        None => Ok(()),
    }
}

/// Says that a kernel does not build, and does not try it again.
#[cold]
fn give_up(device: &OpenClDevice, kernel: &str, error: &RuntimeError) {
    say_once(device, kernel, &format!("does not build ({})", first_line(error)));
    device.quarantine(kernel);
}

/// [`Operation::run_cpu`] of any operation.
type RunCpu<'a> = dyn Fn(&CpuDevice, &[&Array], &Array) -> Result<()> + 'a;

/// No kernel can be used: the arrays travel to the host, and the result back.
#[cold]
fn run_on_host(
    op: &'static str,
    run_cpu: &RunCpu<'_>,
    device: &OpenClDevice,
    inputs: &[&Array],
    output: &Array,
) -> Result<()> {
    say_once(device, op, "has no usable kernel for this and runs on the CPU");
    let host = device.host();
    let cpu = host.as_cpu().expect("the host of an OpenCL device should be the CPU");
    let to_host = |buffer: &Buffer| -> Result<Buffer> {
        let copy = host.allocate(buffer.dtype(), buffer.len())?;
        buffer.copy_to(&copy)?;
        Ok(copy)
    };
    // The output travels too: its layout may leave out elements that must keep their values.
    let host_output = output.in_buffer(to_host(output.buffer())?);
    let host_inputs = inputs
        .iter()
        .map(|input| match input.buffer().shares_memory_with(output.buffer()) {
            // In-place work stays in place if it is the same view; another view of the same
            // memory was checked not to overlap.
            true if input.buffer().byte_offset() == output.buffer().byte_offset() => {
                Ok(input.in_buffer(host_output.buffer().clone()))
            }
            _ => Ok(input.in_buffer(to_host(input.buffer())?)),
        })
        .collect::<Result<Vec<Array>>>()?;
    let host_inputs: Vec<&Array> = host_inputs.iter().collect();
    run_cpu(cpu, &host_inputs, &host_output)?;
    Ok(host_output.buffer().copy_to(output.buffer())?)
}

/// Tells the user once per process that something does not run as it should.
fn say_once(device: &OpenClDevice, what: &str, why: &str) {
    static SAID: Mutex<Option<HashSet<String>>> = Mutex::new(None);
    let message = format!("{}: {what} {why}", polaris_runtime::Device::id(device));
    let mut said = SAID.lock().unwrap_or_else(PoisonError::into_inner);
    if said.get_or_insert_default().insert(message.clone()) {
        log::warn!("{message}; the next kernel is used");
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
        && a.format() == b.format()
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
