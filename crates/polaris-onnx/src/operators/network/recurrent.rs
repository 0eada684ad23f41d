//! What recurrent layers share: directions, lengths, layouts, and the walk through time.

use super::activation::Activation;
use crate::limits::checked_elements;
use crate::operators::Call;
use crate::room::filled;
use crate::{ElementType, Error, Result, Tensor, Value};

/// One direction of a layer.
pub struct Direction {
    /// From the operand to all gates, one row for each.
    w: Vec<f64>,
    /// From the state to all gates.
    r: Vec<f64>,
    /// For the products with the operand, and for those with the state.
    pub w_bias: Vec<f64>,
    pub r_bias: Vec<f64>,
    /// For LSTM: what gates see of the cell.
    pub peepholes: Vec<f64>,
    pub activations: Vec<Activation>,
    pub hidden: usize,
    clip: Option<f64>,
    input: usize,
}

impl Direction {
    /// The products of the operand with rows of all gates, with their bias.
    pub fn input_products(&self, x: &[f64]) -> Vec<f64> {
        products(&self.w, self.input, x, &self.w_bias)
    }

    /// The products of the state with the rows of some gates, with their bias.
    pub fn state_products(&self, h: &[f64], gates: std::ops::Range<usize>) -> Vec<f64> {
        let rows = gates.start * self.hidden..gates.end * self.hidden;
        let r = &self.r[rows.start * self.hidden..rows.end * self.hidden];
        products(r, self.hidden, h, &self.r_bias[rows])
    }

    /// A function of the layer, of a value that is cut off where the layer says so.
    pub fn activate(&self, which: usize, x: f64) -> f64 {
        self.activations[which].apply(self.clip.map_or(x, |clip| x.max(-clip).min(clip)))
    }
}

/// `bias` plus the product of each row of a matrix with a vector.
fn products(matrix: &[f64], columns: usize, vector: &[f64], bias: &[f64]) -> Vec<f64> {
    if columns == 0 {
        return bias.to_vec();
    }
    let rows = matrix.chunks(columns).zip(bias);
    rows.map(|(row, bias)| bias + row.iter().zip(vector).map(|(a, b)| a * b).sum::<f64>()).collect()
}

/// What a kind of layer is.
pub struct Kind {
    pub gates: usize,
    pub activations: &'static [&'static str],
    /// Whether there is a cell besides the state.
    pub cell: bool,
}

/// One step: the operand, the state, the cell (empty without one).
pub type Step<'a> = &'a dyn Fn(&Direction, &[f64], &mut [f64], &mut [f64]);

