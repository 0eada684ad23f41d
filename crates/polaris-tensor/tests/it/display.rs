//! Tensors as text.

use polaris_core::{Bool, DType};
use polaris_tensor::Tensor;
use polaris_testkit::devices_under_test;

#[test]
fn small_tensors_are_shown_whole() {
    for device in devices_under_test() {
        let id = device.id();
        let shown = |tensor: Tensor| tensor.to_string();
        let x = Tensor::from_slice(device, &[2, 2], &[1.0f32, -2.5, 30.25, 0.0]).unwrap();
        let expected = format!("[[ 1.0000, -2.5000],\n [30.2500,  0.0000]]\nf32 [2, 2] on {id}");
        assert_eq!(shown(x.clone()), expected);
        assert_eq!(
            shown(x.transpose(0, 1).unwrap().narrow(0, 0..1).unwrap()),
            format!("[[ 1.0000, 30.2500]]\nf32 [1, 2] on {id}")
        );
        let whole = Tensor::from_slice(device, &[3], &[1.0f64, 2.0, -3.0]).unwrap();
        assert_eq!(shown(whole), format!("[ 1.0,  2.0, -3.0]\nf64 [3] on {id}"));
        let far = Tensor::from_slice(device, &[3], &[1e-9f32, 2.0, f32::NAN]).unwrap();
        assert_eq!(shown(far), format!("[1.0000e-9,  2.0000e0,       NaN]\nf32 [3] on {id}"));
        let large = Tensor::from_slice(device, &[], &[i64::MAX]).unwrap();
        assert_eq!(shown(large), format!("9223372036854775807\ni64 [] on {id}"));
        let truth = Tensor::from_slice(device, &[2], &[Bool::from(true), Bool::from(false)]);
        assert_eq!(shown(truth.unwrap()), format!("[ true, false]\nbool [2] on {id}"));
        let none = Tensor::zeros(device, &[2, 0], DType::F32).unwrap();
        assert_eq!(shown(none), format!("[[],\n []]\nf32 [2, 0] on {id}"));
        let bytes = Tensor::from_slice(device, &[1, 1, 2], &[1u8, 255]).unwrap();
        assert_eq!(shown(bytes), format!("[[[  1, 255]]]\nu8 [1, 1, 2] on {id}"));
    }
}

#[test]
fn large_tensors_are_shortened() {
    for device in devices_under_test() {
        let values: Vec<i32> = (0..5000).collect();
        let x = Tensor::from_slice(device, &[1000, 5], &values).unwrap();
        let text = x.to_string();
        assert!(text.starts_with("[[   0,    1,    2,    3,    4],\n [   5,"), "{text}");
        assert!(text.contains("\n ...,\n [4985, 4986, 4987, 4988, 4989],\n"), "{text}");
        assert!(text.ends_with(&format!("4999]]\ni32 [1000, 5] on {}", device.id())), "{text}");
        assert_eq!(text.lines().count(), 8, "{text}");
        let long = Tensor::from_slice(device, &[5000], &values).unwrap().to_string();
        assert!(long.starts_with("[   0,    1,    2, ..., 4997, 4998, 4999]\n"), "{long}");
    }
}
