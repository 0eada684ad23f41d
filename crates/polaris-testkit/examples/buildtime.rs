use polaris_ops::*;
use std::time::Instant;
fn main() {
    let rt = polaris_runtime::Runtime::discover(&Default::default()).unwrap();
    let t = Instant::now();
    let d = &rt.devices()[1];
    let a = Array::from_slice(d, &[1000], &vec![1f32; 1000]).unwrap();
    for f in [Unary::Exp, Unary::Neg, Unary::Tanh, Unary::Abs] {
        let t = Instant::now();
        let r = elementwise::unary(f, &a).unwrap();
        println!("launch+build {:?}", t.elapsed());
        let t = Instant::now();
        r.to_vec::<f32>().unwrap();
        println!("  run {:?}", t.elapsed());
        let t = Instant::now();
        for _ in 0..1000 {
            elementwise::unary(f, &a).unwrap();
        }
        d.queue().finish().unwrap();
        println!("  each {:?}", t.elapsed() / 1000);
    }
    println!("{:?}", d.as_opencl().unwrap().program_counts());
}
