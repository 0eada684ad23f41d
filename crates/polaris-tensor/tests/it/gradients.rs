//! Every differentiable operation against central differences in `f64` on the CPU, and on OpenCL
//! devices in `f32` against those.

use polaris_core::DType;
use polaris_ops::attention::Attention;
use polaris_ops::conv::Convolution;
use polaris_ops::cross_entropy::CrossEntropyOptions;
use polaris_ops::pad::PadMode;
use polaris_ops::pool::{Window, Windows};
use polaris_ops::{Pairing, Unary};
use polaris_runtime::DeviceRef;
use polaris_tensor::{Result, Tensor, check_gradients, gradients};
use polaris_testkit::devices_under_test;

/// What a gradient may differ from differences by `1 + |gradient|`.
const TOLERANCE: f64 = 1e-6;
/// What `f32` may differ from `f64`.
const SINGLE: f64 = 2e-4;

type OfOne = fn(&Tensor) -> Result<Tensor>;
type OfTwo = fn(&Tensor, &Tensor) -> Result<Tensor>;
type Function<'a> = dyn Fn(&[Tensor]) -> Result<Tensor> + 'a;

/// The CPU.
fn cpu_under_test() -> &'static DeviceRef {
    &devices_under_test()[0]
}

/// Inputs of these shapes, between `low` and `high`.
fn inputs(shapes: &[&[usize]], (low, high): (f64, f64)) -> Vec<Tensor> {
    let device = cpu_under_test();
    let make = |(seed, dims): (usize, &&[usize])| {
        Tensor::uniform(device, dims, DType::F64, (low, high), 11 + seed as u64).unwrap()
    };
    shapes.iter().enumerate().map(make).collect()
}

/// Checks a function at inputs of `f64` on the CPU, then in `f32` on every device.
fn check(name: &str, inputs: &[Tensor], function: &Function<'_>) {
    let outcome = check_gradients(inputs, function).unwrap_or_else(|e| panic!("{name}: {e}"));
    assert!(outcome.worst < TOLERANCE, "{name}: {outcome:?}");
    let expected = results(inputs, function, cpu_under_test(), DType::F64).unwrap();
    for device in devices_under_test() {
        let found = results(inputs, function, device, DType::F32)
            .unwrap_or_else(|e| panic!("{name} on {}: {e}", device.id()));
        for (place, (found, expected)) in found.iter().zip(&expected).enumerate() {
            assert_eq!(found.len(), expected.len(), "{name} on {}: {place}", device.id());
            for (found, expected) in found.iter().zip(expected) {
                let error = (found - expected).abs() / (1.0 + expected.abs());
                assert!(error < SINGLE, "{name} on {}: {place}: {found} {expected}", device.id());
            }
        }
    }
}

/// The result, then the gradients of its weighted sum.
fn results(
    inputs: &[Tensor],
    function: &Function<'_>,
    device: &DeviceRef,
    dtype: DType,
) -> Result<Vec<Vec<f64>>> {
    let there = |input: &Tensor| -> Result<Tensor> {
        match input.dtype().is_float() {
            true => input.to_dtype(dtype)?.to_device(device)?.requires_grad(),
            false => input.to_device(device),
        }
    };
    let inputs: Vec<Tensor> = inputs.iter().map(there).collect::<Result<_>>()?;
    let result = function(&inputs)?;
    let weights = Tensor::randn(cpu_under_test(), result.dims(), DType::F64, 7)?;
    let weights = weights.to_dtype(dtype)?.to_device(device)?;
    let tracked: Vec<&Tensor> = inputs.iter().filter(|input| input.is_tracked()).collect();
    let found = gradients(&result.mul(&weights)?.sum()?, &tracked)?;
    let mut results = vec![result.to_f64()?];
    for (gradient, input) in found.into_iter().zip(tracked) {
        results.push(match gradient {
            Some(gradient) => gradient.to_f64()?,
            None => vec![0.0; input.elements()],
        });
    }
    Ok(results)
}

