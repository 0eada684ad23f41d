//! Operators that move elements, choose among them, and sum them up.

use polaris_onnx::{ElementType, Tensor};

use super::build::{Builder, Made};
use crate::models::{int, ints, string};

pub fn propose(builder: &mut Builder) {
    let Some(x) = builder.find(|_| true) else { return };
    match builder.random.below(18) {
        0 | 1 => reshape(builder, &x),
        2 => transpose(builder, &x),
        3 => axes(builder, &x),
        4 => concat(builder, &x),
        5 => split(builder, &x),
        6 => slice(builder, &x),
        7 => gather(builder, &x),
        8 => expand(builder, &x),
        9 => pad(builder, &x),
        10..=12 => reduce(builder, &x),
        13 => cumulate(builder, &x),
        14 => order(builder, &x),
        15 => blocks(builder, &x),
        16 => scatter(builder, &x),
        _ => look(builder, &x),
    }
}

/// An axis, from the front or from the end.
fn axis(builder: &mut Builder, x: &Made) -> i64 {
    let rank = x.rank() as i64;
    let axis = builder.random.below(x.rank().max(1)) as i64;
    if builder.random.once_in(3) { axis - rank } else { axis }
}

fn length(x: &Made, axis: i64) -> usize {
    let rank = x.rank() as i64;
    x.tensor.shape().get(axis.rem_euclid(rank.max(1)) as usize).copied().unwrap_or(1)
}

fn reshape(builder: &mut Builder, x: &Made) {
    let count = x.tensor.elements() as i64;
    let mut shape = x.shape();
    match builder.random.below(4) {
        0 => shape = vec![-1],
        1 if shape.len() > 1 => {
            let last = shape.pop().unwrap_or(1);
            let at = shape.len() - 1;
            shape[at] *= last;
        }
        2 => shape.insert(builder.random.below(shape.len() + 1), 1),
        _ => {
            let divisors: Vec<i64> = (1..=count.min(64)).filter(|d| count % d == 0).collect();
            if divisors.is_empty() {
                return;
            }
            shape = vec![*builder.random.pick(&divisors), -1];
        }
    }
    let zero = shape.contains(&0);
    let shape = builder.longs(&shape);
    // A zero in the list stands for the operand's length there unless this says otherwise.
    let attributes = if zero { vec![int("allowzero", 1)] } else { vec![] };
    match builder.random.once_in(5) {
        true => builder.add("Flatten", &[Some(x)], 1, vec![int("axis", 1)], true),
        false => builder.add("Reshape", &[Some(x), Some(&shape)], 1, attributes, true),
    };
}

fn transpose(builder: &mut Builder, x: &Made) {
    let mut order: Vec<i64> = (0..x.rank() as i64).collect();
    builder.random.shuffle(&mut order);
    builder.add("Transpose", &[Some(x)], 1, vec![ints("perm", &order)], true);
}

fn axes(builder: &mut Builder, x: &Made) {
    let ones: Vec<i64> = (x.shape().iter().enumerate())
        .filter(|(_, length)| **length == 1)
        .map(|(axis, _)| axis as i64)
        .collect();
    if builder.random.once_in(2) && !ones.is_empty() {
        let axes = builder.longs(&ones);
        builder.add("Squeeze", &[Some(x), Some(&axes)], 1, vec![], true);
    } else {
        let at = builder.random.below(x.rank() + 1) as i64;
        let axes = builder.longs(&[at]);
        builder.add("Unsqueeze", &[Some(x), Some(&axes)], 1, vec![], true);
    }
}

fn concat(builder: &mut Builder, x: &Made) {
    if x.rank() == 0 {
        return;
    }
    let axis = axis(builder, x);
    let mut shape = x.tensor.shape().to_vec();
    let at = axis.rem_euclid(x.rank() as i64) as usize;
    shape[at] = builder.random.below(4);
    let other = builder.constant(x.element(), &shape);
    let operands = [Some(x), Some(&other), Some(x)];
    let count = builder.random.between(2, 3);
    builder.add("Concat", &operands[..count], 1, vec![int("axis", axis)], true);
}

fn split(builder: &mut Builder, x: &Made) {
    let axis = axis(builder, x);
    let length = length(x, axis);
    let first = builder.random.below(length + 1) as i64;
    let parts = builder.longs(&[first, length as i64 - first]);
    builder.add("Split", &[Some(x), Some(&parts)], 2, vec![int("axis", axis)], true);
}

