//! Operations by name, with PyTorch's names for their options.

use polaris_ops::attention::Attention;
use polaris_ops::conv::Convolution;
use polaris_ops::cross_entropy::CrossEntropyOptions;
use polaris_ops::pad::PadMode;
use polaris_ops::pool::{Window, Windows};
use polaris_tensor::{Error, Result, Tensor};
use serde_json::Value;

/// The options of a request.
struct Options<'a>(&'a Value);

impl Options<'_> {
    fn number(&self, name: &str, default: f64) -> f64 {
        self.0[name].as_f64().unwrap_or(default)
    }

    fn flag(&self, name: &str) -> bool {
        self.0[name].as_bool().unwrap_or(false)
    }

    fn size(&self, name: &str) -> usize {
        self.number(name, 0.0) as usize
    }

    /// Two sizes, of which one is given for both.
    fn pair(&self, name: &str, default: usize) -> [usize; 2] {
        match self.sizes(name)[..] {
            [rows, columns] => [rows, columns],
            [one] => [default, one],
            _ => [self.number(name, default as f64) as usize; 2],
        }
    }

    fn text(&self, name: &str) -> &str {
        self.0[name].as_str().unwrap_or_default()
    }

    fn convolution(&self) -> Convolution {
        Convolution {
            stride: self.pair("stride", 1),
            padding: self.pair("padding", 0),
            dilation: self.pair("dilation", 1),
            groups: self.number("groups", 1.0) as usize,
        }
    }

    fn windows(&self) -> Result<Windows> {
        let counts = self.sizes("output_size");
        if !counts.is_empty() {
            return Ok(Windows::adaptive(&counts)?);
        }
        let lists = ["kernel", "stride", "padding", "dilation"].map(|name| self.sizes(name));
        let window = |axis: usize| Window {
            kernel: lists[0][axis],
            stride: lists[1][axis],
            padding: lists[2][axis],
            dilation: lists[3].get(axis).copied().unwrap_or(1),
        };
        let windows: Vec<Window> = (0..lists[0].len()).map(window).collect();
        let windows = Windows::sliding(&windows)?;
        Ok(if self.flag("ceil_mode") { windows.rounded_up() } else { windows })
    }

    fn attention(&self) -> Attention {
        Attention {
            scale: self.0["scale"].as_f64(),
            causal: self.flag("causal"),
            ..Attention::default()
        }
    }

    fn cross_entropy(&self) -> CrossEntropyOptions {
        CrossEntropyOptions {
            smoothing: self.number("smoothing", 0.0),
            ignore_index: self.0["ignore_index"].as_i64(),
        }
    }

    fn pad_mode(&self) -> PadMode {
        match self.text("mode") {
            "reflect" => PadMode::Reflect,
            "replicate" => PadMode::Replicate,
            "circular" => PadMode::Circular,
            _ => PadMode::Constant(self.number("value", 0.0)),
        }
    }

    fn sizes(&self, name: &str) -> Vec<usize> {
        let list = self.0[name].as_array().cloned().unwrap_or_default();
        list.iter().filter_map(|value| value.as_u64().map(|value| value as usize)).collect()
    }
}

/// The result of an operation on inputs.
pub fn evaluate(name: &str, x: &[Tensor], options: &Value) -> Result<Tensor> {
    let options = Options(options);
    let unknown = || Error::InvalidParameter {
        op: "evaluate",
        what: format!("there is no operation `{name}` of {} tensors", x.len()),
    };
    match x {
        [x] => of_one(name, x, &options).or_else(|| rows(name, std::slice::from_ref(x), &options)),
        [a, b] => of_two(name, a, b).or_else(|| rows(name, x, &options)),
        _ => rows(name, x, &options),
    }
    .unwrap_or_else(|| Err(unknown()))
}

