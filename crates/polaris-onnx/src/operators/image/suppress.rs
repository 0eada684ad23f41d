//! NonMaxSuppression: of boxes that overlap, only the best.

use crate::operators::{Call, one};
use crate::{Error, Result, Tensor, Value};

/// A box: low and high along both axes.
type Box = [(f64, f64); 2];

fn read_box(numbers: &[f64], centred: bool) -> Box {
    let [a, b, c, d] = [numbers[0], numbers[1], numbers[2], numbers[3]];
    if centred {
        return [(a - c / 2.0, a + c / 2.0), (b - d / 2.0, b + d / 2.0)];
    }
    let sorted = |from: f64, to: f64| (from.min(to), from.max(to));
    [sorted(b, d), sorted(a, c)]
}

fn area(of: &Box) -> f64 {
    of.iter().map(|(low, high)| high - low).product()
}

/// Whether the boxes share more than a part of what they cover together.
fn overlap(a: &Box, b: &Box, threshold: f64) -> bool {
    let mut shared = 1.0;
    for (a, b) in a.iter().zip(b) {
        shared *= (a.1.min(b.1) - a.0.max(b.0)).max(0.0);
    }
    let (first, second) = (area(a), area(b));
    let together = first + second - shared;
    shared > 0.0
        && first > 0.0
        && second > 0.0
        && together > 0.0
        // In f32, as the operands are: a ratio at the threshold is not beyond it.
        && (shared as f32 / together as f32) > threshold as f32
}

/// The first number of an operand that may be left out.
fn number(call: &Call<'_>, index: usize) -> Result<Option<f64>> {
    let list = call.optional(index)?.map(Tensor::to_f64).transpose()?;
    Ok(list.and_then(|list| list.first().copied()))
}

pub fn non_max_suppression(call: &Call<'_>) -> Result<Vec<Value>> {
    let (boxes, scores) = (call.tensor(0)?, call.tensor(1)?);
    let (&[batch, count, 4], &[score_batch, classes, score_count]) =
        (boxes.shape(), scores.shape())
    else {
        let (boxes, scores) = (boxes.shape(), scores.shape());
        return Err(Error::operands(format!("boxes of {boxes:?} with scores of {scores:?}")));
    };
    if (score_batch, score_count) != (batch, count) {
        return Err(Error::operands("there is not one score for each box"));
    }
    let most = number(call, 2)?.unwrap_or(0.0).max(0.0) as usize;
    let threshold = number(call, 3)?.unwrap_or(0.0);
    let least = number(call, 4)?;
    let centred = call.attributes().flag("center_point_box", false)?;
    let (numbers, scores) = (boxes.to_f64()?, scores.to_f64()?);
    let mut selected: Vec<i64> = Vec::new();
    for of in 0..batch {
        let boxes: Vec<Box> = (numbers[of * count * 4..(of + 1) * count * 4].chunks(4))
            .map(|numbers| read_box(numbers, centred))
            .collect();
        for class in 0..classes {
            let scores = &scores[(of * classes + class) * count..][..count];
            let mut order: Vec<usize> =
                (0..count).filter(|&at| least.is_none_or(|least| scores[at] > least)).collect();
            // The best first; of equal ones the one that comes first.
            order.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]).then(a.cmp(&b)));
            let mut kept: Vec<usize> = Vec::new();
            for candidate in order {
                if kept.len() >= most {
                    break;
                }
                if !kept.iter().any(|&best| overlap(&boxes[candidate], &boxes[best], threshold)) {
                    kept.push(candidate);
                    selected.extend([of as i64, class as i64, candidate as i64]);
                }
            }
        }
    }
    Ok(one(Tensor::new(&[selected.len() / 3, 3], selected)?))
}
