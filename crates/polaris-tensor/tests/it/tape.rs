//! The tape itself: what is remembered, what is given up, and what is said when it cannot be done.

use polaris_core::DType;
use polaris_runtime::DeviceRef;
use polaris_tensor::{
    Context, Error, Function, Result, Tensor, apply, checkpoint, gradients, no_grad,
};
use polaris_testkit::devices_under_test;
use std::sync::{Arc, Mutex};

fn cpu() -> &'static DeviceRef {
    &devices_under_test()[0]
}

fn leaf(values: &[f32]) -> Tensor {
    Tensor::from_slice(cpu(), &[values.len()], values).unwrap().requires_grad().unwrap()
}

fn gradient(tensor: &Tensor) -> Vec<f32> {
    tensor.grad().expect("a gradient should have arrived").to_vec().unwrap()
}

#[test]
fn gradients_add_up() {
    let x = leaf(&[1.0, 2.0]);
    for _ in 0..2 {
        x.square().unwrap().sum().unwrap().backward().unwrap();
    }
    assert_eq!(gradient(&x), [4.0, 8.0]);
    x.zero_grad();
    assert!(x.grad().is_none());
    // A diamond: both ways count, and each node has its turn once.
    let y = x.square().unwrap();
    let z = y.mul(&y).unwrap().add(&y).unwrap();
    z.sum().unwrap().backward().unwrap();
    assert_eq!(gradient(&x), [4.0 + 2.0, 32.0 + 4.0]);
}

#[test]
fn gradients_of_some_tensors_leave_others_alone() {
    let (x, y) = (leaf(&[3.0]), leaf(&[4.0]));
    let product = x.mul(&y).unwrap();
    let z = product.square().unwrap().sum().unwrap();
    let found = gradients(&z, &[&product, &y, &leaf(&[1.0])]).unwrap();
    let values = |place: usize| found[place].as_ref().map(|t| t.to_vec::<f32>().unwrap());
    assert_eq!(values(0), Some(vec![24.0]));
    assert_eq!(values(1), Some(vec![72.0]));
    assert_eq!(values(2), None);
    assert!(x.grad().is_none() && y.grad().is_none());
}

#[test]
fn nothing_is_remembered_without_need() {
    let x = leaf(&[1.0]);
    let y = no_grad(|| x.square().unwrap());
    assert!(!y.is_tracked());
    assert!(x.square().unwrap().is_tracked());
    assert!(!x.detach().square().unwrap().is_tracked());
    assert!(matches!(y.backward(), Err(Error::NoHistory)));
    let constant = Tensor::ones(cpu(), &[1], DType::F32).unwrap();
    assert!(matches!(constant.backward(), Err(Error::NoHistory)));
    assert!(matches!(leaf(&[1.0, 2.0]).backward(), Err(Error::NotAScalar { .. })));
    // A panic inside does not leave recording switched off.
    let caught = std::panic::catch_unwind(|| no_grad(|| panic!("on purpose")));
    assert!(caught.is_err() && polaris_tensor::is_recording());
    let whole = Tensor::from_slice(cpu(), &[1], &[1i32]).unwrap();
    assert!(matches!(whole.requires_grad(), Err(Error::NotDifferentiable { .. })));
}

#[test]
fn gradients_have_no_history() {
    let x = leaf(&[2.0]);
    x.square().unwrap().sum().unwrap().backward().unwrap();
    let again = x.grad().unwrap().sum().unwrap().backward();
    let message = again.unwrap_err().to_string();
    assert!(message.contains("double backward is not supported"), "{message}");
}

#[test]
fn a_history_is_used_once() {
    let x = leaf(&[2.0]);
    let y = x.square().unwrap().sum().unwrap();
    y.backward_retaining().unwrap();
    y.backward().unwrap();
    assert_eq!(gradient(&x), [8.0]);
    assert!(matches!(y.backward(), Err(Error::HistorySpent { op: "sum" })));
}

#[test]
fn hooks_see_and_replace() {
    let x = leaf(&[1.0, 3.0]);
    let y = x.square().unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&seen);
    y.register_hook(move |gradient| {
        kept.lock().unwrap().push(gradient.to_vec::<f32>()?);
        Ok(Some(gradient.mul_scalar(10.0)?))
    });
    y.retain_grad();
    // Two uses: the hook sees their sum.
    y.add(&y).unwrap().sum().unwrap().backward().unwrap();
    assert_eq!(*seen.lock().unwrap(), [[2.0, 2.0]]);
    assert_eq!(gradient(&y), [20.0, 20.0]);
    assert_eq!(gradient(&x), [40.0, 120.0]);
    let z = x.square().unwrap();
    z.register_hook(|gradient| Ok(Some(gradient.unsqueeze(0)?)));
    assert!(matches!(z.sum().unwrap().backward(), Err(Error::WrongGradient { .. })));
}

