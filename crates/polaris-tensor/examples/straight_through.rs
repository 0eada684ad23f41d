//! Rounding that a gradient passes through as if nothing had been rounded: the custom operation
//! behind quantisation-aware training.

use polaris_runtime::{Runtime, RuntimeOptions};
use polaris_tensor::{Context, Function, Result, Tensor, apply};

struct StraightThroughRound;

impl Function for StraightThroughRound {
    fn name(&self) -> &'static str {
        "straight_through_round"
    }

    fn forward(&self, inputs: &[Tensor]) -> Result<Tensor> {
        inputs[0].round()
    }

    fn backward(&self, context: &Context<'_>) -> Result<Vec<Option<Tensor>>> {
        Ok(vec![Some(context.gradient.clone())])
    }
}

fn main() -> Result<()> {
    let runtime = Runtime::discover(&RuntimeOptions::default())?;
    for device in runtime.devices() {
        let x = Tensor::from_slice(device, &[3], &[0.2f32, 1.7, -2.4])?.requires_grad()?;
        let rounded = apply(StraightThroughRound, &[&x])?;
        rounded.square()?.sum()?.backward()?;
        let gradient = x.grad().expect("the gradient should pass").to_vec::<f32>()?;
        println!("{}: {:?} -> {gradient:?}", device.id(), rounded.to_vec::<f32>()?);
        assert_eq!(gradient, [0.0, 4.0, -4.0]);
    }
    Ok(())
}

#[test]
fn it_does_what_it_says() {
    main().unwrap();
}