fn slice(builder: &mut Builder, x: &Made) {
    if x.rank() == 0 {
        return;
    }
    let axis = axis(builder, x);
    let length = length(x, axis) as i64;
    let place =
        |builder: &mut Builder| builder.random.below(2 * length as usize + 5) as i64 - length - 2;
    let step: i64 = *builder.random.pick(&[1, 1, 1, 2, -1, -2, 3]);
    let (from, to) = (place(builder), place(builder));
    let to = if builder.random.once_in(4) { i64::MAX.wrapping_mul(step.signum()) } else { to };
    let [from, to, axis, step] = [from, to, axis, step].map(|number| builder.longs(&[number]));
    builder.add(
        "Slice",
        &[Some(x), Some(&from), Some(&to), Some(&axis), Some(&step)],
        1,
        vec![],
        true,
    );
}

/// Indices into an axis, some of them from its end.
fn indices(builder: &mut Builder, shape: &[usize], length: usize) -> Option<Made> {
    if length == 0 {
        return None;
    }
    let count: usize = shape.iter().product();
    let values: Vec<i64> =
        (0..count).map(|_| builder.random.below(2 * length) as i64 - length as i64).collect();
    Some(builder.keep(Tensor::new(shape, values).ok()?))
}

fn gather(builder: &mut Builder, x: &Made) {
    if x.rank() == 0 {
        return;
    }
    let axis = axis(builder, x);
    let length = length(x, axis);
    if builder.random.once_in(3) {
        let mut shape = x.tensor.shape().to_vec();
        shape[axis.rem_euclid(x.rank() as i64) as usize] = builder.random.between(1, 3);
        let Some(at) = indices(builder, &shape, length) else { return };
        builder.add("GatherElements", &[Some(x), Some(&at)], 1, vec![int("axis", axis)], true);
        return;
    }
    let shape: Vec<usize> = (0..builder.random.below(3)).map(|_| builder.random.below(4)).collect();
    let Some(at) = indices(builder, &shape, length) else { return };
    builder.add("Gather", &[Some(x), Some(&at)], 1, vec![int("axis", axis)], true);
}

fn expand(builder: &mut Builder, x: &Made) {
    if builder.random.once_in(2) {
        let times: Vec<i64> = x.shape().iter().map(|_| builder.random.below(3) as i64).collect();
        let times = builder.longs(&times);
        builder.add("Tile", &[Some(x), Some(&times)], 1, vec![], true);
        return;
    }
    let mut shape: Vec<i64> = (x.shape().iter())
        .map(|&length| if length == 1 { builder.random.between(1, 4) as i64 } else { length })
        .collect();
    if builder.random.once_in(2) {
        shape.insert(0, 2);
    }
    let shape = builder.longs(&shape);
    builder.add("Expand", &[Some(x), Some(&shape)], 1, vec![], true);
}

fn pad(builder: &mut Builder, x: &Made) {
    let mode = *builder.random.pick(&["constant", "constant", "reflect", "edge", "wrap"]);
    if mode == "wrap" && builder.opset() < 19 {
        return;
    }
    // Other modes take elements from inside, where there have to be enough.
    if mode != "constant" && x.shape().iter().any(|&length| length < 3) {
        return;
    }
    let low = if mode == "constant" { -1 } else { 0 };
    let pads: Vec<i64> = (0..2 * x.rank()).map(|_| builder.random.below(3) as i64 + low).collect();
    let pads = builder.longs(&pads);
    let value = builder.constant(x.element(), &[]);
    let value = (mode == "constant").then_some(&value);
    let operands = [Some(x), Some(&pads), value];
    let count = if value.is_some() { 3 } else { 2 };
    builder.add("Pad", &operands[..count], 1, vec![string("mode", mode)], true);
}