#[test]
fn changes_in_place_are_noticed() {
    let x = leaf(&[1.0, 2.0]);
    let y = x.square().unwrap().sum().unwrap();
    let other = Tensor::from_slice(cpu(), &[2], &[5.0f32, 6.0]).unwrap();
    x.copy_from(&other).unwrap();
    assert_eq!(x.to_vec::<f32>().unwrap(), [5.0, 6.0]);
    assert!(matches!(y.backward(), Err(Error::ChangedInPlace { op: "square" })));
    // A sum needs no values.
    let y = x.add(&other).unwrap().sum().unwrap();
    x.copy_from(&other).unwrap();
    y.backward().unwrap();
    assert!(x.square().unwrap().copy_from(&other).is_err());
}

#[test]
fn checkpoints_compute_again() {
    let weight = leaf(&[2.0, 3.0]);
    let x = leaf(&[1.0, 4.0]);
    let runs = Arc::new(Mutex::new(0));
    let (counted, inner) = (Arc::clone(&runs), weight.clone());
    let part = move |inputs: &[Tensor]| {
        *counted.lock().unwrap() += 1;
        inputs[0].mul(&inner)?.square()
    };
    let y = checkpoint(part.clone(), &[&x]).unwrap();
    y.sum().unwrap().backward().unwrap();
    assert_eq!(*runs.lock().unwrap(), 2);
    assert_eq!(gradient(&x), [8.0, 72.0]);
    assert_eq!(gradient(&weight), [4.0, 96.0]);
    // Also where only a parameter inside is tracked.
    weight.zero_grad();
    let y = checkpoint(part, &[&x.detach()]).unwrap();
    y.sum().unwrap().backward().unwrap();
    assert_eq!(gradient(&weight), [4.0, 96.0]);
}

/// Says that it has two gradients.
struct Wrong;

impl Function for Wrong {
    fn name(&self) -> &'static str {
        "wrong"
    }

    fn forward(&self, inputs: &[Tensor]) -> Result<Tensor> {
        inputs[0].square()
    }

    fn backward(&self, context: &Context<'_>) -> Result<Vec<Option<Tensor>>> {
        assert_eq!((context.inputs.len(), context.output.is_some()), (1, true));
        Ok(vec![None, None])
    }
}

#[test]
fn custom_functions_are_checked() {
    let y = apply(Wrong, &[&leaf(&[1.0])]).unwrap().sum().unwrap();
    let expected = Error::WrongGradientCount { op: "wrong", inputs: 1, gradients: 2 };
    assert_eq!(y.backward().unwrap_err().to_string(), expected.to_string());
}

#[test]
fn mixing_devices_and_types_is_an_error_that_names_them() {
    let x = leaf(&[1.0]);
    let wide = Tensor::ones(cpu(), &[1], DType::F64).unwrap();
    let message = x.add(&wide).unwrap_err().to_string();
    assert!(message.contains("f32") && message.contains("f64"), "{message}");
    let message = x.add(&leaf(&[1.0, 2.0]).reshape(&[2, 1, 1]).unwrap());
    assert!(message.is_ok());
    for device in &devices_under_test()[1..] {
        let there = x.detach().to_device(device).unwrap();
        let message = x.add(&there).unwrap_err().to_string();
        let names = [cpu().id().to_string(), device.id().to_string()];
        assert!(names.iter().all(|name| message.contains(name)), "{message}");
        // A gradient finds its way home.
        x.zero_grad();
        x.to_device(device).unwrap().square().unwrap().sum().unwrap().backward().unwrap();
        assert_eq!(gradient(&x), [2.0]);
        assert_eq!(x.grad().unwrap().device().id(), cpu().id());
    }
}

/// Each node dropping the next would use up the stack.
#[test]
fn a_long_chain_can_be_walked_and_dropped() {
    let x = leaf(&[1.0]);
    let mut y = x.clone();
    for _ in 0..50_000 {
        y = y.add(&x).unwrap();
    }
    let z = y.sum().unwrap();
    z.backward_retaining().unwrap();
    assert_eq!(gradient(&x), [50_001.0]);
}

/// A weight in half precision is multiplied as it is, and its gradient has its type.
#[test]
fn weights_in_half_precision_have_gradients_of_their_type() {
    let weight = |shape: &[usize]| {
        let values = Tensor::from_slice(cpu(), shape, &[1.0f32, 2.0, 3.0, 4.0]).unwrap();
        values.to_dtype(DType::BF16).unwrap().requires_grad().unwrap()
    };
    let x = leaf(&[5.0, 6.0]);
    let (w, v) = (weight(&[2, 2]), weight(&[2, 2]));
    let rows = x.reshape(&[1, 2]).unwrap();
    let product = rows.matmul(&w).unwrap().add(&rows.linear(&v, None).unwrap()).unwrap();
    assert_eq!(product.to_vec::<f32>().unwrap(), [23.0 + 17.0, 34.0 + 39.0]);
    product.sum().unwrap().backward().unwrap();
    assert_eq!(gradient(&x), [3.0 + 4.0, 7.0 + 6.0]);
    for (weight, expected) in [(w, [5.0f32, 5.0, 6.0, 6.0]), (v, [5.0, 6.0, 5.0, 6.0])] {
        let found = weight.grad().unwrap();
        assert_eq!(found.dtype(), DType::BF16);
        assert_eq!(found.to_dtype(DType::F32).unwrap().to_vec::<f32>().unwrap(), expected);
    }
}
