//! Normalisation along the last axis.

use polaris_ops::NormKind;
use polaris_ops::batch_norm::{
    batch_norm, batch_norm_gradient, batch_norm_weight_gradient, batch_statistics, group_norm,
    group_norm_gradient, group_norm_weight_gradient,
};
use polaris_ops::norm::{
    layer_norm, layer_norm_gradient, layer_norm_weight_gradient, rms_norm, rms_norm_gradient,
    rms_norm_weight_gradient,
};

use crate::{Result, Saved, Tensor};

impl Tensor {
    /// `(x - mean) / sqrt(variance + epsilon) * weight + bias` along the last axis.
    ///
    /// # Errors
    /// If there is no axis, or shapes or types do not fit.
    pub fn layer_norm(
        &self,
        weight: Option<&Self>,
        bias: Option<&Self>,
        epsilon: f64,
    ) -> Result<Self> {
        self.norm(NormKind::Layer, weight, bias, epsilon)
    }

    /// `x / sqrt(mean(x^2) + epsilon) * weight` along the last axis.
    ///
    /// # Errors
    /// As for [`layer_norm`](Self::layer_norm).
    pub fn rms_norm(&self, weight: Option<&Self>, epsilon: f64) -> Result<Self> {
        self.norm(NormKind::Rms, weight, None, epsilon)
    }

    fn norm(
        &self,
        kind: NormKind,
        weight: Option<&Self>,
        bias: Option<&Self>,
        epsilon: f64,
    ) -> Result<Self> {
        let (name, forward) = match kind {
            NormKind::Layer => ("layer_norm", layer_norm as fn(_, _, _, _) -> _),
            NormKind::Rms => ("rms_norm", rms_norm as fn(_, _, _, _) -> _),
        };
        let arrays = [weight, bias].map(|tensor| tensor.map(Self::array));
        let result = Self::new(forward(self.array(), arrays[0], arrays[1], epsilon)?);
        let inputs: Vec<&Self> = [Some(self), weight, bias].into_iter().flatten().collect();
        let has_weight = weight.is_some();
        Ok(Self::record(name, result, &inputs, |_| {
            let (x, weight) = (self.save(name), weight.map(|weight| weight.save(name)));
            move |gradient: &Self, needed: &[bool]| {
                let x = x.get()?;
                let weight = weight.as_ref().map(Saved::get).transpose()?;
                let (x, g) = (x.array(), gradient.array());
                let mut gradients = Vec::new();
                let input = needed[0].then(|| match kind {
                    NormKind::Layer => {
                        layer_norm_gradient(x, g, weight.as_ref().map(Self::array), epsilon)
                    }
                    NormKind::Rms => {
                        rms_norm_gradient(x, g, weight.as_ref().map(Self::array), epsilon)
                    }
                });
                gradients.push(input.transpose()?.map(Self::new));
                if has_weight {
                    let weight = needed[1].then(|| match kind {
                        NormKind::Layer => layer_norm_weight_gradient(x, g, epsilon),
                        NormKind::Rms => rms_norm_weight_gradient(x, g, epsilon),
                    });
                    // Sums of half precisions are kept in `f32`.
                    let weight = weight.transpose()?.map(Self::new);
                    let weight = weight.map(|weight| weight.to_dtype(x.dtype()));
                    gradients.push(weight.transpose()?);
                }
                if needed.len() > gradients.len() {
                    let rows: Vec<usize> = (0..gradient.rank() - 1).collect();
                    gradients.push(Some(gradient.sum_axes(&rows, false)?));
                }
                Ok(gradients)
            }
        }))
    }

    /// Normalisation of each channel of `[N, C, ...]` by the mean and variance of the batch. Gives
    /// the result, and the statistics for whoever keeps running ones.
    ///
    /// # Errors
    /// If shapes, types or devices do not fit.
    pub fn batch_norm(
        &self,
        weight: Option<&Self>,
        bias: Option<&Self>,
        epsilon: f64,
    ) -> Result<(Self, Self, Self)> {
        let (mean, variance) = batch_statistics(self.array())?;
        let (mean, variance) = (Self::new(mean), Self::new(variance));
        let result = self.by_statistics(&mean, &variance, weight, bias, epsilon, true)?;
        Ok((result, mean, variance))
    }