fn of_one(name: &str, x: &Tensor, options: &Options) -> Option<Result<Tensor>> {
    let axes = options.sizes("axes");
    let keep = options.flag("keep_dims");
    Some(match name {
        "neg" => x.neg(),
        "abs" => x.abs(),
        "sign" => x.sign(),
        "square" => x.square(),
        "relu" => x.relu(),
        "sqrt" => x.sqrt(),
        "rsqrt" => x.rsqrt(),
        "reciprocal" => x.reciprocal(),
        "exp" => x.exp(),
        "log" => x.log(),
        "sin" => x.sin(),
        "cos" => x.cos(),
        "tanh" => x.tanh(),
        "erf" => x.erf(),
        "sigmoid" => x.sigmoid(),
        "silu" => x.silu(),
        "gelu" => x.gelu(),
        "gelu_tanh" => x.gelu_tanh(),
        "floor" => x.floor(),
        "ceil" => x.ceil(),
        "round" => x.round(),
        "clamp" => x.clamp(options.number("low", 0.0), options.number("high", 1.0)),
        "pow_scalar" => x.pow_scalar(options.number("exponent", 2.0)),
        "reshape" => x.reshape(&options.sizes("shape")),
        "flatten" => x.flatten(),
        "permute" => x.permute(&axes),
        "transpose" => x.transpose(axes[0], axes[1]),
        "unsqueeze" => x.unsqueeze(options.size("axis")),
        "squeeze" => x.squeeze(options.size("axis")),
        "broadcast_to" => x.broadcast_to(&options.sizes("shape")),
        "slice" => {
            let range = options.size("start")..options.size("end");
            x.slice(options.size("axis"), range, options.size("step"))
        }
        "select" => x.select(options.size("axis"), options.size("index")),
        "sum" => x.sum_axes(&axes, keep),
        "mean" => x.mean_axes(&axes, keep),
        "amax" => x.amax(&axes, keep),
        "amin" => x.amin(&axes, keep),
        "argmax" => x.argmax(options.size("axis"), keep),
        "var" => x.var(&axes, options.size("correction"), keep),
        "logsumexp" => x.logsumexp(&axes, keep),
        "softmax" => x.softmax(options.size("axis")),
        "log_softmax" => x.log_softmax(options.size("axis")),
        "max_pool" => options.windows().and_then(|windows| x.max_pool(&windows)),
        "average_pool" => {
            let counts = options.flag("count_padding");
            options.windows().and_then(|windows| x.average_pool(&windows, counts))
        }
        "pad" => {
            let widths: Vec<(usize, usize)> =
                options.sizes("widths").chunks_exact(2).map(|pair| (pair[0], pair[1])).collect();
            x.pad(&widths, options.pad_mode())
        }
        "flip" => x.flip(&axes),
        "cumsum" => x.cumsum(options.size("axis")),
        "sort" => x.sort(options.size("axis"), options.flag("descending")).map(|sorted| sorted.0),
        "argsort" => x.argsort(options.size("axis"), options.flag("descending")),
        "topk" => x.topk(options.size("k"), options.size("axis")).map(|largest| largest.0),
        _ => return None,
    })
}

fn of_two(name: &str, a: &Tensor, b: &Tensor) -> Option<Result<Tensor>> {
    Some(match name {
        "add" => a.add(b),
        "sub" => a.sub(b),
        "mul" => a.mul(b),
        "div" => a.div(b),
        "pow" => a.pow(b),
        "maximum" => a.maximum(b),
        "minimum" => a.minimum(b),
        "eq" => a.eq(b),
        "ne" => a.ne(b),
        "lt" => a.lt(b),
        "le" => a.le(b),
        "gt" => a.gt(b),
        "ge" => a.ge(b),
        "matmul" => a.matmul(b),
        "mse_loss" => a.mse_loss(b),
        "bce_with_logits_loss" => a.bce_with_logits_loss(b),
        "kl_div_loss" => a.kl_div_loss(b),
        "embedding" => a.embedding(b),
        _ => return None,
    })
}

/// Those whose number of tensors varies.
fn rows(name: &str, x: &[Tensor], options: &Options) -> Option<Result<Tensor>> {
    let epsilon = options.number("eps", 1e-5);
    let all: Vec<&Tensor> = x.iter().collect();
    Some(match name {
        "where" => x[0].where_(x.get(1)?, x.get(2)?),
        "linear" => x[0].linear(x.get(1)?, x.get(2)),
        "layer_norm" => x[0].layer_norm(x.get(1), x.get(2), epsilon),
        "rms_norm" => x[0].rms_norm(x.get(1), epsilon),
        "einsum" => Tensor::einsum(options.text("equation"), &all),
        "take" => x[0].take(options.size("axis"), x.get(1)?),
        "gather" => x[0].gather(options.size("axis"), x.get(1)?),
        "scatter_add" => x[0].scatter_add(options.size("axis"), x.get(1)?, x.get(2)?),
        "scatter" => x[0].scatter(options.size("axis"), x.get(1)?, &x.get(2)?.detach()),
        "convolution" => x[0].convolution(x.get(1)?, x.get(2), &options.convolution()),
        "transposed_convolution" => {
            let more = options.pair("output_padding", 0);
            x[0].transposed_convolution(x.get(1)?, x.get(2), more, &options.convolution())
        }
        "attention" => x[0].attention(x.get(1)?, x.get(2)?, x.get(3), &options.attention()),
        "batch_norm" => x[0].batch_norm(x.get(1), x.get(2), epsilon).map(|normed| normed.0),
        "group_norm" => x[0].group_norm(options.size("groups"), x.get(1), x.get(2), epsilon),
        "cross_entropy" => {
            let weights = x.get(2).map(Tensor::detach);
            x[0].cross_entropy_loss(x.get(1)?, weights.as_ref(), options.cross_entropy())
        }
        "concatenate" => Tensor::concatenate(&all, options.size("axis")),
        "stack" => Tensor::stack(&all, options.size("axis")),
        _ => return None,
    })
}