#[test]
fn functions_of_one_tensor() {
    let functions: &[(&str, (f64, f64), OfOne)] = &[
        ("neg", (-2.0, 2.0), Tensor::neg),
        ("abs", (0.1, 2.0), |x| x.sub_scalar(1.05)?.abs()),
        ("sign", (0.1, 2.0), Tensor::sign),
        ("square", (-2.0, 2.0), Tensor::square),
        ("relu", (0.1, 2.0), |x| x.sub_scalar(1.05)?.relu()),
        ("sqrt", (0.3, 2.0), Tensor::sqrt),
        ("rsqrt", (0.5, 2.0), Tensor::rsqrt),
        ("reciprocal", (0.5, 2.0), Tensor::reciprocal),
        ("exp", (-2.0, 2.0), Tensor::exp),
        ("log", (0.3, 2.0), Tensor::log),
        ("sin", (-2.0, 2.0), Tensor::sin),
        ("cos", (-2.0, 2.0), Tensor::cos),
        ("tanh", (-2.0, 2.0), Tensor::tanh),
        ("erf", (-2.0, 2.0), Tensor::erf),
        ("sigmoid", (-2.0, 2.0), Tensor::sigmoid),
        ("silu", (-2.0, 2.0), Tensor::silu),
        ("gelu", (-3.0, 3.0), Tensor::gelu),
        ("gelu_tanh", (-3.0, 3.0), Tensor::gelu_tanh),
        ("floor", (0.1, 0.9), Tensor::floor),
        ("ceil", (0.1, 0.9), Tensor::ceil),
        ("round", (0.1, 0.4), Tensor::round),
        ("clamp", (0.1, 0.9), |x| x.clamp(0.3, 0.6)),
    ];
    for (name, range, function) in functions {
        for dims in [&[5][..], &[2, 3], &[], &[0, 4], &[1, 1]] {
            check(name, &inputs(&[dims], *range), &|x| function(&x[0]));
        }
    }
}

#[test]
fn functions_of_two_tensors() {
    let functions: &[(&str, OfTwo)] = &[
        ("add", Tensor::add),
        ("sub", Tensor::sub),
        ("mul", Tensor::mul),
        ("div", Tensor::div),
        ("pow", Tensor::pow),
        ("maximum", Tensor::maximum),
        ("minimum", Tensor::minimum),
    ];
    let shapes: &[[&[usize]; 2]] =
        &[[&[2, 3], &[2, 3]], [&[2, 3], &[3]], [&[3, 1], &[1, 4]], [&[], &[2]], [&[0, 2], &[2]]];
    for (name, function) in functions {
        for shapes in shapes {
            check(name, &inputs(shapes, (0.5, 2.0)), &|x| function(&x[0], &x[1]));
        }
    }
}

#[test]
fn choosing() {
    let condition = Tensor::from_slice(cpu_under_test(), &[4], &[1u8, 0, 0, 1]).unwrap();
    let condition = condition.to_dtype(DType::Bool).unwrap();
    let mut all = inputs(&[&[2, 4], &[1, 4]], (-1.0, 1.0));
    all.push(condition);
    check("where", &all, &|x| x[2].where_(&x[0], &x[1]));
}

#[test]
fn views() {
    let functions: &[(&str, OfOne)] = &[
        ("reshape", |x| x.reshape(&[4, 6])),
        ("reshape of a permutation", |x| x.permute(&[2, 0, 1])?.reshape(&[8, 3])),
        ("flatten", Tensor::flatten),
        ("permute", |x| x.permute(&[2, 0, 1])),
        ("transpose", |x| x.transpose(0, 2)),
        ("unsqueeze", |x| x.unsqueeze(1)),
        ("squeeze", |x| x.unsqueeze(0)?.squeeze(0)),
        ("broadcast", |x| x.unsqueeze(1)?.broadcast_to(&[2, 5, 3, 4])),
        ("slice", |x| x.slice(2, 1..4, 2)),
        ("empty slice", |x| x.slice(1, 2..2, 1)),
        ("select", |x| x.select(1, 2)),
        ("contiguous", |x| x.transpose(1, 2)?.contiguous()),
        ("concatenate", |x| Tensor::concatenate(&[x, &x.mul_scalar(2.0)?, x], 1)),
        ("stack", |x| Tensor::stack(&[x, &x.square()?], 2)),
        ("split", |x| Ok(x.split(2, 3)?.remove(1))),
        ("used twice", |x| x.select(0, 0)?.mul(&x.select(0, 1)?)),
    ];
    for (name, function) in functions {
        check(name, &inputs(&[&[2, 3, 4]], (-1.0, 1.0)), &|x| function(&x[0]));
    }
}

#[test]
fn reductions() {
    let functions: &[(&str, OfOne)] = &[
        ("sum", Tensor::sum),
        ("sum of an axis", |x| x.sum_axes(&[1], false)),
        ("sum, kept", |x| x.sum_axes(&[0, 2], true)),
        ("mean", Tensor::mean),
        ("mean of an axis", |x| x.mean_axes(&[2], true)),
        ("amax", |x| x.amax(&[1], false)),
        ("amin", |x| x.amin(&[0, 2], true)),
        ("var", |x| x.var(&[1], 1, false)),
        ("logsumexp", |x| x.logsumexp(&[2], false)),
    ];
    for (name, function) in functions {
        for dims in [&[2, 3, 4][..], &[1, 2, 1], &[5, 2, 3]] {
            check(name, &inputs(&[dims], (-1.0, 1.0)), &|x| function(&x[0]));
        }
    }
    check("sum of nothing", &inputs(&[&[0, 3]], (0.0, 1.0)), &|x| x[0].sum_axes(&[0], false));
}

