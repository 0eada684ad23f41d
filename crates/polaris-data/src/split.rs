//! Divides a data set into parts, such as for training, validation and test.

use std::collections::BTreeMap;

use crate::{Dataset, Error, Random, Result};

/// Divides the examples at random so that each class has its share in each part, as far as whole
/// examples allow: the number of a class in a part differs by less than one from its fraction.
///
/// Where there are no classes, it is a plain random split. Parts are disjoint, sorted, and cover
/// all examples; the same seed gives the same parts. `fractions` must add up to 1.
///
/// Windows of a text that overlap, or lie side by side, are not independent examples: use [`sequential_split`] for
/// those.
pub fn stratified_split(
    dataset: &dyn Dataset,
    fractions: &[f64],
    seed: u64,
) -> Result<Vec<Vec<usize>>> {
    check(fractions)?;
    let mut groups: BTreeMap<Option<usize>, Vec<usize>> = BTreeMap::new();
    for index in 0..dataset.len() {
        groups.entry(dataset.label(index)).or_default().push(index);
    }
    let mut parts = vec![Vec::new(); fractions.len()];
    let mut owed = vec![0.0; fractions.len()];
    for (stream, group) in groups.values_mut().enumerate() {
        Random::new(&[seed, stream as u64]).shuffle(group);
        let mut rest = group.as_slice();
        for (part, count) in parts.iter_mut().zip(apportion(group.len(), fractions, &mut owed)) {
            let (taken, left) = rest.split_at(count);
            part.extend_from_slice(taken);
            rest = left;
        }
    }
    parts.iter_mut().for_each(|part| part.sort_unstable());
    Ok(parts)
}

/// Divides `len` examples in their order: the first fraction, the second, and so on.
pub fn sequential_split(len: usize, fractions: &[f64]) -> Result<Vec<Vec<usize>>> {
    check(fractions)?;
    let mut start = 0;
    let counts = apportion(len, fractions, &mut vec![0.0; fractions.len()]);
    let range = |count| {
        start += count;
        (start - count..start).collect()
    };
    Ok(counts.into_iter().map(range).collect())
}

fn check(fractions: &[f64]) -> Result<()> {
    let sum: f64 = fractions.iter().sum();
    let fine = fractions.iter().all(|f| (0.0..=1.0).contains(f)) && (sum - 1.0).abs() < 1e-6;
    if fine {
        return Ok(());
    }
    Err(Error::BadOption {
        option: "fractions",
        value: format!("{fractions:?}"),
        reason: format!("each must lie between 0 and 1 and they must add up to 1, not {sum}"),
    })
}

/// Whole shares of `count` by the method of largest remainders: each gets its share rounded down,
/// and those with the largest remainders one more until all is given.
///
/// What a part is `owed` from groups before this one counts with its remainder. Without that, a
/// small part would get nothing of many small classes, as it is never the one with the largest
/// remainder.
fn apportion(count: usize, fractions: &[f64], owed: &mut [f64]) -> Vec<usize> {
    let shares: Vec<f64> = fractions.iter().map(|f| f * count as f64).collect();
    // A share such as 0.1 * 30 can come out just below the whole number it is.
    let mut counts: Vec<usize> = shares.iter().map(|s| (s + 1e-9).floor() as usize).collect();
    let mut left = count.saturating_sub(counts.iter().sum());
    let mut order: Vec<usize> = (0..counts.len()).collect();
    let claim = |part: usize| shares[part] - counts[part] as f64 + owed[part];
    let claims: Vec<f64> = (0..counts.len()).map(claim).collect();
    // Parts that have their whole share come last; ties go to the first.
    let whole = |part: usize| shares[part] - (counts[part] as f64) < 1e-9;
    order.sort_by(|&a, &b| {
        whole(a).cmp(&whole(b)).then(claims[b].total_cmp(&claims[a])).then(a.cmp(&b))
    });
    for part in order {
        if left == 0 {
            break;
        }
        counts[part] += 1;
        left -= 1;
    }
    // Fractions that add up to a little less than 1 can leave more than one for each.
    if let (Some(first), true) = (counts.first_mut(), left > 0) {
        *first += left;
    }
    for (part, owed) in owed.iter_mut().enumerate() {
        *owed += shares[part] - counts[part] as f64;
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn largest_remainders() {
        let plain =
            |count, fractions: &[f64]| apportion(count, fractions, &mut vec![0.0; fractions.len()]);
        assert_eq!(plain(10, &[0.8, 0.1, 0.1]), [8, 1, 1]);
        assert_eq!(plain(30, &[0.9, 0.1]), [27, 3]);
        assert_eq!(plain(11, &[0.8, 0.2]), [9, 2]);
        assert_eq!(plain(3, &[0.5, 0.25, 0.25]), [1, 1, 1]);
        assert_eq!(plain(1, &[0.4, 0.6]), [0, 1]);
        assert_eq!(plain(0, &[1.0]), [0]);
        assert_eq!(plain(5, &[0.0, 1.0]), [0, 5]);
    }

    #[test]
    fn small_parts_get_their_share_of_many_small_classes() {
        let mut owed = [0.0; 2];
        let total: usize = (0..100).map(|_| apportion(2, &[0.9, 0.1], &mut owed)[1]).sum();
        assert_eq!(total, 20);
    }

    #[test]
    fn fractions_must_add_up() {
        for fractions in
            [&[][..], &[0.5], &[0.5, 0.6], &[-0.5, 1.5], &[f64::NAN, 1.0], &[f64::INFINITY]]
        {
            assert!(sequential_split(10, fractions).is_err(), "{fractions:?}");
        }
        let parts = sequential_split(10, &[0.7, 0.3]).unwrap();
        assert_eq!(parts, [(0..7).collect::<Vec<_>>(), (7..10).collect()]);
    }
}
