//! A kernel of your own as an operation with a gradient: `cargo run --release --example kernel`.

use polaris::ops::{Array, Kernel};
use polaris::tensor::{Context, Function, Result, apply};
use polaris::{Device, Tensor};

/// `x^3`; its derivative is `3 x^2`.
const SOURCE: &str = "
    __kernel void cube(__global const float *x, ulong x0, __global float *y, ulong y0, uint n) {
        const size_t i = get_global_id(0);
        if (i < n) {
            const float v = x[x0 + i];
            y[y0 + i] = v * v * v;
        }
    }";

struct Cube(Kernel);

impl Function for Cube {
    fn name(&self) -> &'static str {
        "cube"
    }

    fn forward(&self, inputs: &[Tensor]) -> Result<Tensor> {
        let x = inputs[0].contiguous()?;
        let y = Array::empty(x.device(), x.dtype(), *x.shape())?;
        let call = self.0.call().array(&x)?.array(&y)?.value(x.elements() as u32);
        // SAFETY: the arguments are of the parameters' types, and a work-item writes the element of its index alone.
        unsafe { call.run(&[x.elements()], &[64])? };
        Ok(Tensor::new(y))
    }

    fn backward(&self, context: &Context<'_>) -> Result<Vec<Option<Tensor>>> {
        let slope = context.inputs[0].square()?.mul_scalar(3.0)?;
        Ok(vec![Some(slope.mul(context.gradient)?)])
    }

    fn needs_output(&self) -> bool {
        false
    }
}

fn main() -> polaris::Result<()> {
    let devices = Device::all()?;
    let Some(device) = devices.iter().find(|device| device.as_opencl().is_some()) else {
        println!("there is no OpenCL device here; `polaris devices` says how to get one");
        return Ok(());
    };
    let cube = Cube(Kernel::build(device, "cube", SOURCE)?);
    let x = Tensor::from_slice(device, &[3], &[1.0f32, 2.0, -3.0])?.requires_grad()?;
    let y = apply(cube, &[&x])?;
    y.sum()?.backward()?;
    let gradient = x.grad().expect("a gradient should have arrived");
    println!("{y}\n{gradient}");
    assert_eq!(y.to_vec::<f32>()?, [1.0, 8.0, -27.0]);
    assert_eq!(gradient.to_vec::<f32>()?, [3.0, 12.0, 27.0]);
    Ok(())
}
