//! Runs the interpreter on folders of ONNX' test data and says what did not pass.
//!
//! `cargo run --release -p polaris-onnx --example node_tests -- FOLDER [PART OF A NAME]`

use polaris_onnx::conformance::{Interpreter, Status, find_cases, run_case};

fn main() {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().expect("a folder should be named");
    let part = arguments.next().unwrap_or_default();
    std::panic::set_hook(Box::new(|_| {}));
    let cases = find_cases(std::path::Path::new(&folder)).expect("the folder should hold tests");
    let mut counts = [0; 3];
    for case in cases.iter().filter(|case| case.name.contains(&part)) {
        let outcome = run_case(case, &mut Interpreter);
        counts[match outcome.status {
            Status::Passed => 0,
            Status::Failed => 1,
            Status::Unsupported => 2,
        }] += 1;
        if outcome.status != Status::Passed {
            println!("{:?} {}: {}", outcome.status, outcome.name, outcome.reason);
        }
    }
    println!("passed {}, failed {}, unsupported {}", counts[0], counts[1], counts[2]);
}