    /// Normalisation of each channel of `[N, C, ...]` by given statistics, as in evaluation.
    ///
    /// # Errors
    /// If shapes, types or devices do not fit.
    pub fn batch_norm_with(
        &self,
        mean: &Self,
        variance: &Self,
        weight: Option<&Self>,
        bias: Option<&Self>,
        epsilon: f64,
    ) -> Result<Self> {
        self.by_statistics(mean, variance, weight, bias, epsilon, false)
    }

    fn by_statistics(
        &self,
        mean: &Self,
        variance: &Self,
        weight: Option<&Self>,
        bias: Option<&Self>,
        epsilon: f64,
        training: bool,
    ) -> Result<Self> {
        let name = "batch_norm";
        let arrays = [weight, bias].map(|tensor| tensor.map(Self::array));
        let (x, m, v) = (self.array(), mean.array(), variance.array());
        let result = Self::new(batch_norm(x, m, v, arrays[0], arrays[1], epsilon)?);
        let inputs: Vec<&Self> = [Some(self), weight, bias].into_iter().flatten().collect();
        let has = [weight.is_some(), bias.is_some()];
        Ok(Self::record(name, result, &inputs, |_| {
            let saved = [self, mean, variance].map(|tensor| tensor.save(name));
            let weight = weight.map(|weight| weight.save(name));
            move |gradient: &Self, needed: &[bool]| {
                let [x, mean, variance] = saved.each_ref().map(Saved::get);
                let (x, mean, variance) = (x?, mean?, variance?);
                let [x, mean, variance] = [&x, &mean, &variance].map(Self::array);
                let weight = weight.as_ref().map(Saved::get).transpose()?;
                let g = gradient.array();
                let sums = batch_norm_weight_gradient(x, g, mean, variance, epsilon)?;
                let in_training = training.then_some((&sums.0, &sums.1));
                let weight = weight.as_ref().map(Self::array);
                let input = needed[0].then(|| {
                    batch_norm_gradient(x, g, mean, variance, weight, in_training, epsilon)
                });
                let mut gradients = vec![input.transpose()?.map(Self::new)];
                for (sum, has) in [sums.0, sums.1].into_iter().zip(has) {
                    if has {
                        gradients.push(Some(Self::new(sum).to_dtype(x.dtype())?));
                    }
                }
                Ok(gradients)
            }
        }))
    }

    /// Normalisation of groups of channels of each sample of `[N, C, ...]`, with a weight and a bias
    /// for each channel; instance normalisation has a group for each channel.
    ///
    /// # Errors
    /// If the channels cannot be shared out evenly, or shapes, types or devices do not fit.
    pub fn group_norm(
        &self,
        groups: usize,
        weight: Option<&Self>,
        bias: Option<&Self>,
        epsilon: f64,
    ) -> Result<Self> {
        let name = "group_norm";
        let arrays = [weight, bias].map(|tensor| tensor.map(Self::array));
        let result = Self::new(group_norm(self.array(), groups, arrays[0], arrays[1], epsilon)?);
        let inputs: Vec<&Self> = [Some(self), weight, bias].into_iter().flatten().collect();
        let has = [weight.is_some(), bias.is_some()];
        Ok(Self::record(name, result, &inputs, |_| {
            let (x, weight) = (self.save(name), weight.map(|weight| weight.save(name)));
            move |gradient: &Self, needed: &[bool]| {
                let x = x.get()?;
                let weight = weight.as_ref().map(Saved::get).transpose()?;
                let (x, g) = (x.array(), gradient.array());
                let weight = weight.as_ref().map(Self::array);
                let input = needed[0].then(|| group_norm_gradient(x, g, groups, weight, epsilon));
                let mut gradients = vec![input.transpose()?.map(Self::new)];
                let sums = group_norm_weight_gradient(x, g, groups, epsilon)?;
                for (sum, has) in [sums.0, sums.1].into_iter().zip(has) {
                    if has {
                        gradients.push(Some(Self::new(sum).to_dtype(x.dtype())?));
                    }
                }
                Ok(gradients)
            }
        }))
    }
}