#[test]
fn products() {
    let shapes: &[[&[usize]; 2]] = &[
        [&[2, 3], &[3, 4]],
        [&[5, 2, 3], &[3, 4]],
        [&[2, 1, 2, 3], &[3, 3, 1]],
        [&[3], &[3]],
        [&[3], &[3, 2]],
        [&[2, 2, 3], &[3]],
        [&[3], &[2, 3, 2]],
        [&[0, 3], &[3, 2]],
        [&[2, 0], &[0, 2]],
    ];
    for shapes in shapes {
        check("matmul", &inputs(shapes, (-1.0, 1.0)), &|x| x[0].matmul(&x[1]));
    }
    let turned = inputs(&[&[3, 2], &[4, 3]], (-1.0, 1.0));
    check("matmul of transposes", &turned, &|x| {
        x[0].transpose(0, 1)?.matmul(&x[1].transpose(0, 1)?)
    });
    let layer = inputs(&[&[2, 3, 4], &[5, 4], &[5]], (-1.0, 1.0));
    check("linear", &layer, &|x| x[0].linear(&x[1], Some(&x[2])));
    check("linear without bias", &layer[..2], &|x| x[0].linear(&x[1], None));
}

#[test]
fn rows() {
    for dims in [&[3, 5][..], &[1, 1], &[2, 3, 4]] {
        let last = dims.len() - 1;
        let x = inputs(&[dims], (-2.0, 2.0));
        check("softmax", &x, &|x| x[0].softmax(last));
        check("softmax along the first axis", &x, &|x| x[0].softmax(0));
        check("log_softmax", &x, &|x| x[0].log_softmax(last));
    }
    for dims in [&[3, 5][..], &[2, 3, 4], &[0, 3]] {
        let length = &dims[dims.len() - 1..];
        let all = inputs(&[dims, length, length], (-2.0, 2.0));
        check("layer_norm", &all, &|x| x[0].layer_norm(Some(&x[1]), Some(&x[2]), 1e-5));
        check("plain layer_norm", &all[..1], &|x| x[0].layer_norm(None, None, 1e-5));
        check("layer_norm with bias", &all[..2], &|x| x[0].layer_norm(None, Some(&x[1]), 1e-5));
        check("rms_norm", &all[..2], &|x| x[0].rms_norm(Some(&x[1]), 1e-5));
    }
}

#[test]
fn losses() {
    let both = inputs(&[&[3, 4], &[3, 4]], (0.05, 1.0));
    check("mse", &both, &|x| x[0].mse_loss(&x[1]));
    check("bce", &both, &|x| x[0].bce_with_logits_loss(&x[1]));
    check("kl", &both, &|x| x[0].kl_div_loss(&x[1]));
}

/// Class or row numbers, which have no gradient.
fn numbers(dims: &[usize], values: &[i64]) -> Tensor {
    Tensor::from_slice(cpu_under_test(), dims, values).unwrap()
}

#[test]
fn fused_chains() {
    let all = inputs(&[&[2, 3], &[3], &[]], (-1.0, 1.0));
    check("gelu(a x + b)", &all, &|x| {
        Tensor::fused([&x[0], &x[1], &x[2]], |[x, a, b]| (a * x + b).unary(Unary::GeluErf))
    });
    check("mul_add", &all, &|x| x[0].mul_add(&x[1], &x[2]));
}

#[test]
fn einsums() {
    let cases: &[(&str, &[&[usize]])] = &[
        ("ij,jk->ik", &[&[2, 3], &[3, 4]]),
        ("bhqd,bhkd->bhqk", &[&[2, 2, 3, 2], &[2, 2, 4, 2]]),
        ("ij,ij->", &[&[2, 3], &[2, 3]]),
        ("i,j", &[&[2], &[3]]),
        ("ij->ji", &[&[2, 3]]),
        ("ijk->j", &[&[2, 3, 2]]),
        ("ab,bc,cd->da", &[&[2, 3], &[3, 2], &[2, 4]]),
        ("ij,k->ki", &[&[2, 3], &[2]]),
    ];
    for (equation, shapes) in cases {
        check(equation, &inputs(shapes, (-1.0, 1.0)), &|x| {
            Tensor::einsum(equation, &x.iter().collect::<Vec<_>>())
        });
    }
    let x = &inputs(&[&[2, 3]], (0.0, 1.0))[0];
    for wrong in ["i->i", "ii->i", "ij,j->i", "ij->k", "ij->ii", "i1->i"] {
        assert!(Tensor::einsum(wrong, &[x]).is_err(), "{wrong}");
    }
}

