//! Cross-entropy by definition, in `f64`.

use super::CrossEntropyOptions;

/// The losses of rows, or their gradient if there is one of the losses.
pub fn rows(
    options: CrossEntropyOptions,
    [logits, targets]: [&[f64]; 2],
    classes: usize,
    g: Option<&[f64]>,
    weights: Option<&[f64]>,
) -> Vec<f64> {
    let weight = |class: usize| weights.map_or(1.0, |weights| weights[class]);
    let mut results = Vec::new();
    for (row, &target) in targets.iter().enumerate() {
        if options.ignore_index == Some(target as i64) {
            results.resize(results.len() + if g.is_some() { classes } else { 1 }, 0.0);
            continue;
        }
        let z = &logits[row * classes..][..classes];
        let largest = z.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = z.iter().map(|z| (z - largest).exp()).sum();
        // The share of each class in the loss.
        let share = |class: usize| {
            let own = if class == target as usize { 1.0 - options.smoothing } else { 0.0 };
            (own + options.smoothing / classes as f64) * weight(class)
        };
        let taking_part = |class: &usize| options.smoothing > 0.0 || *class == target as usize;
        match g {
            None => {
                let loss = |class: usize| share(class) * (largest + sum.ln() - z[class]);
                results.push((0..classes).filter(taking_part).map(loss).sum());
            }
            Some(g) => {
                let all: f64 = (0..classes).map(share).sum();
                let one = |class: usize| {
                    let probability = (z[class] - largest).exp() / sum;
                    g[row] * (probability * all - share(class))
                };
                results.extend((0..classes).map(one));
            }
        }
    }
    results
}
