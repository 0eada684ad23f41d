//! Cells of recurrent networks: from an input and a state to the next state.

use polaris_tensor::Tensor;

use crate::{Init, Layer, Parameter, Parts, Pass, Result};

/// The four parameters of a cell, named as in PyTorch.
#[derive(Debug)]
struct Gates {
    input_weight: Parameter,
    state_weight: Parameter,
    input_bias: Parameter,
    state_bias: Parameter,
}

impl Gates {
    fn new(inputs: usize, width: usize, gates: usize, init: &mut Init) -> Result<Self> {
        let rows = gates * width;
        Ok(Self {
            input_weight: init.kaiming(&[rows, inputs], width)?,
            state_weight: init.kaiming(&[rows, width], width)?,
            input_bias: init.kaiming(&[rows], width)?,
            state_bias: init.kaiming(&[rows], width)?,
        })
    }

    fn visit(&self, parts: &mut Parts) {
        parts.parameter("weight_ih", &self.input_weight);
        parts.parameter("weight_hh", &self.state_weight);
        parts.parameter("bias_ih", &self.input_bias);
        parts.parameter("bias_hh", &self.state_bias);
    }

    /// What the gates get of the input, and of the state.
    fn apply(&self, x: &Tensor, state: &Tensor, pass: &Pass<'_>) -> Result<[Tensor; 2]> {
        let part = |x: &Tensor, weight: &Parameter, bias: &Parameter| -> Result<Tensor> {
            Ok(pass.cast(x)?.linear(&weight.value(pass)?, Some(&bias.value(pass)?))?)
        };
        Ok([
            part(x, &self.input_weight, &self.input_bias)?,
            part(state, &self.state_weight, &self.state_bias)?,
        ])
    }
}

/// A cell of an LSTM.
#[derive(Debug)]
pub struct LstmCell {
    gates: Gates,
    width: usize,
}

impl LstmCell {
    /// A cell as PyTorch begins it.
    ///
    /// # Errors
    /// If there is no room.
    pub fn new(inputs: usize, width: usize, init: &mut Init) -> Result<Self> {
        Ok(Self { gates: Gates::new(inputs, width, 4, init)?, width })
    }

    /// The next hidden state and cell state, `[batch, width]` each.
    ///
    /// # Errors
    /// If shapes do not fit, or there is no room.
    pub fn forward(
        &self,
        x: &Tensor,
        (hidden, cell): (&Tensor, &Tensor),
        pass: &Pass<'_>,
    ) -> Result<(Tensor, Tensor)> {
        let [of_input, of_state] = self.gates.apply(x, hidden, pass)?;
        let gates = of_input.add(&of_state)?.split(1, self.width)?;
        let [input, forget, new, output] = &gates[..] else {
            unreachable!("four gates should have four parts")
        };
        let kept = forget.sigmoid()?.mul(&pass.cast(cell)?)?;
        let cell = kept.add(&input.sigmoid()?.mul(&new.tanh()?)?)?;
        Ok((output.sigmoid()?.mul(&cell.tanh()?)?, cell))
    }
}

impl Layer for LstmCell {
    fn visit(&self, parts: &mut Parts) {
        self.gates.visit(parts);
    }
}

/// A cell of a GRU.
#[derive(Debug)]
pub struct GruCell {
    gates: Gates,
    width: usize,
}

impl GruCell {
    /// A cell as PyTorch begins it.
    ///
    /// # Errors
    /// If there is no room.
    pub fn new(inputs: usize, width: usize, init: &mut Init) -> Result<Self> {
        Ok(Self { gates: Gates::new(inputs, width, 3, init)?, width })
    }

    /// The next state, `[batch, width]`.
    ///
    /// # Errors
    /// If shapes do not fit, or there is no room.
    pub fn forward(&self, x: &Tensor, state: &Tensor, pass: &Pass<'_>) -> Result<Tensor> {
        let state = pass.cast(state)?;
        let [of_input, of_state] = self.gates.apply(x, &state, pass)?;
        let (of_input, of_state) = (of_input.split(1, self.width)?, of_state.split(1, self.width)?);
        let reset = of_input[0].add(&of_state[0])?.sigmoid()?;
        let keep = of_input[1].add(&of_state[1])?.sigmoid()?;
        let new = of_input[2].add(&reset.mul(&of_state[2])?)?.tanh()?;
        Ok(new.add(&keep.mul(&state.sub(&new)?)?)?)
    }
}

impl Layer for GruCell {
    fn visit(&self, parts: &mut Parts) {
        self.gates.visit(parts);
    }
}
