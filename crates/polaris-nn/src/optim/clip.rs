//! The length of all gradients together.

use polaris_tensor::{Tensor, no_grad};

use super::Group;
use crate::Result;

/// The root of the sum of the squares of all gradients; NaN or infinite if one of them is. Waits for
/// the device once.
///
/// # Errors
/// If a device fails.
pub fn gradient_norm(groups: &[Group]) -> Result<f64> {
    no_grad(|| {
        let gradients = groups.iter().flat_map(Group::parameters).filter_map(|p| p.tensor().grad());
        let sums = gradients
            .map(|gradient| Ok(gradient.square()?.sum()?.reshape(&[1])?))
            .collect::<Result<Vec<Tensor>>>()?;
        if sums.is_empty() {
            return Ok(0.0);
        }
        let all = Tensor::concatenate(&sums.iter().collect::<Vec<_>>(), 0)?;
        Ok(all.to_f64()?.iter().sum::<f64>().sqrt())
    })
}
