//! Numbers the classes of a data set: sorted names, so that the same names get the same numbers
//! whatever the order of the file.

use std::collections::HashMap;

use crate::{Error, Result};

/// The classes met so far, or those that were given.
pub(crate) struct Classes {
    numbers: HashMap<String, usize>,
    names: Vec<String>,
    given: bool,
}

impl Classes {
    /// Either the classes given, in their order, or none yet.
    pub fn new(given: Option<&[String]>) -> Result<Self> {
        let names = given.unwrap_or_default().to_vec();
        let mut numbers = HashMap::new();
        for (number, name) in names.iter().enumerate() {
            if numbers.insert(name.clone(), number).is_some() {
                return Err(Error::BadOption {
                    option: "classes",
                    value: format!("{names:?}"),
                    reason: format!("`{name}` is named twice; name each class once"),
                });
            }
        }
        Ok(Classes { numbers, names, given: given.is_some() })
    }

    /// The number of a class for now; `None` if it is not one of those given.
    pub fn number(&mut self, name: &str) -> Option<usize> {
        if let Some(&number) = self.numbers.get(name) {
            return Some(number);
        }
        if self.given {
            return None;
        }
        self.names.push(name.into());
        self.numbers.insert(name.into(), self.names.len() - 1);
        Some(self.names.len() - 1)
    }

    /// The names so far.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Whether what was taken for classes looks like measurements: numbers, and not whole ones.
    pub fn look_like_numbers(&self) -> bool {
        let numbers: Option<Vec<f64>> = self.names.iter().map(|n| n.parse().ok()).collect();
        !self.given && numbers.is_some_and(|n| n.iter().any(|x| x.fract() != 0.0))
    }

    /// Gives the classes their final numbers, also in `labels`, and returns their names. Classes
    /// that were given keep their order; others are sorted, as numbers if all are integers.
    pub fn finish(mut self, labels: &mut [i64]) -> Vec<String> {
        if self.given {
            return self.names;
        }
        let integers: Option<Vec<i128>> = self.names.iter().map(|n| n.parse().ok()).collect();
        let mut order: Vec<usize> = (0..self.names.len()).collect();
        order.sort_by(|&a, &b| {
            let by_name = self.names[a].cmp(&self.names[b]);
            match &integers {
                Some(integers) => integers[a].cmp(&integers[b]).then(by_name),
                None => by_name,
            }
        });
        let mut place = vec![0; order.len()];
        for (new, &old) in order.iter().enumerate() {
            place[old] = new as i64;
        }
        for label in labels {
            *label = place[*label as usize];
        }
        order.into_iter().map(|old| std::mem::take(&mut self.names[old])).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(names: &[&str]) -> (Vec<i64>, Vec<String>) {
        let mut classes = Classes::new(None).unwrap();
        let mut labels: Vec<i64> =
            names.iter().map(|n| classes.number(n).unwrap() as i64).collect();
        let names = classes.finish(&mut labels);
        (labels, names)
    }

    #[test]
    fn integers_are_sorted_as_numbers_and_names_as_text() {
        assert_eq!(number(&["10", "9", "-1", "9"]).1, ["-1", "9", "10"]);
        assert_eq!(number(&["10", "9", "-1", "9"]).0, [2, 1, 0, 1]);
        assert_eq!(number(&["10", "9", "b", "9"]).1, ["10", "9", "b"]);
        assert_eq!(number(&["cat", "ant", "bee"]).0, [2, 0, 1]);
    }

    #[test]
    fn given_classes_keep_their_order_and_admit_no_others() {
        let given = ["z".to_string(), "a".to_string()];
        let mut classes = Classes::new(Some(&given)).unwrap();
        assert_eq!(classes.number("a"), Some(1));
        assert_eq!(classes.number("b"), None);
        assert_eq!(classes.finish(&mut [1]), given);
        assert!(Classes::new(Some(&["a".into(), "a".into()])).is_err());
    }

    #[test]
    fn measurements_are_recognised() {
        let mut classes = Classes::new(None).unwrap();
        classes.number("1");
        classes.number("2.0");
        assert!(!classes.look_like_numbers());
        classes.number("2.5");
        assert!(classes.look_like_numbers());
        classes.number("red");
        assert!(!classes.look_like_numbers());
    }
}
