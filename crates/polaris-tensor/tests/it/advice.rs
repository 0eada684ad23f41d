//! What errors of shapes advise is what would help.

use polaris_core::DType;
use polaris_runtime::{DeviceRef, Runtime, RuntimeOptions};
use polaris_tensor::{Result, Tensor};

fn zeros(device: &DeviceRef, dims: &[usize]) -> Tensor {
    Tensor::zeros(device, dims, DType::F32).unwrap()
}

#[test]
fn each_operation_has_its_own() {
    let runtime = Runtime::discover(&RuntimeOptions::default()).unwrap();
    let device = runtime.cpu();
    let of = |dims: &[usize]| zeros(device, dims);
    let says = |result: Result<Tensor>, advice: &str| {
        let error = result.unwrap_err().to_string();
        assert!(error.contains(advice), "{error}");
    };
    says(of(&[2, 3]).add(&of(&[2, 4])), "make each pair of dimensions equal or 1");
    says(of(&[2, 3]).matmul(&of(&[4, 5])), "the last dimension of the first must equal");
    says(of(&[2, 3]).matmul(&of(&[])), "at least one axis");
    says(of(&[2, 3]).linear(&of(&[4, 5]), None), "must equal");
    says(of(&[2, 3]).reshape(&[7]), "the same number of elements");
}
