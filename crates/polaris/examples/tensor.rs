//! Fits a line by gradients: `cargo run --release --example tensor`.

use polaris::{DType, Device, Tensor, no_grad};

fn main() -> polaris::Result<()> {
    let device = Device::best()?;
    let x = Tensor::randn(&device, &[64, 3], DType::F32, 1)?;
    let target = x.sum_axes(&[-1], true)?;
    let weight = Tensor::zeros(&device, &[1, 3], DType::F32)?.requires_grad()?;
    for _ in 0..100 {
        x.linear(&weight, None)?.mse_loss(&target)?.backward()?;
        let gradient = weight.grad().expect("a gradient should have arrived");
        no_grad(|| weight.copy_from(&weight.sub(&gradient.mul_scalar(0.2)?)?))?;
        weight.zero_grad();
    }
    println!("{weight}");
    assert!(weight.to_vec::<f32>()?.iter().all(|w| (w - 1.0).abs() < 1e-3));
    Ok(())
}
