//! Convolutions along one or two axes.

use polaris_ops::conv::{
    Convolution, convolution, convolution_input_gradient, convolution_weight_gradient,
    transposed_convolution,
};

use crate::{Result, Tensor};

impl Tensor {
    /// The convolution of images `[N, C, H, W]`, or of sequences `[N, C, L]`, with a weight
    /// `[outputs, C / groups, ...]`, plus a bias for each output channel (PyTorch's `conv1d` and
    /// `conv2d`).
    ///
    /// # Errors
    /// If shapes, types or devices do not fit.
    pub fn convolution(
        &self,
        weight: &Self,
        bias: Option<&Self>,
        problem: &Convolution,
    ) -> Result<Self> {
        let name = "convolution";
        let bias_array = bias.map(Self::array);
        let result = convolution(self.array(), weight.array(), bias_array, problem)?;
        let inputs: Vec<&Self> = [Some(self), Some(weight), bias].into_iter().flatten().collect();
        let problem = *problem;
        Ok(Self::record(name, Self::new(result), &inputs, |_| {
            let (x, weight) = (self.save(name), weight.save(name));
            move |gradient: &Self, needed: &[bool]| {
                let (x, weight, g) = (x.get()?, weight.get()?, gradient.array());
                let of_x = || convolution_input_gradient(g, weight.array(), x.shape(), &problem);
                let of_weight =
                    || convolution_weight_gradient(x.array(), g, weight.shape(), &problem);
                let mut gradients = vec![
                    needed[0].then(of_x).transpose()?.map(Self::new),
                    needed[1].then(of_weight).transpose()?.map(Self::new),
                ];
                gradients.extend(of_bias(gradient, needed)?);
                Ok(gradients)
            }
        }))
    }

    /// The transpose of a convolution, with a weight `[C, outputs / groups, ...]` (PyTorch's
    /// `conv_transpose1d` and `conv_transpose2d`). `output_padding` makes the result longer at its
    /// end, where a stride leaves the length open.
    ///
    /// # Errors
    /// If shapes, types or devices do not fit.
    pub fn transposed_convolution(
        &self,
        weight: &Self,
        bias: Option<&Self>,
        output_padding: [usize; 2],
        problem: &Convolution,
    ) -> Result<Self> {
        let name = "transposed_convolution";
        let bias_array = bias.map(Self::array);
        let result = transposed_convolution(
            self.array(),
            weight.array(),
            bias_array,
            output_padding,
            problem,
        )?;
        let inputs: Vec<&Self> = [Some(self), Some(weight), bias].into_iter().flatten().collect();
        let problem = *problem;
        Ok(Self::record(name, Self::new(result), &inputs, |_| {
            let (x, weight) = (self.save(name), weight.save(name));
            move |gradient: &Self, needed: &[bool]| {
                // It is the input gradient of a convolution, so its own is that convolution; and
                // for the weight, images and gradients change their roles.
                let (x, weight, g) = (x.get()?, weight.get()?, gradient.array());
                let of_x = || convolution(g, weight.array(), None, &problem);
                let of_weight =
                    || convolution_weight_gradient(g, x.array(), weight.shape(), &problem);
                let mut gradients = vec![
                    needed[0].then(of_x).transpose()?.map(Self::new),
                    needed[1].then(of_weight).transpose()?.map(Self::new),
                ];
                gradients.extend(of_bias(gradient, needed)?);
                Ok(gradients)
            }
        }))
    }
}

/// The gradient of a bias, if there is one: the sum over everything but the channels.
fn of_bias(gradient: &Tensor, needed: &[bool]) -> Result<Option<Option<Tensor>>> {
    let axes: Vec<usize> = (0..gradient.rank()).filter(|&axis| axis != 1).collect();
    let sum = |&needed: &bool| needed.then(|| gradient.sum_axes(&axes, false)).transpose();
    needed.get(2).map(sum).transpose()
}
