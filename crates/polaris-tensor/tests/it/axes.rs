//! Axes counted from the back are those counted from the front.

use polaris_core::{DType, ErrorKind};
use polaris_tensor::{Result, Tensor};
use polaris_testkit::devices_under_test;

type Method = fn(&Tensor, i64) -> Result<Tensor>;

#[test]
fn negative_axes_count_from_the_back() {
    let methods: [(&str, Method); 18] = [
        ("sum_axes", |x, axis| x.sum_axes(&[axis], true)),
        ("mean_axes", |x, axis| x.mean_axes(&[axis], false)),
        ("amax", |x, axis| x.amax(&[axis], false)),
        ("amin", |x, axis| x.amin(&[axis], false)),
        ("var", |x, axis| x.var(&[axis], 0, false)),
        ("logsumexp", |x, axis| x.logsumexp(&[axis], false)),
        ("argmax", |x, axis| x.argmax(axis, false)),
        ("softmax", Tensor::softmax),
        ("log_softmax", Tensor::log_softmax),
        ("cumsum", Tensor::cumsum),
        ("flip", |x, axis| x.flip(&[axis])),
        ("argsort", |x, axis| x.argsort(axis, true)),
        ("topk", |x, axis| Ok(x.topk(1, axis)?.0)),
        ("narrow", |x, axis| x.narrow(axis, 0..2)),
        ("select", |x, axis| x.select(axis, 1)),
        ("transpose", |x, axis| x.transpose(axis, 0)),
        ("concatenate", |x, axis| Tensor::concatenate(&[x, x], axis)),
        ("split", |x, axis| Ok(x.split(axis, 1)?.remove(1))),
    ];
    for device in devices_under_test() {
        let x = Tensor::randn(device, &[2, 3, 4], DType::F32, 7).unwrap();
        for (name, method) in methods {
            for axis in 0..3 {
                let (front, back) = (method(&x, axis).unwrap(), method(&x, axis - 3).unwrap());
                assert_eq!(front.dims(), back.dims(), "{name} along {axis}");
                assert_eq!(front.to_f64().unwrap(), back.to_f64().unwrap(), "{name} along {axis}");
            }
            for axis in [3, -4, i64::MAX, i64::MIN] {
                let error = method(&x, axis).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Shape, "{name} along {axis}: {error}");
                assert!(error.to_string().contains(&axis.to_string()), "{name}: {error}");
            }
        }
        // A new axis may also stand behind the last one.
        for (axis, dims) in [(-1, [2, 3, 4, 1]), (-4, [1, 2, 3, 4]), (3, [2, 3, 4, 1])] {
            assert_eq!(x.unsqueeze(axis).unwrap().dims(), dims);
        }
        assert_eq!(x.unsqueeze(4).unwrap_err().kind(), ErrorKind::Shape);
        assert_eq!(Tensor::stack(&[&x, &x], -1).unwrap().dims(), [2, 3, 4, 2]);
        assert_eq!(x.permute(&[-1, 0, 1]).unwrap().dims(), [4, 2, 3]);
        assert!(Tensor::concatenate(&[], -1).is_err());
    }
}