#[test]
fn convolutions() {
    let cases: &[(&[usize], &[usize], Convolution)] = &[
        (&[2, 3, 5, 4], &[2, 3, 3, 3], Convolution { padding: [1, 1], ..Convolution::default() }),
        (
            &[1, 4, 5, 6],
            &[6, 2, 2, 3],
            Convolution { stride: [2, 1], padding: [1, 2], dilation: [1, 2], groups: 2 },
        ),
        (
            &[2, 3, 4, 4],
            &[6, 1, 3, 3],
            Convolution { groups: 3, padding: [1, 1], ..Convolution::default() },
        ),
        (&[1, 3, 2, 3], &[2, 3, 1, 1], Convolution::default()),
        (&[0, 3, 2, 3], &[2, 3, 1, 1], Convolution::default()),
        (&[2, 2, 7], &[3, 2, 3], Convolution::along_one_axis(2, 1, 1, 1)),
    ];
    for (x, weight, problem) in cases {
        let all = inputs(&[x, weight, &weight[..1]], (-1.0, 1.0));
        check("convolution", &all, &|t| t[0].convolution(&t[1], Some(&t[2]), problem));
        check("convolution without bias", &all[..2], &|t| t[0].convolution(&t[1], None, problem));
    }
    let problem = Convolution { stride: [2, 2], padding: [1, 0], ..Convolution::default() };
    let all = inputs(&[&[1, 2, 3, 3], &[2, 3, 3, 2], &[3]], (-1.0, 1.0));
    check("transposed_convolution", &all, &|t| {
        t[0].transposed_convolution(&t[1], Some(&t[2]), [1, 0], &problem)
    });
}

#[test]
fn pools() {
    let window = |kernel, stride, padding| Window { kernel, stride, padding, dilation: 1 };
    let windows = [
        Windows::sliding(&[window(2, 2, 0), window(3, 1, 1)]).unwrap(),
        Windows::sliding(&[window(3, 2, 1), window(2, 2, 0)]).unwrap().rounded_up(),
        Windows::adaptive(&[2, 3]).unwrap(),
        Windows::adaptive(&[1, 1]).unwrap(),
    ];
    for windows in &windows {
        let x = inputs(&[&[2, 2, 5, 6]], (-1.0, 1.0));
        check("max_pool", &x, &|x| x[0].max_pool(windows));
        check("average_pool", &x, &|x| x[0].average_pool(windows, true));
        check("average_pool without padding", &x, &|x| x[0].average_pool(windows, false));
    }
    let line = Windows::sliding(&[window(2, 1, 1)]).unwrap();
    check("max_pool of lines", &inputs(&[&[2, 1, 4]], (-1.0, 1.0)), &|x| x[0].max_pool(&line));
}

#[test]
fn attentions() {
    let plain = Attention::default();
    let causal = Attention { causal: true, ..plain };
    let cases: &[(&str, [&[usize]; 3], Attention)] = &[
        ("plain", [&[1, 2, 3, 4], &[1, 2, 5, 4], &[1, 2, 5, 3]], plain),
        ("causal", [&[1, 2, 4, 3], &[1, 2, 4, 3], &[1, 2, 4, 3]], causal),
        (
            "grouped",
            [&[2, 4, 2, 3], &[2, 2, 3, 3], &[2, 2, 3, 2]],
            Attention { scale: Some(0.7), ..plain },
        ),
        ("of one", [&[1, 1, 1, 1], &[1, 1, 1, 1], &[1, 1, 1, 1]], causal),
    ];
    for (name, shapes, problem) in cases {
        check(name, &inputs(shapes, (-1.0, 1.0)), &|x| x[0].attention(&x[1], &x[2], None, problem));
    }
    for (shape, heads, causal) in
        [([2, 5, 12], 2, true), ([1, 1, 9], 3, false), ([0, 3, 6], 1, true)]
    {
        let problem = Attention { causal, ..Attention::default() };
        let packed = inputs(&[&shape], (-1.0, 1.0));
        check("packed", &packed, &|x| x[0].self_attention(heads, None, &problem));
    }
    let mut masked = inputs(&[&[1, 1, 2, 3], &[1, 1, 4, 3], &[1, 1, 4, 2]], (-1.0, 1.0));
    let mask = Tensor::from_slice(cpu_under_test(), &[2, 4], &[1u8, 0, 1, 1, 0, 0, 0, 0]).unwrap();
    masked.push(mask.to_dtype(DType::Bool).unwrap());
    check("masked", &masked, &|x| x[0].attention(&x[1], &x[2], Some(&x[3]), &plain));
}

