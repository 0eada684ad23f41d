//! OpenCL kernels that callers bring.

use polaris_runtime::opencl::{Defines, KernelArgument, Launch, ProgramSource};
use polaris_runtime::{DeviceRef, opencl};

use crate::{Array, Error, Result};

/// A kernel in OpenCL C 1.2 that the caller wrote, built for one device.
///
/// Each array is two parameters: a pointer to its memory, and the index of its first element in it as a `ulong`.
/// The device rounds the number of work-items up to whole work-groups, so that a kernel compares its index with the
/// number of elements.
///
/// ```
/// use polaris_ops::{Array, Kernel};
/// use polaris_runtime::{Runtime, RuntimeOptions};
///
/// const SOURCE: &str = "
///     __kernel void saxpy(__global const float *x, ulong x0, __global float *y, ulong y0, float a, uint n) {
///         const size_t i = get_global_id(0);
///         if (i < n) {
///             y[y0 + i] += a * x[x0 + i];
///         }
///     }";
///
/// let runtime = Runtime::discover(&RuntimeOptions::default())?;
/// for device in runtime.devices().iter().filter(|device| device.as_opencl().is_some()) {
///     let saxpy = Kernel::build(device, "saxpy", SOURCE)?;
///     let x = Array::from_slice(device, &[3], &[1.0f32, 2.0, 3.0])?;
///     let y = Array::from_slice(device, &[3], &[10.0f32, 10.0, 10.0])?;
///     let call = saxpy.call().array(&x)?.array(&y)?.value(2.0f32).value(3u32);
///     // SAFETY: the parameters are of these types, and a work-item touches the element of its index alone.
///     unsafe { call.run(&[3], &[64])? };
///     assert_eq!(y.to_vec::<f32>()?, [12.0, 14.0, 16.0]);
/// }
/// # Ok::<(), polaris_ops::Error>(())
/// ```
#[derive(Debug)]
pub struct Kernel {
    device: DeviceRef,
    kernel: opencl::Kernel,
}

impl Kernel {
    /// Builds the kernel `entry` of a source, or takes it from the cache of programs.
    ///
    /// # Errors
    /// If the device is not an OpenCL device, the compiler refuses the source (its own words are in the error), or
    /// there is no kernel of that name.
    pub fn build(device: &DeviceRef, entry: &str, source: &str) -> Result<Self> {
        let opencl = device.as_opencl().ok_or_else(|| Error::InvalidParameter {
            op: "kernel",
            what: format!("{} has no OpenCL kernels; name an OpenCL device", device.id()),
        })?;
        let source = ProgramSource {
            name: entry.to_owned(),
            parts: &[],
            defines: Defines::new().text(source.to_owned()),
            options: "",
        };
        Ok(Self { device: device.clone(), kernel: opencl.build_kernel(entry, &source)? })
    }

    /// The device that it was built for.
    pub fn device(&self) -> &DeviceRef {
        &self.device
    }

    /// A call in the making: arguments in the order of the kernel's parameters, then [`Call::run`].
    ///
    /// Other calls of the same kernel wait until this one was run or given up.
    pub fn call(&self) -> Call<'_> {
        let opencl = self.device.as_opencl().expect("a kernel should be on an OpenCL device");
        Call { launch: opencl.launch(&self.kernel) }
    }
}

/// A call of a [`Kernel`] in the making.
#[must_use = "a call does nothing until it is run"]
pub struct Call<'a> {
    launch: Launch<'a>,
}

impl Call<'_> {
    /// Passes an array, or a tensor, as two arguments: its memory, and the index of its first element as a `ulong`.
    ///
    /// # Errors
    /// If its elements do not follow one another in memory (make it contiguous first).
    pub fn array(mut self, array: &impl AsRef<Array>) -> Result<Self> {
        let array = array.as_ref();
        if !array.is_dense() || !array.layout().is_contiguous() {
            return Err(Error::InvalidParameter {
                op: "kernel",
                what: format!(
                    "an array of shape {} whose elements do not follow one another was given; make it contiguous",
                    array.shape()
                ),
            });
        }
        self.launch = self.launch.buffer(array.buffer(), array.layout().offset());
        Ok(self)
    }

    /// Passes a plain value, of exactly the parameter's type.
    pub fn value<T: KernelArgument>(mut self, value: T) -> Self {
        self.launch = self.launch.value(value);
        self
    }

    /// Passes local memory of this many bytes.
    pub fn local(mut self, bytes: usize) -> Self {
        self.launch = self.launch.local(bytes);
        self
    }

    /// Enqueues the kernel behind everything that was enqueued on the device's queue before, and returns at once:
    /// reading a result waits. `global` is rounded up to a multiple of `local`.
    ///
    /// # Errors
    /// If the number of arguments is wrong, an array is on another device, the work-group is too large for the
    /// device, or the driver refuses.
    ///
    /// # Safety
    /// Nobody checks what a kernel does. With these arguments, its work-items, those of the rounding included,
    /// - read and write inside the arrays they were given, and write no element that another one touches;
    /// - write no array that a tensor is made of which gradients still need;
    /// - end.
    ///
    /// Values must be of the types of the kernel's parameters.
    pub unsafe fn run(self, global: &[usize], local: &[usize]) -> Result<()> {
        // SAFETY: as this function's caller says.
        Ok(unsafe { self.launch.run(global, local) }?)
    }
}
