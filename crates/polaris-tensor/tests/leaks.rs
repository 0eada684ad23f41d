//! Memory stays where it is over many steps of training.

use polaris_core::DType;
use polaris_runtime::DeviceRef;
use polaris_tensor::{Result, Tensor, no_grad};
use polaris_testkit::own_runtime;

/// A small net: two linear layers, a norm and a loss, with plain gradient descent.
struct Net {
    parameters: Vec<Tensor>,
}

impl Net {
    fn new(device: &DeviceRef) -> Result<Self> {
        let shapes: [&[usize]; 4] = [&[16, 8], &[16], &[16], &[4, 16]];
        let make = |(seed, dims): (usize, &&[usize])| {
            Tensor::randn(device, dims, DType::F32, seed as u64)?.mul_scalar(0.3)?.requires_grad()
        };
        Ok(Self { parameters: shapes.iter().enumerate().map(make).collect::<Result<_>>()? })
    }

    fn step(&self, x: &Tensor, target: &Tensor) -> Result<Tensor> {
        let [w1, b1, scale, w2] = &self.parameters[..] else { unreachable!() };
        let hidden = x.linear(w1, Some(b1))?.gelu()?.layer_norm(Some(scale), None, 1e-5)?;
        let loss = hidden.linear(w2, None)?.mse_loss(target)?;
        loss.backward()?;
        for parameter in &self.parameters {
            let gradient = parameter.grad().expect("every parameter should have a gradient");
            no_grad(|| parameter.copy_from(&parameter.sub(&gradient.mul_scalar(0.05)?)?))?;
            parameter.zero_grad();
        }
        Ok(loss.detach())
    }
}

/// What is held at some moment.
struct Held {
    /// Live, cached and peak bytes of the device.
    device: [u64; 3],
    /// Bytes of the process, where the system tells.
    resident: u64,
}

fn memory(device: &DeviceRef) -> Held {
    let held = device.allocator().memory_use();
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = pages.split_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok());
    Held { device: [held.used, held.cached, held.peak], resident: pages.unwrap_or(0) * 4096 }
}

#[test]
fn ten_thousand_steps_keep_memory_constant() {
    let runtime = own_runtime();
    for device in runtime.devices() {
        let net = Net::new(device).unwrap();
        let x = Tensor::randn(device, &[6, 8], DType::F32, 100).unwrap();
        let target = Tensor::randn(device, &[6, 4], DType::F32, 101).unwrap();
        let first = net.step(&x, &target).unwrap().item().unwrap();
        for _ in 0..100 {
            net.step(&x, &target).unwrap();
        }
        let before = memory(device);
        let mut last = f64::NAN;
        for step in 0..10_000 {
            let loss = net.step(&x, &target).unwrap();
            // Now and then somebody looks, so that queues do not grow.
            if step % 100 == 99 {
                last = loss.item().unwrap();
            }
        }
        let after = memory(device);
        assert_eq!(after.device, before.device, "{}", device.id());
        let grown = after.resident.saturating_sub(before.resident);
        assert!(grown < 16 << 20, "{}: {grown} bytes more are resident", device.id());
        assert!(last < 0.1 * first, "{}: {first} -> {last}", device.id());
    }
}
