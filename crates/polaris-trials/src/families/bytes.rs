//! Model files whose bytes are damaged.

use anyhow::Result;

use super::{encoded, use_model, write_model};
use crate::damage::damage;
use crate::models;
use crate::trial::Trial;

pub fn run(trial: &mut Trial<'_>) -> Result<()> {
    trial.may_be_long = true;
    let samples = models::all();
    let mut sample = trial.random.pick(&samples).clone();
    let other = encoded(trial.random.pick(&samples));
    let file = damage(&encoded(&sample), &other, &mut trial.random);
    if let Some((_, data)) = sample.files.first_mut()
        && trial.random.once_in(2)
    {
        *data = damage(data, &other, &mut trial.random);
    }
    write_model(trial, &sample, &file)?;
    use_model(trial)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use polaris_onnx::{ExternalData, Model, Tensor, Value};

    use super::*;

    /// Gives every file the same bytes.
    struct Beside(Vec<u8>);

    impl ExternalData for Beside {
        fn read(
            &self,
            _: &str,
            offset: u64,
            length: Option<u64>,
        ) -> polaris_onnx::Result<::bytes::Bytes> {
            let end = length.map_or(self.0.len(), |length| (offset + length) as usize);
            Ok(self.0[offset as usize..end].to_vec().into())
        }
    }

    #[test]
    fn samples_are_valid() {
        for sample in models::all() {
            let beside = Beside(sample.files.first().map_or(vec![], |(_, data)| data.clone()));
            let model = Model::from_bytes(encoded(&sample).into(), &beside)
                .unwrap_or_else(|error| panic!("{}: {error}", sample.name));
            let inputs: Vec<Option<Value>> = (model.graph.inputs.iter())
                .map(|&id| {
                    let Some(polaris_onnx::Type::Tensor(element, Some(dims))) =
                        &model.graph.value(id).ty
                    else {
                        panic!("{}: an input without a type", sample.name)
                    };
                    let shape: Vec<usize> = dims.iter().map(|d| d.known().unwrap_or(2)).collect();
                    let count = shape.iter().product();
                    let values: Vec<f64> = (0..count).map(|i| (i % 3) as f64).collect();
                    Some(Value::Tensor(Tensor::from_f64(*element, &shape, &values).unwrap()))
                })
                .collect();
            polaris_onnx::interpret(&model.graph, &inputs, &[])
                .unwrap_or_else(|error| panic!("{}: {error}", sample.name));
        }
    }
}
