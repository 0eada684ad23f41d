//! The recurrent layers: RNN, GRU, LSTM.

use super::recurrent::{Direction, Kind, run};
use crate::operators::Call;
use crate::{Result, Value};

pub fn rnn(call: &Call<'_>) -> Result<Vec<Value>> {
    let kind = Kind { gates: 1, activations: &["Tanh"], cell: false };
    run(call, &kind, &|direction, x, h, _| {
        let (from_x, from_h) = (direction.input_products(x), direction.state_products(h, 0..1));
        for (index, h) in h.iter_mut().enumerate() {
            *h = direction.activate(0, from_x[index] + from_h[index]);
        }
    })
}

/// The gates are update, reset and hidden, in this order.
pub fn gru(call: &Call<'_>) -> Result<Vec<Value>> {
    let kind = Kind { gates: 3, activations: &["Sigmoid", "Tanh"], cell: false };
    let reset_last = call.attributes().flag("linear_before_reset", false)?;
    run(call, &kind, &|direction, x, h, _| {
        let hidden = direction.hidden;
        let (from_x, from_h) = (direction.input_products(x), direction.state_products(h, 0..2));
        let gate = |at: usize| direction.activate(0, from_x[at] + from_h[at]);
        let reset: Vec<f64> = (0..hidden).map(|index| gate(hidden + index)).collect();
        let from_reset = if reset_last {
            let linear = direction.state_products(h, 2..3);
            linear.iter().zip(&reset).map(|(value, reset)| value * reset).collect()
        } else {
            let kept: Vec<f64> = h.iter().zip(&reset).map(|(h, reset)| h * reset).collect();
            direction.state_products(&kept, 2..3)
        };
        for (index, h) in h.iter_mut().enumerate() {
            let update = gate(index);
            let new = direction.activate(1, from_x[2 * hidden + index] + from_reset[index]);
            *h = (1.0 - update) * new + update * *h;
        }
    })
}

/// The gates are input, output, forget and cell, in this order.
pub fn lstm(call: &Call<'_>) -> Result<Vec<Value>> {
    let kind = Kind { gates: 4, activations: &["Sigmoid", "Tanh", "Tanh"], cell: true };
    let coupled = call.attributes().flag("input_forget", false)?;
    run(call, &kind, &|direction: &Direction, x, h, c| {
        let hidden = direction.hidden;
        let (from_x, from_h) = (direction.input_products(x), direction.state_products(h, 0..4));
        for (index, (h, c)) in h.iter_mut().zip(c).enumerate() {
            let gate =
                |which: usize| from_x[which * hidden + index] + from_h[which * hidden + index];
            let seen = |which: usize, cell: f64| direction.peepholes[which * hidden + index] * cell;
            let input = direction.activate(0, gate(0) + seen(0, *c));
            let forget = match coupled {
                true => 1.0 - input,
                false => direction.activate(0, gate(2) + seen(2, *c)),
            };
            *c = forget * *c + input * direction.activate(1, gate(3));
            let output = direction.activate(0, gate(1) + seen(1, *c));
            *h = output * direction.activate(2, *c);
        }
    })
}