/// Runs a layer and gives all states, the last ones, and the last cells if there are any.
pub fn run(call: &Call<'_>, kind: &Kind, step: Step<'_>) -> Result<Vec<Value>> {
    let attributes = call.attributes();
    let (x, w, r) = (call.tensor(0)?, call.tensor(1)?, call.tensor(2)?);
    let batch_first = attributes.flag("layout", false)?;
    let &[first, second, input] = x.shape() else {
        return Err(Error::operands(format!("three axes were expected, not {:?}", x.shape())));
    };
    let (time, batch) = if batch_first { (second, first) } else { (first, second) };
    let backward: &[bool] = match attributes.string_or("direction", "forward")? {
        "forward" => &[false],
        "reverse" => &[true],
        "bidirectional" => &[false, true],
        other => return Err(Error::operands(format!("there is no direction `{other}`"))),
    };
    let count = backward.len();
    let hidden = r.shape().last().copied().unwrap_or(0);
    if let Some(said) = attributes.int("hidden_size")?
        && usize::try_from(said) != Ok(hidden)
    {
        return Err(Error::operands(format!("hidden_size is {said}, not {hidden}")));
    }
    let rows = kind.gates * hidden;
    expect(w, &[count, rows, input])?;
    expect(r, &[count, rows, hidden])?;
    let directions = directions(call, kind, [count, hidden, input])?;

    let lengths = match call.optional(4)? {
        None => vec![time; batch],
        Some(lengths) => {
            expect(lengths, &[batch])?;
            let clamp = |length: i64| usize::try_from(length).unwrap_or(0).min(time);
            lengths.to_i64()?.into_iter().map(clamp).collect()
        }
    };
    let state_shape = if batch_first { [batch, count, hidden] } else { [count, batch, hidden] };
    let mut h = state(call.optional(5)?, &state_shape)?;
    let mut c = match kind.cell {
        true => state(call.optional(6)?, &state_shape)?,
        false => Vec::new(),
    };
    let shape = match batch_first {
        true => [batch, time, count, hidden],
        false => [time, count, batch, hidden],
    };
    let mut y = filled(0.0, checked_elements(ElementType::F64, &shape)?)?;
    let values = x.to_f64()?;
    for (index, direction) in directions.iter().enumerate() {
        for (of, &length) in lengths.iter().enumerate() {
            let at = if batch_first { of * count + index } else { index * batch + of };
            let own = at * hidden..(at + 1) * hidden;
            for step_index in 0..length {
                let now = if backward[index] { length - 1 - step_index } else { step_index };
                let row = if batch_first { of * time + now } else { now * batch + of };
                let x = &values[row * input..(row + 1) * input];
                let cell = if kind.cell { &mut c[own.clone()] } else { &mut [][..] };
                step(direction, x, &mut h[own.clone()], cell);
                let place = match batch_first {
                    true => (of * time + now) * count + index,
                    false => (now * count + index) * batch + of,
                };
                y[place * hidden..(place + 1) * hidden].copy_from_slice(&h[own.clone()]);
            }
        }
    }
    let element = x.element();
    let mut outputs = vec![
        Value::Tensor(Tensor::from_f64(element, &shape, &y)?),
        Value::Tensor(Tensor::from_f64(element, &state_shape, &h)?),
    ];
    if kind.cell {
        outputs.push(Value::Tensor(Tensor::from_f64(element, &state_shape, &c)?));
    }
    Ok(outputs)
}

fn expect(tensor: &Tensor, shape: &[usize]) -> Result<()> {
    if tensor.shape() == shape {
        return Ok(());
    }
    let found = tensor.shape();
    Err(Error::operands(format!("the shape {shape:?} was expected, not {found:?}")))
}

/// What states begin with.
fn state(tensor: Option<&Tensor>, shape: &[usize]) -> Result<Vec<f64>> {
    match tensor {
        None => filled(0.0, checked_elements(ElementType::F64, shape)?),
        Some(tensor) => {
            expect(tensor, shape)?;
            tensor.to_f64()
        }
    }
}

fn directions(
    call: &Call<'_>,
    kind: &Kind,
    [count, hidden, input]: [usize; 3],
) -> Result<Vec<Direction>> {
    let attributes = call.attributes();
    let rows = kind.gates * hidden;
    let (w, r) = (call.tensor(1)?.to_f64()?, call.tensor(2)?.to_f64()?);
    let biases = state(call.optional(3)?, &[count, 2 * rows])?;
    let peepholes = match kind.cell {
        true => state(call.optional(7)?, &[count, 3 * hidden])?,
        false => Vec::new(),
    };
    let activations = Activation::read(attributes, kind.activations, count)?;
    let functions = kind.activations.len();
    let clip = attributes.float("clip")?.map(f64::from).filter(|&clip| clip > 0.0);
    let direction = |index: usize| Direction {
        w: part(&w, index, rows * input),
        r: part(&r, index, rows * hidden),
        w_bias: part(&biases, 2 * index, rows),
        r_bias: part(&biases, 2 * index + 1, rows),
        peepholes: if kind.cell { part(&peepholes, index, 3 * hidden) } else { Vec::new() },
        activations: activations[index * functions..(index + 1) * functions].to_vec(),
        hidden,
        clip,
        input,
    };
    Ok((0..count).map(direction).collect())
}

/// One of several parts of the same length.
fn part(values: &[f64], index: usize, length: usize) -> Vec<f64> {
    values[index * length..(index + 1) * length].to_vec()
}