#[test]
fn look_ups() {
    let mut table = inputs(&[&[5, 3]], (-1.0, 1.0));
    table.push(numbers(&[2, 3], &[4, 0, 4, 1, 1, 4]));
    check("embedding", &table, &|x| x[0].embedding(&x[1]));
    check("take along the last axis", &[table[0].clone(), numbers(&[4], &[2, 2, 0, 2])], &|x| {
        x[0].take(1, &x[1])
    });
    let index = numbers(&[2, 3], &[4, 0, 2, 4, 1, 2]);
    check("gather", &[table[0].clone(), index.clone()], &|x| x[0].gather(0, &x[1]));
    let mut both = inputs(&[&[5, 3], &[3, 3]], (-1.0, 1.0));
    both.push(index);
    check("scatter_add", &both, &|x| x[0].scatter_add(0, &x[2], &x[1]));
    check("scatter", &[both[0].clone(), both[2].clone()], &|x| {
        x[0].scatter(0, &x[1], &Tensor::ones(x[0].device(), &[2, 3], x[0].dtype())?)
    });
    let x = inputs(&[&[3, 4]], (-1.0, 1.0));
    for mode in [PadMode::Constant(0.5), PadMode::Reflect, PadMode::Replicate, PadMode::Circular] {
        check("pad", &x, &|x| x[0].pad(&[(1, 2), (0, 3)], mode));
    }
    check("flip", &x, &|x| x[0].flip(&[1]));
    check("cumsum", &x, &|x| x[0].cumsum(1));
    check("sort", &x, &|x| Ok(x[0].sort(0, false)?.0));
    check("topk", &x, &|x| Ok(x[0].topk(2, 1)?.0));
}

#[test]
fn rotary_embeddings() {
    let all = inputs(&[&[2, 3, 6], &[3, 2], &[3, 2]], (-1.0, 1.0));
    for pairing in [Pairing::Halves, Pairing::Adjacent] {
        check("rope", &all[..1], &|x| {
            let table = |at: usize| all[at].to_dtype(x[0].dtype())?.to_device(x[0].device());
            x[0].rope(&table(1)?, &table(2)?, pairing)
        });
    }
}

#[test]
fn norms_of_channels() {
    for dims in [&[3, 4, 2, 2][..], &[4, 2], &[2, 4, 3]] {
        let channels = &dims[1..2];
        let all = inputs(&[dims, channels, channels], (-2.0, 2.0));
        check("batch_norm", &all, &|x| Ok(x[0].batch_norm(Some(&x[1]), Some(&x[2]), 1e-5)?.0));
        check("plain batch_norm", &all[..1], &|x| Ok(x[0].batch_norm(None, None, 1e-5)?.0));
        check("batch_norm in evaluation", &all, &|x| {
            let mean = Tensor::full(x[0].device(), channels, x[0].dtype(), 0.3)?;
            let variance = Tensor::full(x[0].device(), channels, x[0].dtype(), 1.5)?;
            x[0].batch_norm_with(&mean, &variance, Some(&x[1]), Some(&x[2]), 1e-5)
        });
        check("group_norm", &all, &|x| x[0].group_norm(2, Some(&x[1]), Some(&x[2]), 1e-5));
    }
}

#[test]
fn cross_entropies() {
    let targets = numbers(&[4], &[2, 0, 1, 2]);
    let logits = inputs(&[&[4, 3]], (-2.0, 2.0)).remove(0);
    let weights = [0.5, 1.0, 2.0];
    for options in [
        CrossEntropyOptions::default(),
        CrossEntropyOptions { smoothing: 0.2, ignore_index: Some(0) },
    ] {
        let both = [logits.clone(), targets.clone()];
        check("cross_entropy", &both, &|x| x[0].cross_entropy_loss(&x[1], None, options));
        check("weighted cross_entropy", &both, &|x| {
            let weights = Tensor::from_slice(cpu_under_test(), &[3], &weights)?;
            let weights = weights.to_dtype(x[0].dtype())?.to_device(x[0].device())?;
            x[0].cross_entropy_loss(&x[1], Some(&weights), options)
        });
    }
}
