//! Rounding to the levels of an integer grid that a gradient passes through.

use polaris_ops::fused::{Builder, Expression, Value, evaluate};
use polaris_ops::{Binary, Ternary, Unary};

use crate::{Error, Result, Saved, Tensor};

const NAME: &str = "fake_quantize";

impl Tensor {
    /// Each element at the nearest of the levels `scale * (level - zero)`, with whole `level`s from `low` to `high`: what an
    /// integer type of these limits gives back. `scale` and `zero`, whole numbers themselves, broadcast to this tensor: of
    /// shape `[]` they are the same for all elements, of `[rows, 1]` for a row, and with
    /// [`repeat_interleave`](Self::repeat_interleave) for a group of columns.
    ///
    /// Rounding has no slope, so gradients are those of a straight-through estimator. That of an element passes where the
    /// element is within the levels, and is zero where it is clipped. That of a scale is the one of learned step sizes
    /// (LSQ): `level - zero - x / scale` within and `level - zero` where it is clipped, times `scale_gradient`, which
    /// makes it comparable with those of other parameters; LSQ takes `1 / sqrt(elements * high)` with the elements of one scale.
    /// `zero` gets no gradient.
    ///
    /// # Errors
    /// If there are no levels, shapes, types or devices do not fit, or there is no room.
    pub fn fake_quantize(
        &self,
        scale: &Self,
        zero: &Self,
        (low, high): (i32, i32),
        scale_gradient: f64,
    ) -> Result<Self> {
        if low >= high {
            let what = format!("levels from {low} to {high} were requested; these are none");
            return Err(Error::InvalidParameter { op: NAME, what });
        }
        let rules = Rules::new((f64::from(low), f64::from(high)), scale_gradient)?;
        let [x, s, z] = [self, scale, zero].map(Self::array);
        let result = Self::new(evaluate(&rules.levels, &[x, s, z])?);
        if result.shape() != self.shape() {
            let (scales, shape) = (scale.shape(), self.shape());
            let what = format!("scales of {scales} do not broadcast to {shape}");
            return Err(Error::InvalidParameter { op: NAME, what });
        }
        let of_scale = *scale.shape();
        let inputs = [self, scale, zero];
        Ok(Self::record(NAME, result, &inputs, |_| {
            let saved = inputs.map(|input| input.save(NAME));
            move |gradient: &Self, needed: &[bool]| {
                let [x, scale, zero] = [&saved[0], &saved[1], &saved[2]].map(Saved::get);
                let (x, scale, zero) = (x?, scale?, zero?);
                let [x, s, z, g] = [&x, &scale, &zero, gradient].map(Self::array);
                let of = |rule: &Expression, inputs: [&_; 4]| -> Result<Self> {
                    Ok(Self::new(evaluate(rule, &inputs)?))
                };
                let to_x = needed[0].then(|| of(&rules.element, [g, s, z, x])).transpose()?;
                let to_scale = || of(&rules.scale, [s, x, z, g])?.sum_to(&of_scale);
                let to_scale = needed[1].then(to_scale).transpose()?;
                Ok(vec![to_x, to_scale, None])
            }
        }))
    }
}

/// The function and its gradients. A result has the type of the first input.
struct Rules {
    /// Of element, scale and zero.
    levels: Expression,
    /// Of gradient, scale, zero and element.
    element: Expression,
    /// Of scale, element, zero and gradient.
    scale: Expression,
}

impl Rules {
    fn new(limits: (f64, f64), scale_gradient: f64) -> Result<Self> {
        // The level before and after clipping.
        fn level<'b>(
            build: &'b Builder,
            [x, s, z]: [Value<'b>; 3],
            (low, high): (f64, f64),
        ) -> [Value<'b>; 2] {
            let level = (x / s).unary(Unary::Round) + z;
            let (low, high) = (build.scalar(low), build.scalar(high));
            [level, level.ternary(Ternary::Clamp, low, high)]
        }
        let build = Builder::new(3);
        let [x, s, z] = build.inputs();
        let [_, clipped] = level(&build, [x, s, z], limits);
        let levels = build.finish((clipped - z) * s)?;

        let build = Builder::new(4);
        let [g, s, z, x] = build.inputs();
        let [level_, clipped] = level(&build, [x, s, z], limits);
        let is_within = clipped.binary(Binary::Equal, level_);
        let element = build.finish(is_within.ternary(Ternary::Where, g, 0.0))?;

        let build = Builder::new(4);
        let [s, x, z, g] = build.inputs();
        let [level_, clipped] = level(&build, [x, s, z], limits);
        let is_within = clipped.binary(Binary::Equal, level_);
        let slope = clipped - z - is_within.ternary(Ternary::Where, x / s, 0.0);
        let scale = build.finish(slope * g * build.scalar(scale_gradient))?;
        Ok(Self { levels, element, scale })
    }
}
