//! What users of the library rely on: devices by name, sessions that give tensors, errors by kind.

use polaris::{DType, Device, DeviceRef, ErrorKind, Mode, Session, Tensor};

const DIGITS: &str = "examples/digits.onnx";

fn sessions() -> Vec<(DeviceRef, Session)> {
    let open = |device: Device| {
        let session = Session::builder().device(&device).open(DIGITS).unwrap();
        (DeviceRef::clone(&device), session)
    };
    Device::all().unwrap().into_iter().map(open).collect()
}

#[test]
fn sessions_take_and_give_tensors_where_they_lie() {
    for (device, session) in sessions() {
        let x = Tensor::randn(&device, &[5, 1, 8, 8], DType::F32, 3).unwrap();
        let outputs = session.run([("input", &x)]).unwrap();
        assert_eq!(outputs.len(), 1);
        let y = &outputs["output"];
        assert_eq!(y.dims(), [5, 10]);
        assert_eq!(y.device().id(), device.id());
        // Without a copy: both are the arrays that the session read and wrote.
        assert!(!y.array().buffer().shares_memory_with(x.array().buffer()));
        assert_eq!(outputs.get("output").unwrap().to_f64().unwrap(), outputs[0].to_f64().unwrap());
        // The next run leaves the results of this one alone, and takes a tensor of another device too.
        let before = y.to_f64().unwrap();
        let other = Tensor::zeros(&Device::cpu().unwrap(), &[1, 1, 8, 8], DType::F32).unwrap();
        session.run([("input", &other)]).unwrap();
        assert_eq!(y.to_f64().unwrap(), before);
        // A tensor that was given is the caller's, and can be computed with afterwards.
        assert_eq!(x.add(&x).unwrap().dims(), x.dims());
        let same = session.run([("input", &x)]).unwrap();
        assert_eq!(same["output"].to_f64().unwrap(), before);
    }
}

#[test]
fn every_device_gives_the_same() {
    let mut expected: Option<Vec<f64>> = None;
    for (device, session) in sessions() {
        let x = Tensor::randn(&device, &[3, 1, 8, 8], DType::F32, 9).unwrap();
        let found = session.run([("input", &x)]).unwrap()[0].to_f64().unwrap();
        let expected = expected.get_or_insert_with(|| found.clone());
        for (a, b) in found.iter().zip(expected.iter()) {
            assert!((a - b).abs() <= 1e-4, "{device:?}: {a} instead of {b}");
        }
    }
}

#[test]
fn the_same_mistake_is_of_the_same_kind() {
    let cpu = Device::cpu().unwrap();
    let missing = Session::open("missing.onnx").unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NotFound, "{missing}");
    assert!(missing.to_string().contains("missing.onnx"), "{missing}");
    assert_eq!(Device::named("nowhere").unwrap_err().kind(), ErrorKind::NotFound);
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), b"no model").unwrap();
    assert_eq!(Session::open(file.path()).unwrap_err().kind(), ErrorKind::InvalidData);
    let (x, y) = (
        Tensor::zeros(&cpu, &[2, 3], DType::F32).unwrap(),
        Tensor::zeros(&cpu, &[2, 4], DType::F32).unwrap(),
    );
    assert_eq!(x.add(&y).unwrap_err().kind(), ErrorKind::Shape);
    assert_eq!(x.matmul(&y).unwrap_err().kind(), ErrorKind::Shape);
    let integers = Tensor::zeros(&cpu, &[2, 3], DType::I32).unwrap();
    assert_eq!(x.add(&integers).unwrap_err().kind(), ErrorKind::DType);
    let session = Session::open(DIGITS).unwrap();
    let wrong = session.run([("input", &x)]).unwrap_err();
    assert_eq!(wrong.kind(), ErrorKind::InvalidArgument, "{wrong}");
    let outputs =
        session.run([("input", &Tensor::zeros(&cpu, &[1, 1, 8, 8], DType::F32).unwrap())]);
    let absent = outputs.unwrap().get("logits").unwrap_err();
    assert_eq!(absent.kind(), ErrorKind::NotFound);
    assert!(absent.to_string().contains("`output`"), "{absent}");
    let both = Session::builder().device(&cpu).mode(Mode::Gpu).open(DIGITS).unwrap_err();
    assert_eq!(both.kind(), ErrorKind::InvalidArgument, "{both}");
}

/// One error, whichever crate the call is of: `?` needs nothing else.
#[test]
fn everything_becomes_one_error() {
    fn all() -> polaris::Result<()> {
        let device = Device::best()?;
        let array = polaris::ops::Array::from_slice(&device, &[1], &[1.0f32])?;
        let _ = polaris::data::digits()?;
        let _: polaris::DeviceName = "gpu".parse()?;
        let _ = polaris::Shape::new(&[1])?;
        assert_eq!(Tensor::new(array).item()?, 1.0);
        Ok(())
    }
    all().unwrap();
}
