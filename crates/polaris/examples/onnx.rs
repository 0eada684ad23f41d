//! Runs an ONNX model: `cargo run --release --example onnx`.

use polaris::{Session, Tensor};

const DIGIT: &str = " ######      ##      #      ##    #####    ##      #       #    ";

fn main() -> polaris::Result<()> {
    let session = Session::open("examples/digits.onnx")?;
    let pixels: Vec<f32> = DIGIT.bytes().map(|pixel| f32::from(u8::from(pixel == b'#'))).collect();
    let image = Tensor::from_slice(&session.device(), &[1, 1, 8, 8], &pixels)?;
    let outputs = session.run([("input", &image)])?;
    let digit = outputs["output"].argmax(-1, false)?.item()?;
    println!("this is a {digit}, says {}", session.device());
    assert_eq!(digit, 7.0);
    Ok(())
}
