//! Plans on both sides give what the interpreter gives, wherever their nodes are and in whatever order their
//! instructions come.

#[path = "../../tests/models/mod.rs"]
mod models;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use bytes::Bytes;
use polaris_onnx::{Model, NoExternalData, Tensor, Value, interpret};
use polaris_ops::matmul::Precision;
use polaris_runtime::{Runtime, RuntimeOptions};

use super::context::Memory;
use super::plans::Key;
use super::runner::{Runner, Wanted};
use crate::build::{Engine, Packs};
use crate::place::tests::Dice;
use crate::plan::{Given, Instruction, Plan, Side, Slot, Step, dependencies};

/// An order that respects what must stay in order, and nothing else.
fn shuffled(instructions: &[Instruction], slots: &[Slot], dice: &mut Dice) -> Vec<usize> {
    let after = dependencies(instructions, slots);
    let mut order: Vec<usize> = Vec::new();
    while order.len() < instructions.len() {
        let ready: Vec<usize> = (0..instructions.len())
            .filter(|at| !order.contains(at))
            .filter(|&at| after[at].iter().all(|before| order.contains(before)))
            .collect();
        order.push(ready[dice.below(ready.len() as u64) as usize]);
    }
    order
}

fn has_both_sides(plan: &Plan) -> bool {
    let on = |side| {
        let operation = |one: &Instruction| matches!(one.step, Step::Device { .. });
        plan.instructions.iter().any(|one| one.side == side && operation(one))
    };
    on(Side::Cpu) && on(Side::Gpu)
}

#[test]
fn nodes_may_be_anywhere_and_instructions_in_any_order() {
    let runtime = Runtime::discover(&RuntimeOptions::default()).unwrap();
    let gpu = runtime.devices().iter().find(|device| device.as_opencl().is_some()).cloned();
    if gpu.is_none() {
        eprintln!("SKIPPED: no OpenCL device");
        return;
    }
    let cases: [(Vec<u8>, &[usize]); 3] = [
        (models::classifier(), &[2, 2, 8, 8]),
        (models::branches(), &[5, 6]),
        (models::recurrent(), &[3, 2, 2]),
    ];
    let mut dice = Dice(17);
    let mut mixed = 0;
    for (file, shape) in cases {
        let model = Model::from_bytes(Bytes::from(file), &NoExternalData).unwrap();
        let count: usize = shape.iter().product();
        let values = (0..count).map(|index| (index * 31 % 17) as f32 / 8.0 - 1.0).collect();
        let x = Value::Tensor(Tensor::new(shape, values).unwrap());
        let expected = interpret(&model.graph, &[Some(x.clone())], &[]).unwrap();
        let devices = [Some(runtime.cpu().clone()), gpu.clone()];
        let packs = Arc::new(Packs::open(None, None, runtime.cpu().as_ref()));
        let (side, files) = (Side::Gpu, Vec::new());
        let precision = Precision::Full;
        let engine = Engine { packs, devices, side, files, precision, hybrid: None };
        let runner = Runner::new(Arc::new(engine), Arc::new(model.graph));
        let nodes: Vec<usize> = (0..runner.graph.nodes.len()).collect();
        let id = runner.graph.required_inputs().next().unwrap();
        let given = vec![Given { id, ty: x.ty(), side: None }];
        let (key, none) = (Key { given, keeps_outputs: false }, HashMap::new());
        let wanted = Wanted { nodes: &nodes, key: &key, values: &[], constants: &none };
        for _ in 0..24 {
            let named: HashSet<usize> =
                nodes.iter().copied().filter(|_| dice.below(2) == 0).collect();
            let seed = dice.below(1 << 30);
            let reorder = |instructions: &[Instruction], slots: &[Slot]| {
                shuffled(instructions, slots, &mut Dice(seed))
            };
            let (plan, context) = (runner)
                .build(&wanted, &runner.constants, &named, Some(&reorder), &mut Memory::default())
                .unwrap();
            mixed += usize::from(has_both_sides(&plan));
            let x = [(id, x.clone().into())];
            let found = runner.execute(&plan, &context, &x, &runner.graph.outputs, &mut ());
            let found = found.unwrap();
            for (&output, expected) in runner.graph.outputs.iter().zip(&expected) {
                let found = found.iter().find(|(id, _)| *id == output).unwrap();
                let found = found.1.clone().into_host().unwrap();
                let found = found.tensor().unwrap().to_f64().unwrap();
                for (a, b) in found.iter().zip(expected.tensor().unwrap().to_f64().unwrap()) {
                    assert!((a - b).abs() <= 1e-5 + 1e-5 * b.abs(), "{a} instead of {b}");
                }
            }
        }
    }
    // The second model is one node; what only looks at its result in another way computes nothing.
    assert!(mixed > 16, "only {mixed} of 48 plans had both sides");
}
