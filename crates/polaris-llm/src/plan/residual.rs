//! Attention along the residual stream, as Kimi K3 has it. Every so many layers the stream is kept as it is and begins anew
//! with what the layer adds. What a part reads is a mixture of the streams that were kept and the present one, weighted by
//! the softmax of a score for each.

use polaris_core::DType;
use polaris_ops::copy::Copy;
use polaris_ops::{Binary, NormKind, Softmax};

use super::Value;
use super::decoder::{Decoder, LayerScope};
use crate::{Error, Result};

/// The streams, `[tokens, all, width]`: those that were kept, and then the present one.
struct Streams {
    all: Value,
    kept: usize,
}

impl Decoder<'_> {
    /// All layers from the embedding on, of which every `period`-th keeps the stream; `None` if no logits are wanted.
    pub(super) fn residual_layers(&mut self, x: Value, period: usize) -> Result<Option<Value>> {
        let layers = self.config.layers.len();
        let dims = [self.size.tokens, layers.div_ceil(period) + 1, self.config.width];
        let mut streams = Streams { all: self.build.make(DType::F32, &dims)?, kept: 0 };
        let mut x = x;
        for (number, layer) in self.config.layers.iter().enumerate() {
            self.build.enter(format!("blk.{number}"));
            let scope = LayerScope { number, layer };
            let is_last = number + 1 == layers;
            let mixed = self.mix_streams(&streams, x, &scope.name("attn_res_score"))?;
            let begins_anew = number.is_multiple_of(period);
            if begins_anew {
                self.place(&streams, x)?;
                streams.kept += 1;
            }
            let normed = self.input_norm(mixed, &scope.name("attn_norm"))?;
            let wants_rest = !is_last || self.size.outputs > 0;
            let Some(mut attended) = self.mix(&scope, normed, wants_rest)? else {
                return Ok(None);
            };
            if is_last {
                x = self.keep_outputs(x)?;
                attended = self.keep_outputs(attended)?;
                let [tokens, all, width] = dims;
                let rows = self.build.reshape(streams.all, &[tokens, all * width])?;
                let rows = self.keep_outputs(rows)?;
                streams.all = self.build.reshape(rows, &[self.size.outputs, all, width])?;
            }
            x = match begins_anew {
                true => attended,
                false => self.build.binary("add_attention", Binary::Add, x, attended)?,
            };
            let mixed = self.mix_streams(&streams, x, &scope.name("ffn_res_score"))?;
            let input = self.input_norm(mixed, &scope.name("ffn_norm"))?;
            let forwarded = self.feed_forward(&scope, input, x)?;
            x = self.build.binary("add_feed_forward", Binary::Add, x, forwarded)?;
        }
        self.build.enter("");
        self.mix_streams(&streams, x, "output_res_score").map(Some)
    }

    /// Writes the present stream behind those that were kept.
    fn place(&mut self, streams: &Streams, x: Value) -> Result<()> {
        let place = self.build.select(streams.all, 1, streams.kept)?;
        self.build.emit("keep_stream", Copy, &[x], place);
        Ok(())
    }

    /// The streams and the present one, weighted by the softmax of their scores.
    fn mix_streams(&mut self, streams: &Streams, x: Value, name: &str) -> Result<Value> {
        if streams.kept == 0 {
            return Ok(x);
        }
        self.place(streams, x)?;
        let all = self.build.slice(streams.all, 1, 0..streams.kept + 1)?;
        let missing = || Error::model(format!("the tensor `{name}.weight` is missing"));
        let scores = self.norm_of(NormKind::Rms, all, name)?.ok_or_else(missing)?;
        let scores = self.sum("stream_scores", scores, 2)?;
        let dims = self.build.dims(scores).to_vec();
        let shares = self.build.make(DType::F32, &dims)?;
        self.build.emit("stream_shares", Softmax { axis: 1, log: false }, &[scores], shares);
        let shares = self.build.split_last(shares, 1)?;
        let weighed = self.build.binary("weigh_streams", Binary::Mul, all, shares)?;
        self.sum("mix_streams", weighed, 1)
    }
}