fn reduce(builder: &mut Builder, x: &Made) {
    const ANY: [&str; 3] = ["ReduceSum", "ReduceMax", "ReduceMin"];
    const FLOATS: [&str; 7] = [
        "ReduceMean",
        "ReduceL1",
        "ReduceL2",
        "ReduceSumSquare",
        "ReduceLogSumExp",
        "ReduceProd",
        "ReduceSum",
    ];
    let operator = match x.element() {
        ElementType::I32 | ElementType::I64 => *builder.random.pick(&ANY),
        _ if x.is_float() => match builder.random.once_in(3) {
            true => *builder.random.pick(&ANY),
            false => *builder.random.pick(&FLOATS),
        },
        _ => return,
    };
    // Of nothing there is no largest and no mean.
    if x.tensor.elements() == 0 && operator != "ReduceSum" {
        return;
    }
    let mut axes: Vec<i64> = (0..x.rank() as i64).collect();
    builder.random.shuffle(&mut axes);
    axes.truncate(builder.random.below(x.rank() + 1));
    let list = builder.longs(&axes);
    let keep = int("keepdims", builder.random.below(2) as i64);
    let exact = !x.is_float() || matches!(operator, "ReduceMax" | "ReduceMin");
    match axes.is_empty() {
        true => builder.add(operator, &[Some(x)], 1, vec![keep], exact),
        false => builder.add(operator, &[Some(x), Some(&list)], 1, vec![keep], exact),
    };
}

fn cumulate(builder: &mut Builder, x: &Made) {
    if x.rank() == 0
        || !(x.is_float() || matches!(x.element(), ElementType::I32 | ElementType::I64))
    {
        return;
    }
    if builder.random.once_in(3) && x.rank() >= 2 {
        let upper = int("upper", builder.random.below(2) as i64);
        builder.add("Trilu", &[Some(x)], 1, vec![upper], true);
        return;
    }
    let axis = axis(builder, x);
    let axis = builder.keep(Tensor::scalar(axis));
    let flags = ["exclusive", "reverse"].map(|name| int(name, builder.random.below(2) as i64));
    builder.add("CumSum", &[Some(x), Some(&axis)], 1, flags.to_vec(), !x.is_float());
}

/// What compares elements: only where all agree on them.
fn order(builder: &mut Builder, x: &Made) {
    if !x.exact || x.rank() == 0 || x.element() == ElementType::Bool || x.tensor.elements() == 0 {
        return;
    }
    let axis = axis(builder, x);
    match builder.random.below(4) {
        0 | 1 => {
            let operator = *builder.random.pick(&["ArgMax", "ArgMin"]);
            let keep = int("keepdims", builder.random.below(2) as i64);
            builder.add(operator, &[Some(x)], 1, vec![int("axis", axis), keep], true);
        }
        2 => {
            let k = builder.random.between(1, length(x, axis));
            let k = builder.longs(&[k as i64]);
            let largest = int("largest", builder.random.below(2) as i64);
            builder.add("TopK", &[Some(x), Some(&k)], 2, vec![int("axis", axis), largest], true);
        }
        _ => {
            builder.add("NonZero", &[Some(x)], 1, vec![], true);
        }
    }
}

fn blocks(builder: &mut Builder, x: &Made) {
    let block = builder.random.between(1, 3) as i64;
    match builder.random.once_in(2) {
        true => builder.add("SpaceToDepth", &[Some(x)], 1, vec![int("blocksize", block)], true),
        false => {
            let mode = *builder.random.pick(&["DCR", "CRD"]);
            let mode = string("mode", mode);
            builder.add("DepthToSpace", &[Some(x)], 1, vec![int("blocksize", block), mode], true)
        }
    };
}

fn scatter(builder: &mut Builder, x: &Made) {
    if x.rank() == 0 || x.tensor.shape()[0] == 0 {
        return;
    }
    // Each place once: the order of several writes is not defined.
    let rows = x.tensor.shape()[0] as i64;
    let mut places: Vec<i64> = (0..rows).collect();
    builder.random.shuffle(&mut places);
    places.truncate(builder.random.between(1, 3));
    let count = places.len();
    let Ok(at) = Tensor::new(&[count, 1], places) else { return };
    let at = builder.keep(at);
    let mut shape = x.tensor.shape().to_vec();
    shape[0] = count;
    let updates = builder.constant(x.element(), &shape);
    builder.add("ScatterND", &[Some(x), Some(&at), Some(&updates)], 1, vec![], true);
}

/// What looks at a shape, or makes tensors from one.
fn look(builder: &mut Builder, x: &Made) {
    match builder.random.below(3) {
        0 => builder.add("Shape", &[Some(x)], 1, vec![], true),
        1 => builder.add("Size", &[Some(x)], 1, vec![], true),
        _ => {
            let shape = builder.longs(&x.shape());
            builder.add("ConstantOfShape", &[Some(&shape)], 1, vec![], true)
        }
    };
}
