//! Gemma 3n: four streams beside each other, of which layers work on the first. Before a layer all of them are predicted
//! from each other (AltUp), afterwards they are corrected by what the layer changed; a low-rank path runs beside
//! attention (LAuReL), and the networks of the first layers keep only the largest gates.

use polaris_ops::{Binary, Unary};

use super::Value;
use super::decoder::{Decoder, LayerScope};
use crate::{Error, Result};

/// The streams.
const STREAMS: usize = 4;
/// The layers whose networks are sparse.
const SPARSE_LAYERS: usize = 10;
/// Standard deviations above the mean from which on a gate counts: the largest 5 % of a normal distribution.
const SPARSE_FROM: f64 = 1.644_853_626_951_472_2;

impl Decoder<'_> {
    /// All layers from the embedding on; `None` if no logits are wanted.
    pub(super) fn altup_layers(&mut self, x: Value) -> Result<Option<Value>> {
        let mut streams = vec![x];
        for stream in 1..STREAMS {
            streams.push(self.project_stream(x, x, "altup_proj", stream)?);
        }
        let last = self.config.layers.len() - 1;
        for (number, layer) in self.config.layers.iter().enumerate() {
            self.build.enter(format!("blk.{number}"));
            let scope = LayerScope { number, layer };
            let wants_result = number < last || self.size.outputs > 0;
            match self.altup_layer(&scope, &streams, wants_result)? {
                Some(next) => streams = next,
                None => return Ok(None),
            }
        }
        self.build.enter("");
        let mut sum = streams[0];
        for (stream, &value) in streams.iter().enumerate().skip(1) {
            let part = self.project_stream(value, streams[0], "altup_unembd_proj", stream)?;
            sum = self.build.binary("add_stream", Binary::Add, sum, part)?;
        }
        let mean = self.build.scale("mean_stream", sum, 1.0 / STREAMS as f64)?;
        self.keep_outputs(mean).map(Some)
    }

    /// The projection of a stream, as long as `like`.
    fn project_stream(
        &mut self,
        x: Value,
        like: Value,
        name: &str,
        stream: usize,
    ) -> Result<Value> {
        let (full, width) = (format!("{name}.weight"), self.config.width);
        let weight = self.weights.require(&full)?;
        if weight.shape().dims() != [STREAMS - 1, width, width] {
            return Err(Error::TensorShape {
                name: full,
                found: weight.shape().to_string(),
                expected: format!("[{}, {width}, {width}]", STREAMS - 1),
            });
        }
        let weights = self.build.given(weight);
        let weight = self.build.select(weights, 0, stream - 1)?;
        let projected = self.build.linear(name, x, weight, None)?;
        let (target, found) = (self.square_sum(like)?, self.square_sum(projected)?);
        let inputs = [projected, target, found];
        self.build.fused("rescale", inputs, |_, [x, target, found]| {
            x * (target.unary(Unary::Sqrt) / found.unary(Unary::Sqrt))
        })
    }

    /// The sum of squares of each row, `[rows, 1]`.
    fn square_sum(&mut self, x: Value) -> Result<Value> {
        let squares = self.build.fused("squares", [x], |_, [x]| x.unary(Unary::Square))?;
        self.row_sum(squares)
    }

    fn row_sum(&mut self, x: Value) -> Result<Value> {
        let rows = self.build.dims(x)[0];
        let sum = self.sum("sum", x, 1)?;
        self.build.reshape(sum, &[rows, 1])
    }

    /// How the streams mix, from what one of them holds: `[tokens, 4]`.
    fn modalities(&mut self, scope: &LayerScope<'_>, x: Value) -> Result<Value> {
        let normed = self.required_norm(x, &scope.name("altup_router_norm"))?;
        let scaled = self.build.scale("router_scale", normed, 1.0 / self.config.width as f64)?;
        let routed = self.linear_required(scaled, &scope.name("altup_router"))?;
        self.build.fused("router_tanh", [routed], |_, [x]| x.unary(Unary::Tanh))
    }

    /// Coefficients of streams, `[tokens, count]`.
    fn coefficients(
        &mut self,
        scope: &LayerScope<'_>,
        x: Value,
        name: &str,
        count: usize,
    ) -> Result<Value> {
        let modalities = self.modalities(scope, x)?;
        let found = self.linear_required(modalities, &scope.name(name))?;
        match self.build.dims(found)[1] == count {
            true => Ok(found),
            false => Err(Error::TensorShape {
                name: scope.name(&format!("{name}.weight")),
                found: format!("[{}, ..]", self.build.dims(found)[1]),
                expected: format!("[{count}, ..]"),
            }),
        }
    }

    fn altup_layer(
        &mut self,
        scope: &LayerScope<'_>,
        streams: &[Value],
        wants_result: bool,
    ) -> Result<Option<Vec<Value>>> {
        let &[a, b, c, d] = streams else {
            return Err(Error::model("there should be four streams"));
        };
        let mixing = self.coefficients(scope, a, "altup_predict_coef", STREAMS * STREAMS)?;
        let mut predicted = Vec::with_capacity(STREAMS);
        for stream in 0..STREAMS {
            let mut of = |from: usize| {
                let at = stream * STREAMS + from;
                self.build.slice(mixing, 1, at..at + 1)
            };
            let inputs = [a, b, c, d, of(0)?, of(1)?, of(2)?, of(3)?];
            let mixed = self.build.fused("predict", inputs, move |_, terms| {
                let [a, b, c, d, wa, wb, wc, wd] = terms;
                terms[stream] + a * wa + b * wb + c * wc + d * wd
            })?;
            predicted.push(mixed);
        }
        let x = predicted[0];
        let normed = self.required_norm(x, &scope.name("attn_norm"))?;
        let Some(attended) = self.attention(scope, normed, wants_result)? else {
            return Ok(None);
        };
        let low = self.linear_required(normed, &scope.name("laurel_l"))?;
        let low = self.linear_required(low, &scope.name("laurel_r"))?;
        let low = self.required_norm(low, &scope.name("laurel_post_norm"))?;
        let attended = self.required_norm(attended, &scope.name("post_attention_norm"))?;
        let inputs = [x, attended, normed, low];
        let x = self.build.fused("add_attention", inputs, |_, [x, attended, normed, low]| {
            (x + attended + normed + low) * std::f64::consts::FRAC_1_SQRT_2
        })?;
        let forwarded = self.sparse_network(scope, x)?;
        let activated = self.build.binary("add_feed_forward", Binary::Add, x, forwarded)?;
        let correction = self.coefficients(scope, activated, "altup_correct_coef", STREAMS)?;
        let mut corrected = Vec::with_capacity(STREAMS);
        for (stream, &value) in predicted.iter().enumerate() {
            let weight = self.build.slice(correction, 1, stream..stream + 1)?;
            let inputs = [value, activated, predicted[0], weight];
            corrected.push(self.build.fused("correct", inputs, |_, [x, new, old, weight]| {
                x + (new - old) * (weight + 1.0)
            })?);
        }
        let width = self.config.width;
        let scale = scope.name("altup_correct_scale.weight");
        let scale = self
            .weights
            .find_shaped(&scale, &[width])?
            .cloned()
            .ok_or_else(|| Error::model(format!("the tensor `{scale}` is missing")))?;
        let scale = self.build.given(&scale);
        let first = self.build.binary("correct_scale", Binary::Mul, corrected[0], scale)?;
        if let Some(added) = self.layer_input(scope, first, false)? {
            for stream in &mut corrected[1..] {
                *stream = self.build.binary("add_layer_input", Binary::Add, *stream, added)?;
            }
        }
        Ok(Some(corrected))
    }

    /// The network, of whose gates the first layers keep the largest.
    fn sparse_network(&mut self, scope: &LayerScope<'_>, x: Value) -> Result<Value> {
        let input = self.required_norm(x, &scope.name("ffn_norm"))?;
        let mut gate = self.linear_required(input, &scope.name("ffn_gate"))?;
        let up = self.linear_required(input, &scope.name("ffn_up"))?;
        let width = self.build.dims(gate)[1] as f64;
        if scope.number < SPARSE_LAYERS {
            let sum = self.row_sum(gate)?;
            let centred = self
                .build
                .fused("centre", [gate, sum], move |_, [x, sum]| x - sum * (1.0 / width))?;
            let squares = self.square_sum(centred)?;
            gate = self.build.fused("cut", [centred, squares], move |_, [x, squares]| {
                let deviation = (squares * (1.0 / (width - 1.0))).unary(Unary::Sqrt);
                (x - deviation * SPARSE_FROM).unary(Unary::Relu)
            })?;
        }
        let hidden = self
            .build
            .fused("gated", [gate, up], |_, [gate, up]| gate.unary(Unary::GeluTanh) * up)?;
        let down = self.linear_required(hidden, &scope.name("ffn_down"))?;
        self.required_norm(down, &scope.name("post_ffw_norm"))
    }
}
